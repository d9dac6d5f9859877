# SPDX-License-Identifier: Apache-2.0
"""The one C program in the README. readme_example.py README.md > example.c"""
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    programs = re.findall(r"^```c\n(.*?)^```$", file.read(), flags=re.M | re.S)
if len(programs) != 1:
    sys.exit(f"{sys.argv[1]}: one ```c block is expected, there are {len(programs)}")
print(programs[0], end="")
