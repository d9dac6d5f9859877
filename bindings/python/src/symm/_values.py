"""What the generated enums and dataclasses are made of."""

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
    """Values of ``symm.h``. A number that only a newer library knows is no error, but a
    value called ``UNKNOWN_<number>``.
    """

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        made = int.__new__(cls, value)
        made._name_, made._value_ = f"UNKNOWN_{value}", value
        return made


@dataclass(frozen=True)
class Filled:
    """A struct that the library filled. Its fields are those of ``symm.h`` after
    struct_size, LAYOUT their types for struct.
    """

    LAYOUT: ClassVar[str]

    @classmethod
    def read(cls: type[F], data: bytes) -> F:
        """The struct whose bytes the extension returned."""
        values = iter(struct.unpack_from(cls.LAYOUT, data))
        letters = cls.LAYOUT.split()[1:]
        return cls(
            *(
                _field(field.type, letter, values)
                for field, letter in zip(fields(cls), letters, strict=True)
            )
        )


def _field(kind: Any, letter: str, values: Iterator[Any]) -> Any:
    if kind is str:
        return next(values).partition(b"\0")[0].decode("utf-8", "replace")
    if kind == tuple[int, ...]:
        return tuple(islice(values, int(letter[:-1])))
    return kind(next(values))


def member(kind: type[E], value: E | str | int) -> E:
    """The constant that `value` is or names, ``"sum"`` and ``"SUM"`` alike;
    InvalidArgumentError if there is none.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        try:
            return kind[value.upper().replace("-", "_")]
        except KeyError:
            from symm.errors import InvalidArgumentError  # which needs the enums

            names = ", ".join(name.lower() for name in kind.__members__)
            raise InvalidArgumentError(
                f"unknown {kind.__name__.lower()} {value!r}; expected one of {names}"
            ) from None
    return kind(value)
