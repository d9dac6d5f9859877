#!/usr/bin/env python3
"""Draws runs, the best way of each library: microseconds and best peer / symm by size, a column for each number of GPUs.

    bench/gpu/picture.py gpu-2.json gpu-4.json --out docs/gpu.svg
"""
import argparse
import math
import sys
from pathlib import Path

import report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import size_label

TICKS = [digit * 10**power for power in range(6) for digit in (1, 2, 5)]
COLOURS = {"symm": "#c0392b", "nccl": "#1f4e79", "torch": "#2e7d32", "flashinfer": "#8e44ad", "vllm": "#e67e22"}
RATIOS = (0.5, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4, 6, 10)


def chart(title, box, lines, ticks=TICKS):
    """One chart, of which `box` is left, top, width and height. lines: {name: (colour, other attributes, {size: value})}; a line without
    values is left out. ticks: values that are marked if they are in sight."""
    left, top, width, height = box
    sizes = sorted({size for *_, points in lines.values() for size in points})
    values = [value for *_, points in lines.values() for value in points.values()]
    low, high = math.log(min(values) / 1.1), math.log(max(values) * 1.1)

    def x(size):
        return f"{left + width * math.log(size / sizes[0]) / (math.log(sizes[-1] / sizes[0]) or 1):.1f}"

    def y(value, below=0):
        return f"{top + height * (high - math.log(value)) / (high - low) + below:.1f}"

    parts = [f'<text x="{left}" y="{top - 10}">{title}</text>']
    for tick in (tick for tick in ticks if low <= math.log(tick) <= high):
        parts.append(f'<path d="M{left} {y(tick)}h{width}" stroke="#dddddd"/><text x="{left - 8}" y="{y(tick, 4)}" text-anchor="end">{tick:g}</text>')
    for size in sizes[::math.ceil(len(sizes) / 8)]:
        parts.append(f'<text x="{x(size)}" y="{top + height + 20}" text-anchor="middle">{size_label(size)}</text>')
    for number, (name, (colour, attributes, points)) in enumerate(lines.items()):
        if points:
            line = " ".join(f"{x(size)},{y(points[size])}" for size in sorted(points))
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" {attributes}/>')
            parts.append(f'<text x="{left + 12}" y="{top + 18 + 18 * number}" fill="{colour}">{name}</text>')
    return "".join(parts)


def picture(title, width, height, charts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
                      '<rect width="100%" height="100%" fill="white"/>', f'<text x="20" y="24" font-size="13">{title}</text>', *charts, "</svg>"]) + "\n"


def by_world(runs, what):
    """{ranks: rows} in the order of ranks; each number once."""
    panels = {}
    for found in runs:
        rows = [report.by_library(row) for row in found["rows"] if (row["collective"], row["dtype"]) == what]
        if rows and found["world"] in panels:
            raise ValueError(f"two runs with {found['world']} GPUs have such rows")
        if rows:
            panels[found["world"]] = rows
    if not panels:
        raise ValueError(f"no rows of {', '.join(what)}")
    return sorted(panels.items())


def charts(column, world, rows):
    times = {report.TITLES[name]: (colour, 'stroke-width="2.5"' if name == "symm" else 'stroke-width="1.3"',
                                   {row["bytes"]: row["us"][name] for row in rows if name in row["us"]}) for name, colour in COLOURS.items()}
    ratios = {"": (COLOURS["symm"], 'stroke-width="2"', {row["bytes"]: report.ratio(row) for row in rows if report.ratio(row)}),
              " ": ("#555555", 'stroke-dasharray="6 4"', {row["bytes"]: 1 for row in rows})}
    left = 60 + 580 * column
    return (chart(f"{world} GPUs, microseconds", (left, 60, 520, 320), times),
            chart("best peer / symm", (left, 440, 520, 180), ratios, RATIOS))


def caption(found, collective, dtype):
    versions = found["versions"]
    return (f"{report.COLLECTIVES[collective]}, {dtype}, in graphs, {found['device']['name']}, "
            f"NCCL {versions['NCCL']}, PyTorch {versions['PyTorch'].split('+')[0]}, {found['date']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="JSON files of run.py")
    parser.add_argument("--out", required=True, type=Path, help="picture (.svg)")
    parser.add_argument("--collective", default="allreduce", choices=[name for name in report.COLLECTIVES if name != "barrier"])
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
    options = parser.parse_args()
    what = options.collective, options.dtype
    try:
        runs = [report.read(name) for name in options.runs]
        panels = by_world(runs, what)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    drawn = [one for column, panel in enumerate(panels) for one in charts(column, *panel)]
    options.out.write_text(picture(caption(runs[0], *what), 30 + 580 * len(panels), 660, drawn), encoding="utf-8")


if __name__ == "__main__":
    main()
