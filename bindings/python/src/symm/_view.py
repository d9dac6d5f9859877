"""Contiguous arrays in memory of symm's, and how other packages see them without a copy."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, cast

from symm._generated import IpcHolders
from symm._library import raw
from symm._streams import handle_of, milliseconds
from symm.dtypes import DType, DTypeLike, dtype_of
from symm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import torch
    from typing_extensions import Self

    class _Exporter:
        """The buffer protocol, in the extension."""
else:
    _Exporter = raw.make_exporter_type()

# DLPack's device types, as far as symm's memory may lie on them
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_LEGACY_STREAM = 1  # in DLPack's and the driver's numbering


def extents_of(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape as a tuple of integers of Python's, which unlike those of NumPy do not overflow."""
    extents = tuple(map(index, shape if hasattr(shape, "__iter__") else (shape,)))
    if any(extent < 0 for extent in extents):
        raise InvalidArgumentError(f"shape: {extents} has negative extents")
    return extents


class View(_Exporter):
    """A contiguous array in memory of symm's.

    NumPy (``numpy.asarray(a)``), PyTorch (``torch.from_dlpack(a)``), JAX and CuPy see
    the same memory, without a copy: by DLPack, by the buffer protocol and
    ``__array_interface__`` (host), by ``__cuda_array_interface__`` (CUDA). The memory
    lives as long as any of these views.

    Attributes:
        shape: extents, C order.
        dtype: element type, a `DType`.
        code: SYMM_DTYPE_* of the elements.
        size: number of elements.
        nbytes: number of bytes.
        pointer: address in this process.
        device_key: DLPack's (device type, device id).
    """

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
        """Let `stream` wait for what this package has
        issued on the memory, whichever stream it was on.
        """
        raise NotImplementedError

    def _require_open(self) -> None:
        """Raise if the memory was given back."""

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
        """The same bytes as elements of another type; the
        last extent changes with their size. [local]
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
        row = self.nbytes // self.shape[0] if self.shape[0] else 0
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step != 1:
                raise IndexError("a part of an array must be contiguous")
            return self._derive(start * row, (max(0, stop - start), *self.shape[1:]), self.dtype)
        if isinstance(key, tuple):
            raise TypeError(
                "an array of symm's has parts along its first axis only; index a view of it: a.numpy()[...]"
            )
        index = range(self.shape[0])[key]
        return self._derive(index * row, self.shape[1:], self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        """As NumPy's view of it does: ``a.numpy()[key] = value``. [local] Host only."""
        self.numpy()[key] = value

    def __iter__(self) -> Iterator[Self]:
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    # ---- for other processes

    def export_token(
        self, *, hold: float | None = None, hold_imports: int = 0, stream: Any = None
    ) -> bytes:
        """Plain bytes by which any process of this user on this
        machine can map this array's bytes. [local] [stream]

        Args:
            hold: seconds for which the memory is kept for this token though everything
            here is gone; None: $SYMM_IPC_HOLD_MS,
                else it is not.
            hold_imports: or until the token was imported so often; 0: only `hold` ends it.
            stream: what was issued on it before is there after the import.

        Raises:
            InvalidArgumentError: the array is of another rank's block; only the owner exports.
            UnsupportedError: `hold` of an import, which only its owner can hold.
            UnavailableError: the directory for the socket is not private.
        """
        self._require_open()
        options = None if hold is None and not hold_imports else (milliseconds(hold), hold_imports)
        return raw.symm_ipc_export(
            self.pointer, self.nbytes, options, 0 if stream is None else handle_of(stream)
        )

    def withdraw(self, timeout: float | None = None) -> None:
        """End the tokens of any part of this array and wait
        until nobody holds a lease on it. [local] [blocking]

        Then it may be written anew and exported again.

        Args:
            timeout: seconds; None: $SYMM_TIMEOUT_MS, else 60.

        Raises:
            DeadlineError: names a holder; the tokens have ended all the same.
            PeerFailedError: a holder is gone, but may still write. Do not use the memory again.
        """
        self._require_open()
        raw.symm_ipc_withdraw(self.pointer, self.nbytes, milliseconds(timeout))

    def holders(self) -> IpcHolders:
        """Who holds leases on any part of this array, without ending its tokens. [local]
        Never waits; looks at all leases.
        """
        self._require_open()
        return IpcHolders.read(raw.symm_ipc_holders(self.pointer, self.nbytes))

    # ---- how other packages see it

    def _buffer(self) -> tuple[int, int, str, tuple[int, ...]]:
        """For the buffer protocol."""
        self._require_open()
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
        interface = self._interface(CUDA)
        self._order(_LEGACY_STREAM)
        return interface | {"stream": _LEGACY_STREAM}

    def _interface(self, device_type: int) -> dict[str, Any]:
        # AttributeError, because that is how packages ask whether an object has the protocol.
        if self.device_key[0] != device_type:
            raise AttributeError(f"this array is not on a device of type {device_type}")
        if self.dtype.typestr is None:
            raise AttributeError(f"there is no type string for {self.dtype!r}; DLPack has it")
        return {
            "shape": self.shape,
            "typestr": self.dtype.typestr,
            "data": (self.pointer, False),
            "version": 3,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        # NumPy comes here for the types that it does not have itself.
        import numpy as np

        if self.device_key[0] != CPU:
            raise TypeError(
                "this array is in device memory: take a.torch(), cupy.asarray(a), or a group of backend='host'"
            )
        found = np.asarray(self.view("u8"))
        if self.dtype.format:
            kind: Any = self.dtype.long_name
        else:
            try:
                import ml_dtypes
            except ImportError:
                raise TypeError(
                    f"NumPy needs the package ml_dtypes for {self.dtype!r}; view('u8') shows the bytes"
                ) from None
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

        With CUDA, `stream` (None or 1: the legacy default stream, 2: the
        per-thread one, -1: do nothing) is made to wait for all that this
        package has issued on the group, from any thread; what other
        packages write through views of their own is theirs to order.
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
        versioned = max_version is not None and max_version[0] >= 1
        return raw.dlpack_make(
            self, self.pointer, self.dtype.value, self.shape, *self.device_key, int(versioned)
        )

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
            torch.from_dlpack(self.view("u8"))
            .view(getattr(torch, self.dtype.long_name))
            .reshape(self.shape),
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an array of symm's cannot be copied by copy() and deepcopy(), or pickled; copy one of its views"
        )
