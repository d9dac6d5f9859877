"""Julia's ccall layer as text: constants, struct mirrors,
and one function for each function of the header.
"""

import re

from prose import filled, first_sentence, one_line

TITLE = """\
# Generated from symm.h by bindings/generator. Do not edit: `bindings/generator/generate.py write`
# writes it, a test compares.
#
# Every name and every meaning is the header's, which says at length what is here in a sentence.
# `@call` and `@waiting` are in call.jl."""

WIDTH = 92
INDENT = "    "
PLAIN = {"size_t": "Csize_t", "char": "UInt8"}  # char arrays are text; UTF-8 is bytes


def render(header):
    known = {struct.name: struct for struct in header.structs}
    of_flags = {flag.name for flags in header.flags for flag in flags.constants}
    macros = [macro for macro in header.macros if macro.name not in of_flags]
    parts = [TITLE, "\n".join(explained(m, integer(m)) for m in macros)]
    parts += numbers(header)
    parts += [
        documented(comment) + f"mutable struct {name} end"
        for name, comment in header.handles.items()
    ]
    parts += [
        documented(comment) + f"const {name} = Ptr{{Cvoid}}"
        for name, (_, comment) in header.callbacks.items()
    ]
    parts += [mirror(struct) for struct in header.structs]
    parts.append("\n".join(["const STRUCTS = (", *(f"{INDENT}{name}," for name in known), ")"]))
    for function in header.functions:
        parts += wrappers(function, known)

    return "\n\n".join(parts) + "\n"


def numbers(header):
    """The integer types with the values of each, and then the sets of flags."""
    enums = {enum.name: enum for enum in header.enums}
    for name, (type_, comment) in header.integers.items():
        # the header has one beside each integer type
        values = enums.pop(name.removesuffix("_t") + "_values")
        if name == "symm_status_t":  # users see it; all others are symbols to them
            members = [f"{INDENT}{c.name} = {c.value}" for c in values.constants]
            first = documented(comment) + f"@enum {name}::{integer(type_)} begin"
            yield "\n".join([first, *members, "end"])
        else:
            yield documented(comment) + f"const {name} = {integer(type_)}"
            yield constants(values, name)

    if enums:
        raise SystemExit(f"enums without an integer type: {', '.join(enums)}")
    for flags in header.flags:
        lead = filled(flags.comment, WIDTH, "# ")
        yield "\n".join([lead, *(explained(flag, "UInt64") for flag in flags.constants)])


def integer(type_):
    return f"{'' if type_.signed else 'U'}Int{8 * type_.bytes}"


def constant(name, type_, value):
    literal = f"0x{value:x}" if type_.startswith("UInt") else str(value)
    return f"const {name} = {type_}({literal})"


def explained(macro, type_):
    return documented(macro.comment) + constant(macro.name, type_, macro.value)


def constants(enum, type_):
    return "\n".join(constant(c.name, type_, c.value) for c in enum.constants)


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
        return f"NTuple{{{type_.count},{julia_type(type_.of)}}}"

    return type_.name


def mirror(struct):
    fields = [f"{INDENT}{field.name}::{julia_type(field.type)}" for field in struct.fields]
    return "\n".join([documented(struct.comment) + f"struct {struct.name}", *fields, "end"])


def calls_back(type_, known):
    """Whether a function that is given this may call a function of the caller's before it
    returns.
    """
    if type_.kind == "callback":
        return True
    if type_.kind == "pointer":
        return calls_back(type_.of, known)
    return type_.kind == "struct" and any(
        calls_back(field.type, known) for field in known[type_.name].fields
    )


def waits(function):
    """Whether a function is [blocking], can miss a deadline, or is ordered on a stream and so
    blocking with the host back end.
    """
    if "SYMM_ERR_TIMEOUT" in function.comment:
        return True
    if "never waits" in one_line(function.comment).lower():
        return False
    return "[blocking" in function.comment or any(
        name == "stream" for name, _ in function.parameters
    )


def wrappers(function, known):
    back = any(calls_back(type_, known) for _, type_ in function.parameters)
    how = "@waiting" if waits(function) and not back else "@call"
    yield documented(first_sentence(function.comment)) + called(how, function)

    if waits(function) and back:
        # Julia code must not run in a region that is safe for the collector, and that is where
        # the waiting calls are.
        comment = (
            f"`{function.name}()` for arguments that hold no function of the caller's: other "
            "threads may collect garbage meanwhile."
        )
        how = f"@waiting {function.name}_without_callbacks"
        yield documented(comment) + called(how, function)


def called(how, function):
    """The signature on one line if it fits, and else each parameter on a line of its own."""
    typed = [f"{name}::{julia_type(type_)}" for name, type_ in function.parameters]
    result = julia_type(function.result)
    text = f"{how} {function.name}({', '.join(typed)})::{result}"
    if len(text) <= WIDTH:
        return text
    lines = [f"{INDENT}{parameter}," for parameter in typed]
    return "\n".join([f"{how} {function.name}(", *lines, f")::{result}"])


def documented(comment):
    if not comment:
        return ""
    text = one_line(comment).replace("\\", "\\\\").replace('"""', '\\"""').replace("$", "\\$")
    short = '"""' + re.sub('"$', '\\\\"', text) + '"""\n'
    return short if len(short) <= WIDTH else f'"""\n{filled(text, WIDTH)}\n"""\n'
