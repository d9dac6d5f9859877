"""Ranks for tests: threads of one process, or programs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import uuid
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import symm
from symm import _raw as raw

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE = 60.0  # seconds; only a failing test takes that long
# Programs that import PyTorch or JAX and compile what they are given have taken two minutes on a
# busy machine.
PATIENCE_WITH_PROGRAMS = 300.0
OPTIONS = {"backend": "host", "timeout": 20, "create_timeout": 20}


def numpy_type(dtype):
    """NumPy's type of a DType; that of ml_dtypes if NumPy has none itself."""
    if dtype.descr:
        return np.dtype(dtype.descr)
    return np.dtype(dtype.long_name if dtype.format else getattr(ml_dtypes, dtype.long_name))


def on_threads(size, body):
    """The results of body(0), ..., body(size - 1), each on a thread.

    The first exception of a body is raised.
    """
    workers = ThreadPoolExecutor(size)
    ranks = [workers.submit(body, rank) for rank in range(size)]
    first = wait(ranks, PATIENCE, FIRST_EXCEPTION).done
    assert not wait(ranks, PATIENCE).not_done, "a rank hangs"
    for rank in first:
        rank.result()
    return [rank.result() for rank in ranks]


def functions_of(number):
    """The allocator functions of a pool: alloc(size, device, stream), free(piece, size, ...)."""
    library = ctypes.CDLL(raw.__file__)
    alloc = library[f"symm_pool_alloc_{number}"]
    alloc.restype = ctypes.c_void_p
    alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    free = library[f"symm_pool_free_{number}"]
    free.restype = None
    free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    return alloc, free


@pytest.fixture
def address(tmp_path):
    """A bootstrap address that no other test uses."""
    directory = tmp_path / "meeting"
    directory.mkdir(mode=0o700)
    return f"dir://{directory}"


@pytest.fixture
def threads():
    """threads(size, body): the results of body(group) on ranks that are threads."""

    def run(size, body, **options):
        place = f"thread://{uuid.uuid4()}"

        def one(rank):
            with symm.Group.join(rank, size, place, **(OPTIONS | options)) as group:
                return body(group)

        return on_threads(size, one)

    return run


@pytest.fixture
def alone():
    """A group of one rank."""
    with symm.Group.join(0, 1, f"thread://{uuid.uuid4()}", backend="host") as group:
        yield group


@pytest.fixture
def launch(tmp_path):
    """launch(size, *command): start programs as ranks. The result of each: (status, output)."""

    def run(size, *command):
        directory = tmp_path / "job"
        directory.mkdir(mode=0o700)
        programs = []
        for rank in range(size):
            environment = os.environ | {
                "SYMM_RANK": str(rank),
                "SYMM_SIZE": str(size),
                "SYMM_BOOTSTRAP": f"dir://{directory}",
                "SYMM_JOB": directory.name,
            }
            programs.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )

        try:
            outputs = [
                program.communicate(timeout=PATIENCE_WITH_PROGRAMS)[0] for program in programs
            ]
        finally:
            for program in programs:
                program.kill()

        return [
            (program.returncode, output) for program, output in zip(programs, outputs, strict=True)
        ]

    return run
