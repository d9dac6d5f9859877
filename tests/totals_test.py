"""What totals.py makes of results: it decides whether CI is green."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOTALS = Path(__file__).with_name("totals.py")
SKIPPED = '<skipped message="SKIP_RETURN_CODE=77"/><system-out>SKIPPED: no such tool</system-out>'


def case(name, status="run", inside=""):
    return f'<testcase name="{name}" status="{status}">{inside}</testcase>'


def failure(name, output):
    return case(name, "fail", f'<failure message=""/><system-out>{output}</system-out>')


A_PASS, A_SKIP, LONG = (
    case("x"),
    case("y", "notrun", SKIPPED),
    "\n".join(f"line {i}" for i in range(99)),
)
# What is tried, the results by run, the failures of others,
# the status, and lines of what is printed by their number.
CASES = [
    (
        "what is counted",
        {"a": [A_PASS, A_SKIP], "b": [A_PASS]},
        0,
        0,
        {0: "skipped  a: no such tool: y", 1: "2 passed, 0 failed, 1 skipped"},
    ),
    (
        "skipped for one reason are one line",
        {"a": [A_PASS, *(case(f"t{i}  # parameter {i}", "notrun", SKIPPED) for i in range(5))]},
        0,
        0,
        {0: "skipped  a: no such tool: t0, t1, t2 and 2 more"},
    ),
    (
        "what failed comes last with the end of its output",
        {"a": [failure("x", LONG)], "b": [A_SKIP]},
        0,
        1,
        {
            0: "skipped  b: no such tool: y",
            1: "FAILED   a: x",
            2: "    | line 59",
            -3: "    | line 98",
            -2: "FAILED   a: x",
            -1: "0 passed, 1 failed, 1 skipped",
        },
    ),
    (
        "one that passes alone passes and is named",
        {"a": [failure("x", "too late"), case("y")], "a.again": [A_PASS]},
        0,
        0,
        {0: "UNSTEADY, passed alone a: x", 1: "    | too late", 2: "2 passed, 0 failed, 0 skipped"},
    ),
    (
        "one that fails again failed once",
        {"a": [failure("x", "first")], "a.again": [failure("x", "second")]},
        1,
        1,
        {
            0: "FAILED   a: x",
            1: "    | second",
            2: "FAILED   a: x",
            3: "0 passed, 1 failed, 0 skipped",
        },
    ),
    (
        "one not run again failed",
        {"a": [failure("x", ""), failure("y", "")], "a.again": [A_PASS]},
        0,
        1,
        {},
    ),
    (
        "a build that broke is a failure",
        {"a": [A_PASS]},
        1,
        1,
        {-1: "1 passed, 1 failed, 0 skipped"},
    ),
    ("no test at all is a failure", {}, 0, 1, {}),
]


class Totals(unittest.TestCase):
    def test_cases(self):
        for what, results, others, status, expected in CASES:
            with self.subTest(what), tempfile.TemporaryDirectory() as folder:
                for name, cases in results.items():
                    Path(folder, name + ".xml").write_text(
                        f"<testsuite>{''.join(cases)}</testsuite>"
                    )
                run = subprocess.run(
                    [sys.executable, TOTALS, "--other-failures", str(others), folder],
                    capture_output=True,
                    text=True,
                )
                self.assertEqual((run.stderr, run.returncode), ("", status))
                lines = run.stdout.splitlines()
                self.assertEqual({number: lines[number] for number in expected}, expected)


if __name__ == "__main__":
    unittest.main()
