"""What a run is asked for; which sizes are measured, and how
often: the same on all ranks, since it follows from these alone.
"""

import argparse
from datetime import date

KIB, MIB = 1 << 10, 1 << 20

# of PyTorch's: every rank reads everything, so above this it only takes time
ONE_SHOT_LARGEST = 16 * MIB
TWO_SHOT_SMALLEST = 4 * KIB
# of FlashInfer's two-shot kernel and of vLLM's, whose users take them for small ones
PEER_LARGEST = 32 * MIB
ROW = 16 * KIB  # of a token; a shorter message is one of its own length
RMSNORM_LARGEST = 16 * MIB
OTHERS_SMALLEST = 4 * KIB
ROOT = 1  # of a broadcast and a reduction
COLLECTIVES = (
    "allreduce",
    "allgather",
    "reduce_scatter",
    "broadcast",
    "alltoall",
    "reduce",
    "rmsnorm",
    "barrier",
)
DTYPES = ("bf16", "f32")


def sizes(smallest, largest, step):
    """Bytes, each `step` times the one before; the largest is not added if it is not among them."""
    if smallest < 1 or step < 2:
        raise ValueError("sizes must be positive, and the step between them 2 or more")
    found = []
    while smallest <= largest:
        found.append(smallest)
        smallest *= step
    return found


def sizes_of(collective, options, world):
    """An all-gather moves whole elements of every rank, so its sizes start where there are some."""
    if collective == "barrier":
        return [0]
    if collective == "rmsnorm":
        return [
            row
            for row in sizes(ROW // 8, RMSNORM_LARGEST, options.step)
            if options.smallest <= row <= options.largest
        ]
    if collective == "allreduce":
        return sizes(options.smallest, options.largest, options.step)
    return [
        share_of(size, world) * world
        for size in sizes(
            max(options.smallest, OTHERS_SMALLEST), options.largest, options.step_others
        )
    ]


def share_of(size, world):
    """Bytes of one rank's part, a multiple of 16."""
    return size // world // 16 * 16


def calls_of(size):
    """Calls in a graph."""
    return 50 if size <= 64 * KIB else 20 if size <= 4 * MIB else 10 if size <= 64 * MIB else 4


def repeats_of(size, most):
    """Large messages vary less and take longer."""
    return (
        most
        if size <= 16 * MIB
        else max(3, most * 7 // 9)
        if size <= 128 * MIB
        else max(3, most * 5 // 9)
    )


def bus_factor(collective, world):
    """What passes over one rank's link, for each byte of the larger operand."""
    if collective in ("allreduce", "rmsnorm"):
        return 2 * (world - 1) / world
    return 1 if collective in ("broadcast", "reduce") else (world - 1) / world


def size(text):
    """Bytes, a whole number of packs of 16."""
    value = int(text)
    if value < 16 or value % 16:
        raise argparse.ArgumentTypeError(f"{text} is not a positive multiple of 16")
    return value


def parse(arguments, world):
    parser = argparse.ArgumentParser(description=__doc__, prog="run.py", allow_abbrev=False)
    parser.add_argument("--library", required=True, help="libsymm.so, built with kernels")
    parser.add_argument("--out", required=True, help="folder for NAME.json and NAME.md")
    parser.add_argument("--name", help="of the files; default: gpu-<ranks>-<date>")
    parser.add_argument(
        "--date", default=date.today().isoformat(), help="written down as that of the run"
    )
    parser.add_argument("--collectives", nargs="+", choices=COLLECTIVES, default=list(COLLECTIVES))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--smallest", type=size, default=256)
    parser.add_argument("--largest", type=size, default=1 << 30)
    parser.add_argument(
        "--step", type=int, default=2, help="factor between the sizes of all-reduce"
    )
    parser.add_argument(
        "--step-others", type=int, default=16, help="the same of the other collectives"
    )
    parser.add_argument(
        "--repeats", type=int, default=9, help="turns of each way; large sizes get fewer"
    )
    parser.add_argument(
        "--tune",
        action="append",
        default=[],
        metavar="SPEC",
        help="symm also with this SYMM_CUDA_TUNE",
    )
    parser.add_argument(
        "--nccl",
        action="append",
        default=[],
        metavar="[PATH][,NAME=VALUE]...",
        help="another libnccl.so too, or PyTorch's again, with these variables set for it alone",
    )
    parser.add_argument(
        "--kernels",
        metavar="PATH",
        help="what bench/gpu/peer_kernels built: FlashInfer's and vLLM's kernels",
    )
    options = parser.parse_args(arguments)
    if options.smallest > options.largest:
        parser.error("--smallest is above --largest")
    if min(options.step, options.step_others) < 2 or options.repeats < 3:
        parser.error("--step and --step-others are 2 or more, and --repeats 3 or more")
    options.name = options.name or f"gpu-{world}-{options.date}"
    return options


def plan(options, world):
    """(collective, dtype, size) of every row, in order. A barrier has no type."""
    return [
        (collective, dtype, size_)
        for collective in options.collectives
        for dtype in (options.dtypes if collective != "barrier" else options.dtypes[:1])
        for size_ in sizes_of(collective, options, world)
    ]
