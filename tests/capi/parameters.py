"""Every parameter of every function of symm.h, as rows of a C++ table. parameters.py <folder of layout.py> > parameters.inc"""
import sys

sys.path.insert(0, sys.argv[1])
from layout import functions

for function, parameters in functions().items():
    for type_name, name in parameters:
        type_name = type_name.replace(" *", "*")
        print(f'{{"{function}", "{name}", "{type_name}"}},')
