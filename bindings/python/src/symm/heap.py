"""Heaps: memories of a group that are handed out in pieces."""

from __future__ import annotations

import functools
import math

from symm._generated import HeapInfo
from symm._library import Closing, Owned, raw
from symm._view import extents_of
from symm.dtypes import DTypeLike, dtype_of
from symm.enums import Backend
from symm.errors import NotFoundError, UnsupportedError
from symm.memory import Memory

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any

    import torch

    # For annotations only. Group.heap() makes heaps, so symm.group imports this module.
    from symm.array import SymmArray
    from symm.group import Group


@functools.cache
def torch_allocator(number: int) -> Any:
    """PyTorch's allocator object for pair `number` of the extension's pool functions.

    It is cached for good, because PyTorch does not keep it alive for its pools.
    """
    from torch.cuda.memory import CUDAPluggableAllocator

    return CUDAPluggableAllocator(
        raw.__file__, f"symm_pool_alloc_{number}", f"symm_pool_free_{number}"
    )


class Heap(Owned, Closing):
    """Symmetric memory that is handed out in pieces without communication.

    ``Group.heap()`` makes heaps. Ranks that make the same calls in the same order get the same
    offsets. Pieces are freed by `free()` and not by the garbage collector, which runs at
    different times on different ranks. `close()`, or the end of a ``with`` block, frees all
    pieces. Any thread may call, in an order that is the same on all ranks. In a group that was
    made with ``check=True``, ranks whose calls differ get `MismatchError` in the next
    collective.

    Attributes:
        group: the group.
        memory: the memory that contains the pieces. A piece's `offset` is its offset in this
            memory, for put, get and signals.
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
        """Take a piece of this rank's block as an array. [local]

        The elements are not initialised.

        Args:
            shape: the extents. An array without elements takes no piece.
            dtype: the element type.
            alignment: the alignment of the offset, a power of two up to the heap's alignment;
                0: 256 bytes, which is also the minimum.

        Raises:
            OutOfMemoryError: the message has the requested size, the free bytes, and the size
                of the largest free piece.
            InvalidArgumentError: the alignment is wrong.
        """
        extents = extents_of(shape)
        kind = dtype_of(dtype)
        nbytes = math.prod(extents) * kind.itemsize
        offset = 0
        if nbytes > 0:
            _, offset = raw.symm_heap_alloc(self._handle, nbytes, alignment, None)
        return self.memory.array(extents, kind, offset=offset)

    def free(self, array: SymmArray) -> None:
        """Free the piece of an array that `empty()` returned. [local]

        Never waits. The next `empty()` may hand the piece out again. So neither the array nor a
        view of it may be in use any more on any rank, which a barrier establishes. On CUDA,
        work that uses this piece must be ordered before work that uses the next one, as it is
        on one stream.

        Raises:
            InvalidArgumentError: the array was freed already, is a part of a piece, or is not
                of this heap. Nothing has changed.
        """
        if array.nbytes:
            raw.symm_heap_free(self._handle, array.pointer, None)

    def find(self, address: int) -> tuple[int, int] | None:
        """(address, bytes) of the piece that contains `address`; None if none does. [local]"""
        try:
            pointer, nbytes = raw.symm_heap_find(self._handle, address, None)
        except NotFoundError:
            return None
        return pointer, nbytes

    # ---- for allocators of other packages

    def torch_pool(self) -> torch.cuda.MemPool:
        """A pool of PyTorch's that takes its memory from this heap. [local] CUDA only.

        It is for ``with torch.cuda.use_mem_pool(pool): ...``. Tensors that are made in it are
        symmetric memory: collectives use them without a copy, and `find()` and ``Group.find()``
        find them. PyTorch takes pieces of megabytes and divides them itself, at the same
        offsets on ranks that make the same tensors. The pool keeps the heap alive. At most 8
        pools of a process may be open, or have tensors, at a time.
        """
        self._require_cuda()
        import torch

        number = raw.pool_open(self._handle, self.group._handle)
        pool = torch.cuda.MemPool(torch_allocator(number).allocator())
        import weakref

        weakref.finalize(pool, raw.pool_close, number)
        return pool

    def cupy_pool(self) -> Any:
        """A ``cupy.cuda.MemoryPool`` that takes its memory from this heap. [local] CUDA only.

        It is for ``with cupy.cuda.using_allocator(pool.malloc): ...``. Arrays that are made in
        it are symmetric memory, as with `torch_pool()`. The pool raises `OutOfMemoryError`
        where CuPy's own pools raise CuPy's exception.
        """
        self._require_cuda()
        import cupy

        def malloc(nbytes: int, _: int) -> int:
            address, _ = raw.symm_heap_alloc(self._handle, nbytes, 512, None)
            return address

        def free(address: int, device: int) -> None:
            # cudaFree() synchronises the device, and CuPy relies on that.
            cupy.cuda.Device(device).synchronize()
            raw.symm_heap_free(self._handle, address, None)

        return cupy.cuda.MemoryPool(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)

    def _require_cuda(self) -> None:
        if self.group.backend != Backend.CUDA:
            raise UnsupportedError(
                "heap: a pool of PyTorch's or CuPy's is of a CUDA device, "
                "and this one is in host memory"
            )

    def info(self) -> HeapInfo:
        """Describe the heap. [local]"""
        return HeapInfo.read(raw.symm_heap_info(self._handle))

    def close(self) -> None:
        """Release the heap and all its pieces. [local]

        Never waits. Arrays that were made before keep the memory mapped.
        """
        super().close()
        if "memory" in self.__dict__:  # not if __init__() failed
            self.memory.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<symm.Heap of {self.nbytes} bytes on each of {self.group.size} ranks{state}>"
