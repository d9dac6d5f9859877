"""What totals.py makes of results, since it decides whether CI is green; and count.py."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import count

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
        {
            0: "UNSTEADY a: x",
            1: "    | too late",
            2: "UNSTEADY a: x: passed only when repeated",
            3: "1 unsteady",
            4: "2 passed, 0 failed, 0 skipped",
        },
    ),
    (
        "two that pass alone pass",
        {"a": [failure("x", ""), failure("y", "")], "a.again": [A_PASS, case("y")]},
        0,
        0,
        {-2: "2 unsteady", -1: "2 passed, 0 failed, 0 skipped"},
    ),
    (
        "three that pass alone fail",
        {
            "a": [failure("x", ""), failure("y", ""), case("w")],
            "a.again": [A_PASS, case("y")],
            "b": [failure("z", "")],
            "b.again": [case("z")],
        },
        0,
        1,
        {
            -2: "3 unsteady, and 2 are the most that may be: FAILED",
            -1: "1 passed, 3 failed, 0 skipped",
        },
    ),
    (
        "one that is skipped when it is repeated failed",
        {"a": [failure("y", "")], "a.again": [A_SKIP]},
        0,
        1,
        {-1: "0 passed, 1 failed, 0 skipped"},
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


def write_results(folder, results):
    for name, cases in results.items():
        Path(folder, name + ".xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


class Totals(unittest.TestCase):
    def test_cases(self):
        for what, results, others, status, expected in CASES:
            with self.subTest(what), tempfile.TemporaryDirectory() as folder:
                write_results(folder, results)
                totals = run(TOTALS, "--other-failures", str(others), folder)
                self.assertEqual((totals.stderr, totals.returncode), ("", status))
                lines = totals.stdout.splitlines()
                self.assertEqual({number: lines[number] for number in expected}, expected)

    def test_the_log_of_unsteady_tests_outlives_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "build", "unsteady.log")
            results = Path(folder, "results")
            results.mkdir()
            write_results(
                results, {"tsan": [failure("x  # 7", "")], "tsan.again": [case("x  # 7")]}
            )
            for number in (1, 2):
                totals = run(TOTALS, "--unsteady-log", log, results)
                self.assertEqual(totals.returncode, 0)
                entries = log.read_text().splitlines()
                self.assertEqual(len(entries), number)
                self.assertRegex(entries[-1], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ tsan x$")
                self.assertIn(f"1 unsteady; {log} has {number}", totals.stdout)
            self.assertIn("tsan: x  # 7: passed only when repeated, 2 times", totals.stdout)

            # A run without any says what the log still holds.
            write_results(results, {"tsan": [A_PASS], "tsan.again": []})
            totals = run(TOTALS, "--unsteady-log", log, results)
            self.assertEqual(totals.returncode, 0)
            self.assertIn(f"0 unsteady; {log} has 2", totals.stdout)


SOURCES = {
    "tests/a_test.cpp": "TEST(A, B) {\n  EXPECT_EQ(1, 1);\n  expect_failure(x);\n}\n",
    "bindings/python/tests/test_a.py": "def test_a():\n    assert True\n",
    "bindings/rust/symm/tests/a.rs": "#[test]\nfn a() {\n    assert_eq!(1, 1);\n}\n",
    "bindings/julia/LibSymm.jl/test/a.jl": '@testset "a" begin\n    @test true\nend\n',
    "tests/bindings/behaviours/table.txt": "scenario a\nall barrier\n0,1 barrier\n",
}
COUNTED = "C++ 1 with 2, Python 1 with 1, Rust 1 with 1, Julia 1 with 1, behaviours 1 with 2"


class Count(unittest.TestCase):
    def test_a_fall_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, text in SOURCES.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            count.write(root)
            said = [f"tests with assertions, in the sources: {COUNTED}"]
            self.assertEqual(list(count.report(root)), said)

            source = root / "tests/a_test.cpp"
            source.write_text(source.read_text().replace("  EXPECT_EQ(1, 1);\n", ""))
            fewer = "FEWER    C++: 1 assertions, 1 fewer than tests/assertions.txt"
            self.assertEqual(list(count.report(root))[1:], [fewer])

            source.write_text(source.read_text() + "EXPECT_TRUE(a);\n" * 2)
            self.assertIn("count.py write", list(count.report(root))[-1])


if __name__ == "__main__":
    unittest.main()
