"""symm.h as libclang understands it: the one reader of the
header. A declaration of a kind that is not known here is an
error, so that nothing is left out of the bindings in silence.
"""

import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

# Debian's package is plain Python: it serves another Python, first in PATH, as well.
sys.path.append("/usr/lib/python3/dist-packages")
try:
    from clang import cindex
    from clang.cindex import CursorKind, TypeKind

    cindex.Index.create()
except Exception as why:
    print(f"SKIPPED: no libclang for Python (Debian: python3-clang; PyPI: libclang): {why}")
    sys.exit(77)

INTEGERS = {
    TypeKind.CHAR_S,
    TypeKind.SCHAR,
    TypeKind.UCHAR,
    TypeKind.SHORT,
    TypeKind.USHORT,
    TypeKind.INT,
    TypeKind.UINT,
    TypeKind.LONG,
    TypeKind.ULONG,
    TypeKind.LONGLONG,
    TypeKind.ULONGLONG,
}
UNSIGNED = {TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG, TypeKind.ULONGLONG}


# kind: void, integer, double, pointer, callback (pointer to a function),
# array, struct or handle (a struct without fields); name: the spelling
# in C, for integers and structs: size_t, symm_status_t; of: of a pointer
# or array; count: of an array; const: what a pointer points to.
Type = namedtuple(
    "Type", "kind name bytes signed of count const", defaults=("", 0, False, None, 0, False)
)
Field = namedtuple("Field", "name type offset bytes comment")
Struct = namedtuple("Struct", "name bytes alignment fields comment")
Constant = namedtuple("Constant", "name value comment")
Enum = namedtuple("Enum", "name constants comment")
Macro = namedtuple("Macro", "name value bytes signed")
# parameters: of (name, Type); prototype: in C.
Function = namedtuple("Function", "name result parameters comment prototype")


class Header:
    def __init__(self):
        self.integers = {}  # typedef -> (Type, comment)
        self.handles = {}  # typedef -> comment
        self.callbacks = {}  # typedef -> (declaration in C, comment)
        self.initialisers = {}  # struct -> the values of its fields after struct_size, in C
        self.enums, self.structs, self.macros, self.functions = [], [], [], []


def read(path):
    path = Path(path).resolve()
    unit = parse(path, None)
    header, macros = Header(), []
    for cursor in unit.cursor.get_children():
        if cursor.location.file is None or Path(cursor.location.file.name).resolve() != path:
            continue
        if cursor.kind == CursorKind.MACRO_DEFINITION:
            tokens = [token.spelling for token in cursor.get_tokens()][1:]
            if tokens[:2] == ["{", "sizeof"]:
                header.initialisers[tokens[3]] = "".join(tokens[6:-1]).split(",")
            # The guard and the attribute of exported functions are for C only.
            elif tokens and tokens[0] != "__attribute__":
                macros.append(cursor.spelling)
        elif cursor.kind == CursorKind.ENUM_DECL:
            constants = tuple(
                Constant(c.spelling, c.enum_value, text(c)) for c in cursor.get_children()
            )
            header.enums.append(Enum(cursor.spelling, constants, text(cursor)))
        elif cursor.kind == CursorKind.TYPEDEF_DECL:
            typedef(header, cursor)
        elif cursor.kind == CursorKind.FUNCTION_DECL:
            parameters = tuple((p.spelling, type_of(p.type)) for p in cursor.get_arguments())
            result, prototype = (
                type_of(cursor.result_type),
                declaration(cursor.result_type, cursor.spelling, cursor.get_arguments()),
            )
            header.functions.append(
                Function(cursor.spelling, result, parameters, text(cursor), prototype)
            )
        elif cursor.kind not in (
            CursorKind.STRUCT_DECL,
            CursorKind.MACRO_INSTANTIATION,
            CursorKind.INCLUSION_DIRECTIVE,
        ):
            raise SystemExit(f"{cursor.location}: {cursor.kind} is not understood")
    header.macros = evaluate(path, macros)
    return header


def parse(path, extra):
    source = f'#include "{path}"\n{extra}' if extra else None
    name = "values.c" if extra else str(path)
    unit = cindex.Index.create().parse(
        name,
        args=["-x", "c", "-std=c99", "-idirafter", compilers_own()],
        unsaved_files=[(name, source)] if extra else None,
        options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD,
    )
    if unit.diagnostics:
        raise SystemExit("\n".join(str(d) for d in unit.diagnostics))
    return unit


def compilers_own():
    """Where the compiler's stddef.h is: a libclang from PyPI comes without one."""
    return subprocess.run(
        ["cc", "-print-file-name=include"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.strip()


def typedef(header, cursor):
    name, underlying = cursor.spelling, cursor.underlying_typedef_type.get_canonical()
    if underlying.kind in INTEGERS:
        header.integers[name] = (type_of(cursor.type), text(cursor))
    elif (
        underlying.kind == TypeKind.POINTER
        and underlying.get_pointee().kind == TypeKind.FUNCTIONPROTO
    ):
        parameters = [c for c in cursor.get_children() if c.kind == CursorKind.PARM_DECL]
        form = "typedef " + declaration(
            underlying.get_pointee().get_result(), f"(*{name})", parameters
        )
        header.callbacks[name] = (form, text(cursor))
    elif underlying.kind == TypeKind.RECORD:
        fields = tuple(
            Field(f.spelling, type_of(f.type), offset(underlying, f), f.type.get_size(), text(f))
            for f in underlying.get_fields()
        )
        if fields:
            header.structs.append(
                Struct(name, underlying.get_size(), underlying.get_align(), fields, text(cursor))
            )
        else:
            header.handles[name] = text(cursor)
    else:
        raise SystemExit(f"{cursor.location}: typedef {name} is not understood")


def declaration(result, name, parameters):
    """In C, on one line."""

    def declared(type_, name):
        return f"{type_.spelling}{'' if type_.spelling.endswith('*') else ' '}{name}"

    return (
        declared(result, name)
        + "("
        + (", ".join(declared(p.type, p.spelling) for p in parameters) or "void")
        + ")"
    )


def offset(record, cursor):
    bits = record.get_offset(cursor.spelling)
    if bits < 0 or bits % 8 or cursor.is_bitfield():
        raise SystemExit(f"{cursor.location}: field {cursor.spelling} has no offset in bytes")
    return bits // 8


def type_of(type_):
    canonical = type_.get_canonical()
    if canonical.kind == TypeKind.VOID:
        return Type("void")
    if canonical.kind in INTEGERS:
        name = type_.spelling.replace("const ", "")
        return Type("integer", name, canonical.get_size(), canonical.kind not in UNSIGNED)
    if canonical.kind == TypeKind.DOUBLE:
        return Type("double", "double", 8, True)
    if canonical.kind == TypeKind.POINTER:
        pointee = canonical.get_pointee()
        if pointee.kind == TypeKind.FUNCTIONPROTO:
            return Type("callback", bytes=canonical.get_size())
        # The typedef names what is pointed to where
        # there is one: const char *, symm_group_t **.
        named = type_.get_pointee() if type_.kind == TypeKind.POINTER else pointee
        return Type(
            "pointer",
            bytes=canonical.get_size(),
            of=type_of(named),
            const=named.is_const_qualified(),
        )
    if canonical.kind == TypeKind.CONSTANTARRAY:
        return Type(
            "array",
            bytes=canonical.get_size(),
            of=type_of(type_.element_type),
            count=canonical.element_count,
        )
    if canonical.kind == TypeKind.RECORD:
        kind = "struct" if any(True for _ in canonical.get_fields()) else "handle"
        return Type(kind, type_.spelling.replace("const ", ""), max(canonical.get_size(), 0))
    raise SystemExit(f"type {type_.spelling} is not understood")


def evaluate(path, names):
    """libclang for Python does not evaluate expressions, but
    it tells the values of enumerators, which are ints.
    """
    parts = {
        "LOW": "(int)((unsigned long long)({0}) & 0xffffffffu)",
        "HIGH": "(int)((unsigned long long)({0}) >> 32)",
        "SIGNED": "(({0}) - ({0}) - 1) < 0",
        "BYTES": "(int)sizeof({0})",
    }
    enumerators = ", ".join(
        f"{part}_{name} = {how.format(name)}" for name in names for part, how in parts.items()
    )
    found = {}
    for cursor in parse(path, f"enum evaluated {{ {enumerators} }};").cursor.get_children():
        if cursor.kind == CursorKind.ENUM_DECL and cursor.spelling == "evaluated":
            found = {c.spelling: c.enum_value for c in cursor.get_children()}
    macros = []
    for name in names:
        value = (found[f"HIGH_{name}"] & 0xFFFFFFFF) << 32 | found[f"LOW_{name}"] & 0xFFFFFFFF
        signed, width = bool(found[f"SIGNED_{name}"]), found[f"BYTES_{name}"]
        if signed and value >> 63:
            value -= 1 << 64
        macros.append(Macro(name, value, width, signed))
    return macros


def text(cursor):
    """A comment without its ornaments, its line breaks kept."""
    lines = (cursor.raw_comment or "").splitlines()
    return "\n".join(
        re.sub(r"^(/\*\*?<?|\*(?!/)) ?| *\*/$", "", line.strip()) for line in lines
    ).strip()
