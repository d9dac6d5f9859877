"""Symmetric arrays: parts of a rank's block with a shape and an element type."""

from __future__ import annotations

import math
import struct

from symm._library import raw
from symm._streams import ALL_STREAMS
from symm._view import View
from symm.dtypes import DType, bf16
from symm.errors import InvalidArgumentError, UnsupportedError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any

    # For annotations only. Memory.array() makes arrays, so symm.memory imports this module.
    from symm.memory import Mapping, Memory


def element_bytes(value: float, dtype: DType) -> bytes:
    """The bytes of one element of type `dtype`, in memory order.

    Raises:
        InvalidArgumentError: `value` is not a value of the type.
        UnsupportedError: the type is fp8, and `value` is not 0.
    """
    if value == 0 and math.copysign(1, value) > 0:
        return bytes(dtype.itemsize)
    try:
        if dtype.format:
            is_integer = dtype.format not in "efd" and int(value) == value
            return struct.pack("<" + dtype.format, int(value) if is_integer else value)
        if dtype == bf16:
            (bits,) = struct.unpack("<I", struct.pack("<f", value))
            if not math.isnan(value):  # round to nearest, ties to even
                bits += 0x7FFF + (bits >> 16 & 1)
            return struct.pack("<H", bits >> 16 & 0xFFFF)
    except (struct.error, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"value: {value} is none of {dtype!r}") from error

    raise UnsupportedError(f"fill with {value} for {dtype!r}; view('u8').fill() sets bytes")


class SymmArray(View):
    """A contiguous part of one rank's block.

    ``Group.empty()``, ``Group.from_buffer()``, ``Memory.array()`` and ``Heap.empty()`` make
    them. `View` says how NumPy, PyTorch, JAX and CuPy see the array, and has the other
    attributes.

    Attributes:
        memory: the memory that the array is a part of.
        group: the group of that memory.
        rank: the rank whose block this is. Writing to another rank's block is allowed; signals
            and barriers order the accesses.
        offset: bytes from the start of the block to the array.
    """

    def __init__(
        self,
        memory: Memory,
        mapping: Mapping,
        block: int,
        rank: int,
        offset: int,
        shape: tuple[int, ...],
        dtype: DType,
    ) -> None:
        super().__init__(block + offset, shape, dtype, memory.group.device_key)

        if offset % dtype.itemsize:
            raise InvalidArgumentError(
                f"offset: {offset} is not a multiple of the {dtype.itemsize} bytes of an element"
            )
        if offset < 0 or offset + self.nbytes > memory.nbytes:
            raise InvalidArgumentError(
                f"shape: {self.nbytes} bytes at {offset} go beyond the block "
                f"of {memory.nbytes} bytes"
            )
        self.memory = memory
        self.group = memory.group
        self.rank = rank
        self.offset = offset
        self._block = block
        self._mapping = mapping

    def _derive(self, offset: int, shape: tuple[int, ...], dtype: DType) -> SymmArray:
        return SymmArray(
            self.memory, self._mapping, self._block, self.rank, self.offset + offset, shape, dtype
        )

    def _order(self, stream: int) -> None:
        raw.symm_stream_wait(self._mapping.group, stream, ALL_STREAMS)

    def record_use(self, stream: Any = None) -> None:
        """Record that `stream` uses the whole memory: ``Memory.record_use()``. [local] [stream]"""
        self.memory.record_use(stream)

    def peer(self, rank: int) -> SymmArray:
        """The corresponding part of `rank`'s block. [local] Valid even after that rank died."""
        return self.memory.array(self.shape, self.dtype, rank=rank, offset=self.offset)

    # ---- data and signals to and from the corresponding part of another rank's block

    def put(self, source: Any, rank: int, *, signal: int | None = None, stream: Any = None) -> None:
        """Copy all of `source` to the start of this array's part of `rank`'s block.

        [local] [stream] Parameters and errors are those of ``Memory.put()``.

        Raises:
            InvalidArgumentError: `source` has more bytes than this array.
        """
        self.memory.put(rank, self.offset, source, signal=signal, stream=stream, _room=self.nbytes)

    def get(self, rank: int, destination: Any, *, stream: Any = None) -> None:
        """Fill all of `destination` from the start of this array's part of `rank`'s block.

        [local] [stream] Parameters and errors are those of ``Memory.get()``.

        Raises:
            InvalidArgumentError: `destination` has more bytes than this array.
        """
        self.memory.get(rank, self.offset, destination, stream=stream, _room=self.nbytes)

    def signal(self, rank: int, channel: int = 0, *, stream: Any = None) -> None:
        """Send a signal: ``Memory.signal()``. [local] [stream]

        Channels belong to the memory, not to the array.
        """
        self.memory.signal(rank, channel, stream=stream)

    def wait_signal(
        self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Take a signal: ``Memory.wait_signal()``. [local] [stream; blocking on the host]"""
        self.memory.wait_signal(rank, channel, timeout=timeout, stream=stream)

    def fill(self, value: float, *, stream: Any = None) -> None:
        """Set every element to `value`. [local] [stream]

        Raises:
            InvalidArgumentError: the array does not consist of whole 32-bit words, or `value`
                is not a value of its element type.
            UnsupportedError: the element is not a repeated 32-bit word. That concerns some
                values of the 8-byte types, and fp8 other than 0.
        """
        element = element_bytes(value, self.dtype)
        if self.nbytes % 4:
            raise InvalidArgumentError(f"{self.nbytes} bytes are not whole 32-bit words")
        word = (element * 4)[:4]
        if element not in (word * 2, word, word[:2], word[:1]):
            raise UnsupportedError(f"{value} of {self.dtype!r} is no repeated 32-bit word")

        self.memory.fill32(
            self.rank, self.offset, int.from_bytes(word, "little"), self.nbytes // 4, stream=stream
        )

    def __repr__(self) -> str:
        return (
            f"<symm.SymmArray {self.shape} of {self.dtype.name} "
            f"in the block of rank {self.rank} of {self.memory.size}>"
        )
