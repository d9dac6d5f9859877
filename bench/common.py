"""Functions that several measurements use."""

import re

UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B"))


def size_label(size):
    """A number of bytes as a text, such as 64 KB."""
    return next(f"{size / unit:g} {name}" for unit, name in UNITS if size >= unit)


def reason(output):
    """The reason in the output of a failed program: its first error, else the end of the output.

    A rank prints its error before torch.distributed.run prints its own.
    """
    errors = re.findall(r"\w+(?:Error|Exception): .+", output)
    return errors[0] if errors else output[-2000:]


def turned(items, round_):
    """All items, beginning with another one in each round.

    So no item always runs after the same neighbour.
    """
    items = list(items)
    first = round_ % len(items) if items else 0
    return items[first:] + items[:first]


def table(head, rows, right=False):
    """A table in Markdown. `right` aligns all columns but the first as numbers."""
    first, *others = ["| " + " | ".join(map(str, row)) + " |" for row in [head, *rows]]
    rule = "|---" + ("|---:" if right else "|---") * (len(head) - 1) + "|"
    return "\n".join([first, rule, *others])
