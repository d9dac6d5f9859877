"""generate.py write|compare: what is made of symm.h and committed; `compare` fails where a committed file differs.
generate.py python <symm.h> <folder>: what the build of Python's package makes of it."""
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
    "bindings/julia/LibSymm.jl/src/generated.jl": julia.render,
}
PYTHON = {"_generated.py": python.classes, "_raw.pyi": python.stub}


def write(path, folder, targets):
    found = header.read(path)
    for name, render in targets.items():
        (folder / name).write_text(render(found), encoding="utf-8")


def compare(root):
    """The lines in which the committed files differ from what the header gives."""
    found = header.read(root / HEADER)
    for name, render in TARGETS.items():
        committed = (root / name).read_text(encoding="utf-8").splitlines(keepends=True)
        yield from difflib.unified_diff(committed, render(found).splitlines(keepends=True), name, "from symm.h")


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        write(ROOT / HEADER, ROOT, TARGETS)
    elif sys.argv[1:2] == ["python"]:
        write(sys.argv[2], Path(sys.argv[3]), PYTHON)
    elif sys.argv[1:] == ["compare"]:
        lines = list(compare(ROOT))
        sys.stdout.writelines(lines)
        sys.exit("run bindings/generator/generate.py write" if lines else None)
    else:
        sys.exit(__doc__)
