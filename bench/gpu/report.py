"""What is made of measured times: tables in Markdown. report.py [--best] <results.json> prints those of a run again,
with --best the best way of each library."""
import sys

import results as result_files
from sizes import bus_factor

TITLES = {"symm": "symm", "nccl": "NCCL", "nccl window": "NCCL, registered window", "torch one-shot": "PyTorch one-shot",
          "torch two-shot": "PyTorch two-shot", "torch": "PyTorch", "flashinfer one-shot": "FlashInfer one-shot",
          "flashinfer two-shot": "FlashInfer two-shot", "flashinfer": "FlashInfer", "vllm": "vLLM"}
COLLECTIVES = {"allreduce": "All-reduce", "allgather": "All-gather", "reduce_scatter": "Reduce-scatter", "broadcast": "Broadcast",
               "alltoall": "All-to-all", "reduce": "Reduce", "rmsnorm": "All-reduce with RMSNorm", "barrier": "Barrier"}


def columns(rows):
    """Names of the ways that any of these rows has, in the order of the tables."""
    return list(dict.fromkeys(name for row in rows for name in row["us"]))


def by_library(row):
    """The row with one way of each library, its best; symm's other tunings are left out."""
    best = {}
    for name, time in row["us"].items():
        library = "symm" if name == "symm" else name.split()[0] if is_peer(name) else None
        if library:
            best[library] = min(time, best.get(library, time))
    return {**row, "us": best}


def is_peer(name):
    return not name.startswith("symm")


def ratio(row):
    """Best peer / symm: above 1, symm is the fastest. None where one of them is missing."""
    peers = [time for name, time in row["us"].items() if is_peer(name)]
    return min(peers) / row["us"]["symm"] if peers and row["us"].get("symm") else None


def bus(row, world):
    """GB/s on the bus, of symm."""
    time = row["us"].get("symm")
    return bus_factor(row["collective"], world) * row["bytes"] / time / 1e3 if time and row["bytes"] else None


def cells(values):
    return "| " + " | ".join(values) + " |"


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def title(row, world):
    dtype = "" if row["collective"] == "barrier" else f", {row['dtype']}"
    return f"### {COLLECTIVES[row['collective']]}{dtype}, in graphs, {world} GPUs"


def header(names):
    heads = ["bytes", *(TITLES.get(name, name) for name in names), "best peer / symm", "symm, GB/s on the bus"]
    return cells(heads) + "\n" + "|---" * len(heads) + "|"


def line(row, names, world):
    return cells([str(row["bytes"]), *(number(row["us"].get(name)) for name in names), number(ratio(row)), number(bus(row, world), 1)])


def sections(found):
    """Rows by collective and type, in the order in which they were measured."""
    grouped = {}
    for row in found["rows"]:
        grouped.setdefault((row["collective"], row["dtype"]), []).append(row)
    return grouped.values()


def markdown(found, best=False):
    """`best`: of each library."""
    world = found["world"]
    versions = ", ".join(f"{name} {value}" for name, value in found["versions"].items() if name != "symm")
    text = [f"{found['date']}, {world} x {found['device']['name']}, driver {found['driver']}, {versions}. {found['method']}"]
    for rows in sections(found):
        rows = [by_library(row) for row in rows] if best else rows
        names = columns(rows)
        text += ["", title(rows[0], world), "", header(names)] + [line(row, names, world) for row in rows]
    text += [f"\nWithout {name}: {reason}" for name, reason in found["unavailable"].items()]
    text += ["\nFAILED: " + error for error in found["errors"]]
    if not found["complete"]:
        text.append("\nThis run was stopped before its end.")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    print(markdown(result_files.read(sys.argv[-1]), "--best" in sys.argv[1:-1]), end="")
