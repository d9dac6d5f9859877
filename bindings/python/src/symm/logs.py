"""The library's log messages as records of the standard package logging.

The library writes the messages to a pipe, and a daemon thread of Python reads them. So no
Python code runs on threads of the library.
"""

from __future__ import annotations

import atexit
import os
from _thread import allocate_lock

from symm._library import raw

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    import logging

# The levels of the package logging, which is imported by those who use it.
_WARNING = 30
_levels = {
    "error": (40, raw.SYMM_LOG_ERROR),
    "warning": (_WARNING, raw.SYMM_LOG_WARNING),
    "info": (20, raw.SYMM_LOG_INFO),
    "debug": (10, raw.SYMM_LOG_DEBUG),
}

_lock = allocate_lock()
_listener: int | None = None


def log_to(logger: logging.Logger | str | None = "symm", level: int = _WARNING) -> None:
    """Send the messages of the whole process of at least `level` to `logger`. [local]

    Messages that come faster than they are read are lost. A forked child must call this again.

    Args:
        logger: a logger, or its name; None: stop the messages.
        level: a level of the package logging. There are no messages finer than DEBUG.
    """
    global _listener
    with _lock:
        if _listener is not None:
            raw.symm_log_remove_listener(_listener)
            _listener = None
        if isinstance(logger, str):
            import logging

            logger = logging.getLogger(logger)
        if logger is not None:
            _listener = _start(logger, level)


def _start(logger: logging.Logger, level: int) -> int:
    wanted = [symm_level for python_level, symm_level in _levels.values() if python_level >= level]
    finest = max(wanted, default=raw.SYMM_LOG_ERROR)
    read_end, write_end = _pipe()
    import threading

    threading.Thread(target=_read, args=(read_end, logger), name="symm-log", daemon=True).start()
    try:
        return raw.symm_log_to_fd(write_end, finest)
    finally:
        os.close(write_end)  # the library has a duplicate; the reader ends when that is closed


def _pipe() -> list[int]:
    """The ends of a pipe, none with the number of a closed standard stream, not for a moment.

    Otherwise what another thread writes to the stream would become a message.
    """
    held: list[int] = []
    try:
        while not held or held[-1] <= 2:
            held.append(os.open("/", os.O_PATH))  # neither read nor written, as a closed stream
        return list(os.pipe())
    finally:
        for number in held:
            # The program may have opened its stream meanwhile.
            if os.path.sameopenfile(number, held[-1]):
                os.close(number)


def _read(read_end: int, logger: logging.Logger) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            name, _, message = line.rstrip("\n").partition(": ")
            logger.log(_levels.get(name, _levels["error"])[0], "%s", message)


def _after_fork() -> None:
    # The reader and the listener exist in the parent only.
    global _lock, _listener
    _lock = allocate_lock()
    _listener = None


os.register_at_fork(after_in_child=_after_fork)
atexit.register(log_to, None)
