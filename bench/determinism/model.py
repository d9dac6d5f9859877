"""A transformer with random weights, tensor-parallel, of kernels whose rows do not depend on how many there are: the all-reduce is all
that could make a difference between batches."""
import torch
import triton
import triton.language as tl

WIDTH, HEADS, WORDS, LENGTH, LAYERS = 2048, 16, 8192, 16, 8


@triton.jit
def _matmul(a, b, c, rows, columns: tl.constexpr, inner: tl.constexpr, row: tl.constexpr, column: tl.constexpr, step: tl.constexpr):
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
    q, k, v = tl.load(qkv + at), tl.load(qkv + at + heads * head), tl.load(qkv + at + 2 * heads * head)
    scores = tl.where(t[:, None] >= t[None, :], tl.dot(q, tl.trans(k)) * (head**-0.5), float("-inf"))
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
    _matmul[(triton.cdiv(rows, 64), columns // 128)](a, b, c, rows, columns, inner, 64, 128, 64, num_warps=4, num_stages=3)
    return c


class Transformer:
    """This rank's part of it, for batches of one size. All ranks' parts come of one seed."""

    def __init__(self, rank, size, device, way, batch, layers=LAYERS):
        random = torch.Generator(device).manual_seed(11)

        def weight(inner, columns, dim=None):
            whole = torch.randn(inner, columns, dtype=torch.bfloat16, device=device, generator=random) * inner**-0.5
            return whole if dim is None else whole.chunk(size, dim)[rank].contiguous()

        def room(columns):
            return torch.empty(batch * LENGTH, columns, dtype=torch.bfloat16, device=device)

        self.way, self.heads = way, HEADS // size
        self.words = weight(WORDS, WIDTH)
        self.layers = [(torch.cat([weight(WIDTH, WIDTH, 1) for _ in range(3)], 1), weight(WIDTH, WIDTH, 0),
                        weight(WIDTH, 4 * WIDTH, 1), weight(4 * WIDTH, WIDTH, 0)) for _ in range(layers)]
        self.last = weight(WIDTH, WORDS)
        self.normal, self.qkv, self.mixed = room(WIDTH), room(3 * WIDTH // size), room(WIDTH // size)
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
            x = x + self.way.all_reduce(matmul(torch.nn.functional.silu(self.up), down, self.partial))
        matmul(self._normalised(x), self.last, self.logits)
        _log_probability[(batch * LENGTH,)](self.logits, tokens, self.answer, WORDS)
        return self.answer.view(batch, LENGTH)
