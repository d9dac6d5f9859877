"""What measurements have in common."""

import re

UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B"))


def size_label(size):
    return next(f"{size / unit:g} {name}" for unit, name in UNITS if size >= unit)


def reason(said):
    """The first error in what a failed program said, a rank's before
    torch.distributed.run's; or its end.
    """
    return (re.findall(r"\w+(?:Error|Exception): .+", said) or [said[-2000:]])[0]


def turned(items, round_):
    """All of them, beginning with another one in each
    round: nobody always runs after the same neighbour.
    """
    items = list(items)
    first = round_ % len(items) if items else 0
    return items[first:] + items[:first]


def table(head, rows, right=False):
    """In Markdown; `right`: all columns but the first are numbers."""
    lines = [head, *rows]
    cells = ["| " + " | ".join(map(str, row)) + " |" for row in lines]
    return "\n".join(
        [cells[0], "|---" + ("|---:" if right else "|---") * (len(head) - 1) + "|", *cells[1:]]
    )
