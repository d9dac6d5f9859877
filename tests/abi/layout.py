# SPDX-License-Identifier: Apache-2.0
"""What a compiled caller relies on, as text: sizes, offsets, values, prototypes. layout.py <header> <C compiler> > layout.txt"""
import subprocess
import sys
import tempfile
from pathlib import Path

from header import parse

header_path, compiler = Path(sys.argv[1]).resolve(), sys.argv[2]
header = parse(header_path)

# What is a value of the ABI among the macros; the rest describes the header itself or is spelt out by the structs.
values = [name for name in header.macros
          if not name.startswith("SYMM_VERSION") and not name.endswith("_INIT") and name not in ("SYMM_API", "SYMM_SYMM_H")]

lines = ['#include <stdio.h>', '#include "symm/symm.h"', "int main(void) {"]
for name in header.typedefs:
    lines.append(f'  printf("typedef {name} size %zu signed %d\\n", sizeof({name}), ({name})-1 < ({name})0);')
for name, constants in header.enums.items():
    lines.append(f'  printf("\\nenum {name}\\n");')
    lines += [f'  printf("  {constant} %lld\\n", (long long){constant});' for constant in constants]
lines.append('  printf("\\n");')
lines += [f'  printf("macro {name} 0x%llx\\n", (unsigned long long){name});' for name in values]
for name, fields in header.structs.items():
    lines.append(f'  printf("\\nstruct {name} size %zu align %zu\\n", sizeof({name}), _Alignof({name}));')
    lines += [f'  printf("  {f} offset %zu size %zu\\n", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));' for f in fields]
lines += ["  return 0;", "}"]

with tempfile.TemporaryDirectory() as scratch:
    source, program = Path(scratch, "layout.c"), Path(scratch, "layout")
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    subprocess.run([*compiler.split(), "-std=c11", "-I", header_path.parent.parent, source, "-o", program], check=True)
    print(subprocess.run([program], check=True, capture_output=True, text=True).stdout)

print("\n".join(f"handle {name}" for name in header.handles))
print()
print("\n".join([*header.callbacks.values(), *header.functions.values()]))
