"""Ctrl-C and other signals, within calls that wait for another rank."""

import contextlib
import signal
import threading
import time
import uuid

import numpy as np
import pytest
from conftest import OPTIONS

import symm

SOON = 5.0  # seconds; the deadlines are 20
MAIN = threading.main_thread().ident


@contextlib.contextmanager
def pair(**options):
    """A group of two, and an array of it: this thread is rank 0, and rank 1 comes to no call."""
    place = f"thread://{uuid.uuid4()}"
    over = threading.Event()
    others = []

    def idle():
        group = symm.Group.join(1, 2, place, **(OPTIONS | options))
        others.append((group, group.empty(8, "i64")))
        over.wait(60)

    thread = threading.Thread(target=idle)
    thread.start()
    group = symm.Group.join(0, 2, place, **(OPTIONS | options))
    array = group.empty(8, "i64")
    try:
        yield group, array, others
    finally:
        over.set()
        thread.join()
        for one in (group, *(other for other, _ in others)):
            one.close()


@contextlib.contextmanager
def soon_signalled(number=signal.SIGINT, after=0.3):
    """Send this thread a signal, and see that what waits for another rank ends at once."""
    timer = threading.Timer(after, signal.pthread_kill, (MAIN, number))
    began = time.monotonic()
    timer.start()
    try:
        yield
    finally:
        timer.join()
    assert time.monotonic() - began < SOON


WAITS = {
    "wait_signal": lambda a: a.wait_signal(1),
    "wait_signal_value": lambda a: a.memory.wait_signal_value(1, symm.Compare.GE, 7, channel=1),
    "wait_any_signal": lambda a: a.memory.wait_any_signal(
        [symm.SignalWait(1, 1, symm.Compare.GE, 7)]
    ),
    "wait_all_signals": lambda a: a.memory.wait_all_signals(
        [symm.SignalWait(1, 1, symm.Compare.GE, 7)]
    ),
    "wait_value32": lambda a: a.memory.wait_value32(0, symm.Compare.EQ, 7),
    "wait_value64": lambda a: a.memory.wait_value64(0, symm.Compare.EQ, 7),
}

CALLS = {
    "barrier": lambda group, a: group.barrier(),
    "barrier of a set": lambda group, a: group.barrier(ranks=[0, 1]),
    "allreduce": lambda group, a: group.allreduce(a),
    "allgather": lambda group, a: group.allgather(a, np.empty(16, np.int64)),
    "broadcast": lambda group, a: group.broadcast(a, root=1),
    "empty": lambda group, a: group.empty(8, "f32"),
    "heap": lambda group, a: group.heap(4096),
    "split": lambda group, a: group.split(0),
    "local": lambda group, a: group.local(),
    "shrink": lambda group, a: group.shrink(),
    "finalize": lambda group, a: group.finalize(),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_for_one_rank_ends_at_once_and_takes_nothing(name):
    with pair() as (group, array, others):
        with soon_signalled(), pytest.raises(KeyboardInterrupt):
            WAITS[name](array)
        assert group.status().ok

        # What comes now is not lost, and the same wait takes it.
        there = others[0][1]
        there.signal(0)
        there.memory.signal_value(0, 7, channel=1, op=symm.SignalOp.SET)
        array.numpy()[0] = 7
        WAITS[name](array)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_all_ranks_ends_at_once_and_ends_the_group(name):
    with pair() as (group, array, others):
        with soon_signalled(), pytest.raises(KeyboardInterrupt) as raised:
            CALLS[name](group, array)
        assert isinstance(raised.value.__context__, symm.AbortedError)
        if name in ("local", "shrink"):
            return  # the group that was to be made is lost, and the old one is as it was

        # Every rank says who was interrupted, and all go on in a new group.
        other = others[0][0]
        with pytest.raises(symm.AbortedError, match=r"rank 0 .*interrupted") as failed:
            other.barrier()
        assert failed.value.rank == 0
        assert group.status().rank == 0
        made = []
        thread = threading.Thread(target=lambda: made.append(other.shrink()))
        thread.start()
        made.append(group.shrink())
        thread.join()
        assert {one.rank for one in made} == {0, 1}


class Silent:
    """A store in which nothing ever appears."""

    def set(self, key, value, timeout):
        pass

    def get(self, key, timeout):
        time.sleep(min(timeout, 30))
        raise TimeoutError(key)


@pytest.mark.parametrize("way", ["dir", "thread", "tcp", "store"])
def test_a_creation_ends_at_once(way, address):
    def create():
        if way == "store":
            return symm.Group.from_store(Silent(), 0, 2, **OPTIONS)
        place = {
            "dir": address,
            "thread": f"thread://{uuid.uuid4()}",
            "tcp": "tcp://127.0.0.1:9",  # where nobody listens
        }[way]
        return symm.Group.join(1 if way == "tcp" else 0, 2, place, **OPTIONS)

    with soon_signalled(), pytest.raises(KeyboardInterrupt):
        create()


def test_a_handler_that_does_not_raise_runs_at_once_and_the_call_goes_on():
    with pair() as (_group, array, others):
        handled = []

        def handler(number, frame):
            handled.append(time.monotonic())
            others[0][1].signal(0)  # what the call waits for

        former = signal.signal(signal.SIGUSR1, handler)
        try:
            with soon_signalled(signal.SIGUSR1):
                array.wait_signal(1)
        finally:
            signal.signal(signal.SIGUSR1, former)
        assert len(handled) == 1


def test_what_a_handler_raises_is_what_the_call_raises():
    class OwnError(Exception):
        pass

    def handler(number, frame):
        raise OwnError(number)

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        with pair() as (_group, array, _others):
            with soon_signalled(signal.SIGUSR1), pytest.raises(OwnError):
                array.wait_signal(1)
            with pytest.raises(symm.TimeoutError):  # the interruption is over
                array.wait_signal(1, timeout=0.2)
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_calls_of_other_threads_are_left_alone():
    with pair() as (group, array, others):
        ended = []

        def wait():
            with pytest.raises(symm.TimeoutError):
                array.wait_signal(1, timeout=1)
            ended.append(True)

        thread = threading.Thread(target=wait)
        thread.start()
        with soon_signalled(), pytest.raises(KeyboardInterrupt):
            time.sleep(20)
        thread.join()
        assert ended
        assert group.status().ok
        assert others[0][0].status().ok
