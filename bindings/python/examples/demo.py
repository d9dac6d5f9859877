"""One rank of a group whose other ranks may be in other languages; `symm run -n 4 --
python demo.py` starts four of these.

They share one heap, of which each takes the same pieces. Each rank fills
its own, puts a part of it into its neighbour's inbox with a signal,
all-reduces, compares with a computation of its own bit by bit, and hands
its piece to the neighbour by a token, which is of use on its machine
only. With an argument, the sum goes into a file of that directory.
"""

import sys
from pathlib import Path
from time import perf_counter_ns

import numpy as np

import symm

HEAP = 1 << 20  # bytes
MAIL = 1024  # bytes for a token: its length in 4 bytes, then its bytes
MINE, PUT, REDUCE = 131072, 4096, 65536  # elements
DATA, TOKEN = 1, 2  # channels


def pattern(rank: int, count: int) -> np.ndarray:
    """What rank `rank` writes."""
    return ((rank + 1) * (np.arange(count) % 1024)).astype(np.float32) * np.float32(0.3)


def timed(call, *arguments, **options) -> float:
    """Microseconds that a call takes."""
    start = perf_counter_ns()
    call(*arguments, **options)
    return (perf_counter_ns() - start) / 1000


def require(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"wrong result: {what}")


with symm.Group.from_env(backend="host") as group:
    right, left = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    heap = group.heap(HEAP)
    mine, inbox, mail = heap.empty(MINE), heap.empty(PUT), heap.empty(MAIL, "u8")
    mine.numpy()[:] = pattern(group.rank, mine.size)
    group.barrier()

    put_us = timed(inbox.put, mine[:PUT], right, signal=DATA)
    inbox.wait_signal(left, DATA)
    require(np.array_equal(inbox.numpy(), pattern(left, PUT)), "the left neighbour's floats")

    total = np.empty(REDUCE, np.float32)
    reduce_us = timed(group.allreduce, mine[:REDUCE], total, "sum")
    expected = np.zeros(REDUCE, np.float32)
    for rank in range(group.size):  # in the order of the ranks, as the library does
        expected += pattern(rank, REDUCE)
    require(total.tobytes() == expected.tobytes(), "the all-reduce")

    if len(sys.argv) > 1:
        Path(sys.argv[1], str(group.rank)).write_bytes(total.tobytes())

    token = mine.export_token()
    mail.put(len(token).to_bytes(4, "little") + token, right, signal=TOKEN)
    mail.wait_signal(left, TOKEN)
    came = mail.numpy().tobytes()
    size = int.from_bytes(came[:4], "little")
    if group.peer_info(left).mapped:
        with symm.import_token(came[4 : 4 + size], 16, "f32") as theirs:
            require(np.array_equal(theirs.numpy(), pattern(left, 16)), "the imported piece")
    else:
        size = 0

    print(
        f"rank {group.rank} (Python): put {4 * PUT} B to rank {right} in {put_us:.1f} us; "
        f"all-reduce {4 * REDUCE} B in {reduce_us:.1f} us; all bits right; "
        f"imported rank {left}'s piece by token ({size} bytes)"
    )
