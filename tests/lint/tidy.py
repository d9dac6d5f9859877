"""clang-tidy over the library; with SYMM_TIDY_ALL=1 over the tool and the examples too,
which take as long again. tidy.py <repository root> <build folder>.

A file that passed is not looked at again until what the compiler sees of it changes:
its stamp is a hash of its preprocessed text, in the user's cache, so that other
checkouts know it too. What is new is checked in batches, several files as one
translation unit: of a file by itself nine tenths of the time go into the headers of the
standard library. Where a batch displeases, for whatever reason, it is halved, and what
is reported is said of one file alone.
"""

import concurrent.futures
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOMS = ("kernels", "core", "capi") + (
    ("tools", "examples") if os.environ.get("SYMM_TIDY_ALL") == "1" else ()
)
BATCH = 14
STALE = 60 * 24 * 3600  # seconds after which a stamp that nobody asked for is thrown away

root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
tidy, clang = shutil.which("clang-tidy"), shutil.which("clang++")
if not tidy or not clang:
    print("SKIPPED: clang-tidy is not installed")
    sys.exit(77)

stamps = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "symm" / "tidy"
stamps.mkdir(parents=True, exist_ok=True)
version = subprocess.run([tidy, "--version"], capture_output=True, check=True).stdout
rules = version + (root / ".clang-tidy").read_bytes() + Path(__file__).read_bytes()


class File:
    def __init__(self, entry):
        words = entry.get("arguments") or shlex.split(entry["command"])
        self.name, self.folder = entry["file"], entry["directory"]
        self.flags = [word for word in words if word.startswith(("-I", "-D", "-std=", "-f", "-W"))]
        self.flags += [
            flag for pair in zip(words, words[1:]) if pair[0] == "-isystem" for flag in pair
        ]
        self.flags += ["-Wno-unknown-warning-option"]

    def find_stamp(self):
        """Comments stay in the text, since some of them are to clang-tidy."""
        text = subprocess.run(
            [clang, "-E", "-C", "-Wno-everything", *self.flags, self.name],
            cwd=self.folder,
            capture_output=True,
        )
        seen = b"\0".join([rules, " ".join(self.flags).encode(), text.stdout]).replace(
            bytes(root), b""
        )
        self.stamp = stamps / hashlib.sha256(seen).hexdigest()
        return self.stamp.exists() and text.returncode == 0


def complaints_of(files):
    """Of each file alone, if not all pass as one. The batch is their text, not includes of
    it: some warnings are for a main file only.
    """
    with tempfile.TemporaryDirectory() as scratch:
        path = files[0].name
        if len(files) > 1:
            path = Path(scratch, "batch.cpp")
            path.write_text(
                "".join(f'#line 1 "{file.name}"\n{Path(file.name).read_text()}\n' for file in files)
            )
        config = f"--config-file={root / '.clang-tidy'}"
        result = subprocess.run(
            [tidy, "--quiet", config, path, "--", *files[0].flags],
            cwd=files[0].folder,
            capture_output=True,
            text=True,
        )
    if result.returncode == 0:
        for file in files:
            file.stamp.touch()
        return []
    if len(files) == 1:
        return [result.stdout + result.stderr]
    half = len(files) // 2
    return complaints_of(files[:half]) + complaints_of(files[half:])


def batches(files):
    """Neighbours with the same flags, in parts of about the same size."""
    alike = {}
    for file in files:
        alike.setdefault((Path(file.name).parent, tuple(file.flags)), []).append(file)
    for group in alike.values():
        parts = -(-len(group) // BATCH)
        for part in range(parts):
            yield group[part::parts]


entries = {
    entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())
}
ours = [
    File(entry)
    for name, entry in sorted(entries.items())
    if name.endswith(".cpp") and any(Path(name).is_relative_to(root / room) for room in ROOMS)
]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    new = [file for file, known in zip(ours, pool.map(File.find_stamp, ours)) if not known]
    complaints = [text for some in pool.map(complaints_of, batches(new)) for text in some]
now = time.time()
for file in ours:
    if file.stamp.exists():
        os.utime(file.stamp)
for stamp in stamps.iterdir():
    if now - stamp.stat().st_mtime > STALE:
        stamp.unlink(missing_ok=True)
print("\n".join(complaints))
print(f"clang-tidy: {len(ours)} files, {len(new)} of them new, {len(complaints)} with complaints")
sys.exit(bool(complaints) or not ours)
