"""Heaps. The table of behaviours has the offsets of pieces and their reuse."""

import pytest
from conftest import functions_of

import symm
from symm import _raw as raw


def test_a_heap_describes_its_pieces(alone):
    heap = alone.heap(10_000, name="small")
    first = heap.empty(1000, "u8")
    heap.empty((5, 100), "f64")
    assert (heap.nbytes, heap.memory.nbytes) == (10_240, 10_240)
    assert (heap.info().free_pieces, heap.info().name) == (1, "small")
    assert heap.find(id(heap)) is None

    heap.free(first)
    heap.free(heap.empty((0, 3)))
    assert heap.info().calls == 3, "an array without elements takes no piece"


def test_an_array_outlives_its_heap(alone):
    heap = alone.heap(10_000)
    view = heap.empty((5, 100), "f64").numpy()
    heap.close()
    view[:] = 1
    with pytest.raises(symm.InvalidHandleError):
        heap.info()


def test_a_wrong_alignment_of_a_heap_is_refused(alone):
    with pytest.raises(symm.InvalidArgumentError, match="alignment"):
        alone.heap(4096, alignment=100)


# ---- the functions that PyTorch calls for a pool, without PyTorch; test_gpu.py has them with it


def test_a_heap_in_host_memory_has_no_pools(alone):
    heap = alone.heap(1 << 20)
    with pytest.raises(symm.UnsupportedError, match="CUDA"):
        heap.torch_pool()
    with pytest.raises(symm.UnsupportedError, match="CUDA"):
        heap.cupy_pool()


@pytest.fixture
def open_pools(alone):
    """A heap, and the function that opens a pool of it. All pools are closed at the end."""
    heap = alone.heap(1 << 20)
    yield heap, lambda: raw.pool_open(heap._handle, alone._handle)
    for number in range(8):
        raw.pool_close(number)


def test_a_pool_takes_its_memory_from_the_heap(open_pools):
    heap, open_pool = open_pools
    alloc, free = functions_of(open_pool())
    first = alloc(1000, 0, None)
    second = alloc(4096, 0, None)
    assert (second - first, second % 512) == (1024, 0)
    assert heap.find(second + 4095) == (second, 4096)
    assert alloc(1 << 20, 0, None) is None

    free(first, 1000, 0, None)
    assert heap.info().pieces == 1
    free(second, 4096, 0, None)
    assert heap.info().pieces == 0


def test_there_are_eight_pools_at_a_time(open_pools):
    _, open_pool = open_pools
    assert [open_pool() for _ in range(8)] == list(range(8))
    with pytest.raises(RuntimeError, match="8 pools"):
        open_pool()
    raw.pool_close(3)
    assert open_pool() == 3


def test_a_closed_pool_stays_taken_until_its_last_tensor_is_gone(open_pools):
    _, open_pool = open_pools
    numbers = [open_pool() for _ in range(8)]
    alloc, free = functions_of(3)
    tensor = alloc(4096, 0, None)
    for number in numbers:
        raw.pool_close(number)
    assert [open_pool() for _ in range(7)] == [0, 1, 2, 4, 5, 6, 7]
    with pytest.raises(RuntimeError):
        open_pool()

    free(tensor, 4096, 0, None)
    assert open_pool() == 3


def test_a_pool_of_a_closed_heap_is_refused(alone):
    with pytest.raises(symm.InvalidHandleError):
        raw.pool_open(0, alone._handle)
