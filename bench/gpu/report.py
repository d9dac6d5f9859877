"""The file of a run, its tables in Markdown, and a chart.

report.py [--best] <results.json>  prints the tables; --best: the best way of each library
report.py --svg <results.json>     draws the all-reduces
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from sizes import bus_factor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import chart

TITLES = {
    "symm": "symm",
    "symm private": "symm, received in private memory",
    "nccl": "NCCL",
    "nccl window": "NCCL, registered window",
    "torch one-shot": "PyTorch one-shot",
    "torch two-shot": "PyTorch two-shot",
    "torch": "PyTorch",
    "flashinfer one-shot": "FlashInfer one-shot",
    "flashinfer two-shot": "FlashInfer two-shot",
    "flashinfer": "FlashInfer",
    "vllm": "vLLM",
}
COLLECTIVES = {
    "allreduce": "All-reduce",
    "allgather": "All-gather",
    "reduce_scatter": "Reduce-scatter",
    "broadcast": "Broadcast",
    "alltoall": "All-to-all",
    "reduce": "Reduce",
    "rmsnorm": "All-reduce with RMSNorm",
    "barrier": "Barrier",
    "ring": "Messages round a ring",
}
FORMAT = 2
METHOD = (
    "Ways take turns in one process a rank. A graph of `calls` calls is replayed between two "
    "events, after one more that lines the ranks up. A time is the median of the turns on the "
    "slowest rank, of one call, in microseconds. Results are checked."
)
# Environment variables that are written down.
PREFIXES = ("NCCL_", "SYMM_", "TORCH_SYMM", "TORCH_NCCL", "NVSHMEM_", "CUDA_")


def columns(rows):
    """The names of the ways that any of these rows has, in the order of the tables."""
    return list(dict.fromkeys(name for row in rows for name in row["us"]))


def by_library(row):
    """The row with the best way of each library. symm's other tunings are left out."""
    best = {}
    for name, time in row["us"].items():
        if name == "symm" or is_peer(name):
            library = name.split()[0]
            best[library] = min(time, best.get(library, time))
    return {**row, "us": best}


def is_peer(name):
    return not name.startswith("symm")


def ratio(row):
    """The time of the best peer over symm's: above 1, symm is the fastest.

    None if there is no peer, or no time of symm.
    """
    peers = [time for name, time in row["us"].items() if is_peer(name)]
    return min(peers) / row["us"]["symm"] if peers and row["us"].get("symm") else None


def bus(row, world):
    """symm's GB/s on the bus; None without a time or without bytes."""
    time = row["us"].get("symm")
    if not time or not row["bytes"]:
        return None
    return bus_factor(row["collective"], world) * row["bytes"] / time / 1e3


def cells(values):
    return "| " + " | ".join(values) + " |"


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def title(row, world):
    dtype = "" if row["collective"] == "barrier" else f", {row['dtype']}"
    return f"### {COLLECTIVES[row['collective']]}{dtype}, in graphs, {world} GPUs"


def header(names):
    heads = [
        "bytes",
        *(TITLES.get(name, name) for name in names),
        "best peer / symm",
        "symm, GB/s on the bus",
    ]
    return cells(heads) + "\n" + "|---" * len(heads) + "|"


def line(row, names, world):
    return cells(
        [
            str(row["bytes"]),
            *(number(row["us"].get(name)) for name in names),
            number(ratio(row)),
            number(bus(row, world), 1),
        ]
    )


def markdown(found, best=False):
    """The tables of a run. `best` keeps the best way of each library."""
    world = found["world"]
    versions = ", ".join(
        f"{name} {value}" for name, value in found["versions"].items() if name != "symm"
    )
    text = [
        f"{found['date']}, {world} x {found['device']['name']}, driver {found['driver']}, "
        f"{versions}. {found['method']}"
    ]

    grouped = {}
    for row in found["rows"]:
        shown = by_library(row) if best else row
        grouped.setdefault((row["collective"], row["dtype"]), []).append(shown)
    for rows in grouped.values():
        names = columns(rows)
        text += ["", title(rows[0], world), "", header(names)]
        text += [line(row, names, world) for row in rows]

    text += [f"\nWithout {name}: {reason}" for name, reason in found["unavailable"].items()]
    text += ["\nFAILED: " + error for error in found["errors"]]
    if not found["complete"]:
        text.append("\nThis run was stopped before its end.")
    return "\n".join(text) + "\n"


def picture(found):
    """An SVG of the microseconds of all-reduces by bytes, with each library at its best."""
    rows = [
        by_library(row)
        for row in found["rows"]
        if (row["collective"], row["dtype"]) == ("allreduce", "bf16")
    ]
    curves = {
        TITLES[name]: {row["bytes"]: row["us"][name] for row in rows if name in row["us"]}
        for name in columns(rows)
    }
    what = f"{found['world']} x {found['device']['name']}, {found['date']}"
    return chart.chart(f"All-reduce, bf16, {what}: microseconds by bytes", curves, chart.in_powers)


def new_run(world, date, settings):
    return {
        "format": FORMAT,
        "date": date,
        "world": world,
        "device": {},
        "driver": "",
        "versions": {},
        "environment": {},
        "settings": settings,
        "method": METHOD,
        "unavailable": {},
        "errors": [],
        "complete": False,
        "seconds": 0,
        "rows": [],
    }


def file_of(folder, found):
    return os.path.join(folder, found["settings"]["name"] + ".json")


def write(folder, found):
    """Write the file of a run, and return its name.

    A run may be cut off while it writes, so the new file replaces the old one when it is whole.
    """
    os.makedirs(folder, exist_ok=True)
    name = file_of(folder, found)
    with open(name + ".part", "w", encoding="utf-8") as file:
        json.dump(found, file)
        file.write("\n")
    os.replace(name + ".part", name)
    return name


def read(name):
    with open(name, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{name}: not results of format {FORMAT}")
    return found


def driver():
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"


def describe(found):
    """Add the machine and the versions to the file of a run."""
    import torch

    import symm

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found["device"] = {
        "name": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "count": torch.cuda.device_count(),
    }
    found["driver"] = driver()
    found["versions"] = {
        "CUDA": torch.version.cuda,
        "NCCL": ".".join(str(part) for part in torch.cuda.nccl.version()),
        "PyTorch": torch.__version__,
        "Python": platform.python_version(),
        "symm": symm.build_info(),
    }
    found["environment"] = {
        name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)
    }


def main(options, name):
    found = read(name)
    text = picture(found) if "--svg" in options else markdown(found, "--best" in options)
    print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])
