"""Measure symm beside NCCL, PyTorch's symmetric memory, and kernels of FlashInfer and vLLM.

NCCL is measured on ordinary memory and on a registered window. All libraries take turns in one
run, in graphs. The program prints tables, and writes NAME.json and NAME.md.

    bench/gpu/peer_kernels <unpacked wheel of flashinfer> build/libpeers.so
    torchrun --standalone --nproc-per-node 4 bench/gpu/run.py \\
        --library build/gpu/lib/libsymm.so --out build/figures \\
        --kernels build/libpeers.so --nccl ,NCCL_SYM_CTAS=32 --nccl <another libnccl.so>

The package symm must be importable. NVLink multicast is off for all libraries, unless the
environment says otherwise.
"""

import gc
import os
import sys
import time

import report
import sizes

STARTED = time.monotonic()
for variable, value in (
    ("NCCL_NVLS_ENABLE", "0"),
    ("NVSHMEM_DISABLE_NVLS", "1"),
    ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"),
):
    os.environ.setdefault(variable, value)


class Run:
    """A run on one rank. Rank 0 prints and writes."""

    def __init__(self, options, rank, world):
        import torch
        import torch.distributed as dist

        os.environ["SYMM_LIB"] = options.library
        import measuring
        import ways

        self.options = options
        self.rank = rank
        self.world = world
        local = int(os.environ.get("LOCAL_RANK", rank))
        torch.cuda.set_device(local)
        dist.init_process_group("nccl", device_id=torch.device("cuda", local))
        torch.cuda.set_stream(torch.cuda.Stream())
        dist.all_reduce(torch.ones(1, device="cuda"))

        self.clock = measuring.Clock(dist.new_group(backend="gloo"))
        self.found = report.new_run(world, options.date, vars(options))
        self.ways = ways.Ways(options, local, rank, world, self.clock, self.say)
        self.found["unavailable"] = self.ways.unavailable
        if rank == 0:
            report.describe(self.found)
        self.say(f"{world} ranks are ready after {self.seconds():.1f} s")

    @staticmethod
    def seconds():
        return time.monotonic() - STARTED

    def say(self, text):
        """Print a message, which is not part of a table."""
        if self.rank == 0:
            print(text, file=sys.stderr, flush=True)

    def show(self, text):
        """Print a part of a table."""
        if self.rank == 0:
            print(text, flush=True)

    def keep(self):
        """Write the results so far."""
        self.found["seconds"] = round(self.seconds(), 1)
        if self.rank == 0:
            report.write(self.options.out, self.found)

    def checked(self, ways, what):
        """The ways whose result is right. The others are noted as errors."""
        wrong = self.clock.check(ways)
        for name, reason in wrong.items():
            self.found["errors"].append(f"{what}: {name}: {reason}")
            self.say(self.found["errors"][-1])
        return [way for way in ways if way.name not in wrong]

    def measure(self, collective, dtype, size):
        """A row of the results."""
        ways = self.ways.of(collective, size, dtype)
        right = self.checked(ways, f"{collective} {dtype} {size}")
        turns = sizes.repeats_of(size, self.options.repeats)
        measured = self.clock.measure(right, sizes.calls_of(size), turns)
        return {"collective": collective, "dtype": dtype, "bytes": size, **measured}

    def table(self):
        section = None
        for collective, dtype, size in sizes.plan(self.options, self.world):
            names = self.ways.columns(collective)
            row = self.measure(collective, dtype, size)
            if section != (collective, dtype):
                section = collective, dtype
                self.show(f"\n{report.title(row, self.world)}\n\n{report.header(names)}")
                gc.collect()
            self.show(report.line(row, names, self.world))
            self.found["rows"].append(row)
            self.keep()

    def finish(self):
        self.found["complete"] = True
        self.keep()
        if self.rank == 0:
            tables = os.path.join(self.options.out, self.options.name + ".md")
            with open(tables, "w", encoding="utf-8") as file:
                file.write(report.markdown(self.found))

        self.show(
            f"\n{self.world} ranks, {len(self.found['rows'])} rows, {self.found['seconds']} s: "
            f"{len(self.found['errors'])} errors"
        )
        self.clock.line_up()

        return 1 if self.found["errors"] else 0


def main():
    rank = int(os.environ.get("RANK", "0"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    options = sizes.parse(sys.argv[1:], world)
    if world < 2:
        raise SystemExit("run.py: two ranks or more, started by torchrun")

    gc.disable()  # or a collection would be in some of the times
    run = Run(options, rank, world)
    run.table()
    status = run.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # without the slow teardown of the communicators


if __name__ == "__main__":
    main()
