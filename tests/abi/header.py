# SPDX-License-Identifier: Apache-2.0
"""symm.h as data. Anything in the header that is not understood here is an error, so nothing can slip past the gates."""
import re
from dataclasses import dataclass, field


@dataclass
class Header:
    typedefs: dict = field(default_factory=dict)   # name -> underlying type
    handles: list = field(default_factory=list)    # opaque struct names
    enums: dict = field(default_factory=dict)      # name -> [constant]
    structs: dict = field(default_factory=dict)    # type name -> [field name]
    callbacks: dict = field(default_factory=dict)  # typedef name -> prototype
    functions: dict = field(default_factory=dict)  # name -> prototype
    macros: dict = field(default_factory=dict)     # name -> text


def parse(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S).replace("\\\n", " ")
    header = Header()
    for name, value in re.findall(r"^#define (SYMM_\w+)(?!\w*\()(.*)$", text, flags=re.M):
        header.macros[name] = " ".join(value.split())
    text = re.sub(r"#ifdef __cplusplus.*?#endif", " ", text, flags=re.S)
    text = re.sub(r"^#.*$", " ", text, flags=re.M).replace("SYMM_API", " ")
    for declaration in split(text, ";"):
        understand(header, declaration)
    return header


def split(text, separator):
    """At top-level separators only: not inside (), {} or []."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [" ".join(part.split()) for part in parts if part.strip()]


def understand(header, text):
    if match := re.fullmatch(r"typedef (\w+) (\w+)", text):
        header.typedefs[match[2]] = match[1]
    elif match := re.fullmatch(r"typedef struct (\w+) (\w+)", text):
        header.handles.append(match[1])
    elif match := re.fullmatch(r"typedef [\w ]+?\(\*(\w+)\)\((.*)\)", text):
        header.callbacks[match[1]] = text
    elif match := re.fullmatch(r"enum (\w+) \{(.*)\}", text):
        constants = [re.fullmatch(r"(SYMM_\w+) = \S+", part) for part in split(match[2], ",")]
        if not all(constants):
            raise SystemExit(f"every constant needs an explicit value: enum {match[1]}")
        header.enums[match[1]] = [constant[1] for constant in constants]
    elif match := re.fullmatch(r"typedef struct (?:\w+ )?\{(.*)\} (\w+)", text):
        header.structs[match[2]] = [field_name(part) for part in split(match[1], ";")]
    elif match := re.fullmatch(r"[\w ]+?[ *]+(symm_\w+)\((.*)\)", text):
        header.functions[match[1]] = text
    else:
        raise SystemExit(f"not understood in the header: {text}")


def field_name(text):
    match = re.fullmatch(r".*?\(\*(\w+)\)\(.*\)", text) or re.fullmatch(r".*?(\w+)(\[\w+\])?", text)
    return match[1]


def parameters(prototype):
    """[(type, name)] of a function."""
    inside = prototype[prototype.index("(") + 1 : -1]
    if inside == "void":
        return []
    matches = [re.fullmatch(r"(.*?)\s*(\w+)", part) for part in split(inside, ",")]
    return [(match[1], match[2]) for match in matches]
