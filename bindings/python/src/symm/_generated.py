# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""The constants of the header, and the structs that the library fills. Generated from symm.h by bindings/generator/generate.py; a test compares."""

from dataclasses import dataclass
from enum import IntFlag
from typing import ClassVar

from symm._values import Filled, OpenEnum


class Status(OpenEnum):
    """Result of a call.

    Values are fixed for ever; new ones may be added.
    """

    OK = 0
    INVALID_ARGUMENT = -1  # an argument is out of range; the message names it
    INVALID_HANDLE = -2  # NULL, released, of another type, or inherited through fork()
    OUT_OF_MEMORY = -3  # host or device memory, or a limit on it
    UNAVAILABLE = -4  # no such device, driver, launcher or feature on this machine
    UNSUPPORTED = -5  # this library does not do that (for instance a newer struct)
    TIMEOUT = -6  # a deadline passed; the message names who was awaited
    ABORTED = -7  # symm_group_abort() was called, here or on another rank
    PEER_FAILED = -8  # a rank died or left; the message gives its rank and pid
    MISMATCH = -9  # ranks disagree (size, operation, data type, count ...)
    SYSTEM = -10  # a system call failed; the message names it and its errno
    CUDA = -11  # a CUDA driver call failed; the message names it and its result
    BUSY = -12  # the object is in use
    INTERNAL = -13  # a defect of this library


class Op(OpenEnum):
    """Reduction.

    Ranks are combined in the order 0, 1, ..., size-1 on every rank and in every algorithm, so the result has the same bits
    everywhere. F16, BF16 and F8 are combined in f32 and rounded once, to nearest even. Integers wrap. MIN and MAX return NaN if
    any operand is NaN. AVG is the sum divided by the number of ranks (integers: truncated towards zero). The payload of a NaN
    result is unspecified.
    """

    SUM = 0
    AVG = 1
    MIN = 2
    MAX = 3
    PROD = 4


class Backend(OpenEnum):
    """What memory a group works on."""

    AUTO = 0  # CUDA where a device is usable, else host
    HOST = 1  # memory shared between processes of one machine
    CUDA = 2


class Collective(OpenEnum):
    """Collective operations, for symm_collective_plan()."""

    ALLREDUCE = 0
    REDUCE_SCATTER = 1
    ALLGATHER = 2
    BROADCAST = 3
    REDUCE = 4
    ALLTOALL = 5


class Algorithm(OpenEnum):
    """Algorithms.

    All give the same bits, but for the two of multicast (MULTIMEM), in which the switch adds, in an order of its own: they are
    used only where they are asked for.
    """

    AUTO = 0
    LL = 1  # flag in data: the message rides in the line that signals it
    ONE_SHOT = 2  # every rank publishes its input, every rank combines all
    TWO_SHOT = 3  # each rank combines its slice and stores it to all; on the host without a copy
    TWO_SHOT_STAGED = 4  # the same in chunks through library memory; any buffer
    HYBRID_CUBE_MESH = 5  # 8 ranks, each touching 4 neighbours only
    MULTIMEM_ONE_SHOT = 6  # every rank loads the sum from send's multicast address; not in place
    MULTIMEM_TWO_SHOT = 7  # each rank loads the sum of its slice and stores it to all, by multicast


class TopologyClass(OpenEnum):
    """Class of the links between devices."""

    UNKNOWN = 0
    FULLY_CONNECTED = 1
    HYBRID_CUBE_MESH = 2


class GroupFlag(IntFlag):
    """Bits of symm_group_config_t.flags."""

    OVERLAPPING_DEVICES = 1  # several ranks may use one CUDA device
    CHECK = 2  # compare the arguments of every collective on all ranks; as SYMM_CHECK=1
    MULTICAST = 4  # multicast addresses for the group's memories, where they can be had; as SYMM_MULTICAST=1. All ranks must ask; see symm_memory_multicast_pointer()


@dataclass(frozen=True)
class Failure(Filled):
    """The last failure of this thread, whole."""

    LAYOUT: ClassVar[str] = "8x i i q 1024s"
    status: Status  #: SYMM_OK before the first failure
    rank: int  #: the rank to blame, as numbered in the group of the call; -1: nobody in particular
    pid: int  #: its process, as its own machine numbers it; 0: not known
    message: str  #: as symm_last_error()


@dataclass(frozen=True)
class DeviceInfo(Filled):
    """What is known of one device."""

    LAYOUT: ClassVar[str] = "8x i i Q i i i i 128s 64s 128s 128s 128s i i 128s"
    backend: Backend
    device: int
    memory_bytes: int  #: total memory
    compute_units: int  #: processors this process may use, or multiprocessors
    multicast: bool  #: whether multicast addresses can be had by asking for them (SYMM_GROUP_MULTICAST)
    fabric: bool  #: whether memory can be shared across machines
    dmabuf: bool  #: whether memory can be exported as DMA-BUF
    name: str  #: product name
    uuid: str  #: GPU UUID; for the host, the boot id
    multicast_reason: str  #: why multicast is False, else ""
    fabric_reason: str  #: why fabric is False, else ""
    dmabuf_reason: str  #: why dmabuf is False, else ""
    host_memory: bool  #: whether SYMM_ALLOC_HOST can be had
    numa_node: int  #: of the host, nearest to the device; -1 if unknown, and for the host itself
    host_memory_reason: str  #: why host_memory is False, else ""


@dataclass(frozen=True)
class GroupInfo(Filled):
    """What is known of a group."""

    LAYOUT: ClassVar[str] = "8x i i i i Q i i Q 64s 64s i 192s"
    rank: int
    size: int
    backend: Backend
    device: int
    id: int  #: the same on all ranks, different for every group
    channels: int  #: barrier channels, and signal channels of each memory: 0 .. channels-1
    unwatched_peers: int  #: peers whose death is noticed by their closed socket only, for want of a pidfd
    rejected_connections: int  #: connection attempts refused during creation: wrong user or wrong group
    bootstrap: str  #: what the ranks were found by, for instance "env:// (Open MPI)"
    name: str
    multicast: bool  #: whether its memories are given multicast addresses
    multicast_reason: str  #: why multicast is False, else ""; the same on all ranks


@dataclass(frozen=True)
class GroupStatus(Filled):
    """Health of a group."""

    LAYOUT: ClassVar[str] = "8x i i q 256s"
    status: Status  #: SYMM_OK, or why the group was revoked
    failed_rank: int  #: rank that caused it, -1 if none
    failed_pid: int  #: its process id where known, else 0
    message: str  #: "" while status is SYMM_OK


@dataclass(frozen=True)
class MemoryInfo(Filled):
    """What is known of a memory."""

    LAYOUT: ClassVar[str] = "8x i i Q Q i i i 192s"
    rank: int
    size: int  #: ranks
    bytes: int  #: of each block
    id: int  #: the same on all ranks
    channels: int  #: signal channels
    signal_pad_bytes: int  #: of each pad: channels * size * 4
    multicast: bool  #: whether it has a multicast address, then on all ranks
    multicast_reason: str  #: why multicast is False, else ""; the same on all ranks


@dataclass(frozen=True)
class Plan(Filled):
    """The algorithm chosen for a call, and why."""

    LAYOUT: ClassVar[str] = "8x i i Q i 192s"
    algorithm: Algorithm
    slices: int  #: parts into which the work is divided among the ranks
    chunk_bytes: int  #: bytes moved per step and rank when staged, else 0
    nontemporal: bool  #: whether results bypass the cache
    reason: str


@dataclass(frozen=True)
class ImportInfo(Filled):
    """What is known of an import."""

    LAYOUT: ClassVar[str] = "8x i i Q Q Q q i"
    backend: Backend
    device: int  #: for which it is mapped here; 0 with the host back end
    bytes: int  #: of the piece
    offset: int  #: of the piece in the exporter's block
    block_bytes: int  #: of that block
    exporter_pid: int  #: as the exporter itself knows it
    exporter_alive: bool  #: False once its death or departure was noticed


@dataclass(frozen=True)
class IpcReport(Filled):
    """What a collection did."""

    LAYOUT: ClassVar[str] = "8x Q Q Q Q Q Q Q"
    leases_ended: int  #: found released by their holders
    leases_written_off: int  #: of holders that died
    blocks_freed: int  #: released buffers that nobody holds any more
    bytes_freed: int  #: of these
    mappings_dropped: int  #: of other processes' memory, kept here for the next import
    blocks_in_limbo: int  #: released buffers that somebody still holds
    bytes_in_limbo: int  #: of these


@dataclass(frozen=True)
class IpcStats(Filled):
    """The state of sharing in this process."""

    LAYOUT: ClassVar[str] = "8x Q Q Q Q Q Q Q Q Q Q Q Q Q Q Q Q Q Q Q Q q Q"
    tokens: int  #: made so far
    exported_blocks: int  #: that can be imported now
    exported_bytes: int  #: of these
    grants: int  #: leases given so far
    leased: int  #: leases that others, and this process, hold on memory of this process
    leased_blocks: int  #: on which there are leases
    limbo_blocks: int  #: released, but still held
    limbo_bytes: int  #: of these
    quarantined_blocks: int  #: on which a holder that is gone may still write; never to be used again
    quarantined_bytes: int  #: of these
    written_off: int  #: leases of dead holders so far
    refused: int  #: imports refused so far: forged, stale
    rejected_connections: int  #: of other users, or that broke the protocol
    consumers: int  #: processes connected to this one
    imported: int  #: imports from other processes that are not released; those of its own count as `leased`
    imported_blocks: int  #: mapped here for them, or kept for the next
    imported_bytes: int  #: of these
    exporters: int  #: processes to which this one is connected
    collections: int  #: run so far
    oldest_lease_ms: int  #: age of the oldest lease, 0 if there is none
    oldest_lease_pid: int  #: its holder, 0 if the pid is not visible here
    oldest_lease_start_time: int  #: of the holder, in clock ticks since boot (/proc/<pid>/stat, field 22), 0 if unknown
