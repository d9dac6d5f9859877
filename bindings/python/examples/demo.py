"""One rank of a group whose other ranks may be programs in other languages.

`symm run -n 4 -- python demo.py` starts four ranks of this program.

The ranks share one heap, from which each takes the same pieces. Each rank fills its piece, puts
a part of it into its neighbour's inbox with a signal, and all-reduces it. It compares the sum
bit by bit with a computation of its own. Then it hands its piece to the neighbour by a token,
which a rank on the same machine can import. With an argument, each rank writes the sum to a file
in that directory.
"""

import sys
from pathlib import Path
from time import perf_counter_ns

import numpy as np

import symm

HEAP = 1 << 20  # bytes
MAIL = 1024  # bytes for a token: its length in 4 bytes, then its bytes

# elements
MINE = 131072
PUT = 4096
REDUCE = 65536

# channels
DATA = 1
TOKEN = 2


def pattern(rank: int, count: int) -> np.ndarray:
    """The elements that rank `rank` writes."""
    return ((rank + 1) * (np.arange(count) % 1024)).astype(np.float32) * np.float32(0.3)


def timed(call, *arguments, **options) -> float:
    """The time of a call in microseconds."""
    start = perf_counter_ns()
    call(*arguments, **options)
    return (perf_counter_ns() - start) / 1000


def require(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"wrong result: {what}")


with symm.Group.from_env(backend="host") as group:
    right = (group.rank + 1) % group.size
    left = (group.rank - 1) % group.size
    heap = group.heap(HEAP)
    mine = heap.empty(MINE)
    inbox = heap.empty(PUT)
    mail = heap.empty(MAIL, "u8")
    mine.numpy()[:] = pattern(group.rank, mine.size)
    group.barrier()

    put_us = timed(inbox.put, right, mine[:PUT], signal=DATA)
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
    mail.put(right, len(token).to_bytes(4, "little") + token, signal=TOKEN)
    mail.wait_signal(left, TOKEN)
    received = mail.numpy().tobytes()
    size = int.from_bytes(received[:4], "little")
    if group.peer_info(left).mapped:
        with symm.import_token(received[4 : 4 + size], 16, "f32") as theirs:
            require(np.array_equal(theirs.numpy(), pattern(left, 16)), "the imported piece")
    else:
        size = 0

    print(
        f"rank {group.rank} (Python): put {4 * PUT} B to rank {right} in {put_us:.1f} us; "
        f"all-reduce {4 * REDUCE} B in {reduce_us:.1f} us; all bits right; "
        f"imported rank {left}'s piece by token ({size} bytes)"
    )
