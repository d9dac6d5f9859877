"""Calls that do not block: requests, in threads and in tasks of asyncio."""

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
import weakref

import numpy as np
import pytest

import symm


def sums_in_any_order(group):
    """All-reduces under way, awaited in another order on each rank."""
    arrays = [np.full(i + 1, (group.rank + 1) * (i + 1), np.int64) for i in range(20)]
    requests = [symm.start(group.allreduce, array) for array in arrays]
    into = np.zeros(20, np.int32)
    gathered = symm.start(group.allgather, np.full(20 // group.size, group.rank, np.int32), into)
    for i in sorted(range(20), key=lambda i: (i * 7 + group.rank * 3) % 20):
        requests[i].result()
        assert requests[i].done()
        assert (arrays[i] == (i + 1) * group.size * (group.size + 1) // 2).all()
    assert gathered.result() is None
    assert into[-1] == group.size - 1
    assert symm.start(group.barrier).result() is None
    assert requests[0].info().call == "allreduce"


@pytest.mark.parametrize("size", [1, 2, 4])
def test_sums_in_any_order(threads, size):
    threads(size, sums_in_any_order)


async def pass_around(group):
    """Tasks that wait while others go on: a receive, a wait for a signal, and what ends them."""
    left = (group.rank - 1) % group.size
    right = (group.rank + 1) % group.size
    into = np.zeros(5, np.float32)
    block = group.empty(4, "u64")
    received = symm.start(group.recv, left, into)
    signalled = symm.start(block.memory.wait_signal_value, left, symm.Compare.GE, 7)
    turns = 0

    async def other_work():
        nonlocal turns
        while not (received.done() and signalled.done()):
            turns += 1
            await asyncio.sleep(0.001)

    async def send_later():
        while turns < 2:
            await asyncio.sleep(0.001)
        await symm.start(group.barrier)  # the others' loops have gone on, too
        group.send(right, np.full(4, group.rank, np.float32))
        block.memory.signal_value(right, 9, op=symm.SignalOp.SET)

    results = await asyncio.gather(received, signalled, received, send_later(), other_work())
    assert results[:3] == [16, 9, 16]
    assert into.tolist() == [left] * 4 + [0]
    assert turns > 1, "the loop went on"
    assert await received == 16, "a request that is over can be awaited again"
    await symm.start(group.barrier)


@pytest.mark.parametrize("size", [1, 2])
def test_tasks_wait_and_the_loop_goes_on(threads, size):
    threads(size, lambda group: asyncio.run(pass_around(group)))


def test_a_cancelled_task_leaves_the_call_alone(alone):
    into = np.zeros(3, np.uint8)

    async def wait():
        request = symm.start(alone.recv, 0, into)
        for _ in range(2):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(request, 0.02)
        alone.send(0, np.array([1, 2, 3], np.uint8))
        return await request

    assert asyncio.run(wait()) == 3
    assert into.tolist() == [1, 2, 3]


def test_a_failure_is_that_of_the_call():
    alone = symm.Group.join(0, 1, "thread://failing", backend="host")
    with pytest.raises(symm.InvalidArgumentError, match="rank: 1 is not in"):
        symm.start(alone.recv, 1, np.zeros(3))
    pending = symm.start(alone.recv, 0, np.zeros(3))
    with pytest.raises(symm.TimeoutError, match="request: the recv is not done"):
        pending.result(timeout=0.01)
    late = symm.start(alone.recv, 0, np.zeros(3), channel=1, timeout=0.05)

    async def wait():
        with pytest.raises(symm.TimeoutError, match="has sent nothing"):
            await late
        alone.abort("enough")
        with pytest.raises(symm.AbortedError, match="enough"):
            await pending

    asyncio.run(wait())
    assert pending.info().status == symm.Status.ABORTED
    alone.close()


def test_the_first_of_several(alone):
    into = [np.zeros(1, np.int32) for _ in range(3)]
    requests = [symm.start(alone.recv, 0, into[i], channel=i) for i in range(3)]
    with pytest.raises(symm.TimeoutError, match="none of the 3"):
        symm.wait_any(requests, timeout=0)
    alone.send(0, np.array([5], np.int32), channel=1)
    assert symm.wait_any(requests) == 1
    assert into[1] == 5
    assert select.select([requests[1]], [], [], 0)[0] == [requests[1]]
    assert select.select([requests[0]], [], [], 0)[0] == []
    for channel in (0, 2):
        alone.send(0, np.array([channel], np.int32), channel=channel)
        requests[channel].result()
    with pytest.raises(symm.InvalidArgumentError, match="requests: none"):
        symm.wait_any([])


def test_numbers_and_words(alone):
    block = alone.zeros(4, "u64")
    memory = block.memory
    assert symm.start(memory.atomic64, 0, 8, symm.AtomicOp.ADD, 5).result() == 0
    assert symm.start(memory.atomic64, 0, 8, symm.AtomicOp.ADD, 5).result() == 5
    assert symm.start(memory.read_value64, 0, 8).result() == 10
    sides = [symm.Recv(0, np.zeros(2)), symm.Send(0, np.ones(2))]
    assert symm.start(alone.messages, sides).result() == 16
    # Lists of pieces that the package makes stay until the copy is over.
    rows = [symm.Rows(0, 16, 8), symm.Rows(8, 24, 8)]
    source = np.array([3, 4], np.uint64)
    symm.start(memory.put_pieces, 0, 0, source, rows).result()
    assert memoryview(block).tolist() == [0, 10, 3, 4]


def test_what_cannot_be_started(alone):
    with pytest.raises(symm.InvalidArgumentError, match="makes no call"):
        symm.start(lambda: None)
    with pytest.raises(RuntimeError, match="several calls"):
        symm.start(lambda: [alone.barrier(), alone.barrier()])
    with pytest.raises(RuntimeError, match="within"):
        symm.start(lambda: symm.start(alone.barrier))
    with pytest.raises(symm.UnsupportedError, match="request: this call has no form"):
        symm.start(alone.synchronize)
    with pytest.raises(ZeroDivisionError):
        symm.start(lambda: 1 // 0)
    alone.barrier()  # which blocks, as before


def test_calls_that_can_only_block_are_refused_before_they_act(threads):
    def add(into, other):
        np.asarray(into)[:] += np.asarray(other)

    def body(group):
        x = np.ones(3)
        before = group.stats()
        refused = {
            "symm_reduce_by": lambda: symm.start(group.reduce_by, add, x),
            "symm_group_split": lambda: symm.start(group.split, 0),
            "symm_group_create_from_ranks": lambda: symm.start(group.create_from_ranks, [0, 1]),
            "symm_group_local": lambda: symm.start(group.local),
            "symm_alloc": lambda: symm.start(group.empty, 100),
            "symm_heap_create": lambda: symm.start(group.heap, 4096),
            "symm_group_create": lambda: symm.start(
                symm.Group.join, 0, 1, "thread://started", backend="host"
            ),
        }
        if group.rank == 0:  # a call that was made would wait for rank 1
            for call, start in refused.items():
                with pytest.raises(symm.UnsupportedError, match=f"call: {call} has no form that"):
                    start()
        assert x.tolist() == [1] * 3
        assert group.stats() == before
        group.barrier()
        group.reduce_by(add, x)  # which blocks, as before
        assert x.tolist() == [2] * 3
        group.split(0).close()

    threads(2, body)


def test_arrays_are_kept_until_the_call_is_over(alone):
    class Owned(np.ndarray):
        pass

    array = np.zeros(4, np.int32).view(Owned)
    seen = weakref.ref(array)
    symm.start(alone.recv, 0, array)
    del array
    gc.collect()
    assert seen() is not None, "the call writes there"
    alone.send(0, np.array([1, 2, 3, 4], np.int32))
    for _ in range(1000):
        symm.start(alone.barrier).result()
        gc.collect()
        if seen() is None:
            break
    assert seen() is None


LEFT = """
import numpy as np
import symm

group = symm.Group.join(0, 1, "thread://left", backend="host")
into = np.zeros(1 << 20, np.uint8)
symm.start(group.recv, 0, into)
pending = symm.start(group.recv, 0, np.zeros(1 << 20), channel=1)
print("left")
"""


def test_a_program_may_end_while_calls_go_on():
    ended = subprocess.run(
        [sys.executable, "-c", LEFT], capture_output=True, text=True, env=os.environ, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "left\n"), ended.stderr


def test_a_request_may_be_closed_before_its_call_is_over(alone):
    into = np.zeros(3, np.uint8)
    request = symm.start(alone.recv, 0, into)
    assert not request.done()
    request.close()
    with pytest.raises(symm.InvalidHandleError):
        request.result()
    alone.send(0, np.array([4, 5, 6], np.uint8))
    for _ in range(1000):
        symm.start(alone.barrier).result()
        if into[2] == 6:
            break
    assert into.tolist() == [4, 5, 6]


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_loop_that_is_closed_early_leaves_nothing(alone):
    into = np.zeros(1, np.uint8)
    request = symm.start(alone.recv, 0, into)

    async def give_up():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(request, 0.001)

    asyncio.run(give_up())
    gc.collect()
    before = open_descriptors()
    for _ in range(5):
        asyncio.run(give_up())
    gc.collect()
    # Fewer, if the library has closed one of an earlier test meanwhile.
    assert open_descriptors() <= before
    alone.send(0, np.array([9], np.uint8))

    async def wait():
        return await request

    assert asyncio.run(wait()) == 1
    assert into[0] == 9


class StoppedError(Exception):
    pass


# One that strikes in a finalizer is reported, and no more.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_of_a_signal_handler_leaves_no_call_half_begun(alone):
    """Wherever the exception strikes, the next call blocks, and calls can be started."""

    def stop(_signal, _frame):
        raise StoppedError

    into = np.zeros(1, np.int64)
    sent = np.array([7], np.int64)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for turn in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + turn % 200))
                for _ in range(50):
                    symm.start(alone.barrier)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except StoppedError:
                pass
            assert alone.barrier() is None
            into[0] = 0
            received = symm.start(alone.recv, 0, into)
            alone.send(0, sent)
            assert received.result() == 8
            assert into[0] == 7
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


FORKED = """
import os

import numpy as np
import symm

group = symm.Group.join(0, 1, "thread://forking", backend="host")
pending = symm.start(group.recv, 0, np.zeros(1))
child = os.fork()
if child == 0:
    own = symm.Group.join(0, 1, "thread://forked", backend="host")
    x = np.ones(3)
    for _ in range(5):
        symm.start(own.allreduce, x).result()
    try:
        pending.result()
    except symm.InvalidHandleError:
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
group.send(0, np.ones(1))
assert pending.result() == 8
print("done")
"""


def test_a_forked_child_starts_calls_of_its_own():
    ended = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, env=os.environ, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
