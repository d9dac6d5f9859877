"""The average of an array over all ranks, in symmetric memory and in an array of NumPy.

docs/tutorial/04-all-reduce.md explains it.
"""

import numpy as np

import symm

with symm.Group.from_env() as group:
    gradient = group.empty(1 << 20, "f32")
    gradient.fill(group.rank + 1)
    group.allreduce(gradient, op="avg")  # in place, without a copy

    mine = np.array([1.0, 2.0, 3.0])
    total = np.empty_like(mine)
    group.allreduce(mine, total)  # any array will do

    average = gradient.numpy()[-1]
    reason = group.plan("allreduce", gradient, op="avg").reason
    print(f"rank {group.rank}: average {average:g}, total {total[2]:g} ({reason})")
