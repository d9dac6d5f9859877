"""Heaps: pieces at the same offsets on all ranks."""

import ctypes

import pytest

import symm
from symm import _raw as raw


def test_what_is_free_and_what_is_not(alone):
    heap = alone.heap(10_000, name="small")
    first, second = heap.empty(1000, "u8"), heap.empty((5, 100), "f64")
    assert (heap.nbytes, heap.memory.nbytes) == (10_240, 10_240)
    info = heap.info()
    assert (info.free_pieces, info.name) == (1, "small")
    assert heap.find(id(heap)) is None
    heap.free(first)
    empty = heap.empty((0, 3))
    heap.free(empty)
    assert heap.info().calls == 3
    view = second.numpy()
    heap.close()
    view[:] = 1  # the array keeps the memory
    with pytest.raises(symm.InvalidHandleError):
        heap.info()
    with pytest.raises(symm.InvalidArgumentError, match="alignment"):
        alone.heap(4096, alignment=100)


def test_the_functions_of_a_pool(alone):
    """What PyTorch calls, without PyTorch; tests/test_gpu.py has it with."""
    heap = alone.heap(1 << 20)
    with pytest.raises(symm.UnsupportedError, match="CUDA"):
        heap.torch_pool()
    with pytest.raises(symm.UnsupportedError, match="CUDA"):
        heap.cupy_pool()
    library = ctypes.CDLL(raw.__file__)
    numbers = [raw.pool_open(heap._handle, alone._handle) for _ in range(8)]
    assert numbers == list(range(8))
    with pytest.raises(RuntimeError, match="8 pools"):
        raw.pool_open(heap._handle, alone._handle)
    alloc, free = library.symm_pool_alloc_3, library.symm_pool_free_3
    alloc.restype, alloc.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p],
    )
    free.restype, free.argtypes = (
        None,
        [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p],
    )
    first, second = alloc(1000, 0, None), alloc(4096, 0, None)
    assert (second - first, second % 512) == (1024, 0)
    assert heap.find(second + 4095) == (second, 4096)
    assert alloc(1 << 20, 0, None) is None
    free(first, 1000, 0, None)
    assert heap.info().pieces == 1
    # A tensor that outlives its pool keeps the functions and the heap.
    for number in numbers:
        raw.pool_close(number)
    assert raw.pool_open(heap._handle, alone._handle) == 0
    assert [raw.pool_open(heap._handle, alone._handle) for _ in range(6)] == [1, 2, 4, 5, 6, 7]
    with pytest.raises(RuntimeError):
        raw.pool_open(heap._handle, alone._handle)
    free(second, 4096, 0, None)
    raw.pool_close(3)
    assert raw.pool_open(heap._handle, alone._handle) == 3
    for number in numbers:
        raw.pool_close(number)
    with pytest.raises(symm.InvalidHandleError):
        raw.pool_open(0, alone._handle)
