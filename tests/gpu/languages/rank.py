"""One rank of a group on GPUs whose other ranks may be in
other languages; PyTorch is what looks at the memory.

Each rank fills the first half of its block, puts a part of it into its neighbour's with
a signal, all-reduces, compares with a computation on the host bit by bit, and hands its
block to the neighbour by a token. `run` starts it.
"""

import torch

import symm

BLOCK = 1 << 20  # bytes
HALF = BLOCK // 2
MAILBOX = 768 << 10  # where the neighbour's token arrives: its length in 4 bytes, then its bytes
PUT, REDUCE = 4096, 65536  # elements
DATA, TOKEN = 1, 2  # channels


def pattern(rank: int, count: int) -> torch.Tensor:
    """What rank `rank` writes."""
    return ((rank + 1) * (torch.arange(count) % 1024)).to(torch.float32) * 0.3


def require(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"wrong result: {what}")


def same_bits(seen: torch.Tensor, expected: torch.Tensor) -> bool:
    """`seen` may be on the GPU; copying it waits for the current stream."""
    return torch.equal(seen.cpu().view(torch.int32), expected.view(torch.int32))


def pass_on_by_token(
    block: symm.SymmArray, right: int, left: int, stream: torch.cuda.Stream
) -> int:
    """Give this rank's block to the next and read the
    one that came. Returns the length of that token.
    """
    token = block.export_token(stream=stream)
    letter = torch.tensor(list(len(token).to_bytes(4, "little") + token), dtype=torch.uint8)
    block.memory.put(right, MAILBOX, letter.to(stream.device), signal=TOKEN, stream=stream)

    block.wait_signal(left, TOKEN, stream=stream)
    mail = bytes(block[MAILBOX:].torch().cpu().tolist())
    size = int.from_bytes(mail[:4], "little")
    # Without a device it is mapped for the GPU that has the memory.
    with symm.import_token(
        mail[4 : 4 + size], 16, "f32", device=stream.device.index, stream=stream
    ) as theirs:
        require(same_bits(theirs.torch(), pattern(left, 16)), "the imported block")
    return size


def work(group: symm.Group, stream: torch.cuda.Stream) -> str:
    right, left = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    block = group.empty(BLOCK, "u8")
    mine, received = block[:HALF].view("f32"), block[HALF:].view("f32")
    mine.torch().copy_(pattern(group.rank, mine.size))
    group.barrier(stream=stream)

    received.put(mine[:PUT], right, signal=DATA, stream=stream)
    block.wait_signal(left, DATA, stream=stream)
    require(same_bits(received.torch()[:PUT], pattern(left, PUT)), "the left neighbour's floats")

    total = torch.empty(REDUCE, dtype=torch.float32, device=stream.device)
    group.allreduce(mine[:REDUCE], total, "sum", stream=stream)
    expected = torch.zeros(REDUCE)
    for rank in range(group.size):  # in the order of the ranks, as the library does
        expected += pattern(rank, REDUCE)
    require(same_bits(total, expected), "the all-reduce")

    size = pass_on_by_token(block, right, left, stream)
    return (
        f"rank {group.rank} (Python) on GPU {group.device}: put {4 * PUT} B to rank {right}; "
        f"all-reduce {4 * REDUCE} B; "
        f"all bits right; imported rank {left}'s block by token ({size} bytes)"
    )


# Where there are fewer GPUs than ranks, ranks share them.
with symm.Group.from_env(backend="cuda", overlapping_devices=True) as made:
    torch.cuda.set_device(made.device)
    own = torch.cuda.Stream(made.device)
    with torch.cuda.stream(own):
        line = work(made, own)
    own.synchronize()
print(line)
