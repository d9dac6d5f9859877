"""Draws docs/floor-plan.svg, the picture of docs/architecture.md.

    python3 docs/floor_plan.py           writes the picture
    python3 docs/floor_plan.py --check   fails if the picture is not that of the tree

The arrows are the includes of the tree, without those that follow from others. The script fails
if the tree has a room or an arrow that the plan below does not place, or the other way round.
"""

import re
import subprocess
import sys
from html import escape
from pathlib import Path

root = Path(__file__).resolve().parent.parent
picture = root / "docs/floor-plan.svg"
WIDTH, HEIGHT = 780, 908
CODE = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh")

# room: x, y, width, and what it is; a box is BOX high
BOX = 42
PLAN = {
    "bindings": (20, 34, 170, "Python, Rust, Julia, Fortran"),
    "tools": (200, 34, 170, "the program symm"),
    "examples": (380, 34, 170, "one per tutorial page"),
    "bench": (560, 34, 170, "symm beside its peers"),
    "capi": (20, 118, 640, "the C ABI: guards, handles, struct copies; no logic"),
    "core/group": (20, 182, 640, "group, memory, heap, exchange, rendezvous, collective"),
    "core/ipc": (20, 246, 310, "memory by tokens"),
    "core/backends": (20, 310, 310, "the list of back ends"),
    "core/multinode": (350, 310, 310, "a group on several machines"),
    "core/host": (20, 398, 200, "back end: processors"),
    "core/cuda": (240, 398, 200, "back end: GPUs"),
    "core/engine": (460, 462, 200, "UCX, NCCL, found at run time"),
    "core/backend": (20, 462, 420, "what a back end must offer; address map, plan table, segments"),
    "core/mesh": (20, 526, 420, "the sockets between ranks, and what travels on them"),
    "core/bootstrap": (20, 590, 640, "how ranks find each other: stores, launchers"),
    "core/socket": (20, 654, 640, "connections, descriptors, the monitor, private directories"),
    "core/base": (20, 718, 640, "error and its codec, log, wait, process, environment"),
    "kernels": (20, 782, 640, "arithmetic and data movement"),
    "capi/include": (20, 846, 740, "the public headers: symm.h, symm.hpp, device.cuh"),
}
# Arrows that do not go straight down from one box to the next: the points they turn at.
ROUTES = {
    ("core/backends", "core/host"): [(120, 352), (120, 398)],
    ("core/backends", "core/cuda"): [(300, 352), (300, 398)],
    ("core/multinode", "core/host"): [(380, 352), (380, 368), (180, 368), (180, 398)],
    ("core/multinode", "core/engine"): [(560, 352), (560, 462)],
    ("core/group", "core/multinode"): [(505, 224), (505, 310)],
    ("core/engine", "core/bootstrap"): [(560, 504), (560, 590)],
    ("kernels", "capi/include"): [(340, 824), (340, 846)],
}
USERS = ("bindings", "tools", "examples", "bench")
# The users include the public headers only: one line for all their arrows.
USERS_LINE = [(745, 96), (745, 846)]


def room_of(path):
    return max((room for room in PLAN if re.match(rf"{room}[/.]", path)), key=len, default=None)


def includes():
    """(room, room) of every include that leaves its room."""
    listing = subprocess.run(
        ["git", "-C", root, "ls-files"], check=True, capture_output=True, text=True
    ).stdout

    for name in listing.splitlines():
        if not name.startswith(("capi/", "core/", "kernels/")) or not name.endswith(CODE):
            continue
        user = room_of(name)
        if user is None:
            sys.exit(f"{name} lies in no room of the plan")
        text = (root / name).read_text(encoding="utf-8")
        for path in re.findall(
            r'^\s*#\s*include\s*[<"]((?:symm|capi|core|kernels)/[^">]+)', text, re.M
        ):
            used = room_of("capi/include/" + path if path.startswith("symm/") else path)
            if used is None:
                sys.exit(f"{name}: {path} lies in no room of the plan")
            if used != user:
                yield user, used


def reaches(arrows, start, end):
    """Whether other arrows lead from start to end."""
    seen, todo = set(), [b for a, b in arrows if a == start and b != end]
    while todo:
        room = todo.pop()
        if room == end:
            return True
        if room not in seen:
            seen.add(room)
            todo += [b for a, b in arrows if a == room]
    return False


def route(user, used):
    if (user, used) in ROUTES:
        return ROUTES[user, used]
    x, y, width, _ = PLAN[user]
    to_x, to_y, to_width, _ = PLAN[used]
    if to_y <= y:
        sys.exit(f"{user} -> {used} does not go down")
    middle = (max(x, to_x) + min(x + width, to_x + to_width)) // 2
    return [(middle, y + BOX), (middle, to_y)]


def arrow(points):
    path = "M" + " L".join(f"{x} {y}" for x, y in points)
    return f'<path d="{path}" marker-end="url(#end)"/>'


def drawn():
    """The lines of the picture, one element each."""
    arrows = set(includes())
    arrows = sorted(one for one in arrows if not reaches(arrows, *one))
    if unused := set(ROUTES) - set(arrows):
        sys.exit(f"the tree has no such arrow: {sorted(unused)}")

    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="13">'
    )
    yield "<title>The rooms of symm; arrows run down, from a room to the rooms it uses</title>"
    yield "<defs>"
    yield '<marker id="end" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
    yield '<path d="M0 0 L7 3 L0 6 z" fill="#4c78a8"/>'
    yield "</marker>"
    yield "</defs>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'

    yield '<g fill="#f4f6f9" stroke="#8794a8">'
    for x, y, width, _ in PLAN.values():
        yield f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="6"/>'
    yield "</g>"

    yield '<g fill="none" stroke="#4c78a8" stroke-width="1.4">'
    line_x, line_y = USERS_LINE[0]
    for user in USERS:
        x, y, width, _ = PLAN[user]
        middle = x + width // 2
        yield f'<path d="M{middle} {y + BOX} L{middle} {line_y} L{line_x} {line_y}"/>'
    yield arrow(USERS_LINE)
    for one in arrows:
        yield arrow(route(*one))
    yield "</g>"

    yield '<g fill="#223" text-anchor="middle">'
    for name, (x, y, width, _) in PLAN.items():
        yield f'<text x="{x + width // 2}" y="{y + 17}" font-weight="bold">{name}</text>'
    yield "</g>"

    yield '<g fill="#445" text-anchor="middle" font-size="12">'
    for x, y, width, what in PLAN.values():
        yield f'<text x="{x + width // 2}" y="{y + 34}">{escape(what)}</text>'
    yield "</g>"

    yield '<text x="20" y="22" fill="#223" font-size="12">Users of the public headers</text>'
    yield "</svg>"


text = "\n".join(drawn()) + "\n"
if sys.argv[1:] == ["--check"]:
    if picture.read_text(encoding="utf-8") != text:
        sys.exit(f"{picture.name} is not the picture of the tree: run python3 docs/floor_plan.py")
else:
    picture.write_text(text, encoding="utf-8")
