# SPDX-License-Identifier: Apache-2.0
"""What a call costs in Python: an all-reduce of 8 bytes in a group of one, of NumPy arrays."""

import statistics
import time

import numpy as np

import symm

CALLS, ROUNDS = 20_000, 21


def main():
    with symm.Group(0, 1, "thread://overhead", backend="host") as group:
        send, recv = np.full(1, 1.5), np.zeros(1)
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                group.allreduce(send, recv)
            times.append((time.perf_counter_ns() - start) / CALLS)
    print(f"8-byte all-reduce, one rank: Python {statistics.median(times):.1f} ns")


main()
