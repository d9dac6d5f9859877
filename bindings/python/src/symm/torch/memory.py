"""Memory that PyTorch and symm give back to each other.

PyTorch has no hook of Python by which a failed allocation is tried again: its allocator calls
observers when it has given up, just before it raises ``torch.OutOfMemoryError``. So
`collect_on_oom()` makes the memory free at that moment, for whoever tries again, and
`retry_on_oom()` tries again.
"""

from __future__ import annotations

import torch

from symm.enums import Backend
from symm.errors import UnavailableError
from symm.ipc import ipc_collect
from symm.pressure import MemoryPressureListener, on_memory_pressure

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_is_attached = False


def collect_on_oom() -> None:
    """Have PyTorch's allocator tell symm when a device is out of memory. [local]

    symm then gives the driver what importers have let go of and what it kept for the next import
    (`symm.ipc_collect()`). The allocation that failed still raises ``torch.OutOfMemoryError``:
    PyTorch tells its observers after its last attempt. An attempt after that, by the program or
    by `retry_on_oom()`, has the memory. PyTorch cannot detach an observer; a second call of this
    function does nothing.

    Raises:
        UnavailableError: this PyTorch was built without CUDA, or finds no GPU.
    """
    global _is_attached
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is None:
        raise UnavailableError("this PyTorch has no observers of memory: it was built without CUDA")
    if not torch.cuda.is_available():
        raise UnavailableError("PyTorch finds no GPU, whose memory its observers tell of")
    if not _is_attached:
        attach(lambda *_: ipc_collect())
        _is_attached = True


def retry_on_oom(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function, and once more if PyTorch is out of memory. [local]

    In between symm gives the driver what nobody uses, and PyTorch what its cache holds. The
    function must bear to be called again. ::

        batch = symm.torch.retry_on_oom(torch.empty, (1 << 30,), device="cuda")

    Returns:
        What the function returns.
    """
    try:
        return function(*arguments, **options)
    except torch.OutOfMemoryError:
        pass
    # Outside of the handler: the exception keeps the frames alive, and with them their tensors.
    ipc_collect()
    torch.cuda.empty_cache()
    return function(*arguments, **options)


def lend_cache() -> MemoryPressureListener:
    """Have PyTorch empty its cache of a device when symm is short of memory there. [local]

    Returns:
        The listener; its ``close()`` ends this.
    """

    def empty(backend: Backend, device: int, _nbytes: int) -> int:
        if backend != Backend.CUDA:
            return 0
        before = torch.cuda.memory_reserved(device)
        torch.cuda.empty_cache()
        return max(int(before - torch.cuda.memory_reserved(device)), 0)

    return on_memory_pressure(empty)
