# SPDX-License-Identifier: Apache-2.0
"""Every parameter of every function of symm.h, as rows of a C++ table. parameters.py <header> > parameters.inc"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "abi"))
from header import parameters, parse

for function, prototype in parse(sys.argv[1]).functions.items():
    for type_name, name in parameters(prototype):
        print(f'{{"{function}", "{name}", "{type_name}"}},')
