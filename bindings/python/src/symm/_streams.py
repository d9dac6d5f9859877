"""Conversion of streams and time-outs from what callers give to what the library takes."""

from __future__ import annotations

import math
import sys

from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any

INFINITE = 2**64 - 1
ALL_STREAMS = 2**64 - 1
NOW = 2**64 - 2
# In seconds, 584 million years: a longer time has no number of milliseconds, and is `math.inf`.
LONGEST = 1.8e16


def milliseconds(seconds: float | None) -> int:
    """Convert a time-out in seconds to the library's milliseconds.

    None is the library's default, ``math.inf`` waits for ever, and 0 looks once without
    waiting. Any other time-out is rounded up to at least 1 ms.
    """
    if seconds is None:
        return 0
    if not seconds >= 0:
        raise InvalidArgumentError(f"timeout: {seconds} is not a number of seconds")
    if seconds == 0:
        return NOW
    try:
        # Other types of numbers, NumPy's float16 say, overflow when they are multiplied.
        wide = float(seconds)
    except OverflowError:
        return INFINITE
    return max(1, math.ceil(wide * 1000)) if wide < LONGEST else INFINITE


def seconds(milliseconds: int) -> float:
    """Convert a time-out of the library's to seconds; without an end it is ``math.inf``."""
    return math.inf if milliseconds == INFINITE else milliseconds / 1000


def within(seconds: float | None) -> tuple[int] | None:
    """The options of a call that waits for at most `seconds`, as `milliseconds()` has it."""
    return None if seconds is None else (milliseconds(seconds),)


def handle_of(stream: Any) -> int:
    """The CUstream of a stream.

    A stream is an integer, or a stream object of PyTorch, of CuPy or of any package that has
    ``__cuda_stream__()``.
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
        f"stream: {stream!r} is neither an integer nor a stream of PyTorch or CuPy, "
        "nor has it __cuda_stream__()"
    )


def current_of(array: Any) -> int | None:
    """The current stream of the framework of `array`; None if it has no current stream."""
    framework = type(array).__module__.partition(".")[0]
    if framework == "torch":
        if array.device.type != "cuda":
            return None  # a CPU tensor in a CUDA group; the operand's check refuses it
        return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream)
    if framework == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return None


def current_on(device: int) -> int | None:
    """The current stream of the framework that this thread uses on `device`; None if none is used.

    If both PyTorch and CuPy are used, the one counts whose current stream is not its default
    stream, PyTorch first.
    """
    current = None
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        current = int(torch.cuda.current_stream(device).cuda_stream)
    cupy = sys.modules.get("cupy")
    if not current and cupy is not None:
        current = int(cupy.cuda.get_current_stream().ptr) or current
    return current
