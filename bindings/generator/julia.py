"""Julia's ccall layer as text: constants, struct mirrors,
and one function for each function of the header.
"""

import re

from header import packed

TITLE = """# Generated from symm.h by bindings/generator. Do not edit: `bindings/generator/generate.py write` writes it, a test compares.
#
# Every name and every meaning is the header's, which says at length what is here in a sentence. `@call` and `@waiting` are in call.jl."""

PLAIN = {"size_t": "Csize_t", "char": "UInt8"}  # char arrays are text; UTF-8 is bytes


def render(header):
    known = {struct.name: struct for struct in header.structs}
    parts = [TITLE]
    parts.append(packed([constant(m.name, integer(m), m.value) for m in header.macros]))
    enums = {enum.name: enum for enum in header.enums}
    for name, (type_, comment) in header.integers.items():
        # the header has one beside each integer type
        values = enums.pop(name.removesuffix("_t") + "_values")
        if name == "symm_status_t":  # users see it; all others are symbols to them
            members = packed([f"{c.name} = {c.value}" for c in values.constants], "    ", "    ")
            parts.append(
                documented(comment) + f"@enum {name}::{integer(type_)} begin\n{members}\nend"
            )
            continue
        parts.append(
            documented(comment) + f"const {name} = {integer(type_)}\n" + constants(values, name)
        )
    for enum in enums.values():
        lead = f"# {one_line(enum.comment)}\n" if enum.comment else ""
        parts.append(lead + constants(enum, "Int32"))
    parts.append(
        "\n".join(
            documented(comment) + f"mutable struct {name} end"
            for name, comment in header.handles.items()
        )
    )
    parts += [
        documented(comment) + f"const {name} = Ptr{{Cvoid}}"
        for name, (_, comment) in header.callbacks.items()
    ]
    parts += [mirror(struct) for struct in header.structs]
    parts.append("const STRUCTS = (" + ", ".join(known) + ")")
    parts.append("\n".join(wrapper(function, known) for function in header.functions))
    return "\n".join(part.rstrip() for part in parts) + "\n"


def integer(type_):
    return f"{'' if type_.signed else 'U'}Int{8 * type_.bytes}"


def constant(name, type_, value):
    literal = f"0x{value:x}" if type_.startswith("UInt") else str(value)
    return f"const {name} = {type_}({literal})"


def constants(enum, type_):
    return packed([constant(c.name, type_, c.value) for c in enum.constants])


def julia_type(type_):
    if type_.kind == "void":
        return "Cvoid"
    if type_.kind == "integer":
        if type_.name.startswith("symm_"):
            return type_.name
        return PLAIN.get(type_.name) or integer(type_)
    if type_.kind == "double":
        return "Cdouble"
    if type_.kind == "callback":
        return "Ptr{Cvoid}"
    if type_.kind == "pointer":
        return "Cstring" if type_.of.name == "char" else f"Ptr{{{julia_type(type_.of)}}}"
    if type_.kind == "array":
        return f"NTuple{{{type_.count}, {julia_type(type_.of)}}}"
    return type_.name


def mirror(struct):
    fields = packed(
        [f"{field.name}::{julia_type(field.type)}" for field in struct.fields], "    ", "    "
    )
    return documented(struct.comment) + f"struct {struct.name}\n{fields} end"


def calls_back(type_, known):
    """Whether a function that is given this may call a function of the caller's before it returns."""
    if type_.kind == "callback":
        return True
    if type_.kind == "pointer":
        return calls_back(type_.of, known)
    return type_.kind == "struct" and any(
        calls_back(field.type, known) for field in known[type_.name].fields
    )


def waits(function):
    """What is [blocking], or ordered on a stream and so blocking with the host back end."""
    if "never waits" in one_line(function.comment).lower():
        return False
    return "[blocking" in function.comment or any(
        name == "stream" for name, _ in function.parameters
    )


def wrapper(function, known):
    typed = ", ".join(f"{name}::{julia_type(type_)}" for name, type_ in function.parameters)
    signature = f"{function.name}({typed})::{julia_type(function.result)}"
    back = any(calls_back(type_, known) for _, type_ in function.parameters)
    how = "@waiting" if waits(function) and not back else "@call"
    text = f"{documented(first_sentence(function.comment))}{how} {signature}"
    if waits(function) and back:
        # Julia code must not run in a region that is safe
        # for the collector, where the waiting calls are.
        comment = f"`{function.name}()` for arguments that hold no function of the caller's: other threads may collect garbage meanwhile."
        text += f"\n{documented(comment)}@waiting {function.name}_without_callbacks {signature}"
    return text


def one_line(comment):
    return " ".join(comment.split())


def first_sentence(comment):
    """And what follows of [local], [collective], [blocking]:
    the rest is the header's and the safe layer's to say.
    """
    return re.match(r".*?\.(?=\s|$)(\s\[[^]]*\])*", one_line(comment))[0]


def documented(comment):
    if not comment:
        return ""
    text = one_line(comment).replace("\\", "\\\\").replace('"""', '\\"""').replace("$", "\\$")
    return '"""' + re.sub('"$', '\\\\"', text) + '""" '
