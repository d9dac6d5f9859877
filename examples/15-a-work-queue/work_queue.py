"""A work queue: ranks take the next task by fetch-and-add on a word that all of them reach.

Tasks take different times, so nobody is told beforehand which ones to do. The word lies in rank 0's
block. Rank 0 works as the others do, and needs no thread that serves the queue.
"""

import numpy as np

import symm

TASKS = 200
NUMBERS = 1000  # that a task looks at


def work(task):
    """Count the primes among the numbers from NUMBERS * task on."""
    numbers = np.arange(NUMBERS * task, NUMBERS * (task + 1))
    is_prime = numbers >= 2
    for divisor in range(2, int(numbers[-1] ** 0.5) + 1):
        is_prime &= (numbers % divisor != 0) | (numbers == divisor)
    return np.count_nonzero(is_prime)


with symm.Group.from_env() as group:
    queue = group.empty(1, "u64")
    if group.rank == 0:
        queue.numpy()[0] = 0
    group.barrier()

    done = np.zeros(2, np.int64)  # tasks, primes
    while (task := queue.memory.atomic64(0, queue.offset, symm.AtomicOp.ADD, 1)) < TASKS:
        done += (1, work(task))

    group.allreduce(done)
    if group.rank == 0:
        print(f"{done[0]} tasks found {done[1]} primes")
