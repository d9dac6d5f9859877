# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the library; with SYMM_TIDY_ALL=1 over the tool and the examples too, which take as long again. tidy.py <repository
root> <build folder>.

A file that passed is not looked at again until what the compiler sees of it changes: the stamp is a hash of its preprocessed text."""
import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOMS = ("kernels", "core", "capi") + (("tools", "examples") if os.environ.get("SYMM_TIDY_ALL") == "1" else ())

root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
tidy, clang = shutil.which("clang-tidy"), shutil.which("clang++")
if not tidy or not clang:
    print("SKIPPED: clang-tidy is not installed")
    sys.exit(77)

stamps = build / "tidy"
stamps.mkdir(exist_ok=True)
rules = (root / ".clang-tidy").read_bytes() + subprocess.run([tidy, "--version"], capture_output=True, check=True).stdout


def preprocessed(entry):
    words = entry.get("arguments") or entry["command"].split()
    flags = [word for word in words if word.startswith(("-I", "-D", "-std=", "-f"))]
    system = [flag for pair in zip(words, words[1:]) if pair[0] == "-isystem" for flag in pair]
    return subprocess.run([clang, "-E", "-Wno-everything", *flags, *system, entry["file"]], cwd=entry["directory"], capture_output=True)


def check(entry):
    text = preprocessed(entry)
    if text.returncode != 0:
        return text.stderr.decode()
    stamp = stamps / hashlib.sha256(rules + text.stdout).hexdigest()
    if not stamp.exists():
        result = subprocess.run([tidy, "--quiet", "-p", build, "--extra-arg=-Wno-unknown-warning-option", entry["file"]],
                                capture_output=True, text=True)
        if result.returncode != 0:
            return result.stdout + result.stderr
        stamp.touch()
    return ""


entries = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}
ours = [entry for name, entry in sorted(entries.items())
        if name.endswith(".cpp") and any(Path(name).is_relative_to(root / room) for room in ROOMS)]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    complaints = [text for text in pool.map(check, ours) if text]
print("\n".join(complaints))
print(f"clang-tidy: {len(ours)} files, {len(complaints)} with complaints")
sys.exit(bool(complaints) or not ours)
