"""Every rank writes its own array and reads everybody's: docs/tutorial/02-share-an-array.md."""

import symm

COUNT = 1000

with symm.Group.from_env() as group:
    array = group.empty(COUNT, "f32")

    array.numpy()[:] = group.rank
    group.barrier()  # all have written

    last = sum(array.peer(rank).numpy()[COUNT - 1] for rank in range(group.size))
    print(f"rank {group.rank}: the last elements add up to {last:g}")
