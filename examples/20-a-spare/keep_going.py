"""A rank is killed, and a spare goes on in its place.

    symm run -n 3 --spares 1 -- python3 keep_going.py

What a program has to do for that: it grows the group when a rank has died, and then tells the
newcomer, which knows nothing, where the others are. Here all take the largest state of any rank.
"""

import os
import signal

import numpy as np

import symm

STEPS = 40


def main():
    is_spare = "SYMM_SPARE" in os.environ
    group = symm.Group.from_env()  # a spare waits here until a rank has died
    if not is_spare:
        group.keep_spares(1)  # optional: they meet now, which takes time that nobody misses yet

    state = np.zeros(2)  # the steps that are done, and what they add up to
    may_differ = is_spare
    while state[0] < STEPS:
        try:
            if may_differ:
                group.allreduce(state, op=symm.Op.MAX)
            may_differ = False

            work = np.full(1, group.rank + 1.0)
            group.allreduce(work)
            state += (1, work[0])
            if not is_spare and group.rank == 1 and state[0] == STEPS / 2:
                os.kill(os.getpid(), signal.SIGKILL)
        except symm.PeerFailedError as error:
            print(f"rank {group.rank} lost rank {error.rank} after {state[0]:g} steps", flush=True)
            group = group.grow()
            may_differ = True

    who = f"rank {group.rank}" + (", a spare" if is_spare else "")
    print(f"{who}: {state[0]:g} steps add up to {state[1]:g}")
    group.finalize()


main()
