"""Handles of the library and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Owned:
    """Owns one reference to a handle. Releasing is local, never waits and never fails, so a finalizer may do it.

    A closed object keeps working as far as it can: calls on it raise `InvalidHandleError`.
    """

    _handle: int = 0  # of a closed object; NULL to the library
    _release: Callable[[int], None]

    def __init__(self, handle: int, release: Callable[[int], None]) -> None:
        self._handle = handle
        self._release = release

    def close(self) -> None:
        """Let go of it now instead of when Python does. [local] Never waits. More than once is allowed.

        Do not close an object while another thread is inside a call on it; ``Group.abort()`` ends such a call.
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
