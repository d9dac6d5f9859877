"""symm and the memory of CuPy."""

from __future__ import annotations

from symm.ipc import ipc_collect

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def collecting(allocator: Callable[[int], Any] | None = None) -> Callable[[int], Any]:
    """Make an allocator that has symm give memory back when CuPy is short of it.

    When an allocation fails, memory that importers have let go of, and that symm kept for the
    next import, goes back to the driver (`symm.ipc_collect()`), and the allocation is tried once
    more. ::

        cupy.cuda.set_allocator(symm.cupy.collecting())

    Args:
        allocator: the allocator to wrap; None: that of CuPy's default pool.
    """
    import cupy

    allocate = cupy.get_default_memory_pool().malloc if allocator is None else allocator

    def malloc(nbytes: int) -> Any:
        try:
            return allocate(nbytes)
        except cupy.cuda.memory.OutOfMemoryError:
            ipc_collect()
            return allocate(nbytes)

    return malloc
