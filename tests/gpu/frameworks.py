"""PyTorch, JAX and CuPy over the drop-in for NCCL, with two ranks, which may share a GPU.

tests/gpu/frameworks.py <libsymm_nccl.so> [--plain] [--limit SECONDS] [--trials N] [--lanes N]
                        [chapter ...]

Each chapter runs in processes of its own. SYMM_NCCL names the NCCL behind the drop-in. With
--plain the programs get that NCCL alone, which shows what they do without the drop-in. The status
is 77 if nothing could be run, which is explained.

--trials says how often a chapter that kills a rank (its name ends in "_kill") does that: with 2 or
more, ranks are forked from a process that has imported the framework and not used a GPU, --lanes
groups of ranks at a time, and each rank dies at another moment. SYMM_NCCL_OPS=none leaves the
collectives to NCCL.
"""

import argparse
import ast
import ctypes
import gc
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

RANKS = 2
SHARED_SINCE = 23000  # of NCCL, for ranks that share a GPU


class Skipped(Exception):
    """Why a chapter cannot run here."""


# ---- chapters, which a rank runs


def torch_ready(rank, folder):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{folder}/torch",
        rank=rank,
        world_size=RANKS,
        device_id=torch.device("cuda", 0),
    )
    return torch, dist


def expect(got, want, what):
    """Compares two tensors, or a tensor and a number."""
    import torch

    wanted = want if isinstance(want, torch.Tensor) else torch.full_like(got, want)
    assert torch.equal(got, wanted), f"{what}: {got.flatten()[:4]}, expected {wanted.flatten()[:4]}"


def torch_collectives(rank, folder):
    torch, dist = torch_ready(rank, folder)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32,
                  torch.int64, torch.uint8, torch.int8):  # fmt: skip
        for op, want in ((dist.ReduceOp.SUM, 3), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.MAX, 2),
                         (dist.ReduceOp.PRODUCT, 2)):  # fmt: skip
            for count in (1, 1000, 100_003):
                data = torch.full((count,), rank + 1, dtype=dtype, device="cuda")
                dist.all_reduce(data, op)
                expect(data, want, f"all_reduce {dtype} {op} {count}")
    data = torch.full((1000,), float(rank + 1), device="cuda")
    dist.all_reduce(data, dist.ReduceOp.AVG)
    expect(data, 1.5, "average")
    data.fill_(rank + 1)
    dist.all_reduce(data, dist._make_nccl_premul_sum(0.5))
    expect(data, 1.5, "sum of halves")

    mine = torch.arange(1000.0, device="cuda") + 1000 * rank
    both = torch.arange(2000.0, device="cuda")
    gathered = torch.empty(2000, device="cuda")
    dist.all_gather_into_tensor(gathered, mine)
    expect(gathered, both, "all_gather_into_tensor")
    part = torch.empty(1000, device="cuda")
    dist.reduce_scatter_tensor(part, both.clone())
    expect(part, 2 * mine, "reduce_scatter_tensor")
    moved = torch.empty(1000, device="cuda")
    dist.all_to_all_single(moved, mine)
    halves = [both[500 * rank : 500 * rank + 500], both[1000 + 500 * rank : 1500 + 500 * rank]]
    expect(moved, torch.cat(halves), "all_to_all_single")
    for root in range(RANKS):
        data = mine.clone()
        dist.broadcast(data, root)
        expect(data, both[1000 * root : 1000 * root + 1000], "broadcast")
        data = mine.clone()
        dist.reduce(data, root)
        if rank == root:
            expect(data, both[:1000] + both[1000:], "reduce")
        parts = [torch.empty(1000, device="cuda") for _ in range(RANKS)] if rank == root else None
        dist.gather(mine, parts, root)
        if rank == root:
            expect(torch.cat(parts), both, "gather")
        data = torch.empty(1000, device="cuda")
        dist.scatter(data, list(both.chunk(2)) if rank == root else None, root)
        expect(data, mine, "scatter")
    got = torch.empty(1000, device="cuda")
    other = 1 - rank
    calls = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, got, other)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    expect(got, both[1000 * other : 1000 * other + 1000], "messages")
    child = dist.new_group([0, 1])
    data = torch.full((1000,), float(rank + 1), device="cuda")
    dist.all_reduce(data, group=child)
    expect(data, 3, "all_reduce of another group")
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()


def torch_graphs(rank, folder):
    torch, dist = torch_ready(rank, folder)
    data = torch.ones(5000, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    graphs = []
    for _ in range(200):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            dist.all_reduce(data)
            dist.all_reduce(data)
        if len(graphs) < 4:
            graphs.append(graph)
    for graph in graphs * 3:
        data.fill_(rank + 1)
        torch.cuda.synchronize()
        dist.barrier()
        graph.replay()
        torch.cuda.synchronize()
        expect(data, 6, "two sums in a graph")
    torch.cuda.synchronize()
    del graph
    graphs.clear()
    dist.destroy_process_group()


def steps(torch, wrap, rank):
    """Trains a small model. Returns its weights, of which all ranks have the same."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)]
    plain = torch.nn.Sequential(*layers).cuda()
    model = wrap(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    for step in range(4):
        torch.manual_seed(100 + step)
        rows = torch.randn(2, 16, 64).cuda()
        mine = rows if rank is None else rows[rank]
        optimizer.zero_grad()
        model(mine).square().mean().backward()
        optimizer.step()
    return list(plain.parameters())


def expect_trained(torch, got, want):
    for one, other in zip(got, want, strict=True):
        full = one.full_tensor() if hasattr(one, "full_tensor") else one
        torch.testing.assert_close(full, other, rtol=1e-4, atol=1e-5)


def torch_ddp(rank, folder):
    torch, dist = torch_ready(rank, folder)
    want = steps(torch, lambda model: model, None)
    parallel = torch.nn.parallel.DistributedDataParallel
    got = steps(torch, parallel, rank)
    expect_trained(torch, got, want)
    torch.cuda.synchronize()
    dist.destroy_process_group()


def torch_fsdp(rank, folder):
    torch, dist = torch_ready(rank, folder)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cuda", (RANKS,))

    def wrap(model):
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    want = steps(torch, lambda model: model, None)
    expect_trained(torch, steps(torch, wrap, rank), want)
    torch.cuda.synchronize()
    dist.destroy_process_group()


def torch_compile(rank, folder):
    torch, dist = torch_ready(rank, folder)
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD

    def step(data):
        summed = functional.all_reduce(data * 2, "sum", group)
        gathered = functional.all_gather_tensor(summed + 1, 0, group)
        return functional.reduce_scatter_tensor(gathered, "sum", 0, group) - 1

    compiled = torch.compile(step)
    data = torch.full((1024,), float(rank + 1), device="cuda")
    for _ in range(3):
        expect(compiled(data), 13, "compiled collectives")
        expect(step(data), 13, "eager functional collectives")
    torch.cuda.synchronize()
    dist.destroy_process_group()


def die_soon():
    """Has this process killed at a moment that is another one in each trial."""
    trial = int(os.environ.get("TRIAL", "0"))
    delay = random.Random(trial).uniform(0, 0.03) if trial else 0

    def die():
        time.sleep(delay)
        os.write(1, f"killed {time.monotonic()}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=die, daemon=True).start()


def live_on(rank, call, use):
    """Calls until the exception that another rank's death raises, and then uses the GPU."""
    if rank == RANKS - 1:
        die_soon()
    try:
        while True:
            call()
    except Exception as error:  # each framework has an exception of its own
        print("after", time.monotonic(), flush=True)
        print(f"{type(error).__name__}: {error}", flush=True)
    use()
    print("usable", flush=True)
    os._exit(0)  # without waiting for the dead rank


def torch_kill(rank, folder):
    torch, dist = torch_ready(rank, folder)
    data = torch.ones(100_000, device="cuda")
    for _ in range(3):
        dist.all_reduce(data)
    torch.cuda.synchronize()

    # While one thread copies to pageable memory, the driver lets others wait. A kernel of NCCL
    # would keep that copy until an abort.
    copies = (
        int(os.environ.get("TRIAL", "0")) % 2 == 1 and os.environ.get("SYMM_NCCL_OPS") != "none"
    )

    def call():
        dist.all_reduce(data)
        if copies:
            data.cpu()
        else:
            torch.cuda.synchronize()

    def use():
        # NCCL's kernels wait for the dead rank until then.
        dist.group.WORLD._get_backend(data.device).abort()
        for stream in (torch.cuda.Stream(), torch.cuda.current_stream()):
            with torch.cuda.stream(stream):
                expect(torch.ones(1000, device="cuda") * 2, 2, "after a death")
        torch.cuda.synchronize()

    live_on(rank, call, use)


def jax_ready(rank, folder):
    """The module, all devices, and a sum over them."""
    import jax

    port = Path(folder, "port").read_text()
    jax.distributed.initialize(f"127.0.0.1:{port}", RANKS, rank, local_device_ids=[0])
    devices = jax.devices()
    assert len(devices) == RANKS, devices
    return jax, devices, jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i", devices=devices)


def jax_psum(rank, folder):
    jax, devices, summed = jax_ready(rank, folder)
    jnp = jax.numpy
    gathered = jax.pmap(lambda x: jax.lax.all_gather(x, "i"), axis_name="i", devices=devices)
    for count in (1, 1000, 100_003):
        got = summed(jnp.full((1, count), rank + 1.0))
        shown = got.addressable_shards[0].data
        assert (shown == 3).all(), shown
    got = gathered(jnp.full((1, 100), rank + 1.0)).addressable_shards[0].data
    assert (got.reshape(2, 100) == jnp.array([[1.0], [2.0]])).all(), got
    jax.distributed.shutdown()


def jax_kill(rank, folder):
    jax, _, summed = jax_ready(rank, folder)
    jnp = jax.numpy
    data = jnp.ones((1, 100_000))
    for _ in range(3):
        summed(data).block_until_ready()

    def use():
        mine = jax.device_put(jnp.arange(1000), jax.local_devices()[0])
        assert int((mine * 2).sum()) == 999_000

    live_on(rank, lambda: summed(data).block_until_ready(), use)


def cupy_communicator(rank, folder):
    from cupy.cuda import nccl

    place = Path(folder, "id")
    if rank == 0:
        place.with_suffix(".new").write_text(repr(nccl.get_unique_id()))
        place.with_suffix(".new").rename(place)
    while not place.exists():
        time.sleep(0.01)
    return nccl.NcclCommunicator(RANKS, ast.literal_eval(place.read_text()), rank)


def cupy_calls(rank, folder):
    import cupy
    from cupy.cuda import nccl

    comm = cupy_communicator(rank, folder)
    stream = cupy.cuda.Stream(non_blocking=True)
    for count in (1, 1000, 100_003):
        data = cupy.full(count, rank + 1, dtype=cupy.float32)
        out = cupy.zeros(count, dtype=cupy.float32)
        cupy.cuda.Device().synchronize()
        comm.allReduce(data.data.ptr, out.data.ptr, count, nccl.NCCL_FLOAT32, nccl.NCCL_SUM,
                       stream.ptr)  # fmt: skip
        stream.synchronize()
        assert (out == 3).all(), out
    assert comm.check_async_error() is None
    comm.destroy()


def cupy_kill(rank, folder):
    import cupy
    from cupy.cuda import nccl

    comm = cupy_communicator(rank, folder)
    stream = cupy.cuda.Stream(non_blocking=True)
    data = cupy.ones(100_000, dtype=cupy.float32)
    at = data.data.ptr
    cupy.cuda.Device().synchronize()

    def call():
        comm.allReduce(at, at, len(data), nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
        while not stream.done:
            comm.check_async_error()
        comm.check_async_error()

    def use():
        comm.abort()
        stream.synchronize()
        with cupy.cuda.Stream(non_blocking=True) as fresh:
            doubled = cupy.ones(1000) * 2
            fresh.synchronize()
        assert (doubled == 2).all()

    for _ in range(3):
        call()
    live_on(rank, call, use)


CHAPTERS = {
    "torch_collectives": torch_collectives,
    "torch_graphs": torch_graphs,
    "torch_ddp": torch_ddp,
    "torch_fsdp": torch_fsdp,
    "torch_kill": torch_kill,
    "cupy_calls": cupy_calls,
    "cupy_kill": cupy_kill,
    "jax_psum": jax_psum,
    "jax_kill": jax_kill,
    "torch_compile": torch_compile,
}

# ---- the program that starts ranks


def free_port():
    import socket

    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def environment_of_rank(devices, folder, rank):
    """The variables in which ranks differ. A rank sees its GPU as its only one."""
    return {
        "CUDA_VISIBLE_DEVICES": str(rank % devices),
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "LOCAL_RANK": str(rank),
        "SYMM_NCCL_LOG": f"{folder}/log",
    }


def preloaded(library):
    """The variables of a program that gets the drop-in `library`, or the NCCL behind it alone if
    that is None. Multicast stays off.
    """
    made = {
        **os.environ,
        "NCCL_NVLS_ENABLE": "0",
        "NVSHMEM_DISABLE_NVLS": "1",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        "LD_PRELOAD": library or os.environ["SYMM_NCCL"],
        "PYTHONUNBUFFERED": "1",
    }
    if library:
        made.setdefault("SYMM_NCCL_MODE", "deterministic")
    return made


def environment(options):
    """The variables that all ranks get."""
    return {
        **preloaded(None if options.plain else options.library),
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_MAX_CTAS": "4",
        "TORCH_NCCL_BLOCKING_WAIT": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def judge_death(folder, pids, statuses):
    """Why the trial in `folder` is not as it should be, or None. No statuses: it did not end."""
    last = RANKS - 1
    if statuses is None:
        return "no end in time"
    if statuses[last] != -signal.SIGKILL:
        return f"the rank to be killed ended with {statuses[last]}"
    named = f"rank {last} (pid {pids[last]}) died"
    for rank in range(last):
        said = Path(folder, f"out.{rank}").read_text(errors="replace")
        # The exception's own line and those that follow it.
        if named not in said.partition("after ")[2]:
            return f"rank {rank}: '{named}' is not said by an exception"
        if "usable" not in said.splitlines():
            return f"rank {rank}: the GPU could not be used afterwards"
        if statuses[rank] != 0:
            return f"rank {rank} ended with {statuses[rank]}"
    return None


# ---- many deaths


def fork_rank(chapter, folder, rank, devices, trial):
    """The process id of a rank that begins where this process is."""
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        out = os.open(f"{folder}/out.{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ.update(environment_of_rank(devices, folder, rank), TRIAL=str(trial))
        CHAPTERS[chapter](rank, folder)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # a chapter that went well has ended the process


class Trial:
    """A group of forked ranks, one of which dies."""

    def __init__(self, options, chapter, folder, number):
        self.folder = Path(folder, str(number))
        self.folder.mkdir()
        Path(self.folder, "port").write_text(str(free_port()))
        self.deadline = time.monotonic() + options.limit
        self.statuses = [None] * RANKS
        self.pids = [
            fork_rank(chapter, self.folder, rank, options.devices, number) for rank in range(RANKS)
        ]

    def has_ended(self):
        """Whether all ranks have; those that are overdue are killed, and have no statuses."""
        for rank, pid in enumerate(self.pids):
            if self.statuses[rank] is None:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended == pid:
                    self.statuses[rank] = os.waitstatus_to_exitcode(status)
        if None not in self.statuses:
            return True
        if time.monotonic() < self.deadline:
            return False
        for pid, status in zip(self.pids, self.statuses, strict=True):
            if status is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self.statuses = None
        return True

    def result(self):
        """(why it is not as it should be, or None; seconds from the death to the exception)"""
        reason = judge_death(self.folder, self.pids, self.statuses)
        said = [Path(self.folder, f"out.{r}").read_text(errors="replace") for r in range(RANKS)]
        if reason:
            log = Path(self.folder, "log")
            tail = [text[-1500:] for text in said]
            return "\n".join([reason, *tail, log.read_text()[-800:] if log.exists() else ""]), None
        killed = re.findall(r"^killed ([\d.]+)$", said[-1], re.MULTILINE)
        after = re.findall(r"^after ([\d.]+)$", said[0], re.MULTILINE)
        return None, float(after[0]) - float(killed[0])


def run_trials(options, chapter, folder):
    """What a process that only forks does: all trials of a chapter, and a line for the result."""
    module = __import__(chapter.split("_")[0])
    if chapter == "torch_kill":
        __import__("torch.distributed")
    gc.freeze()  # a collection in a child would copy all of it
    running, seconds, reasons = [], [], []
    started = 0
    while running or (started < options.trials and len(reasons) < 3):
        # Three failures say enough; each may have lasted for the whole limit.
        to_do = options.trials if len(reasons) < 3 else started
        while started < to_do and len(running) < options.lanes:
            started += 1
            running.append(Trial(options, chapter, folder, started))
        for trial in [trial for trial in running if trial.has_ended()]:
            running.remove(trial)
            reason, took = trial.result()
            if reason:
                reasons.append(f"trial {trial.folder.name}: {reason}")
            else:
                seconds.append(took)
        time.sleep(0.005)
    print(
        f"{len(seconds)} of {started} trials of {module.__name__} {module.__version__} named"
        f" the dead rank and went on",
        end="",
    )
    if seconds:
        median, most = statistics.median(seconds) * 1e3, max(seconds) * 1e3
        print(f", the exception after {median:.1f} ms (median), {most:.1f} ms at most", end="")
    print()
    print(*reasons[:3], sep="\n", flush=True)
    return 1 if reasons else 0


def run_all_trials(options, chapter):
    """The reason of a failure, or None."""
    with tempfile.TemporaryDirectory() as folder:
        words = [options.library, "--forker", chapter, folder, "--trials", str(options.trials)]
        words += ["--lanes", str(options.lanes), "--limit", str(options.limit)]
        forker = subprocess.run(
            [sys.executable, __file__, *words, "--devices", str(options.devices)],
            env=environment(options),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if "ModuleNotFoundError" in forker.stdout:
        raise Skipped(forker.stdout.strip().split("\n")[-1])
    if forker.returncode == 0:
        print(forker.stdout.strip())
        return None
    return forker.stdout


# ---- one chapter


def run_chapter(options, chapter):
    """The reason of a failure, or None."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "port").write_text(str(free_port()))
        words = [sys.executable, __file__, "--rank", chapter, folder]
        begin = time.monotonic()
        ranks = []
        for rank in range(RANKS):
            with open(f"{folder}/out.{rank}", "wb") as out:
                ranks.append(
                    subprocess.Popen(
                        [*words, str(rank)],
                        env=environment(options)
                        | environment_of_rank(options.devices, folder, rank),
                        stdout=out,
                        stderr=subprocess.STDOUT,
                    )
                )
        try:
            statuses = [
                rank.wait(max(0.1, begin + options.limit - time.monotonic())) for rank in ranks
            ]
        except subprocess.TimeoutExpired:
            statuses = None
            for rank in ranks:
                rank.kill()
                rank.wait()
        said = [Path(folder, f"out.{r}").read_text(errors="replace") for r in range(RANKS)]
        log = Path(folder, "log").read_text() if Path(folder, "log").exists() else ""
        if options.verbose:
            print(*said, log, sep="\n----\n")

        tail = "\n".join(text[-2500:] for text in said) + "\n" + log[-800:]
        if any("SKIPPED: " in text for text in said):
            raise Skipped(said[0].split("SKIPPED: ")[-1].split("\n")[0])
        if chapter.endswith("_kill"):
            if options.plain:
                return None
            reason = judge_death(folder, [rank.pid for rank in ranks], statuses)
            return reason and f"{reason}\n{tail}"
        if statuses != [0] * RANKS:
            return f"status {statuses}\n{tail}"
        if not options.plain and "go to symm" not in log:
            return f"no collective goes to symm\n{log}"
    return None


def missing(options):
    """Why nothing can run here, or None. Counts the GPUs."""
    real = os.environ.get("SYMM_NCCL")
    if not real:
        return "SYMM_NCCL names no NCCL"
    version = ctypes.c_int()
    ctypes.CDLL(real).ncclGetVersion(ctypes.byref(version))
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True, text=True)
    except OSError:
        return "no nvidia-smi, so no GPU"
    options.devices = listed.stdout.count("GPU ")
    if options.devices == 0:
        return "nvidia-smi sees no GPU"
    if options.devices < RANKS and version.value < SHARED_SINCE:
        return f"ranks share a GPU from NCCL 2.30 on, and here is {version.value}"
    return None


def run_rank(chapter, folder, rank):
    try:
        __import__(chapter.split("_")[0])
    except ImportError as error:
        print(f"SKIPPED: {error}", flush=True)
        return
    CHAPTERS[chapter](rank, folder)


def main():
    if sys.argv[1:2] == ["--rank"]:
        return run_rank(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("chapters", nargs="*", default=[])
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=4)
    # Those of a process that forks ranks.
    parser.add_argument("--forker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--devices", type=int, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.trials < 1 or options.lanes < 1:
        parser.error("--trials and --lanes: must be 1 or more")
    if options.forker:
        return run_trials(options, *options.forker)
    options.library = os.path.realpath(options.library)
    why = missing(options)
    if why is not None:
        print(f"SKIPPED: {why}")
        return 77
    ran, failed = 0, 0
    for chapter in options.chapters or CHAPTERS:
        begin = time.monotonic()
        try:
            many = options.trials > 1 and chapter.endswith("_kill")
            reason = run_all_trials(options, chapter) if many else run_chapter(options, chapter)
            result = "ok" if reason is None else "FAILED"
        except Skipped as skipped:
            result, reason = "SKIPPED", str(skipped)
        ran += result != "SKIPPED"
        failed += result == "FAILED"
        print(f"{result} {chapter} {time.monotonic() - begin:.1f} s {reason or ''}", flush=True)
    if ran == 0:
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
