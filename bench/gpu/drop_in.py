"""Measure PyTorch and JAX with NCCL alone and with the drop-in in its place, by turns.

    SYMM_NCCL=<libnccl.so.2> python3 bench/gpu/drop_in.py <libsymm_nccl.so> --ranks 2 \\
        --ways all_reduce,functional,psum --out build/drop_in

Both worlds, each of a process for each rank, are there during the whole run, and measure only when
it is their turn. A row is a way, a mode and a size: the median over the turns of the slowest rank,
in microseconds of one call, and NCCL's time over the drop-in's. "eager" calls are made one after
another, with PyTorch on its current stream, which is the legacy one; "side" calls likewise on
another stream; a "graph" has several of them and is replayed. Ranks share GPUs where there are too
few, which NCCL allows from 2.30 on; such figures show that it runs, and nothing about links.

Beside each time stands that of the host alone, until the calls are issued: where it is nearly as
long as the whole, the host is what the calls wait for. Processes of one program differ, too, in
where they run and in what their memory looks like. With --pin, a rank has the same share of the
processors in both worlds. With --same-process, the ranks that have the drop-in have a second
communicator, which it passes on to NCCL, and a third column measures that one: what differs between
the second and the third column is symm's doing, and what differs between the first and the third is
not.

The program prints a table, and writes NAME.json and NAME.md. A way that fails or does not end is
noted, and the status is then 1.
"""

import argparse
import json
import os
import queue
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from sizes import sizes

WAYS = {"all_reduce": "torch", "functional": "torch", "psum": "jax"}
MODES = ("eager", "side", "graph")

# ---- what a rank does


def calls_of(size):
    """So many calls make a graph, or are made eagerly between two looks at the clock."""
    return 20 if size <= 1 << 22 else 5 if size <= 1 << 28 else 2


class Torch:
    def __init__(self, rank, world, folder):
        import torch
        import torch.distributed as dist

        self.torch = torch
        torch.cuda.set_device(0)
        dist.init_process_group(
            "nccl",
            init_method=f"file://{folder}/torch",
            rank=rank,
            world_size=world,
            device_id=torch.device("cuda", 0),
        )
        self.dist = dist
        self.rank = rank
        self.world = world
        self.side = torch.cuda.Stream()
        self.groups = {"first": dist.group.WORLD}
        # By group: what is measured, and what it needs.
        self.runs = {}

    def group(self, name):
        """The drop-in takes the communicator that has the first collective, and no other."""
        if name not in self.groups:
            self.dist.barrier()
            self.groups[name] = self.dist.new_group()
        return self.groups[name]

    def prepare(self, way, mode, size, group):
        """Makes what is measured, and checks it once."""
        torch, dist = self.torch, self.dist
        from torch.distributed import _functional_collectives as functional

        self.runs.pop(group, None)
        members = self.group(group)
        data = torch.full((size // 2,), self.rank + 1, dtype=torch.bfloat16, device="cuda")

        def all_reduce():
            dist.all_reduce(data, group=members)

        def functional_all_reduce():
            summed = functional.all_reduce(data, "sum", members)
            return functional.wait_tensor(summed)

        made = functional_all_reduce() if way == "functional" else (all_reduce(), data)[1]
        want = self.world * (self.world + 1) // 2
        assert bool((made == want).all()), f"{made.flatten()[:4]}, not {want}"
        data.zero_()
        call = functional_all_reduce if way == "functional" else all_reduce
        calls = calls_of(size)

        def many():
            for _ in range(calls):
                call()

        def many_aside():
            with torch.cuda.stream(self.side):
                many()

        call()
        torch.cuda.synchronize()
        run = many_aside if mode == "side" else many
        if mode == "graph":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                many()
            run = graph.replay
        self.runs[group] = run
        run()
        torch.cuda.synchronize()

    def measure(self, size, group):
        """Microseconds of one call, and those until it is issued."""
        run = self.runs[group]
        self.dist.barrier(group=self.groups[group])
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        issued = time.perf_counter()
        self.torch.cuda.synchronize()
        return [(end - begin) * 1e6 / calls_of(size) for end in (time.perf_counter(), issued)]


class Jax:
    def __init__(self, rank, world, folder):
        import jax

        address = "127.0.0.1:" + Path(folder, "port").read_text()
        jax.distributed.initialize(address, world, rank, local_device_ids=[0])
        self.jax = jax
        self.rank = rank
        self.world = world
        assert jax.device_count() == world, jax.devices()

    def prepare(self, way, mode, size, group):
        """XLA makes a graph of calls that follow each other in one program."""
        jax = self.jax
        calls = calls_of(size) if mode == "graph" else 1

        def step(x):
            for _ in range(calls):
                x = jax.lax.psum(x, "ranks")
            return x

        one = jax.pmap(lambda x: jax.lax.psum(x, "ranks"), axis_name="ranks")
        many = jax.pmap(step, axis_name="ranks")
        full = jax.numpy.full((1, size // 2), self.rank + 1, dtype=jax.numpy.bfloat16)
        shown = one(full).addressable_shards[0].data
        want = self.world * (self.world + 1) // 2
        assert bool((shown == want).all()), f"{shown.flatten()[:4]}, not {want}"
        data = many(jax.numpy.zeros((1, size // 2), dtype=jax.numpy.bfloat16))
        data.block_until_ready()
        repeats = calls_of(size) if mode == "eager" else 1

        def run():
            made = data
            for _ in range(repeats):
                made = many(made)
            return made

        run().block_until_ready()
        self.run = run

    def measure(self, size, group):
        begin = time.perf_counter()
        made = self.run()
        issued = time.perf_counter()
        made.block_until_ready()
        return [(end - begin) * 1e6 / calls_of(size) for end in (time.perf_counter(), issued)]


def serve(framework, folder):
    """A rank, which answers each line of its input with a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    try:
        made = {"torch": Torch, "jax": Jax}[framework](rank, world, folder)
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for line in sys.stdin:
            words = json.loads(line)
            if words["do"] == "prepare":
                made.prepare(words["way"], words["mode"], words["bytes"], words["group"])
                answer = {}
            else:
                answer = {"us": made.measure(words["bytes"], words["group"])}
            print(json.dumps(answer), file=answers, flush=True)
    except Exception as error:  # any library's; the other rows are still measured
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
    answers.flush()
    os._exit(0)  # without the slow teardown of the communicators


# ---- worlds


class World:
    """The ranks of a framework, with NCCL alone or with the drop-in."""

    def __init__(self, options, framework, library):
        self.limit = options.limit
        self.folder = tempfile.TemporaryDirectory()
        folder = self.folder.name
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
            Path(folder, "port").write_text(str(any_port.getsockname()[1]))
        self.ranks = []
        for rank in range(options.ranks):
            environment = {
                **os.environ,
                "CUDA_VISIBLE_DEVICES": str(rank % options.devices),
                "RANK": str(rank),
                "WORLD_SIZE": str(options.ranks),
                "LD_PRELOAD": library,
                "SYMM_NCCL_LOG": f"{folder}/log",
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "XLA_FLAGS": "--xla_gpu_enable_command_buffer=+COLLECTIVES "
                "--xla_gpu_graph_min_graph_size=1",
            }
            if options.ranks > options.devices:
                environment.update(NCCL_MULTI_RANK_GPU_ENABLE="1", NCCL_MAX_CTAS="4")
            self.ranks.append(
                subprocess.Popen(
                    [sys.executable, __file__, "--serve", framework, folder],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL if not options.verbose else None,
                    text=True,
                )
            )
            if options.pin:
                all_cpus = sorted(os.sched_getaffinity(0))
                share = max(1, len(all_cpus) // options.ranks)
                own = all_cpus[rank * share : (rank + 1) * share]
                os.sched_setaffinity(self.ranks[-1].pid, own or all_cpus)
        self.lines = [queue.Queue() for _ in self.ranks]
        for process, lines in zip(self.ranks, self.lines, strict=True):
            threading.Thread(target=self.read, args=(process, lines), daemon=True).start()
        self.answers()

    @staticmethod
    def read(process, lines):
        for line in process.stdout:
            lines.put(json.loads(line))
        lines.put({"error": "the process has ended"})

    def answers(self):
        """One of each rank, in time."""
        end = time.monotonic() + self.limit
        answers = []
        for lines in self.lines:
            try:
                answers.append(lines.get(timeout=max(0.1, end - time.monotonic())))
            except queue.Empty:
                raise RuntimeError(f"no answer within {self.limit} s") from None
        for answer in answers:
            if "error" in answer:
                raise RuntimeError(answer["error"])
        return answers

    def ask(self, **words):
        for process in self.ranks:
            print(json.dumps(words), file=process.stdin, flush=True)
        return self.answers()

    def log(self):
        place = Path(self.folder.name, "log")
        return place.read_text() if place.exists() else ""

    def end(self):
        for process in self.ranks:
            process.kill()
            process.wait()
        self.folder.cleanup()


# ---- rows


def text_of(size):
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


# The columns: the world, and the group of its ranks.
COLUMNS = {"nccl": ("nccl", "first"), "drop_in": ("drop_in", "first")}
PASSED_ON = {"passed_on": ("drop_in", "second")}


def measure(worlds, columns, options, way, mode, size):
    """The medians of the slowest ranks in microseconds, by column, and those of the host alone."""
    for world, group in columns.values():
        worlds[world].ask(do="prepare", way=way, mode=mode, bytes=size, group=group)
    times = {name: [] for name in columns}
    names = list(columns)
    for turn in range(options.turns):
        for name in names if turn % 2 == 0 else reversed(names):
            world, group = columns[name]
            answers = worlds[world].ask(do="measure", bytes=size, group=group)
            of_ranks = zip(*(answer["us"] for answer in answers), strict=True)
            times[name].append([max(one) for one in of_ranks])
    us = {}
    for name, turns in times.items():
        whole, issue = zip(*turns, strict=True)
        us[name], us[name + "_issue"] = statistics.median(whole), statistics.median(issue)
    return us


def line_of(us, columns):
    """Each column's time, and in brackets the host's part; then NCCL's over the drop-in's."""
    cells = [f"{us[name]:9.2f} ({us[name + '_issue']:.2f})" for name in columns]
    return "  ".join([*cells, f"{us['nccl'] / us['drop_in']:.2f}"])


def run(options):
    real = os.path.realpath(os.environ["SYMM_NCCL"])
    libraries = {"nccl": real, "drop_in": os.path.realpath(options.library)}
    wanted = sizes(options.smallest, options.largest, options.factor)
    rows, errors = [], []
    for framework in dict.fromkeys(WAYS[way] for way in options.ways):
        worlds = {}
        columns = COLUMNS
        if options.same_process and framework == "torch":
            columns = {**COLUMNS, **PASSED_ON}
        try:
            for name, library in libraries.items():
                worlds[name] = World(options, framework, library)
            for way in options.ways:
                if WAYS[way] != framework:
                    continue
                for mode in options.modes:
                    if mode == "side" and framework != "torch":
                        continue
                    names = ", ".join([*columns, "NCCL / drop-in"])
                    print(f"\n{way}, {mode}, us (the host alone): {names}")
                    for size in wanted:
                        us = measure(worlds, columns, options, way, mode, size)
                        rows.append({"way": way, "mode": mode, "bytes": size, **us})
                        print(f"{text_of(size):>8} {line_of(us, columns)}", flush=True)
            taken = worlds["drop_in"].log().count(" go to symm")
            if taken == 0:
                errors.append(f"{framework}: no collective went to symm")
            if PASSED_ON.keys() <= columns.keys() and taken > options.ranks:
                errors.append(f"{framework}: what is to be passed on went to symm")
        except (RuntimeError, OSError) as error:
            errors.append(f"{framework}: {error}")
        finally:
            for world in worlds.values():
                world.end()
    for error in errors:
        print(error, file=sys.stderr)
    return rows, errors


def write(options, rows, errors):
    found = {"ranks": options.ranks, "devices": options.devices, "rows": rows, "errors": errors}
    Path(options.out + ".json").write_text(json.dumps(found, indent=1) + "\n")
    lines = [
        "Microseconds, and in brackets until the calls are issued.",
        "",
        "| way | mode | size | NCCL | with the drop-in | passed on | NCCL / drop-in |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [row["way"], row["mode"], text_of(row["bytes"])]
        for name in (*COLUMNS, *PASSED_ON):
            cells.append(f"{row[name]:.2f} ({row[name + '_issue']:.2f})" if name in row else "-")
        lines.append(f"| {' | '.join(cells)} | {row['nccl'] / row['drop_in']:.2f} |")
    Path(options.out + ".md").write_text("\n".join(lines) + "\n")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = lambda text: text.split(",")
    parser.add_argument("library", help="libsymm_nccl.so")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--ways", type=words, default=list(WAYS))
    parser.add_argument("--modes", type=words, default=["eager", "graph"])
    parser.add_argument("--pin", action="store_true", help="a share of the processors each")
    parser.add_argument("--same-process", action="store_true", help="a third column: see above")
    parser.add_argument("--smallest", type=int, default=256)
    parser.add_argument("--largest", type=int, default=1 << 30)
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one answer")
    parser.add_argument("--out", help="NAME of NAME.json and NAME.md")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    unknown = [way for way in options.ways if way not in WAYS]
    unknown += [mode for mode in options.modes if mode not in MODES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if "SYMM_NCCL" not in os.environ:
        parser.error("SYMM_NCCL must name the NCCL that is compared")
    listed = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True)
    options.devices = listed.stdout.count("GPU ")
    return options


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:4])
    # NVLink multicast is off for all libraries, unless the environment says otherwise.
    for name, value in (
        ("NCCL_NVLS_ENABLE", "0"),
        ("NVSHMEM_DISABLE_NVLS", "1"),
        ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"),
    ):
        os.environ.setdefault(name, value)
    options = parse()
    rows, errors = run(options)
    if options.out:
        write(options, rows, errors)
    return 1 if errors or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
