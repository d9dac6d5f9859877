"""PyTorch's own tests of its NCCL back end, with NCCL alone and with the drop-in.

tests/gpu/c10d.py <libsymm_nccl.so> <folder> [--lanes N] [--limit SECONDS] [--time SECONDS]
                  [--outputs FOLDER] [word ...]

The folder has PyTorch's `test_c10d_nccl.py` and `test_c10d_common.py`, which are in the sources of
each of its releases (test/distributed) and not in this repository. With words, those tests run
whose name, Class.test, has one of them. Each test is a program of its own and unchanged; its ranks
are the processes that it starts. SYMM_NCCL names the NCCL behind the drop-in, and the one that the
tests get alone. The drop-in does every collective that it can (SYMM_NCCL_MODE=deterministic).

--lanes says how many tests run at a time. A test is ended after --limit seconds, and none begins
after --time. --outputs keeps what each test said.

The status is 0 if every test that passes with NCCL alone passes with the drop-in, and 77 if nothing
could be run, which is explained.
"""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from frameworks import preloaded

PROGRAM = "test_c10d_nccl.py"
WAYS = ("alone", "drop-in")


def names_of_tests(folder, words):
    """Class.test of each test that has one of the words in its name."""
    listed = subprocess.run(
        [sys.executable, PROGRAM, "--discover-tests"],
        cwd=folder,
        env=preloaded(None),
        check=False,
        capture_output=True,
        text=True,
    )
    names = re.findall(r"^(?:.*\.)?(\w+\.test_\w+)$", listed.stdout, re.MULTILINE)
    if not names:
        raise SystemExit(f"no tests are listed:\n{listed.stdout[-800:]}\n{listed.stderr[-2000:]}")
    return [name for name in names if not words or any(word in name for word in words)]


def verdict(status, said):
    """passed, skipped, failed or hung, of a test that ended with this status."""
    if status is None:
        return "hung"
    if status != 0:
        return "failed"
    if re.search(r"^OK \(skipped=1\)$", said, re.MULTILINE):
        return "skipped"
    if re.search(r"^Ran 1 test", said, re.MULTILINE):
        return "passed"
    return "failed"


def run_test(options, name, way):
    """(verdict, what the test said)"""
    test = subprocess.Popen(
        [sys.executable, PROGRAM, name],
        cwd=options.folder,
        env=preloaded(None if way == "alone" else options.library),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = test.communicate(timeout=options.limit)
        status = test.returncode
    except subprocess.TimeoutExpired:
        os.killpg(test.pid, signal.SIGKILL)  # the test and the ranks that it started
        said, _ = test.communicate()
        status = None
    if options.outputs:
        Path(options.outputs, f"{name}.{way}").write_text(said)
    return verdict(status, said), said


def compare(options, name):
    """(name, {way: (verdict, what was said)}), or None if there was no time left."""
    if time.monotonic() > options.until:
        return name, None
    return name, {way: run_test(options, name, way) for way in WAYS}


def report(results):
    """Prints what differs, and the counts. True if nothing is worse with the drop-in."""
    counts = {}
    worse = 0
    late = 0
    for name, ways in results:
        if ways is None:
            late += 1
            continue
        verdicts = tuple(ways[way][0] for way in WAYS)
        counts[verdicts] = counts.get(verdicts, 0) + 1
        is_worse = verdicts[0] in ("passed", "skipped") and verdicts[1] != verdicts[0]
        worse += is_worse
        if verdicts[0] != verdicts[1]:
            print(f"DIFFERS {name}: {verdicts[0]} alone, {verdicts[1]} with the drop-in")
        if is_worse:
            print(ways["drop-in"][1][-6000:])
        elif verdicts[0] not in ("passed", "skipped"):
            print(f"{verdicts[0]} alone: {name}")
    for verdicts, count in sorted(counts.items()):
        print(f"{count} tests: {verdicts[0]} alone, {verdicts[1]} with the drop-in")
    if late:
        print(f"{late} tests did not begin in time")
    return worse == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("folder")
    parser.add_argument("words", nargs="*", default=[])
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--time", type=float, default=float("inf"))
    parser.add_argument("--outputs")
    options = parser.parse_intermixed_args()
    options.library = os.path.realpath(options.library)
    options.until = time.monotonic() + options.time
    if not os.environ.get("SYMM_NCCL"):
        print("SKIPPED: SYMM_NCCL names no NCCL")
        return 77
    if not Path(options.folder, PROGRAM).exists():
        print(f"SKIPPED: {options.folder} has no {PROGRAM}")
        return 77
    if options.outputs:
        Path(options.outputs).mkdir(parents=True, exist_ok=True)
    names = names_of_tests(options.folder, options.words)
    with concurrent.futures.ThreadPoolExecutor(options.lanes) as lanes:
        results = list(lanes.map(lambda name: compare(options, name), names))
    if all(ways is None or ways["alone"][0] == "skipped" for _, ways in results):
        print("SKIPPED: every test skips itself, for instance as there are fewer than two GPUs")
        return 77
    return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
