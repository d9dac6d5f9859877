#!/usr/bin/env python3
"""The tests as users run them: as_users.py <situation> <folder with programs>. Status 77
and a reason where it cannot be had.
"""

import ctypes
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = ["symm_group_test", "symm_memory_test", "symm_shrink_test", "symm_ipc_test"]
# What container runtimes that are older than a call refuse, by EPERM:
# close_range, pidfd_getfd, faccessat2, futex_waitv, pidfd_open,
# membarrier. Numbers of x86-64; the last two differ elsewhere.
NEWER_CALLS = [436, 438, 439, 449, 434, 324]


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def refuse_newer_calls():
    # the number of the call; skip one instruction unless it is this; the answer
    load, equal, give = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 0),
        *(
            step
            for number in NEWER_CALLS
            for step in ((equal, 0, 1, number), (give, 0, 0, 0x50001))
        ),
        (give, 0, 0, 0x7FFF0000),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(
        22, 2, struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no filter for system calls")


def run_tests(bin_dir, arguments=("--gtest_filter=-Edges.AnyAllocationMayFail",), **how):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(bin_dir)}
    return [
        name
        for name in TESTS
        if subprocess.run(
            [bin_dir / name, "--gtest_brief=1", *arguments], env=environment, **how
        ).returncode
    ]


def ordinary_user(bin_dir, scratch):
    if os.getuid():
        skip("this is an ordinary user already: all tests are such a test")
    for file in [
        *(bin_dir / name for name in TESTS),
        *(bin_dir.parent / "lib").glob("libsymm.so*"),
    ]:
        shutil.copy(file, scratch)  # the build may lie where nobody else can look
    shutil.chown(scratch, 65534, 65534)
    os.environ["TMPDIR"] = str(scratch)
    return run_tests(scratch, user=65534, group=65534, extra_groups=[])


def small_limits(bin_dir, _):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    # But those that need much, or set limits themselves.
    return run_tests(
        bin_dir,
        ["--gtest_filter=-Memory.AlignedAsAskedFor:Descriptors.*:Edges.*"],
        preexec_fn=limit,
    )


def old_container(bin_dir, _):
    if os.uname().machine != "x86_64":
        skip("the numbers of system calls are those of x86-64")
    return run_tests(bin_dir, preexec_fn=refuse_newer_calls)


def start_job(bin_dir, directory, name, timeout="20000"):
    common = {
        **os.environ,
        "SYMM_BOOTSTRAP": f"dir://{directory}",
        "SYMM_SIZE": "3",
        "SYMM_JOB": name,
        "SYMM_CREATE_TIMEOUT_MS": timeout,
        "SYMM_TIMEOUT_MS": timeout,
    }
    command = [bin_dir / "symm", "bench", "allreduce", "-b", "8", "-e", "64K", "-n", "20"]
    return [
        subprocess.Popen(command, env={**common, "SYMM_RANK": str(rank)}, stdout=subprocess.DEVNULL)
        for rank in range(3)
    ]


def two_jobs(bin_dir, scratch):
    ranks = [rank for name in "abcdef" for rank in start_job(bin_dir, scratch, name)]
    return [rank.args for rank in ranks if rank.wait(60)] + list(scratch.iterdir())


def full_disk(bin_dir, scratch):
    """A job ends, well or not, and leaves nothing, wherever the space or the inodes end."""
    bad = []
    for option in (
        "size=4k",
        "size=8k",
        "size=16k",
        "size=32k",
        "nr_inodes=2",
        "nr_inodes=5",
        "nr_inodes=9",
        "nr_inodes=12",
    ):
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"mode=0700,{option}", "tmpfs", scratch],
            capture_output=True,
        ).returncode:
            skip("this user may not mount a file system that can be full")
        try:
            ends = [rank.wait(60) for rank in start_job(bin_dir, scratch, option, "3000")]
            if len(set(ends)) > 1 or ends[0] not in (0, 1) or any(scratch.iterdir()):
                bad.append(f"{option}: statuses {ends}, left {list(scratch.rglob('*'))}")
        finally:
            subprocess.run(["umount", scratch], check=True)
    return bad


with tempfile.TemporaryDirectory() as folder:
    failed = globals()[sys.argv[1]](Path(sys.argv[2]), Path(folder))
print(f"failed: {failed}")
sys.exit(1 if failed else 0)
