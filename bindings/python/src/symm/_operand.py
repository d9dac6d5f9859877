"""Arrays of any package as operands: where they lie, how many elements of what, on which device."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

from symm._library import raw
from symm._view import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, View
from symm.dtypes import DType, by_value, dtype_of, dtype_of_format
from symm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    AnyOperand: TypeAlias = "Operand | View"
    Device: TypeAlias = tuple[int, int]  # DLPack's (device type, device id)

    class OnDevice(Protocol):
        """The device that a group works on, as far as operands are checked against it."""

        _on_host: bool
        device: int
        device_key: Device

_HOST = (CPU, 0)
_ON_HOST = frozenset({CPU, CUDA_HOST})
_ON_CUDA = frozenset({CUDA, CUDA_HOST, CUDA_MANAGED})


class Operand(NamedTuple):
    """A contiguous array as the library sees it. `keep` holds its memory."""

    pointer: int
    size: int
    dtype: DType
    keep: object

    @property
    def code(self) -> int:
        """SYMM_DTYPE_* of the elements."""
        return self.dtype.value


def operand(
    array: Any, name: str, group: OnDevice, stream: int, *, written: bool
) -> Operand | View:
    """Read `array` as an operand of a call on `group`, ordered on `stream`.

    Accepted are symmetric arrays, tensors of PyTorch, NumPy arrays (with ml_dtypes),
    whatever speaks DLPack, and on the host whatever has the buffer protocol.

    Raises:
        InvalidArgumentError: it is not contiguous, cannot be written, has an unknown
        element type, or lies on another device. TypeError: it is no array.
    """
    found: Operand | View
    if isinstance(array, View):
        array._require_open()
        if array.device_key == group.device_key:
            return array
        found, device, contiguous, writable = array, array.device_key, True, True
    elif hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
        found, device, contiguous, writable = _of_tensor(array)
    elif (struct := getattr(array, "__array_struct__", None)) is not None:
        found, device, contiguous, writable = _of_array_struct(array, struct, name)
    elif hasattr(array, "__dlpack__"):
        found, device, contiguous, writable = _of_dlpack(array, name, stream)
    else:
        found, device, contiguous, writable = _of_buffer(array, name)
    if not contiguous:
        raise InvalidArgumentError(f"{name}: is not contiguous")
    if written and not writable:
        raise InvalidArgumentError(f"{name}: is read-only")
    _require_device(device, name, group)
    return found


def _require_device(device: tuple[int, int], name: str, group: OnDevice) -> None:
    if group._on_host:
        if device[0] not in _ON_HOST:
            raise InvalidArgumentError(
                f"{name}: lies on a device (DLPack type {device[0]}), the group works on host memory"
            )
    elif device[0] not in _ON_CUDA:
        raise InvalidArgumentError(
            f"{name}: lies in host memory, the group works on CUDA device {group.device}"
        )
    elif device[0] == CUDA and device[1] != group.device:
        raise InvalidArgumentError(
            f"{name}: lies on CUDA device {device[1]}, the group works on {group.device}"
        )


_Found = tuple[Operand, tuple[int, int], bool, bool]


def _of_tensor(tensor: Any) -> _Found:
    # PyTorch: quicker than a capsule, and every version of it has all types this way.
    device = tensor.device
    kind = (
        (CUDA, device.index) if device.type == "cuda" else (CPU if device.type == "cpu" else -1, 0)
    )
    return (
        Operand(tensor.data_ptr(), tensor.numel(), dtype_of(tensor.dtype), tensor),
        kind,
        tensor.is_contiguous(),
        True,
    )


def _of_array_struct(array: Any, struct: object, name: str) -> _Found:
    # NumPy: quicker than DLPack, which besides does not take
    # ml_dtypes and, before NumPy 2.1, what is read-only.
    pointer, size, value, contiguous, writable, native = raw.array_struct_read(struct)
    if not native:
        raise InvalidArgumentError(
            f"{name}: elements are not aligned or not in this machine's byte order"
        )
    # ml_dtypes may call its types floats too
    known = by_value.get(value) if array.dtype.isbuiltin == 1 else None
    writable = writable and array.flags.writeable  # NumPy's numbers show a copy, which is
    try:
        return (
            Operand(pointer, size, known or dtype_of(array.dtype), struct),
            _HOST,
            contiguous,
            writable,
        )
    except ValueError as error:
        raise InvalidArgumentError(f"{name}: {error}") from None


def _of_dlpack(array: Any, name: str, stream: int) -> _Found:
    kind = array.__dlpack_device__()
    # The producer makes our stream wait for what is
    # under way; 1 stands for the legacy default stream.
    arguments: dict[str, Any] = {"stream": stream or 1} if kind[0] == CUDA else {}
    try:
        capsule = array.__dlpack__(max_version=(1, 1), **arguments)
    except TypeError:  # a producer of before max_version
        capsule = array.__dlpack__(**arguments)
    pointer, size, value, device_type, device_id, contiguous, writable, _ = raw.dlpack_read(capsule)
    if value not in by_value:
        raise InvalidArgumentError(
            f"{name}: DLPack type code {value >> 8} with {value & 0xFF} bits is not known"
        )
    # JAX's arrays are immutable, although its capsules do not say so.
    writable = writable and type(array).__module__.partition(".")[0] not in ("jax", "jaxlib")
    return (
        Operand(pointer, size, by_value[value], capsule),
        (device_type, device_id),
        contiguous,
        writable,
    )


def _of_buffer(array: Any, name: str) -> _Found:
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
    pointer = _address(view) if view.c_contiguous and size else 0
    return Operand(pointer, size, dtype, view), _HOST, view.c_contiguous, not view.readonly


def _address(view: memoryview) -> int:
    """The address of a buffer. ctypes tells it for writable
    ones only; bytes are read through a pointer.
    """
    if not view.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(view))
    if isinstance(view.obj, bytes) and view.nbytes == len(view.obj):
        return ctypes.cast(ctypes.c_char_p(view.obj), ctypes.c_void_p).value or 0
    raise InvalidArgumentError(
        "a read-only buffer other than bytes needs DLPack (NumPy: numpy.asarray(it))"
    )
