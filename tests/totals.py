"""Adds up the JUnit files that ctest wrote. totals.py [--other-failures N] <folder>

Says which tests were skipped and why, which passed only when they ran again alone,
which failed and the end of what each of those printed, and closes with `N passed, N
failed, N skipped`. What failed comes last: of a long log people are shown the end. Exit
status 1 if one failed or none ran. A failure that has no test, such as a build that
broke, is counted by --other-failures.

`<run>.again.xml` beside `<run>.xml` holds the second run
of the tests that failed in the first; its results count.
"""

import argparse
import collections
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

LINES_OF_A_FAILURE = 40
NAMES_OF_A_REASON = 3

arguments = argparse.ArgumentParser()
arguments.add_argument("--other-failures", type=int, default=0)
arguments.add_argument("folder", type=Path)
options = arguments.parse_args()


def reason(case):
    """Scripts print SKIPPED: why. GoogleTest prints `file:line: Skipped` and the message after it."""
    output = case.findtext("system-out") or ""
    for pattern in (r"SKIPPED: (.*)", r": Skipped\n(.+)"):
        if match := re.search(pattern, output):
            return match[1].strip()
    skipped = case.find("skipped")
    return (skipped.get("message") if skipped is not None else None) or "no reason given"


def result(case):
    skipped = case.find("skipped")
    message = skipped.get("message", "") if skipped is not None else ""
    if case.get("status") == "run":
        return "passed"
    if case.get("status") == "disabled" or message.startswith("SKIP_"):
        return "skipped"
    return "failed"  # or it could not be started


def cases(file):
    return (
        {case.get("name"): case for case in xml.parse(file).getroot().iter("testcase")}
        if file.exists()
        else {}
    )


def short(name):
    return name.split("  # ")[0]  # ctest adds GoogleTest's parameter as a comment


passed, failed, unsteady = 0, [], []
skipped = collections.defaultdict(list)
for file in sorted(options.folder.glob("*.xml")):
    if file.name.endswith(".again.xml"):
        continue
    run, again = file.stem, cases(file.with_suffix(".again.xml"))
    for name, case in cases(file).items():
        if result(case) == "failed" and name in again and result(again[name]) != "failed":
            unsteady.append((run, name, case))
            case = again[name]
        if result(case) == "passed":
            passed += 1
        elif result(case) == "skipped":
            skipped[run, reason(case)].append(short(name))
        else:
            failed.append((run, name, again.get(name, case)))


def print_end_of(case):
    lines = (case.findtext("system-out") or "").rstrip().splitlines()
    for line in lines[-LINES_OF_A_FAILURE:]:
        print(f"    | {line}")


for (run, why), names in skipped.items():
    more = f" and {len(names) - NAMES_OF_A_REASON} more" if len(names) > NAMES_OF_A_REASON else ""
    print(f"skipped  {run}: {why}: {', '.join(names[:NAMES_OF_A_REASON])}{more}")
for title, tests in (("UNSTEADY, passed alone", unsteady), ("FAILED  ", failed)):
    for run, name, case in tests:
        print(f"{title} {run}: {name}")
        print_end_of(case)
for run, name, _ in failed:  # once more together, after all the output
    print(f"FAILED   {run}: {name}")
# A test that failed already made its run fail; only a
# run with no failed test of its own adds to the number.
failures = len(failed) + max(0, options.other_failures - len({run for run, _, _ in failed}))
print(f"{passed} passed, {failures} failed, {sum(map(len, skipped.values()))} skipped")
sys.exit(failures > 0 or passed == 0)
