"""Measure all-reduces of f32 between pretended machines, each of which has one GPU of this host.

SYMM_LIB=<libsymm.so> python3 bench/gpu/machines.py [eager|graph]

The program compares symm over NCCL with NCCL, both by sockets over loopback. It prints medians
of 9 turns, and NCCL's time over symm's.
"""

import os
import statistics
import sys
import tempfile

import torch
import torch.distributed as dist


def in_graph(way):
    """The replay of a graph of one call."""
    way()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        way()
    return graph.replay


CALLS = 5


def microseconds(way):
    """The time of a call, by events around CALLS calls."""
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    way()
    begin.record()
    for _ in range(CALLS):
        way()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / CALLS


def compare(in_rank_order, in_any_order, kilobytes, mode):
    """The medians of NCCL and of both groups of symm, in microseconds."""
    data = torch.zeros(kilobytes * 256, device="cuda")
    ways = [
        lambda: dist.all_reduce(data),
        lambda: in_rank_order.allreduce(data, data),
        lambda: in_any_order.allreduce(data, data),
    ]
    if mode == "graph":
        ways = [in_graph(way) for way in ways]
    turns = [[microseconds(way) for way in ways] for _ in range(11)]
    return [statistics.median(times) for times in zip(*turns[2:], strict=True)]


def run_rank(rank, size, folder, mode):
    os.environ.update(
        # The transports of NCCL that would see that the machines are one.
        NCCL_P2P_DISABLE="1",
        NCCL_SHM_DISABLE="1",
        NCCL_IB_DISABLE="1",
        NCCL_NVLS_ENABLE="0",
        NCCL_SOCKET_IFNAME="lo",
        NCCL_HOSTID=f"m{rank}",
        SYMM_MACHINE=f"m{rank}",
        CUDA_VISIBLE_DEVICES=str(rank),
    )
    import symm

    dist.init_process_group(
        "nccl", init_method=f"file://{folder}.torch", rank=rank, world_size=size
    )
    in_rank_order = symm.Group.join(
        rank, size, f"dir://{folder}", name="rank order", backend="cuda"
    )
    in_any_order = symm.Group.join(
        rank, size, f"dir://{folder}", name="any order", any_order=True, backend="cuda"
    )

    for kilobytes in (1, 16, 64, 256, 1024, 4096, 16384, 65536):
        # No graph outlives its size: NCCL destroys no communicator that a graph still uses.
        nccl, *symm_times = compare(in_rank_order, in_any_order, kilobytes, mode)
        if rank == 0:
            print(
                f"{kilobytes:>6} KB  NCCL {nccl:9.1f} us  symm, in rank order and any:",
                *(f"{us:9.1f} ({nccl / us:.2f})" for us in symm_times),
            )

    in_rank_order.finalize()
    in_any_order.finalize()
    dist.destroy_process_group()


def main():
    ranks = torch.cuda.device_count()
    mode = sys.argv[1] if len(sys.argv) > 1 else "eager"
    torch.multiprocessing.spawn(run_rank, (ranks, tempfile.mkdtemp(), mode), ranks)


if __name__ == "__main__":
    main()
