"""GPUs: views, operands and streams of PyTorch, JAX and CuPy, CUDA graphs, and Triton.

    SYMM_LIB=<libsymm.so with the CUDA back end> python -m pytest tests/test_gpu.py

Every test starts two ranks that are programs, `test_gpu.py <case>`. They are on two GPUs if
there are two, else both on one.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

import symm

SIZE = 2


def missing_device() -> str:
    """Why there is no CUDA device; empty if there is one."""
    try:
        symm.device_count("cuda")
    except symm.SymmError as error:
        return f"no CUDA device: {error}"
    return ""


REASON = missing_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(REASON), reason=REASON or "-")]


def placement() -> dict:
    """The options of the group of this rank: its back end and device."""
    shares_device = symm.device_count("cuda") < SIZE
    return {
        "backend": "cuda",
        "device": 0 if shares_device else int(os.environ["SYMM_RANK"]),
        "overlapping_devices": shares_device,
    }


# ---- the programs of the ranks: each function rank_<case>() is a case


def torch_on(group):
    """(torch, the group's device), after PyTorch was set to that device."""
    import torch

    device = torch.device("cuda", group.device)
    torch.cuda.set_device(device)
    return torch, device


def meet(group):
    """Wait until all ranks are here, on the device and on the host."""
    import torch

    torch.cuda.synchronize()
    group.barrier()
    torch.cuda.synchronize()


def rank_torch_views(group):
    torch, device = torch_on(group)
    for dtype in (
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int64,
        torch.uint8,
    ):
        array = group.empty((4, 8), dtype)
        tensor = array.torch()
        assert (tensor.data_ptr(), tensor.dtype) == (array.pointer, dtype)
        assert (tuple(tensor.shape), tensor.device) == ((4, 8), device)
        tensor.copy_(torch.full((4, 8), group.rank + 1.0, device=device).to(dtype))
        meet(group)
        peer = array.peer(1 - group.rank).torch()
        assert (peer.float() == 2.0 - group.rank).all().item()
        meet(group)

    interface = group.empty(4).__cuda_array_interface__
    assert interface["version"] == 3
    assert torch.as_tensor(group.empty((2, 2)), device=device).shape == (2, 2)


def rank_torch_operands(group):
    torch, device = torch_on(group)
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn):
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream):
            send = torch.full((1000,), group.rank + 1.0, device=device).to(dtype)
            recv = torch.empty(1000, device=device, dtype=dtype)
            group.allreduce(send, recv)  # on the current stream, which is `stream`
            everything = torch.empty(2000, device=device, dtype=dtype)
            group.allgather(send, everything)
        stream.synchronize()
        assert (recv.float() == 3).all().item()
        assert (everything[:1000].float() == 1).all().item()
        assert (everything[1000:].float() == 2).all().item()

    array = group.empty(1000, "bf16")
    array.torch().fill_(group.rank + 1)
    group.allreduce(array, array.torch())
    torch.cuda.synchronize()
    assert (array.torch() == 3).all().item()

    for wrong in (torch.ones(4), torch.ones(8, device=device)[::2]):
        with pytest.raises(symm.InvalidArgumentError):
            group.allreduce(wrong)


def rank_torch_expandable_segments(group):
    """PyTorch maps expandable segments by 20 MB; a tensor that lies in several is one buffer."""
    torch, device = torch_on(group)
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    for megabytes in (8, 24, 100):
        tensor = torch.full((megabytes << 18,), group.rank + 1.0, device=device)
        torch.cuda.synchronize()
        buffer = group.adopt(tensor.data_ptr(), tensor.nbytes)
        array = group.from_buffer(buffer, tensor.shape, "f32")
        assert array.peer(1 - group.rank).torch()[-1].item() == 2 - group.rank
        group.barrier()
        torch.cuda.synchronize()
        group.allreduce(tensor)
        torch.cuda.synchronize()
        assert (tensor == 3).all().item()
        assert (array.torch() == 3).all().item()


def rank_torch_shares_weights(group):
    """The weights of a module, in the memory that PyTorch's allocator gives in each mode."""
    torch, device = torch_on(group)
    import symm.torch

    name = f"weights-{os.getppid()}"
    for version, expandable in enumerate((False, True)):
        torch.cuda.empty_cache()
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
        torch.manual_seed(version)
        # Small tensors share a segment, and the large one has others.
        layers = [torch.nn.Linear(64, 64) for _ in range(8)] + [torch.nn.Linear(64, 1 << 20)]
        model = torch.nn.Sequential(*layers).to(device)
        expected = {key: tensor.cpu() for key, tensor in model.state_dict().items()}
        if group.rank == 0:
            symm.ipc_publish(name, version, symm.torch.share(model.state_dict()))
            group.barrier()
            group.synchronize()
            symm.ipc_withdraw_version(name, version, timeout=60)
        else:
            token = symm.ipc_lookup(name, version=version)[1]
            tensors = symm.torch.load(token)
            model.load_state_dict(tensors, assign=True)
            for key, tensor in model.state_dict().items():
                assert torch.equal(tensor.cpu(), expected[key]), key
                assert tensor.data_ptr() == tensors[key].data_ptr()
            if expandable:
                tensors.suspend()
                tensors.resume()
                assert torch.equal(tensors["8.weight"].cpu(), expected["8.weight"])
            else:
                with pytest.raises(symm.UnsupportedError, match="cudaMalloc"):
                    symm.torch.load(token, read_only=True)
                with pytest.raises(symm.UnsupportedError, match="cudaMalloc"):
                    tensors.suspend()
            del model, tensors, tensor
            torch.cuda.synchronize()
            group.barrier()
            group.synchronize()


def rank_fill(group):
    """Elements of any type, number and place, in the block of the other rank."""
    torch, device = torch_on(group)
    for name in ("u8", "f8e4m3", "f16", "f32", "i64", "f64"):
        array = group.empty(40, name)
        element = symm.array.element_bytes(1, array.dtype)
        whole = array.view("u8").torch()
        # Whole words; bytes beside them; and pieces in which there is no whole word.
        for begin, count in ((0, 40), (3, 29), (1, 1), (5, 2), (0, 3), (7, 0)):
            whole.fill_(255)
            meet(group)
            array[begin : begin + count].peer(1 - group.rank).fill(1)
            meet(group)
            expected = torch.full((40, array.itemsize), 255, dtype=torch.uint8, device=device)
            expected[begin : begin + count] = torch.frombuffer(
                bytearray(element), dtype=torch.uint8
            ).to(device)
            assert torch.equal(whole, expected.flatten()), (name, begin, count)
            meet(group)


def rank_torch_pool(group):
    torch, device = torch_on(group)
    heap = group.heap(128 << 20)
    pool = heap.torch_pool()
    for _ in range(3):
        with torch.cuda.use_mem_pool(pool):
            tensors = [
                torch.full((count,), group.rank + 1.0, device=device)
                for count in (1 << 20, 100, 5 << 20)
            ]
        assert all(heap.find(tensor.data_ptr()) for tensor in tensors)
        for tensor in tensors:
            offset = tensor.data_ptr() - heap.memory.pointer()
            assert group.find(tensor.data_ptr()) == (heap.memory.id, group.rank, offset)
            group.allreduce(tensor)
            group.barrier()
            torch.cuda.synchronize()
            peer = heap.memory.array(len(tensor), "f32", rank=1 - group.rank, offset=offset).torch()
            assert (tensor == 3).all().item()
            assert (peer == 3).all().item()
            meet(group)
        del tensors, tensor, peer

    del pool
    torch.cuda.empty_cache()
    assert heap.info().pieces == 0, heap.info()


def rank_memory_saver(group):
    from symm.saver import MemorySaver

    torch, device = torch_on(group)
    saver = MemorySaver(group)
    numbers = torch.arange(4 << 20, device=device, dtype=torch.float32)
    with saver.region("weights", enable_cpu_backup=True):
        kept = numbers.clone()
    with saver.region("cache"):
        lost = torch.ones(16 << 20, device=device)
        own = saver.empty(16 << 20, "f32").torch()
    outside = torch.ones(1 << 20, device=device)
    total = torch.zeros((), device=device)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total.copy_(kept[:1024].sum() + lost[:1024].sum() + own[:1024].sum())

    meet(group)
    held = sum(tensor.nbytes for tensor in (kept, lost, own))
    before = torch.cuda.mem_get_info(device)[0]
    saver.pause()
    meet(group)
    gained = torch.cuda.mem_get_info(device)[0] - before
    assert gained >= held, (gained, held)
    assert (outside == 1).all().item()
    meet(group)

    saver.resume()
    assert torch.equal(kept, numbers)
    assert (lost == 0).all().item()
    lost.fill_(2)
    own.fill_(3)
    graph.replay()
    assert total.item() == numbers[:1024].sum().item() + 5 * 1024
    meet(group)


def rank_cupy_pool(group):
    import cupy

    with cupy.cuda.Device(group.device):
        heap = group.heap(64 << 20)
        pool = heap.cupy_pool()
        with cupy.cuda.using_allocator(pool.malloc):
            array = cupy.full(1 << 20, group.rank + 1, cupy.float32)
        assert heap.find(array.data.ptr)
        group.allreduce(array)
        cupy.cuda.Device().synchronize()
        assert (array == 3).all()
        del array
        pool.free_all_blocks()
        assert heap.info().pieces == 0, heap.info()


def rank_torch_halos(group):
    """Halos of a ring on a stream, and in a graph that is replayed between other rounds."""
    torch, device = torch_on(group)
    peer = 1 - group.rank
    array = group.empty((6, 500), "f64")
    grid = array.torch()
    edges = torch.zeros(2, 500, dtype=torch.float64, device=device)
    round_ = torch.zeros(1, dtype=torch.float64, device=device)
    exchange = group.exchange(
        [
            array.neighbor_part(peer, slice(5, 6), edges[:1]),
            array.neighbor_part(peer, slice(0, 1), edges[1:]),
        ]
    )

    def step():
        round_.add_(1)
        edges.copy_(torch.arange(2, device=device)[:, None] + 10 * round_ + 1000 * group.rank)
        exchange.start()
        grid[1:-1] += 1
        exchange.finish()

    grid.zero_()
    meet(group)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    for number in range(2, 12):
        with torch.cuda.stream(stream):
            step() if number % 4 == 0 else graph.replay()
        group.synchronize(stream)
        torch.cuda.synchronize()
        assert (grid[-1] == 10 * number + 1000 * peer).all(), (number, grid[-1])
        assert (grid[0] == 1 + 10 * number + 1000 * peer).all(), (number, grid[0])
        assert (grid[1:-1] == number).all()
    meet(group)


def rank_torch_graph(group):
    torch, device = torch_on(group)
    block = group.empty(4096, "f32")
    view = block.torch()
    out = torch.zeros(4096, device=device)
    step = torch.zeros(1, device=device)
    spare = group.empty(4096, "f32").torch()
    group.allreduce(block, out)  # kernels are loaded before the capture
    torch.cuda.synchronize()

    # The captured stream is current, so all calls are on it. Memory that is released during the
    # capture does no harm.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step += 1
        view.copy_(step.expand(4096) * (group.rank + 1))
        group.allreduce(block, out)
        group.barrier()
        block[:64].put(1 - group.rank, out[:64], signal=5)
        del spare
        block.wait_signal(1 - group.rank, 5)
        out *= 2

    for replay in range(1, 51):
        graph.replay()
        torch.cuda.synchronize()
        assert (out == 6 * replay).all().item(), replay
        assert (view[:64] == 3 * replay).all().item(), replay
        assert (view[64:] == replay * (group.rank + 1)).all().item(), replay
        group.barrier()
        torch.cuda.synchronize()


def rank_torch_release(group):
    torch, device = torch_on(group)
    side = torch.cuda.Stream(device)
    for _ in range(6):
        x = group.empty(4 << 20, "f32").torch()
        torch.cuda._sleep(20_000_000)
        y = x * 2
        del x  # its kernel has not begun
        z = group.empty(4 << 20, "f32").torch()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            w = z + 1
        del z
        torch.cuda.synchronize()
        assert (y == 0).all().item()
        assert (w == 1).all().item()


def rank_torch_side_stream(group):
    torch, device = torch_on(group)
    side = torch.cuda.Stream(device)
    array = group.empty(1000, "f32")
    view = array.torch()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for round_ in range(20):
            torch.cuda._sleep(1_000_000)
            view.fill_(group.rank + 1 + round_)
            group.allreduce(array)  # in place, so no operand has a current stream
            group.barrier()
            array[:500].put(1 - group.rank, array[500:], signal=3)
            array.wait_signal(1 - group.rank, 3)
            group.barrier()
        torch.cuda._sleep(200_000_000)
        assert not group.stream_done()
        group.synchronize()
        assert group.stream_done()
    assert (view == 3 + 2 * 19).all().item()

    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        array.fill(7)
    seen = array.torch() * 1  # on the default stream, which waits for the other
    torch.cuda.synchronize()
    assert (seen == 7).all().item()


def rank_torch_store(group):
    import torch.distributed as dist

    store = dist.FileStore(os.environ["SYMM_TEST_STORE"], SIZE)
    for _ in range(2):
        with symm.Group.from_torch(store, group.rank, SIZE, **placement()) as other:
            assert (other.rank, other.size) == (group.rank, SIZE)
            other.barrier()


def rank_jax(group):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_device", jax.devices()[group.device])
    for dtype in (jnp.float32, jnp.bfloat16):
        array = group.empty((8, 16), dtype)
        array.fill(group.rank + 1)
        group.barrier()
        seen = jnp.from_dlpack(array)
        assert (seen.shape, seen.dtype) == ((8, 16), dtype)
        assert seen.unsafe_buffer_pointer() == array.pointer
        assert float(jnp.sum(seen.astype(jnp.float32))) == 128 * (group.rank + 1)
        given = jax.device_put(jnp.full((8, 16), group.rank + 1, dtype))
        group.allreduce(given, array)
        assert float(jnp.sum(jnp.from_dlpack(array).astype(jnp.float32))) == 128 * 3
        group.barrier()
        jax.block_until_ready(seen)
    import test_jax

    test_jax.check(group)


def rank_cupy(group):
    import cupy

    cupy.cuda.Device(group.device).use()
    array = group.empty((4, 8), "f32")
    for seen in (cupy.from_dlpack(array), cupy.asarray(array)):
        assert (seen.data.ptr, seen.shape, seen.dtype) == (array.pointer, (4, 8), cupy.float32)
    seen[:] = group.rank + 1
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        send = cupy.full(1000, group.rank + 1, cupy.float32)
        recv = cupy.empty(1000, cupy.float32)
        group.allreduce(send, recv)
    stream.synchronize()
    assert bool((recv == 3).all())
    group.allreduce(array)
    assert bool((cupy.from_dlpack(array) == 3).all())


def rank_triton(group):
    torch, device = torch_on(group)
    import triton_kernels as kernels

    import symm.triton as st

    memory = group.empty(64 * 1024).memory
    peer = 1 - group.rank
    view = st.view(memory)
    trouble = torch.zeros(8, dtype=torch.int32, device=device)
    no_trouble = [0] * 8

    # puts, signals and barriers in a graph
    got = torch.zeros(1024, device=device)
    rounds = torch.zeros(1, dtype=torch.int64, device=device)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        kernels.hand_on[(1,)](view, rounds, got, trouble)  # compiled before the capture
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(10):
                kernels.hand_on[(1,)](view, rounds, got, trouble)
        for _ in range(10):
            graph.replay()
        stream.synchronize()
    assert (rounds.item(), trouble.tolist()) == (101, no_trouble)
    assert torch.equal(got, torch.arange(1024, device=device) + 100.0 + peer)

    # A kernel takes signals that the host sent, one in each program, and the host takes a signal
    # that a kernel sent.
    memory.signal(peer, 5)
    memory.signal(peer, 5)
    kernels.take[(2,)](view, 5, trouble)
    kernels.send[(1,)](view, 6)
    memory.wait_signal(peer, 6)
    torch.cuda.synchronize()
    assert trouble.tolist() == no_trouble
    assert (memory.test_signal(peer, 5), memory.test_signal(peer, 6)) == (0, 0)

    # Several programs each meet the corresponding one, on a channel of their own.
    sums = torch.zeros(4, device=device)
    for _ in range(50):
        kernels.meet[(4,)](view, sums, trouble)
    kernels.compare[(1,)](view, trouble)
    torch.cuda.synchronize()
    assert trouble.tolist() == no_trouble
    assert sums.tolist() == [50.0 * (10 * peer + program) for program in range(4)]

    # Waits that end by a deadline or by the stop word take nothing.
    kernels.take[(1,)](st.view(memory, timeout=0.05), 7, trouble)
    torch.cuda.synchronize()
    assert trouble[0].item() == peer << 8 | 1
    stop = torch.zeros(1, dtype=torch.int32).pin_memory()
    kernels.take[(1,)](st.view(memory, timeout=math.inf, stop=stop.data_ptr()), 7, trouble)
    stop[0] = 1
    torch.cuda.synchronize()
    assert trouble[0].item() == peer << 8 | 2
    group.barrier()
    memory.signal(peer, 7)
    memory.wait_signal(peer, 7)
    torch.cuda.synchronize()


def rank_triton_example(group):
    torch_on(group)
    sys.path.append(str(Path(__file__).parents[1] / "examples"))
    import all_gather_matmul

    all_gather_matmul.run(group, 512, 256, 384)


# Memory that symm, PyTorch and CuPy give back to each other, in bytes. All of a GPU but SPARE is
# taken, so there is room for WANTED only once KEPT has been given back.
KEPT = 3 << 30
WANTED = 2 << 30
SPARE = 1 << 30


def have_symm_keep_memory(group, work, synchronize):
    """Has symm keep KEPT bytes that were released before the end of `work` on the GPU.

    Then nobody uses them any more, and symm gives them to the driver when it is asked next.
    """
    buffer = group.alloc(KEPT)
    work()
    del buffer
    synchronize()


class Allocations:
    """Counts the attempts of `allocate`."""

    def __init__(self, allocate):
        self.allocate = allocate
        self.attempts = 0

    def __call__(self, *arguments):
        self.attempts += 1
        return self.allocate(*arguments)


def torch_short_of_memory(group):
    """What fills the group's GPU, and a function that allocates WANTED bytes there."""
    torch, device = torch_on(group)
    have_symm_keep_memory(group, lambda: torch.cuda._sleep(1 << 30), torch.cuda.synchronize)

    def allocate(nbytes=WANTED):
        return torch.empty(nbytes, dtype=torch.uint8, device=device)

    return allocate(torch.cuda.mem_get_info()[0] - SPARE), Allocations(allocate)


def first_rank_alone(group, body):
    """Ranks may share the GPU that the first one fills. The others have their memory before."""
    group.barrier()
    group.synchronize()
    if group.rank == 0:
        body(group)
    group.barrier()
    group.synchronize()


def rank_torch_retries_on_oom(group):
    import symm.torch

    def fill(group):
        ballast, allocate = torch_short_of_memory(group)
        tensor = symm.torch.retry_on_oom(allocate)
        assert (allocate.attempts, tensor.nbytes) == (2, WANTED)
        assert (tensor.fill_(7)[-1] == 7).item()
        del ballast

    first_rank_alone(group, fill)


def rank_torch_collects_on_oom(group):
    torch, _ = torch_on(group)
    import symm.torch

    def fill(group):
        symm.torch.collect_on_oom()
        ballast, allocate = torch_short_of_memory(group)
        with pytest.raises(torch.OutOfMemoryError):
            allocate()
        tensor = allocate()
        assert (tensor.fill_(7)[-1] == 7).item()
        del ballast

    first_rank_alone(group, fill)


def rank_torch_lends_its_cache(group):
    torch, device = torch_on(group)
    import symm.torch

    def fill(group):
        nbytes = torch.cuda.mem_get_info()[0] - SPARE
        cached = torch.empty(nbytes, dtype=torch.uint8, device=device)
        del cached
        with pytest.raises(symm.OutOfMemoryError):
            group.alloc(WANTED)
        with symm.torch.lend_cache():
            assert group.alloc(WANTED).nbytes == WANTED

    first_rank_alone(group, fill)


SPIN = """
extern "C" __global__ void spin() {
  const long long begin = clock64();
  while (clock64() - begin < (1ll << 30)) {}
}
"""


def rank_cupy_collects(group):
    import cupy

    import symm.cupy

    cupy.cuda.Device(group.device).use()
    spin = cupy.RawKernel(SPIN, "spin")

    def fill(group):
        have_symm_keep_memory(
            group, lambda: spin((1,), (1,), ()), cupy.cuda.Device(group.device).synchronize
        )
        ballast = cupy.cuda.alloc(cupy.cuda.runtime.memGetInfo()[0] - SPARE)
        allocate = Allocations(cupy.get_default_memory_pool().malloc)
        with cupy.cuda.using_allocator(symm.cupy.collecting(allocate)):
            array = cupy.empty(WANTED, cupy.uint8)
        assert allocate.attempts == 2
        array.fill(7)
        assert array[-1] == 7
        del ballast

    first_rank_alone(group, fill)


def rank_dead_peer(group):
    torch, _ = torch_on(group)
    block = group.empty(1024)
    group.allreduce(block)
    torch.cuda.synchronize()
    if group.rank == 1:
        os.kill(os.getpid(), 9)

    def go_on():
        for _ in range(100_000):
            group.allreduce(block)
            torch.cuda.synchronize()

    with pytest.raises(symm.PeerFailedError) as caught:
        go_on()
    assert caught.value.rank == 1


# ---- starting them

CASES = [name.removeprefix("rank_") for name in list(globals()) if name.startswith("rank_")]
NEEDS = {
    "jax": "jax",
    "cupy": "cupy",
    "cupy_pool": "cupy",
    "cupy_collects": "cupy",
    "triton": "triton",
    "triton_example": "triton",
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_runs_on_two_ranks_with_gpus(name, launch_ranks):
    pytest.importorskip(NEEDS.get(name, "torch"))
    results = launch_ranks(name)
    if name == "dead_peer":
        assert results[1][0] == -9
        results = results[:1]
    for status, output in results:
        assert status == 0, output


@pytest.fixture
def launch_ranks(launch, monkeypatch, tmp_path):
    monkeypatch.setenv("SYMM_TEST_STORE", str(tmp_path / "store"))
    # Two ranks may share a GPU. So JAX must not take all of its memory, and each waiting kernel
    # needs a hardware queue.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    return lambda name: launch(SIZE, sys.executable, str(Path(__file__)), name)


if __name__ == "__main__":
    made = symm.Group.from_env(timeout=60, create_timeout=120, **placement())
    globals()["rank_" + sys.argv[1]](made)
    if made.status().ok:
        made.finalize()
