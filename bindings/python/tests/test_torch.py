"""symm.torch: the operators, the back end of torch.distributed, and packages over it.

On the CPU, and on GPUs if there are two. Each chapter runs on two ranks that are programs,
`test_torch.py <chapter> <device type>`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from ctypes.util import find_library
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import REPOSITORY

import symm

SIZE = 2
RANK = int(os.environ.get("SYMM_RANK", "0"))
NO_TORCH = "no PyTorch here: build/bindings/python/venv/bin/pip install torch"
CHAPTERS = ("operators", "collectives", "operands", "callbacks", "training")


# ---- the chapter "operators"

# Each operator, and its results on all ranks, computed from all ranks' operands, stacked.
OPERATORS = {
    "sum": (
        lambda ops, x: ops.all_reduce(x),
        lambda all_x: [all_x.sum(0)] * SIZE,
    ),
    "avg": (
        lambda ops, x: ops.all_reduce(x, "avg"),
        lambda all_x: [all_x.mean(0)] * SIZE,
    ),
    "max": (
        lambda ops, x: ops.all_reduce(x, "max"),
        lambda all_x: [all_x.amax(0)] * SIZE,
    ),
    "all_gather": (
        lambda ops, x: ops.all_gather(x),
        lambda all_x: [all_x.flatten(0, 1)] * SIZE,
    ),
    "reduce_scatter": (
        lambda ops, x: ops.reduce_scatter(x),
        lambda all_x: all_x.sum(0).chunk(SIZE),
    ),
    "reduce_scatter avg": (
        lambda ops, x: ops.reduce_scatter(x, "avg"),
        lambda all_x: all_x.mean(0).chunk(SIZE),
    ),
    "all_to_all": (
        lambda ops, x: ops.all_to_all(x),
        lambda all_x: [part.flatten(0, 1) for part in all_x.chunk(SIZE, 1)],
    ),
    "all_to_all rows": (
        lambda ops, x: ops.all_to_all(x, "", [1, 3], [3, 3] if RANK else [1, 1]),
        lambda all_x: [all_x[:, :1].flatten(0, 1), all_x[:, 1:].flatten(0, 1)],
    ),
    "broadcast": (
        lambda ops, x: ops.broadcast(x, 1),
        lambda all_x: [all_x[1]] * SIZE,
    ),
    "reduce": (
        lambda ops, x: ops.reduce(x, "avg", 1),
        lambda all_x: [all_x[0].detach() * 0, all_x.mean(0)],
    ),
}


def check_operator(name, rank, device):
    """The results and the gradients of an operator, as it is and compiled."""
    import torch

    # Both compilers leave out calls whose results are not read.
    compiler = "aot_eager_decomp_partition" if device.type == "cpu" else "inductor"
    apply, expect = OPERATORS[name]
    torch.manual_seed(1)
    all_x = torch.randn(SIZE, 4, 5, dtype=torch.float64, device=device, requires_grad=True)
    expected = expect(all_x)
    weights = [torch.randn_like(one) for one in expected]
    sum((one * weight).sum() for one, weight in zip(expected, weights, strict=True)).backward()

    for applied in (apply, torch.compile(apply, fullgraph=True, backend=compiler)):
        x = all_x[rank].detach().clone().requires_grad_()
        y = applied(torch.ops.symm, x)
        assert torch.equal(y, expected[rank]), name
        (y * weights[rank]).sum().backward()
        assert torch.allclose(x.grad, all_x.grad[rank], rtol=1e-12), name


def check_registrations(device):
    """PyTorch's own checks of operators, and what they refuse."""
    import torch

    ops = torch.ops.symm

    def inputs():
        return torch.randn(4, 3, device=device, requires_grad=True)

    for operator, arguments in (
        (ops.all_reduce, (inputs(), "avg")),
        (ops.all_gather, (inputs().T,)),
        (ops.reduce_scatter, (inputs(),)),
        (ops.all_to_all, (inputs(),)),
        (ops.broadcast, (inputs(), 1)),
        (ops.reduce, (inputs(), "sum", 1)),
        (ops.all_reduce_, (inputs().detach(),)),
        (ops.barrier, (inputs().detach(),)),
    ):
        torch.library.opcheck(operator.default, arguments)
    with pytest.raises(NotImplementedError, match="gradient"):
        ops.all_reduce_(inputs())
    with pytest.raises(symm.InvalidArgumentError, match="3 rows"):
        ops.reduce_scatter(torch.ones(3, device=device))


def check_symmetric_memory(group, rank, device):
    """Operators on symmetric memory, in place and without a copy, and in a CUDA graph."""
    import torch

    ops = torch.ops.symm
    block = group.empty(1 << 16, "f32")
    view = block.torch()

    def step(out):
        view.fill_(rank + 1)
        ops.barrier(view)
        ops.all_reduce_(view)
        out.add_(ops.all_reduce(view.reshape(2, -1).T))

    out = torch.zeros(1 << 15, 2, device=device)
    step(out)
    steps = 1
    if device.type == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(out)
        for _ in range(3):
            graph.replay()
            steps += 1
        torch.cuda.synchronize()
    assert (view == 3).all().item()
    assert torch.equal(out, torch.full_like(out, 6 * steps))


def operators(rank, device):
    import torch

    from symm.torch import forget, use

    group = symm.Group.from_env(backend="host" if device.type == "cpu" else "cuda", timeout=60)
    with pytest.raises(symm.InvalidArgumentError, match=r"symm\.torch\.use"):
        torch.ops.symm.all_reduce(torch.ones(1, device=device))
    use(group)
    for name in OPERATORS:
        check_operator(name, rank, device)
    check_registrations(device)
    check_symmetric_memory(group, rank, device)
    forget()
    group.finalize()


# ---- the chapter "collectives"


def init_process_group(rank, size=SIZE):
    """Form the default process group. Returns torch.distributed."""
    import torch.distributed as dist

    __import__("symm.torch")  # registers the back end

    dist.init_process_group(
        "cpu:symm,cuda:symm",
        init_method=f"file://{os.environ['SYMM_TEST_STORE']}",
        rank=rank,
        world_size=size,
    )
    if "SYMM_TEST_MACHINES" in os.environ:
        import torch

        assert dist.group.WORLD.group(torch.device("cpu")).info().machines == SIZE
    return dist


class Tensors:
    """Makes and compares tensors on a device."""

    def __init__(self, device):
        self.device = device

    def full(self, value, *shape, dtype=None):
        import torch

        return torch.full(shape or (6,), value, device=self.device).to(dtype or torch.float32)

    def expect(self, tensor, *values):
        assert tensor.flatten().tolist() == list(values), tensor


def check_reductions(dist, rank, tensors):
    import torch

    full = tensors.full
    reduce_op = dist.ReduceOp
    dtypes = (
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int64,
        torch.uint8,
        torch.int16,
    )
    results = {
        reduce_op.SUM: 5,
        reduce_op.MIN: 2,
        reduce_op.MAX: 3,
        reduce_op.PRODUCT: 6,
        reduce_op.AVG: 2.5,
    }
    for dtype in dtypes:
        for op, result in results.items():
            expected = result if dtype.is_floating_point else int(result)
            tensor = full(rank + 2, dtype=dtype)
            dist.all_reduce(tensor, op)
            tensors.expect(tensor, *[expected] * 6)
            tensor = full(rank + 2, dtype=dtype)
            dist.all_reduce(tensor, op, async_op=True).wait()
            tensors.expect(tensor, *[expected] * 6)

    tensor = torch.complex(full(rank), full(1.0))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [1 + 2j] * 6
    tensor = full(rank, dtype=torch.bool)
    dist.all_reduce(tensor, reduce_op.BAND)
    assert not tensor.any()
    for op, result in ((reduce_op.BAND, 4), (reduce_op.BOR, 7), (reduce_op.BXOR, 3)):
        tensor = full(rank + 5, dtype=torch.int32)  # 0b101 and 0b110
        dist.all_reduce(tensor, op)
        tensors.expect(tensor, *[result] * 6)
    tensor = full(rank + 1)
    dist.all_reduce(tensor, torch.distributed._make_nccl_premul_sum(0.5))
    tensors.expect(tensor, *[1.5] * 6)
    strided = full(rank, 4, 2)[:, 0]
    dist.all_reduce(strided)
    tensors.expect(strided, 1, 1, 1, 1)

    for wrong, op in ((full(1, dtype=torch.bool), reduce_op.BXOR), (full(1), reduce_op.BAND)):
        with pytest.raises(symm.UnsupportedError, match="does not reduce"):
            dist.all_reduce(wrong, op)
    with pytest.raises(symm.UnsupportedError, match="layout"):
        dist.all_reduce(tensor.to_sparse())


def check_other_collectives(dist, rank, tensors):
    import torch

    full = tensors.full
    row = torch.arange(4.0, device=tensors.device)
    for call, tensor, expected in (
        (
            lambda x: dist.broadcast(x, 1),
            full(rank),
            [1] * 6,
        ),
        (
            lambda x: dist.all_gather(x, full(rank)),
            [full(9), full(9)],
            [0] * 6 + [1] * 6,
        ),
        (
            lambda x: dist.all_gather(x, full(rank, rank + 1)),
            [full(9, 1), full(9, 2)],
            [0, 1, 1],
        ),
        (
            lambda x: dist.all_gather_into_tensor(x, full(rank, 2)),
            full(9, 4),
            [0, 0, 1, 1],
        ),
        (
            lambda x: dist.all_gather_into_tensor(x, x.chunk(2)[rank], async_op=True).wait(),
            full(rank + 5, 4),
            [5, 5, 6, 6],
        ),
        (
            lambda x: dist.reduce_scatter(x, [full(1, 2), full(2, 2)]),
            full(0, 2),
            [2 * rank + 2] * 2,
        ),
        (
            lambda x: dist.reduce_scatter_tensor(x, row, dist.ReduceOp.AVG),
            full(0, 2),
            [2 * rank, 2 * rank + 1],
        ),
        (
            lambda x: dist.all_to_all_single(x, row + 10 * rank),
            full(9, 4),
            [2 * rank + i for i in (0, 1, 10, 11)],
        ),
        (
            lambda x: dist.all_to_all_single(x, full(rank, 3, 2), [rank + 1] * 2, [1, 2]),
            full(9, 2 * (rank + 1), 2),
            [0] * 2 * (rank + 1) + [1] * 2 * (rank + 1),
        ),
        (
            lambda x: dist.all_to_all(x, [full(rank, 1), full(rank, 2)]),
            [full(9, rank + 1), full(9, rank + 1)],
            [0] * (rank + 1) + [1] * (rank + 1),
        ),
        (
            lambda x: dist.scatter(x, [full(3), full(4)] if rank else None, 1),
            full(9),
            [3 + rank] * 6,
        ),
    ):
        call(tensor)
        tensors.expect(torch.cat(tensor) if isinstance(tensor, list) else tensor, *expected)

    tensor = full(rank + 1)
    dist.reduce(tensor, 1)
    if rank == 1:
        assert tensor[0] == 3
    parts = [full(9), full(9)] if rank == 0 else None
    dist.gather(full(rank), parts, 0)
    if rank == 0:
        assert [part[0] for part in parts] == [0, 1]

    for dtype in (torch.complex64, torch.float8_e4m3fn):
        tensor = full(rank).to(dtype)
        dist.broadcast(tensor, 1)
        assert tensor[:1].cpu().to(torch.complex64) == 1

    with pytest.raises(symm.InvalidArgumentError, match="recv"):
        dist.all_gather_into_tensor(full(0, 3), full(0, 2))
    with pytest.raises(symm.InvalidArgumentError, match="recv"):
        dist.all_gather_into_tensor(full(0, 3), full(0, 2), async_op=True).wait()


def negated(rank, device):
    """The numbers (-5, -5) on rank 0 and (-6, -6) on rank 1, negated by a bit."""
    import torch

    # As conj().imag of complex numbers is, and contiguous also with several elements.
    view = torch._neg_view(torch.full((2,), 5.0 + rank, device=device))
    assert view.is_neg()
    assert view.is_contiguous()
    return view


def check_movement_of_lazy_bits(dist, rank, tensors):
    """Collectives that move elements."""
    import torch

    one = negated(rank, tensors.device)
    of_both = [-5, -5, -6, -6]

    def blank():
        return negated(7, tensors.device)

    for call, recv, expected in (
        (lambda x: dist.broadcast(x, 1), negated(rank, tensors.device), [-6, -6]),
        (lambda x: dist.all_gather(x, one), [blank(), blank()], of_both),
        (lambda x: dist.all_gather_into_tensor(x, one), torch.cat([blank(), blank()]), of_both),
        (lambda x: dist.all_to_all(x, [one, one]), [blank(), blank()], of_both),
        (lambda x: dist.all_to_all_single(x, one), blank(), [-5, -6]),
        (lambda x: dist.scatter(x, [one, one] if rank else None, 1), blank(), [-6, -6]),
    ):
        call(recv)
        tensors.expect(torch.cat(recv) if isinstance(recv, list) else recv, *expected)

    parts = [blank(), blank()] if rank == 0 else None
    dist.gather(one, parts, 0)
    if rank == 0:
        tensors.expect(torch.cat(parts), *of_both)

    received = blank()
    for source in range(SIZE):
        if rank == source:
            dist.send(one, 1 - rank)
        else:
            dist.recv(received, source)
    tensors.expect(received, *[rank - 6] * 2)


def check_lazy_bits(dist, rank, tensors):
    """Views whose memory has other elements than they have, as operands of each collective.

    PyTorch itself refuses conjugated views.
    """
    import torch

    check_movement_of_lazy_bits(dist, rank, tensors)
    ops = dist.ReduceOp
    for op, expected in ((ops.SUM, -11), (ops.MAX, -5), (ops.MIN, -6), (ops.PRODUCT, 30)):
        reduced = negated(rank, tensors.device)
        dist.all_reduce(reduced, op)
        tensors.expect(reduced, expected, expected)
        reduced = negated(rank, tensors.device)
        dist.reduce(reduced, 1, op)
        tensors.expect(reduced, *[expected if rank else -5] * 2)
        parts = [negated(rank, tensors.device)] * 2
        for call in (
            lambda x: dist.reduce_scatter(x, parts, op),  # noqa: B023 - called at once
            lambda x: dist.reduce_scatter_tensor(x, torch.cat(parts), op),  # noqa: B023
        ):
            reduced = negated(7, tensors.device)
            call(reduced)
            tensors.expect(reduced, expected, expected)


def check_several_at_a_time(dist, rank, tensors):
    """Coalesced collectives, barriers, and asynchronous collectives before a blocking one."""
    full = tensors.full
    several = [full(rank), full(rank + 1, 3)]
    dist.all_reduce_coalesced(several)
    with dist._coalescing_manager(device=tensors.device, async_ops=True) as manager:
        for one in several:
            dist.all_reduce(one)
    manager.wait()
    tensors.expect(several[1], 6, 6, 6)

    dist.barrier()
    dist.barrier(async_op=True).wait()

    works = [dist.all_reduce(full(rank, 1000), async_op=True) for _ in range(20)]
    tensor = full(rank)
    dist.all_reduce(tensor)  # after the asynchronous ones
    tensors.expect(tensor, *[1] * 6)
    assert all(work.wait() for work in works)


def check_objects(dist, rank):
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]
    objects = [f"from {rank}"]
    dist.broadcast_object_list(objects, 1)
    assert objects == ["from 1"]


def check_process_groups(dist, rank, tensors):
    """Process groups of some ranks, with options, and with another back end for CUDA.

    Returns:
        A process group of both ranks.
    """
    full = tensors.full
    with_gloo = dist.new_group(backend="cpu:symm,cuda:gloo")
    with pytest.raises(symm.UnsupportedError, match="cuda:gloo"):
        dist.all_reduce(full(1).cpu().to("meta"), group=with_gloo)

    alone = [dist.new_group([one]) for one in range(SIZE)][rank]
    both = dist.new_group([0, 1], pg_options={"scratch_bytes": 1 << 20})
    tensor = full(rank + 1)
    dist.all_reduce(tensor, group=alone)
    tensors.expect(tensor, *[rank + 1] * 6)
    dist.all_reduce(tensor, group=both)
    tensors.expect(tensor, *[3] * 6)
    return both


def check_messages(dist, rank, tensors):
    full = tensors.full
    other = 1 - rank
    for tag in (0, 7):
        tensor = full(9)
        if rank:
            dist.recv(tensor, 0, tag=tag)
            dist.send(tensor + 1, 0, tag=tag)
        else:
            dist.send(full(tag), 1, tag=tag)
            dist.recv(tensor, 1, tag=tag)
        tensors.expect(tensor, *[tag + 1 - rank] * 6)

    sent = full(rank, 1 << 18)
    received = full(9, 1 << 18)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, received, other)]
    )
    assert len(works) == 2
    for work in works:
        work.wait()
    assert (received == other).all()
    with pytest.raises(symm.UnsupportedError, match="any"):
        dist.recv(full(9))

    check_order_of_messages(dist, rank, tensors)
    check_lengths_of_messages(dist, rank, tensors)
    check_batches_of_messages(dist, rank, tensors)


def check_order_of_messages(dist, rank, tensors):
    """Messages keep their order, and wait neither for another tag nor for the other direction."""
    full = tensors.full
    other = 1 - rank
    # Rank 1 sends the later tag first, and both receive before they send.
    coming = {tag: [full(9) for _ in range(3)] for tag in (3, 300)}
    works = [dist.irecv(one, other, tag=tag) for tag, all_of in coming.items() for one in all_of]
    dist.barrier()
    assert not any(work.is_completed() for work in works)
    for tag in (3, 300) if rank == 0 else (300, 3):
        for i in range(3):
            dist.send(full(tag + i), other, tag=tag)
    for work in works:
        work.wait()
    for tag, all_of in coming.items():
        for i, one in enumerate(all_of):
            tensors.expect(one, *[tag + i] * 6)

    # What lies in memory in another order than its elements.
    sent = full(0, 2, 3).copy_(tensors.full(rank, 2, 3)).t()
    sent[2, 1] = 7
    received = full(9, 2, 3).t()
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.irecv, received, other), dist.P2POp(dist.isend, sent, other)]
    ):
        work.wait()
    tensors.expect(received, other, other, other, other, other, 7)
    empty = dist.isend(full(0, 0), other)
    dist.recv(full(0, 0), other)
    empty.wait()


def check_lengths_of_messages(dist, rank, tensors):
    """A message has to be as long as the tensor that receives it."""
    for tag, count in ((20, 5), (21, 7)):
        if rank == 0:
            sent = dist.isend(tensors.full(1, count), 1, tag=tag)
            with pytest.raises(symm.SymmError, match=f"{count * 4}"):
                sent.wait(timedelta(seconds=20))
        else:
            received = dist.irecv(tensors.full(9, 6), 0, tag=tag)
            with pytest.raises(symm.SymmError, match=f"{count * 4}"):
                received.wait(timedelta(seconds=20))
    # Other messages go on.
    tensor = tensors.full(rank)
    dist.send(tensor, 1, tag=22) if rank == 0 else dist.recv(tensor, 0, tag=22)
    tensors.expect(tensor, *[0] * 6)


def check_batches_of_messages(dist, rank, tensors):
    """With batched_messages, a batch is one call of all its messages, with one handle."""
    full = tensors.full
    other = 1 - rank
    both = dist.new_group([0, 1], pg_options={"batched_messages": True, "channels": 8})

    def expect_batch(operations):
        (work,) = dist.batch_isend_irecv(operations)
        work.wait()
        assert work.is_completed() or tensors.device.type == "cuda"

    def send(tensor, to, tag=0):
        return dist.P2POp(dist.isend, tensor, to, both, tag)

    def receive(tensor, source, tag=0):
        return dist.P2POp(dist.irecv, tensor, source, both, tag)

    # Unequal lengths, another order on each rank, two tags, and elements out of order.
    first, second, tagged = full(9, 2, 3 + other).t(), full(9, 0), full(9, 1000)
    operations = [
        receive(tagged, other, 5),
        receive(first, other),
        receive(second, other),
        send(full(rank, 2 * (3 + rank)), other),
        send(full(rank, 0), other),
        send(full(10 + rank, 1000), other, 5),
    ]
    expect_batch(operations if rank == 0 else operations[3:] + operations[:3])
    tensors.expect(first, *[other] * 2 * (3 + other))
    tensors.expect(tagged, *[10 + other] * 1000)

    # Its place is among the collectives.
    total = full(rank)
    work = dist.all_reduce(total, group=both, async_op=True)
    got = full(9)
    expect_batch([send(total, other), receive(got, other)])
    work.wait()
    tensors.expect(got, *[1] * 6)

    # A message outside of a batch has a place of its own still.
    if rank == 0:
        dist.send(full(4), 1, both)
    else:
        dist.recv(got, 0, both)
        tensors.expect(got, *[4] * 6)
    with pytest.raises(symm.InvalidArgumentError, match="channel"):
        expect_batch([send(full(1), other, 8), receive(got, other, 8)])
    if tensors.device.type == "cpu":
        with pytest.raises(symm.SymmError, match=r"rank . sent 8 bytes to rank ., .* of 12"):
            expect_batch([send(full(1, 2), other), receive(full(9, 3), other)])


def check_operators_of_process_groups(both, rank, tensors):
    """Operators and functional collectives with a process group in place of a symm.Group."""
    import torch
    from torch.distributed import _functional_collectives as functional

    full = tensors.full
    tensors.expect(torch.ops.symm.all_reduce(full(rank + 1.0)), *[3] * 6)
    compiled = torch.compile(
        lambda x: functional.all_reduce(x, "sum", both) * 2, fullgraph=True, backend="aot_eager"
    )
    tensors.expect(compiled(full(rank + 1.0)), *[6] * 6)


def check_destruction(dist, rank, tensors):
    """A receive that never gets a message times out, delays no barrier, and ends in an error."""
    pending = dist.irecv(tensors.full(9), 1 - rank, tag=7)
    with pytest.raises(TimeoutError):
        pending.wait(timedelta(seconds=0.1))
    assert not pending.is_completed()
    dist.barrier()
    dist.destroy_process_group()
    with pytest.raises(symm.SymmError):
        pending.wait(timedelta(seconds=60))


def collectives(rank, device):
    dist = init_process_group(rank)
    tensors = Tensors(device)
    check_reductions(dist, rank, tensors)
    check_other_collectives(dist, rank, tensors)
    check_several_at_a_time(dist, rank, tensors)
    check_objects(dist, rank)
    both = check_process_groups(dist, rank, tensors)
    check_messages(dist, rank, tensors)
    check_operators_of_process_groups(both, rank, tensors)
    check_destruction(dist, rank, tensors)


# ---- the chapter "operands"


def check_splits(dist, tensors):
    """Splits, and lists of tensors, that leave out rows or ranks, or name more than there are."""
    import torch

    full = tensors.full

    def exchange(out_splits, in_splits, rows=6):
        out, rows_in = full(9, rows, 2), full(1, rows, 2)
        dist.all_to_all_single(out, rows_in, out_splits, in_splits)
        return out

    for wrong in ([2, 2], [4, 4], [7, -1], [6], [3, 3, 0], [2, 2, 2]):
        for splits, name in (((wrong, [3, 3]), "output"), (([3, 3], wrong), "input")):
            with pytest.raises(symm.InvalidArgumentError, match=f"{name}_split_sizes"):
                exchange(*splits)
        with pytest.raises(symm.InvalidArgumentError, match="send_rows"):
            torch.ops.symm.all_to_all(full(1, 6, 2), "", wrong, [3, 3])
    with pytest.raises(symm.InvalidArgumentError, match="recv_rows"):
        torch.ops.symm.all_to_all(full(1, 6, 2), "", [3, 3], [6])
    with pytest.raises(symm.InvalidArgumentError, match="split_sizes"):
        exchange([1, 1], [1, 1], rows=0)
    tensors.expect(exchange([3, 3], [3, 3]), *[1] * 12)
    assert exchange([0, 0], [0, 0], rows=0).numel() == 0

    one, two, three = ([full(9) for _ in range(count)] for count in (1, 2, 3))
    for call, name in (
        (lambda x: dist.all_gather(x, full(1)), "tensor_list"),
        (lambda x: dist.reduce_scatter(full(1), x), "input_list"),
        (lambda x: dist.all_to_all(x, two), "output_tensor_list"),
        (lambda x: dist.all_to_all(two, x), "input_tensor_list"),
        (lambda x: dist.gather(full(1), x if dist.get_rank() == 0 else None), "gather_list"),
        (lambda x: dist.scatter(full(1), x if dist.get_rank() == 0 else None), "scatter_list"),
    ):
        for wrong in (one, three):
            if name in ("gather_list", "scatter_list") and dist.get_rank():
                continue
            with pytest.raises(symm.InvalidArgumentError, match=name):
                call(wrong)


def check_strides(dist, rank, tensors):
    """Written tensors whose elements share memory are refused before the collective."""
    import torch

    full = tensors.full

    def expanded(value=9):
        return full(value, 1).expand(2)

    def windows():
        return full(9, 3).as_strided((2, 2), (1, 1))

    other = 1 - rank
    one, two = full(1, 2), full(1, 4)
    in_place = torch.ops.symm.all_reduce_
    for bad in (expanded(), windows()[0].expand(2, 2)[:, 0], windows()):
        ok = full(1, bad.numel())
        for call in (
            lambda: dist.all_reduce(bad),  # noqa: B023 - all are called at once
            lambda: dist.all_reduce(bad, async_op=True),  # noqa: B023
            lambda: in_place(bad),  # noqa: B023
            lambda: dist.all_gather([ok, bad], ok),  # noqa: B023
            lambda: dist.reduce_scatter(bad, [ok, ok]),  # noqa: B023
            lambda: dist.all_to_all([ok, bad], [ok, ok]),  # noqa: B023
            lambda: dist.broadcast(bad, other),  # noqa: B023
            lambda: dist.reduce(bad, rank),  # noqa: B023
            lambda: dist.gather(ok, [ok, bad], rank),  # noqa: B023
            lambda: dist.scatter(bad, None, other),  # noqa: B023
            lambda: dist.recv(bad, other),  # noqa: B023
        ):
            with pytest.raises(symm.InvalidArgumentError, match="share memory"):
                call()
    for call in (
        lambda: dist.all_gather_into_tensor(full(9, 1).expand(4), one),
        lambda: dist.reduce_scatter_tensor(expanded(), two),
        lambda: dist.all_to_all_single(expanded(), one),
    ):
        with pytest.raises(symm.InvalidArgumentError, match="share memory"):
            call()

    # Operands that are only read may be so, and other strides are copied.
    gathered = full(9, 4)
    dist.all_gather_into_tensor(gathered, expanded(rank))
    tensors.expect(gathered, 0, 0, 1, 1)
    for root in range(SIZE):
        moved = expanded(rank + 3) if rank == root else full(9, 4)[::2]
        dist.broadcast(moved, root)
        tensors.expect(moved, root + 3, root + 3)
        summed = full(rank, 4)[::2] if rank == root else expanded(rank)
        dist.reduce(summed, root)
        if rank == root:
            tensors.expect(summed, 1, 1)
        if rank == root:
            dist.send(expanded(7), other)
        else:
            received = full(9, 2, 2).T[0]
            dist.recv(received, root)
            tensors.expect(received, 7, 7)
    flipped = full(rank, 2, 3, 4).permute(2, 0, 1)
    dist.all_reduce(flipped)
    tensors.expect(flipped, *[1] * 24)


def check_tensors_without_their_values(dist, rank, tensors):
    """Tensors whose memory is not what they say are refused, or read as what they say."""
    import torch
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    full = tensors.full
    mesh = init_device_mesh(tensors.device.type, (SIZE,))
    refused = {
        "layout": torch.eye(2, device=tensors.device).to_sparse(),
        "quantized": torch.quantize_per_tensor(full(1, 2, 2), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([full(1, 2), full(1, 2)]),
        "DTensor": distribute_tensor(full(1, 2, 2), mesh, [Replicate()]),
    }
    if tensors.device.type == "cpu" and torch.backends.mkldnn.is_available():
        refused["_mkldnn"] = full(1, 2, 2).to_mkldnn()
    zeros = torch._efficientzerotensor((2,), device=tensors.device)

    def calls(bad):
        return (
            lambda: dist.broadcast(bad, 1 - rank),
            lambda: dist.all_gather([bad, bad], bad),
            lambda: dist.gather(bad, [bad, bad], rank),
            lambda: dist.recv(bad, 1 - rank),
        )

    for name, bad in refused.items():
        for call in (
            *calls(bad),
            lambda: dist.send(bad, 1 - rank),  # noqa: B023 - all are called at once
            lambda: dist.broadcast(bad, rank),  # noqa: B023
        ):
            with pytest.raises(symm.UnsupportedError, match=name):
                call()
    for call in (lambda: dist.all_reduce(zeros), *calls(zeros)):
        with pytest.raises(symm.UnsupportedError, match="lazy zeros"):
            call()

    parts = [full(9, 2), full(9, 2)]
    dist.all_gather(parts, zeros)
    tensors.expect(torch.cat(parts), 0, 0, 0, 0)
    out = full(9, 2)
    dist.reduce_scatter(out, [zeros, zeros])
    tensors.expect(out, 0, 0)
    for root in range(SIZE):
        moved = zeros if rank == root else full(9, 2)
        dist.broadcast(moved, root)
        if rank == root:
            dist.send(zeros, 1 - rank)
        else:
            tensors.expect(moved, 0, 0)
            received = full(9, 2)
            dist.recv(received, root)
            tensors.expect(received, 0, 0)


def operands(rank, device):
    dist = init_process_group(rank)
    tensors = Tensors(device)
    check_splits(dist, tensors)
    check_strides(dist, rank, tensors)
    check_lazy_bits(dist, rank, tensors)
    check_tensors_without_their_values(dist, rank, tensors)
    dist.destroy_process_group()


# ---- the chapter "callbacks"


def held_up(process_group, device):
    """Hold up the asynchronous collectives until the result is set."""
    gate = threading.Event()
    process_group._executor(device).submit(lambda _: gate.wait(30), [], [])
    return gate


def check_collectives_in_callbacks(dist, rank, tensors):
    """Callbacks of futures may make collectives, whose place is where get_future() was called."""
    full = tensors.full

    blocking = full(rank + 1)
    future = dist.all_reduce(full(rank), async_op=True).get_future()
    future.then(lambda _: dist.all_reduce(blocking)).wait()
    tensors.expect(blocking, *[3] * 6)

    def nested(ended):
        (x,) = ended.value()
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        inner = work.get_future().then(lambda f: f.value()[0] + 1)
        return inner.value()

    # The callbacks take part in the order of the collectives, also if later ones wait already.
    # Otherwise the different counts would be a mismatch.
    gate = held_up(dist.group.WORLD, tensors.device)
    works = [dist.all_reduce(full(rank + 1, 10 + i), async_op=True) for i in range(20)]
    futures = [work.get_future().then(nested) for work in works]
    gate.set()
    late = full(rank + 1, 50)
    dist.all_reduce(late)
    tensors.expect(late, *[3] * 50)
    for i, future in enumerate(futures):
        tensors.expect(future.wait(), *[7] * (10 + i))

    # A callback waits for a collective that comes later.
    gate = held_up(dist.group.WORLD, tensors.device)
    first, second = full(rank), full(rank + 4)
    works = [dist.all_reduce(x, async_op=True) for x in (first, second)]
    future = works[0].get_future().then(lambda _: works[1].wait())
    gate.set()
    assert future.wait()
    tensors.expect(second, *[9] * 6)


def check_the_place_of_a_late_callback(dist, rank, tensors):
    """The order does not depend on whether a collective was over when its callback came."""
    full = tensors.full
    dist.barrier()
    for late in range(SIZE):
        x, y, z, w = (full(rank + i) for i in range(4))
        gate = held_up(dist.group.WORLD, tensors.device) if rank != late else None
        first = dist.all_reduce(x, async_op=True)
        others = [dist.all_reduce(y, async_op=True)]
        if gate:
            future = first.get_future().then(lambda _, z=z: dist.all_reduce(z))
            gate.set()
        else:
            # The other rank has attached its callback, which waits for both collectives.
            assert all(work.wait() for work in (first, *others))
            time.sleep(0.2)
            future = first.get_future().then(lambda _, z=z: dist.all_reduce(z))
        others.append(dist.all_reduce(w, async_op=True))
        future.wait()
        assert all(work.wait() for work in others)
        for i, tensor in enumerate((x, y, z, w)):
            tensors.expect(tensor, *[1 + 2 * i] * 6)


def check_futures_that_callbacks_wait_for(dist, rank, tensors):
    """A callback waits for the future of a collective that was called later, alone and together."""
    import torch

    full = tensors.full
    for wait in (
        lambda work: work.get_future().wait(),
        lambda work: torch.futures.wait_all([work.get_future()]),
        lambda work: work.get_future().then(lambda f: f.value()).wait(),
    ):
        gate = held_up(dist.group.WORLD, tensors.device)
        first, second, third = full(rank), full(rank + 4), full(rank + 5)
        works = [dist.all_reduce(x, async_op=True) for x in (first, second)]

        def callback(_, works=works, wait=wait):
            for work in works[1:]:
                wait(work)

        future = works[0].get_future().then(callback)
        works.append(dist.all_reduce(third, async_op=True))
        gate.set()
        future.wait()
        for tensor, expected in ((first, 1), (second, 9), (third, 11)):
            tensors.expect(tensor, *[expected] * 6)


def check_callbacks_with_collectives_of_other_groups(dist, rank, tensors):
    """They may cross. What the program calls meanwhile makes their order an error on all ranks."""
    full = tensors.full
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    for group in groups:
        dist.all_reduce(full(1), group=group)
    gates = [held_up(group, tensors.device) for group in groups]
    works = [dist.all_reduce(full(rank), group=group, async_op=True) for group in groups]
    crossed = [full(rank + 10), full(rank + 20)]
    futures = [
        work.get_future().then(lambda _, x=x, group=group: dist.all_reduce(x, group=group))
        for work, x, group in zip(works, crossed, reversed(groups), strict=True)
    ]
    for gate in gates:
        gate.set()
    for future, x, expected in zip(futures, crossed, (21, 41), strict=True):
        future.wait()
        tensors.expect(x, *[expected] * 6)

    first, second = groups
    gate = held_up(first, tensors.device)
    work = dist.all_reduce(full(rank), group=first, async_op=True)
    future = work.get_future().then(lambda _: dist.all_reduce(full(rank), group=second))
    if rank == 0:
        gate.set()  # so this rank's callback comes first, and the other one's second
        time.sleep(0.2)
    beside = dist.all_reduce(full(rank), group=second, async_op=True)
    gate.set()
    raised = []
    for wait in (future.wait, beside.wait, lambda: dist.all_reduce(full(rank), group=second)):
        try:
            wait()
        except (RuntimeError, symm.SymmError) as error:
            raised.append(str(error))
    assert raised
    assert "their order would depend on time" in "".join(raised), raised


def check_each_collective_in_a_callback_of_each(dist, rank, tensors):
    """Each collective, in the callback of the future of each; also in a callback of a callback."""
    import torch

    full = tensors.full
    ops = dist.ReduceOp

    def into(call, result, *expected):
        """Make a call that fills a tensor, or several; return the work and a check."""

        def check():
            got = torch.cat(result) if isinstance(result, list) else result
            tensors.expect(got, *expected)

        return call(result), check

    def everywhere(*expected):
        return expected if rank == 0 else (9, 9)

    one = full(rank + 1, 2)
    halves = [full(rank + 1, 1), full(rank + 1, 1)]
    makers = {
        "all_reduce": lambda: into(
            lambda x: dist.all_reduce(x, async_op=True), full(rank + 1, 2), 3, 3
        ),
        "broadcast": lambda: into(
            lambda x: dist.broadcast(x, 1, async_op=True), full(rank, 2), 1, 1
        ),
        "reduce": lambda: into(
            lambda x: dist.reduce(x, 0, ops.MAX, async_op=True),
            full(rank + 1, 2),
            2,
            2,
        ),
        "all_gather": lambda: into(
            lambda x: dist.all_gather(x, halves[0], async_op=True),
            [full(9, 1), full(9, 1)],
            1,
            2,
        ),
        "all_gather_into_tensor": lambda: into(
            lambda x: dist.all_gather_into_tensor(x, halves[0], async_op=True), full(9, 2), 1, 2
        ),
        "reduce_scatter": lambda: into(
            lambda x: dist.reduce_scatter(x, halves, async_op=True), full(9, 1), 3
        ),
        "reduce_scatter_tensor": lambda: into(
            lambda x: dist.reduce_scatter_tensor(x, one, async_op=True), full(9, 1), 3
        ),
        "all_to_all": lambda: into(
            lambda x: dist.all_to_all(x, halves, async_op=True), [full(9, 1), full(9, 1)], 1, 2
        ),
        "all_to_all_single": lambda: into(
            lambda x: dist.all_to_all_single(x, one, async_op=True), full(9, 2), 1, 2
        ),
        "gather": lambda: into(
            lambda x: dist.gather(halves[0], x if rank == 0 else None, 0, async_op=True),
            [full(9, 1), full(9, 1)],
            *everywhere(1, 2),
        ),
        "scatter": lambda: into(
            lambda x: dist.scatter(x, halves if rank == 1 else None, 1, async_op=True),
            full(9, 1),
            2,
        ),
        "barrier": lambda: (dist.barrier(async_op=True), lambda: None),
    }

    for outer in makers.values():
        for name, inner in makers.items():
            ended = []

            def callback(future, name=name, inner=inner, ended=ended):
                future.value()
                work, check = inner()
                work.wait()
                check()

                def callback_of_it(_):
                    again, check_again = inner()
                    again.wait()
                    check_again()
                    ended.append(name)

                work.get_future().then(callback_of_it).wait()

            work, check = outer()
            work.get_future().then(callback).wait()
            check()
            assert ended == [name]


def check_futures(dist, rank, tensors):
    """Futures of works that stand for others, and of works that failed."""
    full = tensors.full
    works = [
        dist.all_gather_into_tensor(full(0, 3 + wrong), full(0, 2), async_op=True)
        for wrong in range(2)
    ]
    right, wrong = dist.all_reduce(full(rank), async_op=True), works[0]
    assert right.wait()
    assert right.is_success()
    assert right.exception() is None
    with pytest.raises(symm.InvalidArgumentError, match="recv"):
        wrong.wait()
    assert wrong.is_completed()
    assert not wrong.is_success()
    assert isinstance(wrong.exception(), symm.InvalidArgumentError)

    # Also in C++, where DDP reads futures: the error is not a value of the future.
    future = wrong.get_future()
    for read in (future.wait, future.value, future.then(lambda f: f.value()).wait):
        with pytest.raises(RuntimeError, match=r"InvalidArgumentError: recv"):
            read()

    together = type(right)(parts=[right, works[1]])
    tensors.expect(together.get_future().wait()[0], *[1] * 6)
    assert together.is_success()
    assert type(right)(parts=[right, wrong]).exception() is wrong.exception()
    assert type(right)().get_future().wait() == []


def check_hooks_of_ddp(dist, rank, device):
    """Hooks whose callbacks make collectives: PowerSGD's exact form is that of an average."""
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    full_rank = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=8, start_powerSGD_iter=2, min_compression_rate=0
    )
    for state, hook in (
        (full_rank, powerSGD_hook.powerSGD_hook),
        (None, default_hooks.fp16_compress_hook),
        (None, default_hooks.allreduce_hook),
    ):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)).to(device)
        ddp = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0002)
        ddp.register_comm_hook(state, hook)
        for step in range(6):
            ddp.zero_grad()
            ddp(torch.full((2, 8), 1.0 + rank + step, device=device)).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in net.parameters()])
        of_all = [torch.empty_like(gradient) for _ in range(SIZE)]
        dist.all_gather(of_all, gradient)
        assert torch.equal(*of_all), hook


def check_a_callback_that_never_ends(dist, rank, tensors):
    """Other calls of its process group end with an error at their deadline."""
    full = tensors.full
    late = dist.new_group([0, 1], timeout=timedelta(seconds=2))
    dist.all_reduce(full(rank), group=late)
    blocked = threading.Event()
    gate = held_up(late, tensors.device)  # else the callback might run on this thread
    work = dist.all_reduce(full(rank), group=late, async_op=True)
    work.get_future().then(lambda _: blocked.wait(60))
    gate.set()
    assert work.wait()
    next_one = dist.all_reduce(full(rank), group=late, async_op=True)

    for call in (lambda: dist.all_reduce(full(rank), group=late), next_one.wait):
        with pytest.raises(symm.TimeoutError, match="callback of its future"):
            call()

    blocked.set()
    assert next_one.wait()


def callbacks(rank, device):
    """On the CPU: on CUDA, collectives run where they are called, and errors are raised there."""
    dist = init_process_group(rank)
    tensors = Tensors(device)
    check_collectives_in_callbacks(dist, rank, tensors)
    check_the_place_of_a_late_callback(dist, rank, tensors)
    check_futures_that_callbacks_wait_for(dist, rank, tensors)
    check_each_collective_in_a_callback_of_each(dist, rank, tensors)
    check_futures(dist, rank, tensors)
    check_hooks_of_ddp(dist, rank, device)
    check_callbacks_with_collectives_of_other_groups(dist, rank, tensors)
    check_a_callback_that_never_ends(dist, rank, tensors)
    dist.barrier()
    dist.destroy_process_group()


# ---- the chapter "training"


def training(rank, device):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    dist = init_process_group(rank)
    seeded = torch.Generator(device).manual_seed(3)
    batches = torch.randn(3, 8, 16, device=device, generator=seeded)

    def model():
        torch.manual_seed(0)
        layers = (torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
        return torch.nn.Sequential(*layers).to(device)

    def train(net, *, on_own_part):
        """Train with this rank's part of each batch or with all of it; returns the parameters."""
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for batch in batches:
            optimizer.zero_grad()
            rows = batch.chunk(SIZE)[rank] if on_own_part else batch
            net(rows).square().mean().backward()
            optimizer.step()
        return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in net.parameters()]

    expected = train(model(), on_own_part=False)

    def expect_same(parameters):
        for one, other in zip(parameters, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)

    ids = None if device.type == "cpu" else [device.index]
    replicated = torch.nn.parallel.DistributedDataParallel(model(), device_ids=ids)
    expect_same(train(replicated, on_own_part=True))

    mesh = init_device_mesh(device.type, (SIZE,))
    sharded = model()
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh)
    expect_same(train(sharded, on_own_part=True))

    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    expect_same(train(parallelize_module(model(), mesh, plan), on_own_part=False))

    whole = torch.arange(12.0, device=device).reshape(3, 4)
    moved = distribute_tensor(whole, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
    assert torch.equal(moved.full_tensor(), whole)

    dist.barrier()
    dist.destroy_process_group()


# ---- the chapter "death"


def steps_of_ddp(dist, device):
    import torch

    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).to(device))
    return lambda: net(torch.ones(2, 8)).sum().backward()


def steps_of_collectives(dist, device):
    import torch

    def step():
        x = torch.ones(8)
        dist.all_reduce(x)
        assert x.tolist() == [2] * 8
        dist.all_gather([torch.empty(8) for _ in range(SIZE)], x)
        dist.broadcast(x, 1)
        dist.barrier()

    return step


def steps_of_a_hook_of_ddp(dist, device):
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).to(device))
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=0)
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return lambda: net(torch.ones(2, 8)).sum().backward()


def steps_of_fsdp(dist, device):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).to(device)
    for layer in (*net, net):
        fully_shard(layer, mesh=init_device_mesh(device.type, (SIZE,)))
    return lambda: net(torch.ones(2, 8)).sum().backward()


def steps_of_an_autograd_hook(dist, device):
    import torch

    net = torch.nn.Linear(8, 8).to(device)
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))
    return lambda: net(torch.ones(2, 8)).sum().backward()


def steps_of_futures(dist, device):
    import torch

    def step():
        works = [dist.all_reduce(torch.ones(8), async_op=True) for _ in range(3)]
        chained = [work.get_future().then(lambda f: f.value()[0] * 2) for work in works]
        for future in torch.futures.wait_all(chained):
            assert future.tolist() == [4] * 8

    return step


def steps_of_functional_collectives(dist, device):
    import torch
    from torch.distributed import _functional_collectives as functional

    def step():
        x = functional.all_reduce(torch.ones(8), "sum", dist.group.WORLD)
        assert (x * 2).tolist() == [4] * 8

    return step


def steps_of_coalesced_collectives(dist, device):
    import torch

    def step():
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            for _ in range(3):
                dist.all_reduce(torch.ones(8))
        manager.wait()

    return step


def steps_of_messages(dist, device):
    import torch

    x = torch.ones(8)
    return lambda: dist.send(x, 0) if RANK else dist.recv(x, 1)


def raise_an_error():
    raise ValueError("of this rank alone")


MANNERS = {
    "raise": raise_an_error,
    "exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}
DOORS = (
    "ddp",
    "collectives",
    "a_hook_of_ddp",
    "fsdp",
    "an_autograd_hook",
    "futures",
    "functional_collectives",
    "coalesced_collectives",
    "messages",
)
# Each door in each manner; of most manners a sample, unless `./dev doors` asks for all.
DEATHS = [
    (door, manner)
    for door in DOORS
    for manner in MANNERS
    if door in ("ddp", "messages") or manner == "kill" or "SYMM_TEST_DOORS" in os.environ
]


def death(rank, device, way, manner):
    dist = init_process_group(rank)
    step = globals()[f"steps_of_{way}"](dist, device)
    step()
    step()
    step()
    if rank == 1:
        MANNERS[manner]()

    def go_on():
        while True:
            step()

    # Through PyTorch's C++, the error is a RuntimeError with the name and the text of symm's.
    with pytest.raises((RuntimeError, symm.PeerFailedError), match="rank 1") as raised:
        go_on()
    assert raised.type is symm.PeerFailedError or "PeerFailedError: " in str(raised.value)
    print("rank 0 heard of it")


def hide_gpus(monkeypatch):
    """Have the ranks of a later launch see no GPU.

    Where PyTorch sees one, its powerSGD_hook synchronizes the device of its tensors as if that were
    a GPU, which is an error for tensors on the host.
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize(("way", "manner"), DEATHS)
def test_a_rank_that_ends_is_named_by_the_other_one(way, manner, launch, monkeypatch, tmp_path):
    pytest.importorskip("torch", reason=NO_TORCH)
    hide_gpus(monkeypatch)
    monkeypatch.setenv("SYMM_TEST_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = (sys.executable, str(Path(__file__)), "death", "cpu", way, manner)
    (status, output), (other_status, other_output) = launch(SIZE, *command)
    assert status == 0, output
    assert "rank 0 heard of it" in output
    assert other_status == {"raise": 1, "exit": 3, "sys.exit": 3, "kill": -9}[manner], other_output


def error_beside_a_collective(rank, device, way):
    """Rank 0 raises while its collective waits in vain for rank 1."""
    dist = init_process_group(rank)
    if rank == 1:
        return
    x = Tensors(device).full(1)
    if way == "collective":
        dist.all_reduce(x, async_op=True)
    else:
        dist.irecv(x, 1)
    time.sleep(1)  # until the thread waits
    raise_an_error()


@pytest.mark.parametrize("way", ["collective", "message"])
def test_a_program_ends_with_its_own_error_beside_a_collective(way, launch, monkeypatch, tmp_path):
    pytest.importorskip("torch", reason=NO_TORCH)
    hide_gpus(monkeypatch)
    monkeypatch.setenv("SYMM_TEST_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = (sys.executable, str(Path(__file__)), "error_beside_a_collective", "cpu", way)
    (status, output), _ = launch(SIZE, *command)
    assert status == 1, output
    assert "ValueError: of this rank alone" in output
    assert "FATAL" not in output


def require_machines(monkeypatch, tmp_path):
    """Have each rank of a later launch say that it is a machine by itself."""
    if not find_library("ucp"):
        pytest.skip("no libucp.so.0")
    monkeypatch.setenv("SYMM_TEST_MACHINES", "1")
    monkeypatch.setenv("SYMM_SECRET_FILE", str(tmp_path / "secret"))


def skip_without_libsodium(results):
    if any("libsodium" in output for _, output in results):
        pytest.skip("the library was built without libsodium")


@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if chapter != "operators"])
def test_two_machines_of_pytorch_use_symm(chapter, launch, monkeypatch, tmp_path):
    pytest.importorskip("torch", reason=NO_TORCH)
    require_machines(monkeypatch, tmp_path)
    hide_gpus(monkeypatch)
    monkeypatch.setenv("SYMM_TEST_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    results = launch(SIZE, sys.executable, str(Path(__file__)), chapter, "cpu")
    skip_without_libsodium(results)
    for status, output in results:
        assert status == 0, output


@pytest.mark.parametrize("kind", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_two_ranks_of_pytorch_use_symm(chapter, kind, launch, monkeypatch, tmp_path):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    if kind == "cuda" and torch.cuda.device_count() < SIZE:
        pytest.skip(f"PyTorch sees {torch.cuda.device_count()} GPUs, not {SIZE}")
    if kind == "cuda" and chapter == "callbacks":
        pytest.skip("on CUDA there is no thread that runs callbacks")
    if kind == "cpu":
        hide_gpus(monkeypatch)
    monkeypatch.setenv("SYMM_TEST_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = (sys.executable, str(Path(__file__)), chapter, kind)
    for status, output in launch(SIZE, *command):
        assert status == 0, output


def test_tensors_whose_memory_has_other_elements_are_refused(alone):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    negated = torch.tensor([1 + 2j], dtype=torch.complex64).conj().imag
    array = alone.empty(1, "f32")
    out = torch.zeros(1)

    assert negated.is_contiguous()
    for call in (
        lambda x: alone.allreduce(x, out),
        lambda x: alone.allreduce(out, x),
        lambda x: alone.broadcast(x),
        lambda x: array.put(0, x),
        lambda x: array.get(0, x),
    ):
        with pytest.raises(symm.InvalidArgumentError, match="resolve_neg"):
            call(negated)
        call(negated.resolve_neg())
    with pytest.raises(symm.InvalidArgumentError, match="resolve_conj"):
        alone.broadcast(torch.zeros(1, dtype=torch.complex64).conj())


def test_what_gives_memory_back_meets_the_real_pytorch(alone):
    """test_pressure.py has a PyTorch that runs short; this is the one that a user has."""
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    import symm.torch

    if torch.cuda.is_available():
        symm.torch.collect_on_oom()
        symm.torch.collect_on_oom()
    else:
        with pytest.raises(symm.UnavailableError, match=r"without CUDA|finds no GPU"):
            symm.torch.collect_on_oom()

    attempts = []

    def allocate():
        attempts.append("tried")
        if len(attempts) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 64

    assert symm.torch.retry_on_oom(allocate) == 64
    assert len(attempts) == 2
    with symm.torch.lend_cache(), pytest.raises(symm.OutOfMemoryError):
        alone.alloc(1 << 50)


def messages_of_two(rank, device):
    """Two of three ranks pass messages, and the third one calls nothing meanwhile."""
    dist = init_process_group(rank, 3)
    tensors = Tensors(device)
    if rank < 2:
        got = tensors.full(9)
        for work in dist.batch_isend_irecv(
            [
                dist.P2POp(dist.irecv, got, 1 - rank),
                dist.P2POp(dist.isend, tensors.full(rank), 1 - rank),
            ]
        ):
            work.wait(timedelta(seconds=30))
        tensors.expect(got, *[1 - rank] * 6)
        Path(f"{os.environ['SYMM_TEST_STORE']}.{rank}").touch()
    else:
        places = [Path(f"{os.environ['SYMM_TEST_STORE']}.{one}") for one in range(2)]
        end = time.monotonic() + 60
        while not all(place.exists() for place in places):
            assert time.monotonic() < end
            time.sleep(0.01)
    dist.destroy_process_group()


def test_messages_of_two_ranks_wait_for_no_third_one(launch, monkeypatch, tmp_path):
    pytest.importorskip("torch", reason=NO_TORCH)
    hide_gpus(monkeypatch)
    monkeypatch.setenv("SYMM_TEST_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for status, output in launch(3, sys.executable, str(Path(__file__)), "messages_of_two", "cpu"):
        assert status == 0, output


def late(rank, device):
    import torch
    import torch.distributed as dist

    __import__("symm.torch")  # registers the back end

    dist.init_process_group(
        "cpu:symm",
        init_method=f"tcp://127.0.0.1:{os.environ['SYMM_TEST_PORT']}",
        rank=rank,
        world_size=SIZE,
    )
    time.sleep(rank)
    dist.all_reduce(torch.ones(1, device=device))
    dist.barrier()
    dist.destroy_process_group()


def test_a_rank_that_comes_late_costs_no_warnings(launch, monkeypatch):
    pytest.importorskip("torch", reason=NO_TORCH)
    monkeypatch.setenv("SYMM_TEST_PORT", free_port())
    for status, output in launch(SIZE, sys.executable, str(Path(__file__)), "late", "cpu"):
        assert status == 0, output
        assert "timed out" not in output
        assert "waitForInput" not in output


# ---- started by symm run


def started(rank, device):
    import torch
    import torch.distributed as dist

    __import__("symm.torch")  # registers the back end

    dist.init_process_group("cpu:symm")  # all that it needs is in the environment
    assert (dist.get_rank(), dist.get_world_size()) == (rank, SIZE)
    x = torch.full((4,), 1.0 + rank, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [3] * 4
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank} of {os.environ['WORLD_SIZE']}, {os.environ['LOCAL_RANK']} here", flush=True)


@pytest.mark.parametrize("around", ["nothing", "torchrun"])
def test_symm_run_starts_programs_of_torch_distributed(around):
    pytest.importorskip("torch", reason=NO_TORCH)
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node=1", "--no-python"]
    torchrun = [sys.executable, *torchrun, f"--master-port={free_port()}"]
    run = [sys.executable, "-m", "symm", "run", "-n", str(SIZE), "--timeout", "90"]
    result = subprocess.run(
        [
            *(torchrun if around == "torchrun" else ()),
            *(*run, "--", sys.executable, str(Path(__file__)), "started", "cpu"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for rank in range(SIZE):
        assert f"[{rank}] rank {rank} of {SIZE}, {rank} here" in result.stdout


# ---- the programs of docs/how-to/pytorch.md


def run_example(name, ranks, launcher):
    """The output of a program in examples/, started as its page says."""
    launchers = {
        "torchrun": ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"],
        "symm run": ["symm", "run", "-n", str(ranks), "--timeout", "200", "--", sys.executable],
    }
    result = subprocess.run(
        [sys.executable, "-m", *launchers[launcher], str(REPOSITORY / "examples" / name)],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("launcher", ["torchrun", "symm run"])
def test_the_program_that_trains_comes_to_a_small_loss(launcher):
    pytest.importorskip("torch", reason=NO_TORCH)
    output = run_example("13-train-with-pytorch/train.py", 2, launcher)
    found = re.findall(r"rank (\d) of 2 on \S+: loss (\S+) to (\S+), bits (\w{16})", output)
    assert sorted(rank for rank, *_ in found) == ["0", "1"], output
    for _, first, last, _ in found:
        assert float(last) < float(first) / 20, output
    assert len({bits for *_, bits in found}) == 1, output


def test_the_program_that_serves_gives_the_same_bits_in_every_batch():
    """Three ranks, because a sum of two operands is the same in either order."""
    pytest.importorskip("torch", reason=NO_TORCH)
    output = run_example("14-serve-with-pytorch/serve.py", 3, "torchrun")
    # PyTorch's launcher has Python write a line and its end apart, so two ranks can share a line.
    said = r"rank (\d) of 3 on \S+: (\d+) batches gave other bits, answer (\[[^]]*\])"
    found = re.findall(said, output)
    assert sorted(rank for rank, *_ in found) == ["0", "1", "2"], output
    assert all(differing == "0" for _, differing, _ in found), output
    assert len({answer for *_, answer in found}) == 1, output


def test_the_program_with_stages_has_the_losses_of_one_process():
    pytest.importorskip("torch", reason=NO_TORCH)
    output = run_example("16-stages-in-pytorch/stages.py", 3, "symm run")
    said = re.search(r"3 stages: the loss went from (\S+) to (\S+), as in one", output)
    assert said, output
    first, last = map(float, said.groups())
    assert last < first / 3, output


# ---- several machines


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@pytest.mark.parametrize("kind", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_program_of_part_7_of_the_tutorial_trains_on_two_machines(kind, tmp_path):
    """The machines are pretended. With one GPU, all ranks are on it."""
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    ranks = 2 if kind == "host" else min(2, torch.cuda.device_count())
    if ranks == 0:
        pytest.skip("PyTorch sees no GPU")
    if kind == "host" and not find_library("ucp"):
        pytest.skip("no libucp.so.0")

    common = {
        "SYMM_BACKEND": kind,
        "SYMM_SECRET_FILE": str(tmp_path / "secret"),
        "SYMM_PORT": free_port(),
        "OMP_NUM_THREADS": "1",
        # NCCL must not see that the machines are one.
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
    }
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes=2",
        f"--nproc-per-node={ranks}",
        "--master-addr=127.0.0.1",
        f"--master-port={free_port()}",
    ]
    program = str(REPOSITORY / "examples" / "07-several-machines" / "train.py")
    machines = [
        subprocess.Popen(
            [*torchrun, f"--node-rank={machine}", program],
            env=os.environ | common | {"SYMM_MACHINE": machine, "NCCL_HOSTID": machine},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for machine in "01"
    ]
    try:
        output = "".join([machine.communicate(timeout=300)[0] for machine in machines])
    finally:
        for machine in machines:
            machine.terminate()

    if "libsodium" in output:
        pytest.skip("the library was built without libsodium")
    assert all(machine.returncode == 0 for machine in machines), output
    assert output.count(f"2 machines of {ranks} ranks") == 2 * ranks, output


# ---- tensors by a token

READER = """
import sys, torch, symm.torch
model = torch.nn.Linear(8, 4).to(sys.argv[2])
tensors = symm.torch.load(bytes.fromhex(sys.argv[1]))
model.load_state_dict({name: tensors[name] for name in ("weight", "bias")}, assign=True)
assert model.weight.data_ptr() == tensors["weight"].data_ptr()
assert (tensors["half"].dtype, tuple(tensors["half"].shape)) == (torch.bfloat16, (2, 3))
assert tensors["nothing"].shape == (0, 5)
print(float(model(torch.ones(8, device=sys.argv[2])).sum()))
if len(sys.argv) > 3:
    tensors.suspend()
    tensors.resume(bytes.fromhex(sys.argv[3]))  # at the addresses that the model uses
    print(float(model(torch.ones(8, device=sys.argv[2])).sum()))
"""


@pytest.mark.parametrize("kind", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_weights_of_a_module_go_to_another_process_by_a_token(kind, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    if kind == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    import symm.torch

    directory = tmp_path / "ipc"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("SYMM_IPC_DIRECTORY", str(directory))
    with symm.Group.join(0, 1, f"thread://{tmp_path.name}", backend=kind) as group:
        memory = group.empty(64, "f32").torch()
        device = "cpu" if kind == "host" else "cuda"
        memory[:32] = torch.arange(32.0)
        memory[32:36] = 1
        half = group.empty((2, 3), "bf16").torch()
        model = torch.nn.Linear(8, 4, device=device)
        weights = {"weight": memory[:32].reshape(4, 8), "bias": memory[32:36]}
        model.load_state_dict(weights, assign=True)
        nothing = torch.empty(0, 5, device=device)
        token = symm.torch.share({**model.state_dict(), "half": half, "nothing": nothing})

        reader = subprocess.run(
            [sys.executable, "-c", READER, token.hex(), device],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert reader.returncode == 0, reader.stderr
        assert float(reader.stdout) == sum(range(32)) + 4

        # Another version, in other memory that is laid out alike.
        next_memory = group.empty(64, "f32").torch()
        next_memory[:32] = 2 * torch.arange(32.0)
        next_memory[32:36] = 3
        next_weights = {"weight": next_memory[:32].reshape(4, 8), "bias": next_memory[32:36]}
        next_half = group.empty((2, 3), "bf16").torch()
        next_token = symm.torch.share({**next_weights, "half": next_half, "nothing": nothing})
        reader = subprocess.run(
            [sys.executable, "-c", READER, token.hex(), device, next_token.hex()],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert reader.returncode == 0, reader.stderr
        seen = [float(line) for line in reader.stdout.split()]
        assert seen == [sum(range(32)) + 4, 2 * sum(range(32)) + 12]

        with pytest.raises(symm.InvalidArgumentError, match="not contiguous"):
            symm.torch.share({"column": model.weight[:, 1]})
        with pytest.raises(symm.InvalidArgumentError, match="one device"):
            symm.torch.share({"nothing": nothing})


def test_tensors_that_cannot_be_mapped_for_reading_only_are_mapped_for_writing(monkeypatch):
    pytest.importorskip("torch", reason=NO_TORCH)
    import symm.torch

    asked = []

    def import_bundle(token, *, read_only, **options):
        asked.append(read_only)
        if read_only:
            raise symm.UnsupportedError("options.flags: the memory is of cudaMalloc")
        return {}

    monkeypatch.setattr(symm, "import_bundle", import_bundle)
    assert symm.torch.load(b"") == {}
    assert asked == [True, False]
    with pytest.raises(symm.UnsupportedError, match="cudaMalloc"):
        symm.torch.load(b"", read_only=True)
    assert symm.torch.load(b"", read_only=False) == {}
    assert asked == [True, False, True, False]


def main(chapter, kind, *arguments):
    import torch

    if "SYMM_TEST_MACHINES" in os.environ:
        os.environ["SYMM_MACHINE"] = str(RANK)
    device = torch.device(kind, RANK if kind == "cuda" else None)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    globals()[chapter](RANK, device, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
