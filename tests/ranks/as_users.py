#!/usr/bin/env python3
"""Run tests in a situation of users: as_users.py <situation> <folder with programs>.

The exit status is 77, with a reason, if this machine cannot make the situation.
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
# System calls that older container runtimes do not know, and refuse by EPERM. The numbers are
# those of x86-64; the last two differ on other processors.
NEWER_CALLS = [
    436,  # close_range
    438,  # pidfd_getfd
    439,  # faccessat2
    449,  # futex_waitv
    434,  # pidfd_open
    324,  # membarrier
]

# Constants of <linux/filter.h> and <linux/seccomp.h>.
BPF_LD_W_ABS = 0x20
BPF_JMP_JEQ_K = 0x15
BPF_RET_K = 0x06
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_EPERM = 0x50001

# Constants of <sys/prctl.h>.
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def refuse_newer_calls():
    """Refuse the system calls by a filter of seccomp."""
    # Load the number of the call. For each refused number, skip the return unless it is equal.
    steps = [(BPF_LD_W_ABS, 0, 0, 0)]
    for number in NEWER_CALLS:
        steps.append((BPF_JMP_JEQ_K, 0, 1, number))
        steps.append((BPF_RET_K, 0, 0, SECCOMP_RET_EPERM))
    steps.append((BPF_RET_K, 0, 0, SECCOMP_RET_ALLOW))

    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    refused = libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if refused or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter for system calls")


def run_tests(bin_dir, arguments=("--gtest_filter=-Edges.AnyAllocationMayFail",), **options):
    """The programs that fail."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(bin_dir)}
    failed = []
    for name in TESTS:
        command = [bin_dir / name, "--gtest_brief=1", *arguments]
        if subprocess.run(command, env=environment, **options).returncode:
            failed.append(name)
    return failed


# ---- situations: each function returns what failed


def ordinary_user(bin_dir, scratch):
    if os.getuid():
        skip("this is an ordinary user already: all tests are such a test")
    # The other user may not be able to read the build, so the files are copied.
    for name in TESTS:
        shutil.copy(bin_dir / name, scratch)
    for library in (bin_dir.parent / "lib").glob("libsymm.so*"):
        shutil.copy(library, scratch)
    shutil.chown(scratch, 65534, 65534)
    os.environ["TMPDIR"] = str(scratch)
    return run_tests(scratch, user=65534, group=65534, extra_groups=[])


def small_limits(bin_dir, _):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    # Without the tests that need much memory or many blocks, or set limits themselves.
    chosen = (
        "--gtest_filter=-Memory.AlignedAsAskedFor:Descriptors.*:Edges.*"
        ":Bundle.IsAskedForOnceAndMappedOnce"
    )
    return run_tests(bin_dir, [chosen], preexec_fn=limit)


def old_container(bin_dir, _):
    if os.uname().machine != "x86_64":
        skip("the numbers of system calls are those of x86-64")
    return run_tests(bin_dir, preexec_fn=refuse_newer_calls)


def start_job(bin_dir, directory, name, timeout="20000"):
    """The three ranks of a job that meets in a directory."""
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
    """Wherever the space or the inodes end, all ranks end alike, and leave nothing."""
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
        mount = ["mount", "-t", "tmpfs", "-o", f"mode=0700,{option}", "tmpfs", scratch]
        if subprocess.run(mount, capture_output=True).returncode:
            skip("this user may not mount a file system that can be full")
        try:
            statuses = [rank.wait(60) for rank in start_job(bin_dir, scratch, option, "3000")]
            if len(set(statuses)) > 1 or statuses[0] not in (0, 1) or any(scratch.iterdir()):
                bad.append(f"{option}: statuses {statuses}, left {list(scratch.rglob('*'))}")
        finally:
            subprocess.run(["umount", scratch], check=True)

    return bad


def main(situation, bin_dir):
    with tempfile.TemporaryDirectory() as scratch:
        failed = globals()[situation](Path(bin_dir), Path(scratch))
    print(f"failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
