#!/usr/bin/env python3
"""Draw the charts of the documents from the tables of their pages.

So the charts can be drawn again without the files of a run. `pictures.py` writes the charts
into docs/. `pictures.py --check` says which charts differ from their tables.
"""

import re
import sys
from pathlib import Path

import chart

DOCS = Path(__file__).resolve().parent.parent / "docs"


def table(text, name):
    """{column: {bytes: value}} of the first table in a text whose rows are sizes."""
    found = re.search(r"^\| bytes \|.*\n\|[-|: ]+\|\n(?:\|.*\n)+", text, flags=re.M)
    if not found:
        raise ValueError(f"{name}: no table of sizes")
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in found[0].splitlines()
    )
    return {
        column: {int(row[0]): float(row[at]) for row in rows if row[at] != "-"}
        for at, column in enumerate(head[1:], 1)
    }


def gpu_allreduce(world):
    """The chart of all-reduces between `world` GPUs, with each library at its best."""
    page = DOCS / "gpu-performance.md"
    section = re.search(
        rf"^## ({world} \w+), bf16, in graphs \(([\d-]+)\)\n(.*?)(?=^## |\Z)",
        page.read_text(),
        flags=re.M | re.S,
    )
    if not section:
        raise ValueError(f"{page}: no section of {world} GPUs")

    columns = table(section[3], f"{page}, {world} GPUs")
    libraries = list(columns)[: list(columns).index("best peer / symm")]
    return chart.chart(
        f"All-reduce, bf16, {section[1]}, {section[2]}: microseconds by bytes",
        {name: columns[name] for name in libraries},
        chart.in_powers,
    )


def bits():
    """The chart of the elements of a sum that have other bits in a longer message."""
    page = DOCS / "decisions/0002-same-bits.md"
    columns = table(page.read_text(), page)
    return chart.chart(
        "Sums, 4 H200s, 2026-11-26: % of elements with other bits than in 1 KB, by bytes",
        {name.removesuffix(", %"): points for name, points in columns.items()},
        chart.in_percent,
    )


PICTURES = {
    "gpu-allreduce.svg": lambda: gpu_allreduce(2),
    "gpu-allreduce-4.svg": lambda: gpu_allreduce(4),
    "bits.svg": bits,
}


def main(check):
    stale = []
    for name, draw in PICTURES.items():
        file = DOCS / name
        text = draw()
        if not check:
            file.write_text(text)
        elif not file.is_file() or file.read_text() != text:
            stale.append(
                f"docs/{name} is not what its table says: bench/pictures.py draws it again"
            )

    print("\n".join(stale) or f"{', '.join(PICTURES)}: as their tables say")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
