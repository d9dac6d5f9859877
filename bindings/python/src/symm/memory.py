"""Buffers, one rank's allocation each, and memories, which
a buffer becomes when all ranks have exchanged theirs.
"""

from __future__ import annotations

import contextlib
import functools
import math
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

from symm._generated import BufferInfo, MemoryInfo
from symm._library import Closing, Owned, raw
from symm._streams import current_on, handle_of, milliseconds, within
from symm._view import extents_of
from symm.array import SymmArray
from symm.dtypes import DTypeLike, dtype_of
from symm.enums import Compare, SignalOp
from symm.errors import InvalidArgumentError, NotFoundError, SymmError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symm._operand import AnyOperand

    # For annotations only. Group.rendezvous() makes memories, so symm.group imports this module.
    from symm.group import Group


class SignalWait(NamedTuple):
    """One of the signals that `Memory.wait_any_signal()` and its
    like wait for: until its word compares so with `value`.
    """

    rank: int
    channel: int
    compare: Compare
    value: int


class Buffer(Owned):
    """One rank's allocation, made by ``Group.alloc()``: zeroed,
    and aligned to at least 4096 bytes. Or adopted memory.

    Attributes:
        nbytes: its size in bytes, as asked for.
    """

    def __init__(self, handle: int, nbytes: int) -> None:
        super().__init__(handle, raw.symm_buffer_release)
        self.nbytes = nbytes

    @property
    def pointer(self) -> int:
        """Address of the block. [local] Valid while the buffer or a memory of it lives."""
        return raw.symm_buffer_pointer(self._handle)

    def info(self) -> BufferInfo:
        """Describe it. [local]"""
        return BufferInfo.read(raw.symm_buffer_info(self._handle))

    def export_dmabuf(self, offset: int = 0, nbytes: int | None = None) -> int:
        """A descriptor of a piece as DMA-BUF, for a device of another kind to map. [local]
        The caller's, for ``os.close()``.

        Args:
            offset: bytes from the start of the buffer; the address
            there must be a multiple of the page size. nbytes: of the
            piece, rounded up to whole pages; None: up to the end.

        Raises:
            UnavailableError: the message says why; ``device_info().dmabuf`` tells beforehand.
            InvalidArgumentError: offset, nbytes.
        """
        return raw.symm_buffer_export_dmabuf(
            self._handle, offset, self.nbytes - offset if nbytes is None else nbytes
        )

    def record_use(self, stream: Any) -> None:
        """As ``Memory.record_use()``, of this rank's block."""
        raw.symm_buffer_record_use(self._handle, handle_of(stream))


def find_buffer(address: int) -> tuple[Buffer, int] | None:
    """The buffer of this process that `address` lies in, anywhere inside. [local]

    Returns:
        (the buffer, offset in bytes); None if it is in none.
    """
    try:
        handle, offset = raw.symm_buffer_find(address)
    except NotFoundError:
        return None
    return Buffer(handle, raw.symm_buffer_size(handle)), offset


class Mapping(Owned):
    """The reference to the mapped blocks. Arrays hold it too,
    so that closing a memory never takes their bytes away.

    Attributes:
        group: a handle of the group's, which keeps working for as long as the mapping.
    """

    def __init__(self, handle: int, group: int = 0, device: int | None = None) -> None:
        if group:
            raw.symm_group_retain(group)
        super().__init__(handle, functools.partial(_end, group, device))
        self.group = group


def _end(group: int, device: int | None, memory: int) -> None:
    # While a stream is captured, memory cannot be given back. Most captures are on the
    # current stream of a framework, and asking shows the library whether there is one.
    stream = None if device is None else current_on(device)
    if stream is not None:
        with contextlib.suppress(SymmError):
            raw.symm_stream_query(group, stream)
    raw.symm_memory_release(memory)
    raw.symm_group_release(group)


class Memory(Closing):
    """A buffer after rendezvous: every rank's block
    is mapped here. Made by ``Group.rendezvous()``.

    Attributes:
        group: the group on which the ranks have met.
        rank: this rank in it.
        size: number of ranks.
        nbytes: bytes of each block.
        id: the same on all ranks.
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
        self.rank, self.size, self.nbytes, self.id = info.rank, info.size, info.bytes, info.id

    @property
    def _handle(self) -> int:
        return self._mapping._handle

    def close(self) -> None:
        """Let go of the blocks. [local] Never waits. Arrays made
        before keep them mapped for as long as they live.
        """
        self._mapping = Memory._closed

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._mapping is Memory._closed

    def info(self) -> MemoryInfo:
        """Describe it. [local]"""
        return MemoryInfo.read(raw.symm_memory_info(self._handle))

    def pointer(self, rank: int | None = None) -> int:
        """Address at which `rank`'s block (None: this rank's) is mapped here. [local]

        Valid while this memory or an array of it lives.
        """
        return raw.symm_memory_pointer(self._handle, self.rank if rank is None else rank)

    def signal_pad(self, rank: int | None = None) -> int:
        """Address of `rank`'s signal pad: 64-bit words ``pad[channel][source rank]``. [local]"""
        return raw.symm_memory_signal_pad(self._handle, self.rank if rank is None else rank)

    def pointer_table(self) -> int:
        """Address of a table of all ranks' block addresses,
        readable by the group's device. [local]
        """
        return raw.symm_memory_pointer_table(self._handle)

    def signal_pad_table(self) -> int:
        """Address of a table of all ranks' pad addresses, readable by the group's device. [local]"""
        return raw.symm_memory_signal_pad_table(self._handle)

    def device_view(self, *, timeout: float | None = None, stop: int | None = None) -> bytes:
        """A ``symm_memory_view_t``, which is ``symm::device::Memory``
        of device.cuh, for kernels of your own. [local]

        Args:
            timeout: seconds, of each wait in a kernel; None: the
            group's, ``math.inf``: for ever. stop: device address of a
            32-bit word that ends all waits when it becomes other than 0.

        Raises:
            UnsupportedError: the group is on the host.
        """
        return raw.symm_memory_device_view(self._handle, milliseconds(timeout), stop)

    def multicast_pointer(self) -> int:
        """Address by which the multimem instructions of the
        device reach all ranks' blocks at once. [local]

        `UnavailableError` if there is none; the message says why, as
        ``info().multicast_reason`` does.
        """
        return raw.symm_memory_multicast_pointer(self._handle)

    def array(
        self,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = "f32",
        *,
        rank: int | None = None,
        offset: int = 0,
    ) -> SymmArray:
        """A part of a block as an array. [local] It keeps the memory alive.

        Args:
            shape: extents, contiguous in C order.
            rank: whose block; None: this rank's.
            offset: bytes from the start of the block; must be aligned to the element size.

        Raises:
            InvalidArgumentError: it goes beyond the block, or is not aligned.
            UnavailableError: `rank` is on another machine.
        """
        rank = self.rank if rank is None else rank
        pointer = raw.symm_memory_pointer(self._handle, rank)
        return SymmArray(
            self, self._mapping, pointer, rank, index(offset), extents_of(shape), dtype_of(dtype)
        )

    def record_use(self, stream: Any = None) -> None:
        """Say that what was issued on `stream` so far uses
        this memory. [local] [stream] Nothing on the host.

        Needed by nobody: memory is never given back under a kernel. Without it that is
        when all that the device had to do at the release is over. Where uses were
        recorded it is when those and this package's own calls are, which is earlier;
        then all of the caller's must have been recorded, each behind its last work.
        """
        raw.symm_memory_record_use(self._handle, self.group._stream(stream))

    def _copied(
        self, array: Any, name: str, stream: Any, room: float, *, written: bool = False
    ) -> tuple[AnyOperand, int, int]:
        """What is copied, its bytes, of which there is room for so many, and the stream."""
        number = self.group._stream(stream, array)
        of = self.group._operand(array, name, number, written=written)
        size = of.size * of.dtype.itemsize
        if size > room:
            raise InvalidArgumentError(
                f"{name}: {size} bytes are more than the {room} of the array"
            )
        return of, size, number

    def put(
        self,
        rank: int,
        offset: int,
        source: Any,
        *,
        signal: int | None = None,
        stream: Any = None,
        _room: float = math.inf,
    ) -> None:
        """Copy all of `source` to byte `offset` of `rank`'s block. [local] [stream]

        The copy is visible to that rank after a signal or
        barrier. A rank or channel that is not there, or bytes
        that go beyond the block, are an `InvalidArgumentError`.

        Args:
            rank: whose block. offset: bytes from its start. source: a
            contiguous array of any package that speaks DLPack, or with the
            buffer protocol; on the group's device. signal: a channel on which
            to signal `rank` when the bytes are there. stream: None: the
            current stream of `source`'s framework, else of PyTorch or CuPy.
        """
        of, size, number = self._copied(source, "source", stream, _room)
        if signal is None:
            raw.symm_put(self._handle, rank, offset, of.pointer, size, number)
        else:
            raw.symm_put_signal(self._handle, rank, offset, of.pointer, size, signal, number)

    def get(
        self,
        rank: int,
        offset: int,
        destination: Any,
        *,
        stream: Any = None,
        _room: float = math.inf,
    ) -> None:
        """Fill all of `destination` from byte `offset` on of
        `rank`'s block. [local] [stream] Otherwise as `put()`.
        """
        of, size, number = self._copied(destination, "destination", stream, _room, written=True)
        raw.symm_get(self._handle, rank, offset, of.pointer, size, number)

    def fill32(self, rank: int, offset: int, value: int, count: int, *, stream: Any = None) -> None:
        """Store `count` copies of the 32-bit `value` at byte `offset`, a multiple of 4, of
        `rank`'s block. [local] [stream]
        """
        raw.symm_fill32(self._handle, rank, offset, value, count, self.group._stream(stream))

    def write_value32(self, rank: int, offset: int, value: int, *, stream: Any = None) -> None:
        """Store one 32-bit value at byte `offset`, a
        multiple of 4, of `rank`'s block. [local] [stream]

        It comes after everything that this rank wrote before.
        """
        raw.symm_write_value32(self._handle, rank, offset, value, self.group._stream(stream))

    def write_value64(self, rank: int, offset: int, value: int, *, stream: Any = None) -> None:
        """The same with 64 bits, at a multiple of 8. [local] [stream]"""
        raw.symm_write_value64(self._handle, rank, offset, value, self.group._stream(stream))

    def wait_value32(
        self,
        offset: int,
        compare: Compare,
        value: int,
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Wait until the 32-bit word at `offset` of this rank's own block compares so.
        [local] [stream; blocking on the host]

        Whoever writes it, by whatever means. What was
        written before it in release order is visible after.
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
        """The same for a word of 64 bits. [local] [stream; blocking on the host]"""
        raw.symm_wait_value64(
            self._handle, offset, compare, value, within(timeout), self.group._stream(stream)
        )

    def signal(self, rank: int, channel: int = 0, *, stream: Any = None) -> None:
        """Send one signal to `rank` on `channel`. [local]
        [stream] Never waits; any number may be outstanding.

        What this rank wrote before is visible to whoever waited for the signal.
        """
        raw.symm_signal(self._handle, rank, channel, self.group._stream(stream))

    def wait_signal(
        self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Take one signal from `rank` on `channel`, waiting for
        it if need be. [local] [stream; blocking on the host]

        Args:
            rank: who sends it. channel: 0 .. channels-1. timeout: seconds; None: the
            group's, ``math.inf``: for ever, 0: only look (on the host).

        Raises:
            DeadlineError: on the host nothing was taken then, and the group stays usable.
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
        stream: Any = None,
    ) -> None:
        """Add `value` to the 64-bit word that `rank` sees of this rank on `channel`, or
        set it. [local] [stream] Never waits.
        """
        raw.symm_signal_value(self._handle, rank, channel, op, value, self.group._stream(stream))

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
        """Wait until the word from `rank` on `channel` compares
        so with `value`. [local] [stream; blocking on the host]

        Takes nothing. Otherwise as `wait_signal()`.

        Returns:
            what the word was then; None with CUDA, where the call does not wait.
        """
        wants = self.group._on_host
        return raw.symm_wait_signal_value(
            self._handle,
            rank,
            channel,
            compare,
            value,
            within(timeout),
            wants,
            self.group._stream(stream),
        )

    def wait_all_signals(
        self, waits: Sequence[SignalWait], *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Wait until each of `waits` has been as awaited, at
        whatever moment. [local] [stream; blocking on the host]

        Takes nothing. Otherwise as `wait_signal()`.
        """
        self._wait_signals(waits, False, timeout, stream)

    def wait_any_signal(
        self, waits: Sequence[SignalWait], *, timeout: float | None = None, stream: Any = None
    ) -> int | None:
        """Wait until one of `waits` is as awaited. [local] [stream; blocking on the host]

        Takes nothing. Otherwise as `wait_signal()`.

        Returns:
            the index of the first that is; None with CUDA, where the call does not wait.
        """
        return self._wait_signals(waits, True, timeout, stream)

    def _wait_signals(
        self, waits: Sequence[SignalWait], one: bool, timeout: float | None, stream: Any
    ) -> int | None:
        wants = one and self.group._on_host
        return raw.symm_wait_signals(
            self._handle, waits, one, within(timeout), wants, self.group._stream(stream)
        )

    def test_signal(self, rank: int, channel: int = 0) -> int:
        """How many signals from `rank` on `channel` are there and not taken. [local] Never waits."""
        return raw.symm_test_signal(self._handle, rank, channel)

    def test_signal_value(self, rank: int, channel: int = 0) -> int:
        """The 64-bit word from `rank` on `channel`. [local] Never waits."""
        return raw.symm_test_signal_value(self._handle, rank, channel)

    def __repr__(self) -> str:
        return f"<symm.Memory of {self.nbytes} bytes on each of {self.size} ranks{', closed' if self.closed else ''}>"
