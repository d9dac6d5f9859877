"""Sharing memory with any process of this user on this machine, outside of any group.

The owner makes a token, plain bytes that may travel by any
means: ``array.export_token()``. Whoever imports it gets the
same physical memory. Each import is a lease; it ends when the
last array of it is gone, or with the process that holds it.
"""

from __future__ import annotations

from typing import Any

from symm._generated import ImportInfo, IpcReport, IpcStats
from symm._library import Closing, Owned, raw
from symm._streams import ALL_STREAMS, handle_of, milliseconds
from symm._view import CPU, CUDA, View, extents_of
from symm.dtypes import DType, DTypeLike, dtype_of
from symm.enums import Backend
from symm.errors import InvalidArgumentError, InvalidHandleError


class _Lease(Owned):
    """An import. Where it was used nobody knows, so its lease ends after all that the
    device has to do when it is let go.
    """

    def __init__(self, handle: int) -> None:
        super().__init__(handle, lambda of: raw.symm_ipc_release(of, ALL_STREAMS))


class ImportedArray(View, Closing):
    """Memory of another process, or of this one, imported by
    a token. See `View` for how NumPy and others see it.

    The lease ends when this array, its parts and all views of them are gone, so ``with
    import_token(...) as a:`` is enough if no view outlives the block.
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
        raw.symm_ipc_stream_wait(self._open()._handle, stream)

    def record_use(self, stream: Any) -> None:
        """Say that what was issued on `stream` so far uses the import: its lease does not
        end before that. [local] [stream]
        """
        raw.symm_ipc_record_use(self._open()._handle, handle_of(stream))

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
        """Let go of this array. [local] Never waits. The
        lease ends with the last view of the import.
        """
        self._lease = None
        self.pointer = 0
        self.size = self.nbytes = 0
        self.shape: tuple[int, ...] = (0,)

    def __repr__(self) -> str:
        return f"<symm.ImportedArray {self.shape} of {self.dtype.name}{'' if self._lease else ', closed'}>"


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
        token: from ``export_token()`` here, or from ``symm_ipc_export()`` in any
        language. shape: None: one axis with all that the token names. dtype: element
        type. timeout: seconds for the exporter's answer; None: $SYMM_TIMEOUT_MS, else
        60. directory: where $SYMM_IPC_DIRECTORY of the exporter is seen here; None:
        under the same path. device: CUDA ordinal for which to map; None: the GPU that
        has the memory. stream: what the exporter issued before the export is there on
        this stream, and on those of later views. The lease ends
            when all that the device had to do when the last view went is over.

    Raises:
        InvalidArgumentError: it is no token, or damaged; or `shape` needs more than it names.
        UnavailableError: it is of another machine or user.
        InvalidHandleError: the memory was released or withdrawn.
        PeerFailedError: the exporter is gone.
        DeadlineError: the exporter does not answer.
    """
    options = (milliseconds(timeout), directory, raw.SYMM_DEVICE_AUTO if device is None else device)
    lease = _Lease(
        raw.symm_ipc_import(bytes(token), options, 0 if stream is None else handle_of(stream))
    )
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


def ipc_collect() -> IpcReport:
    """Free what is provably free. [local] Never waits.
    Returns what all collections of the process have done.
    """
    return IpcReport.read(raw.symm_ipc_collect())


def ipc_stats() -> IpcStats:
    """The state of sharing in this process. [local]"""
    return IpcStats.read(raw.symm_ipc_stats())
