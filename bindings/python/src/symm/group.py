"""Groups: the ranks that share memory."""

from __future__ import annotations

import functools
import math
from _weakref import ref

from symm import _generated, stores
from symm._generated import AlgorithmStats, CollectiveStats, GroupStats, MemoryInfo, PeerInfo
from symm._library import raw
from symm._streams import ALL_STREAMS, handle_of, milliseconds, seconds, within
from symm._view import CPU, CUDA, Lent, extents_of
from symm.collectives import Batch, Collectives
from symm.devices import Topology
from symm.dtypes import DTypeLike, dtype_of
from symm.enums import Algorithm, Backend, Collective, GroupFlag, member
from symm.errors import Failure, InvalidArgumentError, NotFoundError
from symm.exchange import Exchange, Neighbor, make
from symm.heap import Heap
from symm.memory import Buffer, Memory
from symm.messages import Recv, Send

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from typing_extensions import TypedDict, Unpack

    from symm.array import SymmArray

    class GroupOptions(TypedDict, total=False):
        """The options of all methods that form groups; `Group.join()` explains them."""

        backend: Backend | str
        device: int | str | None
        timeout: float | None
        create_timeout: float | None
        name: str
        check: bool | None
        overlapping_devices: bool
        multicast: bool | None
        shared_scratch: bool
        any_order: bool | None
        tree_order: bool | None
        same_offsets: bool
        variables_at_load: bool
        channels: int
        scratch_bytes: int
        id: bytes | None

    class PartOptions(TypedDict, total=False):
        """The options of methods that form a group of another; `Group.split()` explains them."""

        timeout: float | None
        name: str | None
        create_timeout: float | None
        group_timeout: float | None
        check: bool | None
        overlapping_devices: bool | None
        multicast: bool | None
        shared_scratch: bool | None
        any_order: bool | None
        tree_order: bool | None
        same_offsets: bool | None
        channels: int
        scratch_bytes: int


class GroupInfo(_generated.GroupInfo):
    """Facts about a group. `flags` are those in force, the environment's included."""

    @property
    def timeout(self) -> float:
        """Seconds for every wait except those of creation; ``math.inf``: for ever."""
        return seconds(self.timeout_ms)

    @property
    def create_timeout(self) -> float:
        """Seconds for creation, split and rendezvous; ``math.inf``: for ever."""
        return seconds(self.create_timeout_ms)


# The flag of each parameter, and the flag that says the opposite, if there is one: then None leaves
# the choice to the environment, or to the group that a group is made of.
_FLAGS = {
    "check": (GroupFlag.CHECK, GroupFlag.NO_CHECK),
    "multicast": (GroupFlag.MULTICAST, GroupFlag.NO_MULTICAST),
    "any_order": (GroupFlag.ANY_ORDER, GroupFlag.RANK_ORDER),
    "tree_order": (GroupFlag.TREE_ORDER, GroupFlag.RANK_ORDER),
    "overlapping_devices": (GroupFlag.OVERLAPPING_DEVICES, None),
    "shared_scratch": (GroupFlag.SHARED_SCRATCH, None),
    "same_offsets": (GroupFlag.SAME_OFFSETS, None),
}


def _flags(**wanted: bool | None) -> tuple[int, int]:
    """The flags that are asked for, and those that the new group shall not inherit."""
    asked = 0
    removed = 0
    for name, value in wanted.items():
        flag, opposite = _FLAGS[name]
        if value:
            asked |= flag
        elif value is not None and opposite is not None:
            asked |= opposite
        elif value is not None:
            removed |= flag
    # An order that is asked for goes before another one that is not wanted.
    if asked & (GroupFlag.ANY_ORDER | GroupFlag.TREE_ORDER):
        asked &= ~GroupFlag.RANK_ORDER
    return int(asked), int(removed)


def _part_options(
    *,
    timeout: float | None = None,
    name: str | None = None,
    create_timeout: float | None = None,
    group_timeout: float | None = None,
    channels: int = 0,
    scratch_bytes: int = 0,
    **wanted: bool | None,
) -> tuple[int, str | None, int, int, int, int, int, int]:
    """The options of a call that forms a group of another."""
    unknown = set(wanted) - set(_FLAGS)
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    return (
        milliseconds(timeout),
        name,
        *_flags(**wanted),
        scratch_bytes,
        milliseconds(create_timeout),
        milliseconds(group_timeout),
        channels,
    )


def _placement(
    host: bool, node: int | None, alignment: int, page_bytes: int
) -> tuple[int, int, int, int]:
    """The options that allocations and heaps share: flags, NUMA node, alignment, page size."""
    if node is not None and not 0 <= node < 2**31:
        raise InvalidArgumentError(f"node: {node} is not in 0 .. 2^31-1")
    flags = raw.SYMM_ALLOC_HOST if host else 0
    if node is not None:
        flags |= raw.SYMM_ALLOC_ON_NODE
    return flags, node or 0, alignment, page_bytes


def _backend_and_ordinal(backend: Backend, device: int | str | None) -> tuple[Backend, int | None]:
    """The back end that a caller asks for, and the ordinal of the device if one is named.

    A device, in whatever form it is given, asks for CUDA unless `backend` says otherwise.
    """
    ordinal: int | None
    if isinstance(device, str):
        kind, _, digits = device.partition(":")
        if kind != "cuda" or not (digits or "0").isdecimal():
            raise InvalidArgumentError(f"device: {device!r} is neither 'cuda' nor 'cuda:<ordinal>'")
        ordinal = int(digits) if digits else None
    else:
        ordinal = device

    if device is not None and backend == Backend.AUTO:
        backend = Backend.CUDA
    return backend, ordinal


def unique_id() -> bytes:
    """Make an id by which the ranks of one group meet. [local]

    Any process calls this and sends the bytes to all ranks by any means. Each rank then passes
    them as ``id`` of `Group.join()`. ::

        id = comm.bcast(symm.unique_id() if rank == 0 else None)
        group = symm.Group.join(rank, size, id=id)

    Where libsodium, the secret file and an address of this machine can be had, this process
    listens for ranks on any machine, and must live until the group is formed. Else, or with
    ``SYMM_ID_ADDRESS=machine``, the ranks must be on this machine, and this process may end. An
    id serves for one group.

    Raises:
        InvalidArgumentError: $SYMM_ID_ADDRESS is wrong.
        UnavailableError: there is no directory that is private to this user.
        SystemCallError: the port of $SYMM_ID_ADDRESS is in use.
    """
    return raw.symm_unique_id(None)


class Group(Collectives):
    """The ranks that share memory.

    `from_env()`, `join()`, `from_store()`, `from_torch()` and `from_mpi()` form groups, and
    `join_by_ticket()` waits for a place in one that grows.

    As a context manager, a group is finalized and closed at the end of the block. If the block
    raises, the group is aborted with the exception as the reason, so that no other rank waits
    for this one.

    All methods may be called from any thread. Collective calls on one group must come in the
    same order on all ranks. Calls that wait release the interpreter lock. A signal such as
    Ctrl-C is handled when the call returns; ``abort()`` from another thread ends the call.

    These parameters mean the same in all methods:

    - `timeout`: seconds; None: the group's; ``math.inf``: for ever; 0: look once, without
      waiting. Calls that need the other ranks to act, or that wait on a stream, refuse 0.
    - `stream`: None: the current stream of PyTorch or CuPy, else the legacy default stream.
    - `name`: is shown in messages.

    Methods that form groups take the options of `join()`, and those that form groups of this one
    the options of `split()`. Every call that waits may raise `symm.TimeoutError`,
    `PeerFailedError` and `AbortedError`.

    Attributes:
        rank: this rank.
        size: the number of ranks.
        backend: `Backend.HOST` or `Backend.CUDA`.
        device: the ordinal of the device; 0 on the host.
        device_key: DLPack's (device type, device id) of the group's memory.
    """

    _finalized = False  # whether finalize() was called

    def __init__(self, handle: int) -> None:
        super().__init__(handle, raw.symm_group_release)
        info = self.info()
        self.rank: int = info.rank
        self.size: int = info.size
        self.backend: Backend = info.backend
        self.device: int = info.device
        self.device_key: tuple[int, int] = (
            (CUDA, info.device) if info.backend == Backend.CUDA else (CPU, 0)
        )
        self._on_host = info.backend == Backend.HOST

    # ---- forming groups

    @classmethod
    def from_env(cls, bootstrap: str | None = None, **options: Unpack[GroupOptions]) -> Group:
        """Form a group of the ranks that a launcher started. [collective] [blocking]

        Rank and size come from the launcher: symm run, Open MPI, MPICH, torchrun, Slurm, or a
        single process without any.

        Args:
            bootstrap: where the ranks meet; None: $SYMM_BOOTSTRAP, else what the launcher says.
            **options: the options of `join()`.

        Raises:
            UnavailableError: a launcher that symm does not read started this process. `join()`
                lists the other errors.
        """
        return cls.join(0, 0, bootstrap, **options)

    @classmethod
    def join(
        cls,
        rank: int,
        size: int,
        bootstrap: str | None = None,
        *,
        backend: Backend | str = Backend.AUTO,
        device: int | str | None = None,
        timeout: float | None = None,
        create_timeout: float | None = None,
        name: str = "",
        check: bool | None = None,
        overlapping_devices: bool = False,
        multicast: bool | None = None,
        shared_scratch: bool = False,
        any_order: bool | None = None,
        tree_order: bool | None = None,
        same_offsets: bool = False,
        variables_at_load: bool = False,
        channels: int = 0,
        scratch_bytes: int = 0,
        id: bytes | None = None,  # noqa: A002 - as in the header
        _store: stores.Store | None = None,
    ) -> Group:
        """Form a group as rank `rank` of `size`. [collective] [blocking, create_timeout]

        All ranks succeed, or all fail with the same error.

        Args:
            rank: this rank, 0 .. size-1.
            size: the number of ranks.
            bootstrap: where the ranks meet. ``"dir:///path"``: a directory of this user of mode
                0700. ``"thread://name"``: the ranks are threads of this process. ``"env://"``:
                what the launcher says. ``"tcp://host:port"``: rank 0 listens there; ranks may be
                on several machines. None: $SYMM_BOOTSTRAP, else ``"env://"``.
            backend: the back end, the same on all ranks. `Backend.AUTO`: CUDA if `device` is
                given, else $SYMM_BACKEND, else the host.
            device: a CUDA ordinal, ``"cuda:1"``, or ``"cuda"`` for this rank's share of the
                devices. With CUDA, None is this rank's share, too.
            timeout: seconds for every wait except those of creation; None: $SYMM_TIMEOUT_MS,
                else 60; ``math.inf``: for ever.
            create_timeout: seconds for creation, split and rendezvous; None:
                $SYMM_CREATE_TIMEOUT_MS, else 300.
            name: distinguishes concurrent groups of the same bootstrap; is shown in messages.
            check: compare the arguments of every collective on all ranks; None: if SYMM_CHECK=1;
                False: not even then.
            overlapping_devices: several ranks may use one CUDA device.
            multicast: multicast addresses for the group's memories, where they are available.
                All ranks must ask for it. None: if SYMM_MULTICAST=1; False: not even then.
            shared_scratch: groups that are made of this one, except by `shrink()`, use its
                scratch. CUDA only. Collectives of all these groups have one order, also in
                graphs, and a failure of one is a failure of all; ``symm.h`` has the details.
            any_order: all-reduces between machines may combine floats in another order than
                that of the ranks, which is faster. All ranks must ask for it. None: if
                SYMM_ORDER=any; False: not even then, so that sums have the same bits in groups of
                any layout.
            tree_order: floats are combined as a balanced binary tree of the ranks, so that a sum
                has the same bits however many ranks share the work. All ranks must ask for it.
                None: if SYMM_ORDER=tree; False: not even then.
            same_offsets: a promise about each all-reduce, all-gather, all-to-all and broadcast:
                the recvs of all ranks are private, or lie at the same offset, and the call is
                in place on all ranks or on none. With CUDA, copy engines then do large calls.
                All ranks must promise it.
            variables_at_load: the environment variables for this call are those that the library
                found when it was loaded. For a thread that makes a group while another one may
                change `os.environ`.
            channels: the number of barrier channels, and of signal channels of memories that
                ask for no other number; at most 256; 0: 64.
            scratch_bytes: a limit on the scratch of this group, and of each group made of it;
                0: the size that is fastest.
            id: the bytes that `unique_id()` returned on one rank, the same on all ranks, by
                which they meet instead of by `bootstrap`.

        Raises:
            InvalidArgumentError: rank, size, bootstrap or another argument is wrong, or `id` is
                no id, was changed, or has served for a group already.
            UnavailableError: the back end cannot be used here, or `id` is for ranks of another
                machine or user.
            symm.TimeoutError: not all ranks came; the message names the missing ones.
            PeerFailedError: a rank died meanwhile, or the process that made `id`.
            MismatchError: ranks gave different arguments.
        """
        flags, _ = _flags(
            check=check,
            overlapping_devices=overlapping_devices,
            multicast=multicast,
            shared_scratch=shared_scratch,
            any_order=any_order,
            tree_order=tree_order,
            same_offsets=same_offsets,
        )
        if variables_at_load:
            flags |= raw.SYMM_GROUP_VARIABLES_AT_LOAD
        kind, ordinal = _backend_and_ordinal(member(Backend, backend), device)
        if ordinal is not None:
            flags |= raw.SYMM_GROUP_ON_DEVICE
        config = (
            rank,
            size,
            int(kind),
            ordinal or 0,
            flags,
            bootstrap,
            _store,
            id,
            0 if id is None else len(id),
            milliseconds(create_timeout),
            milliseconds(timeout),
            name,
            scratch_bytes,
            channels,
        )

        return cls(raw.symm_group_create(config))

    @classmethod
    def from_store(
        cls, store: stores.Store, rank: int, size: int, **options: Unpack[GroupOptions]
    ) -> Group:
        """Form a group of ranks that share a key-value store. [collective] [blocking]

        The store is used during creation only, on this thread. If it raises, creation fails on
        all ranks. On this rank the exception of the store is the cause of the error.

        Args:
            store: the store; see `symm.stores.Store`.
            rank: this rank, 0 .. size-1.
            size: the number of ranks.
            **options: the options of `join()`.
        """
        return cls.join(rank, size, _store=store, **options)

    @classmethod
    def from_torch(
        cls,
        store: Any = None,
        rank: int | None = None,
        size: int | None = None,
        **options: Unpack[GroupOptions],
    ) -> Group:
        """Form a group through a store of ``torch.distributed``. [collective] [blocking]

        Args:
            store: a ``torch.distributed.Store``; None: the store of the default process group.
            rank: this rank; None: the rank in the default process group.
            size: the number of ranks; None: the size of the default process group.
            **options: the options of `join()`.
        """
        if store is None or rank is None or size is None:
            import torch.distributed as dist

            if store is None:
                store = dist.distributed_c10d._get_default_store()
            rank = dist.get_rank() if rank is None else rank
            size = dist.get_world_size() if size is None else size

        adapted = stores.TorchStore(store, rank, str(options.get("name", "")))
        return cls.from_store(adapted, rank, size, **options)

    @classmethod
    def from_mpi(cls, communicator: Any = None, **options: Unpack[GroupOptions]) -> Group:
        """Form a group of the ranks of an mpi4py communicator. [collective] [blocking]

        The ranks must be on one machine. They meet in a private directory of rank 0, whose path
        MPI broadcasts, and which is removed afterwards.

        Args:
            communicator: an ``mpi4py.MPI.Intracomm``; None: ``MPI.COMM_WORLD``.
            **options: the options of `join()`.
        """
        if communicator is None:
            from mpi4py import MPI

            communicator = MPI.COMM_WORLD
        with stores.directory_of_communicator(communicator) as bootstrap:
            return cls.join(communicator.Get_rank(), communicator.Get_size(), bootstrap, **options)

    def split(self, color: int, key: int = 0, **options: Unpack[PartOptions]) -> Group | None:
        """Divide the group. [collective] [blocking, timeout]

        The new group inherits what this group was made with, as ``info()`` tells it. The options
        change that, and must be the same on all ranks of the new group, except `timeout`.

        Args:
            color: ranks of the same color form a group; a rank of a negative color is in none.
            key: the ranks of the new group are ordered by key, then by rank.
            **options:

                - timeout: seconds for this call; None: the create_timeout of this group.
                - name: the name of the new group; None: the name of this one, with the color or a
                  number.
                - create_timeout, group_timeout: the create_timeout and the timeout of the new
                  group, as `join()` has them; None: as this group.
                - check, multicast, any_order, tree_order, overlapping_devices, shared_scratch,
                  same_offsets:
                  as for `join()`; None: as this group; False: not, though this group has it.
                - channels, scratch_bytes: as for `join()`; 0: as this group.

        Returns:
            The group of this rank's color; None if the color is negative.

        Raises:
            MismatchError: ranks of a new group gave different options.
        """
        part = raw.symm_group_split(self._handle, color, key, _part_options(**options))
        return Group(part) if part else None

    def create_from_ranks(self, ranks: Iterable[int], **options: Unpack[PartOptions]) -> Group:
        """Form a group of some ranks, in the order in which they are named.

        [collective over `ranks`] [blocking, timeout]

        Args:
            ranks: distinct ranks of this group, this rank among them. All of them must name the
                same ranks in the same order.
            **options: the options of `split()`.
        """
        chosen = list(ranks)
        return Group(
            raw.symm_group_create_from_ranks(self._handle, chosen, _part_options(**options))
        )

    def local(self, **options: Unpack[PartOptions]) -> Group:
        """Form a group of the ranks of this rank's machine.

        [collective over the ranks of a machine] [blocking, timeout]

        Args:
            **options: the options of `split()`.
        """
        return Group(raw.symm_group_local(self._handle, _part_options(**options)))

    def shrink(self, **options: Unpack[PartOptions]) -> Group:
        """Form a group of the ranks that are alive and have not closed this group.

        [collective] [blocking, timeout] The ranks keep their order. The call is meant for the
        time after a failure: this group may be revoked, and stays as it is. Ranks that die
        meanwhile are left out. All others get the same group, or the same failure.

        Args:
            **options: the options of `split()`; the name is by default that of this group.

        Raises:
            symm.TimeoutError: a rank is alive and did not come. Once it is gone, the call can be
                made again.
        """
        return Group(raw.symm_group_shrink(self._handle, _part_options(**options)))

    def invite(self, lifetime: float | None = None) -> bytes:
        """Make a ticket, by which other processes join this group when it grows. [local]

        The bytes may travel by any means. They are good for any number of processes of this user
        on this machine, for this group, and for those that `shrink()` and `grow()` make of it.

        Args:
            lifetime: seconds for which the ticket is good; None: until the machine restarts.

        Raises:
            UnsupportedError: the group is on several machines.
        """
        return raw.symm_group_invite(self._handle, (milliseconds(lifetime),))

    @classmethod
    def join_by_ticket(
        cls,
        ticket: bytes,
        *,
        timeout: float | None = None,
        device: int | str | None = None,
        overlapping_devices: bool = False,
        check: bool | None = None,
    ) -> Group:
        """Wait, as a newcomer, until the group of a ticket grows. [blocking, timeout]

        A process waits here as a spare: it costs the ranks of the group nothing until they call
        `grow()`. Its group has the back end, name, flags and deadlines of the one that grew. ::

            ticket = group.invite()  # a rank, which sends the bytes to the spare
            group = symm.Group.join_by_ticket(ticket, timeout=math.inf)  # the spare
            group = group.grow()  # the ranks that live, when one has died

        Args:
            ticket: the bytes that `invite()` returned.
            timeout: seconds; None: $SYMM_CREATE_TIMEOUT_MS, else 300.
            device: as for a new group; None: the share of the rank, if the group is of devices. A
                spare that names its device loads the kernels there while it waits.
            overlapping_devices: several ranks may use one CUDA device.
            check: whether this rank compares the arguments of collectives; None: $SYMM_CHECK.

        Raises:
            InvalidArgumentError: the bytes are no ticket, or the ticket has expired.
            UnavailableError: the ticket is for another machine or user, or the group is of
                devices, and there are none here.
            MismatchError: `device` is named, and the group is on the host.
            symm.TimeoutError: no rank took this process.
        """
        flags, _ = _flags(check=check, overlapping_devices=overlapping_devices)
        kind, ordinal = _backend_and_ordinal(Backend.AUTO, device)
        if ordinal is not None:
            flags |= raw.SYMM_GROUP_ON_DEVICE
        place = (0, 0, int(kind), ordinal or 0, flags, None, None, None, 0)
        config = (*place, milliseconds(timeout), 0, "", 0, 0)
        return cls(raw.symm_group_join(ticket, config))

    def grow(self, append: int = 0, *, timeout: float | None = None) -> Group:
        """Form a group of the ranks that are alive, and of newcomers. [collective]

        [blocking, timeout] Newcomers are processes in `join_by_ticket()`. They take the numbers
        of the ranks that are gone, and all others keep theirs. This group may be revoked, and
        stays as it is. All get the same group, or the same failure, after which the call can be
        made again.

        Args:
            append: so many newcomers follow the living instead, who move up as in `shrink()`;
                the same on all ranks.
            timeout: seconds; None: the create_timeout of this group.

        Raises:
            symm.TimeoutError: there were too few newcomers, or a rank did not come.
            PeerFailedError: a rank or a newcomer died while the group grew.
            UnsupportedError: the group is on several machines.
        """
        mode = raw.SYMM_GROW_APPEND if append else raw.SYMM_GROW_FILL_DEAD
        return Group(raw.symm_group_grow(self._handle, (milliseconds(timeout), mode, append)))

    def keep_spares(self, count: int, *, timeout: float | None = None) -> None:
        """Connect newcomers with the ranks that are alive, as spares of the group. [collective]

        [blocking, timeout] Spares stay in `join_by_ticket()`. `grow()` takes them first, and is
        faster then. ``info().spares`` tells how many wait. Groups that `shrink()` and `grow()`
        make keep those that are left.

        Args:
            count: how many spares the group has then, those among them that it has already; the
                same on all ranks.
            timeout: seconds; None: the create_timeout of this group.

        Raises:
            symm.TimeoutError: there were too few newcomers, or a rank did not come.
            PeerFailedError: a newcomer died meanwhile.
            UnsupportedError: the group is on several machines.
        """
        given = (milliseconds(timeout), raw.SYMM_GROW_SPARE, count)
        raw.symm_group_grow(self._handle, given)

    def translate_rank(self, other: Group, rank: int) -> int | None:
        """The rank in this group of rank `rank` of `other`; None if it is not a member. [local]"""
        try:
            return raw.symm_group_translate_rank(self._handle, other._handle, rank)
        except NotFoundError:
            return None

    # ---- state

    def info(self) -> GroupInfo:
        """Describe the group. [local]"""
        return GroupInfo.read(raw.symm_group_info(self._handle))

    def status(self) -> Failure:
        """Why the group was revoked; its `ok` is true while it works. [local] Never waits."""
        return Failure.read(raw.symm_group_status(self._handle))

    def failed_ranks(self) -> list[int]:
        """The ranks that this rank knows to be dead or to have closed the group, ascending.

        [local] Never waits.
        """
        return raw.symm_group_failed_ranks(self._handle, self.size)

    def failure_fd(self) -> int:
        """A descriptor for event loops that becomes readable when the group is revoked. [local]

        The group owns the descriptor; do not close it.
        """
        return raw.symm_group_failure_fd(self._handle)

    def topology(self) -> Topology:
        """Return the links between the devices of the ranks. [local]

        The number is -1 where one of two ranks is on another machine than this one. The class is
        that of the whole; ranks on one GPU count as linked.

        Raises:
            UnavailableError: NVML does not tell of links.
        """
        kind, links = raw.symm_group_topology(self._handle, self.size * self.size)
        return Topology.of(kind, links, self.size)

    def peer_info(self, rank: int) -> PeerInfo:
        """Describe rank `rank`: process, host, device, whether it is alive. [local]"""
        return PeerInfo.read(raw.symm_group_peer_info(self._handle, rank))

    def stats(self) -> GroupStats:
        """Count what this rank has done on the group so far. [local]"""
        return GroupStats.read(raw.symm_group_stats(self._handle))

    def collective_stats(self, collective: Collective | str) -> CollectiveStats:
        """Count this rank's calls of a collective on the group, and their bytes. [local]"""
        kind = member(Collective, collective)
        return CollectiveStats.read(raw.symm_group_collective_stats(self._handle, kind))

    def algorithm_stats(self, algorithm: Algorithm | str) -> AlgorithmStats:
        """Count this rank's collectives on the group that went by an algorithm. [local]

        `Algorithm.AUTO` stands for those that needed none, as in a group of one rank.
        """
        kind = member(Algorithm, algorithm)
        return AlgorithmStats.read(raw.symm_group_algorithm_stats(self._handle, kind))

    def abort(self, reason: str = "") -> None:
        """Revoke the group on all ranks: pending and later calls raise `AbortedError`. [local]

        Never waits. Any thread may call it.
        """
        # Texts of exceptions, such as names of files, may have characters that UTF-8 has not.
        encodable = reason.encode(errors="backslashreplace").decode()
        raw.symm_group_abort(self._handle, encodable or None)

    def finalize(self, timeout: float | None = None) -> None:
        """Wait until all ranks have called this. [collective] [blocking]

        So no rank sees another one leave early. Afterwards only queries and `close()` are
        allowed.
        """
        self._finalized = True
        raw.symm_group_finalize(self._handle, within(timeout))

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        try:
            if self.closed:
                return
            # sys.exit(0) is a regular end, as it is for the interpreter.
            is_regular = isinstance(error, SystemExit) and error.code in (None, 0)
            if kind is not None and not is_regular:
                self.abort(f"{kind.__name__}: {error}")
            elif not self._finalized:
                self.finalize()
        finally:
            self.close()

    # ---- memory

    def alloc(
        self,
        nbytes: int,
        *,
        host: bool = False,
        node: int | None = None,
        alignment: int = 0,
        page_bytes: int = 0,
        name: str = "",
    ) -> Buffer:
        """Allocate this rank's block of `nbytes` bytes, zeroed. [local] [blocking]

        Args:
            nbytes: the size, > 0.
            host: allocate pinned memory of the host, which devices and host can access. A group
                that works on devices has device memory without it.
            node: the NUMA node of host memory; None: the node nearest to the device, in a host
                group the one nearest to the calling thread. On CUDA it needs `host`.
            alignment: the alignment of the address, a power of two; 0: 4096.
            page_bytes: the least size of the pages, a power of two, for instance that of huge
                pages; 0: the system's.
            name: is shown in messages.

        Raises:
            OutOfMemoryError: a limit was reached; the message names it.
            InvalidArgumentError: nbytes is 0, the node does not exist, `node` is given without
                `host` on CUDA, or a number is not a power of two.
            UnavailableError: host memory, memory of that node or pages of that size are not
                available; the message says why.
        """
        options = (*_placement(host, node, alignment, page_bytes), name)
        return Buffer(raw.symm_alloc(self._handle, nbytes, options), nbytes)

    def adopt(
        self,
        address: int | None,
        nbytes: int,
        *,
        fd: int | None = None,
        offset: int = 0,
        name: str = "",
    ) -> Buffer:
        """Make a buffer of memory that another library has allocated. [local] [blocking]

        In a CUDA group it is device memory that cuMemCreate made exportable as a POSIX
        descriptor. In a host group it is a piece of a memfd that is sealed against shrinking:
        ``group.adopt(None, nbytes, fd=fd)``. The descriptor stays the owner's.

        The buffer is rendezvoused like any other. It keeps the physical memory, so the owner
        may free its own mapping at any time; that mapping is never touched. ``buffer.pointer``
        is a new address of the same bytes. The owner's address counts as symmetric, too, while
        it is mapped.

        Args:
            address: an address anywhere inside a mapped allocation, a multiple of 16, such as
                ``tensor.data_ptr()``; None: `fd` is given.
            nbytes: the size, > 0 and within that allocation, or those of its size behind it.
            fd: the memfd, if `address` is None.
            offset: the offset of the piece in the memfd, a multiple of 16.
            name: is shown in messages.

        Raises:
            InvalidArgumentError: the memory cannot be adopted, for instance because cudaMalloc
                made it; the message says why.
            UnsupportedError: an address in a host group, or a descriptor in a CUDA group.
        """
        flags = 0 if fd is None else raw.SYMM_ADOPT_FD
        options = (flags, offset, fd or 0, name)
        return Buffer(raw.symm_buffer_adopt(self._handle, address, nbytes, options), nbytes)

    def rendezvous(
        self, buffer: Buffer, tag: int = 0, *, timeout: float | None = None, channels: int = 0
    ) -> Memory:
        """Exchange blocks: afterwards every rank's block is mapped here.

        [collective] [blocking, timeout] All ranks succeed, or all fail with the same error.

        A buffer meets once on a group. A second call is [local] and returns the same memory, as
        long as neither the buffer nor the memory was closed.

        Args:
            buffer: a buffer of the same size on all ranks. It may be closed afterwards; the
                memory keeps the block.
            tag: calls of equal tags meet, in the order in which they are made.
            timeout: seconds; None: the group's `create_timeout`.
            channels: the number of signal channels of the memory, the same on all ranks; 0: as
                many as the group has.

        Raises:
            MismatchError: sizes, channels or tags differ.
        """
        options = (tag, milliseconds(timeout), channels)
        return Memory(raw.symm_rendezvous(self._handle, buffer._handle, options), self)

    def move_memory(self, memory: Memory | None = None, *, timeout: float | None = None) -> Memory:
        """Move a memory of another group to this one, which `grow()` or `shrink()` made.

        [collective] [blocking, timeout] All ranks succeed, or all fail with the same error, which
        changes nothing. What a rank has mapped stays where it is; if all have the numbers that
        they had, so do signal pads and pointer tables. Signals that were not taken are void, and
        `memory` has no signals any more.

        Args:
            memory: the memory that this rank has; None on a newcomer, which gets a block of zeros.
            timeout: seconds; None: the group's `create_timeout`.

        Raises:
            MismatchError: ranks bring different memories.
            UnsupportedError: this group is on several machines.
        """
        handle = 0 if memory is None else memory._handle
        return Memory(raw.symm_memory_move(handle, self._handle, within(timeout)), self)

    def move_heap(self, heap: Heap | None = None, *, timeout: float | None = None) -> Heap:
        """Move a heap of another group to this one, with all its pieces.

        [collective] [blocking, timeout] As `move_memory()`. Pieces stay at their offsets, also on
        newcomers, and are taken from the new heap from then on.

        Args:
            heap: the heap that this rank has; None on a newcomer.
            timeout: seconds; None: the group's `create_timeout`.

        Raises:
            MismatchError: ranks bring different heaps, or have made different calls of the heap.
        """
        handle = 0 if heap is None else heap._handle
        return Heap(raw.symm_heap_move(handle, self._handle, within(timeout)), self)

    def memory_of(self, buffer: Buffer) -> Memory | None:
        """The memory that `buffer` became on this group; None before its `rendezvous()`. [local]"""
        try:
            return Memory(raw.symm_buffer_memory(buffer._handle, self._handle, None), self)
        except NotFoundError:
            return None

    def empty(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = "f32", *, tag: int = 0
    ) -> SymmArray:
        """Allocate and rendezvous a symmetric array. [collective] [blocking]

        The elements are zero; `zeros()` is the same method.

        Args:
            shape: the extents; the same number of bytes on all ranks.
            dtype: the element type, for instance ``"bf16"``, ``numpy.float32`` or
                ``torch.float8_e4m3fn``.
            tag: the tag of `rendezvous()`.

        Returns:
            This rank's array. Its ``peer(rank)`` is another rank's array.
        """
        extents = extents_of(shape)
        buffer = self.alloc(max(1, math.prod(extents) * dtype_of(dtype).itemsize))
        return self.from_buffer(buffer, extents, dtype, tag=tag)

    zeros = empty

    def heap(
        self,
        nbytes: int,
        *,
        host: bool = False,
        node: int | None = None,
        alignment: int = 0,
        page_bytes: int = 0,
        name: str = "",
        timeout: float | None = None,
    ) -> Heap:
        """Make a heap: symmetric memory that is handed out in pieces.

        [collective] [blocking, timeout] All ranks succeed, or all fail with the same error.
        `alloc()` explains the other parameters.

        Args:
            nbytes: the size, > 0 and the same on all ranks; rounded up to a multiple of 256.
            alignment: the alignment of the block, a power of two, which is also the largest
                alignment of a piece; 0: 4096.
            timeout: seconds; None: the group's `create_timeout`.

        Raises:
            MismatchError: sizes differ.
            OutOfMemoryError: `alloc()` raised it on some rank.
            UnavailableError: `alloc()` raised it on some rank.
        """
        options = (*_placement(host, node, alignment, page_bytes), name, milliseconds(timeout))
        return Heap(raw.symm_heap_create(self._handle, nbytes, options), self)

    def from_buffer(
        self,
        buffer: Buffer,
        shape: int | tuple[int, ...] | None = None,
        dtype: DTypeLike = "u8",
        *,
        offset: int = 0,
        tag: int = 0,
    ) -> SymmArray:
        """Rendezvous a buffer and see it as an array. [collective] [blocking]

        Args:
            buffer: a buffer of this group, or of another group on the same device.
            shape: the extents; None: one axis with all elements that fit behind `offset`.
            dtype: the element type.
            offset: bytes from the start of the block to the array.
            tag: the tag of `rendezvous()`.
        """
        kind = dtype_of(dtype)
        if shape is None:
            shape = max(0, buffer.nbytes - offset) // kind.itemsize
        return self.rendezvous(buffer, tag).array(shape, kind, offset=offset)

    def find(self, address: int) -> tuple[int, int, int] | None:
        """Find the memory of the group that maps `address`, anywhere inside a block. [local]

        Returns:
            (id of the memory, rank, offset in bytes); None if no memory of the group maps it.
        """
        try:
            handle, rank, offset = raw.symm_memory_find(self._handle, address, None)
        except NotFoundError:
            return None
        try:
            return MemoryInfo.read(raw.symm_memory_info(handle)).id, rank, offset
        finally:
            raw.symm_memory_release(handle)

    def _device_bytes(self, data: bytes, stream: int) -> SymmArray:
        """At most 8 bytes in memory of the group's device, written in the order of `stream`."""
        own = self._own.empty(8, "u8")
        own.memory.write_value64(0, 0, int.from_bytes(data, "little"), stream=stream)
        return own[: len(data)]

    @functools.cached_property
    def _own(self) -> Group:
        """A group of this rank alone: no other rank needs to hear of its memories."""
        return self.create_from_ranks([self.rank])

    # ---- batches

    def batch(
        self, *, timeout: float | None = None, stream: Any = None, tag: str | None = None
    ) -> Batch:
        """Collectives that are made in one submission.

        Use it in a ``with`` statement::

            with group.batch() as batch:
                batch.allreduce(x)
                batch.allgather(y, z)

        The batch has all collectives of the group, with their options but `timeout`, `stream` and
        `tag`, which are those of the batch. The calls are made where the statement ends, and not at
        all if it ends by an exception. They are independent: what one of them writes must not
        overlap an operand of another. A refusal names the call, from 0 on, and then none was made.

        Args:
            timeout: seconds; None: the group's.
            stream: the stream of all calls; None: that of the first call, as a collective has it.
            tag: a text that is shown where the calls are.
        """
        return Batch(self, timeout, stream, tag)

    # ---- barrier

    def barrier(
        self,
        ranks: Iterable[int] | None = None,
        *,
        channel: int = 0,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Wait until all ranks of a set have called this.

        [collective over the set] [stream; blocking on the host] What a rank of the set wrote
        before is visible to the others afterwards. Barriers on different channels are
        independent. Ranks that are in several sets must come to the barriers of these sets on
        one channel in the same order.

        Args:
            ranks: distinct ranks, this rank among them; None: the whole group.
            channel: 0 .. channels-1.
            timeout: seconds; None: the group's; 0, on the host: only look whether all are here.
            stream: the stream of the call.

        Raises:
            symm.TimeoutError: a rank did not come; the exception names the first missing rank.
            InvalidArgumentError: `ranks` or `channel` is wrong.
        """
        chosen = None if ranks is None else list(ranks)
        raw.symm_barrier(self._handle, chosen, channel, within(timeout), self._stream(stream))

    # ---- messages

    def send(
        self,
        rank: int,
        source: Any,
        *,
        channel: int = 0,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Send all of `source` to `rank`. [local] [stream; blocking on the host]

        Messages from one rank to another on one channel are received in the order in which they
        were sent. A short one is left for the receiver; for a longer one the call returns when
        it has been received. `messages()` sends and receives several that progress together. On
        a GPU the call returns at once, and the stream goes on when the message is received.

        Args:
            rank: the rank that receives.
            source: a contiguous array, of any package that speaks DLPack or has the buffer
                protocol.
            channel: 0 .. channels-1.
            timeout: seconds; None: the group's.
            stream: the stream of the call.

        Raises:
            symm.TimeoutError: the rank has not received.
            MismatchError: the message is longer than the room for it.
            UnsupportedError: the group is one of GPUs, and the rank is on another machine.
        """
        cuda_stream = self._stream(stream, source)
        operand = self._operand(source, "source", cuda_stream)
        nbytes = operand.size * operand.dtype.itemsize
        raw.symm_send(
            self._handle, rank, channel, operand.pointer, nbytes, within(timeout), cuda_stream
        )

    def recv(
        self,
        rank: int,
        destination: Any,
        *,
        channel: int = 0,
        timeout: float | None = None,
        stream: Any = None,
    ) -> int:
        """Receive the next message from `rank`. [local] [stream; blocking on the host]

        Args:
            rank: the rank that sends.
            destination: a contiguous array; the message may be shorter, but not on a GPU.
            channel: 0 .. channels-1.
            timeout: seconds; None: the group's; 0: only look whether a message is there.
            stream: the stream of the call.

        Returns:
            The number of bytes that came; on a GPU, which receives later, that of `destination`.

        Raises:
            symm.TimeoutError: no message has come; the group stays usable.
            MismatchError: the message is longer than `destination`; the group is revoked.
            UnsupportedError: the group is one of GPUs, and the rank is on another machine.
        """
        cuda_stream = self._stream(stream, destination)
        operand = self._operand(destination, "destination", cuda_stream, written=True)
        nbytes = operand.size * operand.dtype.itemsize
        return raw.symm_recv(
            self._handle, rank, channel, operand.pointer, nbytes, within(timeout), cuda_stream
        )

    def messages(
        self,
        sides: Iterable[Send | Recv],
        *,
        timeout: float | None = None,
        stream: Any = None,
    ) -> list[int]:
        """Send and receive messages that progress together, in whatever order they are listed.

        [local] [stream; blocking on the host] So ranks in a ring, or all with all, never wait for
        each other in a circle. Messages between two ranks on one channel keep their order. ::

            came = group.messages([symm.Send(right, out), symm.Recv(left, into)])[1]

        Args:
            sides: what this rank sends and receives.
            timeout: seconds, for all of them together; None: the group's.
            stream: the stream of the call.

        Returns:
            The number of bytes of each, in the order of `sides`.

        Raises:
            SymmError: as `send()` and `recv()`; the text begins with the place of the side.
        """
        listed = list(sides)
        cuda_stream = self._stream(stream, *(side.array for side in listed))
        # The operands live until the call is over.
        operands = [
            self._operand(side.array, f"messages[{i}]", cuda_stream, written=isinstance(side, Recv))
            for i, side in enumerate(listed)
        ]
        return raw.symm_messages(
            self._handle,
            [
                side._fields_of(operand.pointer, operand.size * operand.dtype.itemsize)
                for side, operand in zip(listed, operands, strict=True)
            ],
            within(timeout),
            cuda_stream,
        )

    # ---- neighbours

    def exchange(self, neighbors: Iterable[Neighbor], *, timeout: float | None = None) -> Exchange:
        """Agree with the neighbours on what is put in every round.

        [collective] [blocking, timeout] All ranks call, those without neighbours with an empty
        list. Two ranks that name each other expect what the other one puts. All ranks succeed, or
        all fail with the same error. ::

            exchange = group.exchange([
                grid.neighbor_part(left, np.s_[-1], mine[1]),
                grid.neighbor_part(right, np.s_[0], mine[-2]),
            ])

        Args:
            neighbors: what goes to each neighbour.
            timeout: seconds; None: the group's `create_timeout`.

        Raises:
            MismatchError: a rank names one that does not name it, or puts more or less than is
                expected; the message names both.
            InvalidArgumentError: a rank, an offset or a piece is wrong.
            UnsupportedError: the group is one of GPUs on several machines.
        """
        return make(self, neighbors, timeout)

    def neighbor_alltoallv(
        self,
        send_ranks: Sequence[int],
        send: Any,
        send_counts: Sequence[int],
        recv_ranks: Sequence[int],
        recv: Any,
        recv_counts: Sequence[int],
        send_displacements: Sequence[int] | None = None,
        recv_displacements: Sequence[int] | None = None,
        *,
        channel: int = 0,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Send a block to each neighbour and receive one from each, as `messages()` does.

        [local] [stream; blocking on the host] The blocks of two ranks meet in the order of their
        lists.

        Args:
            send_ranks: the ranks to which a block goes.
            send: elements for them.
            send_counts: the number of elements of each block of `send`.
            recv_ranks: the ranks from which a block comes.
            recv: elements for what comes, which does not overlap `send`.
            recv_counts: the number of elements of each block of `recv`.
            send_displacements: the start of each block of `send`, in elements; None: one behind the
                other.
            recv_displacements: the start of each block of `recv`, in elements; None: one behind the
                other.
            channel: the channel of the messages.
            timeout: seconds, for all of them together; None: the group's.
            stream: the stream of the call.

        Raises:
            MismatchError: a rank sends more or less than is expected.
            SymmError: as `messages()`, with the receives first.
        """
        cuda_stream = self._stream(stream, send, recv)
        source = self._operand(send, "send", cuda_stream)
        target = self._operand(recv, "recv", cuda_stream, written=True)
        self._require_blocks("send", source, send_counts, send_displacements, len(send_ranks))
        self._require_blocks("recv", target, recv_counts, recv_displacements, len(recv_ranks))
        if target.dtype is not source.dtype:
            raise InvalidArgumentError(f"recv: is of {target.dtype!r}, send of {source.dtype!r}")

        raw.symm_neighbor_alltoallv(
            self._handle,
            send_ranks,
            source.pointer,
            send_counts,
            send_displacements,
            recv_ranks,
            target.pointer,
            recv_counts,
            recv_displacements,
            source.code,
            channel,
            within(timeout),
            cuda_stream,
        )

    def reduce_by(
        self,
        function: Callable[[memoryview, memoryview], object],
        send: Any,
        recv: Any = None,
        *,
        collective: Collective | str = Collective.ALLREDUCE,
        width: int = 1,
        root: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Combine the operands of the ranks by a function, in their order.

        [collective] [blocking, timeout] Host groups only. `function(into, other)` changes `into`,
        which is of lower ranks; it need not be commutative. Both are one-dimensional views of
        `width` numbers for each element, and any number of elements at a time, in the type of the
        operands, or of bytes for a type that memoryview has not (f16, bf16, f8). NumPy takes them
        by ``np.asarray(into)``. They are of the library's memory; a function that keeps them, or an
        array of them, has failed, with BufferError.

        What the function raises is raised here, and the group is aborted: other ranks raise
        AbortedError, here or, where they have all they need, at their next call.

        Args:
            function: the operation.
            send: n elements of `width` numbers; for "reduce_scatter" size * n.
            recv: n elements; None: in place. On ranks other than the root of a "reduce" it is
                not used.
            collective: "allreduce", "reduce", "reduce_scatter", "scan" or "exscan", of which rank 0
                gets nothing.
            width: the numbers that make an element.
            root: the rank that receives, of a "reduce".
            timeout: seconds for each wait; None: the group's.

        Raises:
            TypeError: `function` cannot be called.
            InvalidArgumentError: `width` does not divide the numbers of `send`, or for
                "reduce_scatter" the ranks do not divide its elements; or the numbers of `recv` or
                the types differ.
        """
        if not callable(function):
            raise TypeError(f"function: a {type(function).__name__} cannot be called")
        which = member(Collective, collective)
        source = self._operand(send, "send", 0, written=recv is None)
        target = source if recv is None else self._operand(recv, "recv", 0, written=True)
        if target.dtype is not source.dtype:
            raise InvalidArgumentError(f"recv: is of {target.dtype!r}, send of {source.dtype!r}")
        if width < 1 or source.size % width != 0:
            raise InvalidArgumentError(f"width: {width} does not divide {source.size} numbers")

        scatters = which == Collective.REDUCE_SCATTER
        elements = source.size // width
        if scatters and elements % self.size != 0:
            raise InvalidArgumentError(
                f"send: has {elements} elements, which {self.size} ranks do not divide"
            )
        receives = which != Collective.REDUCE or self.rank == root
        numbers = source.size // self.size if scatters else source.size
        recv_at = target.pointer
        if scatters and recv is None:
            recv_at += self.rank * numbers * source.dtype.itemsize
        elif receives and target.size != numbers:
            raise InvalidArgumentError(
                f"recv: has {target.size} numbers, {numbers} are combined of {source.size}"
            )
        kind = source.dtype

        def combine(into: int, other: int, nbytes: int) -> None:
            lent = (
                Lent(into, nbytes, kind, writable=True),
                Lent(other, nbytes, kind, writable=False),
            )
            seen = [ref(one) for one in lent]
            with memoryview(lent[0]) as first, memoryview(lent[1]) as second:
                function(first, second)
            del lent
            if any(one() is not None for one in seen):
                raise BufferError("function: has kept what it was given")

        raw.reduce_by(
            self._handle,
            which,
            source.pointer,
            recv_at,
            numbers // width,
            width * source.dtype.itemsize,
            combine,
            root,
            milliseconds(timeout),
        )

    # ---- streams

    def synchronize(self, stream: Any = None, *, timeout: float | None = None) -> None:
        """Wait until all work that was issued on `stream` is over. [local] [blocking, timeout]

        Raises:
            symm.TimeoutError: the work is not over yet; the group stays usable.
            SymmError: the group was revoked; the exception is the failure that revoked it.
            InvalidArgumentError: the stream is being captured.
        """
        raw.symm_group_synchronize(self._handle, self._stream(stream), within(timeout))

    def stream_done(self, stream: Any = None) -> bool:
        """Whether all work that was issued on `stream` is over; always true on the host. [local]

        Never waits.

        Raises:
            InvalidArgumentError: the stream is being captured; the capture goes on.
        """
        return bool(raw.symm_stream_query(self._handle, self._stream(stream), None))

    def stream_wait(self, stream: Any = None, after: Any = None) -> None:
        """Order later work on `stream` after earlier work on another stream. [local] [stream]

        On the host this does nothing.

        Args:
            stream: the stream that waits.
            after: the stream that is waited for; None: all streams that calls on this group
                were issued on.
        """
        other = ALL_STREAMS if after is None else handle_of(after)
        raw.symm_stream_wait(self._handle, self._stream(stream), other, None)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"on {self.backend.name.lower()} memory"
        return f"<symm.Group, rank {self.rank} of {self.size}, {state}>"
