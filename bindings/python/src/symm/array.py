# SPDX-License-Identifier: Apache-2.0
"""Symmetric arrays: a part of a rank's block with a shape and an element type, without a copy in everybody's hands."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NoReturn, cast

from symm import _cuda
from symm._device import CPU, CUDA
from symm._library import raw
from symm.dtypes import DType, DTypeLike, bf16, dtype_of
from symm.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import torch

    from symm._owned import Owned
    from symm.group import Group
    from symm.memory import Memory

    class _Exporter:
        """The buffer protocol, in the extension."""
else:
    _Exporter = raw.make_exporter_type()

_LEGACY_STREAM = 1  # in DLPack's and the driver's numbering


class SymmArray(_Exporter):
    """A contiguous piece of one rank's block. Made by ``Group.empty()``, ``Group.from_buffer()`` and ``Memory.array()``.

    NumPy (``numpy.asarray(a)``), PyTorch (``torch.from_dlpack(a)``), JAX and CuPy see the same memory, without a copy: by
    DLPack, by the buffer protocol and ``__array_interface__`` (host), by ``__cuda_array_interface__`` (CUDA). The memory lives
    as long as any of these views.

    Attributes:
        memory: of which it is a part.
        group: the group of that.
        rank: whose block this is; writing to another rank's is allowed, ordered by signals and barriers.
        offset: bytes from the start of the block.
        shape: extents, C order.
        dtype: element type, a `DType`.
        size: number of elements.
        nbytes: number of bytes.
        pointer: address in this process.
        device_key: DLPack's (device type, device id).
        on_host: whether it is in host memory.
        code: SYMM_DTYPE_* of the elements.
    """

    def __init__(
        self, memory: Memory, mapping: Owned, block: int, rank: int, offset: int, shape: tuple[int, ...], dtype: DType
    ) -> None:
        size = math.prod(shape)
        if offset % dtype.itemsize:
            raise InvalidArgumentError(f"offset: {offset} is not a multiple of the {dtype.itemsize} bytes of an element")
        if offset < 0 or any(extent < 0 for extent in shape) or offset + size * dtype.itemsize > memory.nbytes:
            raise InvalidArgumentError(
                f"shape: {size * dtype.itemsize} bytes at {offset} go beyond the block of {memory.nbytes} bytes"
            )
        self.memory = memory
        self.group: Group = memory.group
        self.device_key = memory.group.device_key
        self.on_host = self.device_key[0] == CPU
        self.rank = rank
        self.offset = offset
        self.shape = shape
        self.dtype = dtype
        self.code = dtype.value
        self.size = size
        self.nbytes = size * dtype.itemsize
        self.pointer = block + offset
        self._block = block
        self._mapping = mapping

    # ---- other views of the same memory

    def _derive(self, offset: int, shape: tuple[int, ...], dtype: DType) -> SymmArray:
        return SymmArray(self.memory, self._mapping, self._block, self.rank, offset, shape, dtype)

    def peer(self, rank: int) -> SymmArray:
        """The same piece of `rank`'s block. [local] Valid even after that rank died."""
        return self.memory.array(self.shape, self.dtype, rank=rank, offset=self.offset)

    def reshape(self, *shape: int) -> SymmArray:
        """The same elements in another shape; one extent may be -1. [local]"""
        known = math.prod(extent for extent in shape if extent != -1)
        if shape.count(-1) == 1 and known and self.size % known == 0:
            shape = tuple(self.size // known if extent == -1 else extent for extent in shape)
        if math.prod(shape) != self.size or any(extent < 0 for extent in shape):
            raise InvalidArgumentError(f"shape: {shape} does not hold {self.size} elements")
        return self._derive(self.offset, shape, self.dtype)

    def view(self, dtype: DTypeLike) -> SymmArray:
        """The same bytes as elements of another type; the last extent changes with their size. [local]"""
        other = dtype_of(dtype)
        row = (self.shape[-1] if self.shape else 1) * self.dtype.itemsize
        if row % other.itemsize:
            raise InvalidArgumentError(f"dtype: rows of {row} bytes do not hold whole elements of {other!r}")
        if not self.shape and other.itemsize == self.dtype.itemsize:
            return self._derive(self.offset, (), other)
        return self._derive(self.offset, (*self.shape[:-1], row // other.itemsize), other)

    def __getitem__(self, key: int | slice) -> SymmArray:
        """A part along the first axis: an index, or a slice without a step. [local]"""
        if not self.shape:
            raise IndexError("a symmetric array without axes cannot be indexed")
        row = self.nbytes // self.shape[0] if self.shape[0] else 0
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step != 1:
                raise IndexError("a part of a symmetric array must be contiguous")
            return self._derive(self.offset + start * row, (max(0, stop - start), *self.shape[1:]), self.dtype)
        index = range(self.shape[0])[key]
        return self._derive(self.offset + index * row, self.shape[1:], self.dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a symmetric array without axes has no length")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    # ---- data and signals, to the same place in another rank's block

    def put(self, source: Any, rank: int, *, signal: int | None = None, stream: Any = None) -> None:
        """Copy all of `source` to where this array begins, in `rank`'s block. [local] [stream] See ``Memory.put()``.

        Raises:
            InvalidArgumentError: `source` has more bytes than this array, and what ``Memory.put()`` says.
        """
        self._require_room(source)
        self.memory.put(rank, self.offset, source, signal=signal, stream=stream)

    def get(self, rank: int, destination: Any, *, stream: Any = None) -> None:
        """Fill all of `destination` from where this array begins, in `rank`'s block. [local] [stream] See ``Memory.get()``."""
        self._require_room(destination)
        self.memory.get(rank, self.offset, destination, stream=stream)

    def _require_room(self, other: Any) -> None:
        size = getattr(other, "nbytes", None)
        if isinstance(size, int) and size > self.nbytes:
            raise InvalidArgumentError(f"{size} bytes are more than the {self.nbytes} of this array")

    def put_signal(self, rank: int, channel: int = 0, *, stream: Any = None) -> None:
        """As ``Memory.put_signal()``; channels belong to the memory, not to the array."""
        self.memory.put_signal(rank, channel, stream=stream)

    def wait_signal(self, rank: int, channel: int = 0, *, timeout: float | None = None, stream: Any = None) -> None:
        """As ``Memory.wait_signal()``."""
        self.memory.wait_signal(rank, channel, timeout=timeout, stream=stream)

    def fill(self, value: float, *, stream: Any = None) -> None:
        """Set every element to `value`. [local] [stream]

        Raises:
            InvalidArgumentError: the array does not consist of whole 32-bit words.
            UnsupportedError: the value is no repeated 32-bit word: some of the 8-byte types, and fp8 other than 0.
        """
        element = self._bytes_of(value)
        word = (element * 4)[:4]
        if element not in (word * 2, word, word[:2], word[:1]) or self.nbytes % 4:
            if self.nbytes % 4:
                raise InvalidArgumentError(f"{self.nbytes} bytes are not whole 32-bit words")
            raise UnsupportedError(f"{value} of {self.dtype!r} is no repeated 32-bit word")
        self.memory.fill32(self.rank, self.offset, int.from_bytes(word, "little"), self.nbytes // 4, stream=stream)

    def _bytes_of(self, value: float) -> bytes:
        if value == 0:
            return bytes(self.dtype.itemsize)
        if self.dtype.format:
            number = value if self.dtype.format in "efd" else int(value)
            return struct.pack("<" + self.dtype.format, number)
        if self.dtype == bf16:
            (bits,) = struct.unpack("<I", struct.pack("<f", value))
            if not math.isnan(value):  # round to nearest, ties to even
                bits += 0x7FFF + (bits >> 16 & 1)
            return struct.pack("<H", bits >> 16 & 0xFFFF)
        raise UnsupportedError(f"fill with {value} for {self.dtype!r}; view('u8').fill() sets bytes")

    # ---- how other packages see it

    def _buffer(self) -> tuple[int, int, str, tuple[int, ...]]:
        """For the buffer protocol."""
        if self.device_key[0] != CPU:
            raise BufferError("this array is in device memory; the buffer protocol is for the host")
        if not self.dtype.format:
            raise BufferError(f"the buffer protocol has no format for {self.dtype!r}")
        return self.pointer, self.dtype.itemsize, self.dtype.format, self.shape

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface(CPU)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        last = self.group._last_stream
        return self._interface(CUDA) | {"stream": None if last is None else last or _LEGACY_STREAM}

    def _interface(self, device_type: int) -> dict[str, Any]:
        # AttributeError, because that is how packages ask whether an object has the protocol.
        if self.device_key[0] != device_type:
            raise AttributeError(f"this array is not on a device of type {device_type}")
        if self.dtype.typestr is None:
            raise AttributeError(f"there is no type string for {self.dtype!r}; DLPack has it")
        return {"shape": self.shape, "typestr": self.dtype.typestr, "data": (self.pointer, False), "version": 3}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        # NumPy comes here for the types that it does not have itself.
        import numpy as np

        if self.device_key[0] != CPU:
            raise TypeError("this array is in device memory; NumPy is for the host")
        found = np.asarray(self.view("u8"))
        if self.dtype.format:
            kind: Any = self.dtype.long_name
        else:
            try:
                import ml_dtypes
            except ImportError:
                raise TypeError(f"NumPy needs the package ml_dtypes for {self.dtype!r}; view('u8') shows the bytes") from None
            kind = getattr(ml_dtypes, self.dtype.long_name)
        found = found.view(kind).reshape(self.shape)
        if dtype is not None and found.dtype != dtype:
            if copy is False:
                raise ValueError(f"a view of {self.dtype!r} as {dtype} needs a copy")
            return cast("np.ndarray[Any, Any]", found.astype(dtype))
        return cast("np.ndarray[Any, Any]", found.copy() if copy else found)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_key

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule. [local]

        With CUDA, `stream` (None or 1: the legacy default stream, 2: the per-thread one, -1: do nothing) is made to wait for what
        this package issued last on the group; what other packages write through views of their own is theirs to order.
        """
        if dl_device is not None and tuple(dl_device) != self.device_key:
            raise BufferError(f"the array is on device {self.device_key}, not on {tuple(dl_device)}")
        if copy:
            raise BufferError("symmetric memory is exported without a copy only")
        if self.device_key[0] == CUDA:
            self._order(stream or _LEGACY_STREAM)
        elif stream not in (None, -1):
            raise BufferError("stream: must be None for host memory")
        versioned = max_version is not None and max_version[0] >= 1
        return raw.dlpack_make(self, self.pointer, self.dtype.value, self.shape, *self.device_key, int(versioned))

    def _order(self, consumer: int) -> None:
        last = self.group._last_stream
        if consumer != -1 and last is not None:
            _cuda.let_wait(consumer, last or _LEGACY_STREAM)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The same memory as a NumPy array, with ml_dtypes for bf16 and fp8. [local] Host only."""
        import numpy as np

        return np.asarray(self)

    def torch(self) -> torch.Tensor:
        """The same memory as a PyTorch tensor. [local]"""
        import torch

        if self.dtype.format:
            return cast("torch.Tensor", torch.from_dlpack(self))
        # Not every version of PyTorch takes fp8 by DLPack.
        return cast(
            "torch.Tensor",
            torch.from_dlpack(self.view("u8")).view(getattr(torch, self.dtype.long_name)).reshape(self.shape),
        )

    def __copy__(self) -> NoReturn:
        raise TypeError("a symmetric array is not copied by copy(); copy one of its views")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise TypeError("a symmetric array is not copied by deepcopy(); copy one of its views")

    def __repr__(self) -> str:
        return f"<symm.SymmArray {self.shape} of {self.dtype.name} in the block of rank {self.rank} of {self.memory.size}>"
