"""The options of a run, and the sizes that it measures, with how many calls and turns.

All of these follow from the options and the number of ranks, so they are the same on all ranks.
"""

import argparse
from datetime import date

KIB = 1 << 10
MIB = 1 << 20

# PyTorch's one shot reads the operands of all ranks on every rank, so larger ones only take time.
ONE_SHOT_LARGEST = 16 * MIB
TWO_SHOT_SMALLEST = 4 * KIB
# Users of FlashInfer's two-shot kernel and of vLLM's use them for small messages.
PEER_LARGEST = 32 * MIB
# The bytes of a token. A shorter message is one shorter token.
ROW = 16 * KIB
RMSNORM_LARGEST = 16 * MIB
# The smallest size of collectives other than all-reduce.
OTHERS_SMALLEST = 4 * KIB
# The root of broadcast and reduce.
ROOT = 1
COLLECTIVES = (
    "allreduce",
    "allgather",
    "reduce_scatter",
    "broadcast",
    "alltoall",
    "reduce",
    "rmsnorm",
    "barrier",
    "ring",
)
# What moves bytes of any type, and is measured with one.
UNTYPED = ("barrier", "ring")
DTYPES = ("bf16", "f32")


def sizes(smallest, largest, step):
    """The sizes from `smallest` to at most `largest`, each `step` times the one before."""
    if smallest < 1 or step < 2:
        raise ValueError("sizes must be positive, and the step between them 2 or more")
    found = []
    size = smallest
    while size <= largest:
        found.append(size)
        size *= step
    return found


def sizes_of(collective, options, world):
    """The sizes at which a collective is measured.

    Collectives other than all-reduce need sizes that the ranks can divide.
    """
    if collective == "barrier":
        return [0]
    if collective == "rmsnorm":
        rows = sizes(ROW // 8, RMSNORM_LARGEST, options.step)
        return [row for row in rows if options.smallest <= row <= options.largest]
    if collective == "allreduce":
        return sizes(options.smallest, options.largest, options.step)
    if collective == "ring":
        return sizes(options.smallest, options.largest, options.step_others)
    smallest = max(options.smallest, OTHERS_SMALLEST)
    wanted = sizes(smallest, options.largest, options.step_others)
    return [share_of(size, world) * world for size in wanted]


def share_of(size, world):
    """The bytes of one rank's part, a multiple of 16."""
    return size // world // 16 * 16


def calls_of(size):
    """The number of calls in a graph."""
    if size <= 64 * KIB:
        return 50
    if size <= 4 * MIB:
        return 20
    return 10 if size <= 64 * MIB else 4


def repeats_of(size, most):
    """The number of turns. Large messages get fewer, since they vary less and take longer."""
    if size <= 16 * MIB:
        return most
    ninths = 7 if size <= 128 * MIB else 5
    return max(3, most * ninths // 9)


def bus_factor(collective, world):
    """The bytes that pass over one rank's link for each byte of the larger operand."""
    if collective in ("allreduce", "rmsnorm"):
        return 2 * (world - 1) / world
    return 1 if collective in ("broadcast", "reduce", "ring") else (world - 1) / world


def size(text):
    """The size that an option gives: bytes, a multiple of 16."""
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
    """(collective, dtype, size) of every row, in order. What has no type is measured once."""
    rows = []
    for collective in options.collectives:
        dtypes = options.dtypes[:1] if collective in UNTYPED else options.dtypes
        for dtype in dtypes:
            rows += [(collective, dtype, size) for size in sizes_of(collective, options, world)]
    return rows
