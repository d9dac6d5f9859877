#!/usr/bin/env python3
"""torch.distributed with symm beside gloo (on the CPU)
or NCCL (on GPUs): all-reduces in place, one table.

    python3 -m torch.distributed.run --standalone --nproc-per-node 2
    bench/process_groups.py [--device cuda]

The package symm must be importable. All back ends are process groups of the same ranks
and take turns in every round; of each call the slowest rank counts, of calls and rounds
the median. Blocking calls, with the wait for the device in them.
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
    """Seconds of each call on this rank."""
    times = []
    for _ in range(calls):
        dist.barrier(group)
        begin = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        if tensor.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return torch.tensor(times)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=PEERS, default="cpu")
    parser.add_argument("--dtype", default="float32", help="of torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=16 << 20, help="bytes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(
        options.device, int(os.environ["LOCAL_RANK"]) if options.device == "cuda" else None
    )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    peer = PEERS[device.type]
    groups = {
        "symm": dist.new_group(backend="cpu:symm,cuda:symm"),
        peer: dist.new_group(backend=peer),
    }
    dtype = getattr(torch, options.dtype)
    sizes = [size for exponent in range(3, 40) if (size := 1 << exponent) <= options.largest]
    medians = {}
    for size in sizes:
        tensor = torch.zeros(size // dtype.itemsize, dtype=dtype, device=device)
        calls = max(20, min(500, (8 << 20) // size))
        found = {name: [] for name in groups}
        for round_ in range(options.rounds):
            for name in turned(groups, round_):
                timed(groups[name], tensor, calls // 10)
                times = timed(groups[name], tensor, calls)
                dist.all_reduce(times, dist.ReduceOp.MAX)
                found[name].append(times.median().item())
        medians[size] = {name: statistics.median(of) * 1e6 for name, of in found.items()}
    if dist.get_rank() == 0:
        where = (
            torch.cuda.get_device_name()
            if device.type == "cuda"
            else f"{os.cpu_count()} processors"
        )
        print(
            f"{dist.get_world_size()} ranks, {where}, PyTorch {torch.__version__}, "
            f"{options.dtype}, {date.today()}; us\n"
        )
        rows = [
            [
                size_label(size),
                f"{of['symm']:.1f}",
                f"{of[peer]:.1f}",
                f"{of[peer] / of['symm']:.2f}",
            ]
            for size, of in medians.items()
        ]
        print(table(["size", "symm", peer, f"{peer} / symm"], rows, right=True))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
