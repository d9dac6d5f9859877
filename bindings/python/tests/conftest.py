"""Ranks for tests: forked processes, threads, or programs."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import threading
import time
import traceback
import uuid
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import symm

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE = 60.0  # bounds a failing test only
OPTIONS = {"backend": "host", "timeout": 20, "create_timeout": 20}


def numpy_type(dtype):
    return np.dtype(dtype.long_name if dtype.format else getattr(ml_dtypes, dtype.long_name))


def on_threads(size, body):
    """The results of body(0), ..., body(size - 1) on threads; the first exception of one is raised."""
    results, errors = [None] * size, []

    def one(rank):
        try:
            results[rank] = body(rank)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
        assert not worker.is_alive(), "a rank hangs"
    if errors:
        raise errors[0]
    return results


class Process:
    """A rank, forked from the test. What its body returned or raised comes back.

    It stays until the file `over` is there: a rank that left early would be what the others complain about.
    """

    def __init__(self, rank, body, over=None):
        self.rank = rank
        self.status = None
        self.pipe, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                answer = (True, body(rank))
            except BaseException:
                answer = (False, traceback.format_exc())
            data = pickle.dumps(answer)
            os.write(write_end, len(data).to_bytes(8, "little") + data)
            deadline = time.monotonic() + PATIENCE
            while over and not over.exists() and time.monotonic() < deadline:
                time.sleep(0.005)
            os._exit(0)
        os.close(write_end)

    def result(self):
        """What the body returned. A failure of the body, an early death and too long a wait fail the test."""
        deadline = time.monotonic() + PATIENCE
        size = int.from_bytes(self.read(8, deadline), "little")
        fine, answer = pickle.loads(self.read(size, deadline))
        if not fine:
            pytest.fail(f"rank {self.rank}:\n{answer}")
        return answer

    def read(self, size, deadline):
        data = b""
        while len(data) < size:
            if not select.select([self.pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                pytest.fail(f"rank {self.rank} took longer than {PATIENCE} s")
            piece = os.read(self.pipe, size - len(data))
            if not piece:
                pytest.fail(f"rank {self.rank} ended with wait status {self.reap()} and said nothing")
            data += piece
        return data

    def reap(self):
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]
            os.close(self.pipe)
        return self.status


@pytest.fixture
def address(tmp_path):
    """A bootstrap that nobody else uses."""
    directory = tmp_path / "meeting"
    directory.mkdir(mode=0o700)
    return f"dir://{directory}"


@pytest.fixture
def ranks(address, tmp_path):
    """ranks(size, body): the results of body(group) of all ranks, which are processes."""
    started, kept, over = [], [], tmp_path / "over"

    def start(size, body, **options):
        def run(rank):
            group = symm.Group.join(rank, size, address, **(OPTIONS | options))
            kept.append(group)
            return body(group)

        processes = [Process(rank, run, over) for rank in range(size)]
        started.extend(processes)
        return [process.result() for process in processes]

    yield start
    over.touch()
    for process in started:
        process.reap()


@pytest.fixture
def threads():
    """threads(size, body): the results of body(group) of ranks that are threads of this process."""

    def run(size, body, **options):
        place = f"thread://{uuid.uuid4()}"

        def one(rank):
            with symm.Group.join(rank, size, place, **(OPTIONS | options)) as group:
                return body(group)

        return on_threads(size, one)

    return run


@pytest.fixture
def alone():
    """A group of this process alone."""
    with symm.Group.join(0, 1, f"thread://{uuid.uuid4()}", backend="host") as group:
        yield group


@pytest.fixture
def launch(tmp_path):
    """launch(size, *command): (status, output) of each of the programs started as ranks."""

    def run(size, *command, patience=PATIENCE):
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
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
        try:
            outputs = [program.communicate(timeout=patience)[0] for program in programs]
        finally:
            for program in programs:
                program.kill()
        return [(program.returncode, output) for program, output in zip(programs, outputs, strict=True)]

    return run
