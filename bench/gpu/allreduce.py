# SPDX-License-Identifier: Apache-2.0
"""All-reduce of symm beside NCCL, NCCL on a registered window, and PyTorch's symmetric memory, in one run and by turns.

    torchrun --standalone --nproc-per-node 4 bench/gpu/allreduce.py --library build/gpu/lib/libsymm.so [--json out.json]

Each way is captured into a CUDA graph of several calls. The graphs are replayed by turns; a time is the median of the replays, on the
slowest rank, of one call. Results are checked. --tune adds symm with other settings (SYMM_CUDA_TUNE) as further columns.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symm

DTYPES = {"bf16": (torch.bfloat16, 0x0410), "f32": (torch.float32, 0x0220)}


class Config(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int32), ("size", ctypes.c_int32), ("backend", ctypes.c_int32),
                ("device", ctypes.c_int32), ("flags", ctypes.c_uint64), ("bootstrap", ctypes.c_char_p), ("store", ctypes.c_void_p),
                ("create_timeout_ms", ctypes.c_uint64), ("timeout_ms", ctypes.c_uint64), ("name", ctypes.c_char_p)]


class Memory:
    """Device memory of another library, for torch."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3}


class Symm:
    def __init__(self, path, size, tune, name, device):
        self.lib = ctypes.CDLL(path)
        self.lib.symm_last_error.restype = ctypes.c_char_p
        if tune:
            os.environ["SYMM_CUDA_TUNE"] = tune
        else:
            os.environ.pop("SYMM_CUDA_TUNE", None)
        self.group = ctypes.c_void_p()
        config = Config(ctypes.sizeof(Config), 0, 0, 2, device, 0, None, None, 60000, 10000, name.encode())
        self.check(self.lib.symm_group_create(ctypes.byref(config), ctypes.byref(self.group)))
        buffer, self.memory, pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.symm_alloc(self.group, ctypes.c_size_t(size), ctypes.c_uint64(0), ctypes.byref(buffer)))
        self.check(self.lib.symm_rendezvous(self.group, buffer, ctypes.c_uint64(0), ctypes.byref(self.memory)))
        self.check(self.lib.symm_buffer_pointer(buffer, ctypes.byref(pointer)))
        self.block = torch.as_tensor(Memory(pointer.value, size), device="cuda")

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.symm_last_error().decode())

    def all_reduce(self, tensor, code):
        stream = torch.cuda.current_stream().cuda_stream
        self.check(self.lib.symm_allreduce(self.group, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_void_p(tensor.data_ptr()),
                                           ctypes.c_size_t(tensor.numel()), ctypes.c_int32(code), ctypes.c_int32(0), None,
                                           ctypes.c_void_p(stream)))


def capture(function, calls):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            function()
    side.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
        for _ in range(calls):
            function()
    torch.cuda.synchronize()
    dist.barrier()
    return graph


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--dtype", default="bf16", choices=DTYPES)
    parser.add_argument("--smallest", type=int, default=1024)
    parser.add_argument("--largest", type=int, default=256 << 20)
    parser.add_argument("--step", type=int, default=2, help="factor between sizes")
    parser.add_argument("--replays", type=int, default=9)
    parser.add_argument("--tune", action="append", default=[])
    parser.add_argument("--json")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    dtype, code = DTYPES[options.dtype]
    group = dist.group.WORLD
    dist.all_reduce(torch.ones(1, device="cuda"))
    gloo = dist.new_group(backend="gloo")

    ways = {}
    for number, tune in enumerate([""] + options.tune):
        ways["symm" + (" " + tune if tune else "")] = Symm(options.library, options.largest, tune, f"bench{number}", rank)
    plain = torch.empty(options.largest, dtype=torch.uint8, device="cuda")
    window = None
    try:
        backend = group._get_backend(torch.device("cuda"))
        pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(pool):
            window = torch.empty(options.largest, dtype=torch.uint8, device="cuda")
        backend.register_mem_pool(pool, symm=True)
    except Exception as error:  # an older PyTorch: say so and go on without this column
        if rank == 0:
            print(f"no registered window: {error}", file=sys.stderr)
        window = None
    symmetric = torch_symm.empty(options.largest, dtype=torch.uint8, device="cuda")
    torch_symm.rendezvous(symmetric, group.group_name)

    results = []
    size = options.smallest
    while size <= options.largest:
        calls = 50 if size <= 1 << 16 else 20 if size <= 1 << 20 else 5 if size <= 1 << 24 else 2
        run = {}

        def view(block, bytes_=size):
            return block[:bytes_].view(dtype)

        for name, symm in ways.items():
            run[name] = (view(symm.block), lambda s=symm, t=view(symm.block): s.all_reduce(t, code))
        run["nccl"] = (view(plain), lambda t=view(plain): dist.all_reduce(t))
        if window is not None:
            run["nccl window"] = (view(window), lambda t=view(window): dist.all_reduce(t))
        tensor = view(symmetric)
        if size >= 4096:
            run["torch two-shot"] = (tensor, lambda t=tensor: torch.ops.symm_mem.two_shot_all_reduce_(t, "sum", group.group_name))
        if size <= 16 << 20:
            out = torch.empty_like(tensor)
            run["torch one-shot"] = (out, lambda t=tensor, o=out: torch.ops.symm_mem.one_shot_all_reduce_out(t, "sum", group.group_name, o))

        row = {"bytes": size}
        graphs = {}
        for name, (result, function) in run.items():
            try:
                operand = tensor if name == "torch one-shot" else result
                operand.copy_((torch.arange(result.numel(), device="cuda") % 5 + rank).to(dtype))
                torch.cuda.synchronize()
                dist.barrier()
                function()
                torch.cuda.synchronize()
                want = ((torch.arange(result.numel(), device="cuda") % 5) * world + world * (world - 1) // 2).to(dtype)
                if not torch.equal(result, want):
                    raise RuntimeError("wrong result")
                operand.zero_()
                graphs[name] = capture(function, calls)
            except Exception as error:
                print(f"rank {rank}: {name} at {size}: {error}", file=sys.stderr)
                raise
        times = {name: [] for name in graphs}
        for _ in range(options.replays):
            for name, graph in graphs.items():
                torch.cuda.synchronize()
                dist.barrier()
                graph.replay()  # lines the ranks up
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                graph.replay()
                end.record()
                end.synchronize()
                times[name].append(begin.elapsed_time(end) * 1e3 / calls)
        mine = {name: statistics.median(values) for name, values in times.items()}
        everyone = [None] * world
        dist.all_gather_object(everyone, mine, group=gloo)
        row.update({name: max(rank_times[name] for rank_times in everyone) for name in mine})
        results.append(row)
        del graphs
        if rank == 0:
            if len(results) == 1:
                names = list(ways) + ["nccl", "nccl window", "torch one-shot", "torch two-shot"]
                print("| bytes | " + " | ".join(names) + " | best peer / symm |", flush=True)
            peers = [value for name, value in row.items() if name != "bytes" and not name.startswith("symm")]
            print(f"| {size} | " + " | ".join(f"{row[name]:.2f}" if name in row else "-" for name in names) +
                  f" | {min(peers) / row['symm']:.2f} |", flush=True)
        size *= options.step
    if rank == 0 and options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"world": world, "dtype": options.dtype, "device": torch.cuda.get_device_name(), "rows": results}, file, indent=1)
    dist.barrier()
    torch.cuda.synchronize()
    os._exit(0)  # the communicators' own teardown is not what is measured


if __name__ == "__main__":
    main()
