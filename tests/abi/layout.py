"""Reads the golden layouts: layout.txt, of symm.h, and fused.txt, of fused.h.

layout.py <layout> <folder of symm/symm.h> <libsymm.so> <C compiler>: compiles a program that
includes the header of the layout, asserts every size, offset and value, declares every function
once more and links with the library.

layout.py <symm.map>: the symbols that the library must export by both layouts and the map, in the
form of nm.

layout.py parameters: every parameter of every function, as rows of a C++ table.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LAYOUT = Path(__file__).with_name("layout.txt")
FUSED = Path(__file__).with_name("fused.txt")


def functions(*paths):
    """name -> [(type, name)] of its parameters, in these layouts, or in all."""
    found = {}
    promised = "\n".join(Path(path).read_text("utf-8") for path in paths or (LAYOUT, FUSED))
    for name, inside in re.findall(r"^function .*?\b(symm_\w+)\((.*)\)$", promised, flags=re.M):
        parameters = [] if inside == "void" else inside.split(", ")
        found[name] = [
            re.fullmatch(r"(.*?)\s*(\w+)", parameter).groups() for parameter in parameters
        ]
    return found


def types():
    """All types that symm.h declares: numbers, handles, structs and callbacks."""
    promised = LAYOUT.read_text("utf-8")
    named = r"^(?:(?:typedef|struct|handle) (\w+)|callback .*?\(\*(\w+)\))"
    return ["".join(names) for names in re.findall(named, promised, flags=re.M)]


def in_c(line):
    """C that does not compile unless the line of layout.txt holds."""
    kind, rest = line.split(" ", 1)

    if kind == "typedef":
        name, size, signed = re.fullmatch(r"(\w+) size (\d+) signed ([01])", rest).groups()
        return asserted(f"sizeof({name}) == {size} && (({name})-1 < 0) == {signed}")

    if kind == "enumerator":
        name, value = re.fullmatch(r"\w+ (SYMM_\w+) (-?\d+)", rest).groups()
        return asserted(f"{name} == {value}")

    if kind == "macro":
        name, value = re.fullmatch(r"(SYMM_\w+) (0x[0-9a-f]+)", rest).groups()
        return asserted(f"{name} == {value}")

    if kind == "struct":
        name, size, alignment = re.fullmatch(r"(\w+) size (\d+) align (\d+)", rest).groups()
        return asserted(f"sizeof({name}) == {size} && _Alignof({name}) == {alignment}")

    if kind == "field":
        pattern = r"(\w+)\.(\w+) offset (\d+) size (\d+)"
        struct, field, offset, size = re.fullmatch(pattern, rest).groups()
        return asserted(
            f"offsetof({struct}, {field}) == {offset} && sizeof((({struct} *)0)->{field}) == {size}"
        )

    if kind == "handle":
        return f"extern {rest} *a_{rest};"

    if kind in ("callback", "function"):
        return f"{rest};"

    raise SystemExit(f"a line of no known kind: {line}")


def asserted(condition):
    return f'_Static_assert({condition}, "{condition}");'


def program(path):
    promised = Path(path).read_text(encoding="utf-8").splitlines()
    addresses = "".join(f"(void (*)(void)){name}, " for name in functions(path))
    return "\n".join(
        [
            "#include <stddef.h>",
            f'#include "symm/{"fused" if Path(path).stem == FUSED.stem else "symm"}.h"',
            *map(in_c, promised),
            f"void (*const volatile all[])(void) = {{{addresses}}};",
            "int main(void) { return !all[0]; }",
            "",
        ]
    )


def exports(symbol_map):
    """A function of fused.h belongs to the node of that header's major version. Any other belongs
    to the node that names it, even if no header declares it, or else to the first node, which has a
    pattern for all.
    """
    nodes = re.findall(
        r"^(SYMM_\S+) \{(.*?)^\}",
        Path(symbol_map).read_text(encoding="utf-8"),
        flags=re.M | re.S,
    )
    named = {name: node for node, inside in nodes for name in re.findall(r"\b(symm_\w+);", inside)}

    major = int(re.search(r"FUSED_VERSION_MAJOR (\w+)", FUSED.read_text("utf-8"))[1], 16)
    named.update((name, f"SYMM_FUSED_{major}") for name in functions(FUSED))

    yield from (f"A {node}" for node, _ in nodes)
    yield from (f"T {name}@@{named.get(name, nodes[0][0])}" for name in {*functions(), *named})


def parameters():
    for function, its in functions().items():
        yield from (f'{{"{function}", "{name}", "{of.replace(" *", "*")}"}},' for of, name in its)


def main(layout, include, library, compiler):
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            *compiler.split(),
            *("-std=c11", "-Werror", "-I", include),
            *("-x", "c", "-"),
            *("-x", "none", library),
            *("-o", f"{scratch}/layout"),
        ]
        sys.exit(subprocess.run(command, input=program(layout), text=True).returncode)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(*sys.argv[1:])
    rows = parameters() if sys.argv[1] == "parameters" else exports(sys.argv[1])
    print(*rows, sep="\n")
