# SPDX-License-Identifier: Apache-2.0
"""What the generated enums and dataclasses are made of."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

F = TypeVar("F", bound="Filled")
E = TypeVar("E", bound=IntEnum)


class OpenEnum(IntEnum):
    """Values of ``symm.h``. A number that only a newer library knows is no error, but a value called ``UNKNOWN_<number>``."""

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        made = int.__new__(cls, value)
        made._name_, made._value_ = f"UNKNOWN_{value}", value
        return made


@dataclass(frozen=True)
class Filled:
    """A struct that the library filled. Its fields are those of ``symm.h`` after struct_size, LAYOUT their types for struct."""

    LAYOUT: ClassVar[str]

    @classmethod
    def read(cls: type[F], data: bytes) -> F:
        """The struct whose bytes the extension returned."""
        kinds: list[Any] = [field.type for field in fields(cls)]
        values = struct.unpack_from(cls.LAYOUT, data)
        return cls(*(_text(value) if kind is str else kind(value) for kind, value in zip(kinds, values, strict=True)))


def _text(chars: bytes) -> str:
    return chars.partition(b"\0")[0].decode("utf-8", "replace")


def member(kind: type[E], value: E | str | int) -> E:
    """The constant that `value` is or names, ``"sum"`` and ``"SUM"`` alike.

    Raises:
        ValueError: there is no such constant.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        try:
            return kind[value.upper().replace("-", "_")]
        except KeyError:
            names = ", ".join(name.lower() for name in kind.__members__)
            raise ValueError(f"{value!r} is no {kind.__name__}; there are {names}") from None
    return kind(value)
