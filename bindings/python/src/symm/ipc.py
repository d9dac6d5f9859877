"""Sharing of memory with any process of this user on this machine, outside of any group.

The owner makes a token by ``array.export_token()``. A token is plain bytes that may travel by
any means. A process that imports it maps the same physical memory. Each import is a lease,
which ends with the last array of the import, or with the process that holds it.
"""

from __future__ import annotations

from symm import _view
from symm._generated import ImportInfo, IpcCollectStats, IpcHolders, IpcStats
from symm._library import Closing, Owned, raw
from symm._operand import piece_of
from symm._streams import ALL_STREAMS, current_on, handle_of, milliseconds
from symm._view import CPU, CUDA, Array, extents_of
from symm.dtypes import DType, DTypeLike, dtype_of
from symm.enums import Backend
from symm.errors import InvalidArgumentError, InvalidHandleError
from symm.memory import Buffer

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Lease(Owned):
    """The handle of an import.

    The streams that used the import are not known. So its lease ends once all work is over that
    the device has at the release.
    """

    def __init__(self, handle: int) -> None:
        super().__init__(handle, _release)


def _release(
    handle: int,
    *,
    # At the end of the interpreter, finalizers run when the globals of modules are gone.
    release: Callable[[int, int], None] = raw.symm_ipc_release,
    streams: int = ALL_STREAMS,
) -> None:
    release(handle, streams)


class ImportedArray(Array, Closing):
    """Memory of another process, or of this one, that was imported by a token.

    `Array` says how NumPy and other packages see the array. The lease ends when this array, its
    parts and all views of them are gone. So ``with import_token(...) as a:`` ends the lease if
    no view outlives the block.
    """

    def __init__(
        self,
        lease: _Lease,
        pointer: int,
        shape: tuple[int, ...],
        dtype: DType,
        device_key: tuple[int, int],
    ) -> None:
        super().__init__(pointer, shape, dtype, device_key)
        self._lease: _Lease | None = lease

    def _derive(self, offset: int, shape: tuple[int, ...], dtype: DType) -> ImportedArray:
        return ImportedArray(self._open(), self.pointer + offset, shape, dtype, self.device_key)

    def _order(self, stream: int) -> None:
        raw.symm_ipc_stream_wait(self._open()._handle, None, stream)

    def record_use(self, stream: Any = None) -> None:
        """Say that work issued on `stream` so far uses the import. [local] [stream]

        The lease does not end before that work is over. `stream` is that of
        ``Array.record_use()``.
        """
        handle = self._open()._handle
        if stream is not None:
            cuda_stream = handle_of(stream)
        elif self.device_key[0] == CUDA:
            cuda_stream = current_on(self.device_key[1]) or 0
        else:
            cuda_stream = 0
        raw.symm_ipc_record_use(handle, None, cuda_stream)

    def _open(self) -> _Lease:
        if self._lease is None:
            raise InvalidHandleError("array: it was closed")
        return self._lease

    def _require_open(self) -> None:
        self._open()

    def info(self) -> ImportInfo:
        """Describe the import. [local]"""
        return ImportInfo.read(raw.symm_ipc_info(self._open()._handle))

    def close(self) -> None:
        """Release this array. [local] Never waits.

        The lease ends with the last view of the import.
        """
        self._lease = None
        self.pointer = 0
        self.size = 0
        self.nbytes = 0
        self.shape: tuple[int, ...] = (0,)

    def __repr__(self) -> str:
        state = "" if self._lease else ", closed"
        return f"<symm.ImportedArray {self.shape} of {self.dtype.name}{state}>"


def import_token(
    token: bytes,
    shape: int | tuple[int, ...] | None = None,
    dtype: DTypeLike = "u8",
    *,
    timeout: float | None = None,
    directory: str | None = None,
    device: int | None = None,
    stream: Any = None,
) -> ImportedArray:
    """Map the memory that a token names. [local] [blocking, timeout] [stream]

    Args:
        token: the bytes that ``export_token()`` returned, or ``symm_ipc_export()`` in any
            language.
        shape: the extents; None: one axis with all that the token names.
        dtype: the element type.
        timeout: seconds for the exporter's answer; None: $SYMM_TIMEOUT_MS, else 60;
            ``math.inf``: for ever.
        directory: the path in this process of the exporter's $SYMM_IPC_DIRECTORY; None: the
            same path as there.
        device: the CUDA ordinal for which to map the memory; None: the GPU that has it.
        stream: work on this stream, and on the streams of later views, comes after the work
            that the exporter had issued before the export. The lease ends once all work is over
            that the device had when the last view was released.

    Raises:
        InvalidArgumentError: the bytes are not a token, or are damaged; or `shape` needs more
            bytes than the token names.
        UnavailableError: the token is of another machine or user.
        InvalidHandleError: the memory was released or withdrawn.
        PeerFailedError: the exporter is gone.
        symm.TimeoutError: the exporter does not answer.
    """
    flags = 0 if device is None else raw.SYMM_IPC_ON_DEVICE
    options = (flags, milliseconds(timeout), directory, device or 0)
    cuda_stream = 0 if stream is None else handle_of(stream)
    lease = _Lease(raw.symm_ipc_import(bytes(token), options, cuda_stream))
    info = ImportInfo.read(raw.symm_ipc_info(lease._handle))

    kind = dtype_of(dtype)
    extents = (info.bytes // kind.itemsize,) if shape is None else extents_of(shape)
    device_key = (CUDA, info.device) if info.backend == Backend.CUDA else (CPU, 0)
    array = ImportedArray(lease, raw.symm_ipc_pointer(lease._handle), extents, kind, device_key)
    if array.nbytes > info.bytes:
        raise InvalidArgumentError(
            f"shape: {array.nbytes} bytes are more than the {info.bytes} that the token names"
        )
    return array


def _piece(memory: Any) -> tuple[int, int]:
    """The address and the number of bytes of what the caller means by a piece of memory."""
    if isinstance(memory, Buffer):
        return memory.pointer, memory.nbytes
    if isinstance(memory, tuple):
        address, nbytes = memory
        return address, nbytes
    return piece_of(memory, "memory")


def ipc_export(
    memory: Any, *, hold: float | None = None, hold_imports: int = 0, stream: Any = None
) -> bytes:
    """A token by which any process of this user on this machine can map a piece of memory.

    [local] [stream] ``Array.export_token()`` has the details.

    Args:
        memory: a `Buffer`, an array of symm's or of any package in such a buffer, or a tuple
            (address, number of bytes). On CUDA it may lie in any memory that the driver can
            export, such as PyTorch's expandable segments.
        hold: seconds for which the memory is kept for this token.
        hold_imports: the number of imports after which it is not kept any longer.
        stream: work that was issued on this stream before is visible after the import.
    """
    return _view.export(*_piece(memory), hold, hold_imports, stream)


def ipc_withdraw(memory: Any, timeout: float | None = None) -> None:
    """End the tokens of any part of a piece of memory, and wait until nobody holds it.

    [local] [blocking, timeout] ``Array.withdraw()`` has the details.

    Args:
        memory: the piece, as for `ipc_export()`.
        timeout: seconds; None: $SYMM_TIMEOUT_MS, else 60; 0: only look.
    """
    _view.withdraw(*_piece(memory), timeout)


def ipc_holders(memory: Any) -> IpcHolders:
    """Describe the leases on any part of a piece of memory, and their holders. [local]

    ``Array.holders()`` has the details.

    Args:
        memory: the piece, as for `ipc_export()`.
    """
    return _view.holders(*_piece(memory))


def ipc_collect() -> IpcCollectStats:
    """Free the memory that provably nobody uses any more. [local] Never waits.

    Returns:
        What all collections of the process have done so far.
    """
    return IpcCollectStats.read(raw.symm_ipc_collect(None))


def ipc_stats() -> IpcStats:
    """The state of sharing in this process. [local]"""
    return IpcStats.read(raw.symm_ipc_stats())
