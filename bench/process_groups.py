#!/usr/bin/env python3
"""Measure torch.distributed with symm beside gloo (on the CPU) or NCCL (on GPUs).

The program measures all-reduces in place, and prints one table:

    python3 -m torch.distributed.run --standalone --nproc-per-node 2
        bench/process_groups.py [--device cuda]

The package symm must be importable. The back ends are process groups of the same ranks, which
take turns in every round. The time of a call is that of the slowest rank; the table has medians
of calls and rounds. Calls are blocking, and include the wait for the device.
"""

import argparse
import os
import statistics
import time
from datetime import date

import torch
import torch.distributed as dist
from common import size_label, table, turned

import symm.torch  # noqa: F401 - registers the back end

PEERS = {"cpu": "gloo", "cuda": "nccl"}


def timed(group, tensor, calls):
    """The seconds that each call takes on this rank."""
    times = []
    for _ in range(calls):
        dist.barrier(group)
        begin = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        if tensor.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return torch.tensor(times)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=PEERS, default="cpu")
    parser.add_argument("--dtype", default="float32", help="PyTorch's name of the type")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=16 << 20, help="bytes")
    return parser.parse_args()


def begin(options):
    """Form the default process group; returns the device of this rank."""
    torch.set_num_threads(1)
    if options.device == "cpu":
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl")
    return device


def measure(groups, tensor, rounds):
    """{name of the group: microseconds of an all-reduce}, by turns."""
    calls = max(20, min(500, (8 << 20) // tensor.nbytes))
    medians = {name: [] for name in groups}
    for round_ in range(rounds):
        for name in turned(groups, round_):
            timed(groups[name], tensor, calls // 10)
            times = timed(groups[name], tensor, calls)
            dist.all_reduce(times, dist.ReduceOp.MAX)
            medians[name].append(times.median().item())
    return {name: statistics.median(times) * 1e6 for name, times in medians.items()}


def report(options, device, peer, times):
    """Print the table of {bytes: {name: microseconds}}."""
    where = f"{os.cpu_count()} processors"
    if device.type == "cuda":
        where = torch.cuda.get_device_name()

    print(
        f"{dist.get_world_size()} ranks, {where}, PyTorch {torch.__version__}, {options.dtype}, "
        f"{date.today()}; us\n"
    )
    rows = []

    for size, us in times.items():
        ratio = us[peer] / us["symm"]
        rows.append([size_label(size), f"{us['symm']:.1f}", f"{us[peer]:.1f}", f"{ratio:.2f}"])

    print(table(["size", "symm", peer, f"{peer} / symm"], rows, right=True))


def main():
    options = parse()
    device = begin(options)
    peer = PEERS[device.type]
    groups = {
        "symm": dist.new_group(backend="cpu:symm,cuda:symm"),
        peer: dist.new_group(backend=peer),
    }

    dtype = getattr(torch, options.dtype)
    times = {}
    size = 8
    while size <= options.largest:
        tensor = torch.zeros(size // dtype.itemsize, dtype=dtype, device=device)
        times[size] = measure(groups, tensor, options.rounds)
        size *= 2

    if dist.get_rank() == 0:
        report(options, device, peer, times)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
