"""Make an SVG film of a run of survive.cpp with four ranks, of which one is killed.

film.py <folder of symm and symm_survive>
"""

import json
import re
import subprocess
import sys
import tempfile

RANKS = 4
COLOURS = {
    "group_create": "#8794a8",
    "allreduce": "#2e7d32",
    "barrier": "#c0392b",
    "group_shrink": "#1f4e79",
}


def run_of(folder):
    """A run: what it printed, and the calls of all ranks from its trace."""
    with tempfile.NamedTemporaryFile() as trace:
        command = [f"{folder}/symm", "run", "--grace", "60", "--trace", trace.name]
        command += ["-n", str(RANKS), f"{folder}/symm_survive"]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        events = json.load(trace)["traceEvents"]
    return run.stdout, [call for call in events if call["name"] in COLOURS and "dur" in call]


said, calls = run_of(sys.argv[1])
lost = dict(re.findall(r"rank (\d) lost rank (\d)", said))  # what each survivor printed
dead = int(min(lost.values()))
# The last call of the dead rank is followed by raise(SIGKILL).
death = max(call["ts"] + call["dur"] for call in calls if call["pid"] == dead)
last = max(call["ts"] + call["dur"] - death for call in calls)


def x_of(microseconds):
    """The place of a time after the death; the left edge for times long before."""
    return max(70, round(150 + 480 * microseconds / last))


def picture_of(call):
    """The rectangle of a call, with its name if there is room, and what it ended with."""
    begin = call["ts"] - death
    end = begin + call["dur"]
    left = x_of(begin)
    right = x_of(end)
    y = 40 + 40 * call["pid"]
    colour = COLOURS[call["name"]]

    yield f'<rect x="{left}" y="{y}" width="{right - left}" height="16" fill="{colour}"/>'
    if right - left > 60:
        name = call["name"].replace("group_", "")
        yield f'<text x="{left + 4}" y="{y + 12}" fill="white">{name}</text>'
    if "failed" in call["args"]:
        failure = f"{end / 1e3:.2f} ms: lost rank {lost[str(call['pid'])]}"
        yield f'<text x="{right}" y="{y + 29}" fill="#c0392b">{failure}</text>'


elements_of = [
    [f'<text x="64" y="{52 + 40 * rank}" text-anchor="end">rank {rank}</text>']
    for rank in range(RANKS)
]
elements_of[dead].append(f'<text x="154" y="{52 + 40 * dead}" fill="#c0392b">killed</text>')
for call in calls:
    elements_of[call["pid"]].extend(picture_of(call))
axis = [
    f'<text x="{150 + 480e3 * ms / last:.0f}" y="215" text-anchor="middle">{ms}</text>'
    for ms in range(int(last / 1e3) + 1)
]

# One element a line, so that two films can be compared.
print(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 230"'
    ' font-family="sans-serif" font-size="12">',
    '<rect width="100%" height="100%" fill="white"/>',
    f'<text x="70" y="18">Rank {dead} is killed: milliseconds from its last call</text>',
    *(element for elements in elements_of for element in elements),
    *axis,
    '<path d="M150 30V200" stroke="#c0392b" stroke-dasharray="4"/>',
    '<rect x="660" y="30" width="600" height="172" fill="white">',
    # The film begins with its last picture, which is what a page shows before it moves.
    '<animate attributeName="x" values="660;660;70;660" keyTimes="0;.3;.3;1" dur="16s"'
    ' repeatCount="indefinite"/>',
    "</rect>",
    "</svg>",
    sep="\n",
)
