"""Charts as SVG, with one element a line.

Curves are drawn over bytes, on a logarithmic axis.
"""

import html
import math

from common import size_label

COLOURS = ("#c0392b", "#1f4e79", "#2e7d32", "#8e44ad", "#e67e22")
LEFT = 50
RIGHT = 610
TOP = 40
BOTTOM = 360
POWERS = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


def in_powers(curves):
    """A logarithmic scale: (function from a value to its place, values that get a tick)."""
    values = [value for points in curves.values() for value in points.values()]
    least = min(values)
    most = max(values)

    def y(value):
        height = BOTTOM - TOP
        return round(BOTTOM - height * math.log(value / least) / math.log(most / least))

    return y, [tick for tick in POWERS if least <= tick <= most]


def in_percent(curves):
    """A scale from 0 to 100 %: (function from a value to its place, values that get a tick)."""

    def y(value):
        return round(BOTTOM - (BOTTOM - TOP) * value / 100)

    return y, range(0, 101, 20)


def chart(title, curves, scale):
    """The SVG of curves {name: {bytes: value}}. `scale` is in_powers or in_percent."""
    places = sorted({size for points in curves.values() for size in points})
    y, ticks = scale(curves)

    def x(size):
        share = math.log(size / places[0]) / math.log(places[-1] / places[0])
        return round(LEFT + (RIGHT - LEFT) * share)

    text = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 400"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20">{html.escape(title)}</text>',
    ]
    for tick in ticks:
        text += [
            f'<path d="M{LEFT} {y(tick)}h{RIGHT - LEFT}" stroke="#ddd"/>',
            f'<text x="{LEFT - 6}" y="{y(tick) + 4}" text-anchor="end">{tick}</text>',
        ]
    text += [
        f'<text x="{x(size)}" y="385" text-anchor="middle">{size_label(size)}</text>'
        for size in places[::2]
    ]

    for place, ((name, points), colour) in enumerate(zip(curves.items(), COLOURS, strict=False)):
        line = " ".join(f"{x(size)},{y(value)}" for size, value in points.items())
        text += [
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="60" y="{50 + 18 * place}" fill="{colour}">{html.escape(name)}</text>',
        ]
    return "\n".join([*text, "</svg>\n"])
