"""All-reduces of f32 by GPUs of one host as machines of a rank each: symm over NCCL beside
NCCL, by sockets over loopback. Medians of 9 turns, NCCL's time over symm's.
SYMM_LIB=<libsymm.so> python3 bench/gpu/machines.py [eager|graph]
"""

import os
import statistics
import sys
import tempfile

import torch
import torch.distributed as dist


def in_graph(way):
    way()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        way()
    return graph.replay


def microseconds(way):
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    way()
    ends[0].record()
    for _ in range(5):
        way()
    ends[1].record()
    ends[1].synchronize()
    return ends[0].elapsed_time(ends[1]) * 200


def rank_of(rank, size, folder, mode):
    sockets = {f"NCCL_{other}_DISABLE": "1" for other in ("P2P", "SHM", "IB")} | {
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_NVLS_ENABLE": "0",
    }
    os.environ.update(
        sockets, CUDA_VISIBLE_DEVICES=str(rank), NCCL_HOSTID=f"m{rank}", SYMM_MACHINE=f"m{rank}"
    )
    import symm

    dist.init_process_group(
        "nccl", init_method=f"file://{folder}.torch", rank=rank, world_size=size
    )
    made = [
        symm.Group.join(
            rank, size, "dir://" + folder, name=name, any_order=name == "any order", backend="cuda"
        )
        for name in ("rank order", "any order")
    ]
    for kilobytes in (1, 16, 64, 256, 1024, 4096, 16384, 65536):
        data = torch.zeros(kilobytes * 256, device="cuda")
        ways = [
            lambda data=data: dist.all_reduce(data),
            *(lambda of=of, data=data: of.allreduce(data, data) for of in made),
        ]
        if mode == "graph":
            ways = [in_graph(way) for way in ways]
        turns = [[microseconds(way) for way in ways] for _ in range(11)][2:]
        nccl, *ours = map(statistics.median, zip(*turns))
        if rank == 0:
            print(
                f"{kilobytes:>6} KB  NCCL {nccl:9.1f} us  symm, in rank order and any:",
                *(f"{us:9.1f} ({nccl / us:.2f})" for us in ours),
            )
    for group in made:
        group.finalize()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, mode = torch.cuda.device_count(), sys.argv[1] if len(sys.argv) > 1 else "eager"
    torch.multiprocessing.spawn(rank_of, (ranks, tempfile.mkdtemp(), mode), ranks)
