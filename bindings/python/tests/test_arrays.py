"""Symmetric arrays as NumPy and others see them, fills, what
puts and gets refuse, and who keeps whose memory alive.
"""

import ctypes
import gc
import math
import os
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
from conftest import numpy_type

import symm
from symm.dtypes import ALL, dtype_of


@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.name)
def test_numpy_sees_the_memory_itself(alone, dtype):
    array = alone.empty((3, 5), dtype)
    seen = np.asarray(array)
    assert (seen.shape, seen.dtype) == ((3, 5), numpy_type(dtype))
    assert seen.__array_interface__["data"][0] == array.pointer
    assert not seen.view("u1").any(), "a new block is zero"
    seen[1, 2] = 7
    assert array.numpy()[1, 2] == seen.dtype.type(7)  # of a truth value: true
    address = array.pointer + 7 * dtype.itemsize
    assert bytes(seen[1, 2].tobytes()) == ctypes.string_at(address, dtype.itemsize)


def test_names_of_types():
    for dtype in ALL:
        for name in (dtype, dtype.name, dtype.long_name, numpy_type(dtype), numpy_type(dtype).type):
            assert dtype_of(name) is dtype

    class Float32:  # as PyTorch prints its types
        def __repr__(self):
            return "torch.float32"

    assert dtype_of(Float32()) is symm.f32
    for wrong in ("float7", np.complex64, complex):
        with pytest.raises(symm.InvalidArgumentError, match="unknown dtype"):
            dtype_of(wrong)


def test_items(alone):
    array = alone.zeros((2, 3))
    array[1] = 3
    array[:, 0] = 7
    assert [part.numpy().tolist() for part in array] == [[7, 0, 0], [7, 3, 3]]
    with pytest.raises(TypeError, match=r"a\.numpy\(\)"):
        array[0, 0]
    with pytest.raises(TypeError, match="no length"):
        iter(array[0].reshape(3, 1)[0].view("f32")[0])


def test_buffer_protocol(alone):
    array = alone.empty((2, 3), "i32")
    view = memoryview(array)
    assert (view.format, view.shape, view.strides, view.readonly) == ("i", (2, 3), (12, 4), False)
    view[1, 1] = 5
    assert array.numpy()[1, 1] == 5
    assert bytes(view) == array.numpy().tobytes()
    assert ctypes.addressof(ctypes.c_char.from_buffer(array)) == array.pointer
    empty = alone.empty((0, 3), "i32")
    assert memoryview(empty).nbytes == 0
    assert memoryview(alone.empty((), "f64")).shape == ()


@pytest.mark.parametrize("name", ["bf16", "f8e4m3", "f8e5m2"])
def test_types_that_the_buffer_protocol_lacks(alone, name):
    array = alone.empty(4, name)
    with pytest.raises(BufferError, match=name):
        memoryview(array)
    assert not hasattr(array, "__array_interface__")
    assert np.array(array).shape == (4,)
    assert np.asarray(array, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, dtype=np.float32, copy=False)


def test_without_ml_dtypes_numpy_is_told_what_is_missing(alone, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="ml_dtypes"):
        np.asarray(alone.empty(4, "bf16"))


def test_array_interface(alone):
    array = alone.empty((2, 3), "f64")
    interface = array.__array_interface__
    assert interface == {
        "shape": (2, 3),
        "typestr": "<f8",
        "data": (array.pointer, False),
        "version": 3,
    }
    assert not hasattr(array, "__cuda_array_interface__"), "this is host memory"


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.name)
def test_dlpack_capsules(alone, dtype, version):
    array = alone.empty((2, 3), dtype)
    capsule = array.__dlpack__(max_version=version)
    assert ("versioned" in repr(capsule)) == (version is not None and version >= (1, 0))
    found = symm._raw.dlpack_read(capsule)
    assert found == (array.pointer, 6, dtype.value, 1, 0, True, True, (2, 3))
    assert array.__dlpack_device__() == (1, 0)


def test_numpy_takes_dlpack_capsules(alone):
    array = alone.empty((2, 3), "f32")
    seen = np.from_dlpack(array)
    seen[0, 1] = 4
    assert array.numpy()[0, 1] == 4
    assert seen.__array_interface__["data"][0] == array.pointer
    assert seen.strides == (12, 4)


def test_dlpack_refusals(alone):
    array = alone.empty(3)
    with pytest.raises(BufferError, match="copy"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="device"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream"):
        array.__dlpack__(stream=7)
    used = array.__dlpack__()
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    rename(used, b"used_dltensor")
    with pytest.raises(BufferError, match="unused"):
        symm._raw.dlpack_read(used)
    rename(used, b"dltensor")


def test_parts_and_shapes(alone):
    array = alone.empty((4, 6), "i32")
    array.numpy()[:] = np.arange(24).reshape(4, 6)
    assert (len(array), array.ndim, array.size, array.nbytes, array.itemsize) == (4, 2, 24, 96, 4)
    assert np.array_equal(array[1:3].numpy(), np.arange(6, 18).reshape(2, 6))
    assert np.array_equal(array[-1].numpy(), np.arange(18, 24))
    assert array[1][2].numpy() == 8
    assert np.array_equal(array[4:].numpy(), np.empty((0, 6)))
    assert np.array_equal(array.reshape(2, -1)[1].numpy(), np.arange(12, 24))
    assert np.array_equal(array.view("u8").numpy(), array.numpy().view(np.uint8))
    assert array.view("i64").shape == (4, 3)
    for wrong in (lambda: array[::2], lambda: array[4], lambda: array[0][0][0]):
        with pytest.raises(IndexError):
            wrong()
    with pytest.raises(symm.InvalidArgumentError):
        array[4:].reshape(np.uint8(16), np.uint8(16))
    with pytest.raises(symm.InvalidArgumentError):
        alone.empty((2, 3), "u8").view("i32")
    with pytest.raises(TypeError):
        len(alone.empty(()))


def test_arrays_stay_inside_their_block(alone):
    memory = alone.rendezvous(alone.alloc(64))
    assert memory.array(np.int64(8), "f32", offset=np.int32(32)).nbytes == 32
    for shape, offset in ((17, 0), (16, 4), (1, 64), ((np.uint8(16), np.uint8(16)), 0)):
        with pytest.raises(symm.InvalidArgumentError, match="beyond the block"):
            memory.array(shape, "f32", offset=offset)
    with pytest.raises(symm.InvalidArgumentError, match="negative"):
        symm.import_token(memory.array(64, "u8").export_token(), (-2, -3))
    with pytest.raises(symm.InvalidArgumentError, match="multiple"):
        memory.array(1, "f32", offset=2)
    with pytest.raises(symm.InvalidArgumentError, match="rank"):
        memory.array(1, "f32", rank=1)


def test_from_buffer(alone):
    buffer = alone.alloc(100)
    array = alone.from_buffer(buffer, dtype="f32", offset=8)
    assert (array.shape, array.dtype, array.offset) == ((23,), symm.f32, 8)
    assert array.pointer == buffer.pointer + 8
    buffer.close()
    array.numpy()[:] = 3
    with pytest.raises(symm.InvalidHandleError):
        _ = buffer.pointer


def test_peers_see_the_same_memory(threads):
    def body(group):
        array = group.empty((2, 3), "f32")
        array.numpy()[:] = group.rank + 1
        group.barrier()
        sums = [float(array.peer(rank).numpy().sum()) for rank in range(group.size)]
        assert array.peer(group.rank).pointer == array.pointer
        group.barrier()
        array[1:].peer((group.rank + 1) % group.size).numpy()[:] = 10 + group.rank
        group.barrier()
        with pytest.raises(symm.InvalidArgumentError):
            array.peer(group.size)
        return sums, array.numpy()[:, 0].tolist()

    assert threads(3, body) == [
        ([6, 12, 18], [1, 12]),
        ([6, 12, 18], [2, 10]),
        ([6, 12, 18], [3, 11]),
    ]


def test_tables_and_pads(alone):
    memory = alone.empty(4).memory
    table = ctypes.cast(memory.pointer_table(), ctypes.POINTER(ctypes.c_void_p))
    assert table[0] == memory.pointer()
    pads = ctypes.cast(memory.signal_pad_table(), ctypes.POINTER(ctypes.c_void_p))
    assert pads[0] == memory.signal_pad()
    assert memory.info().signal_pad_bytes == 64 * 8


def test_no_multicast_on_the_host(alone):
    memory = alone.empty(4).memory
    assert not alone.info().multicast
    assert memory.info().multicast_reason == alone.info().multicast_reason != ""
    with pytest.raises(symm.UnavailableError, match=memory.info().multicast_reason):
        memory.multicast_pointer()
    with symm.Group.join(0, 1, "thread://multicast", backend="host", multicast=True) as group:
        assert group.info().multicast_reason  # refused, and all the rest works
        group.barrier()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f32", 1.5),
        ("i32", -7),
        ("u32", 2**31),
        ("f16", 0.25),
        ("i8", -3),
        ("u8", 200),
        ("bf16", 3.0),
        ("f64", 0),
        ("f8e4m3", 0),
    ],
)
def test_fill(alone, dtype, value):
    array = alone.empty(16, dtype)
    array.view("u8").fill(255)
    assert (array.view("u8").numpy() == 255).all()
    array[4:12].fill(value)
    seen = array.numpy().astype(np.float64)
    assert (seen[4:12] == value).all()
    assert (array.view("u8").numpy()[: 4 * array.itemsize] == 255).all()
    assert (array.view("u8").numpy()[12 * array.itemsize :] == 255).all()


def test_fill_says_what_it_cannot_do(alone):
    with pytest.raises(symm.UnsupportedError, match="32-bit"):
        alone.empty(4, "f64").fill(1.5)
    with pytest.raises(symm.UnsupportedError, match="f8e5m2"):
        alone.empty(4, "f8e5m2").fill(1.5)
    with pytest.raises(symm.UnsupportedError, match="32-bit"):
        alone.empty(4, "f64").fill(-0.0)  # no zeros
    with pytest.raises(symm.InvalidArgumentError, match="whole 32-bit words"):
        alone.empty(3, "u8").fill(1)
    for dtype, value in (("u8", 300), ("i32", 1.5), ("i8", math.nan), ("f16", 1e6), ("bf16", 1e39)):
        with pytest.raises(symm.InvalidArgumentError, match="is none of"):
            alone.empty(4, dtype).fill(value)


def test_bf16_is_rounded_to_nearest_even():
    for value in (1.0, 1.00390625, 1.01171875, -3.1415926, 1e30, math.inf, 65280.5):
        expected = np.array(value).astype(np.float32).astype(ml_dtypes.bfloat16).tobytes()
        assert symm.array.element_bytes(value, symm.bf16) == expected, value
    assert np.isnan(
        np.frombuffer(symm.array.element_bytes(math.nan, symm.bf16), "<u2")
        .view("V2")
        .view(ml_dtypes.bfloat16)
        .astype(float)
    )


def test_arrays_put_and_get_to_their_own_place_in_the_block(threads):
    def body(group):
        right = (group.rank + 1) % group.size
        left = (group.rank - 1) % group.size
        array = group.empty((4, 8), "f32")

        array[1].put(np.full(8, group.rank, np.float32), right, signal=3)
        array.wait_signal(left, 3)
        assert array[1].numpy().tolist() == [left] * 8

        array[2:].put(array[1], right)
        array.signal(right)
        array.wait_signal(left)
        assert array[2].numpy().tolist() == [(group.rank - 2) % group.size] * 8

        seen = bytearray(32)
        array[1].get(right, seen)
        assert np.frombuffer(seen, np.float32).tolist() == [group.rank] * 8

        array.memory.put(right, 4 * 24, b"\x01\x02\x03\x04")
        group.barrier()
        assert bytes(memoryview(array))[96:100] == b"\x01\x02\x03\x04"

    threads(3, body)


def test_what_does_not_fit_is_refused(alone):
    array = alone.empty(8)
    for call in (lambda: array[4:].put(bytes(20), 0), lambda: array[4:].get(0, bytearray(20))):
        with pytest.raises(symm.InvalidArgumentError, match="20 bytes are more than"):
            call()
    with pytest.raises(symm.InvalidArgumentError, match="read-only"):
        array.get(0, bytes(4))


def test_a_wait_that_timed_out_takes_nothing(alone):
    array = alone.empty(8)
    with pytest.raises(symm.DeadlineError, match="channel 5") as caught:
        array.wait_signal(0, 5, timeout=0.02)
    assert caught.value.rank == 0
    array.signal(0, 5)
    array.wait_signal(0, 5, timeout=math.inf)


# ---- packages, where they are installed; tests/test_gpu.py has them on GPUs

TYPES = ["f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i16", "u16", "bool", "i32"]


@pytest.mark.parametrize("dtype", TYPES)
def test_jax(alone, dtype):
    jnp = pytest.importorskip("jax.numpy")
    array = alone.empty((8, 16), dtype)
    seen = jnp.from_dlpack(array)
    assert (seen.unsafe_buffer_pointer(), seen.shape, seen.dtype) == (
        array.pointer,
        (8, 16),
        array.dtype.long_name,
    )
    given = jnp.ones((8, 16), array.dtype.long_name)
    alone.allreduce(given, array)
    assert (array.numpy().astype(np.float32) == 1).all()
    with pytest.raises(symm.InvalidArgumentError, match="read-only"):
        alone.allreduce(given)


@pytest.mark.parametrize("dtype", TYPES)
def test_torch(alone, dtype):
    torch = pytest.importorskip("torch")
    array = alone.empty((8, 16), dtype)
    seen = array.torch()
    kind = getattr(torch, array.dtype.long_name)
    assert (seen.data_ptr(), tuple(seen.shape), seen.dtype) == (array.pointer, (8, 16), kind)
    given = torch.ones(8, 16).to(kind)
    alone.allreduce(given, array)
    assert (seen.float() == 1).all().item()
    alone.allreduce(array, given)
    assert (given.float() == 1).all().item()


# ---- who keeps whose memory alive


def mapped(pointer):
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= pointer < end:
                return True
    return False


KEEPERS = {
    "array": lambda array: array,
    "part": lambda array: array[1:],
    "peer": lambda array: array.peer(0),
    "numpy": np.asarray,
    "numpy bf16": lambda array: np.asarray(array.view("bf16")),
    "memoryview": memoryview,
    "numpy from dlpack": np.from_dlpack,
    "unused capsule": lambda array: array.__dlpack__(),
    "unused versioned capsule": lambda array: array.__dlpack__(max_version=(1, 0)),
    "memory": lambda array: array.memory,
}


@pytest.mark.parametrize("keeper", KEEPERS.values(), ids=KEEPERS)
def test_every_view_keeps_the_memory(keeper):
    group = symm.Group.join(0, 1, "thread://keep", backend="host")
    array = group.empty(4096, "f32")
    pointer = array.pointer
    kept = keeper(array)
    del array
    group.close()
    del group
    gc.collect()
    assert mapped(pointer)
    del kept
    gc.collect()
    assert not mapped(pointer)


def test_closing_a_memory_does_not_take_its_arrays(alone):
    array = alone.empty(16)
    memory = array.memory
    seen = array.numpy()
    with memory:
        pass
    assert memory.closed
    seen[:] = 1
    with pytest.raises(symm.InvalidHandleError, match="memory"):
        memory.signal(0)
    with pytest.raises(symm.InvalidHandleError, match="memory"):
        array.signal(0)


def test_cycles_are_collected(alone):
    array = alone.empty(16)
    pointer = array.pointer
    array.myself = array
    ended = weakref.ref(array)
    del array
    gc.collect()
    assert ended() is None
    assert not mapped(pointer)


SHUTDOWN = """
import numpy as np, symm, threading, time
group = symm.Group.join(0, 1, "thread://x", backend="host")
symm.log_to("symm", 10)
array = group.empty(1024)
capsule = array.__dlpack__()
view = np.from_dlpack(array)
group.cycle = [array, group]
other = symm.Group.join(0, 1, "thread://y", backend="host")
pad = other.empty(4)
def wait():
    try:
        pad.wait_signal(0, timeout=60)
    except symm.SymmError:
        pass
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.05)
print("end")
"""


def test_the_interpreter_ends_cleanly():
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", SHUTDOWN], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_forked_child_is_told_and_ends_cleanly(alone):
    array = alone.empty(16)
    array.numpy()[:] = 1
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            alone.barrier()
            said = b"no error"
        except symm.InvalidHandleError:
            said = b"refused"
        except BaseException as error:
            said = repr(error).encode()
        alone.close()
        with symm.Group.join(0, 1, "thread://child", backend="host") as group:
            group.empty(4)
        del array
        gc.collect()
        os.write(write_end, said)
        os._exit(0)
    os.close(write_end)
    assert os.read(read_end, 1000) == b"refused"
    os.close(read_end)
    assert os.waitpid(pid, 0)[1] == 0
    alone.barrier()
    assert array.numpy().sum() == 16
