# SPDX-License-Identifier: Apache-2.0
"""The constants of ``symm.h``, by their names there without the prefix."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TypeVar

from symm._library import raw


class Status(IntEnum):
    """Result of a call. Failures have an exception class each, see ``symm.errors``."""

    OK = raw.SYMM_OK
    INVALID_ARGUMENT = raw.SYMM_ERR_INVALID_ARGUMENT
    INVALID_HANDLE = raw.SYMM_ERR_INVALID_HANDLE
    OUT_OF_MEMORY = raw.SYMM_ERR_OUT_OF_MEMORY
    UNAVAILABLE = raw.SYMM_ERR_UNAVAILABLE
    UNSUPPORTED = raw.SYMM_ERR_UNSUPPORTED
    TIMEOUT = raw.SYMM_ERR_TIMEOUT
    ABORTED = raw.SYMM_ERR_ABORTED
    PEER_FAILED = raw.SYMM_ERR_PEER_FAILED
    MISMATCH = raw.SYMM_ERR_MISMATCH
    SYSTEM = raw.SYMM_ERR_SYSTEM
    CUDA = raw.SYMM_ERR_CUDA
    BUSY = raw.SYMM_ERR_BUSY
    INTERNAL = raw.SYMM_ERR_INTERNAL


class Op(IntEnum):
    """Reduction. Ranks are combined in the order 0, 1, ..., so the result has the same bits on all ranks."""

    SUM = raw.SYMM_OP_SUM
    AVG = raw.SYMM_OP_AVG
    MIN = raw.SYMM_OP_MIN
    MAX = raw.SYMM_OP_MAX
    PROD = raw.SYMM_OP_PROD


class Backend(IntEnum):
    """What memory a group works on."""

    AUTO = raw.SYMM_BACKEND_AUTO
    HOST = raw.SYMM_BACKEND_HOST
    CUDA = raw.SYMM_BACKEND_CUDA


class Collective(IntEnum):
    """Collective operations, for ``Group.plan()``."""

    ALLREDUCE = raw.SYMM_COLLECTIVE_ALLREDUCE
    REDUCE_SCATTER = raw.SYMM_COLLECTIVE_REDUCE_SCATTER
    ALLGATHER = raw.SYMM_COLLECTIVE_ALLGATHER
    BROADCAST = raw.SYMM_COLLECTIVE_BROADCAST
    REDUCE = raw.SYMM_COLLECTIVE_REDUCE
    ALLTOALL = raw.SYMM_COLLECTIVE_ALLTOALL


class Algorithm(IntEnum):
    """Algorithms of a collective. All give the same bits, but for the two of multicast, used only where they are asked for."""

    AUTO = raw.SYMM_ALGORITHM_AUTO
    LL = raw.SYMM_ALGORITHM_LL
    ONE_SHOT = raw.SYMM_ALGORITHM_ONE_SHOT
    TWO_SHOT = raw.SYMM_ALGORITHM_TWO_SHOT
    TWO_SHOT_STAGED = raw.SYMM_ALGORITHM_TWO_SHOT_STAGED
    HYBRID_CUBE_MESH = raw.SYMM_ALGORITHM_HYBRID_CUBE_MESH
    MULTIMEM_ONE_SHOT = raw.SYMM_ALGORITHM_MULTIMEM_ONE_SHOT
    MULTIMEM_TWO_SHOT = raw.SYMM_ALGORITHM_MULTIMEM_TWO_SHOT


class TopologyClass(IntEnum):
    """Class of the links between devices."""

    UNKNOWN = raw.SYMM_TOPOLOGY_UNKNOWN
    FULLY_CONNECTED = raw.SYMM_TOPOLOGY_FULLY_CONNECTED
    HYBRID_CUBE_MESH = raw.SYMM_TOPOLOGY_HYBRID_CUBE_MESH


class GroupFlag(IntFlag):
    """Bits of a group's configuration."""

    OVERLAPPING_DEVICES = raw.SYMM_GROUP_OVERLAPPING_DEVICES
    CHECK = raw.SYMM_GROUP_CHECK
    MULTICAST = raw.SYMM_GROUP_MULTICAST


E = TypeVar("E", bound=IntEnum)


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
