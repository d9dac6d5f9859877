"""Streams and time-outs as callers give them, and as the library wants them."""

from __future__ import annotations

import math
import sys
from typing import Any

from symm.errors import InvalidArgumentError

INFINITE = 2**64 - 1
ALL_STREAMS = 2**64 - 1
NOW = 2**64 - 2


def milliseconds(seconds: float | None) -> int:
    """A time-out for the library: None is the default,
    ``math.inf`` for ever, 0 looks once, else at least 1 ms.
    """
    if seconds is None:
        return 0
    if not seconds >= 0:
        raise InvalidArgumentError(f"timeout: {seconds} is not a number of seconds")
    if seconds == 0:
        return NOW
    if math.isinf(seconds):
        return INFINITE
    return max(1, math.ceil(seconds * 1000))


def within(seconds: float | None) -> tuple[int] | None:
    """The options of a call that waits so long."""
    return None if seconds is None else (milliseconds(seconds),)


def handle_of(stream: Any) -> int:
    """The CUstream of a stream: an integer, or a stream object of PyTorch, CuPy or
    anything with ``__cuda_stream__()``.
    """
    if isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    raise TypeError(
        f"stream: {stream!r} is neither an integer nor a stream of PyTorch or CuPy, nor has it __cuda_stream__()"
    )


def current_of(array: Any) -> int | None:
    """The stream on which the framework of `array` works now; None if it has no such notion."""
    framework = type(array).__module__.partition(".")[0]
    if framework == "torch":
        if array.device.type != "cuda":
            return None  # a mistake, which the operand's check names
        return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream)
    if framework == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return None


def current_on(device: int) -> int | None:
    """The stream on which this thread's framework works now; None if there is none.

    Of PyTorch and CuPy, if both are used, the one that has
    been told to work on another than its default stream.
    """
    found = None
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found = int(torch.cuda.current_stream(device).cuda_stream)
    cupy = sys.modules.get("cupy")
    if not found and cupy is not None:
        found = int(cupy.cuda.get_current_stream().ptr) or found
    return found
