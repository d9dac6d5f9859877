"""Python's enums and dataclasses, how structs travel into
the extension, and the types of its functions, as text.
"""

import os
import re
import textwrap
from struct import calcsize

TITLE = '''"""{} Generated from symm.h by bindings/generator/generate.py."""
'''
WIDTH = 126
# The names of the package where they are not the header's own.
NAMES = {
    "symm_plan_info_t": "Plan",
    "symm_ipc_info_t": "ImportInfo",
    "symm_group_flag_values": "GroupFlag",
}
# What the package says in its own way.
LEFT_OUT = {
    "symm_dtype_values",
    "symm_log_level_values",
    "symm_alloc_flag_values",
    "symm_misc_values",
}


def classes(header):
    parts = [TITLE.format("The constants of the header, and the structs that the library fills.")]
    parts.append(
        "from dataclasses import dataclass\nfrom enum import IntFlag\nfrom typing import ClassVar\n\n"
        "from symm._values import Filled, OpenEnum\n"
    )
    comments = {enum_of(name): comment for name, (_, comment) in header.integers.items()}
    for enum in header.enums:
        if enum.name not in LEFT_OUT:
            kind = "OpenEnum" if enum.name in comments else "IntFlag"
            prefix = os.path.commonprefix([c.name for c in enum.constants]).rpartition("_")[0] + "_"
            lines = [
                f"{c.name.removeprefix(prefix).removeprefix('ERR_')} = {c.value}{remark(c.comment, '  #')}"
                for c in enum.constants
            ]
            parts.append(class_of(enum.name, kind, comments.get(enum.name, enum.comment), lines))
    for struct in filled(header):
        lines = [f'LAYOUT: ClassVar[str] = "{layout(struct)}"']
        lines += [
            f"{field.name}: {kind_of(field)}{remark(said(field), '  #:')}"
            for field in struct.fields[1:]
        ]
        parts.append(
            "@dataclass(frozen=True)\n" + class_of(struct.name, "Filled", struct.comment, lines)
        )
    return parts[0] + "\n" + "\n\n".join(parts[1:])


def filled(header):
    return [
        struct for struct in header.structs if re.search(r"Filled by symm_\w+\(\)", struct.comment)
    ]


def enum_of(typedef):
    return typedef.removesuffix("_t") + "_values"


def name_of(name):
    stem = re.sub(r"^symm_|_t$|_values$", "", name)
    return NAMES.get(name) or "".join(part.capitalize() for part in stem.split("_"))


def class_of(name, base, comment, lines):
    comment = re.sub(r"\s*Filled by symm_\w+\(\)\.", "", " ".join(comment.split()))
    summary, rest = re.fullmatch(r"(.*?[.:])(?: (.*))?", comment).groups()
    text = '"""' + summary + (f"\n\n{textwrap.fill(rest, WIDTH)}\n" if rest else "") + '"""'
    return (
        f"class {name_of(name)}({base}):\n"
        + textwrap.indent("\n".join([text, "", *lines]), "    ")
        + "\n"
    )


def remark(comment, lead):
    return f"{lead} {' '.join(comment.split())}" if comment else ""


def is_bool(field):
    """The header's ints that are 0 or 1."""
    return field.type.name == "int32_t" and re.match(r"[01] (if|once) ", field.comment) is not None


def said(field):
    """The comment, of a bool in Python's words."""
    text = re.sub(r"\bis 0\b", "is False", field.comment)
    return (
        re.sub(r"^1 if\b", "whether", re.sub(r"^0 once\b", "False once", text))
        if is_bool(field)
        else text
    )


def kind_of(field):
    if field.type.kind == "array":
        return "str" if field.type.of.name == "char" else "tuple[int, ...]"
    return (
        name_of(field.type.name)
        if field.type.name.startswith("symm_")
        else "bool"
        if is_bool(field)
        else "int"
    )


def layout(struct):
    """As the package struct names the fields, without
    struct_size; it must place them where the compiler does.
    """
    letters = ["8x"]
    for field in struct.fields[1:]:
        letters.append(letter(field.type))
        if calcsize(" ".join(letters)) != field.offset + field.bytes:
            raise SystemExit(
                f"{struct.name}.{field.name} is not where the package struct looks for it"
            )
    return " ".join(letters)


def letter(type_):
    if type_.kind == "array" and type_.of.name == "char":
        return f"{type_.count}s"
    if type_.kind == "array":
        return f"{type_.count}{letter(type_.of)}"
    if type_.kind == "pointer":
        return "Q"
    letters = {(4, True): "i", (4, False): "I", (8, True): "q", (8, False): "Q"}
    return letters[type_.bytes, type_.signed]


# ---- what native/structs.i and values.i say once, of each
# ----------------------------------------------------------

# Which values.i has by hand: lists, and what is written only if the caller wants it.
BY_HAND = {"out_links", "out_ranks", "out_seen", "out_index"}
TO_PYTHON = {
    "int32_t": "PyLong_FromLong",
    "size_t": "PyLong_FromSize_t",
    "uint64_t": "PyLong_FromUnsignedLong",
}


def interface(header):
    structs = {struct.name: struct for struct in header.structs}
    lines = {f"HANDLE({name})": None for name in header.handles}  # each once
    for name, type_ in (
        parameter for function in header.functions for parameter in function.parameters
    ):
        of = type_.of or type_
        if of.kind == "struct" and name == "out":
            lines[f"OUT_STRUCT({of.name})"] = None
        elif of.kind == "struct" and type_.const and name != "waits":
            lines[taken(structs[of.name], name)] = None
        elif of.kind == "integer" and name.startswith("out_") and name not in BY_HAND:
            lines[
                f"OUT_INTEGER({of.name}, {name}, {TO_PYTHON.get(of.name, 'PyLong_FromLong')})"
            ] = None
    return "\n".join(lines) + "\n"


def taken(struct, name):
    """What the caller fills: a tuple of what comes after struct_size. Of options all have
    defaults, and a failure is an exception.
    """
    fields = [field for field in struct.fields if field.name not in ("struct_size", "failure")]
    how = " ".join(f"{field.name}:{read_as(field.type)}" for field in fields)
    first = "|" if name == "options" else ""
    defaults = struct.name.removesuffix("_t").upper() + "_INIT"
    places = ", ".join(f"&given.{field.name}" for field in fields)
    return f'STRUCT({struct.name}, {name}, {defaults}, "{first}{how}", {places})'


def read_as(type_):
    """As symm_py_fields() names it."""
    if type_.kind == "pointer":
        return {"char": "z", "size_t": "s"}.get(
            type_.of.name, "O" if type_.of.kind == "struct" else "p"
        )
    return "d" if type_.kind == "double" else {4: "i", 8: "u"}[type_.bytes]


# ---- the stub of the extension
# -----------------------------------------------------------------------------

# How native/*.i let parameters travel: parameters of C in a row, what stands for them
# in Python, and what they add to the result.
TRAVEL = [
    ("ranks count", "ranks: Sequence[int] | None", None),
    ("out_links capacity", "capacity: int", "list[int]"),
    ("out_ranks capacity out_count", "capacity: int", "list[int]"),
    ("out_token capacity out_size", None, "bytes"),
    ("waits count", "waits: Sequence[tuple[int, int, int, int]]", None),
    ("out_seen", "wants_seen: bool", "int | None"),
    ("out_index", "wants_index: bool", "int | None"),
    ("token token_size", "token: bytes", None),
]

OWN = """
def set_error_factory(factory: Any) -> None: ...
def array_struct_read(capsule: object) -> tuple[int, int, int, bool, bool, bool]: ...
def dlpack_read(capsule: object) -> tuple[int, int, int, int, int, bool, bool, tuple[int, ...]]: ...
def dlpack_make(owner: object, address: int, dtype: int, shape: tuple[int, ...], device_type: int, device_id: int, versioned: int) -> object: ...
def make_exporter_type() -> type: ...
def pool_open(heap: int, group: int) -> int: ...
def pool_close(number: int) -> None: ...
def xla_handler(device: int) -> Any: ...
"""


def stub(header):
    # beyond are what the extension has no word for
    names = [m.name for m in header.macros if m.value < 2**64 - 2]
    names += [constant.name for enum in header.enums for constant in enum.constants]
    constants = "\n".join(f"{name}: int" for name in names)
    functions = "\n".join(
        signature(function)
        for function in header.functions
        if not function.name.endswith("_init") and function.name != "symm_log_add_listener"
    )
    return (
        TITLE.format("What native/raw.i makes of the header.")
        + "\nfrom collections.abc import Sequence\nfrom typing import Any\n\n_Address = int | None\n\n"
        + f"{constants}\n\n{functions}\n{OWN.lstrip()}"
    )


def signature(function):
    taken, results, rest = [], [], list(function.parameters)
    while rest:
        for row, parameter, result in TRAVEL:
            if " ".join(name for name, _ in rest[: len(row.split())]) == row:
                break
        else:
            row, (parameter, result) = rest[0][0], travels(*rest[0])
        rest = rest[len(row.split()) :]
        taken += [parameter] if parameter else []
        results += [result] if result else []
    if function.result.name != "symm_status_t" and function.result.kind != "void":
        results.append("str" if function.result.kind == "pointer" else "int")
    answer = (
        "None"
        if not results
        else results[0]
        if len(results) == 1
        else f"tuple[{', '.join(results)}]"
    )
    return f"def {function.name}({', '.join(taken)}) -> {answer}: ..."


def travels(name, type_):
    """(the parameter in Python, what it adds to the result) of one parameter of C."""
    if type_.kind == "integer":
        return f"{name}: int", None
    if name.startswith("out"):
        return None, "bytes" if type_.of.kind == "struct" else "int"
    if type_.of.kind == "struct":
        return f"{name}: tuple[Any, ...]{' | None' if name == 'options' else ''}", None
    if type_.of.name in ("char", "size_t"):
        return f"{name}: {'str' if type_.of.name == 'char' else 'Sequence[int]'} | None", None
    return f"{name}: _Address", None
