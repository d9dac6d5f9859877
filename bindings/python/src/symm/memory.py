"""Buffers and memories.

A buffer is one rank's allocation. It becomes a memory by a rendezvous, in which all ranks
exchange their buffers.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections import namedtuple
from operator import index

from symm._generated import BufferInfo, MemoryInfo
from symm._library import Closing, Owned, raw
from symm._pieces import Rows, pages_of, pieces_of, signal_of
from symm._streams import current_on, handle_of, within
from symm._view import extents_of
from symm.array import SymmArray
from symm.dtypes import DTypeLike, dtype_of
from symm.enums import AtomicOp, Compare, SignalOp
from symm.errors import InvalidArgumentError, NotFoundError, SymmError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NamedTuple

    from symm._operand import AnyOperand

    # For annotations only. Group.rendezvous() makes memories, so symm.group imports this module.
    from symm.group import Group


if TYPE_CHECKING:

    class _Wait(NamedTuple):
        rank: int
        channel: int
        compare: Compare
        value: int
else:
    _Wait = namedtuple("_Wait", "rank channel compare value")


class SignalWait(_Wait):
    """A signal to wait for, by `Memory.wait_any_signal()` or `Memory.wait_all_signals()`.

    The wait ends when the word from `rank` on `channel` compares with `value` as `compare`
    says.

    Attributes:
        rank: the rank that writes the word.
        channel: the channel of the word.
        compare: how it is compared.
        value: what it is compared with.
    """

    __slots__ = ()


class Buffer(Owned):
    """One rank's allocation.

    ``Group.alloc()`` makes buffers, zeroed and aligned to at least 4096 bytes.
    ``Group.adopt()`` makes buffers of memory that another library allocated.

    Attributes:
        nbytes: the size in bytes, as requested.
    """

    def __init__(self, handle: int, nbytes: int) -> None:
        super().__init__(handle, raw.symm_buffer_release)
        self.nbytes = nbytes

    @property
    def pointer(self) -> int:
        """Address of the block. [local] Valid while the buffer or its memory is open."""
        return raw.symm_buffer_pointer(self._handle)

    def info(self) -> BufferInfo:
        """Describe the buffer. [local]"""
        return BufferInfo.read(raw.symm_buffer_info(self._handle))

    @property
    def group(self) -> Group | None:
        """The group that the buffer was made for; None if it is gone. [local]

        It is an object of its own for that group, which a buffer does not keep alive.
        """
        from symm.group import Group  # which imports this module

        try:
            return Group(raw.symm_buffer_group(self._handle))
        except NotFoundError:
            return None

    def export_dmabuf(self, offset: int = 0, nbytes: int | None = None) -> int:
        """A DMA-BUF descriptor of a piece, by which a device of another kind can map it. [local]

        The caller owns the descriptor, and closes it by ``os.close()``.

        Args:
            offset: bytes from the start of the buffer to the piece. The address there must be a
                multiple of the page size.
            nbytes: the size of the piece, rounded up to whole pages; None: up to the end.

        Raises:
            UnavailableError: there is no DMA-BUF of this memory; the message says why.
                ``device_info().dmabuf`` says beforehand whether there is.
            InvalidArgumentError: `offset` or `nbytes` is wrong.
        """
        if nbytes is None:
            nbytes = self.nbytes - offset
        return raw.symm_buffer_export_dmabuf(self._handle, offset, nbytes, None)

    def record_use(self, stream: Any) -> None:
        """Say that work issued on `stream` so far uses this rank's block. [local] [stream]

        ``Memory.record_use()`` says what this is for.
        """
        raw.symm_buffer_record_use(self._handle, None, handle_of(stream))

    def suspend(self, *, keep: bool = False, stream: Any = None) -> None:
        """Give the memory back to the system, and keep its address. [local] [stream]

        For an engine that sleeps: `resume()` brings memory back to the same address, so graphs
        that were captured with it are right again. Until then an access faults. The tokens of
        the buffer end; those who have imported it keep what they have.

        Args:
            keep: keep the contents, in memory of the host; else they are lost.
            stream: what was issued on it before is over when the memory goes.

        Raises:
            InvalidArgumentError: the buffer is suspended, or has met on a group that is still
                there, or this process has imported a piece of it.
            UnsupportedError: the buffer was adopted.
        """
        flags = raw.SYMM_SUSPEND_KEEP if keep else 0
        on = 0 if stream is None else handle_of(stream)
        raw.symm_buffer_suspend(self._handle, flags, None, on)

    def resume(self, stream: Any = None) -> None:
        """Bring memory back to the address: as it was kept, or zeroed. [local] [stream]

        Raises:
            OutOfMemoryError: there is not as much memory; the buffer stays suspended.
        """
        on = 0 if stream is None else handle_of(stream)
        raw.symm_buffer_resume(self._handle, None, on)


def find_buffer(address: int) -> tuple[Buffer, int] | None:
    """Find the buffer of this process that contains `address`. [local]

    Returns:
        (the buffer, offset in bytes); None if no buffer contains it.
    """
    try:
        handle, offset = raw.symm_buffer_find(address, None)
    except NotFoundError:
        return None
    return Buffer(handle, raw.symm_buffer_bytes(handle)), offset


class Mapping(Owned):
    """The reference to the mapped blocks of a memory.

    Arrays hold it, too, so that closing a memory never unmaps their bytes.

    Attributes:
        group: a handle of the group, which stays valid as long as the mapping.
    """

    def __init__(self, handle: int, group: int = 0, device: int | None = None) -> None:
        if group:
            raw.symm_group_retain(group)
        super().__init__(handle, functools.partial(_end, group, device))
        self.group = group


def _end(
    group: int,
    device: int | None,
    memory: int,
    *,
    # At the end of the interpreter, finalizers run when the globals of modules are gone.
    is_finalizing: Callable[[], bool] = sys.is_finalizing,
    release_memory: Callable[[int], None] = raw.symm_memory_release,
    release_group: Callable[[int], None] = raw.symm_group_release,
) -> None:
    if device is not None and not is_finalizing():
        _see_capture(group, device)
    release_memory(memory)
    release_group(group)


def _see_capture(group: int, device: int) -> None:
    # Memory cannot be released while a stream is captured. Most captures are on the current
    # stream of a framework. The query lets the library see whether that stream is captured.
    stream = current_on(device)
    if stream is not None:
        with contextlib.suppress(SymmError):
            raw.symm_stream_query(group, stream, None)


class Memory(Closing):
    """A buffer after its rendezvous: every rank's block is mapped in this process.

    ``Group.rendezvous()`` makes memories.

    Attributes:
        group: the group of the rendezvous.
        rank: this rank in the group.
        size: the number of ranks.
        nbytes: bytes of each block.
        id: the number of the memory, the same on all ranks.
    """

    rank: int
    size: int
    nbytes: int
    id: int
    _closed = Mapping(0)

    def __init__(self, handle: int, group: Group) -> None:
        self._mapping = Mapping(handle, group._handle, None if group._on_host else group.device)
        self.group = group
        info = self.info()
        self.rank = info.rank
        self.size = info.size
        self.nbytes = info.bytes
        self.id = info.id

    @property
    def _handle(self) -> int:
        return self._mapping._handle

    def close(self) -> None:
        """Release the blocks. [local] Never waits.

        Arrays that were made before keep the blocks mapped as long as they live.
        """
        self._mapping = self._closed

    @property
    def closed(self) -> bool:
        """Whether the memory was closed."""
        return self._mapping is self._closed

    def info(self) -> MemoryInfo:
        """Describe the memory. [local]"""
        return MemoryInfo.read(raw.symm_memory_info(self._handle))

    @property
    def buffer(self) -> Buffer:
        """The buffer that has become this memory: this rank's block. [local]"""
        return Buffer(raw.symm_memory_buffer(self._handle), self.nbytes)

    def pointer(self, rank: int | None = None) -> int:
        """Address at which `rank`'s block (None: this rank's) is mapped here. [local]

        It is valid while this memory is open or an array of it lives.
        """
        return raw.symm_memory_pointer(self._handle, self.rank if rank is None else rank)

    def signal_pad(self, rank: int | None = None) -> int:
        """Address of `rank`'s signal pad: 64-bit words ``pad[channel][source rank]``. [local]"""
        return raw.symm_memory_signal_pad(self._handle, self.rank if rank is None else rank)

    def pointer_table(self) -> int:
        """Address of a table of all ranks' block addresses. [local]

        The group's device can read the table.
        """
        return raw.symm_memory_pointer_table(self._handle)

    def signal_pad_table(self) -> int:
        """Address of a table of all ranks' pad addresses. [local]

        The group's device can read the table.
        """
        return raw.symm_memory_signal_pad_table(self._handle)

    def device_view(self, *, timeout: float | None = None, stop: int | None = None) -> bytes:
        """The bytes of a ``symm_memory_view_t``, for kernels of the caller's own. [local]

        The struct is ``symm::device::Memory`` of ``symm/device.cuh``.

        Args:
            timeout: seconds for each wait in a kernel; None: the group's; ``math.inf``: for
                ever.
            stop: device address of a 32-bit word that ends all waits when it becomes other than
                0.

        Raises:
            UnsupportedError: the group is on the host.
        """
        return raw.symm_memory_device_view(self._handle, stop, within(timeout))

    def multicast_pointer(self) -> int:
        """Multicast address of all ranks' blocks, for the device's multimem instructions. [local]

        Raises:
            UnavailableError: there is none; the message says why, as ``info().multicast_reason``
                does.
        """
        return raw.symm_memory_multicast_pointer(self._handle, None)

    def array(
        self,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = "f32",
        *,
        rank: int | None = None,
        offset: int = 0,
    ) -> SymmArray:
        """A part of a block as an array, which keeps the memory alive. [local]

        Args:
            shape: the extents, contiguous in C order.
            dtype: the element type.
            rank: the rank whose block it is; None: this rank.
            offset: bytes from the start of the block to the array, a multiple of the size of an
                element.

        Raises:
            InvalidArgumentError: the array goes beyond the block, or is not aligned.
            UnavailableError: `rank` is on another machine.
        """
        if rank is None:
            rank = self.rank
        pointer = raw.symm_memory_pointer(self._handle, rank)
        return SymmArray(
            self, self._mapping, pointer, rank, index(offset), extents_of(shape), dtype_of(dtype)
        )

    def record_use(self, stream: Any = None) -> None:
        """Say that work issued on `stream` so far uses this memory. [local] [stream]

        On the host this does nothing. It makes an earlier release possible, and is never
        necessary, since memory is never released under a kernel:

        - If no uses were recorded, the memory is released once all work is over that the device
          had at the time of the release.
        - If uses were recorded, it is released once these and this package's own calls are
          over, which is earlier. Then every stream that uses the memory must have been
          recorded, each after its last work.
        """
        raw.symm_memory_record_use(self._handle, None, self.group._stream(stream))

    def _copy_operand(
        self, array: Any, name: str, stream: Any, room: float, *, written: bool = False
    ) -> tuple[AnyOperand, int, int]:
        """The operand of a put or get of at most `room` bytes, its size in bytes, the CUstream."""
        cuda_stream = self.group._stream(stream, array)
        operand = self.group._operand(array, name, cuda_stream, written=written)
        nbytes = operand.size * operand.dtype.itemsize
        if nbytes > room:
            raise InvalidArgumentError(
                f"{name}: {nbytes} bytes are more than the {room} of the array"
            )
        return operand, nbytes, cuda_stream

    def put(
        self,
        rank: int,
        offset: int,
        source: Any,
        *,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
        stream: Any = None,
        _room: float = math.inf,
    ) -> None:
        """Copy all of `source` to byte `offset` of `rank`'s block. [local] [stream]

        The copy is visible to that rank after a signal or barrier.

        Args:
            rank: the rank whose block is written.
            offset: bytes from the start of the block.
            source: a contiguous array on the group's device, of any package that speaks DLPack
                or has the buffer protocol.
            signal: a channel on which to signal `rank` when the bytes have arrived; None: no
                signal.
            op: what the signal does to its word, as in `signal_value()`.
            value: what is added to the word, or what the word becomes.
            timeout: seconds to wait for a rank on another machine; None: the group's.
            stream: the stream of the call; None: the current stream of `source`'s framework,
                else of PyTorch or CuPy.

        Raises:
            InvalidArgumentError: the rank or the channel does not exist, or the bytes go beyond
                the block.
        """
        operand, nbytes, cuda_stream = self._copy_operand(source, "source", stream, _room)
        if signal is None:
            if op is not SignalOp.ADD or value != 1:
                raise InvalidArgumentError("op, value: are of a signal, and signal is None")
            raw.symm_put(
                self._handle, rank, offset, operand.pointer, nbytes, within(timeout), cuda_stream
            )
        elif op is SignalOp.ADD and value == 1:
            raw.symm_put_signal(
                self._handle,
                rank,
                offset,
                operand.pointer,
                nbytes,
                signal,
                within(timeout),
                cuda_stream,
            )
        else:
            raw.symm_put_signal_value(
                self._handle,
                rank,
                offset,
                operand.pointer,
                nbytes,
                signal,
                op,
                value,
                within(timeout),
                cuda_stream,
            )

    def get(
        self,
        rank: int,
        offset: int,
        destination: Any,
        *,
        timeout: float | None = None,
        stream: Any = None,
        _room: float = math.inf,
    ) -> None:
        """Fill all of `destination` from `rank`'s block, from byte `offset` on. [local] [stream]

        Parameters and errors are those of `put()`.
        """
        operand, nbytes, cuda_stream = self._copy_operand(
            destination, "destination", stream, _room, written=True
        )
        raw.symm_get(
            self._handle, rank, offset, operand.pointer, nbytes, within(timeout), cuda_stream
        )

    def put_pieces(
        self,
        rank: int,
        offset: int,
        source: Any,
        pieces: Sequence[Rows] | Any,
        *,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Copy pieces of `source` to `rank`'s block in one call. [local] [stream]

        They are visible to that rank after the signal of the call, or any later signal or
        barrier. ``SymmArray.put_part()`` makes pieces of slices.

        Args:
            rank: the rank whose block is written.
            offset: from where the pieces count in the block, in bytes from its start.
            source: a contiguous array, as for `put()`.
            pieces: a sequence of `Rows`; or, for long lists, a contiguous array of 64-bit integers
                with a row of six for each piece, in the order of the fields of `Rows`. An array on
                the device is read, and checked, when the stream has come to the call.
            signal: a channel on which to signal `rank` when all pieces have arrived; None: no
                signal.
            op: what the signal does to its word, as in `signal_value()`.
            value: what is added to the word, or what the word becomes.
            timeout: seconds to wait for a rank on another machine; None: the group's.
            stream: the stream of the call.

        Raises:
            InvalidArgumentError: the rank or the channel does not exist, a piece goes beyond
                `source` or the block, or its rows overlap where they go. The message names the
                piece, and nothing was written.
            UnsupportedError: the group is one of GPUs, and the rank is on another machine.
        """
        chosen = pieces_of(pieces, self.group)
        call = (*chosen.as_pieces(), *signal_of(signal, op, value, on_device=chosen.on_device))
        place, _keep = self._place(source, "source", stream)
        self._copy_pieces(raw.symm_put_pieces, rank, offset, place, call, timeout)

    def get_pieces(
        self,
        rank: int,
        offset: int,
        destination: Any,
        pieces: Sequence[Rows] | Any,
        *,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Copy pieces of `rank`'s block to `destination` in one call. [local] [stream]

        A signal tells `rank` that it may write these pieces anew. Parameters and errors are those
        of `put_pieces()`.
        """
        chosen = pieces_of(pieces, self.group)
        call = (*chosen.as_pieces(), *signal_of(signal, op, value, on_device=chosen.on_device))
        place, _keep = self._place(destination, "destination", stream, written=True)
        self._copy_pieces(raw.symm_get_pieces, rank, offset, place, call, timeout)

    def put_pages(
        self,
        rank: int,
        offset: int,
        source: Any,
        page_bytes: int,
        *,
        from_table: Sequence[int] | Any = None,
        to_table: Sequence[int] | Any = None,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Copy pages of `source` to pages of `rank`'s block, by their numbers. [local] [stream]

        Page n begins ``n * page_bytes`` bytes behind the start of `source`, and so many behind
        byte `offset` of the block.

        Args:
            rank: the rank whose block is written.
            offset: where page 0 of the block begins.
            source: a contiguous array, as for `put()`.
            page_bytes: the size of a page.
            from_table: the numbers of the pages that are read, as a tensor or array of 64-bit
                integers or a sequence; None: 0, 1, 2 and so on.
            to_table: the numbers of the pages that are written, as many; None: 0, 1, 2 and so on.
            signal: as for `put_pieces()`, as all that follow.
            op: see there.
            value: see there.
            timeout: see there.
            stream: see there.

        Raises:
            InvalidArgumentError: as for `put_pieces()`; or the tables differ in length.
            UnsupportedError: the group is one of GPUs, and the rank is on another machine.
        """
        pages, tables = pages_of(page_bytes, from_table, to_table, self.group)
        place, _keep = self._place(source, "source", stream)
        call = (*pages, *signal_of(signal, op, value, on_device=tables[0].on_device))
        self._copy_pieces(raw.symm_put_pieces, rank, offset, place, call, timeout)

    def get_pages(
        self,
        rank: int,
        offset: int,
        destination: Any,
        page_bytes: int,
        *,
        from_table: Sequence[int] | Any = None,
        to_table: Sequence[int] | Any = None,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Copy pages of `rank`'s block to pages of `destination`. [local] [stream]

        `from_table` has pages of the block, and `to_table` those of `destination`. Parameters and
        errors are those of `put_pages()`.
        """
        pages, tables = pages_of(page_bytes, from_table, to_table, self.group)
        place, _keep = self._place(destination, "destination", stream, written=True)
        call = (*pages, *signal_of(signal, op, value, on_device=tables[0].on_device))
        self._copy_pieces(raw.symm_get_pieces, rank, offset, place, call, timeout)

    def _copy_pieces(
        self,
        call: Callable[..., None],
        rank: int,
        offset: int,
        place: tuple[int, int, int],
        pieces: tuple[int, ...],
        timeout: float | None,
    ) -> None:
        """A put or get between a block and the bytes at an address, on a CUstream: `place`."""
        pointer, nbytes, cuda_stream = place
        call(self._handle, rank, offset, pointer, nbytes, pieces, within(timeout), cuda_stream)

    def _place(
        self, array: Any, name: str, stream: Any, *, written: bool = False
    ) -> tuple[tuple[int, int, int], AnyOperand]:
        operand, nbytes, cuda_stream = self._copy_operand(
            array, name, stream, math.inf, written=written
        )
        return (operand.pointer, nbytes, cuda_stream), operand

    def fill32(
        self,
        rank: int,
        offset: int,
        value: int,
        count: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Store `count` copies of the 32-bit `value` in `rank`'s block. [local] [stream]

        They begin at byte `offset`, a multiple of 4. `timeout` is that of `put()`.
        """
        raw.symm_fill32(
            self._handle, rank, offset, value, count, within(timeout), self.group._stream(stream)
        )

    def fill8(
        self,
        rank: int,
        offset: int,
        value: int,
        count: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Store `count` copies of the byte `value` in `rank`'s block. [local] [stream]

        They begin at byte `offset`. `timeout` is that of `put()`.
        """
        raw.symm_fill8(
            self._handle, rank, offset, value, count, within(timeout), self.group._stream(stream)
        )

    def fill16(
        self,
        rank: int,
        offset: int,
        value: int,
        count: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Store `count` copies of the 16-bit `value` in `rank`'s block. [local] [stream]

        They begin at byte `offset`, a multiple of 2. `timeout` is that of `put()`.
        """
        raw.symm_fill16(
            self._handle, rank, offset, value, count, within(timeout), self.group._stream(stream)
        )

    def fill64(
        self,
        rank: int,
        offset: int,
        value: int,
        count: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Store `count` copies of the 64-bit `value` in `rank`'s block. [local] [stream]

        They begin at byte `offset`, a multiple of 8. `timeout` is that of `put()`.
        """
        raw.symm_fill64(
            self._handle, rank, offset, value, count, within(timeout), self.group._stream(stream)
        )

    def write_value32(
        self,
        rank: int,
        offset: int,
        value: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Store one 32-bit value at byte `offset` of `rank`'s block. [local] [stream]

        The offset is a multiple of 4. The store is ordered after everything that this rank
        wrote before. `timeout` is that of `put()`.
        """
        raw.symm_write_value32(
            self._handle, rank, offset, value, within(timeout), self.group._stream(stream)
        )

    def write_value64(
        self,
        rank: int,
        offset: int,
        value: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Store one 64-bit value at byte `offset` of `rank`'s block. [local] [stream]

        The offset is a multiple of 8. The store is ordered after everything that this rank
        wrote before. `timeout` is that of `put()`.
        """
        raw.symm_write_value64(
            self._handle, rank, offset, value, within(timeout), self.group._stream(stream)
        )

    def read_value32(self, rank: int, offset: int, *, timeout: float | None = None) -> int:
        """The 32-bit word at byte `offset` of `rank`'s block, as it is now. [local]

        The offset is a multiple of 4. No stream is waited for. What was written before the word in
        release order is visible. `timeout` is that of `put()`.

        Raises:
            InvalidArgumentError: the rank does not exist, or there is no such word.
            UnsupportedError: the rank is on another machine, and the group is one of GPUs.
        """
        return raw.symm_read_value32(self._handle, rank, offset, within(timeout))

    def read_value64(self, rank: int, offset: int, *, timeout: float | None = None) -> int:
        """The 64-bit word at byte `offset` of `rank`'s block, as it is now. [local]

        The offset is a multiple of 8. All else is as for `read_value32()`.
        """
        return raw.symm_read_value64(self._handle, rank, offset, within(timeout))

    def atomic32(
        self,
        rank: int,
        offset: int,
        op: AtomicOp,
        value: int = 0,
        *,
        compare: int = 0,
        into: Any = None,
        timeout: float | None = None,
        stream: Any = None,
    ) -> int | None:
        """Change the 32-bit word at byte `offset` of `rank`'s block in one step. [local] [stream]

        It is atomic with all other calls of this kind, with `write_value32()` and
        `wait_value32()`, and with atomic operations of kernels at system scope, by any rank. What
        this rank wrote before is visible to a rank that sees the word changed.

        Args:
            rank: the rank whose block it is.
            offset: bytes from the start of the block to the word, a multiple of 4.
            op: what becomes of the word.
            value: the right operand; 0 for ``FETCH``.
            compare: what the word is compared with, for ``COMPARE_SWAP``; else 0.
            into: a contiguous array of 4 bytes on the group's device, which receives what the word
                was: on CUDA when the call runs, so that a captured graph fetches anew. None: with
                the host back end that is returned, and on CUDA nothing is fetched.
            timeout: seconds to wait for a rank on another machine; None: the group's.
            stream: the stream of the call; None: the current stream of the framework of `into`,
                else of PyTorch or CuPy.

        Returns:
            What the word was, with the host back end and without `into`; else None.

        Raises:
            InvalidArgumentError: the rank does not exist, there is no such word, or an argument
                does not go with `op`.
            UnsupportedError: the rank is on another machine, and the group is one of GPUs.
        """
        return self._atomic(
            raw.symm_atomic32, 4, rank, offset, op, value, compare, into, timeout, stream
        )

    def atomic64(
        self,
        rank: int,
        offset: int,
        op: AtomicOp,
        value: int = 0,
        *,
        compare: int = 0,
        into: Any = None,
        timeout: float | None = None,
        stream: Any = None,
    ) -> int | None:
        """Change the 64-bit word at byte `offset` of `rank`'s block in one step. [local] [stream]

        The offset is a multiple of 8, and `into` has 8 bytes. All else is as for `atomic32()`.
        """
        return self._atomic(
            raw.symm_atomic64, 8, rank, offset, op, value, compare, into, timeout, stream
        )

    def _atomic(
        self,
        call: Callable[..., None],
        word_bytes: int,
        rank: int,
        offset: int,
        op: AtomicOp,
        value: int,
        compare: int,
        into: Any,
        timeout: float | None,
        stream: Any,
    ) -> int | None:
        """A change of a word of so many bytes; returns what the word was where nobody else can."""
        before: Any = None
        if into is None and self.group._on_host:
            before = into = bytearray(word_bytes)
        pointer = None
        if into is None:
            cuda_stream = self.group._stream(stream)
        else:
            operand, nbytes, cuda_stream = self._copy_operand(
                into, "into", stream, math.inf, written=True
            )
            if nbytes != word_bytes:
                raise InvalidArgumentError(f"into: has {nbytes} bytes, the word {word_bytes}")
            pointer = operand.pointer
        call(self._handle, rank, offset, op, value, compare, within(timeout), pointer, cuda_stream)
        return None if before is None else int.from_bytes(before, "little")

    def wait_value32(
        self,
        offset: int,
        compare: Compare,
        value: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Wait until the 32-bit word at byte `offset` of this rank's own block compares so.

        [local] [stream; blocking on the host] The word is compared with `value` as `compare`
        says. Any writer and any means of writing will do. What the writer wrote before the
        word, in release order, is visible after the wait.
        """
        raw.symm_wait_value32(
            self._handle, offset, compare, value, within(timeout), self.group._stream(stream)
        )

    def wait_value64(
        self,
        offset: int,
        compare: Compare,
        value: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Wait until the 64-bit word at byte `offset` of this rank's own block compares so.

        [local] [stream; blocking on the host] `wait_value32()` has the details.
        """
        raw.symm_wait_value64(
            self._handle, offset, compare, value, within(timeout), self.group._stream(stream)
        )

    def signal(
        self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Send one signal to `rank` on `channel`. [local] [stream]

        Never waits on one machine; any number of signals may be outstanding. What this rank
        wrote before is visible to the rank that has waited for the signal. `timeout` is that of
        `put()`.
        """
        raw.symm_signal(self._handle, rank, channel, within(timeout), self.group._stream(stream))

    def wait_signal(
        self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Wait for one signal from `rank` on `channel`, and take it.

        [local] [stream; blocking on the host]

        Args:
            rank: the rank that sends the signal.
            channel: 0 .. channels-1.
            timeout: seconds; None: the group's; ``math.inf``: for ever; 0: only look, on the
                host.
            stream: the stream of the call.

        Raises:
            symm.TimeoutError: the signal did not come. On the host nothing was taken, and the group
                stays usable.
        """
        raw.symm_wait_signal(
            self._handle, rank, channel, within(timeout), self.group._stream(stream)
        )

    def signal_value(
        self,
        rank: int,
        value: int,
        channel: int = 0,
        *,
        op: SignalOp = SignalOp.ADD,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Add `value` to the 64-bit word that `rank` sees of this rank on `channel`, or set it.

        [local] [stream] Never waits on one machine. `op` says whether the value is added or
        set. `timeout` is that of `put()`.
        """
        raw.symm_signal_value(
            self._handle,
            rank,
            channel,
            op,
            value,
            within(timeout),
            self.group._stream(stream),
        )

    def wait_signal_value(
        self,
        rank: int,
        compare: Compare,
        value: int,
        channel: int = 0,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> int | None:
        """Wait until the word from `rank` on `channel` compares with `value` as `compare` says.

        [local] [stream; blocking on the host] No signal is taken. Time-out and errors are those
        of `wait_signal()`.

        Returns:
            The word at that time; None with CUDA, where the call does not wait.
        """
        wants_word = self.group._on_host
        return raw.symm_wait_signal_value(
            self._handle,
            rank,
            channel,
            compare,
            value,
            within(timeout),
            wants_word,
            self.group._stream(stream),
        )

    def wait_all_signals(
        self, waits: Sequence[SignalWait], *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Wait until each of `waits` has been fulfilled at some time, not all at once.

        [local] [stream; blocking on the host] No signal is taken. Time-out and errors are those
        of `wait_signal()`.
        """
        self._wait_signals(waits, raw.SYMM_WAIT_ALL, timeout, stream)

    def wait_any_signal(
        self, waits: Sequence[SignalWait], *, timeout: float | None = None, stream: Any = None
    ) -> int | None:
        """Wait until one of `waits` is fulfilled. [local] [stream; blocking on the host]

        No signal is taken. Time-out and errors are those of `wait_signal()`.

        Returns:
            The index of the first that is fulfilled; None with CUDA, where the call does not
            wait.
        """
        return self._wait_signals(waits, raw.SYMM_WAIT_ANY, timeout, stream)

    def _wait_signals(
        self, waits: Sequence[SignalWait], mode: int, timeout: float | None, stream: Any
    ) -> int | None:
        wants_index = mode == raw.SYMM_WAIT_ANY and self.group._on_host
        return raw.symm_wait_signals(
            self._handle, waits, mode, within(timeout), wants_index, self.group._stream(stream)
        )

    def test_signal(self, rank: int, channel: int = 0) -> int:
        """The number of untaken signals from `rank` on `channel`. [local] Never waits."""
        return raw.symm_test_signal(self._handle, rank, channel, None)

    def test_signal_value(self, rank: int, channel: int = 0) -> int:
        """The 64-bit word from `rank` on `channel`. [local] Never waits."""
        return raw.symm_test_signal_value(self._handle, rank, channel, None)

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<symm.Memory of {self.nbytes} bytes on each of {self.size} ranks{state}>"
