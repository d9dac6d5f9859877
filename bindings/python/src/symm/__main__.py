"""The tool: ``symm``, or ``python -m symm``. ``--prefix``
says where headers, library and CMake files lie.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    """Become the tool, which lies beside this file."""
    prefix = Path(__file__).resolve().parent
    if sys.argv[1:] == ["--prefix"]:
        print(prefix)
    else:
        os.execv(prefix / "bin/symm", ["symm", *sys.argv[1:]])


if __name__ == "__main__":
    main()
