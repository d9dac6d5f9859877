"""Sharing of memory with any process of this user on this machine, outside of any group.

The owner makes a token by ``array.export_token()``. A token is plain bytes that may travel by
any means. A process that imports it maps the same physical memory. Each import is a lease,
which ends with the last array of the import, or with the process that holds it.
"""

from __future__ import annotations

import math

from symm import _view
from symm._generated import ImportInfo, IpcCollectStats, IpcHolders, IpcStats
from symm._library import Closing, Owned, raw
from symm._operand import HOST, operand, piece_of, read_with_shape
from symm._pieces import pages_of, pieces_of, signal_of
from symm._streams import ALL_STREAMS, current_on, handle_of, milliseconds, within
from symm._view import CPU, CUDA, Array, extents_of
from symm.dtypes import DType, DTypeLike, dtype_of
from symm.enums import Backend, SignalOp
from symm.errors import InvalidArgumentError, InvalidHandleError, NotFoundError
from symm.memory import Buffer

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from symm._pieces import Rows


class _Lease(Owned):
    """The handle of an import.

    The streams that used the import are not known. So its lease ends once all work is over that
    the device has at the release.
    """

    def __init__(self, handle: int) -> None:
        super().__init__(handle, _release)

    def suspend(self, stream: Any) -> None:
        raw.symm_ipc_suspend(self._handle, None, _on(stream))

    def resume(
        self, token: bytes | None, timeout: float | None, directory: str | None, stream: Any
    ) -> None:
        options = (0, milliseconds(timeout), directory, 0)
        other = None if token is None else bytes(token)
        raw.symm_ipc_resume(self._handle, other, options, _on(stream))


def _on(stream: Any) -> int:
    return 0 if stream is None else handle_of(stream)


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
        writable: bool = True,
    ) -> None:
        super().__init__(pointer, shape, dtype, device_key)
        self.writable = writable
        self._lease: _Lease | None = lease

    def _derive(self, offset: int, shape: tuple[int, ...], dtype: DType) -> ImportedArray:
        return ImportedArray(
            self._open(), self.pointer + offset, shape, dtype, self.device_key, self.writable
        )

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

    def suspend(self, stream: Any = None) -> None:
        """Give the memory up, and keep its address. [local] [stream]

        For a reader that sleeps, or goes on with another version: `resume()` maps memory at the
        same address, so graphs that were captured with it are right again. The lease ends. Until
        then an access by this array, or by a view of it in any package, ends the process by a
        signal.

        Args:
            stream: what was issued on it before is over when the memory goes, and so are the uses
                that were recorded.

        Raises:
            InvalidArgumentError: it is suspended, or another import, a token or a group of this
                process uses the memory.
            UnsupportedError: the memory is this process's own, and was imported for reading only.
        """
        self._open().suspend(stream)

    def resume(
        self,
        token: bytes | None = None,
        *,
        timeout: float | None = None,
        directory: str | None = None,
        stream: Any = None,
    ) -> None:
        """Map memory at the address again. [local] [blocking, timeout] [stream]

        Args:
            token: what is mapped: memory of the same size at the same place of a block of the
                same size, of any process; None: what was there.
            timeout: as in `import_token()`, and so are `directory` and `stream`.

        Raises:
            InvalidArgumentError: it is not suspended, or the token names memory that lies
                otherwise. The other errors are those of `import_token()`; it stays suspended.
        """
        self._open().resume(token, timeout, directory, stream)

    def put_pieces(
        self,
        source: Any,
        pieces: Sequence[Rows] | Any,
        *,
        offset: int = 0,
        epoch: int = 0,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
    ) -> None:
        """Copy pieces of `source` into the imported memory in one call. [local]

        The owner sees them when it has waited for the signal of the call, or for any later one.

        Args:
            source: a contiguous array of any package.
            pieces: as for ``Memory.put_pieces()``.
            offset: from where the pieces count, in bytes from the start of this array.
            epoch: the number of the request that the put serves. A put that comes too late for the
                owner's `ipc_fence()` is refused.
            signal: a channel of the token on which to signal the owner when all pieces have
                arrived; None: no signal.
            op: what the signal does to its word, as in `signal_value()`.
            value: what is added to the word, or what the word becomes.
            timeout: seconds for the end of another thread's put through this import; None:
                $SYMM_TIMEOUT_MS, else 60.

        Raises:
            AbortedError: the put is late; nothing was written.
            InvalidArgumentError: as for ``Memory.put_pieces()``; or the array is of a bundle or
                read-only, or the token has no channels, and there is a signal or an epoch.
            PeerFailedError: the process that made the memory is gone.
        """
        chosen = pieces_of(pieces, HOST)
        call = (*chosen.as_pieces(), *signal_of(signal, op, value, on_device=chosen.on_device))
        self._put(source, call, offset, epoch, timeout)

    def put_pages(
        self,
        source: Any,
        page_bytes: int,
        *,
        from_table: Sequence[int] | Any = None,
        to_table: Sequence[int] | Any = None,
        offset: int = 0,
        epoch: int = 0,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
        timeout: float | None = None,
    ) -> None:
        """Copy pages of `source` to pages of the imported memory, by their numbers. [local]

        The pages are those of ``Memory.put_pages()``; all else is as for `put_pieces()`.
        """
        pages, _tables = pages_of(page_bytes, from_table, to_table, HOST)
        call = (*pages, *signal_of(signal, op, value, on_device=False))
        self._put(source, call, offset, epoch, timeout)

    def get_pieces(
        self,
        destination: Any,
        pieces: Sequence[Rows] | Any,
        *,
        offset: int = 0,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
    ) -> None:
        """Copy pieces of the imported memory to `destination` in one call. [local]

        A signal tells the owner that it may write these pieces anew. Parameters and errors are
        those of `put_pieces()`.
        """
        chosen = pieces_of(pieces, HOST)
        call = (*chosen.as_pieces(), *signal_of(signal, op, value, on_device=chosen.on_device))
        self._get(destination, call, offset)

    def get_pages(
        self,
        destination: Any,
        page_bytes: int,
        *,
        from_table: Sequence[int] | Any = None,
        to_table: Sequence[int] | Any = None,
        offset: int = 0,
        signal: int | None = None,
        op: SignalOp = SignalOp.ADD,
        value: int = 1,
    ) -> None:
        """Copy pages of the imported memory to pages of `destination`. [local]

        Parameters and errors are those of `put_pages()`.
        """
        pages, _tables = pages_of(page_bytes, from_table, to_table, HOST)
        self._get(destination, (*pages, *signal_of(signal, op, value, on_device=False)), offset)

    def _at(self, offset: int) -> tuple[int, int]:
        """The import, and a place in this array as one of the import."""
        handle = self._open()._handle
        return handle, self.pointer - raw.symm_ipc_pointer(handle) + offset

    def _put(
        self, source: Any, call: tuple[int, ...], offset: int, epoch: int, timeout: float | None
    ) -> None:
        found = operand(source, "source", HOST, 0, written=False)
        nbytes = found.size * found.dtype.itemsize
        raw.symm_ipc_put_pieces(
            *self._at(offset), found.pointer, nbytes, call, epoch, within(timeout), 0
        )

    def _get(self, destination: Any, call: tuple[int, ...], offset: int) -> None:
        found = operand(destination, "destination", HOST, 0, written=True)
        nbytes = found.size * found.dtype.itemsize
        raw.symm_ipc_get_pieces(*self._at(offset), found.pointer, nbytes, call, None, 0)

    def signal_value(self, value: int, channel: int = 0, *, op: SignalOp = SignalOp.ADD) -> None:
        """Add `value` to a word of the token, or set the word to it. [local] Never waits.

        The owner waits for it by `ipc_wait_value()`, and then sees what was written before.

        Args:
            value: any number of 64 bits; sums wrap.
            channel: which of the token's words.
            op: whether the value is added, or replaces the word.

        Raises:
            InvalidArgumentError: the token has no such channel.
            PeerFailedError: the process that made the memory is gone.
        """
        raw.symm_ipc_signal_value(self._open()._handle, channel, int(op), value, None, 0)

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
    read_only: bool = False,
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
        read_only: map the memory so that it cannot be written by this array and its views.
            Views of packages that know read-only arrays, such as NumPy's, are such; a store
            through another view ends the process by a signal, or fails on the GPU.
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
    lease = _import(token, timeout, directory, device, read_only, stream)
    info = ImportInfo.read(raw.symm_ipc_info(lease._handle))

    kind = dtype_of(dtype)
    extents = (info.bytes // kind.itemsize,) if shape is None else extents_of(shape)
    device_key = (CUDA, info.device) if info.backend == Backend.CUDA else (CPU, 0)
    pointer = raw.symm_ipc_pointer(lease._handle)
    array = ImportedArray(lease, pointer, extents, kind, device_key, not read_only)
    if array.nbytes > info.bytes:
        raise InvalidArgumentError(
            f"shape: {array.nbytes} bytes are more than the {info.bytes} that the token names"
        )
    return array


def _import(
    token: bytes,
    timeout: float | None,
    directory: str | None,
    device: int | None,
    read_only: bool,
    stream: Any,
) -> _Lease:
    flags = 0 if device is None else raw.SYMM_IPC_ON_DEVICE
    if read_only:
        flags |= raw.SYMM_IPC_READ_ONLY
    options = (flags, milliseconds(timeout), directory, device or 0)
    return _Lease(raw.symm_ipc_import(bytes(token), options, _on(stream)))


def ipc_export_bundle(
    arrays: Mapping[str, Any],
    *,
    hold: float | None = None,
    hold_imports: int = 0,
    stream: Any = None,
) -> bytes:
    """One token for many named arrays, such as the weights of a model. [local] [stream]

    Any process of this user on this machine maps all of them by one `import_bundle()`, at the
    cost of a mapping for each block that they lie in.

    Args:
        arrays: arrays by their names, which are one line of text: of symm's or of any package,
            in buffers of symm's or, on CUDA, in any memory that the driver can export. All of
            them lie on one device. Their element types and shapes travel with them.
        hold: seconds for which the memory is kept for this token, as in `ipc_export()`.
        hold_imports: the number of imports after which it is not kept any longer.
        stream: work that was issued on this stream before is visible after the import.

    Raises:
        InvalidArgumentError: an array is not contiguous, or lies in memory that cannot be
            exported; the message has its place among `arrays`.
    """
    kept = []  # what lives until the call is over
    pieces = []
    for name, array in arrays.items():
        found, shape = read_with_shape(array, f"arrays[{name!r}]")
        kept.append(found)
        about = about_of(found.dtype, shape)
        nbytes = found.size * found.dtype.itemsize
        pieces.append((found.pointer if nbytes else 0, nbytes, name, about, len(about)))
    options = _view.export_options(hold, hold_imports)
    return raw.symm_ipc_export_bundle(pieces, options, _on(stream))


def about_of(dtype: DType, shape: tuple[int, ...]) -> bytes:
    """What a bundle says of an array, for all languages: ``f32[3,4]``."""
    return f"{dtype.name}[{','.join(map(str, shape))}]".encode()


def _read_about(about: bytes, nbytes: int) -> tuple[DType, tuple[int, ...]]:
    """The type and the shape that `about` says; else bytes, as another maker left them."""
    import re  # takes long to import

    match = re.fullmatch(rb"(\w+)\[((?:\d+(?:,\d+)*)?)\]", about)
    if match:
        kind = dtype_of(match[1].decode())
        shape = tuple(int(extent) for extent in match[2].split(b",") if extent)
        if math.prod(shape) * kind.itemsize == nbytes:
            return kind, shape
    return dtype_of("u8"), (nbytes,)


class Bundle(Closing):
    """The arrays of a bundle, by their names, as `import_bundle()` maps them.

    ``bundle["name"]`` is an `ImportedArray`. Looking one up costs the same for any number of
    arrays. The lease on all of them ends when this object, its arrays and all views of them are
    gone.
    """

    def __init__(self, lease: _Lease, *, read_only: bool) -> None:
        info = ImportInfo.read(raw.symm_ipc_info(lease._handle))
        self._device_key = (CUDA, info.device) if info.backend == Backend.CUDA else (CPU, 0)
        self._size = raw.symm_ipc_bundle_size(lease._handle)
        self._read_only = read_only
        self._lease: _Lease | None = lease

    def _open(self) -> _Lease:
        if self._lease is None:
            raise InvalidHandleError("bundle: it was closed")
        return self._lease

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        """The names, in the exporter's order; arrays that have none are passed over."""
        handle = self._open()._handle
        for index in range(self._size):
            name = raw.symm_ipc_bundle_piece(handle, index)[2]
            if name is not None:
                yield name

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def _find(self, name: str) -> int | None:
        try:
            index: int | None = raw.symm_ipc_bundle_find(self._open()._handle, name, True)
        except NotFoundError:
            return None
        return index

    def __getitem__(self, name: str) -> ImportedArray:
        index = self._find(name)
        if index is None:
            raise KeyError(name)
        return self.at(index)

    def at(self, index: int) -> ImportedArray:
        """The array at a place in the exporter's order. [local]"""
        lease = self._open()
        pointer, nbytes, _, about = raw.symm_ipc_bundle_piece(lease._handle, index)
        kind, shape = _read_about(about, nbytes)
        return ImportedArray(lease, pointer, shape, kind, self._device_key, not self._read_only)

    def keys(self) -> list[str]:
        """The names. [local]"""
        return list(self)

    def items(self) -> list[tuple[str, ImportedArray]]:
        """Names and arrays. [local]"""
        return [(name, self[name]) for name in self]

    def info(self) -> ImportInfo:
        """Describe the import. [local]"""
        return ImportInfo.read(raw.symm_ipc_info(self._open()._handle))

    def suspend(self, stream: Any = None) -> None:
        """Give the memory of all arrays up, and keep their addresses. [local] [stream]

        As `ImportedArray.suspend()`.
        """
        self._open().suspend(stream)

    def resume(
        self,
        token: bytes | None = None,
        *,
        timeout: float | None = None,
        directory: str | None = None,
        stream: Any = None,
    ) -> None:
        """Map memory at the addresses of the arrays again. [local] [blocking, timeout] [stream]

        Args:
            token: the bundle that is mapped, such as that of another version. Its arrays have the
                same names, sizes and places, each block the same size. Element types and shapes
                are not compared. None: the bundle that was there.
            timeout: as in `import_token()`, and so are `directory` and `stream`.

        Raises:
            InvalidArgumentError: it is not suspended, or the bundle lies otherwise; the message
                names an array. The other errors are those of `import_bundle()`; it stays
                suspended.
        """
        self._open().resume(token, timeout, directory, stream)

    def close(self) -> None:
        """Release the bundle. [local] Never waits.

        The lease ends with the last view of its arrays.
        """
        self._lease = None
        self._size = 0

    def __repr__(self) -> str:
        return f"<symm.Bundle of {self._size}{'' if self._lease else ', closed'}>"


def import_bundle(
    token: bytes,
    *,
    timeout: float | None = None,
    directory: str | None = None,
    device: int | None = None,
    read_only: bool = True,
    stream: Any = None,
) -> Bundle:
    """Map the arrays of a bundle. [local] [blocking, timeout] [stream]

    Args:
        token: the bytes that `ipc_export_bundle()` returned, or `symm_ipc_export_bundle()` in
            any language. Pieces of which another language says something else are arrays of
            bytes.
        timeout: seconds for the exporter's answer, as in `import_token()`.
        directory: the path in this process of the exporter's $SYMM_IPC_DIRECTORY.
        device: the CUDA ordinal for which to map the memory; None: the GPU that has it.
        read_only: map the memory so that it cannot be written, as in `import_token()`.
        stream: as in `import_token()`.

    Raises:
        InvalidArgumentError: the bytes are not the token of a bundle.
        InvalidHandleError: memory of the bundle was released or withdrawn.
    """
    lease = _import(token, timeout, directory, device, read_only, stream)
    return Bundle(lease, read_only=read_only)


def ipc_publish(name: str, version: int, token: bytes, *, keep: int = 0) -> None:
    """Publish a token of this process under a name and the number of a version. [local]

    Versions coexist: readers keep the one that they have imported.

    Args:
        name: one line of text; several processes may publish under one name.
        version: its number; larger is newer.
        token: made by `ipc_export_bundle()`, `ipc_export()` or ``export_token()``.
        keep: how many versions of the name stay published, with this one; the tokens of those
            with the lowest numbers end. 0: all.

    Raises:
        InvalidArgumentError: this process has published the version, or the memory of the token
            as another version of the name.
        InvalidHandleError: the memory of the token was released or withdrawn.
    """
    raw.symm_ipc_publish(name, version, bytes(token), (keep,) if keep else None)


_NEWEST = raw.SYMM_COMPARE_GE


def ipc_lookup(
    name: str,
    version: int = 0,
    *,
    compare: int = _NEWEST,
    timeout: float | None = None,
    directory: str | None = None,
) -> tuple[int, bytes]:
    """The newest published version of a name that compares with a number, and its token.

    [local] [blocking, timeout] Waits for one. Without further arguments the newest of all.

    Args:
        name: as it was published.
        version: the number to compare with.
        compare: a `symm.Compare`, with the published version on its left; ``Compare.GT`` finds
            the newest that is newer than `version`.
        timeout: seconds to wait for such a version; 0: only look; None: $SYMM_TIMEOUT_MS, else
            60.
        directory: the path in this process of the publisher's $SYMM_IPC_DIRECTORY.

    Raises:
        symm.TimeoutError: there is no such version; the message tells which there are.
    """
    options = (milliseconds(timeout), directory)
    token, found = raw.symm_ipc_lookup(name, int(compare), version, options)
    return found, token


def ipc_withdraw_version(name: str, version: int, timeout: float | None = None) -> None:
    """End the token of a version of this process, and wait until nobody holds it.

    [local] [blocking, timeout] Afterwards its memory may be written anew.

    Args:
        name: as it was published.
        version: its number.
        timeout: seconds; None: $SYMM_TIMEOUT_MS, else 60; 0: only look.

    Raises:
        InvalidArgumentError: this process has not published the version.
        symm.TimeoutError: a process still holds it; the message names it. The same call waits on.
        PeerFailedError: a holder is gone, but may still write.
    """
    raw.symm_ipc_withdraw_version(name, version, within(timeout))


def _piece(memory: Any) -> tuple[int, int]:
    """The address and the number of bytes of what the caller means by a piece of memory."""
    if isinstance(memory, Buffer):
        return memory.pointer, memory.nbytes
    if isinstance(memory, tuple):
        address, nbytes = memory
        return address, nbytes
    return piece_of(memory, "memory")


def ipc_export(
    memory: Any,
    *,
    hold: float | None = None,
    hold_imports: int = 0,
    channels: int = 0,
    fence_bytes: int = 0,
    stream: Any = None,
) -> bytes:
    """A token by which any process of this user on this machine can map a piece of memory.

    [local] [stream] ``Array.export_token()`` has the details.

    Args:
        memory: a `Buffer`, an array of symm's or of any package in such a buffer, or a tuple
            (address, number of bytes). On CUDA it may lie in any memory that the driver can
            export, such as that of PyTorch's allocator.
        hold: seconds for which the memory is kept for this token.
        hold_imports: the number of imports after which it is not kept any longer.
        channels: the number of words by which those who import the token signal this process.
        fence_bytes: the size of a part that `ipc_fence()` can close by itself.
        stream: work that was issued on this stream before is visible after the import.
    """
    return _view.export(*_piece(memory), hold, hold_imports, channels, fence_bytes, stream)


def ipc_wait_value(
    token: bytes, compare: int, value: int, channel: int = 0, *, timeout: float | None = None
) -> int:
    """Wait until a word of a token of this process compares with `value`, and return the word.

    [local] [blocking, timeout] The word stays as it is.

    Args:
        token: made with channels. Give each writer a token of its own, so that an error names the
            one that was awaited.
        compare: a `symm.Compare`, with the word on its left.
        value: its right side.
        channel: which of the token's words.
        timeout: seconds; None: $SYMM_TIMEOUT_MS, else 60; 0: only look.

    Raises:
        symm.TimeoutError: it did not compare so; names who has imported the token.
        PeerFailedError: a process that had imported the token died, and none is left that has.
        InvalidHandleError: the memory was released or withdrawn, also during the wait.
        InvalidArgumentError: this is no token of this process with such a channel.
    """
    seen = raw.symm_ipc_wait_value(
        bytes(token), channel, int(compare), value, within(timeout), True, 0
    )
    assert seen is not None  # it was asked for
    return seen


def ipc_fence(memory: Any, epoch: int, timeout: float | None = None) -> None:
    """Keep late puts off a piece of memory. [local] [blocking, timeout]

    When the call returns, no put of an epoch below `epoch` stores there any more, and no signal of
    such a put comes: a request that was given up gives its pages back.

    Args:
        memory: the piece, as for `ipc_export()`: whole parts (`fence_bytes`) of the tokens with
            channels that name some of it.
        epoch: the lowest that may still land.
        timeout: seconds for puts that are under way; None: $SYMM_TIMEOUT_MS, else 60; 0: only look.

    Raises:
        symm.TimeoutError: a put is not over; names its process. The fence stands all the same.
        PeerFailedError: a process is gone in the middle of a put, and its death cannot be
            confirmed. Do not use the memory again.
        InvalidArgumentError: the memory is not this process's to export, or has some bytes only of
            a part.
    """
    raw.symm_ipc_fence(*_piece(memory), epoch, within(timeout), 0)


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
