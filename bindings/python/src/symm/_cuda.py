# SPDX-License-Identifier: Apache-2.0
"""The one thing that this package asks of the CUDA driver itself: that one stream waits for another."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import TYPE_CHECKING

from symm.errors import CudaError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DISABLE_TIMING = 2


@functools.lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL:
    # It is loaded already: there is a CUDA group.
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: object) -> None:
    result = getattr(_driver(), name)(*arguments)
    if result:
        raise CudaError(f"{name}: error {result}")


@functools.cache
def _primary_context(device: int) -> ctypes.c_void_p:
    # Kept for the life of the process, as the library and the frameworks keep theirs of the same context.
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuDeviceGet", ctypes.byref(handle), device)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context


@contextlib.contextmanager
def _current(device: int) -> Iterator[None]:
    """The primary context, which not every thread of every framework has made current."""
    _call("cuCtxPushCurrent_v2", _primary_context(device))
    try:
        yield
    finally:
        _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def let_wait(device: int, stream: int, other: int) -> None:
    """Let what is issued on `stream` from now on wait for what was issued on `other`. Works under stream capture too.

    Both are CUstream handles of `device`; 1 is the legacy default stream.
    """
    if stream == other:
        return
    event = ctypes.c_void_p()
    with _current(device):
        _call("cuEventCreate", ctypes.byref(event), _DISABLE_TIMING)
        try:
            _call("cuEventRecord", event, ctypes.c_void_p(other))
            _call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
        finally:
            _driver().cuEventDestroy_v2(event)
