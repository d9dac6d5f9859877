#!/usr/bin/env python3
"""Measure how soon a group works again when a rank is killed and a spare takes its place.

    python3 bench/recovery.py symm gloo --trials 200

Four ranks make all-reduces, one after the other with a pause. One is killed (SIGKILL), and the time
ends when all four have the right sum again, three that live and one process that has waited, warm.
Then the next spare is started, and after a pause the next rank is killed.

- symm: the spare waits in join_by_ticket(); the others grow() the group when a call fails.
- symm-spares: the same, and the ranks keep_spares(1) when the spare has come, before the kill.
- gloo: the spare has imported torch and waits for a line; the others destroy the process group when
  a call fails, and all form another one by a store that lives on. The numbers of the new group are
  told to the spare at the moment of the kill: gloo's ranks need not find out who is dead.

The packages symm and torch must be importable for what is measured. Times are of one clock.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

from common import table

RANKS = 4
ELEMENTS = 1024
PAUSE_S = 0.002  # between all-reduces
LIMIT_S = 60


def say(*words):
    print(*words, flush=True)


def expected():
    return sum(range(1, RANKS + 1))


class Symm:
    """A rank of a group of symm."""

    def __init__(self, directory, number):
        import numpy

        import symm

        self.failures = (symm.PeerFailedError, symm.AbortedError)
        self.values = numpy
        ticket = Path(directory, "ticket")
        if number < RANKS:
            self.group = symm.Group.join(
                number, RANKS, f"dir://{directory}", create_timeout=LIMIT_S
            )
            if number == 0:
                ticket.with_suffix(".new").write_bytes(self.group.invite())
                ticket.with_suffix(".new").rename(ticket)
        else:
            say("waits")
            self.group = symm.Group.join_by_ticket(ticket.read_bytes(), timeout=float("inf"))

    def rank(self):
        return self.group.rank

    def all_reduce(self):
        mine = self.values.full(ELEMENTS, self.group.rank + 1, dtype="f4")
        self.group.allreduce(mine)
        return float(mine[-1])

    def again(self):
        self.group = self.group.grow(timeout=LIMIT_S)


class Gloo:
    """A rank of a process group of torch.distributed over gloo."""

    def __init__(self, directory, number):
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self.failures = (RuntimeError,)
        self.torch, self.dist = torch, dist
        self.store = dist.TCPStore("127.0.0.1", int(Path(directory, "port").read_text()), None)
        self.number, self.generation = number, 0
        if number >= RANKS:
            say("waits")
            self.number, self.generation = map(int, sys.stdin.readline().split())
        self.form()

    def form(self):
        self.dist.init_process_group(
            "gloo",
            store=self.dist.PrefixStore(str(self.generation), self.store),
            rank=self.number,
            world_size=RANKS,
            timeout=timedelta(seconds=LIMIT_S),
        )

    def rank(self):
        return self.number

    def all_reduce(self):
        mine = self.torch.full((ELEMENTS,), float(self.number + 1))
        self.dist.all_reduce(mine)
        return float(mine[-1])

    def again(self):
        self.dist.destroy_process_group()
        self.generation += 1
        self.form()


class SymmSpares(Symm):
    """A rank of a group of symm that meets its spare before anybody dies."""

    def __init__(self, directory, number):
        self.wanted = Path(directory, "wanted")
        super().__init__(directory, number)

    def all_reduce(self):
        # The last element tells all ranks alike that one of them knows of a spare that has come.
        mine = self.values.full(ELEMENTS + 1, self.group.rank + 1, dtype="f4")
        mine[-1] = self.group.rank == 0 and self.wanted.exists()
        self.group.allreduce(mine)
        if mine[-1]:
            self.group.keep_spares(1, timeout=LIMIT_S)
            if self.group.rank == 0:
                self.wanted.unlink()
        return float(mine[-2])


LIBRARIES = {"symm": Symm, "symm-spares": SymmSpares, "gloo": Gloo}


def work(library, directory, number):
    """A rank: all-reduces for ever, and a line for the first one of each group."""
    me = LIBRARIES[library](directory, number)
    is_new = True
    while True:
        total = None
        try:
            total = me.all_reduce()
        except me.failures:
            pass
        # Not in the handler: what it handles keeps gloo's connections open, and others waiting.
        if total is None:
            me.again()
            is_new = True
            continue
        if total != expected():
            raise SystemExit(f"rank {me.rank()}: the sum is {total}, not {expected()}")
        if is_new:
            say("right", me.rank(), time.monotonic_ns())
            is_new = False
        time.sleep(PAUSE_S)


class Process:
    def __init__(self, library, directory, number):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", library, directory, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.rank = number

    def hear(self, word):
        line = self.process.stdout.readline().split()
        if not line or line[0] != word:
            raise SystemExit(f"process {self.process.pid} said {line}, not {word}")
        return line[1:]

    def right(self):
        rank, when = self.hear("right")
        self.rank = int(rank)
        return int(when)

    def tell(self, *words):
        say_to = self.process.stdin
        say_to.write(" ".join(map(str, words)) + "\n")
        say_to.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def measure(library, trials):
    """The times of recoveries, in milliseconds."""
    chance = random.Random(1)
    times = []
    with tempfile.TemporaryDirectory(prefix="symm-recovery-") as directory:
        store = None
        if library == "gloo":
            import torch.distributed as dist

            store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
            Path(directory, "port").write_text(str(store.port))
        ranks = [Process(library, directory, number) for number in range(RANKS)]
        spare = None
        try:
            for rank in ranks:
                rank.right()
            for trial in range(1, trials + 1):
                spare = Process(library, directory, RANKS)
                spare.hear("waits")
                if library == "symm-spares":
                    wanted = Path(directory, "wanted")
                    wanted.touch()
                    while wanted.exists():
                        time.sleep(0.01)
                time.sleep(0.1 + 0.05 * chance.random())

                victim = chance.choice(ranks)
                begin = time.monotonic_ns()
                os.kill(victim.process.pid, signal.SIGKILL)
                if library == "gloo":
                    spare.tell(victim.rank, trial)
                ranks = [rank for rank in ranks if rank is not victim] + [spare]
                times.append((max(rank.right() for rank in ranks) - begin) / 1e6)
                victim.process.wait()
        finally:
            for one in [*ranks, spare]:
                if one is not None:
                    one.kill()
    return times


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("libraries", nargs="+", choices=LIBRARIES)
    parser.add_argument("--trials", type=int, default=200)
    options = parser.parse_args()

    rows = []
    for library in options.libraries:
        times = sorted(measure(library, options.trials))
        at = [times[min(len(times) - 1, int(len(times) * part))] for part in (0.5, 0.99)]
        rows.append([library, str(len(times)), *(f"{time:.1f}" for time in [*at, times[-1]])])
        say(f"{library}: mean {statistics.mean(times):.1f} ms")
    print(f"{date.today()}, {RANKS} ranks on {os.cpu_count()} processors, milliseconds")
    print(table(["", "kills", "p50", "p99", "max"], rows))
    return None


if __name__ == "__main__":
    sys.exit(main())
