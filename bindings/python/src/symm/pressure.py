"""Functions of the program that give memory back when symm is short of it."""

from __future__ import annotations

from symm._library import raw
from symm.enums import Backend

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class MemoryPressureListener:
    """A function that `on_memory_pressure()` has added.

    It is asked until `close()`, or the end of a ``with`` block.
    """

    def __init__(self, callback: Callable[[Backend, int, int], int | None]) -> None:
        def ask(backend: int, device: int, nbytes: int) -> int:
            return int(callback(Backend(backend), device, nbytes) or 0)

        self._callable = ask
        self._id: int | None = raw.pressure_add(ask)

    def close(self) -> None:
        """End the calls. When this returns, the function is not running on another thread."""
        number, self._id = self._id, None
        if number is not None:
            raw.pressure_remove(number, self._callable)

    def __enter__(self) -> MemoryPressureListener:
        """Return the listener itself."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close the listener."""
        self.close()


def on_memory_pressure(
    callback: Callable[[Backend, int, int], int | None],
) -> MemoryPressureListener:
    """Add a function that gives memory back when symm is short of it. [local]

    It is asked inside of calls that allocate, on their thread, when memory is short after symm
    has collected what nobody uses, and before the call fails. If it says that it gave something
    back, the allocation is tried again. ::

        def free_cache(backend, device, nbytes):
            before = torch.cuda.memory_reserved(device)
            torch.cuda.empty_cache()
            return before - torch.cuda.memory_reserved(device)

        listener = symm.on_memory_pressure(free_cache)

    An exception of the function is printed, and counts as 0.

    Args:
        callback: is given the back end, the device and the bytes that are wanted; returns the
            bytes that it gave back, 0 or None if none.
    """
    return MemoryPressureListener(callback)
