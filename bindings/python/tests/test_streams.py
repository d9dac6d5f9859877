"""What is different with CUDA, as far as it can be seen
without a GPU. tests/test_gpu.py is about the rest.
"""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import symm
from symm import _streams
from symm._view import View


class OnGpu(View):
    """An array on CUDA device 3 that remembers which
    streams were made to wait for what was issued on it.
    """

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
    assert symm._raw.dlpack_read(capsule) == (
        array.pointer,
        6,
        symm.f32.value,
        2,
        3,
        True,
        True,
        (2, 3),
    )
    assert array.waiting == expected


def test_cuda_array_interface():
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


def test_arrays_order_and_release_by_the_library(alone, monkeypatch):
    array = alone.empty(4, "f32")
    memory, group = array.memory._handle, array._mapping.group
    calls = []
    for name in (
        "stream_wait",
        "stream_query",
        "memory_record_use",
        "memory_release",
        "group_release",
    ):
        monkeypatch.setattr(
            symm._raw,
            f"symm_{name}",
            lambda *arguments, name=name: calls.append((name, *arguments)),
        )
    monkeypatch.setattr("symm.memory.current_on", lambda device: 70 + device)
    array._order(5)
    array.record_use(6)
    del array
    symm.memory._end(group, 3, memory)
    assert calls == [
        ("stream_wait", group, 5, 2**64 - 1),
        ("memory_record_use", memory, 6),
        ("memory_release", memory),
        ("group_release", group),
        ("stream_query", group, 73),
        ("memory_release", memory),
        ("group_release", group),
    ]
    monkeypatch.undo()
    symm._raw.symm_memory_release(memory)
    symm._raw.symm_group_release(group)


def test_groups_know_streams(alone):
    alone.synchronize()
    alone.stream_wait(None, None)
    assert alone.stream_done()
    array = alone.empty(4)
    array.record_use()
    imported = symm.import_token(array.export_token())
    imported.record_use(0)
    imported._order(0)


def test_the_host_cannot_look_into_device_memory():
    array = OnGpu()
    with pytest.raises(BufferError, match="device memory"):
        memoryview(array)
    with pytest.raises((TypeError, BufferError), match="device memory"):
        array.numpy()
    assert not hasattr(array, "__array_interface__")


def test_host_groups_refuse_device_arrays(alone):
    for array in (OnGpu(), OnGpu().view("u8")):
        with pytest.raises(symm.InvalidArgumentError, match="lies on a device"):
            alone.allreduce(array)
        with pytest.raises(symm.InvalidArgumentError, match="lies on a device"):
            alone.allreduce(np.ones(6, np.float32), array)


def test_streams_of_all_kinds():
    class Protocol:
        def __cuda_stream__(self):
            return (0, 9)

    streams = [7, SimpleNamespace(cuda_stream=7), SimpleNamespace(ptr=7), Protocol()]
    assert [_streams.handle_of(stream) for stream in streams] == [7, 7, 7, 9]
    with pytest.raises(TypeError, match="stream"):
        _streams.handle_of(SimpleNamespace(ptr="7"))


def framework(stream):
    """PyTorch and CuPy, as far as they are used: the
    current stream of a device is `stream(device)`.
    """
    of_torch = {
        "is_initialized": lambda: True,
        "current_stream": lambda device: SimpleNamespace(cuda_stream=stream(device)),
    }
    return SimpleNamespace(
        cuda=SimpleNamespace(**of_torch, get_current_stream=lambda: SimpleNamespace(ptr=stream(0)))
    )


def test_the_current_stream_is_that_of_the_framework(monkeypatch):
    class Tensor:
        device = SimpleNamespace(type="cuda")

    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", framework(lambda device: {"cuda": 5}[device.type]))
    assert _streams.current_of(Tensor()) == 5
    assert _streams.current_of(np.ones(3)) is None
    assert _streams.current_of(OnGpu()) is None
    Tensor.device.type = "cpu"  # a mistake, which the operand's check names
    assert _streams.current_of(Tensor()) is None


def test_the_current_stream_of_a_thread(monkeypatch):
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


def test_seconds_to_milliseconds():
    assert [_streams.milliseconds(value) for value in (None, 0, 0.0001, 1.5, math.inf)] == [
        0,
        2**64 - 2,
        1,
        1500,
        2**64 - 1,
    ]
