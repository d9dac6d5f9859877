"""An SVG of a run of survive.cpp with four ranks: film.py <folder of symm and symm_survive>"""

import json
import re
import subprocess
import sys
import tempfile

COLOURS = {
    "group_create": "#8794a8",
    "allreduce": "#2e7d32",
    "barrier": "#c0392b",
    "group_shrink": "#1f4e79",
}
with tempfile.NamedTemporaryFile() as trace:
    command = [
        f"{sys.argv[1]}/symm",
        "run",
        "--grace",
        "60",
        "--trace",
        trace.name,
        "-n",
        "4",
        f"{sys.argv[1]}/symm_survive",
    ]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    calls = [
        call
        for call in json.load(trace)["traceEvents"]
        if call["name"] in COLOURS and "dur" in call
    ]
lost = dict(re.findall(r"rank (\d) lost rank (\d)", run.stdout))  # as survivors say
dead = int(min(lost.values()))
# what follows is raise()
death = max(call["ts"] + call["dur"] for call in calls if call["pid"] == dead)
last = max(call["ts"] + call["dur"] - death for call in calls)
text = [
    [f'<text x="64" y="{52 + 40 * rank}" text-anchor="end">rank {rank}</text>'] for rank in range(4)
]
text[dead].append(f'<text x="154" y="{52 + 40 * dead}" fill="#c0392b">killed</text>')
for call in calls:
    begin, end = call["ts"] - death, call["ts"] + call["dur"] - death
    left, right = (max(70, round(150 + 480 * at / last)) for at in (begin, end))
    rank, y, name = call["pid"], 40 + 40 * call["pid"], call["name"]
    text[rank].append(
        f'<rect x="{left}" y="{y}" width="{right - left}" height="16" fill="{COLOURS[name]}"/>'
    )
    if right - left > 60:
        said = name.replace("group_", "")
        text[rank].append(f'<text x="{left + 4}" y="{y + 12}" fill="white">{said}</text>')
    if "failed" in call["args"]:
        said = f"{end / 1e3:.2f} ms: lost rank {lost[str(rank)]}"
        text[rank].append(f'<text x="{right}" y="{y + 29}" fill="#c0392b">{said}</text>')
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
    *(element for elements in text for element in elements),
    *axis,
    '<path d="M150 30V200" stroke="#c0392b" stroke-dasharray="4"/>',
    '<rect x="660" y="30" width="600" height="172" fill="white">',
    '<animate attributeName="x" values="70;640;640" keyTimes="0;.7;1" dur="12s"'
    ' repeatCount="indefinite"/>',
    "</rect>",
    "</svg>",
    sep="\n",
)
