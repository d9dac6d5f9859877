"""Lists of types, constants, structs and functions, which the macros of symm-sys/src/header.rs expand."""
import json
import re

from header import first_sentence, one_line

WIDTH = 160
TITLE = """// Types, constants and functions of `symm.h`, which says of the functions what is here in a sentence, for the macros of header.rs.
// Generated from symm.h by bindings/generator. Do not edit: `bindings/generator/generate.py write` writes it, a test compares.

use crate::MissingSymbol;
use core::ffi::{c_char, c_void};
"""
# The structs of numbers that the safe layer hands out as they are: their fields are documented here, too.
PLAIN = ("symm_ipc_report_t", "symm_ipc_stats_t")
# Of macros libclang has no comments.
MACROS = {"SYMM_TIMEOUT_INFINITE": "No deadline.", "SYMM_TIMEOUT_NOW": "Look once instead of waiting.",
          "SYMM_ALL_STREAMS": "Where a parameter says so, cast to a pointer: all streams."}


def render(header):
    typed = {f"{name.removesuffix('_t')}_values": name for name in header.integers}
    aliases = [f"pub type {name} = {name.removesuffix('_t')};" for name in header.handles]
    for name, (_, comment, type_) in header.callbacks.items():
        aliases += [above(comment), f"pub type {name} = {callback(type_)};"]
    enums = [row for enum in header.enums if enum.name in typed for row in enumeration(header, enum, typed[enum.name])]
    constants = [constant(m.name, "u64" if m.bytes == 8 else "u32", m.value, MACROS.get(m.name)) for m in header.macros]
    constants += [constant(c.name, type_of_rest(enum.name), c.value, c.comment) for enum in header.enums if enum.name not in typed
                  for c in enum.constants]
    structs = [f"pub struct {name.removesuffix('_t')} {{ _unused: [u8; 0], }}" for name in header.handles]
    structs += [row for struct in header.structs for row in mirror(struct)]
    functions = [declaration(function) for function in header.functions]
    lists = {"enums": enums, "constants": constants, "structs": structs, "functions": functions}
    return "\n".join([TITLE, pack(aliases), *(f"{name}! {{\n{pack(rows)}}}\n" for name, rows in lists.items())])


def markdown(comment):
    """Square brackets would be links, angle brackets tags."""
    return re.sub(r"([][<*])", r"\\\1", one_line(comment))


def above(comment):
    return f"/// {markdown(comment)}"


def beside(comment):
    return f"#[doc = {json.dumps(markdown(comment), ensure_ascii=False)}] " if comment else ""


def constant(name, type_, value, comment):
    far = (1 << 64) - 1 - value
    text = f"u64::MAX - {far}".removesuffix(" - 0") if far < 2 else value
    return f"{beside(comment)}pub const {name}: {type_} = {text};"


def type_of_rest(enum):
    """Flags are bits of 64, what else has no integer type of its own is an int32_t."""
    return "u64" if enum.endswith("_flag_values") else "i32"


def enumeration(header, enum, type_):
    """symm_op_t and SYMM_OP_SUM are Op and Sum in Rust."""
    stem = type_.removeprefix("symm_").removesuffix("_t")
    yield above(header.integers[type_][1])
    yield f"pub enum {camel(stem)}: {type_} {{"
    for one in enum.constants:
        word = re.sub(f"^({stem.split('_')[0].upper()}|ERR)_", "", one.name.removeprefix("SYMM_"))
        # `Unknown` is a value of a newer library.
        word = "Other" if word == "UNKNOWN" else camel(word)
        yield f"{beside(one.comment)}{word} = {one.name} = {one.value},"
    yield "}"


def camel(words):
    return "".join(word.capitalize() for word in words.split("_"))


def rust_type(type_):
    if type_.kind == "void":
        return "c_void"
    if type_.kind == "integer":
        plain = {"size_t": "usize", "char": "c_char"}.get(type_.name) or f"{'i' if type_.signed else 'u'}{8 * type_.bytes}"
        return type_.name if type_.name.startswith("symm_") else plain
    if type_.kind == "double":
        return "f64"
    if type_.kind == "callback":
        return type_.name if type_.name.startswith("symm_") and "(" not in type_.name else callback(type_)
    if type_.kind == "pointer":
        return f"*{'const' if type_.const else 'mut'} {rust_type(type_.of)}"
    if type_.kind == "array":
        return f"[{rust_type(type_.of)}; {type_.count}]"
    return type_.name


def signature(parameters, result):
    returned = "" if result.kind == "void" else f" -> {rust_type(result)}"
    return "(" + ", ".join(f"{name}: {rust_type(type_)}" for name, type_ in parameters) + ")" + returned


def callback(type_):
    return f'Option<unsafe extern "C" fn{signature(type_.parameters, type_.of)}>'


def mirror(struct):
    plain = struct.name in PLAIN
    yield above(struct.comment)
    if plain:
        yield "#[derive(Default, PartialEq, Eq)]"
    yield f"pub struct {struct.name} {{"
    for field in struct.fields:
        yield f"{beside(field.comment) if plain else ''}pub {field.name}: {rust_type(field.type)},"
    yield "}"


def declaration(function):
    return f"{beside(first_sentence(function.comment))}pub fn {function.name}{signature(function.parameters, function.result)};"


def pack(rows):
    """As many on a line as it takes: documentation of what follows stands alone, a list begins a line, and its end ends one."""
    lines, room = [], 0
    for row in rows:
        alone = row.startswith(("///", "#[derive"))
        if row != "}" and (alone or row.endswith("{") or len(row) >= room):
            lines.append(row)
            room = WIDTH - len(row)
        else:
            lines[-1] += " " + row
            room -= len(row) + 1
        if alone or row == "}":
            room = 0
    return "\n".join(lines) + "\n"
