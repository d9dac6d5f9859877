"""Memory that is given back while a program sleeps, by tags.

The calls are those of the package torch_memory_saver: ``region()``, ``pause()`` and ``resume()``.
Memory comes back to the same address, so tensors and captured graphs stay right.
"""

from __future__ import annotations

import math
import sys
import weakref
from contextlib import contextmanager

from symm._library import raw
from symm._streams import current_on
from symm._view import CUDA, Array, extents_of
from symm.dtypes import DType, DTypeLike, dtype_of
from symm.enums import Backend
from symm.errors import InvalidArgumentError
from symm.memory import Buffer

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    from symm.group import Group

    class _Import(Protocol):
        def suspend(self) -> None: ...
        def resume(self) -> None: ...
        def info(self) -> Any: ...


class BufferArray(Array):
    """An array in a buffer that no other rank has mapped: `MemorySaver.empty()` makes them."""

    def __init__(
        self,
        buffer: Buffer,
        pointer: int,
        shape: tuple[int, ...],
        dtype: DType,
        device_key: tuple[int, int],
    ) -> None:
        super().__init__(pointer, shape, dtype, device_key)
        self.buffer = buffer

    def _derive(self, offset: int, shape: tuple[int, ...], dtype: DType) -> BufferArray:
        return BufferArray(self.buffer, self.pointer + offset, shape, dtype, self.device_key)

    def _order(self, _stream: int) -> None:
        """The memory has no stream of its own to wait for."""

    def record_use(self, stream: Any = None) -> None:
        """Say that work issued on `stream` so far uses the array. [local] [stream]"""
        if stream is None and self.device_key[0] == CUDA:
            stream = current_on(self.device_key[1])
        self.buffer.record_use(0 if stream is None else stream)


class _Region:
    """The memory of a tag that is kept, or is not."""

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.paused = False
        self.buffers: list[weakref.ref[Buffer]] = []
        self.imports: list[_Import] = []
        self.pool: tuple[int, Any] | None = None  # its number, and PyTorch's object

    def all_buffers(self) -> list[Buffer]:
        """Those that are still in use."""
        self.buffers = [one for one in self.buffers if one() is not None]
        found = [buffer for one in self.buffers if (buffer := one()) is not None]
        if self.pool is not None:
            handles = raw.pool_buffers(self.pool[0])
            found += [Buffer(handle, raw.symm_buffer_bytes(handle)) for handle in handles]
        return found


class MemorySaver:
    """Gives memory back by tags, and brings it back to the same addresses.

    It is for a program that calls ``torch_memory_saver.region()``, ``pause()`` and ``resume()``
    today. Unlike there, what was imported of another process is given back, too. One thread at a
    time may call.

    Args:
        group: on whose device the memory is; that of the host with the host back end.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self._regions: dict[tuple[str, bool], _Region] = {}
        self._inside: list[_Region] = []

    @contextmanager
    def region(self, tag: str = "default", enable_cpu_backup: bool = False) -> Iterator[None]:
        """A ``with`` block whose memory has a tag.

        That is what `empty()` makes, and on CUDA, with PyTorch, all tensors that it makes on the
        current device. Pools of PyTorch's are those of ``Heap.torch_pool()``: at most 8.

        Args:
            tag: a name; memory of several blocks may have one.
            enable_cpu_backup: keep the contents of the memory on the host while it is paused;
                else it comes back as zeros.

        Raises:
            InvalidArgumentError: memory of the tag is paused.
        """
        region = self._regions.setdefault((tag, enable_cpu_backup), _Region(enable_cpu_backup))
        if region.paused:
            raise InvalidArgumentError(f"tag: {tag} is paused")
        self._inside.append(region)
        try:
            if self.group.backend == Backend.CUDA and "torch" in sys.modules:
                import torch

                with torch.cuda.use_mem_pool(self._pool_of(region)):
                    yield
            else:
                yield
        finally:
            self._inside.pop()

    def _pool_of(self, region: _Region) -> Any:
        if region.pool is None:
            import torch

            from symm.heap import torch_allocator

            number = raw.pool_open_of_buffers(self.group._handle)
            pool = torch.cuda.MemPool(torch_allocator(number).allocator())
            weakref.finalize(pool, raw.pool_close, number)
            region.pool = (number, pool)
        return region.pool[1]

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = "f32") -> BufferArray:
        """An array of zeros in memory of this process. [local] Within a `region()`.

        The memory lives as long as the array and its views, in whatever package.

        Raises:
            InvalidArgumentError: no region is open.
            OutOfMemoryError: a limit was reached; the message names it.
        """
        if not self._inside:
            raise InvalidArgumentError("region: none is open")
        extents = extents_of(shape)
        kind = dtype_of(dtype)
        buffer = self.group.alloc(max(1, math.prod(extents) * kind.itemsize))
        self._inside[-1].buffers.append(weakref.ref(buffer))
        return BufferArray(buffer, buffer.pointer, extents, kind, self.group.device_key)

    def add(self, imported: Any, tag: str = "default") -> None:
        """Have `pause()` and `resume()` go for what was imported, too. [local]

        Its lease ends with the pause. `resume()` maps the same memory, unless the program has
        resumed the import itself before, with another version, say. The saver keeps it.

        Args:
            imported: an `ImportedArray`, a `Bundle`, or what `symm.torch.load()` returned.
            tag: a name, as for `region()`.
        """
        region = self._regions.setdefault((tag, False), _Region(keep=False))
        if region.paused:
            raise InvalidArgumentError(f"tag: {tag} is paused")
        region.imports.append(imported)

    def pause(self, tag: str | None = None) -> None:
        """Give memory back, and keep its addresses. [local] [stream]

        What was issued on the current stream before is over when the memory goes; other streams
        are the caller's to wait for. Until `resume()`, an access ends the process, or fails on the
        GPU. Tokens of the memory end (``Buffer.suspend()``). Memory that is paused stays so.

        Args:
            tag: whose memory; None: all.

        Raises:
            InvalidArgumentError: nothing has the tag; or a buffer cannot be suspended, and the
                message says why. What came before it is paused; `resume()` brings it back.
        """
        for region in self._of(tag):
            region.paused = True
            for buffer in region.all_buffers():
                if not buffer.info().flags & raw.SYMM_BUFFER_SUSPENDED:
                    buffer.suspend(keep=region.keep, stream=self._stream())
            for imported in region.imports:
                if not imported.info().flags & raw.SYMM_IPC_SUSPENDED:
                    imported.suspend()

    def resume(self, tag: str | None = None) -> None:
        """Bring memory back to its addresses. [local] [blocking] [stream]

        Args:
            tag: whose memory; None: all.

        Raises:
            InvalidArgumentError: nothing has the tag.
            OutOfMemoryError: there is not as much memory. What came before is there; the same call
                goes on. Imports raise what their `resume()` does.
        """
        for region in self._of(tag):
            for buffer in region.all_buffers():
                if buffer.info().flags & raw.SYMM_BUFFER_SUSPENDED:
                    buffer.resume(self._stream())
            for imported in region.imports:
                if imported.info().flags & raw.SYMM_IPC_SUSPENDED:
                    imported.resume()
            region.paused = False

    def _of(self, tag: str | None) -> list[_Region]:
        found = [one for (name, _), one in self._regions.items() if tag is None or name == tag]
        if tag is not None and not found:
            raise InvalidArgumentError(f"tag: nothing is called {tag}")
        return found

    def _stream(self) -> int | None:
        if self.group.backend != Backend.CUDA:
            return None
        return current_on(self.group.device) or 0
