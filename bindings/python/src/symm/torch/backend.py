"""A back end of ``torch.distributed``:
``init_process_group("cpu:symm,cuda:symm")`` after ``import symm.torch``.

A process group has a group of symm's for tensors of the CPU and one for
those of CUDA, each made by the first collective that needs it. Sums are the
same bits on every rank and at every size. Blocking collectives run where
they are called: on the calling thread, or the current stream. Asynchronous
ones run in their order on a thread or a stream of the process group's.

``pg_options`` may be a dict of what `symm.Group.join()` takes: scratch_bytes,
multicast, overlapping_devices, channels, check.

Not there, and errors that say so: another back end for one of the devices, reductions
by bits of integers, sparse tensors, receiving from any source, messages inside of CUDA
graph captures, and ranks on several machines.
"""
# ruff: noqa: B008, D102, N802 - the methods and their defaults are those of torch.distributed.ProcessGroup

from __future__ import annotations

import atexit
import contextlib
import functools
import queue
import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.futures import Future

from symm.dtypes import ALL
from symm.enums import Op
from symm.errors import AbortedError, InvalidArgumentError, UnsupportedError
from symm.group import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from typing import TypeAlias

    Tensor: TypeAlias = torch.Tensor
    Body: TypeAlias = Callable[[Group], None]

_KNOWN = frozenset(getattr(torch, kind.long_name) for kind in ALL if hasattr(torch, kind.long_name))
_REDUCE = dist.ReduceOp.RedOpType
_OPS = {
    _REDUCE.SUM: Op.SUM,
    _REDUCE.AVG: Op.AVG,
    _REDUCE.MIN: Op.MIN,
    _REDUCE.MAX: Op.MAX,
    _REDUCE.PRODUCT: Op.PROD,
}
_OF_BOOL = _OPS | {_REDUCE.BAND: Op.MIN, _REDUCE.BOR: Op.MAX}


def _operation(dtype: torch.dtype, given: Any) -> dict[str, Any]:
    """An operation of PyTorch's, as arguments of a reduction of symm's."""
    kind = given.op if isinstance(given, dist.ReduceOp) else given
    if kind == _REDUCE.PREMUL_SUM:
        return {"op": Op.SUM, "scale": given.__getstate__()[1]}
    op = (_OF_BOOL if dtype == torch.bool else _OPS).get(kind)
    if op is None or not (dtype in _KNOWN or (dtype.is_complex and op in (Op.SUM, Op.AVG))):
        raise UnsupportedError(f"symm does not reduce {dtype} by {str(kind).rpartition('.')[2]}")
    return {"op": op}


def _plain(dense: Tensor) -> Tensor:
    """A contiguous tensor as a row of elements that symm knows:
    complex numbers in parts, others of no known type as bytes.
    """
    if dense.dtype in _KNOWN:
        return dense
    return torch.view_as_real(dense) if dense.is_complex() else dense.view(-1).view(torch.uint8)


@contextlib.contextmanager
def _written(tensor: Tensor) -> Iterator[Tensor]:
    """A plain tensor to write to, and perhaps to read:
    the memory itself, or a copy that is copied back.
    """
    dense = tensor.contiguous()
    yield _plain(dense)
    if dense is not tensor:
        tensor.copy_(dense)


def _read(*tensors: Tensor) -> Tensor:
    """A plain tensor of one tensor, or of several behind each other."""
    return _plain(
        tensors[0].contiguous()
        if len(tensors) == 1
        else torch.cat([tensor.reshape(-1) for tensor in tensors])
    )


@contextlib.contextmanager
def _all_written(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """A plain tensor that is copied to all of them."""
    flat = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))
    yield _plain(flat)
    for tensor, part in zip(
        tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True
    ):
        tensor.copy_(part.view(tensor.shape))


def _one(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise UnsupportedError(f"{len(tensors)} tensors: symm has one device for each rank")
    return tensors[0]


class _Work(dist.Work):  # type: ignore[misc]
    """What `lane` does behind `future`, and all of `parts`; else what is over, or ordered
    on the stream that the caller is on.
    """

    def __init__(
        self, lane: _Lane | None = None, future: Any = None, parts: Sequence[_Work] = ()
    ) -> None:
        super().__init__()
        self._lane, self._future, self._parts = lane, future, parts
        self.over = threading.Event()
        self.event: Any = None  # on the lane's stream
        self.awaited = lane is None
        if lane is None:
            self.over.set()

    def wait(self, timeout: timedelta | None = None) -> bool:
        for part in self._parts:
            part.wait(timeout)
        if self._lane is not None:
            seconds = timeout.total_seconds() if timeout else None
            if not self.over.wait(seconds):
                raise TimeoutError(f"the collective is not over after {seconds} s")
            # of Python's class, which raises what went wrong; the one that C++ sees does not
            self._future.value()
            if seconds and self._lane.side:
                self._lane.group.synchronize(self._lane.side, timeout=seconds)
            # from here on the current stream is behind it, so only when it came in time
            self._future.wait()
            self.awaited = True
        return True

    def is_completed(self) -> bool:
        there = self.over.is_set() and (self.event is None or self.event.query())
        return there and all(part.is_completed() for part in self._parts)

    def get_future(self) -> Any:
        return self._future


_DONE = _Work()
_lanes: weakref.WeakSet[_Lane] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    # A thread that comes out of C++ while the interpreter ends would end the process.
    for lane in list(_lanes):
        lane.close()
        if lane.thread is not None:
            lane.thread.join(1)


class _Lane:
    """A group that is made when it is first needed, and what is asynchronous on it, in
    order: on a thread, or on a stream.
    """

    def __init__(self, device: torch.device, make: Callable[[], Group], *, threaded: bool) -> None:
        self.device = device
        self._make = make
        self._threaded = threaded
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self._last = _DONE
        self._group: Group | None = None
        self._closed = False
        self.side: Any = None
        _lanes.add(self)

    @property
    def group(self) -> Group:
        with self._lock:
            if self._closed:
                raise AbortedError("torch.distributed: the process group was destroyed")
            if self._group is None:
                self._group = self._make()
            return self._group

    def now(self, body: Body) -> None:
        """On this thread or the current stream, behind what was begun before."""
        self._last.over.wait()
        body(self.group)

    def later(self, body: Body, tensors: Sequence[Tensor], result: Any) -> _Work:
        """Begin it. On CUDA it comes behind what is on the current stream."""
        arrived = None
        if self.device.type == "cuda":
            if self._threaded and torch.cuda.is_current_stream_capturing():
                raise UnsupportedError(
                    "messages between two ranks cannot be captured into a CUDA graph"
                )
            if self.side is None:
                self.side = torch.cuda.Stream(self.device)
            arrived = torch.cuda.current_stream(self.device).record_event()
            for tensor in tensors:
                tensor.record_stream(self.side)
        work = _Work(self, Future(devices=arrived and [self.device]))
        task = (work, arrived, body, result)
        self._last = work
        if self._threaded:
            if self.thread is None:
                self.thread = threading.Thread(target=self._work, name="symm.torch", daemon=True)
                self.thread.start()
            self._tasks.put(task)
        else:
            self._run(*task)
        return work

    def _run(self, work: _Work, arrived: Any, body: Body, result: Any) -> None:
        future = work.get_future()
        with torch.no_grad(), torch.cuda.stream(self.side) if arrived else contextlib.nullcontext():
            try:
                if arrived:
                    self.side.wait_event(arrived)
                body(self.group)
                if arrived and not torch.cuda.is_current_stream_capturing():
                    work.event = self.side.record_event()
                future.set_result(result)  # of which it remembers the stream
            except Exception as error:
                if not self._threaded:
                    raise
                future.set_exception(error)
            finally:
                work.over.set()

    def _work(self) -> None:
        while task := self._tasks.get():
            self._run(*task)
            del task
        self._release()

    def _release(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.close()

    def close(self, reason: str = "") -> None:
        """End what is under way and was never waited for, and let go of the group. Never waits."""
        self._closed = True
        if self._group is not None and (
            reason or not (self._last.awaited or self._last.is_completed())
        ):
            self._group.abort(reason or "torch.distributed: the process group was destroyed")
        if self.thread is None:
            self._release()
        else:
            self._tasks.put(None)  # nobody may let go of a group in which a call is under way


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """What ``torch.distributed`` makes for the back end "symm"."""

    _device_types = (torch.device("cpu"), torch.device("cuda"))
    supports_splitting = supports_coalescing = False

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(rank, size)
        if options is not None and not isinstance(options, dict):
            raise InvalidArgumentError("pg_options: is not a dict of what symm.Group.join() takes")
        self._store, self._rank, self._size = store, rank, size
        seconds = timeout.total_seconds()
        self._options = {
            "timeout": seconds,
            "create_timeout": seconds,
            "name": "torch",
            **(options or {}),
        }
        self._lanes: dict[Any, _Lane] = {}
        self._coalesced: list[Any] | None = None
        self._name = ""

    def getBackendName(self) -> str:
        return "symm"

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def _get_backend(self, device: torch.device) -> ProcessGroup:  # noqa: ARG002 - PyTorch's signature
        return self

    def supports_tensor_alloc(self, device: torch.device) -> bool:  # noqa: ARG002
        return False

    def _start_coalescing(self, device: torch.device) -> None:  # noqa: ARG002
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Any:  # noqa: ARG002
        works, self._coalesced = self._coalesced or (), None
        return _Work(parts=works)

    def _begun(self, work: Any) -> Any:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def group(self, device: torch.device) -> Group:
        """The group of symm's for tensors on `device`. [collective] the first time, then [local]"""
        return self._lane(device).group

    def shutdown(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def abort(self) -> None:
        for lane in self._lanes.values():
            lane.close("torch.distributed: the process group was aborted")

    def _new_group(self, device: torch.device, rank: int, size: int, name: str) -> Group:
        # What waits for a key holds the connection, which the clone has to itself.
        store = self._store.clone() if hasattr(self._store, "clone") else self._store
        where = (
            {"backend": "host"}
            if device.type == "cpu"
            else {"backend": "cuda", "device": device.index}
        )
        return Group.from_torch(
            store,
            rank,
            size,
            **(self._options | where | {"name": f"{self._options['name']} {name}"}),
        )

    def _lane(self, device: torch.device) -> _Lane:
        lane = self._lanes.get(device)
        if lane is None and device.type == "cuda" and device.index is None:
            return self._lane(torch.device("cuda", torch.cuda.current_device()))
        if lane is None:
            config = dist.distributed_c10d._world.pg_backend_config.get(self, "cpu:symm,cuda:symm")
            if f"{device.type}:symm" not in config:
                raise UnsupportedError(
                    f"{device}: symm serves all devices of a process group or none, not {config!r}"
                )
            if device.type == "cuda" and any(
                of.type == "cuda" for of in self._lanes if isinstance(of, torch.device)
            ):
                raise InvalidArgumentError(
                    f"the tensor is on {device}: a rank has one device, and this one began with another"
                )
            make = functools.partial(self._new_group, device, self._rank, self._size, device.type)
            lane = self._lanes[device] = _Lane(device, make, threaded=device.type == "cpu")
        return lane

    def _run(self, opts: Any, tensors: Sequence[Tensor], body: Body, result: Any = None) -> Any:
        if tensors[0].layout != torch.strided:
            raise UnsupportedError(
                f"symm has no collectives of tensors with the layout {tensors[0].layout}"
            )
        lane = self._lane(tensors[0].device)
        if getattr(opts, "asyncOp", True):
            return self._begun(lane.later(body, tensors, tensors if result is None else result))
        with torch.no_grad():
            lane.now(body)
        return _DONE

    # ---- collectives

    def _each(
        self, name: str, opts: Any, outputs: Sequence[Tensor], tensors: Sequence[Tensor], **how: Any
    ) -> Any:
        """That collective of each of `tensors`, into its like in `outputs`, which may be itself."""

        def body(group: Group) -> None:
            for output, tensor in zip(outputs, tensors, strict=True):
                with _written(output) as into:
                    getattr(group, name)(
                        send=into if tensor is output else _read(tensor), recv=into, **how
                    )

        return self._run(opts, [*outputs, *tensors], body, outputs)

    def allreduce(self, tensors: list[Tensor], opts: Any = dist.AllreduceOptions()) -> Any:
        return self._each(
            "allreduce", opts, tensors, tensors, **_operation(tensors[0].dtype, opts.reduceOp)
        )

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        _one(tensors)
        return self._each("broadcast", opts, tensors, tensors, root=opts.rootRank)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        how = _operation(_one(tensors).dtype, opts.reduceOp)
        return self._each("reduce", opts, tensors, tensors, root=opts.rootRank, **how)

    def allgather_into_tensor_coalesced(
        self, outputs: list[Tensor], tensors: list[Tensor], opts: Any = None
    ) -> Any:
        return self._each("allgather", opts, outputs, tensors)

    def _allgather_base(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Any:
        return self.allgather_into_tensor_coalesced([output], [tensor], opts)

    def allgather(
        self, outputs: list[list[Tensor]], tensors: list[Tensor], opts: Any = None
    ) -> Any:
        def body(group: Group) -> None:
            for parts, tensor in zip(outputs, tensors, strict=True):
                with _all_written(parts) as into:
                    group.allgatherv(_read(tensor), into, [_read(part).numel() for part in parts])

        return self._run(
            opts, [*tensors, *(part for parts in outputs for part in parts)], body, outputs
        )

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], tensors: list[Tensor], opts: Any = None
    ) -> Any:
        return self.allgather([list(parts) for parts in zip(*outputs, strict=True)], tensors, opts)

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[Tensor], tensors: list[Tensor], opts: Any
    ) -> Any:
        return self._each(
            "reduce_scatter", opts, outputs, tensors, **_operation(outputs[0].dtype, opts.reduceOp)
        )

    def _reduce_scatter_base(
        self, output: Tensor, tensor: Tensor, opts: Any = dist.ReduceScatterOptions()
    ) -> Any:
        return self.reduce_scatter_tensor_coalesced([output], [tensor], opts)

    def reduce_scatter(self, outputs: list[Tensor], tensors: list[list[Tensor]], opts: Any) -> Any:
        output, parts = _one(outputs), _one(tensors)
        how = _operation(output.dtype, opts.reduceOp)

        def body(group: Group) -> None:
            with _written(output) as into:
                group.reduce_scatterv(
                    _read(*parts), [_read(part).numel() for part in parts], into, **how
                )

        return self._run(opts, [output, *parts], body, outputs)

    def alltoall_base(
        self,
        output: Tensor,
        tensor: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> Any:
        def counts(of: Tensor, splits: list[int]) -> list[int]:
            rows = of.shape[0]
            if not splits and rows % self._size:
                raise InvalidArgumentError(
                    f"{rows} rows cannot be divided among {self._size} ranks"
                )
            return [
                split * (_read(of).numel() // max(1, rows))
                for split in splits or [rows // self._size] * self._size
            ]

        sent, received = counts(tensor, input_splits), counts(output, output_splits)
        return self._each(
            "alltoallv", opts, [output], [tensor], send_counts=sent, recv_counts=received
        )

    def alltoall(self, outputs: list[Tensor], tensors: list[Tensor], opts: Any = None) -> Any:
        def body(group: Group) -> None:
            sent, received = (
                [_read(one).numel() for one in several] for several in (tensors, outputs)
            )
            with _all_written(outputs) as into:
                group.alltoallv(_read(*tensors), sent, into, received)

        return self._run(opts, [*outputs, *tensors], body, outputs)

    def gather(self, outputs: list[list[Tensor]], tensors: list[Tensor], opts: Any) -> Any:
        tensor = _one(tensors)
        parts = _one(outputs) if self._rank == opts.rootRank else [tensor]

        def body(group: Group) -> None:
            with (
                _all_written(parts)
                if self._rank == opts.rootRank
                else contextlib.nullcontext() as into
            ):
                group.gather(_read(tensor), into, opts.rootRank)

        return self._run(opts, [tensor, *parts], body, outputs)

    def scatter(self, outputs: list[Tensor], tensors: list[list[Tensor]], opts: Any) -> Any:
        output = _one(outputs)
        parts = _one(tensors) if self._rank == opts.rootRank else []

        def body(group: Group) -> None:
            with _written(output) as into:
                group.scatter(_read(*parts) if parts else None, into, opts.rootRank)

        return self._run(opts, [output, *parts], body, outputs)

    def barrier(self, opts: Any = None) -> Any:
        there = [
            device
            for device in self._lanes
            if isinstance(device, torch.device) and device.type == "cuda"
        ]
        lane = self._lane(there[0] if there else torch.device("cpu"))

        def body(group: Group) -> None:
            group.barrier(
                stream=torch.cuda.current_stream(lane.device)
                if lane.device.type == "cuda"
                else None
            )

        if getattr(opts, "asyncOp", True):
            return lane.later(body, [], [])
        lane.now(body)
        if lane.device.type == "cuda":
            # the caller counts on it, as with NCCL
            torch.cuda.current_stream(lane.device).synchronize()
        return _DONE

    # ---- messages: for each direction between two ranks, and each tag, a group of
    # these two, in which the sender broadcasts

    def _message(self, tensors: list[Tensor], source: int, target: int, tag: int) -> Any:
        tensor = _one(tensors)
        key = (source, target, tag, tensor.device)
        lane = self._lanes.get(key)
        if lane is None:
            if source == target:
                raise InvalidArgumentError(f"rank {source} cannot send to itself")
            mine = int(self._rank == target)
            make = functools.partial(
                self._new_group, tensor.device, mine, 2, f"{source}-{target} {tag}"
            )
            lane = self._lanes[key] = _Lane(tensor.device, make, threaded=True)

        def body(group: Group) -> None:
            with _written(tensor) as x:
                group.broadcast(x)

        return self._begun(lane.later(body, tensors, tensors))

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Any:
        return self._message(tensors, self._rank, dst, tag)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Any:
        return self._message(tensors, src, self._rank, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Any:  # noqa: ARG002 - PyTorch's signature
        raise UnsupportedError("src: symm receives from a rank that is named, not from any")

    allreduce_coalesced = allreduce
    # What later versions of PyTorch call the same.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base


def _create(given: Any, options: Any = None) -> ProcessGroup:
    return ProcessGroup(given.store, given.group_rank, given.group_size, given.timeout, options)


dist.Backend.register_backend("symm", _create, extended_api=True, devices=["cpu", "cuda"])
# From 2.15 on PyTorch's flight recorder attaches itself to groups of others, and asks
# them for a back end in C++; this has none.
getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set[str]()).add("symm")
