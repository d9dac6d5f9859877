"""What is different with CUDA, as far as it can be seen without a GPU. tests/test_gpu.py is about the rest."""

import math

import numpy as np
import pytest

import symm
from symm import _streams
from symm._view import View


class OnGpu(View):
    """An array on CUDA device 3 that remembers which streams were made to wait for what was issued on it."""

    def __init__(self, shape=(2, 3), dtype=symm.f32):
        super().__init__(0x7F0000000000, shape, dtype, (2, 3))
        self.waiting = []

    def _order(self, stream):
        self.waiting.append(stream)

    def _derive(self, offset, shape, dtype):
        return OnGpu(shape, dtype)


@pytest.mark.parametrize(("consumer", "expected"), [(None, [1]), (1, [1]), (2, [2]), (77, [77]), (-1, [])])
def test_dlpack_orders_the_consumer_after_our_calls(consumer, expected):
    array = OnGpu()
    capsule = array.__dlpack__(stream=consumer, max_version=(1, 0))
    assert symm._raw.dlpack_read(capsule) == (array.pointer, 6, symm.f32.value, 2, 3, True, True, (2, 3))
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


class Raw:
    """The extension, with some calls of the group replaced by notes of them."""

    def __init__(self, raw, *names):
        self.calls = []
        self._raw = raw
        self._names = names

    def __getattr__(self, name):
        if name not in self._names:
            return getattr(self._raw, name)
        return lambda *arguments: self.calls.append((name, *arguments))


def test_arrays_order_and_release_by_the_library(alone, monkeypatch):
    import symm.array
    import symm.memory

    array = alone.empty(4, "f32")
    memory, group = array.memory._handle, array._mapping.group
    names = ("stream_wait", "stream_query", "memory_record_use", "memory_release", "group_release")
    noted = Raw(symm._raw, *("symm_" + name for name in names))
    monkeypatch.setattr(symm.array, "raw", noted)
    monkeypatch.setattr(symm.memory, "raw", noted)
    monkeypatch.setattr(symm.memory, "current_on", lambda device: 70 + device)
    array._order(5)
    array.record_use(6)
    del array
    symm.memory._end(group, 3, memory)
    assert noted.calls == [
        ("symm_stream_wait", group, 5, 2**64 - 1),
        ("symm_memory_record_use", memory, 6),
        ("symm_memory_release", memory),
        ("symm_group_release", group),
        ("symm_stream_query", group, 73),
        ("symm_memory_release", memory),
        ("symm_group_release", group),
    ]
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


class Stream:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def test_streams_of_all_kinds():
    class Protocol:
        def __cuda_stream__(self):
            return (0, 9)

    streams = [7, Stream(cuda_stream=7), Stream(ptr=7), Protocol()]
    assert [_streams.handle_of(stream) for stream in streams] == [7, 7, 7, 9]
    with pytest.raises(TypeError, match="stream"):
        _streams.handle_of(Stream(ptr="7"))


def test_the_current_stream_is_that_of_the_framework(monkeypatch):
    class Torch:
        class cuda:  # noqa: N801
            @staticmethod
            def current_stream(device):
                return Stream(cuda_stream={"cuda": 5}[device.type])

    class Device:
        type = "cuda"

    class Tensor:
        device = Device

    Tensor.__module__ = "torch"
    monkeypatch.setitem(__import__("sys").modules, "torch", Torch)
    assert _streams.current_of(Tensor()) == 5
    assert _streams.current_of(np.ones(3)) is None
    assert _streams.current_of(OnGpu()) is None
    Device.type = "cpu"  # a mistake, which the operand's check names
    assert _streams.current_of(Tensor()) is None


def test_the_current_stream_of_a_thread(monkeypatch):
    class Framework:
        initialized = True

        def __init__(self, stream):
            self.stream = stream
            self.cuda = self

        def is_initialized(self):
            return self.initialized

        def current_stream(self, device):
            return Stream(cuda_stream=self.stream and self.stream + device)

        def get_current_stream(self):
            return Stream(ptr=self.stream)

    modules = __import__("sys").modules
    for name in ("torch", "cupy"):
        monkeypatch.delitem(modules, name, raising=False)
    assert _streams.current_on(3) is None
    monkeypatch.setitem(modules, "cupy", Framework(9))
    assert _streams.current_on(3) == 9
    monkeypatch.setitem(modules, "torch", Framework(50))
    assert _streams.current_on(3) == 53
    monkeypatch.setitem(modules, "torch", Framework(0))
    assert _streams.current_on(3) == 9, "PyTorch works on its default stream"
    monkeypatch.setitem(modules, "cupy", Framework(0))
    assert _streams.current_on(3) == 0


def test_seconds_to_milliseconds():
    assert [_streams.milliseconds(value) for value in (None, 0, 0.0001, 1.5, math.inf)] == [0, 2**64 - 2, 1, 1500, 2**64 - 1]
