"""symm.torch: operators, the back end of torch.distributed, and what is built on it. On
the CPU, and on GPUs if there are two.

Every chapter runs on two ranks as programs, `test_torch.py <chapter> <device>`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from ctypes.util import find_library
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import REPOSITORY

import symm

SIZE = 2
CHAPTERS = ("operators", "collectives", "training")
RANK = int(os.environ.get("SYMM_RANK", "0"))


# ---- operators, each with what it does to all ranks' operands, stacked

OPERATORS = {
    "sum": (lambda ops, x: ops.all_reduce(x), lambda all_x: [all_x.sum(0)] * SIZE),
    "avg": (lambda ops, x: ops.all_reduce(x, "avg"), lambda all_x: [all_x.mean(0)] * SIZE),
    "max": (lambda ops, x: ops.all_reduce(x, "max"), lambda all_x: [all_x.amax(0)] * SIZE),
    "all_gather": (lambda ops, x: ops.all_gather(x), lambda all_x: [all_x.flatten(0, 1)] * SIZE),
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
        lambda all_x: [a.flatten(0, 1) for a in all_x.chunk(SIZE, 1)],
    ),
    "all_to_all rows": (
        lambda ops, x: ops.all_to_all(x, "", [1, 3], [3, 3] if RANK else [1, 1]),
        lambda all_x: [all_x[:, :1].flatten(0, 1), all_x[:, 1:].flatten(0, 1)],
    ),
    "broadcast": (lambda ops, x: ops.broadcast(x, 1), lambda all_x: [all_x[1]] * SIZE),
    "reduce": (
        lambda ops, x: ops.reduce(x, "avg", 1),
        lambda all_x: [all_x[0].detach() * 0, all_x.mean(0)],
    ),
}


def operators(rank, device):
    import torch

    from symm.torch import forget, use

    group = symm.Group.from_env(backend="host" if device.type == "cpu" else "cuda", timeout=60)
    ops = torch.ops.symm
    with pytest.raises(symm.InvalidArgumentError, match=r"symm\.torch\.use"):
        ops.all_reduce(torch.ones(1, device=device))
    use(group)
    # both leave out what nobody reads
    compiler = "aot_eager_decomp_partition" if device.type == "cpu" else "inductor"
    for name, (apply, expect) in OPERATORS.items():
        torch.manual_seed(1)
        all_x = torch.randn(SIZE, 4, 5, dtype=torch.float64, device=device, requires_grad=True)
        expected = expect(all_x)
        weights = [torch.randn_like(one) for one in expected]
        sum((one * weight).sum() for one, weight in zip(expected, weights, strict=True)).backward()
        for transformed in (apply, torch.compile(apply, fullgraph=True, backend=compiler)):
            x = all_x[rank].detach().clone().requires_grad_()
            y = transformed(ops, x)
            assert torch.equal(y, expected[rank]), name
            (y * weights[rank]).sum().backward()
            assert torch.allclose(x.grad, all_x.grad[rank], rtol=1e-12), name

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

    block = group.empty(1 << 16, "f32")  # symmetric memory: in place, and without a copy
    view = block.torch()

    def step(out):
        view.fill_(rank + 1)
        ops.barrier(view)
        ops.all_reduce_(view)
        out.add_(ops.all_reduce(view.reshape(2, -1).T))

    out = torch.zeros(1 << 15, 2, device=device)
    step(out)
    if device.type == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(out)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        assert (out == 4 * 6).all().item()
    assert (view == 3).all().item()
    assert torch.equal(out, torch.full_like(out, 6 if device.type == "cpu" else 24))
    forget()
    group.finalize()


def begin(rank):
    import torch.distributed as dist

    __import__("symm.torch")  # registers the back end

    dist.init_process_group(
        "cpu:symm,cuda:symm",
        init_method=f"file://{os.environ['SYMM_TEST_STORE']}",
        rank=rank,
        world_size=SIZE,
    )
    return dist


def collectives(rank, device):
    import torch

    dist = begin(rank)
    other = 1 - rank

    def full(value, *shape, dtype=torch.float32):
        return torch.full(shape or (6,), value, device=device).to(dtype)

    def all_equal(tensor, *values):
        assert tensor.flatten().tolist() == list(values), tensor

    reduce_op = dist.ReduceOp
    types = (
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int64,
        torch.uint8,
        torch.int16,
    )
    for dtype in types:
        for op, expected in (
            (reduce_op.SUM, 5),
            (reduce_op.MIN, 2),
            (reduce_op.MAX, 3),
            (reduce_op.PRODUCT, 6),
            (reduce_op.AVG, 2.5),
        ):
            for asynchronous in (False, True):
                tensor = full(rank + 2, dtype=dtype)
                work = dist.all_reduce(tensor, op, async_op=asynchronous)
                if asynchronous:
                    work.wait()
                all_equal(tensor, *([expected if dtype.is_floating_point else int(expected)] * 6))
    tensor = torch.complex(full(rank), full(1.0))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [1 + 2j] * 6
    tensor = full(rank, dtype=torch.bool)
    dist.all_reduce(tensor, reduce_op.BAND)
    assert not tensor.any()
    for wrong, op in ((full(1, dtype=torch.int32), reduce_op.BXOR), (full(1), reduce_op.BAND)):
        with pytest.raises(symm.UnsupportedError, match="does not reduce"):
            dist.all_reduce(wrong, op)
    tensor = full(rank + 1)
    dist.all_reduce(tensor, torch.distributed._make_nccl_premul_sum(0.5))
    all_equal(tensor, *[1.5] * 6)
    strided = full(rank, 4, 2)[:, 0]
    dist.all_reduce(strided)
    all_equal(strided, 1, 1, 1, 1)

    row = torch.arange(4.0, device=device)
    for call, tensor, expected in (
        (lambda x: dist.broadcast(x, 1), full(rank), [1] * 6),
        (lambda x: dist.all_gather(x, full(rank)), [full(9), full(9)], [0] * 6 + [1] * 6),
        (lambda x: dist.all_gather(x, full(rank, rank + 1)), [full(9, 1), full(9, 2)], [0, 1, 1]),
        (lambda x: dist.all_gather_into_tensor(x, full(rank, 2)), full(9, 4), [0, 0, 1, 1]),
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
            lambda x: dist.reduce_scatter_tensor(x, row, reduce_op.AVG),
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
        all_equal(torch.cat(tensor) if isinstance(tensor, list) else tensor, *expected)
    tensor = full(rank + 1)
    dist.reduce(tensor, 1)
    assert rank == 0 or tensor[0] == 3
    parts = [full(9), full(9)] if rank == 0 else None
    dist.gather(full(rank), parts, 0)
    assert rank or [part[0] for part in parts] == [0, 1]
    tensors = [full(rank), full(rank + 1, 3)]
    dist.all_reduce_coalesced(tensors)
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        for one in tensors:
            dist.all_reduce(one)
    manager.wait()
    all_equal(tensors[1], 6, 6, 6)
    dist.barrier()
    dist.barrier(async_op=True).wait()
    with pytest.raises(symm.InvalidArgumentError, match="recv"):
        dist.all_gather_into_tensor(full(0, 3), full(0, 2))
    with pytest.raises(symm.InvalidArgumentError, match="recv"):
        dist.all_gather_into_tensor(full(0, 3), full(0, 2), async_op=True).wait()
    for kind in (torch.complex64, torch.float8_e4m3fn):
        tensor = full(rank).to(kind)
        dist.broadcast(tensor, 1)
        assert tensor[:1].cpu().to(torch.complex64) == 1
    works = [dist.all_reduce(full(rank, 1000), async_op=True) for _ in range(20)]
    tensor = full(rank)
    dist.all_reduce(tensor)  # behind them
    all_equal(tensor, *[1] * 6)
    assert all(work.wait() for work in works)

    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]
    objects = [f"from {rank}"]
    dist.broadcast_object_list(objects, 1)
    assert objects == ["from 1"]
    with pytest.raises(symm.UnsupportedError, match="cuda:gloo"):
        dist.all_reduce(
            full(1).cpu().to("meta"), group=dist.new_group(backend="cpu:symm,cuda:gloo")
        )
    alone = [dist.new_group([one]) for one in range(SIZE)][rank]
    both = dist.new_group([0, 1], pg_options={"scratch_bytes": 1 << 20})
    tensor = full(rank + 1)
    dist.all_reduce(tensor, group=alone)
    all_equal(tensor, *[rank + 1] * 6)
    dist.all_reduce(tensor, group=both)
    all_equal(tensor, *[3] * 6)

    for tag in (0, 7):
        tensor = full(9)
        if rank:
            dist.recv(tensor, 0, tag=tag)
            dist.send(tensor + 1, 0, tag=tag)
        else:
            dist.send(full(tag), 1, tag=tag)
            dist.recv(tensor, 1, tag=tag)
        all_equal(tensor, *[tag + 1 - rank] * 6)
    sent, received = full(rank, 1 << 18), full(9, 1 << 18)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, received, other)]
    ):
        work.wait()
    assert (received == other).all()
    with pytest.raises(symm.UnsupportedError, match="layout"):
        dist.all_reduce(tensor.to_sparse())
    with pytest.raises(symm.UnsupportedError, match="any"):
        dist.recv(tensor)

    # operators know process groups too
    all_equal(torch.ops.symm.all_reduce(full(rank + 1.0)), *[3] * 6)
    from torch.distributed import _functional_collectives as functional

    compiled = torch.compile(
        lambda x: functional.all_reduce(x, "sum", both) * 2, fullgraph=True, backend="aot_eager"
    )
    all_equal(compiled(full(rank + 1.0)), *[6] * 6)
    pending = dist.irecv(tensor, other, tag=7)  # which nobody sends
    with pytest.raises(TimeoutError):
        pending.wait(timedelta(seconds=0.1))
    assert not pending.is_completed()
    dist.barrier()  # not behind it
    dist.destroy_process_group()
    with pytest.raises(symm.SymmError):
        pending.wait(timedelta(seconds=60))


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

    dist = begin(rank)
    batches = torch.randn(3, 8, 16, device=device, generator=torch.Generator(device).manual_seed(3))

    def model(device):
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)
        ).to(device)

    def train(net, mine):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for batch in batches:
            optimizer.zero_grad()
            net(batch.chunk(SIZE)[rank] if mine else batch).square().mean().backward()
            optimizer.step()
        return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in net.parameters()]

    expected = train(model(device), False)

    def same(parameters):
        for one, other in zip(parameters, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)

    ids = None if device.type == "cpu" else [device.index]
    same(train(torch.nn.parallel.DistributedDataParallel(model(device), device_ids=ids), True))
    mesh = init_device_mesh(device.type, (SIZE,))
    sharded = model(device)
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh)
    same(train(sharded, True))
    same(
        train(
            parallelize_module(
                model(device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}
            ),
            False,
        )
    )
    whole = torch.arange(12.0, device=device).reshape(3, 4)
    assert torch.equal(
        distribute_tensor(whole, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]).full_tensor(),
        whole,
    )
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", CHAPTERS)
def test_torch(name, kind, launch, monkeypatch, tmp_path):
    torch = pytest.importorskip("torch")
    if kind == "cuda" and torch.cuda.device_count() < SIZE:
        pytest.skip(f"PyTorch sees {torch.cuda.device_count()} GPUs, not {SIZE}")
    monkeypatch.setenv("SYMM_TEST_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for status, output in launch(
        SIZE, sys.executable, str(Path(__file__)), name, kind, patience=300
    ):
        assert status == 0, output


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@pytest.mark.parametrize("kind", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_two_machines(kind, tmp_path):
    """The program of the tutorial's part 7, on machines
    that are pretended; with one GPU all ranks are on it.
    """
    torch = pytest.importorskip("torch")
    ranks = 2 if kind == "host" else min(2, torch.cuda.device_count())
    if ranks == 0 or (kind == "host" and not find_library("ucp")):
        pytest.skip("PyTorch sees no GPU" if ranks == 0 else "no libucp.so.0")
    own = {
        "SYMM_BACKEND": kind,
        "SYMM_SECRET_FILE": str(tmp_path / "secret"),
        "SYMM_PORT": free_port(),
        "OMP_NUM_THREADS": "1",
    }
    nccl = {
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
    }
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes=2",
        f"--nproc-per-node={ranks}",
    ]
    command += ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    machines = [
        subprocess.Popen(
            [
                *command,
                f"--node-rank={machine}",
                str(REPOSITORY / "examples" / "07-several-machines" / "train.py"),
            ],
            env=os.environ | own | nccl | {"SYMM_MACHINE": machine, "NCCL_HOSTID": machine},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for machine in "01"
    ]
    try:
        outputs = [machine.communicate(timeout=300)[0] for machine in machines]
    finally:
        for machine in machines:
            machine.terminate()
    said = "".join(outputs)
    if "libsodium" in said:
        pytest.skip("the library was built without libsodium")
    assert all(machine.returncode == 0 for machine in machines), said
    assert said.count(f"2 machines of {ranks} ranks") == 2 * ranks, said


if __name__ == "__main__":
    import torch

    where = torch.device(sys.argv[2], RANK if sys.argv[2] == "cuda" else None)
    if where.type == "cuda":
        torch.cuda.set_device(where)
    globals()[sys.argv[1]](RANK, where)
