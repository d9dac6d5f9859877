# SPDX-License-Identifier: Apache-2.0
"""The library's log messages, into the standard package logging.

The library writes them to a pipe, from which a daemon thread of Python's reads: no Python code runs on threads of the library.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading

from symm._library import raw

_levels = {
    raw.SYMM_LOG_ERROR: logging.ERROR,
    raw.SYMM_LOG_WARNING: logging.WARNING,
    raw.SYMM_LOG_INFO: logging.INFO,
    raw.SYMM_LOG_DEBUG: logging.DEBUG,
}

_lock = threading.Lock()
_write_end: int | None = None


def log_to(logger: logging.Logger | str | None = "symm", level: int = logging.WARNING) -> None:
    """Send messages of at least `level` of the whole process to `logger`; None stops them. [local]

    Messages that come faster than they are read are lost. A forked child has to ask again.

    Args:
        logger: a logger, its name, or None.
        level: of the package logging; what is finer than DEBUG is not there.
    """
    with _lock:
        _stop()
        if logger is not None:
            _start(logging.getLogger(logger) if isinstance(logger, str) else logger, level)


def _start(logger: logging.Logger, level: int) -> None:
    global _write_end
    finest = max((number for number, name in _levels.items() if name >= level), default=raw.SYMM_LOG_ERROR)
    read_end, _write_end = os.pipe()
    os.set_blocking(_write_end, False)
    threading.Thread(target=_read, args=(read_end, logger), name="symm-log", daemon=True).start()
    raw.symm_set_log_callback(_write_end, finest)


def _stop() -> None:
    global _write_end
    if _write_end is None:
        return
    # When the call returns, nobody writes any more; closing the pipe then ends the reader.
    raw.symm_set_log_callback(-1, raw.SYMM_LOG_ERROR)
    os.close(_write_end)
    _write_end = None


def _read(read_end: int, logger: logging.Logger) -> None:
    with os.fdopen(read_end, "rb") as records:
        for record in records:
            level = _levels.get(record[0] - ord("0"), logging.ERROR)
            logger.log(level, "%s", record[1:].decode("utf-8", "replace").rstrip("\n"))


def _after_fork() -> None:
    # The reader stayed in the parent, and the pipe is the parent's.
    global _lock, _write_end
    _lock = threading.Lock()
    if _write_end is not None:
        os.close(_write_end)
        _write_end = None


os.register_at_fork(after_in_child=_after_fork)
atexit.register(log_to, None)
