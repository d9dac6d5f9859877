"""The sides of messages, for `Group.messages()`."""

from __future__ import annotations

from collections import namedtuple

from symm._library import raw

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from typing import Any, NamedTuple, TypeAlias

    Fields: TypeAlias = tuple[int, int, int, int | None, int | None, int]

    class _Side(NamedTuple):
        rank: int
        array: Any
        channel: int = 0
else:
    _Side = namedtuple("_Side", "rank array channel", defaults=(0,))


class Send(_Side):
    """What this rank sends.

    Attributes:
        rank: the rank that receives.
        array: a contiguous array, all of which is sent.
        channel: the channel of the message.
    """

    __slots__ = ()

    def _fields_of(self, pointer: int, nbytes: int) -> Fields:
        """The tuple that symm._raw takes."""
        return (raw.SYMM_MESSAGE_SEND, self.rank, self.channel, pointer, None, nbytes)


class Recv(_Side):
    """Where this rank receives.

    Attributes:
        rank: the rank that sends.
        array: a contiguous array; the message may be shorter.
        channel: the channel of the message.
    """

    __slots__ = ()

    def _fields_of(self, pointer: int, nbytes: int) -> Fields:
        """The tuple that symm._raw takes."""
        return (raw.SYMM_MESSAGE_RECV, self.rank, self.channel, None, pointer, nbytes)
