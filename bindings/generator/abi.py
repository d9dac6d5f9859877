# SPDX-License-Identifier: Apache-2.0
"""The ABI as one source tells it, in words that all sources have in common, so that two can be compared.

A type is "void", "pointer" (a function's, too), or a width: "i32", "u64", "u8[128]"."""
import re
from dataclasses import dataclass, field

SIZES = {"pointer": 8, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}


@dataclass
class Abi:
    """What a source does not speak of is None."""
    functions: dict = None  # name -> (result, [type of each parameter]), or None where only the name is known
    structs: dict = None    # name -> (bytes, {field: (offset, bytes)})
    constants: dict = None  # name -> value
    integers: dict = field(default_factory=dict)  # typedef -> width


def of_header(header):
    def word(type_):
        if type_.kind == "integer":
            return width(type_.bytes, type_.signed)
        if type_.kind == "array":
            return f"{word(type_.of)}[{type_.count}]"
        return {"void": "void", "pointer": "pointer", "callback": "pointer"}[type_.kind]

    functions = {f.name: (word(f.result), [word(type_) for _, type_ in f.parameters]) for f in header.functions}
    structs = {s.name: (s.bytes, {f.name: (f.offset, f.bytes) for f in s.fields}) for s in header.structs}
    constants = {c.name: c.value for enum in header.enums for c in enum.constants}
    constants |= {macro.name: macro.value for macro in header.macros}
    integers = {name: word(type_) for name, (type_, _) in header.integers.items()}
    return Abi(functions, structs, constants, integers)


def width(bytes_, signed):
    return f"{'i' if signed else 'u'}{8 * bytes_}"


def laid_out(fields):
    """Offsets by the rules of C, of [(name, type)]."""
    places, offset, alignment = {}, 0, 1
    for name, type_ in fields:
        match = re.fullmatch(r"(\w+?)(?:\[(\d+)\])?", type_)
        each = SIZES[match[1]]
        offset = -(-offset // each) * each
        places[name] = (offset, each * int(match[2] or 1))
        offset += places[name][1]
        alignment = max(alignment, each)
    return -(-offset // alignment) * alignment, places


def differences(expected, found, ignore=()):
    """Lines that say where `found` differs; `ignore`: names that need not be there."""
    for what in ("functions", "structs", "constants", "integers"):
        right, seen = getattr(expected, what), getattr(found, what)
        if not seen:
            continue
        for name in sorted(set(right) - set(seen) - set(ignore)):
            yield f"{name} is missing"
        for name in sorted(set(seen) - set(right)):
            yield f"{name} is not in the header"
        for name in sorted(set(right) & set(seen)):
            if seen[name] is not None and seen[name] != right[name]:
                yield f"{name}: {explain(right[name], seen[name])}"


def explain(right, seen):
    if not isinstance(right, tuple):
        return f"is {seen}, should be {right}"
    if isinstance(right[1], dict):
        return f"has {seen[0]} bytes and fields {seen[1]}, should have {right[0]} and {right[1]}"
    if len(right[1]) != len(seen[1]):
        return f"takes {len(seen[1])} arguments, should take {len(right[1])}"
    if right[0] != seen[0]:
        return f"returns {seen[0]}, should return {right[0]}"
    return "; ".join(f"argument {i} is {b}, should be {a}" for i, (a, b) in enumerate(zip(right[1], seen[1]), 1) if a != b)
