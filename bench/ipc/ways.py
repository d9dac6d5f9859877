"""What both measurements in Python have in common. Exit status 77 with a reason where the package is missing."""
import json
import statistics
import sys
import time


def skip(reason):
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(77)


try:
    import symm  # noqa: F401
    from symm import _raw as raw  # noqa: F401
except ImportError as why:
    skip(why)


def by_turns(ways, rounds, value_of):
    """{way: median microseconds}: each is called once a round, in another order each round; five rounds more go first."""
    times = {name: [] for name in ways}
    names = list(ways)
    for round_ in range(rounds + 5):
        first = round_ % len(names)
        for name in names[first:] + names[:first]:
            way, value = ways[name], value_of(round_)
            start = time.perf_counter()
            way(value)
            if round_ >= 5:
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def main(measure):
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 300)))
