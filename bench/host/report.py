"""The tables of docs/performance.md from results, and a description of the machine.

The description does not identify the machine.
"""

import os
import platform
import re
import textwrap
from pathlib import Path

from common import size_label, table as table_of
from rounds import DISTANCES

BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"


def text_of(path):
    """The text of a file; empty if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def processor():
    cpuinfo = text_of("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.M)
    name = model[1] if model else platform.machine()
    line = re.search(r"^flags\s*:\s*(.+)$", cpuinfo, re.M)
    flags = line[1].split() if line else []

    text = f"{os.cpu_count()} x {name}"
    for flag, label in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON")):
        if flag in flags:
            text += f", {label}"
            break
    if "hypervisor" in flags:
        text += " (virtual machine)"
    return text


def caches():
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if text_of(index / "type") != "Instruction":
            found.append(f"L{text_of(index / 'level')} {text_of(index / 'size')}")
    return ", ".join(found)


def machine(build):
    variables = "".join(map(text_of, sorted(build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"))))

    def compiler(what):
        return re.findall(rf'set\(CMAKE_CXX_COMPILER_{what} "([^"]+)"\)', variables)[-1]

    def huge_pages(file):
        chosen = re.search(r"\[(\w+)\]", text_of(f"/sys/kernel/mm/transparent_hugepage/{file}"))
        return chosen[1] if chosen else "unknown"

    return {
        "processor": processor(),
        "caches": caches(),
        "kernel": platform.release().split("-")[0],
        "compiler": f"{compiler('ID')} {compiler('VERSION')}",
        "huge pages": f"{huge_pages('enabled')}, shared memory {huge_pages('shmem_enabled')}",
    }


def us(value):
    """Microseconds, with three significant digits or more."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value:.3f}"
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def ratio(best, mine):
    return "-" if best is None or mine is None else f"{best / mine:.2f}"


class Results:
    """The results of one kind: of a distance of the processors, or of the crowd of 4 ranks."""

    def __init__(self, results, kind):
        self.cases = {name: cases for name, cases in results[kind].items() if cases}
        self.families = {
            peer["name"]: peer["family"] for peer in results["peers"] if peer["name"] in self.cases
        }
        self.mpi = [name for name, family in self.families.items() if family == "mpi"]
        self.others = [name for name, family in self.families.items() if family == "other"]

    def of(self, name, operation, memory, place, size, field="p50"):
        """A field of a library's case; None if the library did not run it."""
        case = self.cases.get(name, {}).get((operation, memory, place, size))
        return case[field] if case else None

    def best(self, operation, place, size, field="p50", names=None):
        """(time, name) of the fastest of these libraries, by default of MPI's."""
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
    """The cells of columns(): symm on both kinds of memory, the best MPI, the first other."""
    symmetric = table.of("symm", operation, "symmetric", place, size)
    private = table.of("symm", operation, "private", place, size)
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
    """The table of all-reduces out of place: a row a library, these fields in each cell."""
    sizes = table.sizes("allreduce")
    libraries = [("symm, symmetric", "symm", "symmetric"), ("symm, private", "symm", "private")]
    libraries += [(name, name, "private") for name in table.mpi + table.others]

    def cell(name, memory, size):
        times = [table.of(name, "allreduce", memory, "out", size, field) for field in fields]
        return " / ".join(map(us, times))

    rows = [
        [title, *(cell(name, memory, size) for size in sizes)] for title, name, memory in libraries
    ]
    return ["library", *map(size_label, sizes)], rows


def other_operations(table):
    rows = []
    titles = {
        "ping": "put with signal, round trip",
        "message": "send and receive, private memory, round trip",
    }
    for operation in ("barrier", *titles, "allgather", "reduce_scatter", "broadcast", "alltoall"):
        title = titles.get(operation, operation.replace("_", "-"))
        for size in table.sizes(operation):
            label = size_label(size) if size else ""
            rows.append([title, label, *compared(table, operation, "out", size)[:-1]])
    return ["operation", "size", *columns(table)[:-1]], rows


def bandwidth(allreduce_us, copy):
    """The rows of memory bandwidth, from the time of an all-reduce of 64 MB.

    Every operand must be read and every result written, whatever the algorithm.
    """
    rate = 2 * 2 * (64 << 20) / allreduce_us * 1e-3
    yield ["all-reduce of 64 MB, symmetric, out of place", f"{rate:.1f}", ""]
    for stores in ("past the cache", "ordinary"):
        title = f"copy of 64 MB by each of 2 threads, {stores} stores"
        yield [title, f"{copy[stores]:.1f}", f"{100 * rate / copy[stores]:.0f} %"]


def kills(kill):
    """The rows of the kill experiment."""
    named = [(f"calls, {name}", row) for name, row in kill["by_size"].items()]
    named.append(("calls, all", kill["calls"]))
    if "create" in kill["by_phase"]:
        named.append(("during create", kill["by_phase"]["create"]))

    named.append(("all", kill["all"]))
    for name, row in named:
        yield [
            name,
            f"{row['kills']:,}",
            f"{row['p50_ms']:.2f}",
            f"{row['p99_ms']:.2f}",
            f"{row['max_ms']:.2f}",
            str(row["hangs"]),
        ]


def sections(results):
    """(title, note, head, rows) of each table."""
    crowd = Results(results, "crowd")
    # The distance at which most launches ran.
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
        yield (
            "Memory bandwidth",
            "Gigabytes per second that must be read and written: 2 x ranks x size for both.",
            ["what", "GB/s", "all-reduce reaches"],
            list(bandwidth(time, results["copy"])),
        )

    if "all" in results["kill"]:
        yield (
            "From SIGKILL to the others' error",
            "Milliseconds.",
            ["when", "kills", "p50", "p99", "max", "hangs"],
            list(kills(results["kill"])),
        )


def clock_us(own):
    """The time of an empty operation, which is that of reading the clock."""
    for cases in own.values():
        for case, value in cases.items():
            if case[0] == "nothing":
                return value["p50"]
    return None


def head_lines(results):
    """The lines before the tables: the machine, and what was left out."""
    machine_ = results["machine"]
    own = {name: results[name].get("symm", {}) for name in DISTANCES}
    trips = [
        f"{name} {us(min(case['round_trip'] for case in cases.values()))}"
        for name, cases in own.items()
        if cases
    ]
    yield (
        f"{results['date']}. {machine_['processor']}; {machine_['caches']}; "
        f"Linux {machine_['kernel']}; {machine_['compiler']}."
    )
    yield f"Huge pages: {machine_['huge pages']}."
    yield (
        f"Reading the clock is {us(clock_us(own))} us of every time. "
        "Round trip of a cache line between the two processors, in us: "
        f"{', '.join(trips)}; {results['moved']} measurements left out because they moved."
        f"{' Quick run.' if results['quick'] else ''}"
    )
    for title, reason in results["skipped"].items():
        yield f"Skipped: {title}: {reason}"

    if "skipped" in results["kill"]:
        yield f"Skipped: kills: {results['kill']['skipped']}"


def markdown(results):
    filled = [
        textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False)
        for line in head_lines(results)
    ]
    out = ["  \n".join(filled)]  # two spaces keep the line breaks in Markdown
    for title, note, head, rows in sections(results):
        out += ["", f"### {title}", ""]
        if note:
            out += [note, ""]
        out.append(table_of(head, rows))
    return "\n".join(out) + "\n"


def replace_measured(path, block):
    """Replace the measured part of a page."""
    document = path.read_text(encoding="utf-8")
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{block}{END}{after}", encoding="utf-8")
