"""Adds up the JUnit files that ctest wrote.

totals.py [--other-failures N] [--unsteady-log FILE] [--sources ROOT] <folder>

Says which tests were skipped and why, which failed, and the end of what each of those
printed, and closes with `N passed, N failed, N skipped`. What failed comes last: of a long
log people are shown the end. Exit status 1 if one failed or none ran. A failure that has no
test, such as a build that broke, is counted by --other-failures.

`<run>.again.xml` beside `<run>.xml` holds the second run of the tests that failed in the
first; its results count. A test that passed only there is unsteady: it is named, and the
log, which outlives the run, gets a line of date, run and name. Up to two are forgiven; from
three on each counts as failed.

With --sources the tests and assertions of the sources are said as well (count.py).
"""

import argparse
import collections
import datetime
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import count

LINES_OF_A_FAILURE = 40
NAMES_OF_A_REASON = 3
MOST_UNSTEADY = 2

arguments = argparse.ArgumentParser()
arguments.add_argument("--other-failures", type=int, default=0)
arguments.add_argument("--unsteady-log", type=Path)
arguments.add_argument("--sources", type=Path)
arguments.add_argument("folder", type=Path)
options = arguments.parse_args()


def reason(case):
    """Scripts print `SKIPPED: why`; GoogleTest prints `file:line: Skipped`, and the reason on the
    line after.
    """
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
        if result(case) == "failed" and name in again and result(again[name]) == "passed":
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


def log_unsteady():
    """Adds the unsteady tests to the log; returns how often it names each, by run and name."""
    if options.unsteady_log is None:
        return {}
    log = options.unsteady_log
    if unsteady:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.writelines(f"{now} {run} {short(name)}\n" for run, name, _ in unsteady)
    entries = log.read_text().splitlines() if log.exists() else []
    return collections.Counter(entry.split(" ", 1)[1] for entry in entries)


for (run, why), names in skipped.items():
    more = f" and {len(names) - NAMES_OF_A_REASON} more" if len(names) > NAMES_OF_A_REASON else ""
    print(f"skipped  {run}: {why}: {', '.join(names[:NAMES_OF_A_REASON])}{more}")
times = log_unsteady()
for title, tests in (("UNSTEADY", unsteady), ("FAILED  ", failed)):
    for run, name, case in tests:
        print(f"{title} {run}: {name}")
        print_end_of(case)
# The names once more together, after all the output.
for run, name, _ in unsteady:
    often = times.get(f"{run} {short(name)}", 1)
    print(f"UNSTEADY {run}: {name}: passed only when repeated" + f", {often} times" * (often > 1))
for run, name, _ in failed:
    print(f"FAILED   {run}: {name}")
if options.sources is not None:
    print("\n".join(count.report(options.sources)))

too_many = len(unsteady) if len(unsteady) > MOST_UNSTEADY else 0
if unsteady or times:
    logged = f"; {options.unsteady_log} has {sum(times.values())}" if times else ""
    verdict = f", and {MOST_UNSTEADY} are the most that may be: FAILED" if too_many else ""
    print(f"{len(unsteady)} unsteady{verdict}{logged}")
# A test that failed already made its run fail; only a run with no failed test of its own
# adds to the number.
failures = len(failed) + max(0, options.other_failures - len({run for run, _, _ in failed}))
passed -= too_many
failures += too_many
print(f"{passed} passed, {failures} failed, {sum(map(len, skipped.values()))} skipped")
sys.exit(failures > 0 or passed == 0)
