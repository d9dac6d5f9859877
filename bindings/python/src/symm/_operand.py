"""Arrays of any package as operands of the library.

An operand is an address, a number of elements and their type. Each reader in this file takes
arrays of one protocol, and returns the operand with the device that its memory lies on.
"""

from __future__ import annotations

from _thread import get_ident  # threading itself takes long to import
from collections import namedtuple

from symm._library import raw
from symm._view import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, Array
from symm.dtypes import DType, by_value, dtype_of, dtype_of_format
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any, NamedTuple, Protocol, TypeAlias

    AnyOperand: TypeAlias = "Operand | Array"
    Device: TypeAlias = tuple[int, int]  # DLPack's (device type, device id)
    # The operand, its device, whether it is contiguous, and whether it may be written.
    Found: TypeAlias = tuple["Operand", Device, bool, bool]

    class OnDevice(Protocol):
        """The device that a group works on, as far as operands are checked against it."""

        _on_host: bool
        device: int
        device_key: Device


_HOST = (CPU, 0)
_ON_HOST = frozenset({CPU, CUDA_HOST})
_ON_CUDA = frozenset({CUDA, CUDA_HOST, CUDA_MANAGED})
_UNKNOWN_DEVICE_TYPE = -1


if TYPE_CHECKING:

    class _Array(NamedTuple):
        pointer: int
        size: int
        dtype: DType
        keep: object
else:
    _Array = namedtuple("_Array", "pointer size dtype keep")


class Operand(_Array):
    """A contiguous array as the library sees it. `keep` keeps its memory alive."""

    __slots__ = ()

    @property
    def code(self) -> int:
        """SYMM_DTYPE_* of the elements."""
        return self.dtype.value


# What the calls of a thread work with while it is in symm.start(), by the number of the thread.
kept_by_thread: dict[int, list[object]] = {}


def keep(found: object) -> None:
    """Keep what a call of this thread works with, if it may be over only later."""
    kept = kept_by_thread.get(get_ident())
    if kept is not None:
        kept.append(found)


def operand(
    array: Any, name: str, group: OnDevice, stream: int, *, written: bool
) -> Operand | Array:
    """Read `array` as an operand of a call on `group`, ordered on `stream`.

    Accepted are symmetric arrays, tensors of PyTorch, NumPy arrays (with ml_dtypes), any
    object that speaks DLPack, and on the host any object with the buffer protocol.

    Args:
        array: the array.
        name: the parameter of the call, for messages.
        group: the group of the call.
        stream: the CUstream of the call; 0 on the host.
        written: whether the call writes to the array.

    Raises:
        InvalidArgumentError: the array is not contiguous, cannot be written, has an unknown
            element type, lies on another device than the group's, or is a tensor whose memory
            has its elements negated or conjugated.
        TypeError: `array` is not an array.
    """
    found: Operand | Array
    if isinstance(array, Array):
        array._require_open()
        if array.device_key == group.device_key and (array.writable or not written):
            return array
        found, device, contiguous, writable = array, array.device_key, True, array.writable
    else:
        found, device, contiguous, writable = _read(array, name, stream)

    if not contiguous:
        raise InvalidArgumentError(f"{name}: is not contiguous")
    if written and not writable:
        raise InvalidArgumentError(f"{name}: is read-only")
    _require_device(device, name, group)
    if kept_by_thread:
        keep(found)
    return found


class _OfHost:
    """Where operands lie that the host reads, whatever device a group works on."""

    _on_host = True
    device = -1
    device_key = _HOST


HOST = _OfHost()


def lies_on_host(array: Any, name: str) -> bool:
    """Whether `array` is memory of the host that no device reads."""
    device = array.device_key if isinstance(array, Array) else _read(array, name, 0)[1]
    return device[0] == CPU


def piece_of(array: Any, name: str) -> tuple[int, int]:
    """The address and the number of bytes of a contiguous array of any package."""
    if isinstance(array, Array):
        array._require_open()
        return array.pointer, array.nbytes
    found, _, contiguous, _ = _read(array, name, 0)
    if not contiguous:
        raise InvalidArgumentError(f"{name}: is not contiguous")
    return found.pointer, found.size * found.dtype.itemsize


def read_with_shape(array: Any, name: str) -> tuple[Operand | Array, tuple[int, ...]]:
    """A contiguous array of any package, and its shape."""
    if isinstance(array, Array):
        array._require_open()
        return array, array.shape
    found, _, contiguous, _ = _read(array, name, 0)
    if not contiguous:
        raise InvalidArgumentError(f"{name}: is not contiguous")
    shape = getattr(array, "shape", (found.size,))
    return found, tuple(int(extent) for extent in shape)


def lies_on_gpu(array: Any) -> bool:
    """Whether `array` is memory of a GPU, which NumPy does not see."""
    if isinstance(array, Array):
        return array.device_key[0] == CUDA
    if hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
        return bool(array.device.type == "cuda")
    return hasattr(array, "__cuda_array_interface__")


def strided_on_gpu(
    array: Any, name: str, group: OnDevice
) -> tuple[int, tuple[int, ...], tuple[int, ...], DType]:
    """The address, shape, strides in bytes and type of an array where `lies_on_gpu()`."""
    if isinstance(array, Array):
        array._require_open()
        pointer, dtype, device = array.pointer, array.dtype, array.device_key
    else:
        found, device, _, _ = _read(array, name, 0)
        pointer, dtype = found.pointer, found.dtype
    _require_device(device, name, group)

    shape = tuple(int(extent) for extent in array.shape)
    if hasattr(array, "stride"):  # of tensors, in elements
        return pointer, shape, tuple(one * dtype.itemsize for one in array.stride()), dtype
    strides = getattr(array, "strides", None)
    if strides is None:
        steps = [dtype.itemsize]
        for extent in reversed(shape[1:]):
            steps.append(steps[-1] * extent)
        strides = steps[::-1][: len(shape)] if shape else ()
    return pointer, shape, tuple(strides), dtype


def require_host_array(name: str, group: OnDevice) -> None:
    """Refuses an array of the host for a group that works on GPUs."""
    _require_device(_HOST, name, group)


def _require_device(device: Device, name: str, group: OnDevice) -> None:
    device_type, device_id = device
    if group._on_host:
        if device_type not in _ON_HOST:
            raise InvalidArgumentError(
                f"{name}: lies on a device (DLPack type {device_type}), "
                "the group works on host memory"
            )
    elif device_type not in _ON_CUDA:
        raise InvalidArgumentError(
            f"{name}: lies in host memory, the group works on CUDA device {group.device}"
        )
    elif device_type == CUDA and device_id != group.device:
        raise InvalidArgumentError(
            f"{name}: lies on CUDA device {device_id}, the group works on {group.device}"
        )


def _read(array: Any, name: str, stream: int) -> Found:
    if hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
        return _read_tensor(array, name)
    struct = getattr(array, "__array_struct__", None)
    if struct is not None:
        return _read_array_struct(array, struct, name)
    if hasattr(array, "__dlpack__"):
        return _read_dlpack(array, name, stream)
    return _read_buffer(array, name)


def _read_tensor(tensor: Any, name: str) -> Found:
    # PyTorch's own attributes are quicker than a capsule, and every version has them for all
    # element types.
    _require_resolved(tensor, name)
    kind = tensor.device.type
    if kind == "cuda":
        device = (CUDA, tensor.device.index)
    elif kind == "cpu":
        device = _HOST
    else:
        device = (_UNKNOWN_DEVICE_TYPE, 0)
    read = Operand(tensor.data_ptr(), tensor.numel(), dtype_of(tensor.dtype), tensor)
    return read, device, tensor.is_contiguous(), True


def _require_resolved(tensor: Any, name: str) -> None:
    # Other packages whose tensors have a data_ptr() have no such bits.
    if getattr(tensor, "is_neg", bool)():
        raise InvalidArgumentError(
            f"{name}: its memory has the elements with the other sign (is_neg()); "
            "resolve_neg() makes a tensor of the elements"
        )
    if getattr(tensor, "is_conj", bool)():
        raise InvalidArgumentError(
            f"{name}: its memory has the conjugated elements (is_conj()); "
            "resolve_conj() makes a tensor of the elements"
        )


def _read_array_struct(array: Any, struct: object, name: str) -> Found:
    # NumPy's array interface is quicker than DLPack. DLPack also lacks the types of ml_dtypes
    # and, before NumPy 2.1, read-only arrays.
    pointer, size, value, contiguous, writable, native = raw.array_struct_read(struct)
    if array.dtype.names:  # NumPy clears all flags of structured arrays there
        contiguous = array.flags.c_contiguous
        native = array.flags.aligned
        writable = True
    if not native:
        raise InvalidArgumentError(
            f"{name}: elements are not aligned or not in this machine's byte order"
        )

    # ml_dtypes may say that its types are floats, too, so only NumPy's own types are known by
    # their kind and size.
    known = by_value.get(value) if array.dtype.isbuiltin == 1 else None
    # NumPy's scalars show a copy of themselves, which is writable. The scalar itself is not.
    writable = writable and array.flags.writeable
    try:
        dtype = known or dtype_of(array.dtype)
    except ValueError as error:
        raise InvalidArgumentError(f"{name}: {error}") from None
    return Operand(pointer, size, dtype, struct), _HOST, contiguous, writable


def _read_dlpack(array: Any, name: str, stream: int) -> Found:
    device = array.__dlpack_device__()
    arguments: dict[str, Any] = {}
    if device[0] == CUDA:
        # The producer makes this stream wait for its pending work. In DLPack, 1 is the legacy
        # default stream.
        arguments["stream"] = stream or 1
    try:
        capsule = array.__dlpack__(max_version=(1, 1), **arguments)
    except TypeError:  # the producer is older than max_version
        capsule = array.__dlpack__(**arguments)

    pointer, size, value, device_type, device_id, contiguous, writable, _ = raw.dlpack_read(capsule)
    if value not in by_value:
        raise InvalidArgumentError(
            f"{name}: DLPack type code {value >> 8} with {value & 0xFF} bits is not known"
        )
    # JAX's arrays are immutable, although its capsules do not say so.
    writable = writable and type(array).__module__.partition(".")[0] not in ("jax", "jaxlib")
    read = Operand(pointer, size, by_value[value], capsule)
    return read, (device_type, device_id), contiguous, writable


def _read_buffer(array: Any, name: str) -> Found:
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(
            f"{name}: {type(array).__name__} has neither DLPack nor the buffer protocol"
        ) from None
    dtype = dtype_of_format(view.format)
    if dtype is None:
        raise InvalidArgumentError(f"{name}: elements of format {view.format!r} are not known")

    size = view.nbytes // view.itemsize
    pointer = _address_of(view) if view.c_contiguous and size else 0
    return Operand(pointer, size, dtype, view), _HOST, view.c_contiguous, not view.readonly


def _address_of(view: memoryview) -> int:
    import ctypes  # here, since most operands have other protocols

    # ctypes gives the address of writable buffers only. The address of bytes is read through a
    # pointer.
    if not view.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(view))
    if isinstance(view.obj, bytes) and view.nbytes == len(view.obj):
        return ctypes.cast(ctypes.c_char_p(view.obj), ctypes.c_void_p).value or 0
    raise InvalidArgumentError(
        "a read-only buffer other than bytes needs DLPack (NumPy: numpy.asarray(it))"
    )
