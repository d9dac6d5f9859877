"""Symmetric arrays: parts of a rank's block with a shape and an element type."""

from __future__ import annotations

import math
import struct

from symm._library import raw
from symm._operand import lies_on_gpu, read_with_shape
from symm._pieces import Rows, part_of, pieces_between, pieces_of, side_of, signal_of
from symm._streams import ALL_STREAMS
from symm._view import Array
from symm.dtypes import DType, bf16, dtype_of, f8e4m3, u8
from symm.enums import Compare, SignalOp
from symm.errors import InvalidArgumentError, UnsupportedError
from symm.exchange import Neighbor, neighbor_of

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any

    # For annotations only. Memory.array() makes arrays, so symm.memory imports this module.
    from symm.memory import Mapping, Memory


def _indices(rows: Any, count: int) -> list[int]:
    """The indices in a tensor, an array or a sequence; None: 0, 1, 2 and so on."""
    if rows is None:
        return list(range(count))
    return [int(row) for row in (rows.tolist() if hasattr(rows, "tolist") else rows)]


def _count(name: str, rows: Any) -> int:
    try:
        return len(rows)
    except TypeError:
        raise TypeError(f"{name}: a {type(rows).__name__} is no sequence of indices") from None


def _require_indices(name: str, rows: Any, count: int, extent: int) -> None:
    """Refuse `count` indices, of which None is the first ones, that are not below `extent`."""
    if count == 0:
        return
    if rows is None:
        ends = [count - 1]
    elif not hasattr(rows, "max"):
        ends = [min(rows), max(rows)]
    elif lies_on_gpu(rows):
        ends = [rows.max()]  # each look waits for the device, which refuses negative ones itself
    else:
        ends = [rows.min(), rows.max()]
    for end in ends:
        if not 0 <= end < extent:
            raise InvalidArgumentError(f"{name}: {end} is not a row of {extent}")


def element_bytes(value: Any, dtype: DType) -> bytes:
    """The bytes of one element of type `dtype`, in memory order.

    Raises:
        InvalidArgumentError: `value` is not a value of the type.
    """
    if dtype.is_complex or dtype.is_pair:
        return _two_parts(value, dtype)
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
        (narrow,) = struct.unpack("<f", struct.pack("<f", value))  # as the library rounds, too
        return bytes([_f8(narrow, 3 if dtype == f8e4m3 else 2)])
    except (struct.error, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"value: {value} is none of {dtype!r}") from error


def _two_parts(value: Any, dtype: DType) -> bytes:
    """The bytes of a complex number, or of a pair, which is a tuple of its value and its index."""
    try:
        if dtype.is_complex:
            number = complex(value)
            return struct.pack("<2" + dtype.part.format, number.real, number.imag)
        first, second = value
        index = "i" if dtype.itemsize == 8 else "q"
        return element_bytes(first, dtype.part) + struct.pack("<" + index, second)
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"value: {value} is none of {dtype!r}") from error


def _f8(value: float, mantissa: int) -> int:
    """The bits of fp8 with so many bits of mantissa, rounded to nearest even.

    Finite values saturate, as those of the library do. f8e4m3 has no infinity, and makes NaN of it.
    """
    exponents = 7 - mantissa
    bias = (1 << (exponents - 1)) - 1
    sign = 0x80 if math.copysign(1, value) < 0 else 0
    has_infinity = mantissa == 2
    if math.isnan(value) or (math.isinf(value) and not has_infinity):
        return sign | 0x7F
    if math.isinf(value):
        return sign | 0x7C

    largest = 0x7B if has_infinity else 0x7E
    _, exponent = math.frexp(value)
    least = 1 - bias  # the exponent of the smallest normal number, and of all below it
    power = max(exponent - 1, least)
    steps = round(math.ldexp(abs(value), mantissa - power))  # ties go to even
    # A number of steps that is one too large for its exponent carries into the exponent.
    bits = ((power - least) << mantissa) + steps
    return sign | min(bits, largest)


class SymmArray(Array):
    """A contiguous part of one rank's block.

    ``Group.empty()``, ``Group.from_buffer()``, ``Memory.array()`` and ``Heap.empty()`` make
    them. `Array` says how NumPy, PyTorch, JAX and CuPy see the array, and has the other
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
        raw.symm_stream_wait(self._mapping.group, stream, ALL_STREAMS, None)

    def record_use(self, stream: Any = None) -> None:
        """Record that `stream` uses the whole memory: ``Memory.record_use()``. [local] [stream]"""
        self.memory.record_use(stream)

    def peer(self, rank: int) -> SymmArray:
        """The corresponding part of `rank`'s block. [local] Valid even after that rank died."""
        return self.memory.array(self.shape, self.dtype, rank=rank, offset=self.offset)

    # ---- data and signals to and from the corresponding part of another rank's block

    def put(
        self,
        rank: int,
        source: Any,
        *,
        signal: int | None = None,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Copy all of `source` to the start of this array's part of `rank`'s block.

        [local] [stream] Parameters and errors are those of ``Memory.put()``.

        Raises:
            InvalidArgumentError: `source` has more bytes than this array.
        """
        self.memory.put(
            rank,
            self.offset,
            source,
            signal=signal,
            timeout=timeout,
            stream=stream,
            _room=self.nbytes,
        )

    def get(
        self, rank: int, destination: Any, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Fill all of `destination` from the start of this array's part of `rank`'s block.

        [local] [stream] Parameters and errors are those of ``Memory.get()``.

        Raises:
            InvalidArgumentError: `destination` has more bytes than this array.
        """
        self.memory.get(
            rank, self.offset, destination, timeout=timeout, stream=stream, _room=self.nbytes
        )

    def put_part(
        self,
        rank: int,
        key: Any,
        source: Any,
        *,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
    ) -> None:
        """``rank's array[key] = source`` in one call, with a signal when all is there. [local]

        Both sides may lie in pieces: a face of a grid, every second row, a transposed matrix.

        Args:
            rank: the rank whose block is written.
            key: integers and slices, a tuple of them, and ``...``, as NumPy indexes by them.
            source: an array of the host with the shape of that part and the element type of this
                array, of any package that NumPy sees without a copy. It need not be contiguous.
            signal: as for ``Memory.put_pieces()``, as all that follow.
            op: see there.
            value: see there.
            timeout: see there.

        Raises:
            InvalidArgumentError: shapes or element types differ, or as for
                ``Memory.put_pieces()``.
            IndexError: the array has no such part.
            UnsupportedError: the group is one of GPUs.
        """
        self._require_host("put_part")
        part = part_of(self.shape, self.itemsize, key)
        side, seen = side_of(source, "source", self.group, written=False)
        self._require_alike("source", seen, part.shape)
        pieces = pieces_of(pieces_between(side, part), self.group)
        self.memory._copy_pieces(
            raw.symm_put_pieces,
            rank,
            self.offset + part.pointer,
            (side.pointer, side.nbytes, 0),
            (*pieces.as_pieces(), *signal_of(signal, op, value, on_device=False)),
            timeout,
        )

    def get_part(
        self,
        rank: int,
        key: Any,
        destination: Any,
        *,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
    ) -> None:
        """``destination[...] = rank's array[key]`` in one call. [local]

        `destination` is an array as `source` of `put_part()`, which can be written. A signal tells
        `rank` that it may write that part anew. All else is as for `put_part()`.
        """
        self._require_host("get_part")
        part = part_of(self.shape, self.itemsize, key)
        side, seen = side_of(destination, "destination", self.group, written=True)
        self._require_alike("destination", seen, part.shape)
        pieces = pieces_of(pieces_between(part, side), self.group)
        self.memory._copy_pieces(
            raw.symm_get_pieces,
            rank,
            self.offset + part.pointer,
            (side.pointer, side.nbytes, 0),
            (*pieces.as_pieces(), *signal_of(signal, op, value, on_device=False)),
            timeout,
        )

    def neighbor_part(
        self, rank: int, key: Any, source: Any, *, expected_nbytes: int | None = None
    ) -> Neighbor:
        """What puts ``rank's array[key] = source`` in every round of an exchange. [local]

        Args:
            rank: the neighbour, whose block is written.
            key: as for `put_part()`.
            source: as for `put_part()`; an array of the group's GPU where it works on one, as
                of PyTorch, CuPy or JAX. The exchange reads it in every round, where it is now.
            expected_nbytes: the bytes that `rank` puts here in a round; None: as many as are put.

        Raises:
            InvalidArgumentError: shapes or element types differ, or `source` lies on another
                device than the group's.
            IndexError: the array has no such part.
        """
        part = part_of(self.shape, self.itemsize, key)
        side, seen = side_of(source, "source", self.group, written=False)
        self._require_alike("source", seen, part.shape)
        pieces = pieces_between(side, part)
        offset = self.offset + part.pointer
        return neighbor_of(rank, self.memory, offset, side, pieces, expected_nbytes, (source, seen))

    def neighbor_rows(
        self,
        rank: int,
        to_rows: Any,
        source: Any,
        *,
        from_rows: Any = None,
        expected_nbytes: int | None = None,
    ) -> Neighbor:
        """What puts ``rank's array[to_rows] = source[from_rows]`` in every round. [local]

        Args:
            rank: the neighbour, whose block is written.
            to_rows: as for `put_rows()`. Indices are read now.
            source: as for `put_rows()`. The exchange reads it in every round.
            from_rows: as for `put_rows()`.
            expected_nbytes: the bytes that `rank` puts here in a round; None: as many as are put.

        Raises:
            InvalidArgumentError: an array has no such row, there is another number of rows, or
                rows or element types of the arrays differ.
        """
        count = self._require_rows("source", source, {"to_rows": to_rows}, {"from_rows": from_rows})
        nbytes = self._row_bytes()
        to = _indices(to_rows, count)
        read = _indices(from_rows, count)
        pieces = [Rows(at * nbytes, end * nbytes, nbytes) for at, end in zip(read, to, strict=True)]
        return Neighbor(
            rank, self.memory, self.offset, source, pieces, expected_nbytes=expected_nbytes
        )

    def _require_host(self, call: str) -> None:
        if not self.group._on_host:
            raise UnsupportedError(
                f"{call}: takes arrays of the host, and the group works on CUDA device "
                f"{self.group.device}; Memory.put_pieces() and get_pieces() take rows there"
            )

    def _require_alike(self, name: str, seen: Any, shape: tuple[int, ...]) -> None:
        if seen.shape != shape:
            raise InvalidArgumentError(f"{name}: has the shape {seen.shape}, not {shape}")
        if dtype_of(seen.dtype) != self.dtype:
            raise InvalidArgumentError(
                f"{name}: has elements of {dtype_of(seen.dtype)!r}, not {self.dtype!r}"
            )

    def put_rows(
        self,
        rank: int,
        to_rows: Any,
        source: Any,
        *,
        from_rows: Any = None,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """``rank's array[to_rows] = source[from_rows]``, by indices of rows. [local] [stream]

        A row is what an index along the first axis selects: a page of a cache, a token.

        Args:
            rank: the rank whose block is written.
            to_rows: the indices of rows of this array, none of them negative: a tensor or array of
                64-bit integers, or a sequence; None: 0, 1, 2 and so on.
            source: a contiguous array with the element type of this array, and with rows of the
                same shape.
            from_rows: the indices of rows of `source`, as many; None: 0, 1, 2 and so on.
            signal: as for ``Memory.put_pieces()``, as all that follow.
            op: see there.
            value: see there.
            timeout: see there.
            stream: see there.

        Raises:
            InvalidArgumentError: rows or element types of the arrays differ, an array has no such
                row, or as for ``Memory.put_pages()``.
            UnsupportedError: the group is one of GPUs, and the rank is on another machine.
        """
        self._require_rows("source", source, {"to_rows": to_rows}, {"from_rows": from_rows})
        self.memory.put_pages(
            rank,
            self.offset,
            source,
            self._row_bytes(),
            from_table=from_rows,
            to_table=to_rows,
            signal=signal,
            op=op,
            value=value,
            timeout=timeout,
            stream=stream,
        )

    def get_rows(
        self,
        rank: int,
        from_rows: Any,
        destination: Any,
        *,
        to_rows: Any = None,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """``destination[to_rows] = rank's array[from_rows]``, by indices of rows. [local] [stream]

        All else is as for `put_rows()`.
        """
        self._require_rows(
            "destination", destination, {"from_rows": from_rows}, {"to_rows": to_rows}
        )
        self.memory.get_pages(
            rank,
            self.offset,
            destination,
            self._row_bytes(),
            from_table=from_rows,
            to_table=to_rows,
            signal=signal,
            op=op,
            value=value,
            timeout=timeout,
            stream=stream,
        )

    def _row_bytes(self) -> int:
        return self.nbytes // max(self.shape[0], 1)

    def _require_rows(
        self, name: str, array: Any, own: dict[str, Any], others: dict[str, Any]
    ) -> int:
        """The number of rows that go between this array and `array`, the argument `name`.

        Refused are rows of another shape or type, and indices, by the names of their arguments,
        that this array (`own`) or the other one (`others`) does not have.
        """
        if not self.shape:
            raise IndexError("an array without axes has no rows")
        found, shape = read_with_shape(array, name)
        if not shape:
            raise InvalidArgumentError(f"{name}: has no rows, since it has no axes")
        if shape[1:] != self.shape[1:]:
            raise InvalidArgumentError(
                f"{name}: has rows of the shape {shape[1:]}, not {self.shape[1:]}"
            )
        if found.dtype != self.dtype:
            raise InvalidArgumentError(
                f"{name}: has elements of {found.dtype!r}, not {self.dtype!r}"
            )

        given = {**own, **others}
        counts = {_count(argument, rows) for argument, rows in given.items() if rows is not None}
        if len(counts) != 1:
            what = "differ in length" if counts else "are both None"
            raise InvalidArgumentError(f"{', '.join(given)}: {what}")
        (count,) = counts
        for side, extent in ((own, self.shape[0]), (others, shape[0])):
            for argument, rows in side.items():
                _require_indices(argument, rows, count, extent)
        return count

    def signal(
        self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Send a signal: ``Memory.signal()``. [local] [stream]

        Channels belong to the memory, not to the array.
        """
        self.memory.signal(rank, channel, timeout=timeout, stream=stream)

    def wait_signal(
        self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None
    ) -> None:
        """Take a signal: ``Memory.wait_signal()``. [local] [stream; blocking on the host]"""
        self.memory.wait_signal(rank, channel, timeout=timeout, stream=stream)

    def test_signal(self, rank: int, channel: int = 0) -> int:
        """The number of untaken signals: ``Memory.test_signal()``. [local] Never waits."""
        return self.memory.test_signal(rank, channel)

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
        """Send a signal with a value: ``Memory.signal_value()``. [local] [stream]"""
        self.memory.signal_value(rank, value, channel, op=op, timeout=timeout, stream=stream)

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
        """Wait for a value: ``Memory.wait_signal_value()``.

        [local] [stream; blocking on the host]
        """
        return self.memory.wait_signal_value(
            rank, compare, value, channel, timeout=timeout, stream=stream
        )

    def test_signal_value(self, rank: int, channel: int = 0) -> int:
        """The word of a signal: ``Memory.test_signal_value()``. [local] Never waits."""
        return self.memory.test_signal_value(rank, channel)

    def fill(self, value: Any, *, timeout: float | None = None, stream: Any = None) -> None:
        """Set every element to `value`, of any element type and shape. [local] [stream]

        Values of bf16 and fp8 are rounded to nearest even. The call is quickest where elements
        fill whole 32-bit words, as nearly always, and where 8-byte elements have equal halves.

        Args:
            value: the value; of pairs a tuple of a value and an index.
            timeout: seconds to wait for a rank on another machine; None: the group's.
            stream: the stream of the call.

        Raises:
            InvalidArgumentError: `value` is not a value of the element type.
        """
        element = element_bytes(value, self.dtype)
        if self.nbytes == 0:
            return
        options: dict[str, Any] = {
            "timeout": timeout,
            "stream": self.group._stream(stream),
        }
        if element[:4] * 2 == element or len(element) <= 4:
            self._fill_words((element * 4)[:4], options)
        else:
            self._fill_long(element, options)

    def _fill_words(self, word: bytes, options: dict[str, Any]) -> None:
        """Fill with elements that a 32-bit word holds one or several of."""
        begin = self.offset
        end = begin + self.nbytes
        first = -(-begin // 4) * 4
        last = end // 4 * 4
        if first >= last:
            # No whole word of the block is the array's, which has less than 8 bytes.
            self._put_bytes(begin, (word * 2)[begin % 4 :][: self.nbytes], options)
            return
        self.memory.fill32(
            self.rank, first, int.from_bytes(word, "little"), (last - first) // 4, **options
        )
        # The bytes beside the whole words are those of a word next to them.
        self._repeat(begin, begin + 4, first - begin, options)
        self._repeat(last, last - 4, end - last, options)

    def _fill_long(self, element: bytes, options: dict[str, Any]) -> None:
        """Fill with longer elements: the first one is written, and copied again and again."""
        for at in range(0, len(element), 8):
            number = int.from_bytes(element[at : at + 8], "little")
            self.memory.write_value64(self.rank, self.offset + at, number, **options)
        done = len(element)
        while done < self.nbytes:
            part = min(done, self.nbytes - done)
            self._repeat(self.offset + done, self.offset, part, options)
            done += part

    def _repeat(self, offset: int, source: int, nbytes: int, options: dict[str, Any]) -> None:
        """Copy bytes of this rank's block within it. The two pieces do not overlap."""
        if nbytes > 0:
            part = SymmArray(
                self.memory, self._mapping, self._block, self.rank, source, (nbytes,), u8
            )
            self.memory.put(self.rank, offset, part, **options)

    def _put_bytes(self, offset: int, data: bytes, options: dict[str, Any]) -> None:
        """Put a few bytes, which on CUDA must lie in memory of the device before."""
        source: Any = data
        if not self.group._on_host:
            source = self.group._device_bytes(data, options["stream"])
        self.memory.put(self.rank, offset, source, **options)

    def __repr__(self) -> str:
        return (
            f"<symm.SymmArray {self.shape} of {self.dtype.name} "
            f"in the block of rank {self.rank} of {self.memory.size}>"
        )
