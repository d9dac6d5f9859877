# SPDX-License-Identifier: Apache-2.0
"""check.py [--library <libsymm.so>] [--swig <wrapper.c>]: is every function, struct and constant of symm.h the same in the export map, the
built library, the golden layout, and the bindings of Rust, Julia and Python? Names, arity, widths, sizes, offsets, values."""
import argparse
import sys
from pathlib import Path

import abi
import header
import sources


def compare(name, expected, found, ignore=()):
    lines = list(abi.differences(expected, found, ignore))
    counts = [f"{len(getattr(found, what))} {what}" for what in ("functions", "structs", "constants") if getattr(found, what)]
    if not counts:
        lines.append("nothing was recognised in it")
    print(f"{name}: {', '.join(counts)}: " + ("as in symm.h" if not lines else f"{len(lines)} differences"))
    for line in lines:
        print(f"  {line}")
    return not lines


def check(root, library=None, swig=None):
    expected = abi.of_header(header.read(root / "capi/include/symm/symm.h"))
    version = [name for name in expected.constants if name.startswith("SYMM_VERSION")]
    results = [
        compare("export map", expected, sources.export_map(read(root / "capi/symm.map"))),
        compare("golden layout", expected, sources.golden_layout(read(root / "tests/abi/layout.txt")), version),
        compare("Julia", expected, sources.julia(read(root / "bindings/julia/Symm.jl/src/generated.jl"))),
    ]
    if library:
        results.append(compare("library", expected, sources.symbols(library)))
    else:
        print("library: SKIPPED, none was named")
    rust = root / "bindings/rust/symm-sys/src/generated"
    if rust.is_dir():
        types = sources.rust_types(read(rust / "types.rs"))
        results.append(compare("Rust, types", expected, types))
        for name in ("api.rs", "linked.rs"):
            results.append(compare(f"Rust, {name}", expected, sources.rust_functions(read(rust / name), types)))
    else:
        print("Rust: SKIPPED, there is no bindings/rust/symm-sys/src/generated")
    if swig:
        # Defaults of structs are set in the extension's C, where the structs are filled.
        defaults = [name for name in expected.functions if name.endswith("_init")]
        results.append(compare("Python", expected, sources.swig(read(swig), expected.integers), defaults))
    else:
        print("Python: SKIPPED, SWIG's output was not named, and is not committed")
    return all(results)


def read(path):
    return Path(path).read_text(encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library")
    parser.add_argument("--swig")
    options = parser.parse_args()
    sys.exit(not check(Path(__file__).resolve().parents[2], options.library, options.swig))
