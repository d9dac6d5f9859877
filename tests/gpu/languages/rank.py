"""One rank of a group on GPUs whose other ranks may be programs in other languages.

Each rank fills the first half of its block, puts a part of it into its neighbour's block with a
signal, and all-reduces it. It compares the sum bit by bit with a computation on the host, and
hands its block to the neighbour by a token. PyTorch reads and writes the memory. `run` starts
the ranks.
"""

import torch

import symm

BLOCK = 1 << 20  # bytes
HALF = BLOCK // 2
MAILBOX = 768 << 10  # the place of the neighbour's token: its length in 4 bytes, then its bytes

# elements
PUT = 4096
REDUCE = 65536

# channels
DATA = 1
TOKEN = 2


def pattern(rank: int, count: int) -> torch.Tensor:
    """The elements that rank `rank` writes."""
    return ((rank + 1) * (torch.arange(count) % 1024)).to(torch.float32) * 0.3


def require(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"wrong result: {what}")


def same_bits(seen: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether the bits are equal. The copy of a `seen` on the GPU waits for the current stream."""
    return torch.equal(seen.cpu().view(torch.int32), expected.view(torch.int32))


def pass_on_by_token(
    block: symm.SymmArray, right: int, left: int, stream: torch.cuda.Stream
) -> int:
    """Hand this rank's block to the right neighbour, and read the left neighbour's block.

    Returns:
        The length of the left neighbour's token.
    """
    token = block.export_token(stream=stream)
    letter = torch.tensor(list(len(token).to_bytes(4, "little") + token), dtype=torch.uint8)
    block.memory.put(right, MAILBOX, letter.to(stream.device), signal=TOKEN, stream=stream)

    block.wait_signal(left, TOKEN, stream=stream)
    mail = bytes(block[MAILBOX:].torch().cpu().tolist())
    size = int.from_bytes(mail[:4], "little")
    # By default the memory would be mapped for the GPU that has it.
    device = stream.device.index
    with symm.import_token(mail[4 : 4 + size], 16, "f32", device=device, stream=stream) as theirs:
        require(same_bits(theirs.torch(), pattern(left, 16)), "the imported block")
    return size


def work(group: symm.Group, stream: torch.cuda.Stream) -> str:
    right = (group.rank + 1) % group.size
    left = (group.rank - 1) % group.size
    block = group.empty(BLOCK, "u8")
    mine = block[:HALF].view("f32")
    received = block[HALF:].view("f32")
    mine.torch().copy_(pattern(group.rank, mine.size))
    group.barrier(stream=stream)

    received.put(right, mine[:PUT], signal=DATA, stream=stream)
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
        f"all-reduce {4 * REDUCE} B; all bits right; "
        f"imported rank {left}'s block by token ({size} bytes)"
    )


def main() -> None:
    # If there are fewer GPUs than ranks, ranks share them.
    with symm.Group.from_env(backend="cuda", overlapping_devices=True) as group:
        torch.cuda.set_device(group.device)
        stream = torch.cuda.Stream(group.device)
        with torch.cuda.stream(stream):
            line = work(group, stream)
        stream.synchronize()
    print(line)


if __name__ == "__main__":
    main()
