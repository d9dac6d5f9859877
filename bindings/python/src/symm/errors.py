# SPDX-License-Identifier: Apache-2.0
"""One exception class for each status, with the library's message.

Where Python has an exception for the same thing, the class is one of those too: ``except TimeoutError`` catches a deadline.
"""

from __future__ import annotations

from symm._generated import Failure
from symm._library import raw
from symm.enums import Status


class SymmError(Exception):
    """A call failed.

    Attributes:
        status: why.
        rank: the rank to blame, as numbered in the group of the call; None: nobody in particular.
        pid: its process, as its own machine numbers it; None: not known.
    """

    status: Status = Status.INTERNAL
    rank: int | None = None
    pid: int | None = None


class InvalidArgumentError(SymmError, ValueError):
    """An argument is out of range or does not fit the others; the message names it."""

    status = Status.INVALID_ARGUMENT


class InvalidHandleError(SymmError, ValueError):
    """The object was closed, its group was finalized, or it belongs to the parent of this process."""

    status = Status.INVALID_HANDLE


class OutOfMemoryError(SymmError, MemoryError):
    """Host or device memory, or a limit on it, is exhausted."""

    status = Status.OUT_OF_MEMORY


class UnavailableError(SymmError):
    """There is no such device, driver, launcher or feature on this machine."""

    status = Status.UNAVAILABLE


class UnsupportedError(SymmError, NotImplementedError):
    """This library does not do that."""

    status = Status.UNSUPPORTED


class DeadlineError(SymmError, TimeoutError):
    """A deadline passed; the message names who was awaited."""

    status = Status.TIMEOUT


class AbortedError(SymmError):
    """``Group.abort()`` was called, here or on another rank."""

    status = Status.ABORTED


class PeerFailedError(SymmError, ConnectionError):
    """A rank died or left; the message gives its rank and process id."""

    status = Status.PEER_FAILED


class MismatchError(SymmError, ValueError):
    """Ranks disagree on a size, an operation, a data type or a count."""

    status = Status.MISMATCH


class SystemCallError(SymmError):
    """A system call failed; the message names it and its errno."""

    status = Status.SYSTEM


class CudaError(SymmError):
    """A call of the CUDA driver failed; the message names it and its result."""

    status = Status.CUDA


class BusyError(SymmError):
    """The object is in use."""

    status = Status.BUSY


class InternalError(SymmError):
    """A defect of the library."""

    status = Status.INTERNAL


_classes = {kind.status: kind for kind in SymmError.__subclasses__()}


def error_of(failure: Failure) -> SymmError:
    """The exception for a failure; a plain `SymmError` for a status of a newer library."""
    name = raw.symm_status_string(failure.status)
    if failure.status in _classes:
        error = _classes[failure.status](failure.message or name)
    else:
        error = SymmError(f"{name} ({failure.status:d}): {failure.message}")
        error.status = failure.status
    error.rank = failure.rank if failure.rank >= 0 else None
    error.pid = failure.pid or None
    return error


raw.set_error_factory(lambda failure: error_of(Failure.read(failure)))
