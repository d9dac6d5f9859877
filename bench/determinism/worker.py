"""A rank of run.py: `worker.py <way> <file of the answer> <kernels
of peers> [--quick]`, started by torch.distributed.run.
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
TURNS, CALLS = 11, 20

# A transformer with random weights, tensor-parallel, of kernels
# whose rows do not depend on how many there are: the all-reduce
# is all that could make a difference between batches.
WIDTH, HEADS, WORDS, LENGTH, LAYERS = 2048, 16, 8192, 16, 8


class Symm:
    def __init__(self, device):
        import symm

        self.group = symm.Group.from_torch(backend="cuda", device=device.index, timeout=60)

    def empty(self, *shape):
        return self.group.empty(shape, "bf16").torch()

    def all_reduce(self, tensor):
        self.group.allreduce(tensor)
        return tensor


class Nccl:
    def __init__(self, device):
        self.device = device

    def empty(self, *shape):
        return torch.empty(shape, dtype=torch.bfloat16, device=self.device)

    def all_reduce(self, tensor):
        dist.all_reduce(tensor)
        return tensor


class TorchSymmetric(Nccl):
    """One shot for what is small, two shot above; neither takes multicast."""

    def empty(self, *shape):
        import torch.distributed._symmetric_memory as symmetric

        tensor = symmetric.empty(*shape, dtype=torch.bfloat16, device=self.device)
        symmetric.rendezvous(tensor, dist.group.WORLD.group_name)
        return tensor

    def all_reduce(self, tensor):
        small = tensor.nbytes <= 256 << 10
        call = (
            torch.ops.symm_mem.one_shot_all_reduce
            if small
            else torch.ops.symm_mem.two_shot_all_reduce_
        )
        return call(tensor, "sum", dist.group.WORLD.group_name)


class FlashInfer(Nccl):
    """One shot or two as its own users get it: by the table
    in its trtllm_ar.py, of twice the bytes of all ranks.
    """

    ONE_SHOT_MB = {2: 512, 4: 64, 8: 42}

    def __init__(self, device):
        super().__init__(device)
        rank, world = dist.get_rank(), dist.get_world_size()
        self.most = self.ONE_SHOT_MB.get(world, 0) << 20  # Kernels has an error for other worlds
        stream = torch.cuda.current_stream().cuda_stream
        self.kernels = Kernels(
            sys.argv[3],
            rank,
            world,
            stream,
            ["bf16"],
            min(self.most // world // 2, 1 << LARGEST),
            1 << LARGEST,
        )

    def all_reduce(self, tensor):
        one_shot = (
            2 * tensor.nbytes * self.kernels.world <= self.most or len(tensor) <= self.kernels.world
        )
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
    # One shape of tile for all batches, and the inner dimension from its beginning to its end.
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
    # A program for each head of each sequence, which is one tile.
    sequence, which = tl.program_id(0), tl.program_id(1)
    t, d = tl.arange(0, length), tl.arange(0, head)
    at = (sequence * length + t[:, None]) * (3 * heads * head) + which * head + d[None, :]
    q, k, v = (
        tl.load(qkv + at),
        tl.load(qkv + at + heads * head),
        tl.load(qkv + at + 2 * heads * head),
    )
    scores = tl.where(
        t[:, None] >= t[None, :], tl.dot(q, tl.trans(k)) * (head**-0.5), float("-inf")
    )
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
    (rows, inner), columns = a.shape, b.shape[1]
    _matmul[(triton.cdiv(rows, 64), columns // 128)](
        a, b, c, rows, columns, inner, 64, 128, 64, num_warps=4, num_stages=3
    )
    return c


class Transformer:
    """This rank's part of it, for batches of one size. All ranks' parts come of one seed."""

    def __init__(self, rank, size, device, way, batch, layers=LAYERS):
        random = torch.Generator(device).manual_seed(11)

        def weight(inner, columns, dim=None):
            whole = (
                torch.randn(inner, columns, dtype=torch.bfloat16, device=device, generator=random)
                * inner**-0.5
            )
            return whole if dim is None else whole.chunk(size, dim)[rank].contiguous()

        def room(columns):
            return torch.empty(batch * LENGTH, columns, dtype=torch.bfloat16, device=device)

        self.way, self.heads = way, HEADS // size
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
        self.normal, self.qkv, self.mixed = (
            room(WIDTH),
            room(3 * WIDTH // size),
            room(WIDTH // size),
        )
        self.up, self.logits = room(4 * WIDTH // size), room(WORDS)
        self.partial = way.empty(batch * LENGTH, WIDTH)  # what is reduced, where the way wants it
        self.answer = torch.empty(batch * LENGTH, dtype=torch.float32, device=device)

    def _normalised(self, x):
        _normalise[(x.shape[0],)](x, self.normal, WIDTH)
        return self.normal

    def log_probabilities(self, tokens):
        """[batch, LENGTH]: of each token where it stands."""
        batch = len(tokens)
        x = self.words[tokens.reshape(-1)]
        for qkv, out, up, down in self.layers:
            matmul(self._normalised(x), qkv, self.qkv)
            _attend[(batch, self.heads)](self.qkv, self.mixed, self.heads, LENGTH, WIDTH // HEADS)
            x = x + self.way.all_reduce(matmul(self.mixed, out, self.partial))
            matmul(self._normalised(x), up, self.up)
            x = x + self.way.all_reduce(
                matmul(torch.nn.functional.silu(self.up), down, self.partial)
            )
        matmul(self._normalised(x), self.last, self.logits)
        _log_probability[(batch * LENGTH,)](self.logits, tokens, self.answer, WORDS)
        return self.answer.view(batch, LENGTH)


def microseconds(clock, body, calls=1):
    """Of a call in a graph of some: the median of turns, on the slowest rank."""
    return clock.measure([SimpleNamespace(name="way", call=body)], calls, TURNS)["us"]["way"]


def rows(way, device, clock, sizes):
    """By size: microseconds, and how many rows differ from those of the largest batch."""
    torch.manual_seed(dist.get_rank())
    given = torch.randn(sizes[-1] // (2 * ROW), ROW, dtype=torch.bfloat16, device=device)
    room = way.empty(*given.shape)
    largest = way.all_reduce(room.copy_(given)).clone()
    dist.all_reduce(right := given.float())
    # others round at each rank
    torch.testing.assert_close(largest.float(), right, rtol=0.01, atol=0.1)
    found = {}
    for size in sizes:
        part = room[: size // (2 * ROW)]
        wrong = (
            (way.all_reduce(part.copy_(given[: len(part)])) != largest[: len(part)])
            .any(dim=1)
            .sum()
            .item()
        )
        part.zero_()  # sums of sums stay finite
        time = microseconds(clock, lambda part=part: way.all_reduce(part), CALLS)
        found[size] = {"us": time, "rows": len(part), "wrong": wrong}
    return found


def transformer(way, device, clock, layers):
    """Tokens each second for batches of 1 and 64, and whether the first sequence's
    log-probabilities are the same bits in both.
    """
    tokens = torch.randint(
        WORDS, (64, LENGTH), device=device, generator=torch.Generator(device).manual_seed(7)
    )
    found, answers = {}, []
    for batch in (1, 64):
        net = Transformer(dist.get_rank(), dist.get_world_size(), device, way, batch, layers)
        given = tokens[:batch].contiguous()
        answers.append(net.log_probabilities(given)[0].clone())
        torch.cuda.synchronize()
        time = microseconds(clock, lambda net=net, given=given: net.log_probabilities(given))
        found[str(batch)] = batch * LENGTH / time * 1e6
    return found | {"same": torch.equal(*answers), "finite": bool(answers[0].isfinite().all())}


def main():
    name, answer, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.cuda.set_stream(torch.cuda.Stream())  # which graphs are captured on
    # Engines use several streams: a process that has runs
    # each kernel of a graph 0.2 us later, ever after.
    for _ in range(16):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.zeros(1, device=device)
    clock = Clock(dist.new_group(backend="gloo"))
    way = {"symm": Symm, "torch": TorchSymmetric, "flashinfer": FlashInfer}.get(name, Nccl)(device)
    sizes = [1 << power for power in range(10, LARGEST + 1, 4 if quick else 1)]
    found = {
        "sizes": rows(way, device, clock, sizes),
        "model": transformer(way, device, clock, 2 if quick else LAYERS),
    }
    nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
    found["machine"] = {
        "device": torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        "nccl": nccl,
    }
    if dist.get_rank() == 0:
        Path(answer).write_text(json.dumps(found))
    clock.line_up()
    os._exit(0)  # NCCL's end with captured graphs around is slow, and nothing is left to lose


main()
