"""Contiguous arrays in symm's memory, and the protocols by which other packages share them."""

from __future__ import annotations

import math
from operator import index

from symm._generated import IpcHolders
from symm._library import raw
from symm._streams import handle_of, milliseconds, within
from symm.dtypes import DType, DTypeLike, dtype_of
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    import numpy as np
    import torch
    from typing_extensions import Self

    class _Exporter:
        """The buffer protocol, which the extension implements."""

        def __buffer__(self, flags: int, /) -> memoryview: ...
else:
    _Exporter = raw.make_exporter_type()

# DLPack's device types that memory of operands may have.
CPU = 1
CUDA = 2
CUDA_HOST = 3
CUDA_MANAGED = 13

# The legacy default stream, in DLPack's numbering and the driver's.
_LEGACY_STREAM = 1


def extents_of(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape as a tuple of Python's integers, which unlike NumPy's do not overflow."""
    given = shape if hasattr(shape, "__iter__") else (shape,)
    extents = tuple(map(index, given))
    if any(extent < 0 for extent in extents):
        raise InvalidArgumentError(f"shape: {extents} has negative extents")
    return extents


def export(
    pointer: int,
    nbytes: int,
    hold: float | None,
    hold_imports: int,
    channels: int,
    fence_bytes: int,
    stream: Any,
) -> bytes:
    """A token of a piece of memory; `Array.export_token()` explains the other parameters."""
    cuda_stream = 0 if stream is None else handle_of(stream)
    options = export_options(hold, hold_imports, channels, fence_bytes)
    return raw.symm_ipc_export(pointer, nbytes, options, cuda_stream)


def export_options(
    hold: float | None, hold_imports: int, channels: int = 0, fence_bytes: int = 0
) -> tuple[int, ...] | None:
    """The fields of symm_ipc_export_options_t."""
    if hold is None and not (hold_imports or channels or fence_bytes):
        return None
    flags = raw.SYMM_IPC_NO_HOLD if hold == 0 else 0
    hold_ms = 0 if hold == 0 else milliseconds(hold)
    return flags, hold_ms, hold_imports, channels, fence_bytes


def withdraw(pointer: int, nbytes: int, timeout: float | None) -> None:
    """End the tokens of a piece of memory, as `Array.withdraw()` does."""
    raw.symm_ipc_withdraw(pointer, nbytes, within(timeout))


def holders(pointer: int, nbytes: int) -> IpcHolders:
    """The holders of a piece of memory, as `Array.holders()` tells them."""
    return IpcHolders.read(raw.symm_ipc_holders(pointer, nbytes, None))


class Lent(_Exporter):
    """Numbers in memory of the library that a function of the caller's sees while it runs."""

    def __init__(self, pointer: int, nbytes: int, dtype: DType, *, writable: bool) -> None:
        # Without a letter that memoryview has, they are bytes.
        is_known = len(dtype.format) == 1 and dtype.format != "e"
        itemsize = dtype.itemsize if is_known else 1
        letter = dtype.format if is_known else "B"
        self._shown = pointer, itemsize, letter, (nbytes // itemsize,), writable

    def _buffer(self) -> tuple[int, int, str, tuple[int, ...], bool]:
        return self._shown


class Array(_Exporter):
    """A contiguous array in symm's memory: a `SymmArray` or an `ImportedArray`.

    What takes any array of symm's is annotated with this class.

    NumPy (``numpy.asarray(a)``), PyTorch (``torch.from_dlpack(a)``), JAX and CuPy see the same
    memory without a copy: by DLPack, on the host by the buffer protocol and
    ``__array_interface__``, on CUDA by ``__cuda_array_interface__``. The memory lives as long
    as any of these views.

    Attributes:
        shape: the extents, in C order.
        dtype: the element type, a `DType`.
        code: SYMM_DTYPE_* of the elements.
        size: the number of elements.
        nbytes: the number of bytes.
        pointer: the address in this process.
        device_key: DLPack's (device type, device id).
        writable: whether the memory may be written; False for an import for reading only.
    """

    writable = True

    def __init__(
        self, pointer: int, shape: tuple[int, ...], dtype: DType, device_key: tuple[int, int]
    ) -> None:
        self.pointer = pointer
        self.shape = shape
        self.dtype = dtype
        self.code: int = dtype.value
        self.size: int = math.prod(shape)
        self.nbytes: int = self.size * dtype.itemsize
        self.device_key = device_key

    def _derive(self, offset: int, shape: tuple[int, ...], dtype: DType) -> Self:
        """A part of this array, `offset` bytes from its start."""
        raise NotImplementedError

    def _order(self, stream: int) -> None:
        """Make `stream` wait for all work on the memory that this package issued on any stream."""
        raise NotImplementedError

    def _require_open(self) -> None:
        """Raise InvalidHandleError if the memory was released."""

    def record_use(self, stream: Any = None) -> None:
        """Say that work issued on `stream` so far uses the memory. [local] [stream]

        The memory is not released before that work is over.

        Args:
            stream: the stream; None: the current stream of PyTorch or CuPy, else the legacy
                default stream.
        """
        raise NotImplementedError

    def reshape(self, *shape: int) -> Self:
        """The same elements in another shape; one extent may be -1. [local]"""
        shape = tuple(map(index, shape))
        known = math.prod(extent for extent in shape if extent != -1)
        if shape.count(-1) == 1 and known and self.size % known == 0:
            shape = tuple(self.size // known if extent == -1 else extent for extent in shape)
        if math.prod(shape) != self.size or any(extent < 0 for extent in shape):
            raise InvalidArgumentError(f"shape: {shape} does not hold {self.size} elements")
        return self._derive(0, shape, self.dtype)

    def view(self, dtype: DTypeLike) -> Self:
        """The same bytes as elements of another type. [local]

        The last extent changes with the size of the elements.
        """
        other = dtype_of(dtype)
        row = (self.shape[-1] if self.shape else 1) * self.dtype.itemsize
        if row % other.itemsize:
            raise InvalidArgumentError(
                f"dtype: rows of {row} bytes do not hold whole elements of {other!r}"
            )
        if not self.shape and other.itemsize == self.dtype.itemsize:
            return self._derive(0, (), other)
        return self._derive(0, (*self.shape[:-1], row // other.itemsize), other)

    def __getitem__(self, key: int | slice) -> Self:
        """A part along the first axis: an index, or a slice without a step. [local]"""
        if not self.shape:
            raise IndexError("an array without axes cannot be indexed")
        if isinstance(key, tuple):
            raise TypeError(
                "an array of symm's has parts along its first axis only; "
                "index a view of it: a.numpy()[...]"
            )

        row = self.nbytes // self.shape[0] if self.shape[0] else 0
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step != 1:
                raise IndexError("a part of an array must be contiguous")
            return self._derive(start * row, (max(0, stop - start), *self.shape[1:]), self.dtype)
        position = range(self.shape[0])[key]
        return self._derive(position * row, self.shape[1:], self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Store into the array as NumPy does: ``a.numpy()[key] = value``. [local] Host only."""
        self.numpy()[key] = value

    def __iter__(self) -> Iterator[Self]:
        return (self[position] for position in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element."""
        return self.dtype.itemsize

    # ---- for other processes

    def export_token(
        self,
        *,
        hold: float | None = None,
        hold_imports: int = 0,
        channels: int = 0,
        fence_bytes: int = 0,
        stream: Any = None,
    ) -> bytes:
        """A token by which any process of this user on this machine can map the array's bytes.

        [local] [stream] A token is plain bytes.

        Args:
            hold: seconds for which the memory is kept for this token after all its handles in
                this process are gone; 0: not at all; None: $SYMM_IPC_HOLD_MS, and without it the
                memory is not kept.
            hold_imports: the number of imports after which the memory is not kept any longer;
                0: only `hold` ends it. It needs `hold` or $SYMM_IPC_HOLD_MS.
            channels: the number of words by which those who import the token signal this process,
                for `ipc_wait_value()`. Memory of the host that this process made; it is not held.
            fence_bytes: the size of a part that `ipc_fence()` can close by itself; 0: the whole
                array. It needs `channels`.
            stream: work that was issued on this stream before is visible after the import.

        Raises:
            InvalidArgumentError: the array is in another rank's block, and only the owner exports;
                or `hold_imports` is given for memory that is not kept; or `hold` is given beside
                `channels`.
            UnsupportedError: `hold` for imported memory, which only its owner can hold, or
                `channels` for imported memory or memory of a GPU.
            UnavailableError: the directory for the socket is not private.
        """
        self._require_open()
        return export(self.pointer, self.nbytes, hold, hold_imports, channels, fence_bytes, stream)

    def withdraw(self, timeout: float | None = None) -> None:
        """Invalidate the tokens of any part of this array, and wait until all leases on it ended.

        [local] [blocking] Afterwards the array may be written anew and exported again.

        Args:
            timeout: seconds; None: $SYMM_TIMEOUT_MS, else 60; 0: only look.

        Raises:
            symm.TimeoutError: a process still holds a lease; the message names it. The tokens are
                invalid all the same.
            PeerFailedError: the holder of a lease is gone, but may still write. Do not use the
                memory again.
        """
        self._require_open()
        withdraw(self.pointer, self.nbytes, timeout)

    def holders(self) -> IpcHolders:
        """Describe the leases on any part of this array, and their holders. [local]

        The tokens stay valid. Never waits; looks at all leases.
        """
        self._require_open()
        return holders(self.pointer, self.nbytes)

    # ---- how other packages see it

    def _buffer(self) -> tuple[int, int, str, tuple[int, ...], bool]:
        """(address, item size, format, shape, writable), for the buffer protocol."""
        self._require_open()
        if self.device_key[0] != CPU:
            raise BufferError("this array is in device memory; the buffer protocol is for the host")
        if not self.dtype.format:
            raise BufferError(f"the buffer protocol has no format for {self.dtype!r}")
        return self.pointer, self.dtype.itemsize, self.dtype.format, self.shape, self.writable

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface(CPU)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = self._interface(CUDA)
        self._order(_LEGACY_STREAM)
        return interface | {"stream": _LEGACY_STREAM}

    def _interface(self, device_type: int) -> dict[str, Any]:
        # Packages ask by AttributeError whether an object has the protocol.
        if self.device_key[0] != device_type:
            raise AttributeError(f"this array is not on a device of type {device_type}")
        if self.dtype.typestr is None:
            raise AttributeError(f"there is no type string for {self.dtype!r}; DLPack has it")
        interface = {
            "shape": self.shape,
            "typestr": self.dtype.typestr,
            "data": (self.pointer, not self.writable),
            "version": 3,
        }
        if self.dtype.descr:
            interface["descr"] = self.dtype.descr
        return interface

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        # NumPy calls this for element types that the buffer protocol does not have.
        import numpy as np

        if self.device_key[0] != CPU:
            raise TypeError(
                "this array is in device memory: "
                "take a.torch(), cupy.asarray(a), or a group of backend='host'"
            )

        seen: np.ndarray[Any, Any] = np.asarray(self.view("u8"))
        if self.dtype.format:
            kind: Any = np.dtype(self.dtype.descr or self.dtype.long_name)
        else:
            try:
                import ml_dtypes
            except ImportError:
                raise TypeError(
                    f"NumPy needs the package ml_dtypes for {self.dtype!r}; "
                    "view('u8') shows the bytes"
                ) from None
            kind = getattr(ml_dtypes, self.dtype.long_name)
        seen = seen.view(kind).reshape(self.shape)

        if dtype is not None and seen.dtype != dtype:
            if copy is False:
                raise ValueError(f"a view of {self.dtype!r} as {dtype} needs a copy")
            seen = seen.astype(dtype)
        elif copy:
            seen = seen.copy()
        return seen

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

        With CUDA, `stream` is made to wait for all work that this package has issued on the
        group, from any thread. Stream numbers are DLPack's: None or 1 is the legacy default
        stream, 2 the per-thread default stream, and -1 means no wait. Work that another package
        issues through a view of its own must be ordered by that package.
        """
        self._require_open()
        if dl_device is not None and tuple(dl_device) != self.device_key:
            raise BufferError(
                f"the array is on device {self.device_key}, not on {tuple(dl_device)}"
            )
        if copy:
            raise BufferError("this memory is exported without a copy only")

        if self.device_key[0] == CUDA:
            if stream != -1:
                self._order(stream or _LEGACY_STREAM)
        elif stream not in (None, -1):
            raise BufferError("stream: must be None for host memory")

        if self.dtype.is_pair:
            raise BufferError(
                f"DLPack has no type for {self.dtype!r}; view({self.dtype.part.name!r}) shows the "
                "values and indices"
            )
        versioned = max_version is not None and max_version[0] >= 1
        # Capsules without a version cannot say that their memory may only be read.
        kind = (1 if self.writable else 3) if versioned else 0
        return raw.dlpack_make(
            self, self.pointer, self.dtype.value, self.shape, *self.device_key, kind
        )

    def numpy(self) -> np.ndarray[Any, Any]:
        """The same memory as a NumPy array, with ml_dtypes for bf16 and fp8. [local] Host only."""
        import numpy as np

        return np.asarray(self)

    def torch(self) -> torch.Tensor:
        """The same memory as a PyTorch tensor. [local]"""
        import torch

        if self.dtype.format:
            whole: torch.Tensor = torch.from_dlpack(self)
            return whole
        # Not every version of PyTorch accepts fp8 by DLPack, so it sees the bytes first.
        as_bytes = torch.from_dlpack(self.view("u8"))
        typed: torch.Tensor = as_bytes.view(getattr(torch, self.dtype.long_name))
        return typed.reshape(self.shape)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an array of symm's cannot be copied by copy() and deepcopy(), or pickled; "
            "copy one of its views"
        )
