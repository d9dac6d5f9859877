"""Groups: the ranks that share memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from symm import _generated, stores
from symm._generated import GroupInfo, GroupStats, MemoryInfo, PeerInfo
from symm._library import raw
from symm._streams import ALL_STREAMS, handle_of, milliseconds, within
from symm._view import CPU, CUDA, extents_of
from symm.collectives import Collectives
from symm.dtypes import DTypeLike, dtype_of
from symm.enums import Backend, GroupFlag, Status, member
from symm.errors import InvalidArgumentError, NotFoundError
from symm.heap import Heap
from symm.memory import Buffer, Memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import TypedDict, Unpack

    from symm.array import SymmArray

    class GroupOptions(TypedDict, total=False):
        """What all take that form groups, as `Group.join()` says."""

        backend: Backend | str
        device: int | str | None
        timeout: float | None
        create_timeout: float | None
        name: str
        check: bool
        overlapping_devices: bool
        multicast: bool
        shared_scratch: bool
        any_order: bool
        same_offsets: bool
        channels: int
        scratch_bytes: int


class GroupStatus(_generated.GroupStatus):
    """Health of a group."""

    @property
    def ok(self) -> bool:
        """Whether the group works."""
        return self.status == Status.OK


def _placement(
    host: bool, node: int | None, alignment: int, page_bytes: int
) -> tuple[int, int, int, int]:
    """The flags and the NUMA node of an allocation, and
    what else an allocation and a heap have in common.
    """
    if node is not None and not 0 <= node < 2**31:
        raise InvalidArgumentError(f"node: {node} is not in 0 .. 2^31-1")
    numa_node = raw.SYMM_NODE_NEAREST if node is None else node
    return raw.SYMM_ALLOC_HOST if host else 0, numa_node, alignment, page_bytes


def _where(backend: Backend, device: int | str | None) -> tuple[Backend, int]:
    """The back end that is asked for, and the ordinal."""
    if isinstance(device, str):
        kind, _, ordinal = device.partition(":")
        if kind != "cuda" or not (ordinal or "0").isdecimal():
            raise InvalidArgumentError(f"device: {device!r} is neither 'cuda' nor 'cuda:<ordinal>'")
        backend = Backend.CUDA if backend == Backend.AUTO else backend
        device = int(ordinal) if ordinal else None
    if device is None:
        return backend, raw.SYMM_DEVICE_AUTO
    return Backend.CUDA if backend == Backend.AUTO and device >= 0 else backend, device


class Group(Collectives):
    """The ranks that share memory. Make one by `from_env()`,
    `join()`, `from_store()`, `from_torch()` or `from_mpi()`.

    As a context manager it is finalized and closed at the end; if the body raises, it
    is aborted with the exception as the reason, so that no other rank waits.

    All methods may be called from any thread. Collective calls on one
    group must come in the same order on all ranks. Calls that wait
    give up the interpreter lock; a signal such as Ctrl-C is handled
    when they return (``abort()`` from another thread ends them).

    What one method says of a parameter goes for the others. Everywhere `timeout` is in
    seconds, and None is the group's; a `stream` of None is the current one of PyTorch
    or CuPy, else the legacy default stream; a `name` is shown in messages. Methods that
    form groups take the options of `join()`. `DeadlineError`, `PeerFailedError` and
    `AbortedError` come from whatever waits.

    Attributes:
        rank: this rank.
        size: number of ranks.
        backend: `Backend.HOST` or `Backend.CUDA`.
        device: ordinal of the device; 0 on the host.
        device_key: DLPack's (device type, device id) of its memory.
    """

    _ended = False  # by finalize()

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
    def from_env(cls, address: str | None = None, **options: Unpack[GroupOptions]) -> Group:
        """Form a group of the ranks that a launcher started. [collective] [blocking]

        Args:
            address: where the ranks meet; None: $SYMM_BOOTSTRAP, else rank and size
            from the launcher (symm run, Open MPI,
                MPICH, torchrun, Slurm, or a single process).

        Raises:
            UnavailableError: no launcher; and what `join()` raises.
        """
        return cls.join(0, 0, address, **options)

    @classmethod
    def join(
        cls,
        rank: int,
        size: int,
        address: str | None = None,
        *,
        backend: Backend | str = Backend.AUTO,
        device: int | str | None = None,
        timeout: float | None = None,
        create_timeout: float | None = None,
        name: str = "",
        check: bool = False,
        overlapping_devices: bool = False,
        multicast: bool = False,
        shared_scratch: bool = False,
        any_order: bool = False,
        same_offsets: bool = False,
        channels: int = 0,
        scratch_bytes: int = 0,
        _store: stores.Store | None = None,
    ) -> Group:
        """Form a group as rank `rank` of `size`. [collective] [blocking, create_timeout]
        All ranks succeed, or all fail alike.

        Args:
            rank: this rank, 0 .. size-1. address: ``"dir:///path"``, a directory of
            mode 0700 of this user; ``"thread://name"``, ranks are threads of this
                process; ``"env://"``; None: $SYMM_BOOTSTRAP, else ``"env://"``.
            backend: must be the same on all ranks; `Backend.AUTO`: CUDA where `device`
            says so, else $SYMM_BACKEND or the host. device: a CUDA ordinal,
            ``"cuda:1"``, or ``"cuda"`` for this rank's share, as None is on CUDA.
            timeout: seconds for every wait but those of creation; None:
            $SYMM_TIMEOUT_MS, else 60; ``math.inf``: for ever. create_timeout: seconds
            for creation, split and rendezvous; None: $SYMM_CREATE_TIMEOUT_MS, else 300.
            name: tells apart concurrent groups with the same address; shown in
            messages. check: compare the arguments of every collective on all ranks.
            overlapping_devices: several ranks may use one CUDA device. multicast:
            multicast addresses for the group's memories, where they can be had; all
            ranks must ask. shared_scratch: groups made of this one, but by `shrink()`,
            work in its scratch: CUDA only. Collectives of all of them
                have one order, also in graphs, and a failure of
                one is a failure of all; symm.h says it exactly.
            any_order: all-reduces between machines may combine floats in an order of
            their own, which is faster; all must ask. same_offsets: a promise that the
            recvs of all ranks are private or lie alike in each all-reduce, all-gather,
                all-to-all and broadcast, in place on all or none: large ones then go by
                copy engines with CUDA; all must ask.
            channels: barrier channels, and signal channels of memories that ask for no
            other number, up to 256; 0: 64. scratch_bytes: at most for the scratch of
            this group, and of each one made of it; 0: what is fastest.

        Raises:
            InvalidArgumentError: rank, size, address.
            UnavailableError: the back end cannot be used here.
            DeadlineError: not all ranks came; the message names the missing.
            PeerFailedError: a rank died meanwhile.
            MismatchError: ranks gave different arguments.
        """
        asked = {
            GroupFlag.CHECK: check,
            GroupFlag.OVERLAPPING_DEVICES: overlapping_devices,
            GroupFlag.MULTICAST: multicast,
            GroupFlag.SHARED_SCRATCH: shared_scratch,
            GroupFlag.ANY_ORDER: any_order,
            GroupFlag.SAME_OFFSETS: same_offsets,
        }
        flags = sum(int(flag) for flag, wanted in asked.items() if wanted)
        kind, ordinal = _where(member(Backend, backend), device)
        meeting = (rank, size, int(kind), ordinal, flags, address, _store)
        limits = (
            milliseconds(create_timeout),
            milliseconds(timeout),
            name,
            scratch_bytes,
            channels,
        )
        return cls(raw.symm_group_create((*meeting, *limits)))

    @classmethod
    def from_store(
        cls, store: stores.Store, rank: int, size: int, **options: Unpack[GroupOptions]
    ) -> Group:
        """Form a group of ranks that share a key-value store. [collective] [blocking]

        The store is used during creation only, on this thread. If it raises, the
        creation fails on all ranks, and here with that exception as the cause.
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
            store: a ``torch.distributed.Store``; None: that of the default process group.
            rank: None: that of the default process group.
            size: None: that of the default process group.
        """
        if store is None or rank is None or size is None:
            import torch.distributed as dist

            if store is None:
                store = dist.distributed_c10d._get_default_store()
            rank = dist.get_rank() if rank is None else rank
            size = dist.get_world_size() if size is None else size
        return cls.from_store(
            stores.TorchStore(store, rank, str(options.get("name", ""))), rank, size, **options
        )

    @classmethod
    def from_mpi(cls, communicator: Any = None, **options: Unpack[GroupOptions]) -> Group:
        """Form a group of the ranks of an mpi4py communicator, which must be on one
        machine. [collective] [blocking]

        MPI passes on where to meet; the meeting itself is
        in a private directory of rank 0, gone afterwards.

        Args:
            communicator: an ``mpi4py.MPI.Intracomm``; None: ``MPI.COMM_WORLD``.
        """
        if communicator is None:
            from mpi4py import MPI

            communicator = MPI.COMM_WORLD
        with stores.directory_of_communicator(communicator) as address:
            return cls.join(communicator.Get_rank(), communicator.Get_size(), address, **options)

    def split(self, color: int, key: int = 0) -> Group | None:
        """Divide the group. [collective] [blocking, create_timeout]

        Args:
            color: ranks of the same color form a group; a negative one is in none.
            key: ranks are ordered by key, then by rank.

        Returns:
            The part with this rank, None if color is negative.
        """
        part = raw.symm_group_split(self._handle, color, key)
        return Group(part) if part else None

    def create_from_ranks(self, ranks: Iterable[int]) -> Group:
        """Form a group of some ranks, in this order.
        [collective over `ranks`] [blocking, create_timeout]

        Args:
            ranks: distinct ranks of this group, this one among
            them; the same in the same order on all of these.
        """
        return Group(raw.symm_group_create_from_ranks(self._handle, list(ranks)))

    def local(self) -> Group:
        """Form a group of this rank's machine. [collective over
        the ranks of a machine] [blocking, create_timeout]
        """
        return Group(raw.symm_group_local(self._handle))

    def shrink(self, *, name: str | None = None, timeout: float | None = None) -> Group:
        """Form a group of the ranks that live and have not closed
        this one, in their old order. [collective] [blocking]

        Also and above all after a failure: this group may be revoked, and
        stays as it is. Ranks that die meanwhile are left out; all others
        get the same group, or the same failure. `DeadlineError` if a rank
        lives and did not come; once it is gone the call can be made again.

        Args:
            name: of the new group; None: that of this one.
            timeout: seconds; None: the group's create_timeout.
        """
        return Group(raw.symm_group_shrink(self._handle, (milliseconds(timeout), name)))

    def translate_rank(self, other: Group, rank: int) -> int | None:
        """Which rank of this group is rank `rank` of
        `other`; None: it is not in this group. [local]
        """
        try:
            return raw.symm_group_translate_rank(self._handle, other._handle, rank)
        except NotFoundError:
            return None

    # ---- state

    def info(self) -> GroupInfo:
        """Describe the group. [local]"""
        return GroupInfo.read(raw.symm_group_info(self._handle))

    def status(self) -> GroupStatus:
        """Whether the group was revoked, and why. [local] Never waits."""
        return GroupStatus.read(raw.symm_group_status(self._handle))

    def failed_ranks(self) -> list[int]:
        """The ranks that this rank knows to be dead, or to have
        closed the group, ascending. [local] Never waits.
        """
        return raw.symm_group_failed_ranks(self._handle, self.size)

    def failure_fd(self) -> int:
        """A descriptor that becomes readable when the group is
        revoked, for event loops. [local] Not to be closed.
        """
        return raw.symm_group_failure_fd(self._handle)

    def peer_info(self, rank: int) -> PeerInfo:
        """Describe rank `rank`: process, host, device, whether it lives. [local]"""
        return PeerInfo.read(raw.symm_peer_info(self._handle, rank))

    def stats(self) -> GroupStats:
        """What this rank has done on the group so far. [local]
        ``stats().collective_calls[Collective.ALLREDUCE]``
        """
        return GroupStats.read(raw.symm_group_stats(self._handle))

    def abort(self, reason: str = "") -> None:
        """Revoke the group on all ranks: pending and later calls raise `AbortedError`.
        [local] Never waits; any thread.
        """
        # Names of files may have what is no UTF-8.
        raw.symm_group_abort(
            self._handle, reason.encode(errors="backslashreplace").decode() or None
        )

    def finalize(self, timeout: float | None = None) -> None:
        """Wait until all ranks are here, so that none sees
        another leave early. [collective] [blocking]

        Afterwards only queries and `close()` are allowed.
        """
        self._ended = True
        raw.symm_group_finalize(self._handle, within(timeout))

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        try:
            if self.closed:
                return
            if kind is not None:
                self.abort(f"{kind.__name__}: {error}")
            elif not self._ended:
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
        """Allocate this rank's block of `nbytes` > 0 bytes, zeroed. [local] [blocking]

        Args:
            nbytes: its size. host: whether it shall lie in memory of the host, also
            where the group works on devices: pinned, and reached by
                devices and host alike.
            node: the NUMA node of that; None: the one nearest to the
            device, in a host group to the calling thread. alignment: of its
            address, a power of two; 0: 4096. page_bytes: least size of its
            pages, a power of two, huge pages for instance; 0: the system's.

        Raises:
            OutOfMemoryError: the message names the limit. InvalidArgumentError: nbytes
            is 0, there is no such node, `node` is given without `host`, no power of
            two. UnavailableError: memory of the host, or of that node, or such pages
            cannot be had; the message says why.
        """
        options = (*_placement(host, node, alignment, page_bytes), name)
        return Buffer(raw.symm_alloc(self._handle, nbytes, options), nbytes)

    def adopt(
        self, address: int | None, nbytes: int, *, fd: int = -1, offset: int = 0, name: str = ""
    ) -> Buffer:
        """A buffer of memory that another library has allocated. [local] [blocking]

        In a CUDA group of device memory, made by cuMemCreate for a POSIX descriptor; in
        a host group of a piece of a memfd that is sealed against shrinking:
        ``group.adopt(None, nbytes, fd=fd)``. The descriptor stays its owner's.

        It is rendezvoused like any other, and keeps the physical
        memory: the owner may free its own at any time, and is never
        touched. ``buffer.pointer`` is a new address of the same
        bytes; the owner's counts as symmetric too while it is there.

        Args:
            address: anywhere inside a mapped allocation, a
            multiple of 16: ``tensor.data_ptr()``. nbytes: > 0, not
            beyond that allocation. fd: the memfd, where `address`
            is None. offset: of the piece in it, a multiple of 16.

        Raises:
            InvalidArgumentError: the message says what is wrong with
            the memory (made by cudaMalloc, say). UnsupportedError:
            an address in a host group, a descriptor in a CUDA group.
        """
        return Buffer(
            raw.symm_buffer_adopt(self._handle, address, nbytes, (fd, offset, name)), nbytes
        )

    def rendezvous(
        self, buffer: Buffer, tag: int = 0, *, timeout: float | None = None, channels: int = 0
    ) -> Memory:
        """Exchange blocks: afterwards every rank's is mapped
        here. [collective] [blocking, timeout] All or nothing.

        A buffer meets once on a group: a second call is [local]
        and gives the same memory, for as long as neither was
        closed. `MismatchError` if sizes, channels or tags differ.

        Args:
            buffer: of the same size on all ranks. It may be closed
            afterwards, the memory keeps the block. tag: calls with equal
            tags meet, in the order in which they are made. timeout: seconds;
            None: the group's `create_timeout`. channels: signal channels of
            the memory, the same on all ranks; 0: as many as the group has.
        """
        options = (tag, milliseconds(timeout), channels)
        return Memory(raw.symm_rendezvous(self._handle, buffer._handle, options), self)

    def memory_of(self, buffer: Buffer) -> Memory | None:
        """The memory that `buffer` has become on this group; None before `rendezvous()`. [local]"""
        try:
            return Memory(raw.symm_buffer_memory(buffer._handle, self._handle), self)
        except NotFoundError:
            return None

    def empty(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = "f32", *, tag: int = 0
    ) -> SymmArray:
        """A symmetric array: allocate and rendezvous. [collective] [blocking] Its elements
        are zero; `zeros()` is the same.

        Args:
            shape: extents; the same number of bytes on all ranks. dtype: element type,
            for instance ``"bf16"``, ``numpy.float32``, ``torch.float8_e4m3fn``.

        Returns:
            This rank's array; ``peer(rank)`` of it is another rank's.
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
        """Symmetric memory that is handed out in pieces.
        [collective] [blocking, timeout] All or nothing.

        Args:
            nbytes: > 0, the same on all ranks; rounded up to a multiple of 256.
            alignment: of the block, a power of two, and so the most that a piece can
            have; 0: 4096. timeout: seconds; None: the group's `create_timeout`.

        Raises:
            MismatchError: sizes differ.
            OutOfMemoryError, UnavailableError: as `alloc()` says, on whichever rank.
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
            buffer: of this group, or of another one on the same device.
            shape: None: one axis with all that fits behind `offset`.
            offset: bytes from the start of the block.
        """
        kind = dtype_of(dtype)
        if shape is None:
            shape = max(0, buffer.nbytes - offset) // kind.itemsize
        return self.rendezvous(buffer, tag).array(shape, kind, offset=offset)

    def find(self, address: int) -> tuple[int, int, int] | None:
        """Which memory of the group maps `address`, anywhere inside a block. [local]

        Returns:
            (id of the memory, rank, offset in bytes); None if it is no memory of the group's.
        """
        try:
            handle, rank, offset = raw.symm_memory_find(self._handle, address)
        except NotFoundError:
            return None
        try:
            return MemoryInfo.read(raw.symm_memory_info(handle)).id, rank, offset
        finally:
            raw.symm_memory_release(handle)

    # ---- barrier

    def barrier(
        self,
        ranks: Iterable[int] | None = None,
        *,
        channel: int = 0,
        timeout: float | None = None,
        stream: Any = None,
    ) -> None:
        """Wait until all ranks of a set are here. [collective
        over the set] [stream; blocking on the host]

        What they wrote before is visible afterwards. Barriers on different channels are
        independent; ranks that are in several sets must come to the barriers of these
        on one channel in the same order.

        Args:
            ranks: distinct ranks, this one among them; None: the whole group.
            channel: 0 .. channels-1.

        Raises:
            DeadlineError: names the first missing rank.
            InvalidArgumentError: ranks, channel.
        """
        chosen = None if ranks is None else list(ranks)
        raw.symm_barrier(self._handle, chosen, channel, within(timeout), self._stream(stream))

    # ---- streams

    def synchronize(self, stream: Any = None, *, timeout: float | None = None) -> None:
        """Wait until all that was issued on `stream` is over, and say what went wrong
        there. [local] [blocking, timeout]

        Raises:
            DeadlineError: the stream is not there yet; the group stays usable.
            SymmError: what revoked the group.
            InvalidArgumentError: the stream is being captured.
        """
        raw.symm_group_synchronize(self._handle, self._stream(stream), within(timeout))

    def stream_done(self, stream: Any = None) -> bool:
        """Whether all that was issued on `stream` is
        over; always on the host. [local] Never waits.

        `InvalidArgumentError` if the stream is being captured, which this call leaves as it is.
        """
        return bool(raw.symm_stream_query(self._handle, self._stream(stream)))

    def stream_wait(self, stream: Any = None, after: Any = None) -> None:
        """What is issued on `stream` next runs after what was
        issued on another. [local] [stream] Nothing on the host.

        Args:
            after: None: all streams that calls on this group were issued on.
        """
        other = ALL_STREAMS if after is None else handle_of(after)
        raw.symm_stream_wait(self._handle, self._stream(stream), other)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"on {self.backend.name.lower()} memory"
        return f"<symm.Group, rank {self.rank} of {self.size}, {state}>"
