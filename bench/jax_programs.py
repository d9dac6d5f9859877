#!/usr/bin/env python3
"""Measure symm.jax beside JAX's own psum (gloo on the CPU, NCCL on GPUs).

The programs are all-reduces of f32 under jit, and the result is one table:

    symm run -n 2 python3 bench/jax_programs.py [--device cuda] 2>/dev/null

The package symm must be importable. A program has 16 all-reduces. Each one reduces the result
of the one before plus the rank's own operand, since a psum of equal operands needs no message.
Programs take turns in every round. The time of a program is that from the call to the result on
the slowest rank; its median over the rounds is divided by 16.
"""

import argparse
import time
from datetime import date

import jax
import numpy as np
from common import size_label, table, turned
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import symm
import symm.jax

CALLS = 16
ROUNDS = 20
WARM = 3  # rounds that are not counted


def chain(all_reduce, size):
    """A program of CALLS all-reduces that depend on each other."""

    def program(x):
        y = x
        for _ in range(CALLS):
            y = all_reduce(y) * (0.5 / size) + x
        return y

    return program


def compare(group, largest):
    """Rows of (bytes, microseconds of symm, microseconds of psum)."""
    devices = NamedSharding(Mesh(np.array(jax.devices()), "ranks"), PartitionSpec("ranks"))
    psum = chain(lambda x: jax.lax.psum(x, "ranks"), group.size)
    programs = {
        "symm": jax.jit(chain(lambda x: symm.jax.all_reduce(x, group), group.size)),
        "psum": jax.jit(
            jax.shard_map(psum, mesh=devices.mesh, in_specs=devices.spec, out_specs=devices.spec)
        ),
    }
    slowest = jax.jit(lambda x: symm.jax.all_reduce(x, group, op="max"))

    size = 1 << 10
    while size <= largest:
        own = jax.device_put(
            np.full((1, size // 4), group.rank + 1, np.float32), jax.local_devices()[0]
        )
        sharded = jax.make_array_from_single_device_arrays((group.size, size // 4), devices, [own])
        operands = {"symm": own, "psum": sharded}

        seconds = {name: [] for name in programs}
        results = {}
        for round_ in range(ROUNDS + WARM):
            for name in turned(programs, round_):
                slowest(own).block_until_ready()  # the ranks begin together
                begin = time.perf_counter()
                results[name] = jax.block_until_ready(programs[name](operands[name]))
                seconds[name].append(time.perf_counter() - begin)

        np.testing.assert_allclose(results["symm"], results["psum"].addressable_data(0), rtol=1e-5)
        own_times = np.array([times[WARM:] for times in seconds.values()], np.float32)
        times = np.asarray(slowest(own_times))
        yield size, *(np.median(times, axis=1) * 1e6 / CALLS)
        size *= 4


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--coordinator", default="127.0.0.1:29411", help="where JAX's ranks meet: a free port"
    )
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes")
    options = parser.parse_args()
    jax.config.update("jax_platforms", options.device)

    with symm.Group.from_env(backend="cuda" if options.device == "cuda" else "host") as group:
        own = [group.device] if options.device == "cuda" else None
        jax.distributed.initialize(
            options.coordinator, group.size, group.rank, own, cluster_detection_method="deactivate"
        )
        rows = list(compare(group, options.largest))
        if group.rank == 0:
            kind = jax.local_devices()[0].device_kind
            print(f"{group.size} ranks, {kind}, JAX {jax.__version__}, f32, {date.today()}; us\n")
            cells = [
                [size_label(size), f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.2f}"]
                for size, ours, theirs in rows
            ]
            print(table(["size", "symm.jax", "psum", "psum / symm.jax"], cells, right=True))


if __name__ == "__main__":
    main()
