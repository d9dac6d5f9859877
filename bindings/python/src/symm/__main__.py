"""The command-line tool: ``symm``, or ``python -m symm``.

``symm --prefix`` prints the directory that holds the headers, the library and the CMake files.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    """Replace this process by the tool, which lies in bin/ beside this file."""
    prefix = Path(__file__).resolve().parent
    if sys.argv[1:] == ["--prefix"]:
        print(prefix)
    else:
        os.execv(prefix / "bin/symm", ["symm", *sys.argv[1:]])


if __name__ == "__main__":
    main()
