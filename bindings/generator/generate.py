"""Makes files from symm.h and fused.h.

generate.py write: the files that are committed.
generate.py compare: fails where a committed file differs from the one that would be made.
generate.py python|fortran <folder of the headers> <folder>: the files that a build makes, those of
Python's package or Fortran's module, which every build has.
"""

import difflib
import re
import sys
from pathlib import Path

import fortran
import header
import julia
import python


def layout(found):
    """tests/abi/layout.txt and fused.txt: what a compiled caller relies on, as text: sizes,
    offsets, values, prototypes. Every language is compared with them.

    Each line is one fact, begins with its kind and can be read alone.
    """
    return "".join(f"{line}\n" for line in layout_lines(found))


def layout_lines(found):
    for name, (type_, _) in found.integers.items():
        yield f"typedef {name} size {type_.bytes} signed {int(type_.signed)}"

    for enum in found.enums:
        for constant in enum.constants:
            yield f"enumerator {enum.name} {constant.name} {constant.value}"

    for macro in found.macros:
        # The version says which header it is, and is no promise. But functions of fused.h carry the
        # major version of that header.
        if not re.match("SYMM_VERSION|SYMM_FUSED_VERSION(_MINOR)?$", macro.name):
            yield f"macro {macro.name} 0x{macro.value:x}"

    for struct in found.structs:
        yield f"struct {struct.name} size {struct.bytes} align {struct.alignment}"
        for field in struct.fields:
            yield f"field {struct.name}.{field.name} offset {field.offset} size {field.bytes}"

    for name in found.handles:
        yield f"handle {name}"

    for form, _ in found.callbacks.values():
        yield f"callback {form}"

    for function in found.functions:
        yield f"function {function.prototype}"


ROOT = Path(__file__).resolve().parents[2]
FOLDER = "capi/include/symm"
HEADER = f"{FOLDER}/symm.h"
FUSED = f"{FOLDER}/fused.h"
# What is made of which headers. Each tier has a layout of its own: that of symm.h only grows, and
# that of fused.h may change with the version of that header.
TARGETS = {
    "tests/abi/layout.txt": (layout, [HEADER]),
    "tests/abi/fused.txt": (layout, [FUSED]),
    "bindings/julia/LibSymm.jl/src/generated.jl": (julia.render, [HEADER, FUSED]),
}
MADE = {
    "python": {
        "_generated.py": python.classes,
        "_raw.pyi": python.stub,
        "generated.i": python.interface,
    },
    "fortran": {"symm.f90": fortran.render},
}


def write(root):
    for name, (render, headers) in TARGETS.items():
        found = header.read(*(root / one for one in headers))
        (root / name).write_text(render(found), encoding="utf-8")


def make(language, headers, folder):
    found = header.read(headers / "symm.h", headers / "fused.h")
    for name, render in MADE[language].items():
        (folder / name).write_text(render(found), encoding="utf-8")


def compare(root):
    """The lines in which the committed files differ from what the headers give, and comments of
    the headers that no language gets.
    """
    yield from header.stray_comments(root / HEADER)
    yield from header.stray_comments(root / FUSED)
    for name, (render, headers) in TARGETS.items():
        found = header.read(*(root / one for one in headers))
        committed = (root / name).read_text(encoding="utf-8").splitlines(keepends=True)
        said = "from " + " and ".join(Path(one).name for one in headers)
        yield from difflib.unified_diff(
            committed, render(found).splitlines(keepends=True), name, said
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        write(ROOT)
    elif len(sys.argv) == 4 and sys.argv[1] in MADE:
        make(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:] == ["compare"]:
        lines = list(compare(ROOT))
        sys.stdout.writelines(lines)
        if any("belongs to no declaration" in line for line in lines):
            sys.exit(f"put each comment of {FOLDER} before its declaration")
        sys.exit("run bindings/generator/generate.py write" if lines else None)
    else:
        sys.exit(__doc__)
