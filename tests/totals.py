# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit files that ctest wrote. totals.py [--other-failures N] <folder>

Says which tests were skipped and why, which failed, and ends with `N passed, N failed, N skipped`. Exit status 1 if one failed or
none ran. A failure that has no test, such as a build that broke, is counted by --other-failures."""
import argparse
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

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


passed, failed, skipped = 0, [], []
for file in sorted(options.folder.glob("*.xml")):
    for case in xml.parse(file).getroot().iter("testcase"):
        name, status = f"{file.stem}: {case.get('name')}", case.get("status")
        message = case.find("skipped").get("message", "") if case.find("skipped") is not None else ""
        if status == "run":
            passed += 1
        elif status == "disabled" or message.startswith("SKIP_"):
            skipped.append(f"{name}: {reason(case)}")
        else:  # failed, or could not be started
            failed.append(name)

for name in skipped:
    print(f"skipped  {name}")
for name in failed:
    print(f"FAILED   {name}")
# A test that failed already made its run fail; only a run with no failed test of its own adds to the number.
runs = {name.split(":")[0] for name in failed}
failures = len(failed) + max(0, options.other_failures - len(runs))
print(f"{passed} passed, {failures} failed, {len(skipped)} skipped")
sys.exit(failures > 0 or passed == 0)
