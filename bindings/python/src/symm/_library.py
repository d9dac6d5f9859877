"""Loading of libsymm and of the extension over it, and ownership of the library's handles.

The library is the one in lib/ beside this file, unless SYMM_LIB names another. The extension
needs libsymm.so.0, and the dynamic linker takes an already loaded library of that SONAME. So
the library that SYMM_LIB names is loaded first.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

_override = os.environ.get("SYMM_LIB")
if _override:
    import ctypes

    ctypes.CDLL(_override)

from symm import _raw as raw  # noqa: E402 - only after the library has been chosen

__all__ = ["BUILT_FOR", "Closing", "Owned", "raw", "version"]

BUILT_FOR: int = raw.SYMM_VERSION


def _text(version: int) -> str:
    return f"{version >> 24}.{version >> 12 & 0xFFF}.{version & 0xFFF}"


def version() -> str:
    """The version of the loaded library, for instance ``"0.2.0"``. [local]"""
    return _text(raw.symm_version())


# Within a major version, and so within a SONAME, the ABI only grows.
_loaded = raw.symm_version()
if _loaded >> 24 != BUILT_FOR >> 24 or _loaded >> 12 < BUILT_FOR >> 12:
    raise ImportError(
        f"libsymm is version {_text(_loaded)}, this package was built for {_text(BUILT_FOR)}"
    )


class Closing:
    """A context manager that calls `close()` at its end."""

    def close(self) -> None:
        """Release what the object holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Owned:
    """The owner of one reference to a handle of the library.

    Releasing a handle is local, never waits and never fails, so a finalizer may do it. Calls
    on a closed object raise `InvalidHandleError`.
    """

    _handle: int = 0  # what a closed object has: NULL to the library
    _release: Callable[[int], None]

    def __init__(self, handle: int, release: Callable[[int], None]) -> None:
        self._handle = handle
        self._release = release

    def close(self) -> None:
        """Release the handle now instead of when Python frees the object. [local]

        Never waits. Calling it more than once is allowed. Do not close an object while another
        thread is inside a call on it; ``Group.abort()`` ends such a call.
        """
        # pop() is one step, so only one of two threads that close the object releases.
        handle = self.__dict__.pop("_handle", 0)
        if handle:
            self._release(handle)

    @property
    def closed(self) -> bool:
        """Whether the object was closed."""
        return not self._handle

    def __del__(self) -> None:
        self.close()

    # A copy would release the handle a second time, and a handle means nothing in another process.
    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled")
