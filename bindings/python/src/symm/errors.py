"""One exception class for each status of the library.

If Python has an exception of the same meaning, the class derives from it, too. For instance,
``except TimeoutError`` catches a `symm.TimeoutError`.
"""

from __future__ import annotations

import builtins

from symm import _generated
from symm._library import raw
from symm.enums import Status


class Failure(_generated.Failure):
    """Everything that is known of one failure, for instance why a group was revoked.

    `SymmError` has these facts of one call, with None where nothing is known.
    """

    @property
    def ok(self) -> bool:
        """Whether there was no failure."""
        return self.status == Status.OK


class SymmError(Exception):
    """A call failed. The text of the exception is the library's message.

    Attributes:
        status: the status of the call.
        rank: the rank to blame, by its number in the group of the call; None: no rank in
            particular.
        pid: the process id of that rank, on its own machine; None: not known.
        os_error: errno of the system call that failed on that rank; None: no system call
            failed.
        cuda_result: CUresult of the driver call that failed on that rank; None: no driver call
            failed.
    """

    status: Status = Status.INTERNAL
    rank: int | None = None
    pid: int | None = None
    os_error: int | None = None
    cuda_result: int | None = None

    def __init_subclass__(cls, *, status: Status | None = None) -> None:
        cls.status = cls.status if status is None else status


class InvalidArgumentError(SymmError, ValueError, status=Status.INVALID_ARGUMENT):
    """An argument is out of range or does not fit the others; the message names it."""


class InvalidHandleError(SymmError, ValueError, status=Status.INVALID_HANDLE):
    """The object was closed, its group was finalized, or it belongs to the parent process."""


class OutOfMemoryError(SymmError, MemoryError, status=Status.OUT_OF_MEMORY):
    """Host or device memory, or a limit on it, is exhausted."""


class UnavailableError(SymmError, status=Status.UNAVAILABLE):
    """There is no such device, driver, launcher or feature on this machine."""


class UnsupportedError(SymmError, NotImplementedError, status=Status.UNSUPPORTED):
    """This library does not do that."""


class TimeoutError(SymmError, builtins.TimeoutError, status=Status.TIMEOUT):  # noqa: A001
    """A deadline passed; the message names the rank that was awaited."""


class AbortedError(SymmError, status=Status.ABORTED):
    """``Group.abort()`` was called, here or on another rank."""


class PeerFailedError(SymmError, ConnectionError, status=Status.PEER_FAILED):
    """A rank died or left; the message gives its rank and process id."""


class MismatchError(SymmError, ValueError, status=Status.MISMATCH):
    """Ranks disagree on a size, an operation, a data type or a count."""


class SystemCallError(SymmError, status=Status.SYSTEM):
    """A system call failed; the message names it and its errno."""


class CudaError(SymmError, status=Status.CUDA):
    """A call of the CUDA driver failed; the message names it and its result."""


class NotFoundError(SymmError, LookupError, status=Status.NOT_FOUND):
    """A look-up found nothing. Functions of this package return None instead."""


class InternalError(SymmError, status=Status.INTERNAL):
    """A defect of the library."""


# What C calls otherwise. Python has no structs of options, only their fields as parameters.
_IN_PYTHON = {
    r"^call\.": "",
    r"\b(?:config|options)\.(?=[a-z])": "",
    r"\b((?:create_|group_)?timeout)_ms: SYMM_TIMEOUT_NOW": r"\1: 0",
    r"\b((?:create_|group_)?timeout|hold)_ms\b": r"\1",
    r"\bnuma_node\b": "node",
    r"\bSYMM_TIMEOUT_NOW\b": "a timeout of 0",
    r"\bSYMM_ALLOC_ON_NODE\b": "node",
    r"\bSYMM_ALLOC_HOST\b": "host=True",
    r"\bSYMM_IPC_NO_HOLD\b": "hold=0",
}


def _in_python(message: str) -> str:
    """The message of the library in the words of this package."""
    import re  # here, since most programs have no errors

    for words, own in _IN_PYTHON.items():
        message = re.sub(words, own, message)
    return message


_classes = {kind.status: kind for kind in SymmError.__subclasses__()}


def error_of(failure: _generated.Failure) -> SymmError:
    """The exception for a failure; a plain `SymmError` for a status of a newer library."""
    name = raw.symm_status_string(failure.status)
    message = failure.message
    if failure.status != Status.ABORTED:  # that has the words of the caller who aborted
        message = _in_python(message)
    if failure.status == Status.INVALID_HANDLE:
        message = message.replace(": is NULL", ": it was closed")

    if failure.status in _classes:
        error = _classes[failure.status](message or name)
    else:
        error = SymmError(f"{name} ({failure.status:d}): {message}")
        error.status = failure.status

    error.rank = failure.rank if failure.rank >= 0 else None
    error.pid = failure.pid or None
    error.os_error = failure.os_error or None
    error.cuda_result = failure.cuda_result or None
    return error


raw.set_error_factory(lambda failure: error_of(Failure.read(failure)))
