"""Groups: how they are formed and closed, what they refuse, and how they fail."""

import copy
import fcntl
import inspect
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
from symm import group as group_module


def test_a_new_group_says_who_its_ranks_are(threads):
    def body(group):
        info = group.info()
        assert (info.rank, info.size, info.backend) == (group.rank, group.size, symm.Backend.HOST)
        assert info.channels == 64
        assert group.status() == symm.Failure(symm.Status.OK, -1, 0, 0, 0, "")
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


@pytest.mark.parametrize("code", [None, 0])
def test_a_regular_exit_in_a_context_is_its_regular_end(address, code):
    ended = []

    def leave(rank):
        with symm.Group.join(rank, 2, address, **OPTIONS):
            if rank == 0:
                time.sleep(0.3)  # the other rank waits meanwhile
                ended.append(rank)
            sys.exit(code)

    def run(rank):
        with pytest.raises(SystemExit):
            leave(rank)
        assert ended == [0]

    on_threads(2, run)


@pytest.mark.parametrize("code", [3, "text"])
def test_another_exit_in_a_context_aborts_the_group(address, code):
    def leave(rank):
        with symm.Group.join(rank, 2, address, **OPTIONS) as group:
            if rank:
                sys.exit(code)
            group.barrier()

    def run(rank):
        raised = SystemExit if rank else symm.AbortedError
        with pytest.raises(raised, match=str(code) if rank else f"SystemExit: {code}"):
            leave(rank)

    on_threads(2, run)


def test_an_exception_in_a_context_aborts_the_group(threads):
    # Names of files may have surrogates, which are no UTF-8.
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


def test_a_group_can_be_closed_twice_and_shows_it():
    group = symm.Group.join(0, 1, f"thread://{uuid.uuid4()}", backend="host")
    assert "rank 0 of 1" in repr(group)
    group.close()
    group.close()
    assert group.closed
    assert "closed" in repr(group)


@pytest.mark.parametrize(
    "call",
    [
        lambda group: group.info(),
        lambda group: group.status(),
        lambda group: group.barrier(),
        lambda group: group.alloc(64),
        lambda group: group.split(0),
    ],
    ids=["info", "status", "barrier", "alloc", "split"],
)
def test_a_closed_group_refuses_calls_and_others_work(alone, call):
    group = symm.Group.join(0, 1, f"thread://{uuid.uuid4()}", backend="host")
    group.close()
    with pytest.raises(symm.InvalidHandleError, match="group: it was closed"):
        call(group)
    alone.barrier()


@pytest.mark.parametrize(
    "make",
    [lambda group: group, lambda group: group.alloc(64), lambda group: group.empty(3)],
    ids=["group", "buffer", "array"],
)
def test_what_owns_a_handle_cannot_be_copied(alone, make):
    owner = make(alone)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            duplicate(owner)


# ---- memory


def test_host_memory_has_no_dmabuf_and_is_not_adopted_by_address(alone):
    buffer = alone.alloc(4096, host=True)
    with pytest.raises(symm.UnavailableError, match="DMA-BUF"):
        buffer.export_dmabuf()
    with pytest.raises(symm.InvalidArgumentError, match="offset"):
        buffer.export_dmabuf(8)
    with pytest.raises(symm.UnsupportedError, match="pointer"):
        alone.adopt(buffer.pointer, 16)


def test_memory_of_a_node_can_be_had_or_mbind_is_named(alone):
    try:
        assert alone.alloc(64, host=True, node=0).info().numa_node == 0
        assert alone.alloc(64, node=0).info().numa_node == 0
    except symm.UnavailableError as error:
        assert "mbind" in str(error)
    info = symm.device_info(backend="host")
    assert (info.host_memory, info.numa_node, info.host_memory_reason) == (True, -1, "")


@pytest.mark.parametrize(
    "options", [{"node": 65534}, {"host": True, "node": 65534}, {"host": True, "node": -1}]
)
def test_a_wrong_node_is_refused(alone, options):
    with pytest.raises(symm.InvalidArgumentError):
        alone.alloc(64, **options)


def test_buffers_memories_and_heaps_know_what_they_belong_to(alone):
    number = alone.info().id
    buffer = alone.alloc(64)
    assert buffer.group.info().id == number
    memory = alone.rendezvous(buffer)
    assert memory.group is alone
    assert (memory.buffer.pointer, memory.buffer.nbytes) == (buffer.pointer, 64)
    assert alone.heap(4096).group is alone
    found, _ = symm.find_buffer(buffer.pointer)
    assert found.group.info().id == number
    assert buffer.info().flags == symm.BufferFlag.HOST


def test_a_buffer_does_not_keep_its_group():
    group = symm.Group.join(0, 1, f"thread://{uuid.uuid4()}", backend="host")
    buffer = group.alloc(64)
    group.close()
    assert buffer.group is None


def test_more_memory_than_there_is_is_a_memory_error(alone):
    with pytest.raises(MemoryError, match="bytes"):
        alone.alloc(2**60)


def test_a_sealed_memfd_is_adopted(alone):
    fd = os.memfd_create("theirs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(fd, 8192)
    with pytest.raises(symm.InvalidArgumentError, match="F_SEAL_SHRINK"):
        alone.adopt(None, 64, fd=fd)

    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    array = alone.from_buffer(alone.adopt(None, 4000, fd=fd, offset=4096))
    array.numpy()[:3] = (5, 6, 7)
    assert os.pread(fd, 3, 4096) == bytes((5, 6, 7))
    os.close(fd)


# ---- how groups are formed


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("unknown backend 'tpu'; expected one of auto, host, cuda", {"backend": "tpu"}),
        ("timeout: -1 ", {"timeout": -1}),
        ("timeout: nan ", {"timeout": math.nan}),
        (r"rank: 5 is not in 0 \.\. 0", {"rank": 5}),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(named, options):
    with pytest.raises(symm.SymmError, match=f"^{named}"):
        symm.Group.join(**{"rank": 0, "size": 1, "bootstrap": "thread://x"} | options)


@pytest.mark.parametrize("device", [999, "cuda:999", -1])
def test_a_device_asks_for_cuda(device):
    place = f"thread://{uuid.uuid4()}"
    with pytest.raises(symm.SymmError) as automatic:
        symm.Group.join(0, 1, place, device=device)
    with pytest.raises(symm.SymmError) as explicit:
        symm.Group.join(0, 1, place, device=device, backend="cuda")
    assert type(automatic.value) is type(explicit.value)
    assert str(automatic.value) == str(explicit.value)


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("timeout", lambda group, _: group.finalize(timeout=0)),
        ("timeout", lambda group, _: group.split(0, timeout=0)),
        ("create_timeout", lambda group, _: group.local(create_timeout=0)),
        ("group_timeout", lambda group, _: group.shrink(group_timeout=0)),
        ("timeout", lambda group, _: group.create_from_ranks([0], timeout=0)),
        ("timeout", lambda group, _: group.heap(64, timeout=0)),
        ("timeout", lambda group, _: group.rendezvous(group.alloc(64), timeout=0)),
        ("timeout", lambda _, array: array.put(0, bytes(4), timeout=0)),
        ("timeout", lambda _, array: array.signal(0, timeout=0)),
        ("timeout", lambda group, array: group.allreduce(array, timeout=0)),
        ("timeout", lambda *_: symm.Group.join(0, 1, "thread://x", timeout=0)),
        ("create_timeout", lambda *_: symm.Group.join(0, 1, "thread://x", create_timeout=0)),
    ],
)
def test_what_cannot_only_look_says_so_in_the_words_of_python(alone, named, call):
    with pytest.raises(symm.InvalidArgumentError, match=f"^(?:[a-z_]+: )?{named}: 0, ") as caught:
        call(alone, alone.empty(4))
    assert "SYMM_" not in str(caught.value)
    assert "_ms" not in str(caught.value)


def test_a_look_takes_nothing(alone):
    array = alone.empty(4)
    alone.barrier(timeout=0)
    with pytest.raises(symm.TimeoutError):
        array.wait_signal(0, timeout=0)
    array.signal(0)
    array.wait_signal(0, timeout=0)
    array.withdraw(timeout=0)


FLAG = symm.GroupFlag


@pytest.mark.parametrize(
    ("variable", "value", "option", "flag", "opposite"),
    [
        ("SYMM_CHECK", "1", "check", FLAG.CHECK, FLAG.NO_CHECK),
        ("SYMM_ORDER", "any", "any_order", FLAG.ANY_ORDER, FLAG.RANK_ORDER),
        ("SYMM_ORDER", "tree", "tree_order", FLAG.TREE_ORDER, FLAG.RANK_ORDER),
        ("SYMM_MULTICAST", "1", "multicast", FLAG.MULTICAST, FLAG.NO_MULTICAST),
    ],
)
def test_a_program_decides_or_leaves_it_to_the_environment(
    monkeypatch, variable, value, option, flag, opposite
):
    def flags(**options):
        with symm.Group.join(0, 1, "thread://x", backend="host", **options) as group:
            return group.info().flags & (flag | opposite)

    monkeypatch.delenv(variable, raising=False)
    assert flags() == 0
    assert flags(**{option: None}) == 0
    assert flags(**{option: True}) == flag
    assert flags(**{option: False}) == opposite
    monkeypatch.setenv(variable, value)
    assert flags() == flag
    assert flags(**{option: False}) == opposite


def test_a_group_takes_the_variables_at_load_where_it_is_asked_to(monkeypatch):
    def flags(**options):
        with symm.Group.join(0, 1, "thread://x", backend="host", **options) as group:
            return group.info().flags

    before = flags(variables_at_load=True)
    assert before & FLAG.ANY_ORDER == 0
    monkeypatch.setenv("SYMM_ORDER", "any")
    assert flags(variables_at_load=True) == before
    assert flags() == before | FLAG.ANY_ORDER


def test_an_order_that_is_asked_for_goes_before_one_that_is_not_wanted():
    def flags(**options):
        with symm.Group.join(0, 1, "thread://x", backend="host", **options) as group:
            return group.info().flags

    assert flags(any_order=True, tree_order=False) == FLAG.ANY_ORDER
    assert flags(any_order=False, tree_order=True) == FLAG.TREE_ORDER
    assert flags(any_order=False, tree_order=False) == FLAG.RANK_ORDER
    with pytest.raises(symm.InvalidArgumentError, match="contradict each other"):
        flags(any_order=True, tree_order=True)


WITHOUT_OPPOSITE = ("overlapping_devices", "shared_scratch", "same_offsets")


def test_flags_that_no_variable_sets_are_off_unless_they_are_asked_for():
    """No flag of the header forbids these, so a group of its own has two states of each."""
    forbidding = {flag.name for flag in FLAG if flag.name.startswith(("NO_", "RANK_"))}
    assert forbidding == {"NO_CHECK", "NO_MULTICAST", "RANK_ORDER"}

    parameters = inspect.signature(symm.Group.join).parameters
    tri_state = {name for name in group_module._FLAGS if parameters[name].default is None}
    assert tri_state == {"check", "multicast", "any_order", "tree_order"}
    assert set(group_module._FLAGS) - tri_state == set(WITHOUT_OPPOSITE)
    assert all(parameters[name].default is False for name in WITHOUT_OPPOSITE)


# Groups of the host cannot share scratch.
@pytest.mark.parametrize("option", ["overlapping_devices", "same_offsets"])
def test_a_part_inherits_such_a_flag_unless_it_is_told_not_to(threads, option):
    def body(group):
        flag = FLAG[option.upper()]
        for value, expected in ((None, flag), (True, flag), (False, 0)):
            with group.split(0, **{option: value}) as part:
                assert part.info().flags & flag == expected

    threads(2, body, **{option: True})


def test_a_group_tells_its_timeouts(threads):
    def body(group):
        info = group.info()
        assert (info.timeout, info.create_timeout) == (math.inf, 20)

    threads(2, body, timeout=math.inf)


def test_a_part_inherits_what_its_options_do_not_change(threads):
    def body(group):
        part = group.split(0)
        info = part.info()
        assert (info.channels, info.timeout, info.create_timeout) == (7, 20, 20)
        assert FLAG.CHECK in info.flags
        part.close()

        changes = {"check": False, "any_order": True, "channels": 5, "create_timeout": 21}
        for make in (
            lambda **options: group.split(0, **options),
            lambda **options: group.create_from_ranks([1, 0], **options),
            group.local,
            group.shrink,
        ):
            with make(name="part", timeout=15, group_timeout=22, **changes) as part:
                info = part.info()
                assert (info.channels, info.timeout, info.create_timeout) == (5, 22, 21)
                assert info.name == "part"
                wanted = FLAG.NO_CHECK | FLAG.ANY_ORDER
                assert info.flags & (wanted | FLAG.CHECK | FLAG.RANK_ORDER) == wanted

    threads(2, body, channels=7, check=True)


def test_ranks_of_a_part_must_want_the_same(threads):
    def body(group):
        with pytest.raises(symm.MismatchError, match="channels"):
            group.split(0, channels=3 + group.rank)
        group.barrier()

    threads(2, body)


def test_an_option_that_there_is_not_is_a_type_error(alone):
    with pytest.raises(TypeError, match="channel"):
        alone.split(0, channel=3)


class DictStore:
    """A store for ranks that are threads."""

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


def finalized(group):
    """The rank and the size of a group that is finalized in its context, which then does not."""
    with group:
        group.finalize(20)
        return group.rank, group.size


def test_ranks_form_a_group_by_a_store():
    store = DictStore()

    def join(rank):
        return finalized(symm.Group.from_store(store, rank, 3, **OPTIONS))

    assert on_threads(3, join) == [(0, 3), (1, 3), (2, 3)]


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


TRAPPING = """
import ctypes, sys, threading
import symm
from symm._library import raw

values, libm, inexact = {}, ctypes.CDLL("libm.so.6"), 0x20

class Store:
    def set(self, key, value, timeout):
        assert 0 < timeout * 0.1  # arithmetic of its own
        values[key] = value

    def get(self, key, timeout):
        assert 0 < timeout * 0.1
        if key not in values:
            raise TimeoutError(key)
        return values[key]

def config(rank):
    ms = 20_000
    return (rank, 2, int(symm.Backend.HOST), 0, 0, None, Store(), None, 0, ms, ms, "", 0, 0)

other = threading.Thread(target=lambda: handles.append(raw.symm_group_create(config(1))))
handles, own = [], config(0)
other.start()
libm.feenableexcept(inexact)  # of this thread
handle = raw.symm_group_create(own)
traps = libm.fegetexcept()
libm.fedisableexcept(inexact)
other.join()
assert traps == inexact, traps
print(len(handles), "met")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other processors have no such traps")
def test_a_store_computes_where_the_caller_traps_what_is_inexact():
    result = subprocess.run(
        [sys.executable, "-c", TRAPPING], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, (result.returncode, result.stderr)
    assert result.stdout == "1 met\n"


class LikeTorch(DictStore):
    """A stand-in for a torch.distributed.Store, with the methods that symm uses."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def add(self, key, amount):
        self.counts[key] += amount
        return self.counts[key]

    def set(self, key, value):
        super().set(key, value, 1)

    def check(self, keys):
        return all(key in self.values for key in keys)

    def get(self, key):
        return super().get(key, 1)


def test_ranks_form_two_groups_by_one_store_of_pytorch():
    store = LikeTorch()

    def join(rank):
        return finalized(symm.Group.from_torch(store, rank, 2, name="of torch", **OPTIONS))

    assert on_threads(2, join) == [(0, 2), (1, 2)]
    assert on_threads(2, join) == [(0, 2), (1, 2)]  # with other keys, since a key is set once
    assert {key.split("/")[0] for key in store.values} == {"symm"}


@pytest.mark.parametrize(
    ("create", "store"), [(symm.Group.from_store, DictStore), (symm.Group.from_torch, LikeTorch)]
)
def test_a_store_that_never_answers_is_a_timeout(create, store):
    with pytest.raises(symm.TimeoutError, match="rank 1"):
        create(store(), 0, 2, backend="host", create_timeout=0.3)


def like_mpi(rank, size, shared, barrier):
    """A stand-in for an mpi4py communicator of threads, with the methods that symm uses."""

    def bcast(value, root):
        if rank == root:
            shared.append(value)
        barrier.wait(20)
        return shared[0]

    return SimpleNamespace(
        Get_rank=lambda: rank, Get_size=lambda: size, bcast=bcast, Barrier=lambda: barrier.wait(20)
    )


def test_ranks_form_a_group_by_mpi_and_leave_no_directory(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = []
    barrier = threading.Barrier(2)

    def join(rank):
        communicator = like_mpi(rank, 2, shared, barrier)
        return finalized(symm.Group.from_mpi(communicator, **OPTIONS))

    assert on_threads(2, join) == [(0, 2), (1, 2)]
    assert list(tmp_path.iterdir()) == []


MPI_PROGRAM = """
import symm
with symm.Group.from_mpi(backend="host", create_timeout=20) as group:
    array = group.empty(4)
    array.fill(1)
    group.allreduce(array)
    assert (memoryview(array).tolist(), group.size) == ([2.0] * 4, 2)
"""


def test_ranks_that_mpirun_starts_form_a_group():
    pytest.importorskip("mpi4py")
    mpirun = shutil.which("mpirun") or pytest.skip("no mpirun")
    asked = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    options = []
    if "Open MPI" in asked.stdout or "OpenRTE" in asked.stdout:
        options = ["--allow-run-as-root", "--oversubscribe"]
    command = [mpirun, *options, "-n", "2", sys.executable, "-c", MPI_PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


# ---- calls


def test_a_wait_releases_the_interpreter_lock(threads):
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
    ("named", "call"),
    [
        ("tag: -1", lambda group, buffer: group.rendezvous(buffer, -1)),
        ("channels: 2147483648", lambda group, buffer: group.rendezvous(buffer, channels=2**31)),
        ("bytes: -5", lambda group, _: group.alloc(-5)),
        ("alignment: 18446744073709551616", lambda group, _: group.alloc(64, alignment=2**64)),
        ("rank: 4294967296", lambda group, _: group.peer_info(2**32)),
        ("ranks: -3000000000", lambda group, _: group.barrier([-3000000000])),
        ("channel: -2147483649", lambda group, _: group.barrier(channel=-(2**31) - 1)),
        ("address: -1", lambda group, _: group.find(-1)),
    ],
)
def test_an_integer_that_its_parameter_cannot_hold_is_refused(alone, named, call):
    with pytest.raises(symm.InvalidArgumentError, match=named):
        call(alone, alone.alloc(64))


def test_a_size_that_is_no_integer_is_a_type_error(alone):
    with pytest.raises(TypeError):
        alone.alloc(6.5)


def test_a_star_imports_the_public_names_without_modules():
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


def test_many_threads_may_use_one_group(alone):
    array = alone.empty(1024)

    def work(number):
        for _ in range(50):
            part = array[number * 8 : number * 8 + 8]
            part.put(0, np.full(8, number, np.float32), signal=number)
            part.wait_signal(0, number)
            assert (part.numpy() == number).all()
            alone.empty(4)

    on_threads(8, work)


# ---- failures

KILLED_PEER = """
import os
import signal
import sys

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
    assert (status.rank, status.status, status.ok) == (2, symm.Status.PEER_FAILED, False)
    assert error.pid == status.pid
    assert str(error) == status.message
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


def is_readable(fd, timeout=0):
    return bool(select.select([fd], [], [], timeout)[0])


def test_an_abort_is_seen_by_the_descriptor_and_has_no_failed_ranks(threads):
    together = threading.Barrier(3)

    def body(group):
        assert not is_readable(group.failure_fd())
        group.barrier()
        if group.rank == 1:
            group.abort("enough")
        else:
            is_readable(group.failure_fd(), 20)

        with pytest.raises(symm.AbortedError):
            group.barrier(channel=1)
        assert is_readable(group.failure_fd())
        assert group.failed_ranks() == []
        together.wait(20)  # a rank that has closed the group counts as failed
        group.close()

    threads(3, body)


def test_the_ranks_of_an_aborted_group_shrink_it_and_go_on(threads):
    def body(group):
        group.barrier()
        if group.rank == 1:
            group.abort("enough")
        else:
            is_readable(group.failure_fd(), 20)

        with group.shrink(name="rest") as rest:
            assert (rest.rank, rest.size, rest.info().name) == (group.rank, 3, "rest")
            ones = np.ones(4, np.float32)
            rest.allreduce(ones)
            assert ones.tolist() == [3] * 4
            stats = rest.collective_stats("allreduce")
            assert (stats.calls, stats.bytes) == (1, 16)
            by_algorithm = [rest.algorithm_stats(kind).calls for kind in symm.Algorithm]
            assert sum(by_algorithm) == 1
        group.close()

    threads(3, body)


def test_ranks_are_combined_in_the_order_of_the_call_or_the_group(threads):
    operands = [1, 2**-24, 2**-24, 2**-24]  # each order rounds their sum in another way
    in_rank_order, in_tree_order = 1, 1 + 2**-23

    def body(group):
        def total(group, **options):
            x = np.full(1, operands[group.rank], np.float32)
            group.allreduce(x, **options)
            return x[0]

        assert total(group) == in_rank_order
        assert total(group, order="tree") == in_tree_order
        assert total(group, order=symm.Order.TREE, tag="gradients", timeout=20) == in_tree_order
        assert total(group, order="tree", scale=1.0) == in_tree_order
        with group.split(0, tree_order=True) as part:
            assert total(part) == in_tree_order
            assert total(part, order="ranks") == in_rank_order
        with group.batch() as batch:
            x = np.full(1, operands[group.rank], np.float32)
            batch.allreduce(x, order="tree")
        assert x[0] == in_tree_order
        with pytest.raises(symm.InvalidArgumentError, match="bush"):
            group.allreduce(x, order="bush")
        group.close()

    threads(4, body)


def test_a_tag_and_a_limit_of_multiprocessors_are_for_one_call(threads):
    def body(group):
        x = np.ones(4, np.float32)
        group.allreduce(x, tag=f"rank {group.rank}", max_blocks=4)
        group.allreduce(x, scale=0.5, scale_position="after", tag="gradients", max_blocks=4)
        assert x.tolist() == [2] * 4
        with pytest.raises(symm.InvalidArgumentError, match="max_blocks: -1 is negative"):
            group.allreduce(x, max_blocks=-1)
        with pytest.raises(symm.MismatchError, match=r'max_blocks 1.*has the tag "gradients"'):
            group.allreduce(x, tag="gradients", max_blocks=group.rank + 1)
        group.close()

    threads(2, body)


def test_ranks_are_translated_between_a_group_and_its_part(threads):
    def body(group):
        part = group.create_from_ranks([2, 0]) if group.rank != 1 else None
        if part is not None:
            assert [group.translate_rank(part, rank) for rank in range(2)] == [2, 0]
            assert part.translate_rank(group, 1) is None
            part.close()

    threads(3, body)


def test_a_peer_is_described_alike_on_all_ranks(threads):
    def body(group):
        peer = group.peer_info(1)
        assert peer.alive
        assert peer.backend is symm.Backend.HOST
        group.barrier()  # or rank 1 might leave before it was seen alive
        return peer.machine_name, peer.machine

    assert len(set(threads(3, body))) == 1
