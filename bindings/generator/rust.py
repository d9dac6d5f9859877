"""Rust's raw layer as text: what the macros of symm-sys/src/header.rs make types, enums and the methods of a table of functions of."""
import json
import re
import textwrap

from header import first_sentence, one_line

TITLE = """// Types, constants and functions of `symm.h`, which says of the functions what is here in a sentence, for the macros of header.rs.
// Generated from symm.h by bindings/generator. Do not edit: `bindings/generator/generate.py write` writes it, a test compares.

use crate::MissingSymbol;
use core::ffi::{c_char, c_void};
"""

PLAIN = {"size_t": "usize", "char": "c_char"}
# Numbers that the safe layer hands out as they are. The fields of all others are the header's to document.
HANDED_OUT = {"symm_ipc_report_t", "symm_ipc_stats_t"}


def render(header):
    enums = {enum.name: enum for enum in header.enums}
    typed = {name: enums.pop(f"{name.removesuffix('_t')}_values") for name in header.integers}
    constants = [constant(m.name, "u32" if m.bytes == 4 and m.value >= 0 else number(m), m.value, first_sentence(m.comment)) for m in header.macros]
    for enum in enums.values():
        constants += [constant(c.name, "u64" if enum.name.endswith("_flag_values") else "i32", c.value, c.comment) for c in enum.constants]
    parts = [TITLE, *(f"{documented(comment)}pub type {name} = {rust_type(type_, True)};\n" for name, (_, comment, type_) in header.callbacks.items())]
    parts.append(fill(constants))
    parts.append(listed("handles", [fill([f"{name.removesuffix('_t')} = {name}," for name in header.handles])]))
    parts.append(listed("enums", [enumeration(name, comment, typed[name].constants) for name, (_, comment) in header.integers.items()]))
    parts.append(listed("structs", map(mirror, header.structs)))
    parts.append(listed("functions", [fill(map(declaration, header.functions))]))
    return "\n".join(parts)


def listed(macro, parts):
    return f"{macro}! {{\n{''.join(parts)}}}\n"


def fill(items):
    """As many on a line as it takes, each whole."""
    text = textwrap.fill(" ".join(item.replace(" ", "\0") for item in items), 160, break_long_words=False, break_on_hyphens=False)
    return text.replace("\0", " ") + "\n"


def number(type_):
    return f"{'i' if type_.signed else 'u'}{8 * type_.bytes}"


def constant(name, type_, value, comment):
    return f"{remark(comment)}pub const {name}: {type_} = {value};"


def enumeration(name, comment, constants):
    """`symm_op_t` and `SYMM_OP_SUM` are `Op` and `Sum`; `Unknown` is a value of a newer library."""
    stem = name.removeprefix("symm_").removesuffix("_t")
    words = [re.sub(f"^({stem.split('_')[0].upper()}|ERR)_", "", c.name.removeprefix("SYMM_")).replace("UNKNOWN", "OTHER") for c in constants]
    items = [f"{remark(c.comment)}{camel(word)} = {c.name} = {c.value}," for word, c in zip(words, constants)]
    return documented(comment) + fill([f"pub enum {camel(stem)}: {name} {{", *items, "}"])


def camel(words):
    return "".join(word.capitalize() for word in words.split("_"))


def rust_type(type_, whole=False):
    """`whole`: of a pointer to a function that has a name, too."""
    if type_.kind == "pointer":
        return f"*{'const' if type_.const else 'mut'} {rust_type(type_.of)}"
    if type_.kind == "array":
        return f"[{rust_type(type_.of)}; {type_.count}]"
    if type_.kind == "callback" and (whole or not type_.name):
        return f'Option<unsafe extern "C" fn{signature(type_.parameters, type_.of)}>'
    if type_.kind == "integer" and not type_.name.startswith("symm_"):
        return PLAIN.get(type_.name) or number(type_)
    return {"void": "c_void", "double": "f64"}.get(type_.kind, type_.name)


def signature(parameters, result):
    typed = ", ".join(f"{name}: {rust_type(type_)}" for name, type_ in parameters)
    return f"({typed})" + (f" -> {rust_type(result)}" if result.kind != "void" else "")


def mirror(struct):
    plain = struct.name in HANDED_OUT
    fields = [f"{remark(field.comment if plain else '')}pub {field.name}: {rust_type(field.type)}," for field in struct.fields]
    derived = "#[derive(Default, PartialEq, Eq)]\n" if plain else ""
    return documented(struct.comment) + derived + fill([f"pub struct {struct.name} {{", *fields, "}"])


def declaration(function):
    return f"{remark(first_sentence(function.comment))}pub fn {function.name}{signature(function.parameters, function.result)};"


def markdown(comment):
    """Brackets would be links, angle brackets tags, stars lists."""
    return re.sub(r"([][<*])", r"\\\1", one_line(comment))


def remark(comment):
    return f"#[doc = {json.dumps(markdown(comment), ensure_ascii=False)}] " if comment else ""


def documented(comment):
    return f"/// {markdown(comment)}\n" if comment else ""
