"""A rank of run.py, which torch.distributed.run starts.

worker.py <way> <file for the results> <library of peers' kernels> [--quick]
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gpu"))
from kernel_library import Kernels
from measuring import Clock

ROW = 512  # elements of bf16: 1 KB
LARGEST = 26  # 64 MB, as a power of two
TURNS = 11
CALLS = 20

# The transformer is tensor-parallel, and has random weights. A row of a result of its kernels does
# not depend on the number of rows. So only the all-reduce can make a difference between batches.
WIDTH = 2048
HEADS = 16
WORDS = 8192
LENGTH = 16
LAYERS = 8


class Symm:
    """symm, on its own memory."""

    def __init__(self, device):
        import symm

        self.group = symm.Group.from_torch(backend="cuda", device=device.index, timeout=60)

    def empty(self, *shape):
        return self.group.empty(shape, "bf16").torch()

    def all_reduce(self, tensor):
        self.group.allreduce(tensor)
        return tensor


class Nccl:
    """NCCL, on ordinary memory."""

    def __init__(self, device):
        self.device = device

    def empty(self, *shape):
        return torch.empty(shape, dtype=torch.bfloat16, device=self.device)

    def all_reduce(self, tensor):
        dist.all_reduce(tensor)
        return tensor


class TorchSymmetric(Nccl):
    """PyTorch's symmetric memory: one shot for small messages, else two shot; no multicast."""

    def empty(self, *shape):
        import torch.distributed._symmetric_memory as symmetric

        tensor = symmetric.empty(*shape, dtype=torch.bfloat16, device=self.device)
        symmetric.rendezvous(tensor, dist.group.WORLD.group_name)
        return tensor

    def all_reduce(self, tensor):
        operations = torch.ops.symm_mem
        call = operations.two_shot_all_reduce_
        if tensor.nbytes <= 256 << 10:
            call = operations.one_shot_all_reduce
        return call(tensor, "sum", dist.group.WORLD.group_name)


class FlashInfer(Nccl):
    """FlashInfer, with one shot or two as its users get them.

    The table in its trtllm_ar.py decides, by twice the bytes of all ranks.
    """

    ONE_SHOT_MB = {2: 512, 4: 64, 8: 42}

    def __init__(self, device):
        super().__init__(device)
        rank = dist.get_rank()
        world = dist.get_world_size()

        # The class Kernels raises for numbers of ranks that are not in the table.
        self.one_shot_largest = self.ONE_SHOT_MB.get(world, 0) << 20
        self.kernels = Kernels(
            sys.argv[3],
            rank,
            world,
            torch.cuda.current_stream().cuda_stream,
            ["bf16"],
            min(self.one_shot_largest // world // 2, 1 << LARGEST),
            1 << LARGEST,
        )

    def all_reduce(self, tensor):
        world = self.kernels.world
        is_small = 2 * tensor.nbytes * world <= self.one_shot_largest
        one_shot = is_small or len(tensor) <= world
        self.kernels.flashinfer(tensor.numel(), "bf16", one_shot, tensor.shape[1], tensor)()
        return self.kernels.out[: tensor.nbytes].view(tensor.dtype).view_as(tensor)


@triton.jit
def _matmul(
    a,
    b,
    c,
    rows,
    columns: tl.constexpr,
    inner: tl.constexpr,
    row: tl.constexpr,
    column: tl.constexpr,
    step: tl.constexpr,
):
    # All batches have one shape of tile, and add up the inner dimension from start to end.
    m = tl.program_id(0) * row + tl.arange(0, row)
    n = tl.program_id(1) * column + tl.arange(0, column)
    k = tl.arange(0, step)
    inside = m[:, None] < rows
    total = tl.zeros((row, column), tl.float32)
    for at in range(0, inner, step):
        left = tl.load(a + m[:, None] * inner + at + k[None, :], mask=inside, other=0.0)
        total = tl.dot(left, tl.load(b + (at + k[:, None]) * columns + n[None, :]), total)
    tl.store(c + m[:, None] * columns + n[None, :], total.to(tl.bfloat16), mask=inside)


@triton.jit
def _normalise(x, y, width: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, width)
    value = tl.load(x + at).to(tl.float32)
    tl.store(y + at, (value * tl.rsqrt(tl.sum(value * value) / width + 1e-6)).to(tl.bfloat16))


@triton.jit
def _attend(qkv, out, heads: tl.constexpr, length: tl.constexpr, head: tl.constexpr):
    # There is a program for each head of each sequence, which is one tile.
    sequence = tl.program_id(0)
    which = tl.program_id(1)
    t = tl.arange(0, length)
    d = tl.arange(0, head)
    at = (sequence * length + t[:, None]) * (3 * heads * head) + which * head + d[None, :]
    q = tl.load(qkv + at)

    k = tl.load(qkv + at + heads * head)
    v = tl.load(qkv + at + 2 * heads * head)
    scores = tl.dot(q, tl.trans(k)) * (head**-0.5)
    scores = tl.where(t[:, None] >= t[None, :], scores, float("-inf"))
    scores = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    scores = scores / tl.sum(scores, axis=1)[:, None]
    into = (sequence * length + t[:, None]) * (heads * head) + which * head + d[None, :]
    tl.store(out + into, tl.dot(scores.to(tl.bfloat16), v).to(tl.bfloat16))


@triton.jit
def _log_probability(logits, tokens, out, words: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(logits + row * words + tl.arange(0, words)).to(tl.float32)
    top = tl.max(value, axis=0)
    chosen = tl.load(logits + row * words + tl.load(tokens + row)).to(tl.float32)
    tl.store(out + row, chosen - top - tl.log(tl.sum(tl.exp(value - top), axis=0)))


def matmul(a, b, c):
    rows, inner = a.shape
    columns = b.shape[1]
    _matmul[(triton.cdiv(rows, 64), columns // 128)](
        a, b, c, rows, columns, inner, 64, 128, 64, num_warps=4, num_stages=3
    )
    return c


class Transformer:
    """This rank's part of the transformer, for batches of one size.

    The parts of all ranks are made from one seed.
    """

    def __init__(self, rank, size, device, way, batch, layers=LAYERS):
        random = torch.Generator(device).manual_seed(11)

        def weight(inner, columns, dim=None):
            """A weight, or this rank's part of it along a dimension."""
            whole = torch.randn(
                inner, columns, dtype=torch.bfloat16, device=device, generator=random
            )
            whole = whole * inner**-0.5
            return whole if dim is None else whole.chunk(size, dim)[rank].contiguous()

        def buffer(columns):
            return torch.empty(batch * LENGTH, columns, dtype=torch.bfloat16, device=device)

        self.way = way
        self.heads = HEADS // size
        self.words = weight(WORDS, WIDTH)
        self.layers = [
            (
                torch.cat([weight(WIDTH, WIDTH, 1) for _ in range(3)], 1),
                weight(WIDTH, WIDTH, 0),
                weight(WIDTH, 4 * WIDTH, 1),
                weight(4 * WIDTH, WIDTH, 0),
            )
            for _ in range(layers)
        ]
        self.last = weight(WIDTH, WORDS)

        self.normal = buffer(WIDTH)
        self.qkv = buffer(3 * WIDTH // size)
        self.mixed = buffer(WIDTH // size)
        self.up = buffer(4 * WIDTH // size)
        self.logits = buffer(WORDS)
        self.partial = way.empty(batch * LENGTH, WIDTH)  # the operand of the all-reduces
        self.result = torch.empty(batch * LENGTH, dtype=torch.float32, device=device)

    def _normalised(self, x):
        _normalise[(x.shape[0],)](x, self.normal, WIDTH)
        return self.normal

    def log_probabilities(self, tokens):
        """The log-probability of each token in its place: [batch, LENGTH]."""
        batch = len(tokens)
        x = self.words[tokens.reshape(-1)]
        for qkv, out, up, down in self.layers:
            matmul(self._normalised(x), qkv, self.qkv)
            _attend[(batch, self.heads)](self.qkv, self.mixed, self.heads, LENGTH, WIDTH // HEADS)
            x = x + self.way.all_reduce(matmul(self.mixed, out, self.partial))
            matmul(self._normalised(x), up, self.up)
            activated = torch.nn.functional.silu(self.up)
            x = x + self.way.all_reduce(matmul(activated, down, self.partial))

        matmul(self._normalised(x), self.last, self.logits)
        _log_probability[(batch * LENGTH,)](self.logits, tokens, self.result, WORDS)
        return self.result.view(batch, LENGTH)


def microseconds(clock, body, calls=1):
    """The time of a call in a graph of `calls`: the median of the turns on the slowest rank."""
    return clock.measure([SimpleNamespace(name="way", call=body)], calls, TURNS)["us"]["way"]


def rows(way, device, clock, sizes):
    """{bytes: microseconds, rows, and the rows that differ from those of the largest batch}"""
    torch.manual_seed(dist.get_rank())
    operand = torch.randn(sizes[-1] // (2 * ROW), ROW, dtype=torch.bfloat16, device=device)
    buffer = way.empty(*operand.shape)
    largest = way.all_reduce(buffer.copy_(operand)).clone()

    # The tolerance is for libraries that round at each rank.
    expected = operand.float()
    dist.all_reduce(expected)
    torch.testing.assert_close(largest.float(), expected, rtol=0.01, atol=0.1)

    found = {}
    for size in sizes:
        part = buffer[: size // (2 * ROW)]
        part.copy_(operand[: len(part)])
        differs = way.all_reduce(part) != largest[: len(part)]
        wrong = differs.any(dim=1).sum().item()
        part.zero_()  # or sums of sums would soon be infinite
        time = microseconds(clock, lambda part=part: way.all_reduce(part), CALLS)
        found[size] = {"us": time, "rows": len(part), "wrong": wrong}
    return found


def transformer(way, device, clock, layers):
    """Tokens a second for batches of 1 and 64, and whether both give the same bits.

    The bits are those of the log-probabilities of the first sequence.
    """
    seeded = torch.Generator(device).manual_seed(7)
    tokens = torch.randint(WORDS, (64, LENGTH), device=device, generator=seeded)
    found = {}
    first_sequences = []

    for batch in (1, 64):
        net = Transformer(dist.get_rank(), dist.get_world_size(), device, way, batch, layers)
        sequences = tokens[:batch].contiguous()
        first_sequences.append(net.log_probabilities(sequences)[0].clone())
        torch.cuda.synchronize()
        time = microseconds(
            clock, lambda net=net, sequences=sequences: net.log_probabilities(sequences)
        )
        found[str(batch)] = batch * LENGTH / time * 1e6

    found["same"] = torch.equal(*first_sequences)
    found["finite"] = bool(first_sequences[0].isfinite().all())
    return found


WAYS = {
    "symm": Symm,
    "nccl": Nccl,
    "pinned": Nccl,  # with other variables in the environment
    "torch": TorchSymmetric,
    "flashinfer": FlashInfer,
}


def main():
    name, results = sys.argv[1:3]
    quick = "--quick" in sys.argv
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.cuda.set_stream(torch.cuda.Stream())  # graphs cannot be captured on the default stream
    # Serving engines use several streams. In a process that has done so, each kernel of a graph
    # runs 0.2 us later from then on.
    for _ in range(16):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.zeros(1, device=device)
    clock = Clock(dist.new_group(backend="gloo"))
    way = WAYS[name](device)

    sizes = [1 << power for power in range(10, LARGEST + 1, 4 if quick else 1)]
    found = {
        "sizes": rows(way, device, clock, sizes),
        "model": transformer(way, device, clock, 2 if quick else LAYERS),
    }
    found["machine"] = {
        "device": torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
    }
    if dist.get_rank() == 0:
        Path(results).write_text(json.dumps(found))
    clock.line_up()
    os._exit(0)  # without NCCL's teardown, which is slow while there are captured graphs


if __name__ == "__main__":
    main()
