#!/usr/bin/env python3
"""Measure whether results depend on the batch, and what it costs that they do not.

The results are the bits of a row of an all-reduce, and of a sequence of a tensor-parallel
transformer. The program writes determinism.json and determinism.md, and prints the table.

    python3 bench/determinism/run.py --gpus 2 --out build/determinism

The package symm must be importable; SYMM_LIB names a library with CUDA. Each way has processes
of its own, since NCCL reads its environment once. NVLink multicast is off for all ways. A sum of
two operands is the same in either order, so 2 GPUs compare times only; 4 GPUs show whether the
orders differ.
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
# The variables that serving engines set so that answers do not depend on the batch.
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
    """The results of the ranks of one way, or {"error": why there are none}."""
    if way == "flashinfer" and not options.kernels:
        return {"error": "not measured: --kernels names what bench/gpu/peer_kernels has built"}
    results = options.out / f"{way}.json"
    results.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={options.gpus}",
        str(Path(__file__).with_name("worker.py")),
        way,
        str(results),
        options.kernels,
        *["--quick"] * options.quick,
    ]
    environment = os.environ | NO_MULTICAST
    if way == "pinned":
        environment |= PINNED

    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=options.patience
        )
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {options.patience} s"}

    if not results.exists():
        return {"error": common.reason(done.stderr or done.stdout)}
    return json.loads(results.read_text())


def table(found):
    """The table in Markdown: a column for each way that has results."""
    ways = {way: result for way, result in found["ways"].items() if "error" not in result}

    def row(title, cell):
        return [title, *(cell(result) for result in ways.values())]

    def independent(result):
        sizes = result["sizes"].values()
        wrong = sum(size["wrong"] for size in sizes)
        rows = sum(size["rows"] for size in sizes)
        return f"no: {wrong} of {rows} rows differ" if wrong else "yes"

    def same(result):
        return "yes" if result["model"]["same"] else "no"

    rows = [row("a row's bits are independent of the batch", independent)]
    for size in next(iter(ways.values()))["sizes"]:
        title = f"{common.size_label(int(size))}, us"
        rows.append(row(title, lambda result, size=size: f"{result['sizes'][size]['us']:.1f}"))
    rows.append(row("transformer: log-probabilities alike for batch 1 and 64", same))
    for batch in ("1", "64"):
        title = f"tokens/s, batch {batch}"
        rows.append(row(title, lambda result, batch=batch: f"{result['model'][batch]:,.0f}"))

    lines = [
        f"{found['gpus']} x {found['device']}, PyTorch {found['torch']}, NCCL {found['nccl']}, "
        f"{found['date']}",
        "",
        common.table(["", *(TITLES[way] for way in ways)], rows, right=True),
    ]
    for way, result in found["ways"].items():
        if "error" in result:
            lines.append(f"\n{TITLES[way]}: {result['error'].strip().splitlines()[-1]}")
    return "\n".join(lines) + "\n"


def parse():
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

    return parser.parse_args()


def main():
    options = parse()
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

    if all("error" in result for result in found["ways"].values()):
        errors = [f"{TITLES[way]}: {result['error']}" for way, result in found["ways"].items()]
        sys.exit("\n".join(errors))
    (options.out / "determinism.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "determinism.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()
