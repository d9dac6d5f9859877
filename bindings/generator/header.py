"""Reads symm.h and fused.h by libclang, for the generators of all languages but Rust.

A declaration of a kind that is not known here is an error, so that the bindings never lack a
declaration without notice.
"""

import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

# Debian's package is plain Python, so it serves a Python that is not Debian's as well.
sys.path.append("/usr/lib/python3/dist-packages")
try:
    from clang import cindex
    from clang.cindex import CursorKind, TokenKind, TypeKind

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


# kind    void, integer, double, pointer, callback (a pointer to a function), array, struct or
#         handle (a struct without fields)
# name    the spelling in C of an integer or a struct: size_t, symm_status_t
# of      the type that a pointer points to, or of the elements of an array
# count   the number of elements of an array
# const   whether a pointer points to a constant
Type = namedtuple(
    "Type", "kind name bytes signed of count const", defaults=("", 0, False, None, 0, False)
)
Field = namedtuple("Field", "name type offset bytes comment")
Struct = namedtuple("Struct", "name bytes alignment fields comment")
Constant = namedtuple("Constant", "name value comment")
Enum = namedtuple("Enum", "name constants comment")
Macro = namedtuple("Macro", "name value bytes signed comment")
# parameters is a tuple of (name, Type), prototype the declaration in C.
Function = namedtuple("Function", "name result parameters comment prototype")


class Header:
    def __init__(self):
        self.integers = {}  # typedef -> (Type, comment)
        self.handles = {}  # typedef -> comment
        self.callbacks = {}  # typedef -> (declaration in C, comment)
        self.initialisers = {}  # struct -> the values of its fields after struct_size, in C
        self.enums = []
        self.flags = []  # the sets of flags as enums, each called as its first struct
        self.structs = []
        self.macros = []
        self.functions = []


def read(*paths):
    """What the headers declare, as if they were one."""
    header = Header()
    for path in paths:
        add_file(header, Path(path).resolve())
    return header


def add_file(header, path):
    """Adds what the file itself declares, and not what it includes."""
    macros = []
    for cursor in parse(path, None).cursor.get_children():
        if cursor.location.file is None or Path(cursor.location.file.name).resolve() != path:
            continue
        if cursor.kind == CursorKind.MACRO_DEFINITION:
            add_macro(header, macros, cursor)
        elif cursor.kind == CursorKind.ENUM_DECL:
            header.enums.append(enum(cursor))
        elif cursor.kind == CursorKind.TYPEDEF_DECL:
            add_typedef(header, cursor)
        elif cursor.kind == CursorKind.FUNCTION_DECL:
            header.functions.append(function(cursor))
        elif cursor.kind not in (
            CursorKind.STRUCT_DECL,
            CursorKind.MACRO_INSTANTIATION,
            CursorKind.INCLUSION_DIRECTIVE,
        ):
            raise SystemExit(f"{cursor.location}: {cursor.kind} is not understood")

    comments, sets = comments_of_macros(path)
    header.macros += [
        macro._replace(comment=comments.get(macro.name, "")) for macro in evaluate(path, macros)
    ]
    found = {macro.name: macro for macro in header.macros}
    header.flags += [
        Enum(
            re.search(r"symm_\w+_t", said)[0],
            tuple(Constant(name, found[name].value, found[name].comment) for name in names),
            said,
        )
        for said, names in sets
    ]


def comments_of_macros(path):
    """The comment of each macro, which libclang does not tell, and the sets of flags: the text of
    the comment "Flags of ..." that stands above a set, and the names of its macros, in order. A set
    ends where something else than a macro is declared.
    """
    comments = {}
    sets = []
    last = None
    names = None

    tokens = list(parse(path, None).cursor.get_tokens())
    for token, following, name in zip(tokens, tokens[1:], tokens[2:]):
        if token.kind == TokenKind.COMMENT:
            last = token.spelling
            if last.startswith("/* Flags of "):
                names = []
                sets.append((plain(last), names))
        elif token.spelling == "#" and following.spelling == "define":
            comments[name.spelling] = plain(last or "")
            if names is not None and last is not None:
                names.append(name.spelling)
            last = None
        elif token.spelling in ("typedef", "enum", "SYMM_API"):
            names = None
            last = None
    return comments, sets


def stray_comments(path):
    """Says where a comment belongs to no declaration. libclang gives a comment to a declaration
    next to it. One that a line break has moved away is lost, or goes to a neighbour together with
    the neighbour's own.
    """
    path = Path(path).resolve()
    unit = parse(path, None)
    taken = {c.raw_comment for c in unit.cursor.walk_preorder() if c.raw_comment}
    tokens = list(unit.cursor.get_tokens())
    for token, following in zip(tokens, tokens[1:]):
        if token.kind != TokenKind.COMMENT or not token.spelling.startswith("/**"):
            continue
        # libclang knows no comments of macros.
        if following.spelling != "#" and token.spelling not in taken:
            where = token.location
            yield f"{where.file}:{where.line}: this comment belongs to no declaration\n"


def add_macro(header, macros, cursor):
    """An initialiser of a struct goes to the header, and the name of a value to `macros`."""
    tokens = [token.spelling for token in cursor.get_tokens()][1:]
    if tokens[:2] == ["{", "sizeof"]:
        header.initialisers[tokens[3]] = "".join(tokens[6:-1]).split(",")
    # The guard and the attribute of exported functions are for C only.
    elif tokens and tokens[0] != "__attribute__":
        macros.append(cursor.spelling)


def enum(cursor):
    constants = tuple(Constant(c.spelling, c.enum_value, text(c)) for c in cursor.get_children())
    return Enum(cursor.spelling, constants, text(cursor))


def function(cursor):
    arguments = list(cursor.get_arguments())
    return Function(
        name=cursor.spelling,
        result=type_of(cursor.result_type),
        parameters=tuple((p.spelling, type_of(p.type)) for p in arguments),
        comment=text(cursor),
        prototype=declaration(cursor.result_type, cursor.spelling, arguments),
    )


def parse(path, extra):
    source = f'#include "{path}"\n{extra}' if extra else None
    name = "values.c" if extra else str(path)
    unit = cindex.Index.create().parse(
        name,
        args=["-x", "c", "-std=c99", f"-I{path.parents[1]}", "-idirafter", compilers_own()],
        unsaved_files=[(name, source)] if extra else None,
        options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD,
    )
    if unit.diagnostics:
        raise SystemExit("\n".join(str(d) for d in unit.diagnostics))
    return unit


def compilers_own():
    """The folder of the compiler's stddef.h, because a libclang from PyPI comes without one."""
    return subprocess.run(
        ["cc", "-print-file-name=include"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.strip()


def add_typedef(header, cursor):
    name = cursor.spelling
    underlying = cursor.underlying_typedef_type.get_canonical()
    if underlying.kind in INTEGERS:
        header.integers[name] = (type_of(cursor.type), text(cursor))
    elif is_callback(underlying):
        parameters = [c for c in cursor.get_children() if c.kind == CursorKind.PARM_DECL]
        result = underlying.get_pointee().get_result()
        form = declaration(result, f"(*{name})", parameters)
        header.callbacks[name] = (f"typedef {form}", text(cursor))
    elif underlying.kind == TypeKind.RECORD:
        add_record(header, cursor, underlying)
    else:
        raise SystemExit(f"{cursor.location}: typedef {name} is not understood")


def is_callback(type_):
    return type_.kind == TypeKind.POINTER and type_.get_pointee().kind == TypeKind.FUNCTIONPROTO


def add_record(header, cursor, record):
    name = cursor.spelling
    fields = tuple(
        Field(f.spelling, type_of(f.type), offset(record, f), f.type.get_size(), text(f))
        for f in record.get_fields()
    )
    if fields:
        size = record.get_size()
        header.structs.append(Struct(name, size, record.get_align(), fields, text(cursor)))
    else:
        header.handles[name] = text(cursor)


def declaration(result, name, parameters):
    """The declaration of a function in C, on one line."""
    declared = ", ".join(spelled(p.type, p.spelling) for p in parameters)
    return f"{spelled(result, name)}({declared or 'void'})"


def spelled(type_, name):
    space = "" if type_.spelling.endswith("*") else " "
    return type_.spelling + space + name


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
        # A pointee is called by its typedef if it has one: const char *, symm_group_t **.
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
    """The macros with their values. libclang for Python does not evaluate expressions, but it has
    the values of enumerators, which are ints.
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
        signed = bool(found[f"SIGNED_{name}"])
        width = found[f"BYTES_{name}"]
        if signed and value >> 63:
            value -= 1 << 64
        macros.append(Macro(name, value, width, signed, ""))

    return macros


def text(cursor):
    """The comment of a declaration; see plain()."""
    return plain(cursor.raw_comment or "")


def plain(comment):
    """A comment without its ornaments, its line breaks kept."""
    lines = comment.splitlines()
    return "\n".join(
        re.sub(r"^(/\*\*?<?|\*(?!/)) ?| *\*/$", "", line.strip()) for line in lines
    ).strip()
