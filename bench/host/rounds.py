"""Launch every library once per round, by turns.

So other work of the machine affects all of them alike.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from common import turned

LAUNCH_TIMEOUT_S = 300
ARENAS = "/dev/shm"  # the folder of the file that all ranks map


class Failed(Exception):
    """A launch failed; the text says how."""


def launch(peer, ranks, pinned, cases, processors):
    """Run the cases on `ranks` ranks of a library.

    Returns:
        The results that rank 0 prints, one for each case.
    """
    words = [",".join(str(word) for word in case) for case in cases]
    with (
        tempfile.NamedTemporaryFile(dir=ARENAS, prefix="symm-bench-") as arena,
        tempfile.TemporaryFile("w+") as log,
    ):
        environment = {
            **os.environ,
            **peer.environment,
            "BENCH_ARENA": arena.name,
            "BENCH_PIN": "1" if pinned else "0",
        }
        command = [
            *(str(word).format(n=ranks, arena=arena.name) for word in peer.launcher),
            str(peer.program),
            *words,
        ]
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )
        try:
            output, _ = process.communicate(timeout=LAUNCH_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"no end after {error.timeout:.0f} s") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        log.seek(0)
        problem = " ".join(log.read().split())[-300:]
    if process.returncode:
        raise Failed(f"exit status {process.returncode}: {problem}")
    results = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if len(results) != len(cases):
        raise Failed(f"{len(results)} results for {len(cases)} cases: {problem}")
    return results


def alternate(peers, rounds, ranks, pinned, cases_of, processors, say):
    """({peer name: {case: [result of each launch]}}, {peer name: why it failed})"""
    samples = defaultdict(lambda: defaultdict(list))
    failed = {}
    for number in range(rounds):
        for peer in turned(peers, number):
            if peer.name in failed:
                continue
            say(f"{ranks} ranks, round {number + 1} of {rounds}: {peer.name}")
            try:
                for result in launch(peer, ranks, pinned, cases_of(peer), processors):
                    case = result["operation"], result["memory"], result["place"], result["bytes"]
                    samples[peer.name][case].append(result)
            except Failed as error:
                failed[peer.name] = str(error)
                samples.pop(peer.name, None)

    return samples, failed


# Limits of the round trip of a cache line, in microseconds. Below the first, two processors share
# a core; below the second, they share a last-level cache.
DISTANCES = {"siblings": 0.05, "near": 0.2, "far": float("inf")}


def distance_of(round_trip):
    return next(name for name, limit in DISTANCES.items() if round_trip < limit)


def by_distance(samples):
    """Sort samples by the distance of the two processors.

    A virtual machine may have its processors on one core now, and on two dies a minute later,
    where a cache line takes ten times as long. Only results of one distance can be compared.

    Returns:
        ({"siblings", "near", "far": samples}, the number of results that were left out because
        the processors moved meanwhile)
    """
    sorted_samples = {distance: {name: {} for name in samples} for distance in DISTANCES}
    moved = 0
    for name, cases in samples.items():
        for case, results in cases.items():
            for result in results:
                before, after = map(distance_of, result["round_trips"])
                if before == after:
                    sorted_samples[before][name].setdefault(case, []).append(result)
                else:
                    moved += 1
    return sorted_samples, moved


def summarise(samples):
    """{peer name: {case: summary of its launches}}"""
    return {
        name: {case: summary(results) for case, results in cases.items()}
        for name, cases in samples.items()
    }


def summary(results):
    """The summary of a case.

    p50, mean and p99 are medians over launches, spread is that of the p50.
    """
    p50 = [result["p50"] for result in results]
    return {
        "p50": statistics.median(p50),
        "mean": statistics.median(result["mean"] for result in results),
        "p99": statistics.median(result["p99"] for result in results),
        "min": min(result["min"] for result in results),
        "max": max(result["max"] for result in results),
        "spread": [min(p50), max(p50)],
        "rounds": len(results),
        "iterations": results[0]["iterations"],
        "round_trip": statistics.median(
            statistics.mean(result["round_trips"]) for result in results
        ),
        "wrong": sum(result["wrong"] for result in results),
    }


def copy_bandwidth(program: Path):
    """{kind of stores: GB/s that two threads read and write}"""
    output = subprocess.run(
        [program, "--benchmark_filter=^copy/", "--benchmark_format=json"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {
        line["label"]: line["bytes_per_second"] * 1e-9 for line in json.loads(output)["benchmarks"]
    }
