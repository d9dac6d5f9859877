# SPDX-License-Identifier: Apache-2.0
"""Ranks for tests: forked processes, threads, or programs."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid
from pathlib import Path

import pytest

import symm

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE = 60.0  # bounds a failing test only


class Process:
    """A rank, forked from the test, with what its body returned or raised."""

    def __init__(self, rank, body):
        self.rank = rank
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read_end)
            try:
                answer = (True, body(rank))
            except BaseException:
                answer = (False, traceback.format_exc())
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(answer, pipe)
            os._exit(0 if answer[0] else 1)
        os.close(write_end)
        self.pipe = read_end
        self.status = None

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def result(self, patience=PATIENCE):
        """What the body returned. A failure of the body, an early death and too long a wait fail the test."""
        data, deadline = b"", time.monotonic() + patience
        while select.select([self.pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(self.pipe, 1 << 16)
            if not piece:
                break
            data += piece
        else:
            self.kill()
            pytest.fail(f"rank {self.rank} took longer than {patience} s")
        self.reap()
        if not data:
            pytest.fail(f"rank {self.rank} ended with wait status {self.status} and said nothing")
        fine, answer = pickle.loads(data)
        if not fine:
            pytest.fail(f"rank {self.rank}:\n{answer}")
        return answer

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
def fork(address):
    """fork(size, body): processes that run body(group); None for a rank whose fate the test knows."""
    started = []

    def start(size, body, **options):
        settings = {"backend": "host", "timeout": 20, "create_timeout": 20} | options

        def run(rank):
            group = symm.Group.join(rank, size, address, **settings)
            answer = body(group)
            if not group.closed and group.status().ok:
                group.finalize()
            return answer

        processes = [Process(rank, run) for rank in range(size)]
        started.extend(processes)
        return processes

    yield start
    for process in started:
        if process.status is None:
            process.kill()
            process.reap()


@pytest.fixture
def ranks(fork):
    """ranks(size, body): the results of body(group) of all ranks."""

    def run(size, body, **options):
        return [process.result() for process in fork(size, body, **options)]

    return run


@pytest.fixture
def threads():
    """threads(size, body): the results of body(group) of ranks that are threads of this process."""

    def run(size, body, **options):
        place = f"thread://{uuid.uuid4()}"
        results, errors = [None] * size, []

        def one(rank):
            try:
                with symm.Group.join(
                    rank, size, place, **({"backend": "host", "timeout": 20, "create_timeout": 20} | options)
                ) as group:
                    results[rank] = body(group)
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
