"""fortran_test.py <libsymm.so> <symm>: the Fortran module compiles without a warning; its
constants, structs, defaults and interfaces are those of tests/abi/layout.txt and of the
library; and the example runs as two ranks.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISED = (ROOT / "tests/abi/layout.txt").read_text(encoding="utf-8")


class Program:
    """A Fortran program that stops at the first value that is not as promised."""

    def __init__(self):
        self.declared = []
        self.checked = []

    def same(self, name, found, promised):
        self.checked.append(f"if ({found} &\n  /= {promised}_c_int64_t) error stop '{name}'")

    def add(self, line):
        kind, rest = line.split(" ", 1)
        if kind == "struct":
            self.add_struct(*re.fullmatch(r"(\w+) size (\d+) align \d+", rest).groups())
        elif kind == "field":
            pattern = r"(\w+)\.(\w+) offset (\d+) size (\d+)"
            self.add_field(*re.fullmatch(pattern, rest).groups())
        elif kind == "enumerator":
            _, name, value = rest.split(" ")
            self.same(name, name, int(value))
        elif kind == "macro":
            name, value = rest.split(" ")
            self.same(name, name, as_signed(int(value, 0)))

    def add_struct(self, struct, size):
        a, b = f"a_{struct}", f"b_{struct}"
        self.declared.append(f"type({struct}), target, save :: {a}")
        self.same(struct, f"c_sizeof({a})", size)
        self.same(struct, f"{a}%struct_size", size)

        init = struct.removesuffix("_t") + "_init"
        if f" {init}(" not in PROMISED:
            return
        self.declared.append(f"type({struct}), target, save :: {b}")
        # All bits are set before, so that what the library leaves alone is seen.
        self.checked.append(f"{b} = transfer(spread(-1_c_int8_t, 1, {size}), {a})")
        self.same(init, f"{init}({b}, c_sizeof({b}))", 0)
        self.same(
            f"{struct}, its defaults",
            f"count(transfer({a}, [0_c_int8_t]) /= transfer({b}, [0_c_int8_t]))",
            0,
        )

    def add_field(self, struct, field, offset, size):
        a = f"a_{struct}"
        self.same(
            f"{struct}.{field}",
            f"transfer(c_loc({a}%{field}), 0_c_int64_t) &\n  - transfer(c_loc({a}), 0_c_int64_t)",
            offset,
        )
        self.same(f"{struct}.{field}", f"c_sizeof({a}%{field})", size)

    def text(self):
        return "\n".join(
            [
                "program check",
                "use symm",
                "implicit none",
                *self.declared,
                *self.checked,
                "end program\n",
            ]
        )


def as_signed(value):
    """The signed number of 64 bits with the bits of an unsigned one."""
    return value - (1 << 64) if value >> 63 > 0 else value


def program():
    made = Program()
    for line in PROMISED.splitlines():
        made.add(line)
    made.same("what may be NULL", "symm_ipc_collect()", 0)
    return made.text()


def named(kind):
    """A pattern for the names of the integer types, or of the handles."""
    return "|".join(re.findall(rf"^{kind} (symm_\w+)", PROMISED, flags=re.M))


def promised_prototypes():
    """The functions of layout.txt in the words of gfortran, which has neither signs nor
    pointers to a type(c_ptr); handles are structs to it, which hold a pointer.
    """
    words = "\n".join(re.findall(r"^function (.*)$", PROMISED, flags=re.M))
    words = re.sub(r"\b(u?int64_t|size_t)\b", "long", words)
    words = re.sub(rf"\b(u?int32_t|{named('typedef')})\b", "int", words)
    words = re.sub(r"(const )?void \*(const )?\**|^const char \*", "void *", words, flags=re.M)
    words = re.sub(rf"\b({named('handle')}) \*", r"\1 ", words)
    words = words.replace("symm_log_callback_t callback", "int (*callback)()")
    words = words.replace("(void)", "()")
    return set(words.splitlines())


def run(scratch, *command):
    done = subprocess.run(command, cwd=scratch, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(done.returncode)
    return done.stdout


def make_module(scratch):
    generator = ROOT / "bindings/generator/generate.py"
    header = ROOT / "capi/include/symm/symm.h"
    run(scratch, sys.executable, "-B", generator, "fortran", header, scratch)


def check_interfaces(scratch):
    said = run(scratch, "gfortran", "-fsyntax-only", "-fc-prototypes", "symm.f90")
    seen = re.findall(r"^(\w.*symm_\w+ \(.*\));$", said, flags=re.M)
    wrong = {line.replace(" (", "(", 1) for line in seen} ^ promised_prototypes()
    assert not wrong, "\n".join(sorted(wrong))


def compile_program(scratch, source, library):
    run(
        scratch,
        *("gfortran", "-std=f2018", "-Wall", "-Werror"),
        *("symm.f90", source, library),
        f"-Wl,-rpath,{Path(library).parent}",
        *("-o", source.stem),
    )


def check_values(scratch, library):
    source = Path(scratch, "check.f90")
    source.write_text(program(), encoding="utf-8")
    compile_program(scratch, source, library)
    run(scratch, "./check")


def check_example(scratch, library, tool):
    compile_program(scratch, ROOT / "examples/all_reduce.f90", library)
    said = run(scratch, tool, "run", "-n", "2", "--timeout", "100", "--", "./all_reduce")
    assert said.count("of 2: the sum is 3") == 2, said


def main(library, tool):
    if not shutil.which("gfortran"):
        print("SKIPPED: no gfortran")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        make_module(scratch)
        check_interfaces(scratch)
        check_values(scratch, library)
        check_example(scratch, library, tool)


if __name__ == "__main__":
    main(*sys.argv[1:])
