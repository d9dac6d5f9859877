# SPDX-License-Identifier: Apache-2.0
"""generate.py write|compare: what is made of symm.h and committed; `compare` fails where a committed file differs."""
import difflib
import sys
from pathlib import Path

import golden
import header
import julia
import python

ROOT = Path(__file__).resolve().parents[2]
HEADER = "capi/include/symm/symm.h"
TARGETS = {
    "tests/abi/layout.txt": golden.render,
    "bindings/julia/Symm.jl/src/generated.jl": julia.render,
    "bindings/python/src/symm/_generated.py": python.classes,
    "bindings/python/src/symm/_raw.pyi": python.stub,
}


def compare(root):
    """The lines in which the committed files differ from what the header gives."""
    found = header.read(root / HEADER)
    for name, render in TARGETS.items():
        committed = (root / name).read_text(encoding="utf-8").splitlines(keepends=True)
        yield from difflib.unified_diff(committed, render(found).splitlines(keepends=True), name, "from symm.h")


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        read = header.read(ROOT / HEADER)
        for target, make in TARGETS.items():
            (ROOT / target).write_text(make(read), encoding="utf-8")
    elif sys.argv[1:] == ["compare"]:
        lines = list(compare(ROOT))
        sys.stdout.writelines(lines)
        sys.exit("run bindings/generator/generate.py write" if lines else None)
    else:
        sys.exit(__doc__)
