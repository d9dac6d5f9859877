#!/usr/bin/env python3
"""Does a row of an all-reduce, and a sequence of a tensor-parallel transformer, have the same bits whatever it is batched with? And what
does that cost? Writes determinism.json, .md and .svg, and prints the table.

    python3 bench/determinism/run.py --gpus 2 --out build/determinism

The package symm must be importable; SYMM_LIB names a library with CUDA. Each way has processes of its own, since NCCL reads its
environment once. NVLink multicast is off for all. Of two operands a sum is the same in either order, so 2 GPUs compare times; that
orders differ shows on 4.
"""
import argparse
import json
import math
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "SYMM_MULTICAST": "0"}
# What serving engines set for answers that do not depend on the batch.
PINNED = {"NCCL_LAUNCH_MODE": "GROUP", "NCCL_COLLNET_ENABLE": "0", "NCCL_P2P_NET_DISABLE": "1", "NCCL_MIN_NCHANNELS": "1",
          "NCCL_MAX_NCHANNELS": "1", "NCCL_PROTO": "Simple", "NCCL_ALGO": "allreduce:tree", "NCCL_NTHREADS": "1",
          "NCCL_SOCKET_NTHREADS": "1"}
TITLES = {"symm": "symm", "nccl": "NCCL", "pinned": "NCCL pinned", "torch": "PyTorch symm_mem"}
COLOURS = {"symm": "#c0392b", "nccl": "#1f4e79", "pinned": "#5d9bd3", "torch": "#2e7d32"}


def size_label(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def measure(way, options):
    """What the ranks of one way have found, or why there is nothing."""
    answer = options.out / f"{way}.json"
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.gpus}",
               str(Path(__file__).with_name("worker.py")), way, str(answer), *["--quick"] * options.quick]
    environment = os.environ | NO_MULTICAST | (PINNED if way == "pinned" else {})
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.patience)
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {options.patience} s"}
    return json.loads(answer.read_text()) if answer.exists() else {"error": (done.stderr or done.stdout)[-2000:]}


def table(found):
    there = {way: of for way, of in found["ways"].items() if "error" not in of}

    def line(text, cell):
        return f"| {text} | " + " | ".join(cell(of) for of in there.values()) + " |"

    def verdict(of):
        wrong, rows = (sum(row[key] for row in of["sizes"].values()) for key in ("wrong", "rows"))
        return f"no: {wrong} of {rows} rows differ" if wrong else "yes"

    sizes = next(iter(there.values()))["sizes"]
    lines = [f"{found['gpus']} x {found['device']}, PyTorch {found['torch']}, NCCL {found['nccl']}, {found['date']}", "",
             "| | " + " | ".join(TITLES[way] for way in there) + " |", "|---|" + "---:|" * len(there),
             line("a row's bits are independent of the batch", verdict),
             *(line(f"{size_label(int(size))}, us", lambda of, size=size: f"{of['sizes'][size]['us']:.1f}") for size in sizes),
             line("transformer: log-probabilities alike for batch 1 and 64", lambda of: "yes" if of["model"]["same"] else "no"),
             *(line(f"tokens/s, batch {batch}", lambda of, batch=batch: f"{of['model'][batch]:,.0f}") for batch in ("1", "64")),
             *(f"\n{TITLES[way]}: {of['error'].strip().splitlines()[-1]}" for way, of in found["ways"].items() if "error" in of)]
    return "\n".join(lines) + "\n"


def picture(found):
    """Microseconds by size, both in powers, as SVG; a dashed line where bits depend on the batch."""
    there = {way: {int(size): row for size, row in of["sizes"].items()} for way, of in found["ways"].items() if "error" not in of}
    sizes = list(next(iter(there.values())))
    times = [row["us"] for rows in there.values() for row in rows.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    left, top, width, height = 70, 50, 620, 340

    def x(size):
        return left + width * math.log2(size / sizes[0]) / math.log2(sizes[-1] / sizes[0])

    def y(us):
        return top + height * (1 - (math.log10(us) - low) / (high - low))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 30}" height="{top + height + 60}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="24" font-size="15">All-reduce, bf16, {found["gpus"]} x {found["device"]}; dashed: bits depend on the batch</text>']
    for us in (10**power for power in range(low, high + 1)):
        parts.append(f'<path d="M{left} {y(us):.1f}H{left + width}" stroke="#dddddd"/><text x="{left - 8}" y="{y(us) + 4:.1f}" text-anchor="end">{us:g} us</text>')
    for size in sizes[::2]:
        parts.append(f'<text x="{x(size):.1f}" y="{top + height + 20}" text-anchor="middle">{size_label(size)}</text>')
    for number, (way, rows) in enumerate(there.items()):
        line = " ".join(f"{x(size):.1f},{y(row['us']):.1f}" for size, row in rows.items())
        dashes = ' stroke-dasharray="6 4"' if any(row["wrong"] for row in rows.values()) else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[way]}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{left + 12}" y="{top + 18 + 18 * number}" fill="{COLOURS[way]}">{TITLES[way]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2, help="ranks, one for each")
    parser.add_argument("--out", type=Path, default=Path("build/determinism"), help="folder")
    parser.add_argument("--ways", default=",".join(TITLES), help="which of %(default)s")
    parser.add_argument("--patience", type=int, default=240, help="seconds for each way")
    parser.add_argument("--quick", action="store_true", help="few sizes, a small model: to see whether it works")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {"gpus": options.gpus, "date": str(date.today()), "environment": NO_MULTICAST, "pinned": PINNED, "ways": {}}
    for way in options.ways.split(","):
        print(f"{TITLES[way]} ...", file=sys.stderr, flush=True)
        found["ways"][way] = measure(way, options)
        found.update(found["ways"][way].pop("machine", {}))
    if all("error" in of for of in found["ways"].values()):
        sys.exit("\n".join(f"{TITLES[way]}: {of['error']}" for way, of in found["ways"].items()))
    for ending, text in (("json", json.dumps(found, indent=1) + "\n"), ("md", table(found)), ("svg", picture(found))):
        (options.out / f"determinism.{ending}").write_text(text)
    print(table(found))


if __name__ == "__main__":
    main()
