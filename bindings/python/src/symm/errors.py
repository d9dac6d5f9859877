# SPDX-License-Identifier: Apache-2.0
"""One exception class for each status, with the library's message.

Where Python has an exception for the same thing, the class is one of those too: ``except TimeoutError`` catches a deadline.
"""

from __future__ import annotations

import re

from symm._library import raw
from symm.enums import Status

_named_rank = re.compile(r"\brank (\d+)\b")


class SymmError(Exception):
    """A call failed.

    Attributes:
        status: why, a `Status` (a plain integer if the library is newer than this package).
        rank: the rank to blame, where a deadline passed, a rank died or left, or somebody aborted and the message names it;
            else None. ``Group.status()`` says who made a group fail, whatever the reason.
    """

    status: Status | int = Status.INTERNAL

    def __init__(self, message: str, status: Status | int | None = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status
        found = _named_rank.search(message) if self.status in _BLAMING else None
        self.rank: int | None = int(found[1]) if found else None


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


_BLAMING = frozenset({Status.TIMEOUT, Status.ABORTED, Status.PEER_FAILED})

_classes: dict[int, type[SymmError]] = {
    int(kind.status): kind
    for kind in (
        InvalidArgumentError,
        InvalidHandleError,
        OutOfMemoryError,
        UnavailableError,
        UnsupportedError,
        DeadlineError,
        AbortedError,
        PeerFailedError,
        MismatchError,
        SystemCallError,
        CudaError,
        BusyError,
        InternalError,
    )
}


def error_of(status: int, message: str) -> SymmError:
    """The exception for a status; a `SymmError` with the bare number for one of a newer library."""
    kind = _classes.get(status)
    if kind is None:
        return SymmError(f"{raw.symm_status_string(status)} ({status}): {message}", status)
    return kind(message or raw.symm_status_string(status))


raw.set_error_factory(error_of)
