"""Draws runs, the best way of each library: microseconds and best peer / symm by size, a column of panels for each number of GPUs. Needs matplotlib (bench/gpu/draw).

    bench/gpu/draw gpu-2.json gpu-4.json --out docs/gpu.svg
"""
import argparse
import re
from xml.etree import ElementTree

import report
import results

COLOURS = {"symm": "#c0392b", "nccl": "#1f4e79", "torch": "#2e7d32", "flashinfer": "#8e44ad", "vllm": "#e67e22"}
UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def size_label(size):
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def chosen(found, collective, dtype, mode):
    return sorted((report.by_library(row) for row in found["rows"] if (row["collective"], row["dtype"], row["mode"]) == (collective, dtype, mode)),
                  key=lambda row: row["bytes"])


def by_world(runs, collective, dtype, mode):
    """[(ranks, run, rows)] by number of ranks; each number once."""
    panels = {}
    for found in runs:
        rows = chosen(found, collective, dtype, mode)
        if rows and found["world"] in panels:
            raise ValueError(f"two runs with {found['world']} GPUs have such rows")
        if rows:
            panels[found["world"]] = (found["world"], found, rows)
    if not panels:
        raise ValueError(f"no rows of {collective}, {dtype}, {mode}")
    return [panels[world] for world in sorted(panels)]


def ways_of(rows):
    """Libraries with a time at any size, in the order of the tables."""
    there = report.columns(rows)
    return [name for name in COLOURS if name in there]


def points(rows, name):
    there = [row for row in rows if name in row["us"]]
    return [row["bytes"] for row in there], [row["us"][name] for row in there]


def draw(panels, title):
    from matplotlib import ticker
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.2 + 5.2 * len(panels), 7.4), layout="constrained")
    grid = figure.subplots(2, len(panels), squeeze=False, sharex="col", sharey="row", height_ratios=(3, 2))
    for column, (world, _, rows) in enumerate(panels):
        times, ratios = grid[0][column], grid[1][column]
        for name in ways_of(rows):
            ours = name == "symm"
            times.plot(*points(rows, name), color=COLOURS[name], label=report.TITLES[name], marker="o", markersize=4 if ours else 2.5,
                       linewidth=2.4 if ours else 1.3, zorder=3 if ours else 2)
        times.set_title(f"{world} GPUs")
        with_ratio = [row for row in rows if report.ratio(row) is not None]
        ratios.plot([row["bytes"] for row in with_ratio], [report.ratio(row) for row in with_ratio], color=COLOURS["symm"], marker="o",
                    markersize=4, linewidth=2)
        ratios.axhline(1, color="#555555", linewidth=1, linestyle="--")
        ratios.set_xlabel("bytes")
        for axes in (times, ratios):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.grid(which="major", color="#dddddd", linewidth=0.7)
            axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: size_label(value)))
            axes.xaxis.set_major_locator(ticker.FixedLocator([1 << power for power in range(4, 41, 4)]))
            axes.set_xlim(rows[0]["bytes"] / 1.5, rows[-1]["bytes"] * 1.5)
            axes.xaxis.set_minor_locator(ticker.NullLocator())
            axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        times.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5), numticks=20))
        ratios.yaxis.set_major_locator(ticker.FixedLocator([0.5, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6]))
        for axes in (times, ratios):
            axes.yaxis.set_minor_locator(ticker.NullLocator())
    grid[0][0].set_ylabel("microseconds")
    grid[1][0].set_ylabel("best peer / symm")
    grid[0][0].legend(loc="upper left", fontsize=9, framealpha=0.9)
    figure.suptitle(title)
    return figure


def caption(panels, collective, dtype, mode):
    found = panels[0][1]
    of = report.COLLECTIVES[collective] + ("" if collective == "barrier" else f", {dtype}")
    versions = found["versions"]
    return (f"{of}, {'in graphs' if mode == 'graph' else 'eager'}, {found['device']['name']}, "
            f"NCCL {versions['NCCL']}, PyTorch {versions['PyTorch'].split('+')[0]}, {found['date']}")


def shorten(name):
    """Elements one behind the other in lines of some hundred columns, without groups that say nothing and fonts that only stand in."""
    for prefix, space in (("", "http://www.w3.org/2000/svg"), ("xlink", "http://www.w3.org/1999/xlink")):
        ElementTree.register_namespace(prefix, space)

    def flatten(element):
        children = []
        for child in element:
            flatten(child)
            plain = child.tag.endswith("}g") and child.attrib.keys() <= {"id"}
            children += list(child) if plain else [child]
        element[:] = children

    root = ElementTree.parse(name).getroot()
    flatten(root)
    text = re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode")).replace("  ", " ")
    text = re.sub(r"(font-family: '[^']*')[^;\"]*", r"\1, sans-serif", text)
    with open(name, "w", encoding="utf-8") as file:
        file.write(re.sub(r"(.{3000,}?>)(?=<)", r"\1\n", text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="JSON files of run.py")
    parser.add_argument("--out", required=True, help="picture; its ending (.svg, .png) is its kind")
    parser.add_argument("--collective", default="allreduce", choices=[name for name in report.COLLECTIVES if name != "barrier"])
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--mode", default="graph", choices=["graph", "eager"])
    options = parser.parse_args()
    what = options.collective, options.dtype, options.mode
    try:
        panels = by_world([results.read(name) for name in options.runs], *what)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "symm"  # the same bytes from the same runs
    matplotlib.rcParams["svg.fonttype"] = "none"  # text as text: an outline takes a line a stroke
    svg = options.out.endswith(".svg")
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type")) if svg else None
    draw(panels, caption(panels, *what)).savefig(options.out, dpi=150, metadata=metadata)
    if svg:
        shorten(options.out)


if __name__ == "__main__":
    main()
