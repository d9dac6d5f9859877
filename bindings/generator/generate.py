# SPDX-License-Identifier: Apache-2.0
"""generate.py write|compare: Julia's generated layer from the header; `compare` fails where the committed file differs."""
import difflib
import sys
from pathlib import Path

import header
import julia

root = Path(__file__).resolve().parents[2]
target = root / "bindings/julia/Symm.jl/src/generated.jl"
text = julia.render(header.read(root / "capi/include/symm/symm.h"))
if sys.argv[1:] == ["write"]:
    target.write_text(text, encoding="utf-8")
elif sys.argv[1:] == ["compare"]:
    committed = target.read_text(encoding="utf-8").splitlines(keepends=True)
    difference = list(difflib.unified_diff(committed, text.splitlines(keepends=True), "generated.jl", "from symm.h"))
    sys.stdout.writelines(difference)
    print("generated.jl: " + ("differs from what symm.h gives; run bindings/julia/dev generate" if difference else "as symm.h gives it"))
    sys.exit(bool(difference))
else:
    sys.exit(__doc__)
