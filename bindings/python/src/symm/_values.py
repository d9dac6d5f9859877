"""Base classes of the enums and dataclasses that are generated from ``symm.h``."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

F = TypeVar("F", bound="Filled")
E = TypeVar("E", bound=IntEnum)


class OpenEnum(IntEnum):
    """An enum of ``symm.h`` that a newer library may extend.

    A number that only a newer library knows is not an error. It becomes a member whose name
    is ``UNKNOWN_<number>``.
    """

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_ = f"UNKNOWN_{value}"
        unknown._value_ = value
        return unknown


@dataclass(frozen=True)
class Filled:
    """A struct that the library has filled.

    Its fields are those of ``symm.h`` after struct_size. LAYOUT has their types in the notation
    of the package struct.
    """

    LAYOUT: ClassVar[str]

    @classmethod
    def read(cls: type[F], data: bytes) -> F:
        """Read the struct from the bytes that the extension returned."""
        values = iter(struct.unpack_from(cls.LAYOUT, data))
        letters = cls.LAYOUT.split()[1:]  # behind the one that skips struct_size
        typed = zip(fields(cls), letters, strict=True)
        return cls(*(_take(field.type, letter, values) for field, letter in typed))


def _take(kind: Any, letter: str, values: Iterator[Any]) -> Any:
    """Take the value or values of one field, and convert them to its type `kind`."""
    if kind is str:
        return next(values).partition(b"\0")[0].decode("utf-8", "replace")
    if kind == tuple[int, ...]:
        return tuple(islice(values, int(letter[:-1])))
    return kind(next(values))


def member(kind: type[E], value: E | str | int) -> E:
    """The member of `kind` that `value` is or names, for instance ``"sum"`` or ``"SUM"``.

    Raises:
        InvalidArgumentError: `kind` has no member of that name.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        try:
            return kind[value.upper().replace("-", "_")]
        except KeyError:
            from symm.errors import InvalidArgumentError  # symm.errors itself needs the enums

            names = ", ".join(name.lower() for name in kind.__members__)
            raise InvalidArgumentError(
                f"unknown {kind.__name__.lower()} {value!r}; expected one of {names}"
            ) from None
    return kind(value)
