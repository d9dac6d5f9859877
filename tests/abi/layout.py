"""layout.py <layout.txt> <folder of symm/symm.h> <libsymm.so> <C compiler>: is layout.txt
what a C compiler sees? Compiles a program that asserts every size, offset and value,
declares every function once more and links with the library.

layout.py <symm.map>: what the library exports by layout.txt and the map, as nm has it.
layout.py parameters: every parameter of every function, as rows of a C++ table.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LAYOUT = Path(__file__).with_name("layout.txt")


def text_of(path):
    return Path(path).read_text(encoding="utf-8").replace("; ", "\n  ")


def functions(path=LAYOUT):
    """name -> [(type, name)] of its parameters."""
    found = {}
    for name, inside in re.findall(
        r"^(?!typedef).*?\b(symm_\w+)\((.*)\)$", text_of(path), flags=re.M
    ):
        parameters = [] if inside == "void" else inside.split(", ")
        found[name] = [
            re.fullmatch(r"(.*?)\s*(\w+)", parameter).groups() for parameter in parameters
        ]
    return found


def program(path):
    """A line that is not understood is an error."""
    asserted, declared, struct = [], [], None
    for line in text_of(path).splitlines():
        if match := re.fullmatch(r"typedef (\w+) size (\d+) signed (\d)", line):
            asserted.append(
                f"sizeof({match[1]}) == {match[2]} && (({match[1]})-1 < 0) == {match[3]}"
            )
        elif match := re.fullmatch(r"struct (\w+) size (\d+) align (\d+)", line):
            struct = match[1]
            asserted.append(f"sizeof({struct}) == {match[2]} && _Alignof({struct}) == {match[3]}")
        elif match := re.fullmatch(r"  (\w+) offset (\d+) size (\d+)", line):
            asserted.append(
                f"offsetof({struct}, {match[1]}) == {match[2]} && sizeof((({struct} *)0)->{match[1]}) == {match[3]}"
            )
        elif match := re.fullmatch(r"(?:  |macro )(SYMM_\w+) (\w+|-\d+)", line):
            asserted.append(f"{match[1]} == {match[2]}")
        elif match := re.fullmatch(r"handle (\w+)", line):
            declared.append(f"extern {match[1]} *a_{match[1]};")
        elif line and not line.startswith("enum "):
            declared.append(f"{line};")
    lines = [
        "#include <stddef.h>",
        '#include "symm/symm.h"',
        *(f'_Static_assert({a}, "{a}");' for a in asserted),
        *declared,
    ]
    addresses = "".join(f"(void (*)(void)){name}, " for name in functions(path))
    return "\n".join(
        [
            *lines,
            f"void (*const volatile all[])(void) = {{{addresses}}};",
            "int main(void) { return !all[0]; }",
            "",
        ]
    )


def exports(symbol_map):
    """A function belongs to the node that names it, also if no header does, or to the
    first, which has a pattern for all.
    """
    nodes = re.findall(r"^(SYMM_\S+) \{(.*?)^\}", text_of(symbol_map), flags=re.M | re.S)
    named = {name: node for node, inside in nodes for name in re.findall(r"\b(symm_\w+);", inside)}
    yield from (f"A {node}" for node, _ in nodes)
    yield from (f"T {name}@@{named.get(name, nodes[0][0])}" for name in {*functions(), *named})


def parameters():
    for function, its in functions().items():
        yield from (f'{{"{function}", "{name}", "{of.replace(" *", "*")}"}},' for of, name in its)


def main(layout, include, library, compiler):
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            *compiler.split(),
            "-std=c11",
            "-Werror",
            "-I",
            include,
            "-x",
            "c",
            "-",
            "-x",
            "none",
            library,
            "-o",
            f"{scratch}/layout",
        ]
        sys.exit(subprocess.run(command, input=program(layout), text=True).returncode)


if __name__ == "__main__":
    rows = {"parameters": parameters}.get(sys.argv[1], lambda: exports(sys.argv[1]))
    main(*sys.argv[1:]) if len(sys.argv) > 2 else print(*rows(), sep="\n")
