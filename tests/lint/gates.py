"""What is easily forgotten when symm grows. gates.py <repository root> <gate>; prints each
offence and fails.

CONTRIBUTING.md says in which order the files are edited; a gate fails where a file was left
out. What is left out on purpose stands in gates.txt, with the reason; a line there that
excuses nothing is an offence as well.
"""

import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

root, gate = Path(sys.argv[1]), sys.argv[2]
HEADERS = ["capi/include/symm/symm.h", "capi/include/symm/fused.h"]
LISTS = "kernels/types.hpp"
EXCUSES = "tests/lint/gates.txt"
MODEL = "tests/kernels/cuda/CMakeLists.txt"

# The layers that users of a language see, and the files that a function may be called from.
LAYERS = {
    "C++": ["capi/include/symm/*.hpp"],
    "Python": ["bindings/python/src/symm/*.py", "bindings/python/native/*"],
    "Rust": ["bindings/rust/symm/src/*.rs"],
    "Julia": ["bindings/julia/LibSymm.jl/src/*.jl", "bindings/julia/LibSymm.jl/ext/*.jl"],
}
GENERATED = ("generated.jl", "generated.rs")

# Where each entry of a list has to be named, and how it is called there.
NAMED = {
    "SYMM_DTYPES": [
        ("kernels/cuda/arithmetic.cuh", "DType::{name}"),
        ("kernels/host/arithmetic/*.cpp", "case DType::{name}"),
        ("tools/bench/pattern.cpp", "SYMM_DTYPE_{c_name}"),
        ("tools/bench/reference.hpp", "SYMM_DTYPE_{c_name}"),
        ("bindings/python/src/symm/dtypes.py", "SYMM_DTYPE_{c_name}"),
        ("bindings/rust/symm/src/element.rs", "SYMM_DTYPE_{c_name}"),
        ("bindings/julia/LibSymm.jl/src/*.jl", "SYMM_DTYPE_{c_name}"),
        ("tests/bindings/behaviours/*.txt", "{c_name}"),
    ],
    "SYMM_SMALL_FLOATS": [
        ("kernels/cuda/combine.cu", "DType::{name}"),
        ("kernels/cuda/convert.cu", "DType::{name}"),
        ("bindings/python/src/symm/collectives.py", "{name}"),
        ("bindings/julia/LibSymm.jl/src/collectives.jl", "SYMM_DTYPE_{c_name}"),
    ],
    "SYMM_OPS": [
        ("tools/bench/pattern.cpp", "SYMM_OP_{c_name}"),
        ("bindings/julia/LibSymm.jl/src/*.jl", "SYMM_OP_{c_name}"),
    ],
    "SYMM_ALGORITHMS": [
        ("tools/bench/pattern.cpp", "SYMM_ALGORITHM_{c_name}"),
        ("kernels/host/plan.cpp", "Algorithm::{name}"),
        ("kernels/cuda/*plan*.cpp", "Algorithm::{name}"),
        ("tests/cuda/plan_test.cpp", "Algorithm::{name}"),
        ("tests/gpu/collectives.cpp", "SYMM_ALGORITHM_{c_name}"),
        ("docs/glossary.md docs/gpu.md docs/machines.md docs/architecture.md", "{words}"),
    ],
    "SYMM_COLLECTIVES": [
        ("capi/include/symm/*.hpp", "symm_{name}"),
        ("bindings/rust/symm/src/*.rs", "symm_{name}"),
        ("bindings/julia/LibSymm.jl/src/*.jl", "symm_{name}"),
        ("bindings/python/src/symm/*.py", "symm_{name}"),
    ],
}


def files(patterns):
    """Names of the files that match, those that git does not know yet included."""
    command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "--"]
    listed = subprocess.run(
        [*command, *(f":(glob){pattern.replace('/*', '/**/*')}" for pattern in patterns)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return [name for name in listed if (root / name).is_file() and not name.endswith(GENERATED)]


def text_of(patterns):
    """The text of the files that match, one after the other."""
    return "\n".join((root / name).read_text(encoding="utf-8") for name in files(patterns))


def code_of(patterns):
    """The text of the files that match, without comments and strings: prose calls nothing."""
    found = []
    for name in files(patterns):
        comment = r"#[^\n]*" if name.endswith((".py", ".jl")) else r"/\*.*?\*/|//[^\n]*"
        text = (root / name).read_text(encoding="utf-8")
        prose = rf'""".*?"""|"(?:\\.|[^"\\\n])*"|{comment}'
        found.append(re.sub(prose, " ", text, flags=re.S))
    return "\n".join(found)


def excuses():
    """{line number: (gate, what, where)} of gates.txt, whose rows are "gate what where: why".

    An asterisk in a word stands for any letters.
    """
    found = {}
    for number, line in enumerate((root / EXCUSES).read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        row = re.fullmatch(r"(\w+) (\S+) (\S+): (\S.*)", line)
        if row is None:
            sys.exit(f"{EXCUSES}:{number}: is not 'gate what where: why'")
        if row[1] not in GATES:
            sys.exit(f"{EXCUSES}:{number}: there is no gate {row[1]}")
        found[number] = row.groups()[:3]
    return found


def is_named(word, text):
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def languages():
    """Each function of symm.h and fused.h is called by the headers of C++ and the safe layer of
    each language.
    """
    declared = []
    for header in HEADERS:
        found = re.findall(r"^SYMM_API [^;]*?\b(symm_\w+)\(", text_of([header]), flags=re.M)
        declared += [(header, function) for function in found]
        if not found:
            yield "languages", header, "any", f"{header}: no function was recognised"
    for layer, patterns in LAYERS.items():
        text = code_of(patterns)
        for header, function in declared:
            # Python's layer calls raw.symm_x(), the others symm_x().
            if not is_named(function, text):
                why = f"{header}: {function} is not called by {layer} ({', '.join(patterns)})"
                yield "languages", function, layer, why


def lists():
    """Each entry of a list of kernels/types.hpp is named where users and tests need it."""
    for name, places in NAMED.items():
        block = re.search(rf"#define {name}\(X\)((?:.*\\\n)*.*\n)", text_of([LISTS]))
        if block is None:
            yield "lists", name, LISTS, f"{LISTS}: there is no {name}"
            continue
        for here, c_name in re.findall(r"X\((\w+)(?:, (\w+), \w+)?\)", block[1]):
            names = {"name": here, "c_name": c_name or here.upper()}
            for where, form in places:
                word = form.format(**names, words=here.replace("_", " "))
                if not is_named(word, text_of(where.split())):
                    subject = f"{name.removeprefix('SYMM_').lower()}.{here}"
                    place = where.replace(" ", ",")
                    yield "lists", subject, place, f"{LISTS}: {word} is not named in {where}"


def models():
    """Each file of kernels is compiled for the host, where a model stands for the GPU."""
    compiled = text_of([MODEL])
    for name in files(["kernels/cuda/*.cu"]):
        kernel = Path(name).stem
        if re.search(rf"^  {kernel}$", compiled, flags=re.M) is None:
            yield "models", kernel, MODEL, f"{name}: is not in the list of kernels of {MODEL}"


def excused(key, known):
    """Line numbers of the excuses for what was found."""
    return {
        number
        for number, patterns in known.items()
        if all(fnmatchcase(word, pattern) for word, pattern in zip(key, patterns, strict=True))
    }


GATES = {"languages": languages, "lists": lists, "models": models}
known = excuses()
used = set()
offences = []
for *key, message in GATES[gate]():
    lines = excused(key, known)
    used |= lines
    if not lines:
        offences.append(f"{message}; or excuse it in {EXCUSES}: {' '.join(key)}: why")
for number, key in known.items():
    if key[0] == gate and number not in used:
        offences.append(f"{EXCUSES}:{number}: {' '.join(key[1:])} needs no excuse")
print("\n".join(offences) if offences else f"{gate}: nothing was forgotten")
sys.exit(bool(offences))
