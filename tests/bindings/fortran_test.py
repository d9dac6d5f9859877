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

if not shutil.which("gfortran"):
    print("SKIPPED: no gfortran")
    sys.exit(77)
LIBRARY, TOOL, ROOT = *sys.argv[1:], Path(__file__).resolve().parents[2]
PROMISED = (ROOT / "tests/abi/layout.txt").read_text(encoding="utf-8").replace("; ", "\n  ")


def program():
    """Stops at what is not as promised."""
    declared, checked, struct = [], [], ""

    def same(name, found, promised):
        checked.append(f"if ({found} &\n  /= {promised}_c_int64_t) error stop '{name}'")

    for line in PROMISED.splitlines():
        if match := re.fullmatch(r"struct (\w+) size (\d+) align \d+", line):
            struct, a, b = match[1], f"a{len(declared)}", f"b{len(declared)}"
            declared.append(f"type({struct}), target, save :: {a}")
            same(struct, f"c_sizeof({a})", match[2])
            same(struct, f"{a}%struct_size", match[2])
            if f" {(init := struct.removesuffix('_t') + '_init')}(" in PROMISED:
                declared[-1] += f", {b}"
                # All bits are set before, so that what the library leaves alone is seen.
                checked.append(f"{b} = transfer(spread(-1_c_int8_t, 1, {match[2]}), {a})")
                same(init, f"{init}({b}, c_sizeof({b}))", 0)
                same(
                    f"{struct}, its defaults",
                    f"count(transfer({a}, [0_c_int8_t]) /= transfer({b}, [0_c_int8_t]))",
                    0,
                )
        elif match := re.fullmatch(r"  (\w+) offset (\d+) size (\d+)", line):
            same(
                f"{struct}.{match[1]}",
                f"transfer(c_loc({a}%{match[1]}), 0_c_int64_t) - transfer(c_loc({a}), 0_c_int64_t)",
                match[2],
            )
            same(f"{struct}.{match[1]}", f"c_sizeof({a}%{match[1]})", match[3])
        elif match := re.fullmatch(r"(?:  |macro )(SYMM_\w+) (\w+|-\d+)", line):
            same(
                match[1],
                match[1],
                int(match[2], 0) - (1 << 64 if int(match[2], 0) >> 63 > 0 else 0),
            )
    same("what may be NULL", "symm_ipc_collect()", 0)
    return "\n".join(
        ["program check", "use symm", "implicit none", *declared, *checked, "end program\n"]
    )


# In the words of gfortran, which has neither signs nor pointers to a type(c_ptr);
# handles are structs to it, which hold a pointer.
numbers, handles = (
    "|".join(re.findall(rf"^{word} (symm_\w+)", PROMISED, flags=re.M))
    for word in ("typedef", "handle")
)
words = re.sub(
    rf"\b(u?int32_t|{numbers})\b", "int", re.sub(r"\b(u?int64_t|size_t)\b", "long", PROMISED)
)
words = re.sub(
    rf"\b({handles}) \*",
    r"\1 ",
    re.sub(r"(const )?void \*(const )?\**|^const char \*", "void *", words, flags=re.M),
)
words = words.replace("symm_log_callback_t callback", "int (*callback)()").replace("(void)", "()")
prototypes = set(re.findall(r"^(?!typedef)\w.* \*?symm_\w+\(.*\)$", words, flags=re.M))

with tempfile.TemporaryDirectory() as scratch:

    def run(*command):
        done = subprocess.run(command, cwd=scratch, stdout=subprocess.PIPE, text=True)
        return (
            done.stdout if done.returncode == 0 else sys.exit(print(done.stdout) or done.returncode)
        )

    run(
        sys.executable,
        "-B",
        ROOT / "bindings/generator/generate.py",
        "fortran",
        ROOT / "capi/include/symm/symm.h",
        scratch,
    )
    seen = re.findall(
        r"^(\w.*symm_\w+ \(.*\));$",
        run("gfortran", "-fsyntax-only", "-fc-prototypes", "symm.f90"),
        flags=re.M,
    )
    assert not (wrong := {line.replace(" (", "(", 1) for line in seen} ^ prototypes), "\n".join(
        sorted(wrong)
    )
    Path(scratch, "check.f90").write_text(program(), encoding="utf-8")
    for source in (f"{scratch}/check.f90", ROOT / "examples/all_reduce.f90"):
        run(
            "gfortran",
            "-std=f2018",
            "-Wall",
            "-Werror",
            "symm.f90",
            source,
            LIBRARY,
            f"-Wl,-rpath,{Path(LIBRARY).parent}",
            "-o",
            Path(source).stem,
        )
    run("./check")
    assert (
        run(TOOL, "run", "-n", "2", "--timeout", "100", "--", "./all_reduce").count(
            "of 2: the sum is 3"
        )
        == 2
    )
