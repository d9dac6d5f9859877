# SPDX-License-Identifier: Apache-2.0
"""The one thing that this package asks of the CUDA driver itself: that one stream waits for another."""

from __future__ import annotations

import ctypes
import functools

from symm.errors import CudaError

_DISABLE_TIMING = 2


@functools.lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL:
    # It is loaded already: there is a CUDA group.
    return ctypes.CDLL("libcuda.so.1")


def _check(result: int, call: str) -> None:
    if result:
        raise CudaError(f"{call}: error {result}")


def let_wait(stream: int, other: int) -> None:
    """Let what is issued on `stream` from now on wait for what was issued on `other`. Works under stream capture too.

    Both are CUstream handles of the current context; 0 is the legacy default stream.
    """
    if stream == other:
        return
    driver = _driver()
    event = ctypes.c_void_p()
    _check(driver.cuEventCreate(ctypes.byref(event), _DISABLE_TIMING), "cuEventCreate")
    try:
        _check(driver.cuEventRecord(event, ctypes.c_void_p(other)), "cuEventRecord")
        _check(driver.cuStreamWaitEvent(ctypes.c_void_p(stream), event, 0), "cuStreamWaitEvent")
    finally:
        driver.cuEventDestroy_v2(event)
