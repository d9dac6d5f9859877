"""Are packages as large as docs/how-to/install.md says?

usage: sizes.py [packages, or folders of them]

Every row of a wheel must state a range. Each wheel that is named must be of a row, and its size
within the range. Ends with 77 where there is no wheel.
"""

import fnmatch
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/install.md"


def ranges(text):
    """The ranges of bytes that a page states, by the pattern of the names of wheels."""
    found = {}
    for pattern, rest in re.findall(r"^\| `(libsymm-[^`]*\.whl)` \|(.*)$", text, flags=re.M):
        said = re.search(r"\| ([\d.]+) to ([\d.]+) MB \|", rest)
        found[pattern] = tuple(float(bound) * 1e6 for bound in said.groups()) if said else None
    return found


def offences(sizes, allowed):
    """What is wrong with wheels, whose sizes are given by their names."""
    for pattern, bounds in allowed.items():
        if bounds is None:
            yield f"{PAGE.name}: {pattern} has no range of sizes"

    for name, size in sizes.items():
        rows = [bounds for pattern, bounds in allowed.items() if fnmatch.fnmatch(name, pattern)]
        if len(rows) != 1:
            yield f"{name}: {len(rows)} rows of {PAGE.name}, not 1"
        elif rows[0] and not rows[0][0] <= size <= rows[0][1]:
            low, high = rows[0]
            yield f"{name}: {size / 1e6:.1f} MB, not {low / 1e6:g} to {high / 1e6:g}"


def check_oneself():
    """A size at each end of a range, and beyond; names of no row; rows without a range."""
    allowed = ranges(
        "| `libsymm-*-linux_*.whl` | it | 2 to 3.5 MB | |\n| `libsymm-a.whl` | | | |\n"
    )
    assert allowed == {"libsymm-*-linux_*.whl": (2e6, 3.5e6), "libsymm-a.whl": None}
    del allowed["libsymm-a.whl"]
    wheel = "libsymm-0-linux_x.whl"
    for size, expected in ((1.9e6, 1), (2e6, 0), (3.5e6, 0), (3.6e6, 1)):
        assert len([*offences({wheel: size}, allowed)]) == expected
    assert len([*offences({"libsymm-0-manylinux_x.whl": 3e6}, allowed)]) == 1
    assert len([*offences({}, {wheel: None})]) == 1


def main(places):
    check_oneself()
    allowed = ranges(PAGE.read_text())
    assert allowed, f"{PAGE.name} has no row of a wheel"
    wheels = [
        wheel
        for place in map(Path, places)
        for wheel in (sorted(place.glob("*.whl")) if place.is_dir() else [place])
        if wheel.suffix == ".whl" and wheel.exists()
    ]
    wrong = [*offences({wheel.name: wheel.stat().st_size for wheel in wheels}, allowed)]
    if wrong:
        sys.exit("\n".join(wrong))
    if not wheels:
        print("SKIPPED: no wheel was built here")
        sys.exit(77)
    print(f"{len(wheels)} wheels are as large as {PAGE.name} says")


if __name__ == "__main__":
    main(sys.argv[1:])
