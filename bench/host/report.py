"""Tables from results, as docs/performance.md has them, and what
was measured on, in words that name no machine in particular.
"""

import os
import platform
import re
import textwrap
from pathlib import Path

from common import size_label, table as table_of
from rounds import DISTANCES

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def text_of(path):
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def processor():
    cpuinfo = text_of("/proc/cpuinfo")
    name = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.M)
    flags = re.search(r"^flags\s*:\s*(.+)$", cpuinfo, re.M)
    sets = [
        label
        for flag, label in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON"))
        if flags and flag in flags[1].split()
    ]
    virtual = " (virtual machine)" if flags and "hypervisor" in flags[1].split() else ""
    kind = name[1] if name else platform.machine()
    return f"{os.cpu_count()} x {kind}{', ' + sets[0] if sets else ''}{virtual}"


def caches():
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if text_of(index / "type") != "Instruction":
            found.append(f"L{text_of(index / 'level')} {text_of(index / 'size')}")
    return ", ".join(found)


def machine(build):
    about = "".join(map(text_of, sorted(build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"))))
    compiler = [
        re.findall(rf'set\(CMAKE_CXX_COMPILER_{what} "([^"]+)"\)', about)[-1]
        for what in ("ID", "VERSION")
    ]
    pages = re.search(r"\[(\w+)\]", text_of("/sys/kernel/mm/transparent_hugepage/enabled"))
    shared = re.search(r"\[(\w+)\]", text_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled"))
    return {
        "processor": processor(),
        "caches": caches(),
        "kernel": platform.release().split("-")[0],
        "compiler": " ".join(compiler),
        "huge pages": f"{pages[1] if pages else 'unknown'}, "
        f"shared memory {shared[1] if shared else 'unknown'}",
    }


def us(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def ratio(best, mine):
    return "-" if best is None or mine is None else f"{best / mine:.2f}"


class Results:
    def __init__(self, results, kind):
        self.cases = {name: cases for name, cases in results[kind].items() if cases}
        self.families = {
            peer["name"]: peer["family"] for peer in results["peers"] if peer["name"] in self.cases
        }
        self.mpi = [name for name, family in self.families.items() if family == "mpi"]
        self.others = [name for name, family in self.families.items() if family == "other"]

    def of(self, name, operation, memory, place, size, field="p50"):
        case = self.cases.get(name, {}).get((operation, memory, place, size))
        return case[field] if case else None

    def best(self, operation, place, size, field="p50", names=None):
        values = [
            (self.of(name, operation, "private", place, size, field), name)
            for name in (self.mpi if names is None else names)
        ]
        return min((pair for pair in values if pair[0] is not None), default=(None, "-"))

    def sizes(self, operation):
        return sorted({case[3] for case in self.cases.get("symm", {}) if case[0] == operation})

    def launches(self):
        return sum(case["rounds"] for cases in self.cases.values() for case in cases.values())


def compared(table, operation, place, size):
    """symm on both kinds of memory beside the best MPI
    and the first of the others, as columns() says.
    """
    symmetric, private = (
        table.of("symm", operation, memory, place, size) for memory in ("symmetric", "private")
    )
    best, name = table.best(operation, place, size)
    other, _ = table.best(operation, place, size, names=table.others)
    return [
        us(symmetric),
        us(private),
        us(best),
        name,
        ratio(best, symmetric),
        ratio(best, private),
        us(other),
        ratio(other, symmetric),
    ]


def columns(table):
    others = table.others[0] if table.others else "others"
    return [
        "symm, symmetric",
        "symm, private",
        "best MPI",
        "which",
        "ratio symmetric",
        "ratio private",
        others,
        "ratio symmetric",
    ]


def by_library(table, fields):
    """A row a library, of all-reduce out of place: these fields in the cell of each size."""
    sizes = table.sizes("allreduce")
    ways = [(f"symm, {memory}", "symm", memory) for memory in ("symmetric", "private")] + [
        (name, name, "private") for name in table.mpi + table.others
    ]
    rows = [
        [title]
        + [
            " / ".join(
                us(table.of(name, "allreduce", memory, "out", size, field)) for field in fields
            )
            for size in sizes
        ]
        for title, name, memory in ways
    ]
    return ["library", *map(size_label, sizes)], rows


def other_operations(table):
    rows = []
    for operation in ("barrier", "ping", "allgather", "reduce_scatter", "broadcast", "alltoall"):
        title = (
            "put with signal, round trip" if operation == "ping" else operation.replace("_", "-")
        )
        rows += [
            [title, size_label(size) if size else "", *compared(table, operation, "out", size)[:-1]]
            for size in table.sizes(operation)
        ]
    return ["operation", "size", *columns(table)[:-1]], rows


def sections(results):
    crowd = Results(results, "crowd")
    # What most launches met comes first.
    tables = ((name, Results(results, name)) for name in DISTANCES)
    name, table = max(tables, key=lambda pair: pair[1].launches())
    yield (
        f"All-reduce, f32 sum, 2 ranks, out of place, processors {name}",
        "Microseconds, median. A ratio is the best MPI's time over symm's.",
        ["size", *columns(table)],
        [
            [size_label(size), *compared(table, "allreduce", "out", size)]
            for size in table.sizes("allreduce")
        ],
    )
    yield (
        "Every library, out of place",
        "Microseconds: median / 99th percentile.",
        *by_library(table, ("p50", "p99")),
    )
    yield (
        "Other operations, 2 ranks",
        "Microseconds, median; sizes are those of the larger operand.",
        *other_operations(table),
    )
    yield (
        "4 ranks on 2 processors, all-reduce",
        "Microseconds: median / 99th percentile / most.",
        *by_library(crowd, ("p50", "p99", "max")),
    )
    time = table.of("symm", "allreduce", "symmetric", "out", 64 << 20)
    if time is not None:
        # So much must move, whatever the algorithm:
        # every operand is read, every result written.
        rate = 2 * 2 * (64 << 20) / time * 1e-3
        rows = [["all-reduce of 64 MB, symmetric, out of place", f"{rate:.1f}", ""]]
        rows += [
            [
                f"copy of 64 MB by each of 2 threads, {stores} stores",
                f"{copied:.1f}",
                f"{100 * rate / copied:.0f} %",
            ]
            for stores in ("past the cache", "ordinary")
            for copied in [results["copy"][stores]]
        ]
        yield (
            "Memory bandwidth",
            "Gigabytes per second that must be read and written: 2 x ranks x size for both.",
            ["what", "GB/s", "all-reduce reaches"],
            rows,
        )
    kill = results["kill"]
    if "all" in kill:
        rows = [
            [
                name,
                f"{row['kills']:,}",
                f"{row['p50_ms']:.2f}",
                f"{row['p99_ms']:.2f}",
                f"{row['max_ms']:.2f}",
                str(row["hangs"]),
            ]
            for name, row in [
                *((f"calls, {name}", row) for name, row in kill["by_size"].items()),
                ("calls, all", kill["calls"]),
                *(
                    (f"during {name}", row)
                    for name, row in kill["by_phase"].items()
                    if name == "create"
                ),
                ("all", kill["all"]),
            ]
        ]
        yield (
            "From SIGKILL to the others' error",
            "Milliseconds.",
            ["when", "kills", "p50", "p99", "max", "hangs"],
            rows,
        )


def head_lines(results):
    on = results["machine"]
    mine = {name: results[name].get("symm", {}) for name in DISTANCES}
    clock = next(
        (
            value["p50"]
            for cases in mine.values()
            for case, value in cases.items()
            if case[0] == "nothing"
        ),
        None,
    )
    trips = [
        f"{name} {us(min(case['round_trip'] for case in cases.values()))}"
        for name, cases in mine.items()
        if cases
    ]
    yield (
        f"{results['date']}. {on['processor']}; {on['caches']}; Linux {on['kernel']}; "
        f"{on['compiler']}."
    )
    yield f"Huge pages: {on['huge pages']}."
    yield (
        f"Reading the clock is {us(clock)} us of every time. Round trip of a cache line between "
        f"the two processors, in us: {', '.join(trips)}; {results['moved']} measurements left out "
        f"because they moved.{' Quick run.' if results['quick'] else ''}"
    )
    for title, reason in results["skipped"].items():
        yield f"Skipped: {title}: {reason}"
    if "skipped" in results["kill"]:
        yield f"Skipped: kills: {results['kill']['skipped']}"


def markdown(results):
    out = [
        "  \n".join(
            textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False)
            for line in head_lines(results)
        )
    ]
    for title, note, head, rows in sections(results):
        out += ["", f"### {title}", ""]
        if note:
            out += [note, ""]
        out.append(table_of(head, rows))
    return "\n".join(out) + "\n"


def replace_measured(path, block):
    document = path.read_text(encoding="utf-8")
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{block}{END}{after}", encoding="utf-8")
