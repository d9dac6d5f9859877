"""Writes the functions of the fake NCCL that only note their arguments.

fake.py <functions.txt> <fake.cpp> <newest version> <output>
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bindings/nccl"))
import generate

functions, source, newest, output = sys.argv[1:]
own = set(re.findall(r"^FAKE\([^,]+, (nccl\w+),", Path(source).read_text(), re.M))
number = lambda version: [int(part) for part in version.split(".")]
with open(output, "w") as file:
    for function in generate.read(Path(functions)):
        if number(function.since) > number(newest):
            continue
        for prefix in ("", "p"):
            if prefix == "p" or function.name not in own:
                file.write(f"FAKE_NOTED({prefix}{function.name})\n")
