"""Symmetric arrays: views by other packages, parts and shapes, fills, copies, lifetimes."""

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


def name_of(dtype):
    return dtype.name


# ---- element types


@pytest.mark.parametrize("dtype", ALL, ids=name_of)
def test_numpy_sees_the_memory_itself(alone, dtype):
    array = alone.empty((3, 5), dtype)
    seen = np.asarray(array)
    assert (seen.shape, seen.dtype) == ((3, 5), numpy_type(dtype))
    assert seen.__array_interface__["data"][0] == array.pointer
    assert not seen.view("u1").any(), "a new block is zero"

    seven = np.array((7, 3) if dtype.is_pair else 7, seen.dtype)  # 7 as a bool is true
    seen[1, 2] = seven
    assert array.numpy()[1, 2] == seven
    address = array.pointer + 7 * dtype.itemsize
    assert bytes(seen[1, 2].tobytes()) == ctypes.string_at(address, dtype.itemsize)


@pytest.mark.parametrize("dtype", ALL, ids=name_of)
def test_an_element_type_is_known_by_all_its_names(dtype):
    of_numpy = numpy_type(dtype)
    for name in (dtype, dtype.name, dtype.long_name, of_numpy):
        assert dtype_of(name) is dtype, name
    if not dtype.is_pair:  # the type object of structured types does not say what is in them
        assert dtype_of(of_numpy.type) is dtype


def test_an_element_type_is_known_by_the_text_that_pytorch_prints():
    class Float32:
        def __repr__(self):
            return "torch.float32"

    assert dtype_of(Float32()) is symm.f32


@pytest.mark.parametrize("name", ["float7", np.clongdouble, complex])
def test_an_unknown_element_type_is_refused(name):
    with pytest.raises(symm.InvalidArgumentError, match="unknown dtype"):
        dtype_of(name)


# ---- protocols of other packages


def test_the_buffer_protocol_shows_the_memory(alone):
    array = alone.empty((2, 3), "i32")
    view = memoryview(array)
    assert (view.format, view.shape, view.strides, view.readonly) == ("i", (2, 3), (12, 4), False)
    view[1, 1] = 5
    assert array.numpy()[1, 1] == 5
    assert bytes(view) == array.numpy().tobytes()
    assert ctypes.addressof(ctypes.c_char.from_buffer(array)) == array.pointer


def test_the_buffer_protocol_shows_arrays_of_no_elements_and_of_no_axes(alone):
    assert memoryview(alone.empty((0, 3), "i32")).nbytes == 0
    assert memoryview(alone.empty((), "f64")).shape == ()


@pytest.mark.parametrize("name", ["bf16", "f8e4m3", "f8e5m2"])
def test_numpy_sees_types_that_the_buffer_protocol_lacks(alone, name):
    array = alone.empty(4, name)
    with pytest.raises(BufferError, match=name):
        memoryview(array)
    assert not hasattr(array, "__array_interface__")
    assert np.array(array).shape == (4,)
    assert np.asarray(array, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, dtype=np.float32, copy=False)


def test_numpy_is_told_that_ml_dtypes_is_missing(alone, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="ml_dtypes"):
        np.asarray(alone.empty(4, "bf16"))


def test_the_array_interface_describes_the_memory(alone):
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
@pytest.mark.parametrize("dtype", ALL, ids=name_of)
def test_a_dlpack_capsule_describes_the_memory(alone, dtype, version):
    array = alone.empty((2, 3), dtype)
    if dtype.is_pair:
        with pytest.raises(BufferError, match="shows the values and indices"):
            array.__dlpack__(max_version=version)
        return
    capsule = array.__dlpack__(max_version=version)
    assert ("versioned" in repr(capsule)) == (version is not None and version >= (1, 0))
    found = symm._raw.dlpack_read(capsule)
    assert found == (array.pointer, 6, dtype.value, 1, 0, True, True, (2, 3))
    assert array.__dlpack_device__() == (1, 0)


def test_numpy_takes_a_dlpack_capsule(alone):
    array = alone.empty((2, 3), "f32")
    seen = np.from_dlpack(array)
    seen[0, 1] = 4
    assert array.numpy()[0, 1] == 4
    assert seen.__array_interface__["data"][0] == array.pointer
    assert seen.strides == (12, 4)


@pytest.mark.parametrize(
    ("named", "options"),
    [("copy", {"copy": True}), ("device", {"dl_device": (2, 0)}), ("stream", {"stream": 7})],
)
def test_dlpack_refuses_what_host_memory_cannot_do(alone, named, options):
    with pytest.raises(BufferError, match=named):
        alone.empty(3).__dlpack__(**options)


def test_a_consumed_dlpack_capsule_is_refused(alone):
    used = alone.empty(3).__dlpack__()
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    rename(used, b"used_dltensor")
    with pytest.raises(BufferError, match="unused"):
        symm._raw.dlpack_read(used)
    rename(used, b"dltensor")  # so that its destructor releases the memory


# ---- parts and shapes


@pytest.fixture
def counted(alone):
    """An array of the shape (4, 6) that has the integers 0 to 23."""
    array = alone.empty((4, 6), "i32")
    array.numpy()[:] = np.arange(24).reshape(4, 6)
    return array


def test_an_array_has_the_attributes_of_its_shape(counted):
    assert len(counted) == 4
    assert (counted.ndim, counted.size, counted.nbytes, counted.itemsize) == (2, 24, 96, 4)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (lambda array: array[1:3], np.arange(6, 18).reshape(2, 6)),
        (lambda array: array[-1], np.arange(18, 24)),
        (lambda array: array[1][2], np.array(8)),
        (lambda array: array[4:], np.empty((0, 6))),
        (lambda array: array.reshape(2, -1)[1], np.arange(12, 24)),
        (lambda array: array.view("u8"), np.arange(24, dtype="i4").reshape(4, 6).view(np.uint8)),
    ],
    ids=["slice", "last", "element", "nothing", "reshaped", "bytes"],
)
def test_a_part_has_the_elements_of_its_place(counted, part, expected):
    assert np.array_equal(part(counted).numpy(), expected)


def test_a_view_of_wider_elements_has_fewer_of_them(counted):
    assert counted.view("i64").shape == (4, 3)


@pytest.mark.parametrize(
    "index",
    [lambda array: array[::2], lambda array: array[4], lambda array: array[0][0][0]],
    ids=["step", "beyond the end", "no axes"],
)
def test_a_wrong_index_is_an_index_error(counted, index):
    with pytest.raises(IndexError):
        index(counted)


def test_a_shape_of_another_size_is_refused(alone, counted):
    with pytest.raises(symm.InvalidArgumentError):
        counted[4:].reshape(np.uint8(16), np.uint8(16))  # 256 overflows to 0 in NumPy's uint8
    with pytest.raises(symm.InvalidArgumentError):
        alone.empty((2, 3), "u8").view("i32")


def test_an_array_without_axes_has_no_length(alone):
    with pytest.raises(TypeError):
        len(alone.empty(()))


def test_an_array_is_stored_into_and_iterated_as_lists_are(alone):
    array = alone.zeros((2, 3))
    array[1] = 3
    array[:, 0] = 7
    assert [part.numpy().tolist() for part in array] == [[7, 0, 0], [7, 3, 3]]
    with pytest.raises(TypeError, match=r"a\.numpy\(\)"):
        array[0, 0]
    with pytest.raises(TypeError, match="no length"):
        iter(array[0].reshape(3, 1)[0].view("f32")[0])


# ---- arrays in blocks


def test_an_array_may_fill_its_block_to_the_end(alone):
    memory = alone.rendezvous(alone.alloc(64))
    assert memory.array(np.int64(8), "f32", offset=np.int32(32)).nbytes == 32


@pytest.mark.parametrize(
    ("named", "shape", "options"),
    [
        ("beyond the block", 17, {}),
        ("beyond the block", 16, {"offset": 4}),
        ("beyond the block", 1, {"offset": 64}),
        ("beyond the block", (np.uint8(16), np.uint8(16)), {}),
        ("multiple", 1, {"offset": 2}),
        ("rank", 1, {"rank": 1}),
    ],
)
def test_an_array_outside_its_block_is_refused(alone, named, shape, options):
    memory = alone.rendezvous(alone.alloc(64))
    with pytest.raises(symm.InvalidArgumentError, match=named):
        memory.array(shape, "f32", **options)


def test_negative_extents_are_refused(alone):
    array = alone.empty(64, "u8")
    with pytest.raises(symm.InvalidArgumentError, match="negative"):
        symm.import_token(array.export_token(), (-2, -3))


def test_an_array_of_a_buffer_outlives_the_buffer(alone):
    buffer = alone.alloc(100)
    array = alone.from_buffer(buffer, dtype="f32", offset=8)
    assert (array.shape, array.dtype, array.offset) == ((23,), symm.f32, 8)
    assert array.pointer == buffer.pointer + 8
    buffer.close()
    array.numpy()[:] = 3
    with pytest.raises(symm.InvalidHandleError):
        _ = buffer.pointer


def test_peers_see_one_memory(threads):
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


def test_tables_have_the_addresses_of_blocks_and_pads(alone):
    memory = alone.empty(4).memory
    table = ctypes.cast(memory.pointer_table(), ctypes.POINTER(ctypes.c_void_p))
    assert table[0] == memory.pointer()
    pads = ctypes.cast(memory.signal_pad_table(), ctypes.POINTER(ctypes.c_void_p))
    assert pads[0] == memory.signal_pad()
    assert memory.info().signal_pad_bytes == 64 * 8


def test_the_host_says_why_it_has_no_multicast(alone):
    memory = alone.empty(4).memory
    assert not alone.info().multicast
    assert alone.info().multicast_reason
    assert memory.info().multicast_reason == alone.info().multicast_reason
    with pytest.raises(symm.UnavailableError, match=memory.info().multicast_reason):
        memory.multicast_pointer()
    with symm.Group.join(0, 1, "thread://multicast", backend="host", multicast=True) as group:
        assert group.info().multicast_reason  # multicast is refused, the group works
        group.barrier()


# ---- fills and copies


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
        ("f64", 1.5),
        ("f64", -0.0),
        ("i64", -(2**62) - 1),
        ("u64", 2**64 - 1),
        ("bool", True),
        ("f8e4m3", 0),
        ("f8e4m3", 1.5),
        ("f8e5m2", -3.0),
    ],
)
def test_fill_sets_the_elements_of_its_part_only(alone, dtype, value):
    array = alone.empty(16, dtype)
    array.view("u8").fill(255)
    assert (array.view("u8").numpy() == 255).all()

    array[4:12].fill(value)
    assert (array.numpy()[4:12].astype(object) == value).all()
    assert (array.view("u8").numpy()[: 4 * array.itemsize] == 255).all()
    assert (array.view("u8").numpy()[12 * array.itemsize :] == 255).all()


@pytest.mark.parametrize("dtype", symm.dtypes.ALL, ids=lambda dtype: dtype.name)
def test_fill_takes_any_number_of_elements_at_any_place(alone, dtype):
    array = alone.empty(24, dtype)
    value = (1, 2) if dtype.is_pair else 1
    for begin in range(9):
        for count in (0, 1, 2, 3, 4, 5, 7, 8, 11, 15):
            bits = np.full((24, dtype.itemsize), 255, np.uint8)
            array.view("u8").numpy()[:] = 255
            array[begin : begin + count].fill(value)
            bits[begin : begin + count] = np.frombuffer(
                symm.array.element_bytes(value, dtype), np.uint8
            )
            assert (array.view("u8").numpy() == bits.ravel()).all(), (begin, count)


def test_fill_reaches_the_block_of_another_rank(threads):
    def body(group):
        array = group.empty((3, 5), "f64")
        array.peer((group.rank + 1) % group.size)[1:].fill(-1.25)
        group.barrier()
        assert array.numpy().tolist() == [[0] * 5] + [[-1.25] * 5] * 2

    threads(2, body)


@pytest.mark.parametrize("nbytes", range(1, 9))
def test_bytes_for_a_device_lie_in_memory_of_a_group_of_this_rank_alone(threads, nbytes):
    # What fill() takes on CUDA where an array has no whole word; memory of the host is the same.
    def body(group):
        data = bytes(range(1, nbytes + 1))
        source = group._device_bytes(data, 0)
        assert source.group.size == 1
        array = group.empty(16, "u8")
        array[3:].put((group.rank + 1) % group.size, source)
        group.barrier()
        assert bytes(memoryview(array)) == (b"\0\0\0" + data).ljust(16, b"\0")

    threads(2, body)


@pytest.mark.parametrize("name", ["f8e4m3", "f8e5m2"])
def test_fp8_is_rounded_as_ml_dtypes_rounds_it_and_saturates(name):
    dtype = getattr(symm, name)
    kind = getattr(ml_dtypes, dtype.long_name)
    every = np.arange(256, dtype=np.uint8).view(kind).astype(np.float64)
    finite = np.unique(every[np.isfinite(every)])
    middles = (finite[1:] + finite[:-1]) / 2
    nearby = np.concatenate([finite, middles, np.nextafter(middles, 9), np.nextafter(middles, -9)])
    for value in nearby:
        expected = np.array(value).astype(kind)
        seen = np.frombuffer(symm.array.element_bytes(value, dtype), kind)[0]
        assert seen.tobytes() == expected.tobytes() or value == 0, value
    largest = finite[-1]
    for value, expected in ((1e9, largest), (-1e9, -largest), (largest * 1.0001, largest)):
        seen = np.frombuffer(symm.array.element_bytes(value, dtype), kind)
        assert seen.astype(float)[0] == expected
    infinite = np.frombuffer(symm.array.element_bytes(math.inf, dtype), kind).astype(float)[0]
    assert math.isnan(infinite) if name == "f8e4m3" else math.isinf(infinite)
    nothing = np.frombuffer(symm.array.element_bytes(math.nan, dtype), kind).astype(float)[0]
    assert math.isnan(nothing)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("u8", 300), ("i32", 1.5), ("i8", math.nan), ("f16", 1e6), ("bf16", 1e39)],
)
def test_fill_refuses_what_is_no_value_of_the_type(alone, dtype, value):
    with pytest.raises(symm.InvalidArgumentError, match="is none of"):
        alone.empty(4, dtype).fill(value)


@pytest.mark.parametrize(
    "value", [1.0, 1.00390625, 1.01171875, -3.1415926, 1e30, math.inf, 65280.5]
)
def test_bf16_is_rounded_to_nearest_even(value):
    expected = np.array(value).astype(np.float32).astype(ml_dtypes.bfloat16).tobytes()
    assert symm.array.element_bytes(value, symm.bf16) == expected


def test_bf16_keeps_nan():
    element = np.frombuffer(symm.array.element_bytes(math.nan, symm.bf16), ml_dtypes.bfloat16)
    assert np.isnan(element.astype(float))


def test_a_part_is_put_and_got_at_its_place_in_the_block(threads):
    def body(group):
        right = (group.rank + 1) % group.size
        left = (group.rank - 1) % group.size
        array = group.empty((4, 8), "f32")

        array[1].put(right, np.full(8, group.rank, np.float32), signal=3)
        array.wait_signal(left, 3)
        assert array[1].numpy().tolist() == [left] * 8

        array[2:].put(right, array[1])
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


@pytest.mark.parametrize(
    "call",
    [lambda array: array.put(0, bytes(20)), lambda array: array.get(0, bytearray(20))],
    ids=["put", "get"],
)
def test_a_copy_that_is_longer_than_the_array_is_refused(alone, call):
    with pytest.raises(symm.InvalidArgumentError, match="20 bytes are more than"):
        call(alone.empty(8)[4:])


def test_a_get_into_read_only_memory_is_refused(alone):
    with pytest.raises(symm.InvalidArgumentError, match="read-only"):
        alone.empty(8).get(0, bytes(4))


def test_signals_of_an_array_are_those_of_its_memory(alone):
    array = alone.empty(8)
    array.signal(0, 3)
    assert (array.test_signal(0, 3), alone.empty(1).test_signal(0, 3)) == (1, 0)
    array.wait_signal(0, 3)
    array[2:].signal_value(0, 7, 4)
    array.signal_value(0, 5, 4, op=symm.SignalOp.ADD)
    assert array.test_signal_value(0, 4) == array.memory.test_signal_value(0, 4) == 12
    assert array.wait_signal_value(0, symm.Compare.GE, 12, 4, timeout=0) == 12
    with pytest.raises(symm.TimeoutError):
        array.wait_signal_value(0, symm.Compare.GT, 12, 4, timeout=0)


def test_a_wait_that_timed_out_takes_nothing(alone):
    array = alone.empty(8)
    with pytest.raises(symm.TimeoutError, match="channel 5") as caught:
        array.wait_signal(0, 5, timeout=0.02)
    assert caught.value.rank == 0
    array.signal(0, 5)
    array.wait_signal(0, 5, timeout=math.inf)


# ---- packages, where they are installed; test_gpu.py has them on GPUs

TYPES = ["f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i16", "u16", "bool", "i32"]


@pytest.mark.parametrize("dtype", TYPES)
def test_jax_sees_and_gives_memory(alone, dtype):
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
def test_pytorch_sees_and_gives_memory(alone, dtype):
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


# ---- lifetimes


def is_mapped(pointer):
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
    assert is_mapped(pointer)
    del kept
    gc.collect()
    assert not is_mapped(pointer)


def test_an_array_outlives_its_closed_memory(alone):
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


def test_an_array_in_a_cycle_is_collected(alone):
    array = alone.empty(16)
    pointer = array.pointer
    array.myself = array
    ended = weakref.ref(array)
    del array
    gc.collect()
    assert ended() is None
    assert not is_mapped(pointer)


# Arrays, views, capsules, the log and a waiting thread are alive when this program ends.
SHUTDOWN = """
import threading
import time

import numpy as np
import symm

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
            outcome = b"no error"
        except symm.InvalidHandleError:
            outcome = b"refused"
        except BaseException as error:
            outcome = repr(error).encode()
        alone.close()
        with symm.Group.join(0, 1, "thread://child", backend="host") as group:
            group.empty(4)
        del array
        gc.collect()
        os.write(write_end, outcome)
        os._exit(0)

    os.close(write_end)
    assert os.read(read_end, 1000) == b"refused"
    os.close(read_end)
    assert os.waitpid(pid, 0)[1] == 0
    alone.barrier()
    assert array.numpy().sum() == 16
