#!/usr/bin/env python3
"""Does a row of an all-reduce, and a sequence of a tensor-parallel
transformer, have the same bits whatever it is batched with? And what
does that cost? Writes determinism.json and .md, and prints the table.

    python3 bench/determinism/run.py --gpus 2 --out build/determinism

The package symm must be importable; SYMM_LIB names a library with CUDA.
Each way has processes of its own, since NCCL reads its environment
once. NVLink multicast is off for all. Of two operands a sum is the same
in either order, so 2 GPUs compare times; that orders differ shows on 4.
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import common

NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "SYMM_MULTICAST": "0",
}
# What serving engines set for answers that do not depend on the batch.
PINNED = {
    "NCCL_LAUNCH_MODE": "GROUP",
    "NCCL_COLLNET_ENABLE": "0",
    "NCCL_P2P_NET_DISABLE": "1",
    "NCCL_MIN_NCHANNELS": "1",
    "NCCL_MAX_NCHANNELS": "1",
    "NCCL_PROTO": "Simple",
    "NCCL_ALGO": "allreduce:tree",
    "NCCL_NTHREADS": "1",
    "NCCL_SOCKET_NTHREADS": "1",
}
TITLES = {
    "symm": "symm",
    "nccl": "NCCL",
    "pinned": "NCCL pinned",
    "torch": "PyTorch symm_mem",
    "flashinfer": "FlashInfer",
}


def measure(way, options):
    """What the ranks of one way have found, or why there is nothing."""
    if way == "flashinfer" and not options.kernels:
        return {"error": "not measured: --kernels names what bench/gpu/peer_kernels has built"}
    answer = options.out / f"{way}.json"
    answer.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={options.gpus}",
        str(Path(__file__).with_name("worker.py")),
        way,
        str(answer),
        options.kernels,
        *["--quick"] * options.quick,
    ]
    environment = os.environ | NO_MULTICAST | (PINNED if way == "pinned" else {})
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=options.patience
        )
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {options.patience} s"}
    return (
        json.loads(answer.read_text())
        if answer.exists()
        else {"error": common.reason(done.stderr or done.stdout)}
    )


def table(found):
    there = {way: of for way, of in found["ways"].items() if "error" not in of}

    def verdict(of):
        wrong, rows = (sum(row[key] for row in of["sizes"].values()) for key in ("wrong", "rows"))
        return f"no: {wrong} of {rows} rows differ" if wrong else "yes"

    def row(text, cell):
        return [text, *(cell(of) for of in there.values())]

    sizes = next(iter(there.values()))["sizes"]
    rows = [
        row("a row's bits are independent of the batch", verdict),
        *(
            row(
                f"{common.size_label(int(size))}, us",
                lambda of, size=size: f"{of['sizes'][size]['us']:.1f}",
            )
            for size in sizes
        ),
        row(
            "transformer: log-probabilities alike for batch 1 and 64",
            lambda of: "yes" if of["model"]["same"] else "no",
        ),
        *(
            row(f"tokens/s, batch {batch}", lambda of, batch=batch: f"{of['model'][batch]:,.0f}")
            for batch in ("1", "64")
        ),
    ]
    lines = [
        f"{found['gpus']} x {found['device']}, PyTorch {found['torch']}, "
        f"NCCL {found['nccl']}, {found['date']}",
        "",
        common.table(["", *(TITLES[way] for way in there)], rows, right=True),
        *(
            f"\n{TITLES[way]}: {of['error'].strip().splitlines()[-1]}"
            for way, of in found["ways"].items()
            if "error" in of
        ),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=2, help="ranks, one for each")
    parser.add_argument("--out", type=Path, default=Path("build/determinism"), help="folder")
    parser.add_argument("--ways", default=",".join(TITLES), help="which of %(default)s")
    parser.add_argument(
        "--kernels",
        default="",
        help="library of FlashInfer's kernels, as bench/gpu/peer_kernels builds it",
    )
    parser.add_argument("--patience", type=int, default=240, help="seconds for each way")
    parser.add_argument(
        "--quick", action="store_true", help="few sizes, a small model: to see whether it works"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {
        "gpus": options.gpus,
        "date": str(date.today()),
        "environment": NO_MULTICAST,
        "pinned": PINNED,
        "ways": {},
    }
    for way in options.ways.split(","):
        print(f"{TITLES[way]} ...", file=sys.stderr, flush=True)
        found["ways"][way] = measure(way, options)
        found.update(found["ways"][way].pop("machine", {}))
    if all("error" in of for of in found["ways"].values()):
        sys.exit("\n".join(f"{TITLES[way]}: {of['error']}" for way, of in found["ways"].items()))
    for ending, text in (("json", json.dumps(found, indent=1) + "\n"), ("md", table(found))):
        (options.out / f"determinism.{ending}").write_text(text)
    print(table(found))


if __name__ == "__main__":
    main()
