"""Base classes of the enums and records that are generated from ``symm.h``.

What this module and the others of the package import at their head decides how long ``import
symm`` takes. So records are no dataclasses: that package makes source texts, and compiles them.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from itertools import islice

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar, TypeVar

    from typing_extensions import dataclass_transform

    F = TypeVar("F", bound="Filled")
    E = TypeVar("E", bound=IntEnum)
else:

    def dataclass_transform(**_: Any) -> Any:
        """Nothing: only checkers of types need to know."""
        return lambda record: record


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


class _OfDataclass:
    """An attribute that the packages dataclasses and inspect look for, made when they do."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, _: object, record: type[Record]) -> Any:
        import dataclasses
        import inspect

        types = record.__annotations__
        fields = [(name, types.get(name, object)) for name in record._names]
        made = dataclasses.make_dataclass(record.__name__, fields, frozen=True)
        if self._name == "__signature__":
            return inspect.signature(made)
        return getattr(made, self._name)


@dataclass_transform(frozen_default=True)
class Record:
    """A value whose fields are the annotations of its class.

    It behaves as a frozen dataclass, also to the package dataclasses.
    """

    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = tuple(name for name in cls.__annotations__ if name.islower() and name[0] != "_")
        cls._names = (*cls._names, *own)
        setattr(cls, "__match_args__", cls._names)  # noqa: B010 - checkers know their own

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self._names
        rest = names[len(values) :]
        if len(values) > len(names) or set(named) != set(rest):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}")
        self.__dict__.update(zip(names, (*values, *(named[name] for name in rest)), strict=True))

    def __setattr__(self, name: str, _: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__qualname__}({fields})"


# Behind the class, so that no checker takes them for fields.
for _name in ("__dataclass_fields__", "__dataclass_params__", "__signature__"):
    setattr(Record, _name, _OfDataclass(_name))


class Filled(Record):
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
        typed = zip(cls._types(), letters, strict=True)
        return cls(*(_take(kind, letter, values) for kind, letter in typed))

    @classmethod
    def _types(cls) -> tuple[Any, ...]:
        """The types of the fields, in their order."""
        every: dict[str, Any] = {}
        for base in reversed(cls.__mro__[:-1]):
            every.update(base.__annotations__)
        return tuple(every[name] for name in cls._names)


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
