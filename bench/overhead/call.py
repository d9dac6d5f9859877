"""What a call costs in Python: an all-reduce of 8 bytes in a group of one, of symmetric arrays and of NumPy's."""

import statistics
import time

import numpy as np

import symm

CALLS, ROUNDS = 20_000, 21


def nanoseconds(call):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter_ns() - start) / CALLS)
    return statistics.median(times)


def main():
    with symm.Group.join(0, 1, "thread://overhead", backend="host") as group:
        mine, sum_ = group.empty(1, "f64"), group.empty(1, "f64")
        mine.numpy()[:] = 1.5
        print(f"8-byte all-reduce, one rank: Python {nanoseconds(lambda: group.allreduce(mine, sum_)):.1f} ns")
        send, recv = np.full(1, 1.5), np.zeros(1)
        print(f"8-byte all-reduce, one rank: NumPy {nanoseconds(lambda: group.allreduce(send, recv)):.1f} ns")


main()
