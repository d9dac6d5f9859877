"""No kernel spills registers: spills.py FOLDER reads what ptxas said of each
(FOLDER/*.ptxas) for the architecture that is tuned.
"""

import re
import sys
from pathlib import Path

ARCHITECTURE = "sm_90"
# Two blocks of 512 threads have to fit. What these spill
# are addresses, and operands of packs that are not whole.
ALLOWED = {
    r"symm_pipeline_\w+_2": 34,
    r"symm_pipeline_f32_5": 4,
    r"symm_pipeline_\w+_[678]": 82,
    r"symm_pipeline_any_16": 12,
}


def spills(text):
    """{kernel: bytes that it, or a function that is not
    inlined, stores at most} of the architecture.
    """
    found, kernel = {}, None
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            kernel = match[1] if match[2] == ARCHITECTURE else None
        elif (match := re.search(r"(\d+) bytes spill stores", line)) and kernel:
            found[kernel] = max(found.get(kernel, 0), int(match[1]))
    return found


def main():
    kernels = {}
    for report in sorted(Path(sys.argv[1]).glob("*.ptxas")):
        kernels |= spills(report.read_text())

    allowed = {
        kernel: max(
            [most for name, most in ALLOWED.items() if re.fullmatch(name, kernel)], default=0
        )
        for kernel in kernels
    }
    bad = [
        f"{kernel} spills {bytes_} bytes"
        for kernel, bytes_ in kernels.items()
        if bytes_ > allowed[kernel]
    ]
    print(
        "\n".join([*bad, f"{len(kernels)} kernels for {ARCHITECTURE}, {len(bad)} spill registers"])
    )

    return 1 if bad or not kernels else 0


sys.exit(main())
