# SPDX-License-Identifier: Apache-2.0
"""Reads the ABI out of what was written or generated from the header. What a reader does not understand is an error."""
import re
import subprocess

from abi import Abi, laid_out, width


def split(text):
    """At commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "({[<") - (character in ")}]" or (character == ">" and text[position - 1] != "-"))
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [" ".join(part.split()) for part in parts if part.strip()]


# ---- the library itself ----------------------------------------------------------------------------------

def export_map(text):
    text = re.sub(r"#.*", "", text)
    names = re.findall(r"^\s*(symm_\w+);", text, flags=re.M)
    return Abi(functions=dict.fromkeys(names))


def symbols(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = [line.split()[2].split("@")[0] for line in listing.splitlines() if line.split()[1] in "TW"]
    return Abi(functions=dict.fromkeys(names))


def golden_layout(text):
    """tests/abi/layout.txt, which a compiled program has printed."""
    found = Abi(functions={}, structs={}, constants={}, integers={})
    for name, bytes_, signed in re.findall(r"^typedef (\w+) size (\d+) signed (\d)$", text, flags=re.M):
        found.integers[name] = width(int(bytes_), signed == "1")
    found.constants = {name: int(value) for name, value in re.findall(r"^  (SYMM_\w+) (-?\d+)$", text, flags=re.M)}
    found.constants |= {name: int(value, 16) for name, value in re.findall(r"^macro (SYMM_\w+) (0x[0-9a-f]+)$", text, flags=re.M)}
    for name, size, fields in re.findall(r"^struct (\w+) size (\d+) align \d+\n((?:  .*\n)*)", text, flags=re.M):
        places = re.findall(r"^  (\w+) offset (\d+) size (\d+)$", fields, flags=re.M)
        found.structs[name] = (int(size), {field: (int(offset), int(bytes_)) for field, offset, bytes_ in places})
    for result, name, parameters in re.findall(r"^(?!typedef)(.*?)\b(symm_\w+)\((.*)\)$", text, flags=re.M):
        types = [] if parameters == "void" else [re.sub(r"\w+$", "", p).strip() for p in split(parameters)]
        found.functions[name] = (c_type(result, found.integers), [c_type(t, found.integers) for t in types])
    return found


PLAIN_C = {"void": "void", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "size_t": "u64", "char": "i8",
           "uint8_t": "u8", "int": "i32", "symm_log_callback_t": "pointer"}


def c_type(text, integers):
    text = " ".join(text.replace("const", " ").split())
    if "*" in text:
        return "pointer"
    return integers.get(text) or PLAIN_C[text]


# ---- Julia: generated.jl ---------------------------------------------------------------------------------

PLAIN_JULIA = {"Cvoid": "void", "Cstring": "pointer", "Csize_t": "u64", "UInt8": "u8", "Int8": "i8", "Int32": "i32", "UInt32": "u32",
               "Cint": "i32", "Int64": "i64", "UInt64": "u64", "Clong": "i64"}


def julia(text):
    text = re.sub(r'^"""\n.*?^"""\n', "", text, flags=re.M | re.S)
    text = re.sub(r"#.*", "", text)
    found = Abi(functions={}, structs={}, constants={}, integers={})
    for name, alias in re.findall(r"^const (symm_\w+) = (\w+)$", text, flags=re.M):
        found.integers[name] = PLAIN_JULIA[alias]

    def word(type_):
        if type_.startswith("Ptr{"):
            return "pointer"
        if match := re.fullmatch(r"NTuple\{(\d+), (\w+)\}", type_):
            return f"{word(match[2])}[{match[1]}]"
        return found.integers.get(type_) or PLAIN_JULIA[type_]

    for name, value in re.findall(r"^const (SYMM_\w+) = \w+\((-?\w+)\)", text, flags=re.M):
        found.constants[name] = int(value, 0)
    for name, body in re.findall(r"^struct (\w+)\n(.*?)^end", text, flags=re.M | re.S):
        fields = [line.strip().split("::") for line in body.splitlines() if line.strip()]
        found.structs[name] = laid_out([(field, word(type_)) for field, type_ in fields])
    called = r"^(\w+)\((.*?)\) =\s+@(?:call|waiting) (symm_\w+)\((.*?)\)::(.+)$"
    for own, names, name, typed, result in re.findall(called, text, flags=re.M):
        pairs = [argument.split("::") for argument in split(typed)]
        if split(names) != [argument for argument, _ in pairs]:
            raise SystemExit(f"generated.jl: {own} does not pass on its own arguments")
        signature = (word(result), [word(type_) for _, type_ in pairs])
        if found.functions.setdefault(name, signature) != signature:
            raise SystemExit(f"generated.jl: {name} is called in two ways")
    return found


# ---- Rust: what bindgen wrote ----------------------------------------------------------------------------

PLAIN_RUST = {"()": "void", "i8": "i8", "u8": "u8", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64", "usize": "u64",
              "::core::ffi::c_char": "i8", "::core::ffi::c_int": "i32"}


def rust_types(text):
    text = re.sub(r"//.*", "", text)
    found = Abi(structs={}, constants={}, integers={})
    for name, alias in re.findall(r"^pub type (symm_\w+) = (\w+);", text, flags=re.M):
        if alias in PLAIN_RUST:
            found.integers[name] = PLAIN_RUST[alias]
    for name, type_, value in re.findall(r"^pub const (SYMM_\w+): (\w+) =\s+([\w:-]+);", text, flags=re.M):
        found.constants[name] = (1 << int(type_[1:])) - 1 if value.endswith("::MAX") else int(value.split("u")[0], 0)
    for name, body in re.findall(r"^pub struct (symm_\w+_t) \{\n(.*?)^\}", text, flags=re.M | re.S):
        fields = [re.fullmatch(r"pub (?:r#)?(\w+): (.*)", part) for part in split(body)]
        found.structs[name] = laid_out([(field[1], rust_type(field[2], found.integers)) for field in fields])
    return found


def rust_type(text, integers):
    text = " ".join(text.split())
    if text.startswith(("*const ", "*mut ", "::core::option::Option<", "::std::option::Option<")) or text == "symm_log_callback_t":
        return "pointer"
    if match := re.fullmatch(r"\[(.+); (\d+)(?:usize)?\]", text):
        return f"{rust_type(match[1], integers)}[{match[2]}]"
    return integers.get(text) or PLAIN_RUST[text]


def rust_functions(text, types):
    """Both forms: `pub fn symm_x(a: T) -> R;` for the linker, and `symm_x: Option<unsafe extern "C" fn(a: T) -> R>` in a table."""
    text = " ".join(re.sub(r"//.*", "", text).split())
    found = Abi(functions={})
    linked = r"pub fn (symm_\w+) ?\(([^()]*(?:\(\))?[^()]*)\)(?: -> ([^;{]+?))? ?;"
    table = r'\b(symm_\w+): Option< ?unsafe extern "C" fn\(([^()]*)\)(?: -> ([^,>]+?))?,? ?>'
    for name, parameters, result in [*re.findall(linked, text), *re.findall(table, text)]:
        arguments = [rust_type(part.split(":", 1)[1], types.integers) for part in split(parameters)]
        found.functions[name] = (rust_type(result or "()", types.integers), arguments)
    return found


# ---- Python: the C file that SWIG wrote ------------------------------------------------------------------

def swig(text, integers):
    """A wrapper declares arg1, arg2 ... with their C types and then calls the function with them."""
    found = Abi(functions={})
    for body in re.split(r"^(?:SWIGINTERN|static) PyObject \*", text, flags=re.M)[1:]:
        name = re.match(r"_wrap_(symm_\w+)\(PyObject", body)
        call = name and re.search(rf"(?:= \((.+?)\))?\s*\b{name[1]}\((.*)\);[ }}]*$", body, flags=re.M)
        if not call:
            continue
        declared = {argument: type_ for type_, argument in re.findall(r"^ +(\w[\w ]*?[ *]+)(arg\d+)(?: = [^;]*)? *;", body, flags=re.M)}
        arguments = [c_type(declared[re.search(r"arg\d+", part)[0]], integers) for part in split(call[2])]
        found.functions[name[1]] = (c_type(call[1] or "void", integers), arguments)
    return found
