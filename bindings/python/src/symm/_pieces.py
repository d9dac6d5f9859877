"""Lists of pieces, as the library takes them, made of tuples, slices, and indices of rows."""

from __future__ import annotations

import math
from array import array as _array
from collections import namedtuple
from itertools import product
from operator import index

from symm._library import raw
from symm._operand import (
    HOST,
    keep,
    lies_on_gpu,
    lies_on_host,
    operand,
    require_host_array,
    strided_on_gpu,
)
from symm.enums import SignalOp
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, NamedTuple

    import numpy as np

    from symm._operand import OnDevice
    from symm.dtypes import DType
    from symm.group import Group

    class _Rows(NamedTuple):
        from_: int
        to: int
        nbytes: int
        rows: int = 1
        from_stride: int = 0
        to_stride: int = 0
else:
    _Rows = namedtuple("_Rows", "from_ to nbytes rows from_stride to_stride", defaults=(1, 0, 0))

FIELDS = len(_Rows._fields)


class Rows(_Rows):
    """A piece of `Memory.put_pieces()` and `Memory.get_pieces()`: rows at equal distances.

    Attributes:
        from_: where the first row is read, in bytes from the start of the side that is read.
        to: where the first row goes, in bytes from the start of the side that is written.
        nbytes: bytes of a row.
        rows: the number of rows.
        from_stride: bytes from the start of a row to that of the next where they are read; 0
            reads one row again and again.
        to_stride: the same where they go, at least `nbytes`.
    """

    __slots__ = ()


class Numbers:
    """Numbers of 64 bits in memory that the library reads. `keep` keeps that memory alive.

    Those on the device are read when the stream has come to the call.
    """

    def __init__(self, pointer: int, size: int, keep: object, *, on_device: bool) -> None:
        self.pointer = pointer
        self.size = size
        self.keep = keep
        self.on_device = on_device

    def as_pieces(self) -> tuple[int, ...]:
        """The fields of symm_pieces_call_t that name pieces."""
        return self.pointer, self.size // FIELDS, 0, 0, 0


def numbers_of(given: Any, name: str, group: OnDevice) -> Numbers:
    """Integers as an array of 64 bits, which is taken as it is, or as any sequence."""
    if isinstance(given, (list, tuple, range)):
        try:
            given = _array("Q", given)
        except OverflowError as error:
            raise InvalidArgumentError(f"{name}: {error}") from None
    on_device = not (group._on_host or lies_on_host(given, name))
    found = operand(given, name, group if on_device else HOST, 0, written=False)
    if found.dtype.name not in ("i64", "u64"):
        raise InvalidArgumentError(f"{name}: has elements of {found.dtype!r}, not i64 or u64")
    return Numbers(found.pointer, found.size, found, on_device=on_device)


def signal_of(
    signal: int | None, op: SignalOp, value: int, *, on_device: bool
) -> tuple[int, int, int, int, int]:
    """The fields of symm_pieces_call_t behind those of pieces: flags, channel, op and so on.

    The last one, device_count, is not used. `on_device` is that of the pieces' `Numbers`.
    """
    flags = raw.SYMM_PIECES_ON_DEVICE if on_device else 0
    if signal is not None:
        return flags | raw.SYMM_PIECES_SIGNAL, signal, op, value, 0
    if op is not SignalOp.ADD or value != 1:
        raise InvalidArgumentError("op, value: are of a signal, and signal is None")
    return flags, 0, 0, 0, 0


def pieces_of(given: Any, group: OnDevice) -> Numbers:
    """Pieces as `FIELDS` numbers each: a sequence of `Rows`, or an array with a row for each."""
    if isinstance(given, (list, tuple)):
        given = [number for piece in given for number in Rows(*piece)]
    numbers = numbers_of(given, "pieces", group)
    if numbers.size % FIELDS:
        raise InvalidArgumentError(
            f"pieces: {numbers.size} numbers are not {FIELDS} for each piece"
        )
    return numbers


def pages_of(
    page_bytes: int, from_table: Any, to_table: Any, group: OnDevice
) -> tuple[tuple[int, ...], list[Numbers]]:
    """The fields of symm_pieces_call_t that name pages, and what must live during the call."""
    named = {"from_table": from_table, "to_table": to_table}
    found = {
        name: numbers_of(table, name, group) for name, table in named.items() if table is not None
    }
    sizes = {numbers.size for numbers in found.values()}
    if page_bytes <= 0:
        raise InvalidArgumentError(f"page_bytes: {page_bytes} is not a size of pages")
    if len(sizes) != 1:
        raise InvalidArgumentError(
            "from_table, to_table: differ in length" if sizes else "from_table: is missing"
        )
    if len({numbers.on_device for numbers in found.values()}) != 1:
        raise InvalidArgumentError(
            "from_table, to_table: one is on the device, the other on the host"
        )
    places = [found[name].pointer if name in found else 0 for name in named]
    return (0, sizes.pop(), page_bytes, *places), list(found.values())


class Side:
    """An array of any strides, whose elements are read or written. All is in bytes.

    Attributes:
        pointer: the lowest address of an element.
        nbytes: the bytes from there to the end of the highest element.
        first: the bytes from there to element 0, 0, ...
    """

    def __init__(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.itemsize = itemsize
        is_empty = math.prod(shape) == 0
        # How far the last element of each axis is from the first.
        reaches = [
            (extent - 1) * stride
            for extent, stride in zip(shape, strides, strict=True)
            if not is_empty
        ]
        self.first = -sum(min(reach, 0) for reach in reaches)
        self.pointer = address - self.first
        self.nbytes = 0 if is_empty else sum(map(abs, reaches)) + itemsize


class Seen:
    """The shape and element type of an array on a GPU."""

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype


def side_of(given: Any, name: str, group: Group, *, written: bool) -> tuple[Side, Any]:
    """An array of any package, where `group` works, with its `shape` and `dtype`."""
    if not hasattr(given, "shape"):
        raise TypeError(f"{name}: a {type(given).__name__} is not an array")
    if lies_on_gpu(given):
        address, shape, strides, dtype = strided_on_gpu(given, name, group)
        keep(given)
        return Side(address, shape, strides, dtype.itemsize), Seen(shape, dtype)

    import numpy as np

    require_host_array(name, group)
    seen: np.ndarray[Any, Any] = np.asarray(given)
    if written and not seen.flags.writeable:
        raise InvalidArgumentError(f"{name}: is read-only")
    address = seen.__array_interface__["data"][0]
    keep(seen)
    return Side(address, seen.shape, seen.strides, seen.itemsize), seen


def part_of(shape: tuple[int, ...], itemsize: int, key: Any) -> Side:
    """The part of a contiguous array that begins at address 0, by integers and slices."""
    keys = list(key) if isinstance(key, tuple) else [key]
    # Arrays compare element by element, so this is no `Ellipsis in keys`.
    gaps = [at for at, one in enumerate(keys) if one is Ellipsis]
    if len(gaps) > 1:
        raise IndexError("key: has several ...")
    for at in gaps:
        keys[at : at + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    keys += [slice(None)] * (len(shape) - len(keys))
    if len(keys) > len(shape):
        raise IndexError(f"key: {len(keys)} indices of an array with {len(shape)} axes")

    address = 0
    extents = []
    strides = []
    step = itemsize * math.prod(shape)
    for extent, one in zip(shape, keys, strict=True):
        step //= max(extent, 1)
        if isinstance(one, slice):
            chosen = range(extent)[one]
            address += (chosen.start if chosen else 0) * step
            extents.append(len(chosen))
            strides.append(chosen.step * step)
        else:
            address += _index(one, extent) * step
    return Side(address, tuple(extents), tuple(strides), itemsize)


def _index(given: Any, extent: int) -> int:
    """An index along an axis of `extent`, in which a negative one counts from the end."""
    try:
        at = index(given)
    except TypeError:
        raise TypeError(
            f"key: a {type(given).__name__} is neither an integer nor a slice nor ..."
        ) from None
    if not -extent <= at < extent:
        raise IndexError(f"key: {at} is not an index of an axis of {extent}")
    return at % extent


def pieces_between(source: Side, to: Side) -> list[Rows]:
    """The pieces by which each element of `source` goes to its place in `to`, which has its shape.

    The inner axes that lie in one stretch on both sides make a row. The longest axis that is left
    makes the rows of a piece, and all others make pieces.
    """
    if math.prod(source.shape) == 0:
        return []
    axes = list(zip(source.shape, source.strides, to.strides, strict=True))
    axes = [axis for axis in axes if axis[0] != 1]
    nbytes = source.itemsize
    while axes and axes[-1][1:] == (nbytes, nbytes):
        nbytes *= axes.pop()[0]

    rows, from_stride, to_stride = _take_rows(axes, nbytes)
    return [
        Rows(source.first + start, to.first + end, nbytes, rows, from_stride, to_stride)
        for start, end in _places(axes)
    ]


def _take_rows(axes: list[tuple[int, int, int]], nbytes: int) -> tuple[int, int, int]:
    """Take out the longest axis that can be that of the rows of pieces."""
    able = [axis for axis in axes if axis[1] >= 0 and axis[2] >= nbytes]
    if not able:
        return 1, 0, 0
    longest = max(able)
    axes.remove(longest)
    return longest


def _places(axes: Sequence[tuple[int, int, int]]) -> Iterable[tuple[int, int]]:
    for at in product(*(range(extent) for extent, _, _ in axes)):
        yield (
            sum(i * axis[1] for i, axis in zip(at, axes, strict=True)),
            sum(i * axis[2] for i, axis in zip(at, axes, strict=True)),
        )
