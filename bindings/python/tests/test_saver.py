"""`symm.saver`: memory by tags that is given back and comes back to its addresses."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import functions_of

import symm
from symm import _raw as raw
from symm.saver import MemorySaver


@pytest.fixture
def saver(alone):
    return MemorySaver(alone)


def resident(array):
    """Whether some of the pages at an address have memory."""
    with open("/proc/self/smaps") as maps:
        inside = False
        for line in maps:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                first, last = (int(part, 16) for part in words[0].split("-"))
                inside = first <= array.pointer < last
            elif inside and words[0] == "Rss:":
                return int(words[1]) > 0
    return False


def test_memory_of_a_tag_is_given_back_and_comes_back_to_its_address(saver):
    with saver.region("weights", enable_cpu_backup=True):
        weights = saver.empty((64, 1024), "f32")
    with saver.region("cache"):
        cache = saver.empty(1 << 16, "u8")
    views = weights.numpy(), cache.numpy()
    views[0][:] = 1.5
    views[1][:] = 7

    saver.pause("cache")
    assert weights.buffer.info().flags & raw.SYMM_BUFFER_SUSPENDED == 0
    assert cache.buffer.info().flags & raw.SYMM_BUFFER_SUSPENDED
    assert (resident(weights), resident(cache)) == (True, False)
    saver.pause()  # the rest
    saver.pause("weights")  # is paused, and stays so
    assert not resident(weights)

    saver.resume("weights")
    assert (views[0] == 1.5).all()
    assert cache.buffer.info().flags & raw.SYMM_BUFFER_SUSPENDED
    saver.resume()
    assert (views[1] == 0).all()
    views[1][:] = 8
    assert (cache.numpy() == 8).all()


def test_a_tag_may_have_memory_that_is_kept_and_memory_that_is_not(saver):
    with saver.region("both", enable_cpu_backup=True):
        kept = saver.empty(100, "i64")
        with saver.region("both"):
            lost = saver.empty(100, "i64")
        kept_too = saver.empty(100, "i64")
    for array in (kept, lost, kept_too):
        array.numpy()[:] = 3
    saver.pause("both")
    saver.resume("both")
    assert [int(one.numpy().sum()) for one in (kept, lost, kept_too)] == [300, 0, 300]


def test_memory_that_nobody_has_any_more_is_forgotten(saver):
    with saver.region():
        array = saver.empty((2, 3), "f64")
    part = array[1]
    assert (array.shape, part.shape, part.pointer - array.pointer) == ((2, 3), (3,), 24)
    del array
    gc.collect()
    saver.pause()  # its part has it
    saver.resume()
    assert part.numpy().sum() == 0
    (region,) = saver._regions.values()
    assert len(region.all_buffers()) == 1
    del part
    gc.collect()
    assert region.all_buffers() == []


def test_what_cannot_be_is_refused(saver):
    with pytest.raises(symm.InvalidArgumentError, match="region: none is open"):
        saver.empty(4)
    for call in (saver.pause, saver.resume):
        with pytest.raises(symm.InvalidArgumentError, match="tag: nothing is called odd"):
            call("odd")

    with saver.region("one"):
        array = saver.empty(4)
    saver.pause("one")
    with pytest.raises(symm.InvalidArgumentError, match="tag: one is paused"), saver.region("one"):
        pass
    with pytest.raises(symm.InvalidArgumentError, match="tag: one is paused"):
        saver.add(None, "one")
    with pytest.raises(symm.InvalidArgumentError, match="region: none is open"):
        saver.empty(4)
    saver.resume("one")
    with saver.region("one"):
        assert saver.empty(4).numpy().sum() == array.numpy().sum()


MAKER = """
import sys
import symm

with symm.Group.join(0, 1, "thread://maker", backend="host") as own:
    arrays = [own.empty(1024, "f32") for _ in range(2)]
    for version, array in enumerate(arrays, 1):
        array.numpy()[:] = version
        symm.ipc_publish(sys.argv[1], version, symm.ipc_export_bundle({"layer": array}))
    print("published", flush=True)
    sys.stdin.readline()
    for version in (1, 2):  # nobody holds one
        symm.ipc_withdraw_version(sys.argv[1], version, 20)
"""


def test_an_import_sleeps_by_its_tag_and_may_wake_with_another_version(saver):
    name = f"saver {os.getpid()}"
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert maker.stdout.readline() == "published\n"
        _, token = symm.ipc_lookup(name, 1, compare=symm.Compare.EQ)
        model = symm.import_bundle(token)
        saver.add(model, "weights")
        layer = model["layer"].numpy()
        assert (layer == 1).all()

        saver.pause("weights")
        assert model.info().flags & raw.SYMM_IPC_SUSPENDED
        saver.resume()
        assert (layer == 1).all()

        saver.pause()
        _, token = symm.ipc_lookup(name)
        model.resume(token)
        saver.resume("weights")
        assert (layer == 2).all()
        saver.pause()  # so that the maker need not wait
        print(file=maker.stdin, flush=True)
        assert maker.wait(60) == 0
    finally:
        maker.kill()
        maker.wait()
        maker.stdin.close()
        maker.stdout.close()


# ---- the functions that PyTorch calls for a pool of buffers


@pytest.fixture
def pool(alone):
    """A pool's number, and its functions."""
    number = raw.pool_open_of_buffers(alone._handle)
    yield number, *functions_of(number)
    raw.pool_close(number)


def buffers_of(number):
    return [symm.Buffer(handle, 0) for handle in raw.pool_buffers(number)]


def test_the_pieces_of_a_pool_are_buffers(pool):
    number, alloc, free = pool
    pieces = [alloc(4096 * count, 0, None) for count in range(1, 41)]
    buffers = buffers_of(number)
    assert [buffer.pointer for buffer in buffers] == pieces
    memory = np.frombuffer((ctypes.c_uint8 * 4096).from_address(pieces[0]), np.uint8)
    memory[:] = 5
    for buffer in buffers:
        buffer.suspend(keep=True)
    free(pieces[7], 0, 0, None)  # PyTorch may free what is paused
    for buffer in buffers_of(number):
        buffer.resume()
    assert (memory == 5).all()
    assert sorted(buffer.pointer for buffer in buffers_of(number)) == sorted(
        set(pieces) - {pieces[7]}
    )

    assert alloc(0, 0, None) is None
    assert alloc(1 << 60, 0, None) is None
    for piece in pieces:
        free(piece, 0, 0, None)
    assert buffers_of(number) == []


def test_a_saver_pauses_what_is_in_its_pools(alone, pool):
    number, alloc, free = pool
    saver = MemorySaver(alone)
    with saver.region("cache"):
        pass
    saver._regions["cache", False].pool = (number, None)
    piece = alloc(4096, 0, None)
    saver.pause("cache")
    (buffer,) = buffers_of(number)
    assert buffer.info().flags & raw.SYMM_BUFFER_SUSPENDED
    saver.resume()
    assert buffer.info().flags & raw.SYMM_BUFFER_SUSPENDED == 0
    free(piece, 4096, 0, None)


def test_numbers_that_are_no_pools_of_buffers_are_refused(alone):
    heap = alone.heap(1 << 20)
    number = raw.pool_open(heap._handle, alone._handle)
    for wrong in (number, -1, 8):
        with pytest.raises(ValueError, match="is no pool of buffers"):
            raw.pool_buffers(wrong)
    raw.pool_close(number)
    with pytest.raises(symm.InvalidHandleError):
        raw.pool_open_of_buffers(0)
