"""Element types.

A parameter that takes an element type accepts a `DType`, its name (``"f32"``), the name that
NumPy, PyTorch and JAX use (``"float32"``), or a type object of these packages
(``np.float32``, ``torch.float32``). None of the packages is needed or imported here.

A pair of a value and an index, for ``op="minloc"`` and ``"maxloc"``, is a structured type of NumPy
with two fields: ``np.dtype([("value", "f4"), ("index", "i4")])`` is `f32_i32`. The names of the
fields do not matter.
"""

from __future__ import annotations

from symm._library import raw
from symm._values import Record
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any, TypeAlias


class DType(Record):
    """An element type.

    Attributes:
        name: the name in ``symm.h``, in lower case.
        value: SYMM_DTYPE_*, which is (DLPack type code) << 8 | bits.
        itemsize: the number of bytes of an element.
        long_name: the name in NumPy (with ml_dtypes), PyTorch and JAX; of a pair `name`.
        format: the format in the buffer protocol, or "" if it has none.
    """

    name: str
    value: int
    itemsize: int
    long_name: str
    format: str

    def __repr__(self) -> str:
        return f"symm.{self.name}" + ("_" if self.name == "bool" else "")

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return self.value >> 8 == _COMPLEX

    @property
    def is_pair(self) -> bool:
        """Whether elements are pairs of a value and an index."""
        return self.value >> 8 >= _PAIR

    @property
    def part(self) -> DType:
        """The type of both parts of a complex number, or of a pair's value; else the type."""
        return _PARTS[self.name][0] if self.name in _PARTS else self

    @property
    def descr(self) -> list[tuple[str, str]] | None:
        """The fields of a pair, as NumPy describes them; None of other types."""
        if not self.is_pair:
            return None
        value, index = _PARTS[self.name]
        return [("value", str(value.typestr)), ("index", str(index.typestr))]

    @property
    def typestr(self) -> str | None:
        """NumPy's type string; None if NumPy does not have the type."""
        if not self.format:
            return None
        kind = "V" if self.is_pair else _KINDS[self.value >> 8]
        return f"{'|' if self.itemsize == 1 or self.is_pair else '<'}{kind}{self.itemsize}"


# DLPack's type codes, and the least code of pairs, which DLPack does not have.
_COMPLEX = 5
_PAIR = 0x80
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


f64: DType = DType("f64", raw.SYMM_DTYPE_F64, 8, "float64", "d")
f32: DType = DType("f32", raw.SYMM_DTYPE_F32, 4, "float32", "f")
f16: DType = DType("f16", raw.SYMM_DTYPE_F16, 2, "float16", "e")
bf16: DType = DType("bf16", raw.SYMM_DTYPE_BF16, 2, "bfloat16", "")
f8e4m3: DType = DType("f8e4m3", raw.SYMM_DTYPE_F8E4M3, 1, "float8_e4m3fn", "")
f8e5m2: DType = DType("f8e5m2", raw.SYMM_DTYPE_F8E5M2, 1, "float8_e5m2", "")
i8: DType = DType("i8", raw.SYMM_DTYPE_I8, 1, "int8", "b")
u8: DType = DType("u8", raw.SYMM_DTYPE_U8, 1, "uint8", "B")
i16: DType = DType("i16", raw.SYMM_DTYPE_I16, 2, "int16", "h")
u16: DType = DType("u16", raw.SYMM_DTYPE_U16, 2, "uint16", "H")
bool_: DType = DType("bool", raw.SYMM_DTYPE_BOOL, 1, "bool", "?")
i32: DType = DType("i32", raw.SYMM_DTYPE_I32, 4, "int32", "i")
u32: DType = DType("u32", raw.SYMM_DTYPE_U32, 4, "uint32", "I")
i64: DType = DType("i64", raw.SYMM_DTYPE_I64, 8, "int64", "q")
u64: DType = DType("u64", raw.SYMM_DTYPE_U64, 8, "uint64", "Q")
c64: DType = DType("c64", raw.SYMM_DTYPE_C64, 8, "complex64", "Zf")
c128: DType = DType("c128", raw.SYMM_DTYPE_C128, 16, "complex128", "Zd")
i32_i32: DType = DType("i32_i32", raw.SYMM_DTYPE_I32_I32, 8, "i32_i32", "T{i:value:i:index:}")
i64_i64: DType = DType("i64_i64", raw.SYMM_DTYPE_I64_I64, 16, "i64_i64", "T{q:value:q:index:}")
f32_i32: DType = DType("f32_i32", raw.SYMM_DTYPE_F32_I32, 8, "f32_i32", "T{f:value:i:index:}")
f64_i64: DType = DType("f64_i64", raw.SYMM_DTYPE_F64_I64, 16, "f64_i64", "T{d:value:q:index:}")

_PARTS = {
    "c64": (f32, f32),
    "c128": (f64, f64),
    "i32_i32": (i32, i32),
    "i64_i64": (i64, i64),
    "f32_i32": (f32, i32),
    "f64_i64": (f64, i64),
}

_PLAIN = (f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i16, u16, bool_, i32, u32, i64, u64)
_PAIRS = (i32_i32, i64_i64, f32_i32, f64_i64)
ALL = (*_PLAIN, c64, c128, *_PAIRS)

DTypeLike: TypeAlias = "Any"
"""A `DType`, a name, or a type object of NumPy, ml_dtypes, PyTorch or JAX."""

by_value: dict[int, DType] = {dtype.value: dtype for dtype in ALL}
_by_name: dict[str, DType] = {
    name: dtype for dtype in ALL for name in (dtype.name, dtype.long_name)
}
_by_name["bool_"] = bool_
# Formats of the buffer protocol. l and L have 8 bytes on every platform that symm supports.
_by_format: dict[str, DType] = {dtype.format: dtype for dtype in ALL if dtype.format}
_by_format["l"] = i64
_by_format["L"] = u64
_by_fields: dict[tuple[DType, DType], DType] = {_PARTS[dtype.name]: dtype for dtype in _PAIRS}


def dtype_of(given: DTypeLike) -> DType:
    """The `DType` that `given` is or names.

    Raises:
        InvalidArgumentError: symm has no such element type.
    """
    if isinstance(given, DType):
        return given
    if isinstance(given, str):
        found = _by_name.get(given)
    elif getattr(given, "names", None):
        found = _pair_of(given)
    else:
        # numpy.dtype has `name`. Type objects of NumPy and ml_dtypes have `__name__`. Those of
        # PyTorch have neither, and are printed as torch.float32.
        name = getattr(given, "name", None) or getattr(given, "__name__", None) or str(given)
        found = _by_name.get(str(name).rpartition(".")[2])

    if found is None:
        raise InvalidArgumentError(
            f"unknown dtype {given!r}; expected one of {', '.join(dtype.name for dtype in ALL)}"
        )

    return found


def _pair_of(given: Any) -> DType | None:
    """The `DType` of a structured type of NumPy; None if there is none."""
    fields = [given.fields[name] for name in given.names]
    if len(fields) != 2 or any(field[0].names or not field[0].isnative for field in fields):
        return None
    (value, at), (index, behind) = (field[:2] for field in fields)
    pair = _by_fields.get((_by_name.get(value.name, u8), _by_name.get(index.name, u8)))
    is_packed = at == 0 and behind == value.itemsize and given.itemsize == 2 * behind
    return pair if is_packed else None


def dtype_of_format(letters: str) -> DType | None:
    """The `DType` of a buffer protocol format in native byte order; None if there is none."""
    if not letters.lstrip("@=<").startswith("T{"):
        return _by_format.get(letters.lstrip("@=<"))

    import re  # takes long to import

    fields = re.fullmatch(r"[@=<]?T\{[@=<]?(\w):[^:]*:[@=<]?(\w):[^:]*:\}", letters)
    if fields is None:
        return None
    value, index = (_by_format.get(letter) for letter in fields.groups())
    return _by_fields.get((value, index)) if value and index else None
