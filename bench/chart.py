"""Lines over sizes as SVG, both axes logarithmic."""
import math

UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B"))
TICKS = [digit * 10**power for power in range(6) for digit in (1, 2, 5)]


def size_label(size):
    return next(f"{size / unit:g} {name}" for unit, name in UNITS if size >= unit)


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
