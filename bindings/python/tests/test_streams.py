"""Streams and device memory, as far as they can be tested without a GPU.

test_gpu.py has the rest.
"""

import math
import sys
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import symm
from symm import _streams
from symm._view import Array


class OnGpu(Array):
    """An array on CUDA device 3 that remembers which streams were made to wait for its work."""

    def __init__(self, shape=(2, 3), dtype=symm.f32):
        super().__init__(0x7F0000000000, shape, dtype, (2, 3))
        self.waiting = []

    def _order(self, stream):
        self.waiting.append(stream)

    def _derive(self, offset, shape, dtype):
        return OnGpu(shape, dtype)


@pytest.mark.parametrize(
    ("consumer", "expected"), [(None, [1]), (1, [1]), (2, [2]), (77, [77]), (-1, [])]
)
def test_dlpack_orders_the_consumer_after_our_calls(consumer, expected):
    array = OnGpu()
    capsule = array.__dlpack__(stream=consumer, max_version=(1, 0))
    found = symm._raw.dlpack_read(capsule)
    assert found == (array.pointer, 6, symm.f32.value, 2, 3, True, True, (2, 3))
    assert array.waiting == expected


def test_the_cuda_array_interface_orders_the_legacy_default_stream():
    array = OnGpu()
    assert array.__cuda_array_interface__ == {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (0x7F0000000000, False),
        "version": 3,
        "stream": 1,
    }
    assert array.waiting == [1]
    assert not hasattr(OnGpu(dtype=symm.bf16), "__cuda_array_interface__")


NOTED = ("stream_wait", "stream_query", "memory_record_use", "memory_release", "group_release")


def test_arrays_are_ordered_and_released_by_calls_of_the_library(alone, monkeypatch):
    array = alone.empty(4, "f32")
    memory = array.memory._handle
    group = array._mapping.group
    calls = []

    def note(name):
        return lambda *arguments: calls.append((name, *arguments))

    for name in NOTED:
        monkeypatch.setattr(symm._raw, f"symm_{name}", note(name))
    bound = symm.memory._end.__kwdefaults__  # what finalizers call
    monkeypatch.setitem(bound, "release_memory", note("memory_release"))
    monkeypatch.setitem(bound, "release_group", note("group_release"))
    monkeypatch.setattr("symm.memory.current_on", lambda device: 70 + device)

    array._order(5)
    array.record_use(6)
    del array
    symm.memory._end(group, 3, memory)
    assert calls == [
        ("stream_wait", group, 5, 2**64 - 1, None),
        ("memory_record_use", memory, None, 6),
        ("memory_release", memory),
        ("group_release", group),
        ("stream_query", group, 73, None),
        ("memory_release", memory),
        ("group_release", group),
    ]

    # Now the library releases them, too.
    monkeypatch.undo()
    symm._raw.symm_memory_release(memory)
    symm._raw.symm_group_release(group)


def test_calls_about_streams_do_nothing_on_the_host(alone):
    alone.synchronize()
    alone.stream_wait(None, None)
    assert alone.stream_done()
    array = alone.empty(4)
    array.record_use()
    imported = symm.import_token(array.export_token())
    imported.record_use()
    imported.record_use(0)
    imported._order(0)


def test_the_host_cannot_look_into_device_memory():
    array = OnGpu()
    with pytest.raises(BufferError, match="device memory"):
        memoryview(array)
    with pytest.raises((TypeError, BufferError), match="device memory"):
        array.numpy()
    assert not hasattr(array, "__array_interface__")


@pytest.mark.parametrize("array", [OnGpu(), OnGpu().view("u8")], ids=["f32", "u8"])
def test_a_host_group_refuses_a_device_array(alone, array):
    with pytest.raises(symm.InvalidArgumentError, match="lies on a device"):
        alone.allreduce(array)
    with pytest.raises(symm.InvalidArgumentError, match="lies on a device"):
        alone.allreduce(np.ones(6, np.float32), array)


class WithProtocol:
    """A stream of a package that has __cuda_stream__()."""

    def __cuda_stream__(self):
        return (0, 9)


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (7, 7),
        (SimpleNamespace(cuda_stream=7), 7),
        (SimpleNamespace(ptr=7), 7),
        (WithProtocol(), 9),
    ],
    ids=["integer", "PyTorch", "CuPy", "protocol"],
)
def test_a_stream_of_any_package_is_understood(stream, handle):
    assert _streams.handle_of(stream) == handle


def test_what_is_no_stream_is_a_type_error():
    with pytest.raises(TypeError, match="stream"):
        _streams.handle_of(SimpleNamespace(ptr="7"))


def framework(stream):
    """A stand-in for PyTorch and CuPy; the current stream of a device is `stream(device)`."""
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_stream=lambda device: SimpleNamespace(cuda_stream=stream(device)),
        get_current_stream=lambda: SimpleNamespace(ptr=stream(0)),
    )
    return SimpleNamespace(cuda=cuda)


def test_the_current_stream_of_an_array_is_that_of_its_framework(monkeypatch):
    class Tensor:
        device = SimpleNamespace(type="cuda")

    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", framework(lambda device: {"cuda": 5}[device.type]))
    assert _streams.current_of(Tensor()) == 5
    assert _streams.current_of(np.ones(3)) is None
    assert _streams.current_of(OnGpu()) is None
    Tensor.device.type = "cpu"  # the operand's check refuses it in a CUDA group
    assert _streams.current_of(Tensor()) is None


def test_the_current_stream_of_a_thread_is_that_of_the_framework_in_use(monkeypatch):
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert _streams.current_on(3) is None
    monkeypatch.setitem(sys.modules, "cupy", framework(lambda _: 9))
    assert _streams.current_on(3) == 9
    monkeypatch.setitem(sys.modules, "torch", framework(lambda device: 50 + device))
    assert _streams.current_on(3) == 53
    monkeypatch.setitem(sys.modules, "torch", framework(lambda _: 0))
    assert _streams.current_on(3) == 9, "PyTorch works on its default stream"
    monkeypatch.setitem(sys.modules, "cupy", framework(lambda _: 0))
    assert _streams.current_on(3) == 0


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(None, 0), (0, 2**64 - 2), (0.0001, 1), (1.5, 1500), (math.inf, 2**64 - 1)],
)
def test_seconds_become_milliseconds_or_what_the_library_has_for_them(seconds, milliseconds):
    assert _streams.milliseconds(seconds) == milliseconds


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *((given, _streams.INFINITE) for given in (math.inf, 1e30, 1e306, 1.8e16, 10**400)),
        *((given, _streams.INFINITE) for given in (Decimal("1e400"), np.float32(1e38))),
        *((given, 70_000) for given in (70, np.float16(70), np.int8(70), Fraction(70))),
        *((given, 1) for given in (1e-30, 5e-324, Fraction(1, 10**400), Decimal("1e-400"))),
        (1.7e16, 17 * 10**18),
        (0, _streams.NOW),
        (None, 0),
    ],
)
def test_times_of_any_type_and_length_have_milliseconds(seconds, expected):
    assert _streams.milliseconds(seconds) == expected
