"""What a run is asked for."""
import argparse
from datetime import date

import sizes

COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "broadcast", "alltoall", "reduce", "rmsnorm", "barrier")
DTYPES = ("bf16", "f32")
MODES = ("graph", "eager")


def some_of(known):
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return parse


def size(text):
    """Bytes, a whole number of packs of 16."""
    value = int(text)
    if value < 16 or value % 16:
        raise argparse.ArgumentTypeError(f"{text} is not a positive multiple of 16")
    return value


def at_least(least):
    def parse(text):
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    return parse


def parse(arguments, world):
    parser = argparse.ArgumentParser(description=__doc__, prog="run.py", allow_abbrev=False)
    parser.add_argument("--library", required=True, help="libsymm.so, built with kernels")
    parser.add_argument("--out", required=True, help="folder for NAME.json and NAME.md")
    parser.add_argument("--name", help="of the files; default: gpu-<ranks>-<date>")
    parser.add_argument("--date", default=date.today().isoformat(), help="written down as that of the run")
    parser.add_argument("--collectives", type=some_of(COLLECTIVES), default=list(COLLECTIVES), help="comma between them")
    parser.add_argument("--dtypes", type=some_of(DTYPES), default=list(DTYPES))
    parser.add_argument("--modes", type=some_of(MODES), default=list(MODES))
    parser.add_argument("--smallest", type=size, default=256)
    parser.add_argument("--largest", type=size, default=1 << 30)
    parser.add_argument("--step", type=at_least(2), default=2, help="factor between the sizes of all-reduce")
    parser.add_argument("--step-others", type=at_least(2), default=16, help="the same of the other collectives")
    parser.add_argument("--repeats", type=at_least(3), default=9, help="turns of each way; large sizes get fewer")
    parser.add_argument("--tune", action="append", default=[], metavar="SPEC", help="symm also with this SYMM_CUDA_TUNE")
    parser.add_argument("--nccl", action="append", default=[], metavar="[PATH][,NAME=VALUE]...",
                        help="another libnccl.so too, or PyTorch's again, with these variables set for it alone")
    parser.add_argument("--kernels", metavar="PATH", help="what bench/gpu/peer_kernels built: FlashInfer's and vLLM's kernels")
    parser.add_argument("--budget", type=at_least(1), metavar="SECONDS", help="after these, stop and keep what there is")
    options = parser.parse_args(arguments)
    if options.smallest > options.largest:
        parser.error("--smallest is above --largest")
    options.name = options.name or f"gpu-{world}-{options.date}"
    return options


def plan(options, world):
    """(collective, dtype, mode, size) of every row, in order. A barrier has no type."""
    rows = []
    for collective in options.collectives:
        for mode in options.modes:
            for dtype in options.dtypes if collective != "barrier" else options.dtypes[:1]:
                rows += [(collective, dtype, mode, size_) for size_ in sizes.sizes_of(collective, options, world)]
    return rows
