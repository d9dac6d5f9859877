"""Counts tests and assertions in the sources, by language.

`count.py` prints them beside what tests/assertions.txt records, and says where one fell: a
commit that takes an assertion away names the one that does its work now. A fall is said,
and is no failure. `count.py write` records the numbers as they are.

What is counted stands in the sources, not what runs: the number is the same on every
machine, and a loop makes no difference. A call of a helper whose name begins with "expect"
is an assertion like a macro of GoogleTest.
"""

import re
import subprocess
import sys
from pathlib import Path

RECORD = "tests/assertions.txt"
# Language: (files, what begins a test, what asserts).
LANGUAGES = {
    "C++": (
        r"tests/.*\.(?:c|h|cpp|hpp|cu)",
        r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(",
        r"\b(?:EXPECT|ASSERT)_[A-Z_]+\(|\b(?:ADD_FAILURE|FAIL)\(|\bexpect\w*\(",
    ),
    "Python": (
        r"(?:tests|bindings)/.*\.py",
        r"^\s*def test_\w+\(",
        r"^\s*assert\b|\bpytest\.raises\(|\bself\.assert\w+\(",
    ),
    "Rust": (
        r"bindings/rust/.*\.rs",
        r"^\s*#\[test\]",
        r"\b(?:debug_)?assert(?:_eq|_ne)?!",
    ),
    "Julia": (
        r"bindings/julia/.*\.jl",
        r"@testset\b",
        r"@test(?:_throws|_logs|_broken|_nowarn)?\b",
    ),
    "behaviours": (
        r"tests/bindings/behaviours/table\.txt",
        r"^scenario\b",
        r"(?:^|; *)(?:all|\d[\d,]*) \w+",
    ),
}


def counts(root):
    """{language: (tests, assertions)}"""
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = {}

    for language, (files, test, assertion) in LANGUAGES.items():
        texts = [
            (root / name).read_text(encoding="utf-8", errors="replace")
            for name in sorted(listing.split("\0"))
            if re.fullmatch(files, name) and (root / name).is_file()
        ]
        found[language] = tuple(
            sum(len(re.findall(pattern, text, flags=re.M)) for text in texts)
            for pattern in (test, assertion)
        )

    return found


def recorded(root):
    """What the record says, in the form of counts()."""
    path = root / RECORD
    rows = re.findall(r"^(\S+) +(\d+) +(\d+)$", path.read_text() if path.exists() else "", re.M)
    return {language: (int(tests), int(assertions)) for language, tests, assertions in rows}


def write(root):
    """Records the numbers as they are."""
    rows = [
        f"{name:<12}{tests:>7}{asserts:>12}\n" for name, (tests, asserts) in counts(root).items()
    ]
    head = "# `python3 tests/count.py write` records what the sources have.\n"
    head += f"# {'language':<10}{'tests':>7}{'assertions':>12}\n"
    (root / RECORD).write_text(head + "".join(rows))


def report(root):
    """Lines for people: all numbers in one, and one for each that fell."""
    now, before = counts(root), recorded(root)
    said = [f"{name} {tests} with {asserts}" for name, (tests, asserts) in now.items()]
    yield f"tests with assertions, in the sources: {', '.join(said)}"
    for language, numbers in before.items():
        for what, was, is_now in zip(("tests", "assertions"), numbers, now.get(language, (0, 0))):
            if is_now < was:
                yield f"FEWER    {language}: {is_now} {what}, {was - is_now} fewer than {RECORD}"

    risen = [
        is_now > was for name in now for is_now, was in zip(now[name], before.get(name, (0, 0)))
    ]
    if any(risen):
        yield f"         more than {RECORD} records: python3 tests/count.py write"


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1]
    if sys.argv[1:] == ["write"]:
        write(here)
    else:
        print("\n".join(report(here)))
