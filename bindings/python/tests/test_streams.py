# SPDX-License-Identifier: Apache-2.0
"""What is different with CUDA, as far as it can be seen without a GPU. tests/test_gpu.py is about the rest."""

import math

import numpy as np
import pytest

import symm
from symm import _cuda, _streams
from symm._view import View


class Driver:
    """Records what the package asks of the CUDA driver."""

    def __init__(self):
        self.calls = []
        self.fail = None

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *(getattr(argument, "value", argument) for argument in arguments)))
            return 201 if name == self.fail else 0

        return call


@pytest.fixture
def driver(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(_cuda, "_driver", lambda: fake)
    _cuda._primary_context.cache_clear()
    yield fake
    _cuda._primary_context.cache_clear()


class OnGpu(View):
    """An array of a group on CUDA device 3 that was last used on `stream`."""

    def __init__(self, shape=(2, 3), dtype=symm.f32, stream=None):
        super().__init__(0x7F0000000000, shape, dtype, (2, 3))
        self.stream = stream

    def _last_stream(self):
        return self.stream

    def _derive(self, offset, shape, dtype):
        return OnGpu(shape, dtype, self.stream)


def waits(driver):
    """(waiting stream, stream waited for) of each order that was made."""
    records = [call[2] for call in driver.calls if call[0] == "cuEventRecord"]
    waiting = [call[1] for call in driver.calls if call[0] == "cuStreamWaitEvent"]
    return list(zip(waiting, records, strict=True))


@pytest.mark.parametrize(
    ("consumer", "last", "expected"),
    [
        (None, None, []),
        (None, 0, []),
        (1, 0, []),
        (-1, 77, []),
        (77, 77, []),
        (None, 77, [(1, 77)]),
        (1, 77, [(1, 77)]),
        (2, 77, [(2, 77)]),
        (55, 0, [(55, 1)]),
        (55, 77, [(55, 77)]),
    ],
)
def test_dlpack_orders_the_consumer_after_our_last_call(driver, consumer, last, expected):
    array = OnGpu(stream=last)
    capsule = array.__dlpack__(stream=consumer, max_version=(1, 0))
    assert symm._raw.dlpack_read(capsule) == (array.pointer, 6, symm.f32.value, 2, 3, True, True, (2, 3))
    assert waits(driver) == expected
    names = [call[0] for call in driver.calls]
    assert names.count("cuCtxPushCurrent_v2") == names.count("cuCtxPopCurrent_v2") == len(expected)
    assert names.count("cuEventCreate") == names.count("cuEventDestroy_v2") == len(expected)
    if expected:
        assert driver.calls[0][0] == "cuDeviceGet"
        assert driver.calls[0][2] == 3


def test_a_failing_driver_is_an_error_and_leaks_nothing(driver):
    driver.fail = "cuStreamWaitEvent"
    with pytest.raises(symm.CudaError, match="cuStreamWaitEvent: error 201"):
        OnGpu(stream=77).__dlpack__(stream=55)
    assert [call[0] for call in driver.calls[-2:]] == ["cuEventDestroy_v2", "cuCtxPopCurrent_v2"]


def test_cuda_array_interface():
    assert OnGpu(stream=77).__cuda_array_interface__ == {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (0x7F0000000000, False),
        "version": 3,
        "stream": 77,
    }
    assert OnGpu(stream=0).__cuda_array_interface__["stream"] == 1, "0 is not allowed there"
    assert OnGpu().__cuda_array_interface__["stream"] is None
    assert not hasattr(OnGpu(dtype=symm.bf16), "__cuda_array_interface__")


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


def test_seconds_to_milliseconds():
    assert [_streams.milliseconds(value) for value in (None, 0, 0.0001, 1.5, math.inf)] == [0, 1, 1, 1500, 2**64 - 1]
