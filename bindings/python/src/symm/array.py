"""Symmetric arrays: a part of a rank's block with a shape and an element type."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from symm._library import raw
from symm._streams import ALL_STREAMS
from symm._view import View
from symm.dtypes import DType, bf16
from symm.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    # For annotations only. Memory.array() makes arrays, so symm.memory imports this module.
    from symm.memory import Mapping, Memory


def element_bytes(value: float, dtype: DType) -> bytes:
    """One element as it lies in memory; `UnsupportedError` for fp8 other than 0."""
    if value == 0 and math.copysign(1, value) > 0:
        return bytes(dtype.itemsize)
    try:
        if dtype.format:
            whole = dtype.format not in "efd" and int(value) == value
            return struct.pack("<" + dtype.format, int(value) if whole else value)
        if dtype == bf16:
            (bits,) = struct.unpack("<I", struct.pack("<f", value))
            if not math.isnan(value):  # round to nearest, ties to even
                bits += 0x7FFF + (bits >> 16 & 1)
            return struct.pack("<H", bits >> 16 & 0xFFFF)
    except (struct.error, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"value: {value} is none of {dtype!r}") from error
    raise UnsupportedError(f"fill with {value} for {dtype!r}; view('u8').fill() sets bytes")


class SymmArray(View):
    """A contiguous piece of one rank's block. Made by ``Group.empty()``,
    ``Group.from_buffer()`` and ``Memory.array()``.

    See `View` for how NumPy, PyTorch, JAX and CuPy see it, and for its other attributes.

    Attributes:
        memory: of which it is a part. group: the group of that. rank: whose block this
        is; writing to another rank's is allowed, ordered by signals and barriers.
        offset: bytes from the start of the block.
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
                f"shape: {self.nbytes} bytes at {offset} go beyond the block of {memory.nbytes} bytes"
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
        """As ``Memory.record_use()``, which it is for: all of the memory."""
        self.memory.record_use(stream)

    def peer(self, rank: int) -> SymmArray:
        """The same piece of `rank`'s block. [local] Valid even after that rank died."""
        return self.memory.array(self.shape, self.dtype, rank=rank, offset=self.offset)

    # ---- data and signals, to the same place in another rank's block

    def put(self, source: Any, rank: int, *, signal: int | None = None, stream: Any = None) -> None:
        """Copy all of `source` to where this array begins, in
        `rank`'s block. [local] [stream] See ``Memory.put()``.

        Raises:
            InvalidArgumentError: `source` has more bytes
            than this array, and what ``Memory.put()`` says.
        """
        self.memory.put(rank, self.offset, source, signal=signal, stream=stream, _room=self.nbytes)

    def get(self, rank: int, destination: Any, *, stream: Any = None) -> None:
        """Fill all of `destination` from where this array begins, in `rank`'s block.
        [local] [stream] See ``Memory.get()``.
        """
        self.memory.get(rank, self.offset, destination, stream=stream, _room=self.nbytes)

    def signal(self, rank: int, channel: int = 0, *, stream: Any = None) -> None:
        """As ``Memory.signal()``; channels belong to the memory, not to the array."""
        self.memory.signal(rank, channel, stream=stream)

    def wait_signal(
        self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """As ``Memory.wait_signal()``."""
        self.memory.wait_signal(rank, channel, timeout=timeout, stream=stream)

    def fill(self, value: float, *, stream: Any = None) -> None:
        """Set every element to `value`. [local] [stream]

        Raises:
            InvalidArgumentError: the array does not consist of whole 32-bit words, or
            has no such elements. UnsupportedError: the value is no repeated 32-bit
            word: some of the 8-byte types, and fp8 other than 0.
        """
        element = element_bytes(value, self.dtype)
        word = (element * 4)[:4]
        if element not in (word * 2, word, word[:2], word[:1]) or self.nbytes % 4:
            if self.nbytes % 4:
                raise InvalidArgumentError(f"{self.nbytes} bytes are not whole 32-bit words")
            raise UnsupportedError(f"{value} of {self.dtype!r} is no repeated 32-bit word")
        self.memory.fill32(
            self.rank, self.offset, int.from_bytes(word, "little"), self.nbytes // 4, stream=stream
        )

    def __repr__(self) -> str:
        return f"<symm.SymmArray {self.shape} of {self.dtype.name} in the block of rank {self.rank} of {self.memory.size}>"
