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


class Totals(unittest.TestCase):
    def totals(self, results, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            for name, cases in results.items():
                Path(folder, name + ".xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            run = subprocess.run([sys.executable, TOTALS, *arguments, folder], capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout.splitlines()

    def test_counts(self):
        status, lines = self.totals({"a": [case("x"), case("y", "notrun", SKIPPED)], "b": [case("x")]})
        self.assertEqual((status, lines), (0, ["skipped  a: no such tool: y", "2 passed, 0 failed, 1 skipped"]))

    def test_skipped_for_one_reason_are_one_line(self):
        _, lines = self.totals({"a": [case(f"t{i}  # parameter {i}", "notrun", SKIPPED) for i in range(5)]})
        self.assertEqual(lines[0], "skipped  a: no such tool: t0, t1, t2 and 2 more")

    def test_what_failed_comes_last_with_the_end_of_its_output(self):
        status, lines = self.totals({"a": [failure("x", "\n".join(f"line {i}" for i in range(99)))], "b": [case("y", "notrun", SKIPPED)]})
        self.assertEqual(status, 1)
        self.assertEqual(lines[:2], ["skipped  b: no such tool: y", "FAILED   a: x"])
        self.assertEqual((lines[2], lines[-3]), ("    | line 59", "    | line 98"))
        self.assertEqual(lines[-2:], ["FAILED   a: x", "0 passed, 1 failed, 1 skipped"])

    def test_one_that_passes_alone_passes_and_is_named(self):
        status, lines = self.totals({"a": [failure("x", "too late"), case("y")], "a.again": [case("x")]})
        self.assertEqual(status, 0)
        self.assertEqual(lines, ["UNSTEADY, passed alone a: x", "    | too late", "2 passed, 0 failed, 0 skipped"])

    def test_one_that_fails_again_failed_once(self):
        status, lines = self.totals({"a": [failure("x", "first")], "a.again": [failure("x", "second")]}, "--other-failures", "1")
        self.assertEqual(status, 1)
        self.assertEqual(lines, ["FAILED   a: x", "    | second", "FAILED   a: x", "0 passed, 1 failed, 0 skipped"])

    def test_one_not_run_again_failed(self):
        self.assertEqual(self.totals({"a": [failure("x", ""), failure("y", "")], "a.again": [case("x")]})[0], 1)

    def test_a_build_that_broke_is_a_failure(self):
        status, lines = self.totals({"a": [case("x")]}, "--other-failures", "1")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(self.totals({})[0], 1)


if __name__ == "__main__":
    unittest.main()
