"""Each rank is a stage of a pipeline, and blocks of numbers go from stage to stage.

A stage has two slots, so that the next block arrives in one while the stage works on what is in
the other. Signals of two channels keep the pace: `FILLED` tells the next stage that a slot is
full, and `EMPTIED` tells the stage before that a slot may be written again.
"""

import numpy as np

import symm

BLOCKS = 100
ELEMENTS = 1024  # of a block
SLOTS = 2
FILLED = 0
EMPTIED = 1

with symm.Group.from_env() as group:
    slots = group.empty((SLOTS, ELEMENTS), "f64")
    is_last = group.rank == group.size - 1
    before = group.rank - 1
    after = group.rank + 1

    total = 0.0
    for block in range(BLOCKS):
        slot = block % SLOTS

        # The work of a stage is to add its rank.
        if group.rank == 0:
            result = np.full(ELEMENTS, float(block)) + group.rank
        else:
            slots.wait_signal(before, FILLED)
            result = slots.numpy()[slot] + group.rank
            slots.signal(before, EMPTIED)

        if is_last:
            total += result.sum()
            continue
        # The first blocks find their slots empty.
        if block >= SLOTS:
            slots.wait_signal(after, EMPTIED)
        slots[slot].put(after, result, signal=FILLED)

    if is_last:
        print(f"{BLOCKS} blocks went through {group.size} stages and add up to {total:.0f}")
