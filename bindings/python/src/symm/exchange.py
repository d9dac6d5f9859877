"""Exchanges of neighbours: what ranks put into each other's blocks in every round."""

from __future__ import annotations

from symm._library import Closing, Owned, raw
from symm._pieces import FIELDS, Numbers, Rows, pieces_of
from symm._streams import within
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    from symm._pieces import Side
    from symm.group import Group
    from symm.memory import Memory

    Fields: TypeAlias = tuple[int, int | None, int, int | None, int, int | None, int, int]


class Neighbor:
    """What this rank puts to a neighbour in every round of `Group.exchange()`.

    ``SymmArray.neighbor_part()`` makes it of slices, ``SymmArray.neighbor_rows()`` of indices of
    rows. A neighbour may have several.

    Args:
        rank: the neighbour.
        memory: the memory whose block of `rank` is written; None where there are no pieces.
        offset: from where the pieces count in the block, in bytes from its start.
        source: a contiguous array of this process, which is kept.
        pieces: a sequence of `Rows`; or a contiguous array of 64-bit integers with a row of six for
            each piece, for which `expected_nbytes` must be given.
        expected_nbytes: the bytes that `rank` puts here in a round; None: as many as are put.

    Attributes:
        rank: the neighbour.
        expected_nbytes: the bytes that it puts here in a round.
    """

    def __init__(
        self,
        rank: int,
        memory: Memory | None = None,
        offset: int = 0,
        source: Any = None,
        pieces: Sequence[Rows] | Any = (),
        *,
        expected_nbytes: int | None = None,
    ) -> None:
        if expected_nbytes is None:
            if not isinstance(pieces, (list, tuple)):
                raise InvalidArgumentError("expected_nbytes: is None, and pieces are an array")
            expected_nbytes = nbytes_of(pieces)
        self.rank = rank
        self.expected_nbytes: int = expected_nbytes
        self._where: tuple[int | None, int, int, int] = (None, 0, 0, 0)
        self._numbers = Numbers(0, 0, None, on_device=False)
        self._keep: tuple[object, ...] = ()

        if memory is not None:
            place, operand = memory._place(source, "source", None)
            self._put(memory, offset, place[0], place[1], pieces, operand)
        elif source is not None or len(pieces):
            raise InvalidArgumentError("memory: is None, and there are a source or pieces")

    def _put(
        self,
        memory: Memory,
        offset: int,
        pointer: int,
        nbytes: int,
        pieces: Sequence[Rows] | Any,
        keep: object,
    ) -> Neighbor:
        """Put pieces of `nbytes` bytes at `pointer`, which `keep` keeps."""
        self._where = (memory._handle, offset, pointer, nbytes)
        self._numbers = pieces_of(pieces, memory.group)
        self._keep = (memory, keep)
        return self

    def _fields_of(self) -> Fields:
        """The tuple that symm._raw takes."""
        numbers = self._numbers
        return (
            self.rank,
            *self._where,
            numbers.pointer,
            numbers.size // FIELDS,
            self.expected_nbytes,
        )


def nbytes_of(pieces: Iterable[Rows]) -> int:
    """The bytes that pieces copy."""
    return sum(piece.nbytes * max(piece.rows, 1) for piece in (Rows(*one) for one in pieces))


def neighbor_of(
    rank: int,
    memory: Memory,
    offset: int,
    side: Side,
    pieces: list[Rows],
    expected_nbytes: int | None,
    keep: object,
) -> Neighbor:
    """A neighbour to which pieces of a source of any strides go."""
    if expected_nbytes is None:
        expected_nbytes = nbytes_of(pieces)
    made = Neighbor(rank, expected_nbytes=expected_nbytes)
    return made._put(memory, offset, side.pointer, side.nbytes, pieces, keep)


class Exchange(Owned, Closing):
    """What this rank and its neighbours put into each other's blocks, round by round.

    ``Group.exchange()`` makes it. A round is `start()` and then `finish()`; between them the
    program works on what does not depend on the neighbours. ::

        for _ in range(steps):
            exchange.start()
            work_inside(grid)
            exchange.finish()
            work_at_the_edge(grid)

    - Between `finish()` and the next `start()` what came may be read, and no neighbour writes
      there: a rank that is ahead waits.
    - Between `start()` and `finish()` leave the sources as they are, and do not touch what comes.

    On a GPU each of the two is one kernel on a stream, which a graph may record, and what is said
    of their ends is so when the stream has come there.

    It keeps sources and memories alive. One thread at a time may be in a call on it.

    Attributes:
        group: the group.
        neighbors: what goes to each neighbour.
    """

    def __init__(self, handle: int, group: Group, neighbors: tuple[Neighbor, ...]) -> None:
        super().__init__(handle, raw.symm_exchange_release)
        self.group = group
        self.neighbors = neighbors

    def start(self, *, timeout: float | None = None, stream: Any = None) -> None:
        """Begin a round: put to all neighbours that are ready for it.

        [local] [stream; blocking on the host]

        Waits for no rank to make a call. What neighbours are not ready for, `finish()` puts.

        Args:
            timeout: seconds that ranks on other machines may take; None: the group's.
            stream: the stream of the call.

        Raises:
            InvalidArgumentError: the last round is not finished.
            symm.TimeoutError: a rank on another machine does not take what is sent. The round has
                begun.
            PeerFailedError: a rank died.
        """
        raw.symm_exchange_start(self._handle, within(timeout), self.group._stream(stream))

    def finish(self, *, timeout: float | None = None, stream: Any = None) -> None:
        """End the round: wait until all neighbours have put. [local] [stream; blocking on the host]

        Args:
            timeout: seconds; None: the group's; 0 looks once, but not on a GPU.
            stream: the stream of the call.

        Raises:
            InvalidArgumentError: no round was started.
            symm.TimeoutError: a neighbour has not started the round, or has not put, and the
                exception names it. The call may be made again. On a GPU the group is revoked.
            PeerFailedError: a rank died, or a neighbour left that has not put.
        """
        raw.symm_exchange_finish(self._handle, within(timeout), self.group._stream(stream))


def make(group: Group, neighbors: Iterable[Neighbor], timeout: float | None) -> Exchange:
    """Make the exchange of `Group.exchange()`."""
    listed = tuple(neighbors)
    fields = [neighbor._fields_of() for neighbor in listed]
    handle = raw.symm_exchange_create(group._handle, fields, within(timeout))
    return Exchange(handle, group, listed)
