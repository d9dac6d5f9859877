"""Groups: how they are formed, what they refuse, and
that nothing hangs and the exception names the rank.
"""

import copy
import fcntl
import math
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from conftest import OPTIONS, on_threads

import symm


def test_a_new_group_says_who_its_ranks_are(threads):
    def body(group):
        info = group.info()
        assert (info.rank, info.size, info.backend) == (group.rank, group.size, symm.Backend.HOST)
        assert info.channels == 64
        assert group.status() == symm.GroupStatus(symm.Status.OK, -1, 0, "")
        assert group.status().ok
        return group.rank, info.id, info.name

    ranks, ids, names = zip(*threads(3, body, name="a name"), strict=True)
    assert ranks == (0, 1, 2)
    assert len(set(ids)) == 1
    assert set(names) == {"a name"}


def test_a_context_closes_the_group(threads):
    def body(group):
        with group:
            group.barrier()
        assert group.closed

    threads(2, body)


def test_an_exception_in_a_context_aborts_the_group(threads):
    def body(group):
        if group.rank == 1:
            with pytest.raises(OSError, match="lost"), group:
                raise OSError("lost \udcff")
        else:
            with pytest.raises(symm.AbortedError, match=r"OSError: lost \\udcff") as caught:
                group.barrier()
            assert caught.value.rank == 1
            group.close()

    threads(2, body)


def test_a_closed_group_refuses(alone):
    group = symm.Group.join(0, 1, f"thread://{uuid.uuid4()}", backend="host")
    assert "rank 0 of 1" in repr(group)
    group.close()
    group.close()
    assert group.closed
    assert "closed" in repr(group)
    for call in (
        group.info,
        group.status,
        group.barrier,
        lambda: group.alloc(64),
        lambda: group.split(0),
    ):
        with pytest.raises(symm.InvalidHandleError, match="group: it was closed"):
            call()
    alone.barrier()


def test_handles_cannot_be_copied(alone):
    buffer = alone.alloc(64)
    for thing in (alone, buffer, alone.empty(3)):
        with pytest.raises(TypeError):
            copy.copy(thing)
        with pytest.raises(TypeError):
            copy.deepcopy(thing)
    with pytest.raises(TypeError):
        pickle.dumps(alone)


def test_kinds_of_memory(alone):
    buffer = alone.alloc(4096, host=True)
    with pytest.raises(symm.UnavailableError, match="DMA-BUF"):
        buffer.export_dmabuf()
    with pytest.raises(symm.InvalidArgumentError, match="offset"):
        buffer.export_dmabuf(8)
    with pytest.raises(symm.UnsupportedError, match="pointer"):
        alone.adopt(buffer.pointer, 16)
    try:
        assert alone.alloc(64, host=True, node=0).nbytes == 64
    except symm.UnavailableError as error:
        assert "mbind" in str(error)
    for arguments in ({"node": 0}, {"host": True, "node": 65534}, {"host": True, "node": -1}):
        with pytest.raises(symm.InvalidArgumentError):
            alone.alloc(64, **arguments)
    info = symm.device_info(backend="host")
    assert (info.host_memory, info.numa_node, info.host_memory_reason) == (True, -1, "")


def test_more_memory_than_there_is_is_a_memory_error(alone):
    with pytest.raises(MemoryError, match="bytes"):
        alone.alloc(2**60)


def test_bad_configurations():
    for named, options in [
        ("unknown backend 'tpu'; expected one of auto, host, cuda", {"backend": "tpu"}),
        ("timeout: -1 ", {"timeout": -1}),
        ("timeout: nan ", {"timeout": math.nan}),
        (r"rank: 5 is not in 0 \.\. 0", {"rank": 5}),
    ]:
        with pytest.raises(symm.SymmError, match=f"^{named}"):
            symm.Group.join(**{"rank": 0, "size": 1, "address": "thread://x"} | options)


class DictStore:
    """A store for threads."""

    def __init__(self):
        self.values = {}
        self.change = threading.Condition()

    def set(self, key, value, timeout):
        assert isinstance(value, bytes)
        assert timeout > 0
        with self.change:
            assert key not in self.values
            self.values[key] = value
            self.change.notify_all()

    def get(self, key, timeout):
        with self.change:
            if not self.change.wait_for(lambda: key in self.values, timeout):
                raise TimeoutError(key)
            return self.values[key]


def met(group):
    with group:
        group.finalize(20)  # which the context then need not
        return group.rank, group.size


def test_from_store():
    store = DictStore()
    answers = on_threads(3, lambda rank: met(symm.Group.from_store(store, rank, 3, **OPTIONS)))
    assert answers == [(0, 3), (1, 3), (2, 3)]


def get_that_raises(key, timeout):
    raise KeyError(f"{key} is gone")


def get_that_returns_no_bytes(key, timeout):
    return None


@pytest.mark.parametrize(
    ("get", "cause", "text"),
    [(get_that_raises, KeyError, "is gone"), (get_that_returns_no_bytes, TypeError, "NoneType")],
)
def test_an_exception_of_a_store_is_the_cause(get, cause, text):
    store = DictStore()
    store.get = get
    with pytest.raises(symm.SystemCallError) as caught:
        symm.Group.from_store(store, 0, 2, backend="host", create_timeout=2)
    assert isinstance(caught.value.__cause__, cause)
    assert text in str(caught.value.__cause__)


class LikeTorch(DictStore):
    """What torch.distributed.Store has, as far as it is used."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def add(self, key, amount):
        self.counts[key] += amount
        return self.counts[key]

    def set(self, key, value):
        super().set(key, value, 1)

    def wait(self, keys, limit):
        try:
            for key in keys:
                super().get(key, limit.total_seconds())
        except TimeoutError:
            raise RuntimeError("wait timeout after 300ms") from None

    def get(self, key):
        return super().get(key, 1)


def test_from_torch_twice_on_one_store():
    store = LikeTorch()
    for _ in range(2):  # a key is set once, so the second creation must use others
        answers = on_threads(
            2, lambda rank: met(symm.Group.from_torch(store, rank, 2, name="of torch", **OPTIONS))
        )
        assert answers == [(0, 2), (1, 2)]
    assert {key.split("/")[0] for key in store.values} == {"symm"}


@pytest.mark.parametrize(
    ("create", "store"), [(symm.Group.from_store, DictStore), (symm.Group.from_torch, LikeTorch)]
)
def test_a_store_that_never_answers_is_a_timeout(create, store):
    with pytest.raises(symm.DeadlineError, match="rank 1"):
        create(store(), 0, 2, backend="host", create_timeout=0.3)


def like_mpi(rank, size, shared, barrier):
    """What an mpi4py communicator has, as far as it is used, for threads."""

    def bcast(value, root):
        if rank == root:
            shared.append(value)
        barrier.wait(20)
        return shared[0]

    return SimpleNamespace(
        Get_rank=lambda: rank, Get_size=lambda: size, bcast=bcast, Barrier=lambda: barrier.wait(20)
    )


def test_from_mpi(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared, barrier = [], threading.Barrier(2)
    answers = on_threads(
        2, lambda rank: met(symm.Group.from_mpi(like_mpi(rank, 2, shared, barrier), **OPTIONS))
    )
    assert answers == [(0, 2), (1, 2)]
    assert list(tmp_path.iterdir()) == [], "the directory is gone"


MPI_PROGRAM = """
import symm
with symm.Group.from_mpi(backend="host", create_timeout=20) as group:
    array = group.empty(4)
    array.fill(1)
    group.allreduce(array)
    assert (memoryview(array).tolist(), group.size) == ([2.0] * 4, 2)
"""


def test_mpi4py():
    pytest.importorskip("mpi4py")
    mpirun = shutil.which("mpirun") or pytest.skip("no mpirun")
    version = subprocess.run(
        [mpirun, "--version"], capture_output=True, text=True, check=False
    ).stdout
    options = (
        ["--allow-run-as-root", "--oversubscribe"]
        if "Open MPI" in version or "OpenRTE" in version
        else []
    )
    command = [mpirun, *options, "-n", "2", sys.executable, "-c", MPI_PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_waiting_gives_up_the_interpreter_lock(threads):
    ticks = []

    def body(group):
        if group.rank == 0:
            for _ in range(20):  # impossible while rank 1 holds the lock
                time.sleep(0.005)
                ticks.append(time.monotonic())
        group.barrier()

    threads(2, body)
    assert len(ticks) == 20


def test_abort_on_another_thread_ends_a_wait(threads):
    def body(group):
        array = group.empty(16)
        if group.rank == 0:
            timer = threading.Timer(0.05, group.abort, ["enough"])
            timer.start()
            with pytest.raises(symm.AbortedError, match="enough"):
                array.wait_signal(1)
            timer.join()
        else:
            with pytest.raises(symm.AbortedError, match="enough"):
                array.wait_signal(0)
        group.close()

    threads(2, body)


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("tag: -1", lambda group, buffer: group.rendezvous(buffer, -1)),
        ("channels: 2147483648", lambda group, buffer: group.rendezvous(buffer, channels=2**31)),
        ("size: -5", lambda group, _: group.alloc(-5)),
        ("alignment: 18446744073709551616", lambda group, _: group.alloc(64, alignment=2**64)),
        ("rank: 4294967296", lambda group, _: group.peer_info(2**32)),
        ("ranks: -3000000000", lambda group, _: group.barrier([-3000000000])),
        ("channel: -2147483649", lambda group, _: group.barrier(channel=-(2**31) - 1)),
        ("address: -1", lambda group, _: group.find(-1)),
    ],
)
def test_integers_that_no_parameter_holds(alone, said, call):
    with pytest.raises(symm.InvalidArgumentError, match=said):
        call(alone, alone.alloc(64))
    with pytest.raises(TypeError):
        alone.alloc(6.5)


def test_adopts_a_memfd(alone):
    fd = os.memfd_create("theirs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(fd, 8192)
    with pytest.raises(symm.InvalidArgumentError, match="F_SEAL_SHRINK"):
        alone.adopt(None, 64, fd=fd)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    array = alone.from_buffer(alone.adopt(None, 4000, fd=fd, offset=4096))
    array.numpy()[:3] = (5, 6, 7)
    assert os.pread(fd, 3, 4096) == bytes((5, 6, 7))
    os.close(fd)


def test_a_star_gives_the_public_names():
    names = {}
    exec("from symm import *", names)
    assert {"Group", "f32", "InvalidArgumentError"} <= names.keys()
    assert not [name for name, value in names.items() if isinstance(value, ModuleType)]


def test_messages_belong_to_the_thread_of_the_call(threads):
    def body(group):
        array = group.empty(16)
        for i in range(200):
            wrong = 100 * (group.rank + 1) + i
            with pytest.raises(symm.InvalidArgumentError, match=f"rank: {wrong} "):
                array.signal(wrong)

    threads(4, body)


def test_many_threads_on_one_group(alone):
    array = alone.empty(1024)

    def work(number):
        for _ in range(50):
            part = array[number * 8 : number * 8 + 8]
            part.put(np.full(8, number, np.float32), 0, signal=number)
            part.wait_signal(0, number)
            assert (part.numpy() == number).all()
            alone.empty(4)

    on_threads(8, work)


KILLED_PEER = """
import os, signal, sys
import numpy as np
import symm

calls = {
    "allreduce": lambda group, array: group.allreduce(array),
    "allgather": lambda group, array: group.allgather(array, np.empty(3072, np.float32)),
    "wait_signal": lambda group, array: array.wait_signal(2),
    "rendezvous": lambda group, array: group.empty(64),
    "split": lambda group, array: group.split(0),
    "finalize": lambda group, array: group.finalize(),
}
group = symm.Group.from_env(backend="host", timeout=20, create_timeout=20)
array = group.empty(1024)
if group.rank == 2:
    array.wait_signal(0, 1)
    array.wait_signal(1, 1)
    print(os.getpid(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
array.signal(2, 1)
try:
    calls[sys.argv[1]](group, array)
except symm.PeerFailedError as error:
    status = group.status()
    assert "rank 2" in str(error)
    assert (error.rank, error.status) == (2, symm.Status.PEER_FAILED)
    assert (status.failed_rank, status.status, status.ok) == (2, symm.Status.PEER_FAILED, False)
    assert error.pid == status.failed_pid
    print(error.pid)
"""


@pytest.mark.parametrize(
    "call", ["allreduce", "allgather", "wait_signal", "rendezvous", "split", "finalize"]
)
def test_a_killed_peer_is_named_with_its_process(launch, call):
    first, second, third = launch(3, sys.executable, "-c", KILLED_PEER, call)
    status, killed = third
    assert status == -signal.SIGKILL
    assert first == second == (0, killed)


def test_survivors_go_on(threads):
    def body(group):
        readable = lambda: select.select([group.failure_fd()], [], [], 0)[0]  # noqa: E731
        assert not readable()
        group.barrier()
        if group.rank == 1:
            group.abort("enough")
        else:
            select.select([group.failure_fd()], [], [], 20)
        with pytest.raises(symm.AbortedError):
            group.barrier(channel=1)
        assert readable()
        assert group.failed_ranks() == []
        with group.shrink(name="rest") as rest:
            assert (rest.rank, rest.size, rest.info().name) == (group.rank, 3, "rest")
            ones = np.ones(4, np.float32)
            rest.allreduce(ones)
            assert ones.tolist() == [3] * 4
            assert rest.stats().collective_calls[symm.Collective.ALLREDUCE] == 1
            part = rest.create_from_ranks([2, 0]) if rest.rank != 1 else None
            if part is not None:
                assert [rest.translate_rank(part, rank) for rank in range(2)] == [2, 0]
                assert part.translate_rank(rest, 1) is None
                part.close()
            peer = rest.peer_info(1)
            assert peer.alive
            assert peer.backend is symm.Backend.HOST
        group.close()
        return peer.machine

    assert len(set(threads(3, body))) == 1
