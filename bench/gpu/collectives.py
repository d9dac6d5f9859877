# SPDX-License-Identifier: Apache-2.0
"""All-gather, reduce-scatter, broadcast and barrier of symm beside NCCL and PyTorch, in graphs, by turns. Sizes are those of the larger operand.

    torchrun --standalone --nproc-per-node 4 bench/gpu/collectives.py --library build/gpu/lib/libsymm.so [--json out.json]
"""
import argparse
import ctypes
import json
import os
import statistics

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symm

from allreduce import Symm, capture

BF16 = 0x0410


def median_times(graphs, calls, replays=9):
    times = {name: [] for name in graphs}
    for _ in range(replays):
        for name, graph in graphs.items():
            torch.cuda.synchronize()
            dist.barrier()
            graph.replay()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e3 / calls)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--largest", type=int, default=256 << 20)
    parser.add_argument("--json")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    dist.all_reduce(torch.ones(1, device="cuda"))
    gloo = dist.new_group(backend="gloo")
    symm = Symm(options.library, 2 * options.largest, "", "collectives", rank)
    whole, part = symm.block[:options.largest].view(torch.bfloat16), symm.block[options.largest:].view(torch.bfloat16)
    plain_whole = torch.zeros(options.largest // 2, dtype=torch.bfloat16, device="cuda")
    plain_part = torch.zeros(options.largest // 2, dtype=torch.bfloat16, device="cuda")
    barrier = torch_symm.rendezvous(torch_symm.empty(1024, device="cuda"), dist.group.WORLD.group_name)

    def call(name, *arguments):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        symm.check(getattr(symm.lib, name)(symm.group, *arguments, stream))

    def p(tensor):
        return ctypes.c_void_p(tensor.data_ptr())

    def n(count):
        return ctypes.c_size_t(count)

    rows = []

    def measure(title, size, functions, calls):
        graphs = {name: capture(function, calls) for name, function in functions.items()}
        mine = median_times(graphs, calls)
        everyone = [None] * world
        dist.all_gather_object(everyone, mine, group=gloo)
        row = {name: max(times[name] for times in everyone) for name in mine}
        rows.append({"collective": title, "bytes": size, **row})
        if rank == 0:
            peer = min(value for name, value in row.items() if name != "symm")
            print(f"| {title} | {size} | {row['symm']:.2f} | {peer:.2f} | {peer / row['symm']:.2f} |", flush=True)

    if rank == 0:
        print("| collective | bytes | symm | peer | peer / symm |", flush=True)
    measure("barrier", 0, {"symm": lambda: call("symm_barrier", None, n(0), ctypes.c_int32(0), ctypes.c_uint64(0)),
                           "torch": lambda: barrier.barrier(channel=0)}, 50)
    size = 4096
    while size <= options.largest:
        calls = 50 if size <= 1 << 16 else 20 if size <= 1 << 20 else 5 if size <= 1 << 24 else 2
        elements = size // 2
        share = elements // world
        a, b, c, d = whole[:elements], part[:share], plain_whole[:elements], plain_part[:share]
        a.fill_(1), b.fill_(rank + 1), c.fill_(1), d.fill_(rank + 1)
        torch.cuda.synchronize()
        dist.barrier()
        call("symm_allgather", p(b), p(a), n(share), ctypes.c_int32(BF16), None)
        dist.all_gather_into_tensor(c, d)
        torch.cuda.synchronize()
        assert torch.equal(a, c), "all-gather"
        a.fill_(rank + 1), c.fill_(rank + 1)
        torch.cuda.synchronize()
        dist.barrier()
        call("symm_reduce_scatter", p(a), p(b), n(share), ctypes.c_int32(BF16), ctypes.c_int32(0), None)
        dist.reduce_scatter_tensor(d, c)
        torch.cuda.synchronize()
        assert torch.equal(b, d), "reduce-scatter"
        dist.barrier()
        call("symm_broadcast", p(a), p(a), n(elements), ctypes.c_int32(BF16), ctypes.c_int32(1), None)
        torch.cuda.synchronize()
        assert bool((a == 2).all()), "broadcast"
        dist.barrier()
        measure("all-gather", size, {
            "symm": lambda: call("symm_allgather", p(b), p(a), n(share), ctypes.c_int32(BF16), None),
            "nccl": lambda: dist.all_gather_into_tensor(c, d)}, calls)
        measure("reduce-scatter", size, {
            "symm": lambda: call("symm_reduce_scatter", p(a), p(b), n(share), ctypes.c_int32(BF16), ctypes.c_int32(0), None),
            "nccl": lambda: dist.reduce_scatter_tensor(d, c)}, calls)
        measure("broadcast", size, {
            "symm": lambda: call("symm_broadcast", p(a), p(a), n(elements), ctypes.c_int32(BF16), ctypes.c_int32(1), None),
            "nccl": lambda: dist.broadcast(c, 1)}, calls)
        size *= 16
    if rank == 0 and options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"world": world, "device": torch.cuda.get_device_name(), "rows": rows}, file, indent=1)
    dist.barrier()
    torch.cuda.synchronize()
    os._exit(0)


if __name__ == "__main__":
    main()
