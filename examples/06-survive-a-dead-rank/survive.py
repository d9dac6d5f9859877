"""A rank is killed, and the others go on without it: docs/tutorial/06-survive-a-dead-rank.md."""

import os
import signal

import numpy as np

import symm


def work(group):
    ones = np.ones(1, np.float32)
    group.allreduce(ones)
    print(f"rank {group.rank}: {ones[0]:g} ranks at work", flush=True)


def main():
    group = symm.Group.from_env()
    if group.size < 2:
        raise SystemExit("start at least two ranks")

    try:
        work(group)
        if group.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            group.barrier()
    except symm.PeerFailedError as error:
        print(f"rank {group.rank} lost rank {error.rank}")
        group = group.shrink()

    work(group)
    group.finalize()


main()
