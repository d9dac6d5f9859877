"""Python's enums and records, the conversion of structs for the extension, and the stub of
the extension, as text.
"""

import os
import re
import textwrap
from struct import calcsize

from prose import filled, one_line

TITLE = '''"""{}

Generated from symm.h by bindings/generator/generate.py.
"""
'''
IMPORTS = """
from enum import IntFlag

from symm._values import Filled, OpenEnum
"""
INDENT = "    "
WIDTH = 96 - len(INDENT)  # of what stands in a class
# Names of the package that differ from those of the header.
NAMES = {
    "symm_plan_info_t": "Plan",
    "symm_group_peer_info_t": "PeerInfo",
    "symm_ipc_info_t": "ImportInfo",
}
# Enums that the package has in another form.
LEFT_OUT = {
    "symm_dtype_values",
    "symm_log_level_values",
    "symm_message_kind_values",
    "symm_wait_mode_values",
}
# The sets of flags that the library answers, by the first struct of their heading, as a class and
# its comment. All other flags are parameters of the package.
FLAGS = {
    "symm_group_config_t": ("GroupFlag", "Flags of a group, as `Group.info()` tells them."),
    "symm_buffer_info_t": ("BufferFlag", "Flags of a buffer, as `Buffer.info()` tells them."),
}


def classes(header):
    comments = {enum_of(name): comment for name, (_, comment) in header.integers.items()}
    parts = [
        TITLE.format("The constants of the header, and the structs that the library fills.")
        + IMPORTS
    ]
    parts += [enum_class(enum, comments) for enum in header.enums if enum.name not in LEFT_OUT]
    parts += [flag_class(flags) for flags in header.flags if flags.name in FLAGS]
    parts += [struct_class(struct, header.flags) for struct in filled_structs(header)]
    return "\n\n".join(parts)


def enum_class(enum, comments):
    return class_of(
        name_of(enum.name), "OpenEnum", comments.get(enum.name, enum.comment), members_of(enum)
    )


def flag_class(flags):
    name, comment = FLAGS[flags.name]
    return class_of(name, "IntFlag", comment, members_of(flags))


def members_of(enum):
    prefix = os.path.commonprefix([c.name for c in enum.constants]).rpartition("_")[0] + "_"
    return [
        remarked(f"{c.name.removeprefix(prefix).removeprefix('ERR_')} = {c.value}", "# ", c.comment)
        for c in enum.constants
    ]


def struct_class(struct, flags):
    members = [f"LAYOUT = {quoted(layout(struct))}"]
    members += [
        remarked(f"{field.name}: {kind_of(field, struct, flags)}", "#: ", said(field))
        for field in struct.fields[1:]
    ]
    return class_of(name_of(struct.name), "Filled", struct.comment, members)


def filled_structs(header):
    return [
        struct
        for struct in header.structs
        if re.search(r"Filled by symm_\w+\(\)", one_line(struct.comment))
    ]


def enum_of(typedef):
    return typedef.removesuffix("_t") + "_values"


def name_of(name):
    stem = re.sub(r"^symm_|_t$|_values$", "", name)
    return NAMES.get(name) or "".join(part.capitalize() for part in stem.split("_"))


def class_of(name, base, comment, members):
    comment = re.sub(r"\s*Filled by symm_\w+\(\)(?: and symm_\w+\(\))*\.", "", one_line(comment))
    summary, rest = re.fullmatch(r"(.*?[.:])(?: (.*))?", comment).groups()
    text = '"""' + summary + (f"\n\n{filled(rest, WIDTH)}\n" if rest else "") + '"""'
    inside = textwrap.indent("\n".join([text, "", *members]), INDENT)
    return f"class {name}({base}):\n{inside}\n"


def remarked(line, mark, comment):
    """A remark behind the line if it fits, and else above it."""
    behind = f"{line}  {mark}{one_line(comment)}"
    if not comment:
        return line
    return behind if len(behind) <= WIDTH else f"{filled(comment, WIDTH, mark)}\n{line}"


def quoted(text):
    """A string literal, of several lines if it must be."""
    one = f'"{text}"'
    if len(one) <= WIDTH - len("LAYOUT = "):
        return one
    lines = textwrap.wrap(text, WIDTH - 8)
    return "\n".join(
        ["(", *(f'{INDENT}"{line} "' for line in lines[:-1]), f'{INDENT}"{lines[-1]}"', ")"]
    )


def is_bool(field):
    """Whether a field is an int of the header that is 0 or 1."""
    return field.type.name == "int32_t" and re.match(r"[01] (if|once) ", field.comment) is not None


def said(field):
    """The comment, of a bool in Python's words."""
    text = re.sub(r"\bis 0\b", "is False", field.comment)
    if not is_bool(field):
        return text
    return re.sub(r"^1 if\b", "whether", re.sub(r"^0 once\b", "False once", text))


def kind_of(field, struct, flags):
    if field.name == "flags":
        owners = [set_ for set_ in flags if set_.name in FLAGS and struct.name in set_.comment]
        return FLAGS[owners[0].name][0] if owners else "int"
    if field.type.kind == "array":
        return "str" if field.type.of.name == "char" else "tuple[int, ...]"
    if field.type.name.startswith("symm_"):
        return name_of(field.type.name)
    return "bool" if is_bool(field) else "int"


def layout(struct):
    """The format of the package struct for the fields, without struct_size. The package must place
    them where the compiler does.
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


# ---- calls of the macros of native/structs.i and values.i ----

# Parameters that values.i has by hand: lists, and values that are written only if the caller wants
# them.
BY_HAND = {"out_links", "out_ranks", "out_seen", "out_index", "out_lengths"}
TO_PYTHON = {
    "int32_t": "PyLong_FromLong",
    "size_t": "PyLong_FromSize_t",
    "uint32_t": "PyLong_FromUnsignedLong",
    "uint64_t": "PyLong_FromUnsignedLong",
}


def interface(header):
    structs = {struct.name: struct for struct in header.structs}
    lines = {f"HANDLE({name})": None for name in header.handles}  # keys, so that each comes once
    for function in header.functions:
        for name, type_ in function.parameters:
            if line := typemap(structs, name, type_):
                lines[line] = None
        if blocks_only(structs, function):
            lines[f"BLOCKS({function.name})"] = None
    return "\n".join(lines) + "\n"


def blocks_only(structs, function):
    """Whether a call blocks, as its tags say, and no request can be had for it."""
    if "[blocking" not in function.comment:
        return False
    taken_structs = [
        structs[(type_.of or type_).name]
        for _, type_ in function.parameters
        if (type_.of or type_).name in structs
    ]
    return not any(field.name == "request" for one in taken_structs for field in one.fields)


def typemap(structs, name, type_):
    """How a parameter travels, if native/*.i do not say it by hand."""
    of = type_.of or type_
    if of.name == "symm_ipc_piece_t":
        return None
    if of.kind == "struct" and name == "out":
        return f"OUT_STRUCT({of.name})"
    if (
        of.kind == "struct"
        and type_.const
        and name not in ("waits", "calls", "messages", "neighbors")
    ):
        return taken(structs[of.name], name)
    if of.kind == "integer" and name.startswith("out_") and name not in BY_HAND:
        return f"OUT_INTEGER({of.name}, {name}, {TO_PYTHON.get(of.name, 'PyLong_FromLong')})"
    return None


def taken(struct, name):
    """A struct that the caller fills: a tuple of the fields after struct_size. All fields of
    options have defaults. The place of a failure is left out: a failure is an exception. So is that
    of a request, which request_call() of native/requests.c gives. Also left out are the structs
    that a call of a collective refers to; native/support.c reads these for batches.
    """
    left_out = ["struct_size", "failure", "request"]
    if struct.name == "symm_collective_call_t":
        left_out += ["fused", "fused_version", "options"]
    fields = [field for field in struct.fields if field.name not in left_out]
    how = " ".join(
        f"{field.name}:{'b' if is_bytes(struct, field) else read_as(field.type)}"
        for field in fields
    )
    first = "|" if name == "options" else ""
    defaults = struct.name.removesuffix("_t").upper() + "_INIT"
    places = ",\n".join(f"  &given.{field.name}" for field in fields)
    names = "\n".join(
        f'  "{line}"' for line in textwrap.wrap(first + how, 90, drop_whitespace=False)
    )
    macro = "STRUCT_OF_CALL" if "request" in {field.name for field in struct.fields} else "STRUCT"
    return f"{macro}({struct.name}, {name}, {defaults},\n{names},\n{places})"


def is_bytes(struct, field):
    """Whether a field is the address of bytes, of which another field has the number."""
    names = {other.name for other in struct.fields}
    is_untyped = field.type.kind == "pointer" and field.type.of.kind == "void"
    return is_untyped and f"{field.name}_bytes" in names


def read_as(type_):
    """The letter of a type in the format of symm_py_fields()."""
    if type_.kind == "pointer":
        return {"char": "z", "size_t": "s", "symm_piece_t": "p"}.get(
            type_.of.name, "O" if type_.of.kind == "struct" else "p"
        )
    return "d" if type_.kind == "double" else {4: "i", 8: "u"}[type_.bytes]


# ---- the stub of the extension ----

# The parameters of C that native/*.i convert together: their names, the parameter in Python, and
# the type that they add to the result.
TRAVEL = [
    ("ranks count", "ranks: Sequence[int] | None", None),
    ("out_links capacity out_count", "capacity: int", "list[int]"),
    ("out_ranks capacity out_count", "capacity: int", "list[int]"),
    ("out_token capacity out_bytes", None, "bytes"),
    ("out_id capacity out_bytes", None, "bytes"),
    ("out_ticket capacity out_bytes", None, "bytes"),
    ("waits count", "waits: Sequence[tuple[int, int, int, int]]", None),
    ("calls count", "calls: Sequence[tuple[tuple[Any, ...] | None, ...]]", None),
    (
        "messages count",
        "messages: Sequence[tuple[int, int, int, _Address, _Address, int]]",
        None,
    ),
    ("out_lengths", None, "list[int]"),
    (
        "neighbors count",
        "neighbors: Sequence[tuple[int, _Address, int, _Address, int, _Address, int, int]]",
        None,
    ),
    ("requests count", "requests: Sequence[int]", None),
    (
        "pieces count",
        "pieces: Sequence[tuple[_Address, int, str | None, bytes, int]]",
        None,
    ),
    ("send_ranks send_count", "send_ranks: Sequence[int]", None),
    ("recv_ranks recv_count", "recv_ranks: Sequence[int]", None),
    ("out_seen", "wants_seen: bool", "int | None"),
    ("out_index", "wants_index: bool", "int | None"),
    ("token token_bytes", "token: bytes | None", None),
    ("ticket ticket_bytes", "ticket: bytes", None),
]

OWN = """
def set_error_factory(factory: Any) -> None: ...
def array_struct_read(capsule: object) -> tuple[int, int, int, bool, bool, bool]: ...
def dlpack_read(capsule: object) -> tuple[int, int, int, int, int, bool, bool, tuple[int, ...]]: ...
def dlpack_make(
    owner: object,
    address: int,
    dtype: int,
    shape: tuple[int, ...],
    device_type: int,
    device_id: int,
    versioned: int,
) -> object: ...
def make_exporter_type() -> type: ...
def pool_open(heap: int, group: int) -> int: ...
def pool_open_of_buffers(group: int) -> int: ...
def pool_buffers(number: int) -> list[int]: ...
def pool_close(number: int) -> None: ...
def pressure_add(callable: object) -> int: ...
def pressure_remove(number: int, callable: object) -> None: ...
def reduce_by(
    group: int,
    collective: int,
    send: _Address,
    recv: _Address,
    count: int,
    element_bytes: int,
    function: object,
    root: int,
    timeout_ms: int,
) -> None: ...
def xla_handler(device: int) -> Any: ...
def request_call(
    call: object, args: tuple[Any, ...], kwargs: dict[str, Any], kept: list[object]
) -> tuple[int, Any]: ...
def request_over(handle: int) -> bool: ...
"""


STUB_START = """
from collections.abc import Sequence
from typing import Any

_Address = int | None

"""


# The functions that raw.i ignores.
WITHOUT_PYTHON = (
    "symm_log_add_listener",
    "symm_thread_interrupt",
    "symm_memory_pressure_add_listener",
    "symm_memory_pressure_remove_listener",
    "symm_reduce_by",
)


def stub(header):
    # The extension has no names for the two largest numbers of 64 bits.
    names = [m.name for m in header.macros if m.value < 2**64 - 2]
    names += [constant.name for enum in header.enums for constant in enum.constants]
    constants = "\n".join(f"{name}: int" for name in names)
    functions = "\n".join(
        signature(function) for function in header.functions if function.name not in WITHOUT_PYTHON
    )

    return (
        TITLE.format("What native/raw.i makes of the header.")
        + STUB_START
        + f"{constants}\n\n{functions}\n{OWN.lstrip()}"
    )


def signature(function):
    taken = []
    results = []
    rest = list(function.parameters)
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

    if len(results) > 1:
        answer = f"tuple[{', '.join(results)}]"
    else:
        answer = results[0] if results else "None"
    line = f"def {function.name}({', '.join(taken)}) -> {answer}: ..."
    if len(line) <= 100:
        return line
    lines = [f"{INDENT}{parameter}," for parameter in taken]
    return "\n".join([f"def {function.name}(", *lines, f") -> {answer}: ..."])


def travels(name, type_):
    """The parameter in Python, and the type that is added to the result, of one parameter of C."""
    if type_.kind == "integer":
        return f"{name}: int", None
    if type_.of.name == "symm_ipc_piece_t":
        return None, "tuple[int, int, str | None, bytes]"
    if name.startswith("out"):
        return None, "bytes" if type_.of.kind == "struct" else "int"
    if type_.of.kind == "struct":
        return f"{name}: tuple[Any, ...]{' | None' if name == 'options' else ''}", None
    if type_.of.name in ("char", "size_t"):
        return f"{name}: {'str' if type_.of.name == 'char' else 'Sequence[int]'} | None", None
    return f"{name}: _Address", None
