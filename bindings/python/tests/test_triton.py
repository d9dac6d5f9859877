"""Kernels of Triton, in Triton's interpreter, with the fake CUDA driver whose memory is the host's.

    SYMM_TEST_FAKES=<build>/tests/fake_cuda python -m pytest tests/test_triton.py

Every test starts two ranks that are programs, `test_triton.py <case>`. What these kernels do on a
GPU, test_gpu.py says.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
import threading
import time
from pathlib import Path

import pytest

import symm

SIZE = 2
FAKES = Path(os.environ.get("SYMM_TEST_FAKES", "none"))
REASON = "" if (FAKES / "lib").is_dir() else "no fake CUDA driver (bindings/python/dev doors)"
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON or "-")


# ---- the programs of the ranks: each function rank_<case>() is a case


def rank_hand_on(group):
    """Puts, signals and barriers."""
    import torch
    import triton_kernels as kernels

    import symm.triton as st

    memory = group.empty(64 * 1024).memory
    peer = 1 - group.rank
    trouble = torch.zeros(8, dtype=torch.int32)
    got = torch.zeros(1024)
    rounds = torch.zeros(1, dtype=torch.int64)

    for _ in range(20):
        kernels.hand_on[(1,)](st.view(memory), rounds, got, trouble)
    assert (rounds.item(), trouble.tolist()) == (20, [0] * 8)
    assert torch.equal(got, torch.arange(1024) + 19.0 + peer)


def rank_host(group):
    """A kernel takes what the host signalled, one in each program, and the reverse."""
    import torch
    import triton_kernels as kernels

    import symm.triton as st

    memory = group.empty(64 * 1024).memory
    peer = 1 - group.rank
    view = st.view(memory)
    trouble = torch.zeros(8, dtype=torch.int32)

    memory.signal(peer, 5)
    memory.signal(peer, 5)
    kernels.take[(2,)](view, 5, trouble)
    kernels.send[(1,)](view, 6)
    memory.wait_signal(peer, 6)
    assert trouble.tolist() == [0] * 8
    wait_for(lambda: (memory.test_signal(peer, 5), memory.test_signal(peer, 6)) == (0, 0))


def rank_comparisons(group):
    """All comparisons of signal values, which are unsigned, and barriers on many channels."""
    import torch
    import triton_kernels as kernels

    import symm.triton as st

    memory = group.empty(64 * 1024).memory
    view = st.view(memory)
    trouble = torch.zeros(8, dtype=torch.int32)
    sums = torch.zeros(4)

    for _ in range(10):
        kernels.meet[(4,)](view, sums, trouble)
    kernels.compare[(1,)](view, trouble)
    assert trouble.tolist() == [0] * 8
    assert sums.tolist() == [10.0 * (10 * (1 - group.rank) + program) for program in range(4)]


def rank_waits_that_end(group):
    """Waits that end by a deadline or by the stop word take nothing."""
    import torch
    import triton_kernels as kernels

    import symm.triton as st

    memory = group.empty(64 * 1024).memory
    peer = 1 - group.rank
    trouble = torch.zeros(1, dtype=torch.int32)

    begin = time.monotonic()
    kernels.take[(1,)](st.view(memory, timeout=0.5), 7, trouble)
    assert trouble.item() == peer << 8 | 1
    assert time.monotonic() - begin >= 0.5

    stop = torch.zeros(1, dtype=torch.int32)
    threading.Timer(0.5, lambda: stop.fill_(1)).start()
    kernels.take[(1,)](st.view(memory, timeout=math.inf, stop=stop.data_ptr()), 7, trouble)
    assert trouble.item() == peer << 8 | 2

    meet(memory, peer)
    memory.signal(peer, 7)
    memory.wait_signal(peer, 7)


def rank_example(group):
    """The kernel of examples/all_gather_matmul.py gathers all rows and multiplies them."""
    import torch

    sys.path.append(str(Path(__file__).parents[1] / "examples"))
    import all_gather_matmul as example

    import symm.triton as st

    rows, k_size, columns = example.TILE_ROWS, 2 * example.DEPTH, example.TILE_COLUMNS
    memory = group.empty((SIZE * rows, k_size), "f32").memory
    raw = (ctypes.c_float * (SIZE * rows * k_size)).from_address(memory.pointer())
    x = torch.frombuffer(raw, dtype=torch.float32).view(SIZE * rows, k_size)
    everything = torch.arange(x.numel()).remainder(7).float().view_as(x)
    mine = slice(group.rank * rows, (group.rank + 1) * rows)
    x[mine] = everything[mine]
    meet(memory, 1 - group.rank)

    w = torch.arange(k_size * columns).remainder(5).float().view(k_size, columns)
    y = torch.empty(len(x), columns)
    trouble = torch.zeros(1, dtype=torch.int32)
    grid = (example.PUSHERS + SIZE * columns // example.TILE_COLUMNS,)
    example.gather_matmul[grid](
        st.view(memory),
        w,
        y,
        trouble,
        1,
        rows,
        k_size,
        columns,
        example.TILE_ROWS,
        example.TILE_COLUMNS,
        example.DEPTH,
        example.PUSHERS,
    )
    assert trouble.item() == 0
    assert torch.equal(y, everything @ w)
    meet(memory, 1 - group.rank)


def rank_memory_out_of_reach(group):
    """Memory that the processor cannot read, as that of a GPU, is refused without a crash."""
    import symm.triton as st

    memory = group.empty(64 * 1024).memory
    libc = ctypes.CDLL(None, use_errno=True)
    page = ctypes.c_void_p(memory.pointer() & ~(mmap.PAGESIZE - 1))
    st.view(memory)
    assert libc.mprotect(page, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    with pytest.raises(symm.UnsupportedError, match="cannot reach this memory of a GPU"):
        st.view(memory)
    assert libc.mprotect(page, ctypes.c_size_t(mmap.PAGESIZE), PROT_BOTH) == 0


PROT_BOTH = mmap.PROT_READ | mmap.PROT_WRITE


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def meet(memory, peer):
    """A barrier of the two, by signals: the fake driver only records kernels of collectives."""
    memory.signal(peer, 30)
    memory.wait_signal(peer, 30)
    wait_for(lambda: memory.test_signal(peer, 30) == 0)


# ---- starting them

CASES = [name.removeprefix("rank_") for name in list(globals()) if name.startswith("rank_")]


@pytest.mark.parametrize("name", CASES)
def test_a_case_runs_on_two_ranks_in_the_interpreter(name, launch, monkeypatch):
    for package in ("torch", "triton"):
        pytest.importorskip(package)
    # The programs find the fake driver, and PyTorch none that it would ask.
    monkeypatch.setenv("SYMM_LIB", str(FAKES / "symm" / "libsymm.so"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(FAKES / "lib"))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for status, output in launch(SIZE, sys.executable, str(Path(__file__)), name):
        assert status == 0, output


if __name__ == "__main__":
    made = symm.Group.from_env(
        timeout=60, create_timeout=120, backend="cuda", device=int(os.environ["SYMM_RANK"])
    )
    globals()["rank_" + sys.argv[1]](made)
    made.finalize()
