"""The drop-in for NCCL under the real PyTorch and its real NCCL, on a machine without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import symm

PROGRAM = """
import ctypes, json, torch
version = torch.cuda.nccl.version()
opened = ctypes.CDLL("libnccl.so.2")
opened.ncclGetLastError.restype = ctypes.c_char_p
code = ctypes.c_int()
assert opened.ncclGetVersion(ctypes.byref(code)) == 0
mapped = sorted({line.split()[-1] for line in open("/proc/self/maps") if "nccl.so" in line})
id = (ctypes.c_ubyte * 128)()
assert opened.ncclGetUniqueId(id) == 0
print(json.dumps({"version": version, "code": code.value, "mapped": mapped, "id": list(id),
                  "drop_in": hasattr(opened, "symm_nccl_marker")}))
"""


def drop_in():
    """libsymm_nccl.so beside the library that is under test."""
    symm.version()
    maps = Path("/proc/self/maps").read_text().split()
    folders = {Path(word).parent for word in maps if Path(word).name.startswith("libsymm.so")}
    for folder in folders:
        if (folder / "symm-nccl/libsymm_nccl.so").exists():
            return folder / "symm-nccl/libsymm_nccl.so"
    pytest.skip("libsymm_nccl.so is not beside libsymm.so")
    return None


def facts(**environment):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_pytorch_gets_the_drop_in_and_one_copy_of_its_own_nccl():
    """PyTorch leaves each function of its NCCL undefined: one that is missing fails its import."""
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_nccl_available():
        pytest.skip("this PyTorch was built without NCCL")
    shim = drop_in()
    plain = facts()
    got = facts(LD_PRELOAD=str(shim))
    assert not plain["drop_in"]
    assert got["drop_in"]
    assert got["version"] == plain["version"]
    assert got["code"] == plain["code"]
    # The folder may be found by another name of it.
    mapped = [os.path.realpath(file) for file in got["mapped"]]
    assert sorted(mapped) == sorted(
        [os.path.realpath(shim), *(os.path.realpath(file) for file in plain["mapped"])]
    )
    # What the drop-in adds to an id lies where NCCL has nothing.
    assert not any(plain["id"][96:])
    assert bytes(got["id"][96:104]) == b"symmncc1"
    assert not any(got["id"][64:96])
