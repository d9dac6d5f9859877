"""Loads libsymm and the extension over it, and owns the handles that it gives.

The library is the one in lib/ beside this file, unless SYMM_LIB
names another: the extension asks for libsymm.so.0, and the dynamic
linker answers with a library of that SONAME that is loaded already.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

_override = os.environ.get("SYMM_LIB")
if _override:
    ctypes.CDLL(_override)

from symm import _raw as raw  # noqa: E402 - not before the library is chosen

__all__ = ["BUILT_FOR", "Closing", "Owned", "raw", "version"]

BUILT_FOR: int = raw.SYMM_VERSION


def _text(version: int) -> str:
    return f"{version >> 16}.{version >> 8 & 0xFF}.{version & 0xFF}"


def version() -> str:
    """Version of the loaded library, for instance ``"0.2.0"``. [local]"""
    return _text(raw.symm_version())


# The ABI only ever grows within a major version (and its soname).
_loaded = raw.symm_version()
if _loaded >> 16 != BUILT_FOR >> 16 or _loaded >> 8 < BUILT_FOR >> 8:
    raise ImportError(
        f"libsymm is version {_text(_loaded)}, this package was built for {_text(BUILT_FOR)}"
    )


class Closing:
    """A context manager that ends by `close()`."""

    def close(self) -> None:
        """Let go of it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Owned:
    """Owns one reference to a handle. Releasing is local,
    never waits and never fails, so a finalizer may do it.

    A closed object keeps working as far as it can: calls on it raise `InvalidHandleError`.
    """

    _handle: int = 0  # of a closed object; NULL to the library
    _release: Callable[[int], None]

    def __init__(self, handle: int, release: Callable[[int], None]) -> None:
        self._handle = handle
        self._release = release

    def close(self) -> None:
        """Let go of it now instead of when Python does.
        [local] Never waits. More than once is allowed.

        Do not close an object while another thread is inside a call on it;
        ``Group.abort()`` ends such a call.
        """
        # One step, so that of two threads only one releases.
        handle = self.__dict__.pop("_handle", 0)
        if handle:
            self._release(handle)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._handle

    def __del__(self) -> None:
        self.close()

    # A copy would release the handle a second time, another process has another heap.
    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled")
