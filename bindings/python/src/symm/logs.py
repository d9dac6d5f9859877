"""The library's log messages, into the standard package logging.

The library writes them to a pipe, from which a daemon thread of Python's reads: no
Python code runs on threads of the library.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading

from symm._library import raw

_levels = {
    "error": (logging.ERROR, raw.SYMM_LOG_ERROR),
    "warning": (logging.WARNING, raw.SYMM_LOG_WARNING),
    "info": (logging.INFO, raw.SYMM_LOG_INFO),
    "debug": (logging.DEBUG, raw.SYMM_LOG_DEBUG),
}

_lock = threading.Lock()
_listener: int | None = None


def log_to(logger: logging.Logger | str | None = "symm", level: int = logging.WARNING) -> None:
    """Send messages of at least `level` of the whole process to `logger`; None stops them. [local]

    Messages that come faster than they are read are lost. A forked child has to ask again.

    Args:
        logger: a logger, its name, or None.
        level: of the package logging; what is finer than DEBUG is not there.
    """
    global _listener
    with _lock:
        if _listener is not None:
            raw.symm_log_remove_listener(_listener)
            _listener = None
        if logger is not None:
            _listener = _start(
                logging.getLogger(logger) if isinstance(logger, str) else logger, level
            )


def _start(logger: logging.Logger, level: int) -> int:
    finest = max(
        (number for name, number in _levels.values() if name >= level), default=raw.SYMM_LOG_ERROR
    )
    read_end, write_end = os.pipe()
    threading.Thread(target=_read, args=(read_end, logger), name="symm-log", daemon=True).start()
    try:
        return raw.symm_log_to_fd(write_end, finest)
    finally:
        os.close(write_end)  # the library has its own; the reader ends with it


def _read(read_end: int, logger: logging.Logger) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            name, _, message = line.rstrip("\n").partition(": ")
            logger.log(_levels.get(name, (logging.ERROR, 0))[0], "%s", message)


def _after_fork() -> None:
    # The reader and the listener stayed in the parent.
    global _lock, _listener
    _lock = threading.Lock()
    _listener = None


os.register_at_fork(after_in_child=_after_fork)
atexit.register(log_to, None)
