"""Heaps: one memory of a group, handed out in pieces."""

from __future__ import annotations

import functools
import math
import weakref
from typing import TYPE_CHECKING, Any

from symm._generated import HeapInfo
from symm._library import Closing, Owned, raw
from symm._view import extents_of
from symm.dtypes import DTypeLike, dtype_of
from symm.enums import Backend
from symm.errors import NotFoundError, UnsupportedError
from symm.memory import Memory

if TYPE_CHECKING:
    import torch

    # For annotations only. Group.heap() makes heaps, so symm.group imports this module.
    from symm.array import SymmArray
    from symm.group import Group


@functools.cache
def _torch_allocator(number: int) -> Any:
    """PyTorch's name for a pair of functions of the extension.
    Kept for good: PyTorch does not keep it for its pools.
    """
    from torch.cuda.memory import CUDAPluggableAllocator

    return CUDAPluggableAllocator(
        raw.__file__, f"symm_pool_alloc_{number}", f"symm_pool_free_{number}"
    )


class Heap(Owned, Closing):
    """Symmetric memory that is handed out in pieces without
    a word to the other ranks. Made by ``Group.heap()``.

    Ranks that make the same calls in the same order get the same offsets. So pieces are
    freed by `free()` and not by the garbage collector, whose time is not the same on
    all ranks; `close()`, or the end of a ``with`` block, ends all of them. Any thread
    may call, in an order that all ranks share. Where a group was made with
    ``check=True``, ranks that went apart get `MismatchError` in the next collective.

    Attributes:
        group: the group.
        memory: what the pieces lie in; put, get and signals take a piece's `offset` in it.
        nbytes: bytes of each rank's block.
    """

    def __init__(self, handle: int, group: Group) -> None:
        super().__init__(handle, raw.symm_heap_release)
        self.group = group
        self.memory: Memory = Memory(raw.symm_heap_memory(handle), group)
        self.nbytes: int = self.memory.nbytes

    def empty(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = "f32", *, alignment: int = 0
    ) -> SymmArray:
        """A piece of this rank's block as an array. [local]
        Its elements are whatever was there before.

        Args:
            shape: extents; an array of nothing takes nothing. alignment: of its offset,
            a power of two up to the heap's; 0: 256 bytes, and never less.

        Raises:
            OutOfMemoryError: says what was asked for, what is free, and the largest free piece.
            InvalidArgumentError: alignment.
        """
        extents, kind = extents_of(shape), dtype_of(dtype)
        nbytes = math.prod(extents) * kind.itemsize
        offset = raw.symm_heap_alloc(self._handle, nbytes, alignment)[1] if nbytes > 0 else 0
        return self.memory.array(extents, kind, offset=offset)

    def free(self, array: SymmArray) -> None:
        """Give the piece of an array of `empty()` back. [local] Never waits; the next
        `empty()` may hand it out again.

        So it must not be in use any more on any rank (a barrier says so), nor any view
        of it; on CUDA, what was issued with it must be ahead of what uses the next one,
        as it is on one stream. What was freed already, is a part of a piece, or not of
        this heap is an `InvalidArgumentError`; nothing has changed.
        """
        if array.nbytes:
            raw.symm_heap_free(self._handle, array.pointer)

    def find(self, address: int) -> tuple[int, int] | None:
        """(address, bytes) of the piece that contains `address`; None if there is none. [local]"""
        try:
            pointer, nbytes = raw.symm_heap_find(self._handle, address)
        except NotFoundError:
            return None
        return pointer, nbytes

    # ---- for allocators of other packages

    def torch_pool(self) -> torch.cuda.MemPool:
        """A pool of PyTorch's that takes its memory here: ``with
        torch.cuda.use_mem_pool(pool): ...``. [local] CUDA only.

        Tensors made in it are symmetric memory: operands without a
        copy, and `find()` and ``Group.find()`` know them. PyTorch takes
        pieces of megabytes and divides them itself, at the same offsets
        on ranks that make the same tensors. The pool keeps the heap; at
        most 8 pools of a process are open, or have tensors, at a time.
        """
        self._require_cuda()
        import torch

        number = raw.pool_open(self._handle, self.group._handle)
        pool = torch.cuda.MemPool(_torch_allocator(number).allocator())
        weakref.finalize(pool, raw.pool_close, number)
        return pool

    def cupy_pool(self) -> Any:
        """A ``cupy.cuda.MemoryPool`` that takes its memory here: ``with
        cupy.cuda.using_allocator(pool.malloc): ...``. [local]

        As `torch_pool()`; it raises `OutOfMemoryError` where CuPy would raise its own.
        """
        self._require_cuda()
        import cupy

        def malloc(nbytes: int, _: int) -> int:
            return raw.symm_heap_alloc(self._handle, nbytes, 512)[0]

        def free(address: int, device: int) -> None:
            cupy.cuda.Device(device).synchronize()  # as cudaFree() does, which CuPy counts on
            raw.symm_heap_free(self._handle, address)

        return cupy.cuda.MemoryPool(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)

    def _require_cuda(self) -> None:
        if self.group.backend != Backend.CUDA:
            raise UnsupportedError(
                "heap: a pool of PyTorch's or CuPy's is of a CUDA device, and this one is in host memory"
            )

    def info(self) -> HeapInfo:
        """Describe it. [local]"""
        return HeapInfo.read(raw.symm_heap_info(self._handle))

    def close(self) -> None:
        """Let go of it and of all pieces. [local] Never
        waits. Arrays made before keep the memory mapped.
        """
        super().close()
        if "memory" in self.__dict__:
            self.memory.close()

    def __repr__(self) -> str:
        return f"<symm.Heap of {self.nbytes} bytes on each of {self.group.size} ranks{', closed' if self.closed else ''}>"
