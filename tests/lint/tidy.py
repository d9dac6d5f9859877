"""clang-tidy over the library, the tool and the examples; with SYMM_TIDY_ALL=1 over the
tests and the benchmarks too.

tidy.py <repository root> <build folder> [--fix] [places ...]

Places, as core/ipc or core/ipc/export.cpp, leave all other files out. With --fix the files
are changed where a check knows how, one after the other, since they share headers;
./dev format comes after it.

Each file is a translation unit of its own, headers among them, for misc-include-cleaner
looks at the main file only; all other checks see a header where a source includes it. A
file costs one to two seconds of a processor, so one that passed is not looked at again
until what the compiler sees of it changes: its stamp is a hash of its preprocessed text, in
the user's cache, so that other checkouts know it too.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pinned

ROOMS = ("kernels", "core", "capi", "tools", "examples", "bindings/nccl")
if os.environ.get("SYMM_TIDY_ALL") == "1":
    ROOMS += ("tests", "bench")
# mpicxx compiles these, which knows where mpi.h is.
BY_MPI = ("examples/18-halos/halos_mpi.cpp",)
# Seconds after which a stamp that nobody asked for is thrown away.
STALE = 60 * 24 * 3600


def program_of(script):
    """What the script of the package starts: Python takes longer to start than clang-tidy."""
    environment = Path(script).resolve().parents[1]
    inside = "lib/python*/site-packages/clang_tidy/data/bin/clang-tidy"
    return str(next(environment.glob(inside), script))


root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
fix = "--fix" in sys.argv[3:]
places = tuple(place for place in sys.argv[3:] if place != "--fix")
try:
    tidy = program_of(pinned.find("clang-tidy"))
except pinned.Missing as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

stamps = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "symm" / "tidy"
stamps.mkdir(parents=True, exist_ok=True)
config = root / ".clang-tidy"
rules = pinned.version_of(tidy).encode() + config.read_bytes() + Path(__file__).read_bytes()
cache = (build / "CMakeCache.txt").read_text()
# A header by itself is looked at for its includes only.
includes_are_checked = re.search(r"^  misc-include-cleaner,?$", config.read_text(), flags=re.M)
compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache, flags=re.M)[1]


class Flags:
    """How the build compiles the files of one folder."""

    def __init__(self, entry):
        words = entry.get("arguments") or shlex.split(entry["command"])
        self.folder = entry["directory"]
        self.words = [word for word in words if word.startswith(("-I", "-D", "-std=", "-f"))]
        for before, word in zip(words, words[1:]):
            if before == "-isystem":
                self.words += [before, word]


class File:
    """A translation unit."""

    def __init__(self, name, flags):
        self.name, self.flags = name, flags
        self.stamp = None

    def find_stamp(self):
        """Whether the file passed as it is. The text has all comments, since some are to
        clang-tidy, and all macros with their uses, since only directives are followed. With
        the macros expanded it would take ten times as long.
        """
        text = subprocess.run(
            [
                compiler,
                *("-E", "-fdirectives-only", "-C", "-dD", "-w", "-xc++"),
                *self.flags.words,
                self.name,
            ],
            cwd=self.flags.folder,
            capture_output=True,
        )
        seen = b"\0".join([rules, " ".join(self.flags.words).encode(), text.stdout])
        seen = seen.replace(bytes(root), b"")
        self.stamp = stamps / hashlib.sha256(seen).hexdigest()
        return self.stamp.exists() and text.returncode == 0

    def complaint(self):
        """What clang-tidy says of the file; None if nothing."""
        result = subprocess.run(
            [
                tidy,
                "--quiet",
                f"--config-file={config}",
                *(["--checks=-*,misc-include-cleaner"] if self.name.endswith(".hpp") else []),
                *(["--fix"] if fix else []),
                self.name,
                "--",
                "-xc++",
                "-Wno-pragma-once-outside-header",
                *self.flags.words,
            ],
            cwd=self.flags.folder,
            capture_output=True,
            text=True,
        )

        if result.returncode == 0:
            if not fix:
                self.stamp.touch()
            return None

        return result.stdout + result.stderr


def sources(entry):
    """The files that an entry compiles: those that a unity build takes as one."""
    path = Path(entry["file"])
    if path.parent.name != "Unity":
        return [str(path)]
    return re.findall(r'^#include "(/.+)"$', path.read_text(), flags=re.M)


def home(entry):
    """The folder of the tree whose files an entry compiles."""
    path = Path(entry["file"])
    if path.is_relative_to(build):
        return str(path.relative_to(build)).split("/CMakeFiles/")[0]
    return str(path.parent.relative_to(root)) if path.is_relative_to(root) else ""


def translation_units():
    """All sources and headers of the rooms, with the flags of their own entry, else with
    those of the nearest folder that has any.
    """
    entries = json.loads((build / "compile_commands.json").read_text())
    own = {source: Flags(entry) for entry in reversed(entries) for source in sources(entry)}
    homes = {home(entry): Flags(entry) for entry in reversed(entries)}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.cpp", "*.hpp"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    rooms = tuple(f"{room}/" for room in ROOMS)

    for name in sorted(filter(None, listed)):
        path = root / name
        if not name.startswith(rooms) or not name.startswith(places or "") or not path.is_file():
            continue
        if name in BY_MPI:
            continue
        if name.endswith(".hpp") and not includes_are_checked:
            continue
        near = [str(folder) for folder in Path(name).parents if str(folder) in homes]
        flags = own.get(str(path)) or (homes[near[0]] if near else None)
        if flags:
            yield File(str(path), flags)


def throw_stale_stamps_away(files):
    now = time.time()
    for file in files:
        if file.stamp.exists():
            os.utime(file.stamp)
    for stamp in stamps.iterdir():
        if now - stamp.stat().st_mtime > STALE:
            stamp.unlink(missing_ok=True)


def main():
    begun = time.monotonic()
    files = list(translation_units())
    with concurrent.futures.ThreadPoolExecutor(1 if fix else os.cpu_count()) as pool:
        known = pool.map(File.find_stamp, files)
        new = [file for file, passed in zip(files, known) if not passed]
        complaints = [text for text in pool.map(File.complaint, new) if text is not None]

    throw_stale_stamps_away(files)
    print("\n".join(complaints))
    print(
        f"clang-tidy: {len(files)} files, {len(new)} of them new, "
        f"{len(complaints)} with complaints, {time.monotonic() - begun:.0f} s"
    )

    return bool(complaints) or not files


sys.exit(main())
