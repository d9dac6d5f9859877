"""The back end "symm" of ``torch.distributed``.

``init_process_group("cpu:symm,cuda:symm")`` selects it after ``import symm.torch``.

A process group has a `symm.Group` for tensors of the CPU, and another one for tensors of CUDA.
The first collective that needs a group makes it. Sums have the same bits on every rank and at
every size. Blocking collectives run on the calling thread, or on the current stream.
Asynchronous ones run in their order on a thread or a stream that the process group owns.

A callback of a future may make collectives. On the CPU their place in the order is where
``get_future()`` was called, on every rank, so attach callbacks before the next collective. Those of
another process group are an error if the program makes others of it before the callback is over.
A collective that fails raises symm's error, also from ``wait()``. A future raises RuntimeError with
the name and the text of that error, and so does ``backward()`` of DistributedDataParallel.

``pg_options`` may be a dict of options of `symm.Group.join()`: scratch_bytes, multicast,
overlapping_devices, channels, check. Beside them, ``batched_messages=True`` is a choice of the
messages between ranks:

- Without it each message has a place of its own among those with its ranks, direction, tag and
  device, whatever else is sent, received or called meanwhile. The two ranks form a group at the
  first one, to which no other rank comes. In a batch, as in ``batch_isend_irecv()``, each message
  has its own handle.
- With it a batch is one call of `symm.Group.messages()` on the group of all ranks, one kernel on
  CUDA, which may be captured into a graph. The rules are those of NCCL's back end: both sides of a
  message are in batches, all ranks make the first call of a process group, a batch has one handle,
  and its place is among the collectives. Tags are channels: 0 .. channels-1. A batch of the CPU may
  be over before short messages are received, so a rank that ends next calls a barrier.

A message has to be as long as the tensor that receives it; types are not compared.

Unsupported, with an error that says so:

- another back end for one of the devices,
- bitwise reductions of integers,
- sparse, quantized and nested tensors, and DTensor,
- receiving from any source,
- messages inside a CUDA graph capture, but for batches with ``batched_messages``,
- such batches of CUDA tensors between several machines.

Ranks may be on several machines. Between them UCX or symm's own connections carry the data of CPU
tensors, and NCCL that of CUDA tensors.
"""
# ruff: noqa: B008, D102, N802 - methods and defaults are those of torch.distributed.ProcessGroup

from __future__ import annotations

import atexit
import contextlib
import functools
import queue
import re
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.futures import Future
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from symm import errors
from symm.collectives import require_rows
from symm.dtypes import ALL
from symm.enums import Op
from symm.errors import (
    AbortedError,
    InvalidArgumentError,
    MismatchError,
    SymmError,
    UnsupportedError,
)
from symm.group import Group
from symm.messages import Recv, Send
from symm.torch.operators import require_distinct_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from typing import TypeAlias

    Tensor: TypeAlias = torch.Tensor
    Body: TypeAlias = Callable[[Group], None]

_DESTROYED = "torch.distributed: the process group was destroyed"
_EXIT_PATIENCE = 10  # seconds; calls on a group that was aborted end at once
_TIMEOUTS = ("timeout", "create_timeout")
# Complex numbers are reduced as their parts, so that a factor multiplies these.
_KNOWN = frozenset(
    getattr(torch, kind.long_name)
    for kind in ALL
    if hasattr(torch, kind.long_name) and not kind.is_complex
)
_REDUCE = dist.ReduceOp.RedOpType
_OPS = {
    _REDUCE.SUM: Op.SUM,
    _REDUCE.AVG: Op.AVG,
    _REDUCE.MIN: Op.MIN,
    _REDUCE.MAX: Op.MAX,
    _REDUCE.PRODUCT: Op.PROD,
}
_INTEGER_OPS = _OPS | {_REDUCE.BAND: Op.BAND, _REDUCE.BOR: Op.BOR, _REDUCE.BXOR: Op.BXOR}
_BOOL_OPS = _OPS | {_REDUCE.BAND: Op.MIN, _REDUCE.BOR: Op.MAX}


def _reduction_options(dtype: torch.dtype, reduce_op: Any) -> dict[str, Any]:
    """Convert PyTorch's operation to arguments of symm's reductions."""
    kind = reduce_op.op if isinstance(reduce_op, dist.ReduceOp) else reduce_op
    if kind == _REDUCE.PREMUL_SUM:
        return {"op": Op.SUM, "scale": reduce_op.__getstate__()[1]}

    ops = _OPS if dtype.is_floating_point or dtype.is_complex else _INTEGER_OPS
    ops = _BOOL_OPS if dtype == torch.bool else ops
    op = ops.get(kind)
    is_known = dtype in _KNOWN or (dtype.is_complex and op in (Op.SUM, Op.AVG))
    if op is None or not is_known:
        raise UnsupportedError(f"symm does not reduce {dtype} by {str(kind).rpartition('.')[2]}")
    return {"op": op}


def _require_values(tensor: Tensor, *, written: bool) -> None:
    """Raise UnsupportedError if the memory of a tensor is not the values of its elements."""
    kind = ""
    if tensor.layout != torch.strided:
        kind = f"tensors with the layout {tensor.layout}"
    elif tensor.is_quantized:
        kind = "quantized tensors, whose scale is not in their memory; int_repr() can be moved"
    elif tensor.is_nested:
        kind = "nested tensors; values() can be moved"
    elif is_traceable_wrapper_subclass(tensor) and is_traceable_wrapper_subclass(_dense(tensor)):
        kind = f"{type(tensor).__name__}, which only wraps tensors; DTensor has to_local()"
    elif written and tensor._is_zerotensor():
        kind = "lazy zeros as results: they have no memory; pass torch.zeros()"
    if kind:
        raise UnsupportedError(f"symm has no collectives and messages of {kind}")


def _plain(dense: Tensor) -> Tensor:
    """A view of a contiguous tensor whose elements have a type that symm knows.

    Complex numbers become their two parts. Elements of other unknown types become bytes.
    """
    if dense.dtype in _KNOWN:
        return dense
    return torch.view_as_real(dense) if dense.is_complex() else dense.view(-1).view(torch.uint8)


def _dense(tensor: Tensor) -> Tensor:
    """The tensor itself if its memory has its elements in their order, else such a copy.

    A view may be negated or conjugated by a bit that is not in its memory. Zeros may have none.
    """
    if tensor._is_zerotensor():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.contiguous().resolve_neg().resolve_conj()


def _read(tensor: Tensor) -> Tensor:
    """A plain tensor to read: the memory of `tensor` itself, or a copy."""
    return _plain(_dense(tensor))


def _read_all(tensors: Sequence[Tensor]) -> Tensor:
    """A plain tensor to read, the concatenation of `tensors`."""
    if len(tensors) == 1:
        return _read(tensors[0])
    return _read(torch.cat([_dense(tensor).reshape(-1) for tensor in tensors]))


@contextlib.contextmanager
def _written(tensor: Tensor) -> Iterator[Tensor]:
    """A plain tensor to read and write: the memory itself, or a copy that is copied back."""
    dense = _dense(tensor)
    yield _plain(dense)
    if dense is not tensor:
        tensor.copy_(dense)


@contextlib.contextmanager
def _all_written(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """A plain tensor to write, whose parts are copied to `tensors`."""
    counts = [tensor.numel() for tensor in tensors]
    flat = tensors[0].new_empty(sum(counts))
    yield _plain(flat)
    for tensor, part in zip(tensors, flat.split(counts), strict=True):
        tensor.copy_(part.view(tensor.shape))


def _count(tensor: Tensor) -> int:
    """The number of elements of the plain tensor."""
    return int(_read(tensor).numel())


def _require_whole(group: Group, source: int, came: int, tensor: Tensor) -> None:
    """Fail the group if a message of `came` bytes from rank `source` was shorter than a tensor."""
    room = tensor.numel() * tensor.element_size()
    if came == room:
        return
    error = MismatchError(
        f"torch.distributed: rank {source} sent {came} bytes to rank {group.rank}, "
        f"which receives a tensor of {room}"
    )
    group.abort(str(error))
    raise error


_NOTHING = torch.empty(0, dtype=torch.uint8)


def _pass_message(group: Group, tensor: Tensor, *, sends: bool) -> None:
    """Send a plain tensor from rank 0 of a group to rank 1, or receive it.

    On both ranks this is over when it is received. A short message of the host would be left for
    the receiver otherwise, and would be lost with a sender that ends. So the receiver answers.
    """
    if tensor.is_cuda and group.info().machines > 1:
        # Messages reach no GPU of another machine. A broadcast does, by NCCL.
        group.broadcast(tensor)
    elif tensor.is_cuda and sends:
        group.send(1, tensor)
    elif sends:
        group.messages([Send(1, tensor), Recv(1, _NOTHING)])
    else:
        _require_whole(group, 0, group.recv(0, tensor), tensor)
        if not tensor.is_cuda:
            group.send(0, _NOTHING)


def _one(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise UnsupportedError(f"{len(tensors)} tensors: symm has one device for each rank")
    return tensors[0]


class _Work(dist.Work):  # type: ignore[misc]
    """The handle of a collective.

    With an executor, it stands for a task of that executor. It also stands for all of `parts`.
    With neither, it stands for work that is over, or that is ordered on the caller's current
    stream.
    """

    def __init__(
        self, executor: _Executor | None = None, device: Any = None, parts: Sequence[_Work] = ()
    ) -> None:
        super().__init__()
        self._executor = executor
        self._device = device
        self._parts = parts
        self.over = threading.Event()  # the task ended
        self.settled = threading.Event()  # and so did all callbacks that run with its end
        self.error: Exception | None = None
        self.event: Any = None  # the end of the task on the executor's stream
        self.awaited = executor is None
        self._result: Any = None
        self._ended: Any = None  # the future that remembers the executor's stream
        self._gates: list[_Gate] = []  # which the end of the task opens

        if executor is None:
            self.over.set()
            self.settled.set()
        elif not executor.in_order:
            self._ended = Future(devices=device and [device])

    def _value(self, _: Any) -> Any:
        # PyTorch's C++ takes the value of a future after set_exception() for tensors: that error
        # is known to Python only. One that a callback raises is an error of the future itself.
        if self.error is not None:
            raise self.error
        return self._result

    def end(self, result: Any) -> None:
        """Say that the task ended, and run the callbacks that wait for just that."""
        self._result = result
        with _lock:
            self.over.set()
            gates, self._gates = self._gates, []
        try:
            if self._ended is not None:
                self._ended.set_result(result)  # the future remembers the current stream
            for gate in gates:
                gate.open()
        finally:
            self.settled.set()

    def wait(self, timeout: timedelta | None = None) -> bool:
        for part in self._parts:
            part.wait(timeout)
        if self._executor is not None:
            seconds = timeout.total_seconds() if timeout else None
            self._executor.wait_for(self.over, seconds)
            if self.error is None and seconds and self._executor.stream:
                with self._executor.naming_ranks():
                    self._executor.group.synchronize(self._executor.stream, timeout=seconds)
            if self.error is not None:
                raise self.error
            if self._ended is not None:
                # This orders the current stream after the task. So it comes last: not if the
                # task was late.
                self._ended.wait()
            self.awaited = True

        return True

    def is_completed(self) -> bool:
        is_over = self.over.is_set() and (self.event is None or self.event.query())
        return is_over and all(part.is_completed() for part in self._parts)

    def exception(self) -> Exception | None:
        errors = (part.exception() for part in self._parts)
        return self.error or next(filter(None, errors), None)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def get_future(self) -> Any:
        """A future whose callbacks have their place among the collectives here.

        They come after what was called before this call, and before what is called after it.
        """
        if self._executor is None:
            parts = [part.get_future() for part in self._parts]
            return torch.futures.collect_all(parts).then(_values)
        if not self._executor.threaded:
            return self._ended

        if self._executor.in_order:
            gate = _Gate(self._executor)
            future = gate.future.then(self._value)
            self._executor.pass_through(gate, self)
            return future

        # A message may come late. What is called after it does not wait for its callbacks.
        gate = _Gate(self._executor, self._device)
        with _lock:
            is_over = self.over.is_set()
            if not is_over:
                future = gate.future.then(self._value)
                self._gates.append(gate)
        return self._ended.then(self._value) if is_over else future


def _values(futures: Any) -> list[Any]:
    return [value for future in futures.value() for value in future.value()]


class _Gate:
    """A place in the order of the collectives, where the callbacks of a future run.

    PyTorch runs a callback on the thread that completes the future. If the future is complete, it
    runs on the thread that attaches the callback. So each future is completed at the place where
    the program asked for it, and the callbacks have the same place in either case.

    A callback may make collectives of another executor. There it has no place, since that one
    goes on meanwhile: its collectives are refused there after others were called.
    """

    def __init__(self, executor: _Executor, device: Any = None) -> None:
        self.executor = executor
        self.future = Future(devices=device and [device])
        self.settled = threading.Event()
        with _lock:
            # What was called up to here: the last task of each executor, and the numbers of calls.
            self._before = {one: (one.last, dict(one.calls)) for one in _executors}

    def open(self) -> None:
        """Complete the future, and run its callbacks on this thread."""
        outer = getattr(_running, "gate", None)
        _running.gate = self
        try:
            self.future.set_result(None)
        finally:
            _running.gate = outer
            self.settled.set()

    def wait_for(self, executor: _Executor) -> None:
        """Wait for what the program called of another executor before this place."""
        last, _ = self._before.get(executor, (_DONE, {}))
        executor.wait_for(last.settled)

    def require_order(self, executor: _Executor) -> None:
        """Raise MismatchError if others made collectives of another executor since this place.

        The group is aborted, too. So no rank takes a collective for another one unnoticed.
        """
        _, before = self._before.get(executor, (_DONE, {}))
        with _lock:
            now = dict(executor.calls)
            executor.calls[self.executor] = now.get(self.executor, 0) + 1
        others = (source for source in now if source is not self.executor)
        if any(now[source] != before.get(source, 0) for source in others):
            error = MismatchError(
                f"torch.distributed: a callback of a future of {self.executor.name!r} makes a "
                f"collective of {executor.name!r}, and the program made others of it since "
                "get_future(): their order would depend on time. Wait for the callback first"
            )
            executor.abort(str(error))
            raise error


_DONE = _Work()
_lock = threading.RLock()
_running = threading.local()  # .gate: whose callbacks this thread runs
_executors: weakref.WeakSet[_Executor] = weakref.WeakSet()


@atexit.register
def _close_executors() -> None:
    # A thread that returns from C++ while the interpreter ends would end the process.
    executors = list(_executors)
    for executor in executors:
        executor.close()
    end = time.monotonic() + _EXIT_PATIENCE
    for executor in executors:
        if executor.thread is not None:
            executor.thread.join(max(0, end - time.monotonic()))


_RANKS = re.compile(r"\branks? \d+(?:(?:, | and | or )\d+)*")


def _with_ranks_of(error: SymmError, ranks: Sequence[int]) -> SymmError:
    """The error of a group of some ranks of a process group, with their numbers there."""

    def number(found: re.Match[str]) -> str:
        rank = int(found[0])
        return str(ranks[rank]) if rank < len(ranks) else found[0]

    def numbers(found: re.Match[str]) -> str:
        return re.sub(r"\d+", number, found[0])

    named = type(error)(_RANKS.sub(numbers, str(error)))
    named.__dict__.update(error.__dict__)
    if error.rank is not None and error.rank < len(ranks):
        named.rank = ranks[error.rank]
    return named


class _ClosableStore:
    """A store whose waits end when the executor that makes a group is closed."""

    def __init__(self, store: Any, executor: _Executor) -> None:
        self.set = store.set
        self.get = store.get
        self.add = store.add
        self._check = store.check
        self._executor = executor

    def check(self, keys: list[str]) -> bool:
        if self._executor.closed:
            raise AbortedError(_DESTROYED)
        return bool(self._check(keys))


class _Executor:
    """A group, which the first use makes, and the collectives on it.

    Asynchronous collectives run in their order: on a thread if `threaded`, else on a stream.
    Messages do not keep an order with what else the program calls: they are not `in_order`.
    """

    def __init__(
        self,
        device: torch.device,
        make: Callable[[_Executor], Group],
        *,
        name: str,
        threaded: bool,
        in_order: bool,
        patience: float,
        ranks: Sequence[int] = (),
    ) -> None:
        self.device = device
        self.name = name
        self._make = make
        self.threaded = threaded
        self.in_order = in_order
        self._patience = min(patience, threading.TIMEOUT_MAX)
        self._ranks = ranks  # of the group, by their numbers in the process group; (): the same
        self._count = 0  # of the tasks that ended
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # held by the thread that runs a collective
        # The number of calls by the program (None), and by callbacks of each executor.
        self.calls: dict[_Executor | None, int] = {}

        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.last: _Work | _Gate = _DONE
        self._last_work = _DONE
        self._group: Group | None = None
        self.closed = False
        self.stream: Any = None
        with _lock:
            _executors.add(self)

    @property
    def group(self) -> Group:
        with self._lock:
            if self.closed:
                raise AbortedError(_DESTROYED)
            if self._group is None:
                self._group = self._make(self)
            return self._group

    def run(self, body: Body) -> None:
        """Run `body` on this thread or the current stream, after what was called before.

        In a callback of a future, it runs in the place of the callback. So it does on all ranks.
        """
        if not self._enter_callback():
            self.wait_for(self.last.settled)
        self._run_body(body)

    def _enter_callback(self) -> bool:
        """Whether this thread runs a callback, in whose place it makes a collective now."""
        gate = getattr(_running, "gate", None)
        if gate is None:
            with _lock:
                self.calls[None] = self.calls.get(None, 0) + 1
        elif gate.executor is not self:
            gate.wait_for(self)
        return gate is not None

    def _run_body(self, body: Body) -> None:
        gate = getattr(_running, "gate", None)
        with self._turn:
            if gate is not None and gate.executor is not self:
                gate.require_order(self)
            with self.naming_ranks():
                body(self.group)

    @contextlib.contextmanager
    def naming_ranks(self) -> Iterator[None]:
        """Have errors name ranks by their numbers in the process group."""
        try:
            yield
        except SymmError as error:
            if not self._ranks:
                raise
            raise _with_ranks_of(error, self._ranks) from error.__cause__

    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self.thread

    def wait_for(self, event: threading.Event, seconds: float | None = None) -> None:
        """Wait for an event of a task.

        Args:
            event: the event.
            seconds: the deadline; None: as long as other tasks end, each of which has its own.
        """
        if self._is_own_thread():
            self._run_until(event)
        while not event.is_set():
            count = self._count
            limit = self._patience if seconds is None else min(seconds, threading.TIMEOUT_MAX)
            if event.wait(limit):
                return
            if seconds is not None:
                raise TimeoutError(f"the collective is not over after {seconds} s")
            if count == self._count:
                raise errors.TimeoutError(
                    "torch.distributed: an asynchronous collective, or a callback of its future, "
                    f"is not over after {limit} s"
                )

    def _run_until(self, event: threading.Event) -> None:
        """Run tasks until an event of one of them, in a callback that waits for that event."""
        while not event.is_set():
            task = self._tasks.get_nowait()
            if task is None:
                self._tasks.put(None)
                raise AbortedError(_DESTROYED)
            task()

    def submit(self, body: Body, tensors: Sequence[Tensor], result: Any) -> _Work:
        """Begin to run `body`. On CUDA it runs after the work on the current stream."""
        if self.closed:
            raise AbortedError(_DESTROYED)
        ready = None
        if self.device.type == "cuda":
            if self.threaded and torch.cuda.is_current_stream_capturing():
                raise UnsupportedError(
                    "messages between two ranks cannot be captured into a CUDA graph"
                )
            if self.stream is None:
                self.stream = torch.cuda.Stream(self.device)
            ready = torch.cuda.current_stream(self.device).record_event()
            for tensor in tensors:
                tensor.record_stream(self.stream)

        in_callback = self._enter_callback() if self.is_collective() else self._is_own_thread()
        work = _Work(self, ready and self.device)
        task = functools.partial(self._run_task, work, ready, body, result)
        if in_callback or not self.threaded:
            task()
        else:
            self._last_work = work
            self._put(task, work)
        if not self.threaded:
            self.last = self._last_work = work
        return work

    def is_collective(self) -> bool:
        """Whether its calls are collectives, not messages."""
        return self.in_order or not self.threaded

    def _put(self, task: Callable[[], None], last: _Work | _Gate) -> None:
        """Have the thread run a task, which ends with `last`."""
        with _lock:
            self.last = last
            self._tasks.put(task)
        if self.thread is None:
            self.thread = threading.Thread(target=self._run_tasks, name="symm.torch", daemon=True)
            self.thread.start()

    def pass_through(self, gate: _Gate, work: _Work) -> None:
        """Open a gate of the future of `work` after all that was called before."""
        if self._is_own_thread():
            self._run_until(work.over)
            gate.open()
        elif self.closed or self.last.settled.is_set():
            self.wait_for(work.over)
            gate.future.set_result(None)
            gate.settled.set()
        else:
            self._put(gate.open, gate)

    def _run_task(self, work: _Work, ready: Any, body: Body, result: Any) -> None:
        """Run one task. `ready` is the event that it waits for on CUDA; None on the CPU."""
        on_stream = torch.cuda.stream(self.stream) if ready else contextlib.nullcontext()
        with torch.no_grad(), on_stream:
            try:
                if ready:
                    self.stream.wait_event(ready)
                self._run_body(body)
                if ready and not torch.cuda.is_current_stream_capturing():
                    work.event = self.stream.record_event()
            except Exception as error:
                if not self.threaded:
                    work.over.set()
                    work.settled.set()
                    raise
                work.error = error
            work.end(result)

        self._count += 1

    def _run_tasks(self) -> None:
        task = self._tasks.get()
        while task is not None:
            task()
            del task  # or its tensors would live until the next one
            task = self._tasks.get()
        self._release()

    def _release(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.close()

    def abort(self, reason: str) -> None:
        """End the calls of all ranks on the group, with an error."""
        if self._group is not None:
            self._group.abort(reason)

    def close(self, reason: str = "") -> None:
        """Abort collectives that were never waited for, and release the group. Never waits.

        With a reason, the group is aborted in any case.
        """
        self.closed = True
        is_pending = not (self._last_work.awaited or self._last_work.is_completed())
        if reason or is_pending:
            self.abort(reason or _DESTROYED)
        if self.thread is None:
            self._release()
        else:
            # Only the thread may release the group, since it may be inside a call on it.
            self._tasks.put(None)


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The process group that ``torch.distributed`` makes for the back end "symm"."""

    _device_types = (torch.device("cpu"), torch.device("cuda"))
    supports_splitting = False

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

        options = dict(options or {})
        # PyTorch asks for this to know whether a batch of messages is one call.
        self.supports_coalescing = bool(options.pop("batched_messages", False))
        self._store = store
        self._rank = rank
        self._size = size
        seconds = timeout.total_seconds()
        self._options = {
            "timeout": seconds,
            "create_timeout": seconds,
            "name": "torch",
            **options,
        }

        # The longest that a task may take; the first one also makes the group.
        self._patience = sum(self._options[name] or seconds for name in _TIMEOUTS)
        # By device for collectives, by (source, target, tag, device) for messages.
        self._executors: dict[Any, _Executor] = {}
        self._coalesced: list[Any] | None = None
        self._batch: list[Send | Recv] = []  # of tensors, on channels that are tags
        self._name = ""

    def getBackendName(self) -> str:
        return "symm"

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    # The signatures are PyTorch's, also where symm does not need a parameter.

    def _get_backend(self, device: torch.device) -> ProcessGroup:  # noqa: ARG002
        return self

    def supports_tensor_alloc(self, device: torch.device) -> bool:  # noqa: ARG002
        return False

    def _start_coalescing(self, device: torch.device) -> None:  # noqa: ARG002
        self._coalesced = []
        self._batch = []

    def _end_coalescing(self, device: torch.device) -> Any:  # noqa: ARG002
        works = self._coalesced or []
        batch, self._batch = self._batch, []
        self._coalesced = None
        if batch:
            works.append(self._pass_batch(batch))
        return _Work(parts=works)

    def _submitted(self, work: Any) -> Any:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def group(self, device: torch.device) -> Group:
        """The `symm.Group` for tensors on `device`. [collective] the first time, later [local]"""
        return self._executor(device).group

    def shutdown(self) -> None:
        for executor in self._executors.values():
            executor.close()

    def abort(self) -> None:
        for executor in self._executors.values():
            executor.close("torch.distributed: the process group was aborted")

    def _new_group(
        self, device: torch.device, rank: int, size: int, name: str, executor: _Executor
    ) -> Group:
        # A wait for a key occupies the connection of a store, so each group has a clone.
        store = self._store.clone() if hasattr(self._store, "clone") else self._store
        options = dict(self._options)
        options["name"] = f"{self._options['name']} {name}"
        options["backend"] = "host" if device.type == "cpu" else "cuda"
        if device.type != "cpu":
            options["device"] = device.index
        return Group.from_torch(_ClosableStore(store, executor), rank, size, **options)

    def _cuda_devices(self) -> list[torch.device]:
        """The CUDA device that has an executor for collectives; there is at most one."""
        devices = [key for key in self._executors if isinstance(key, torch.device)]
        return [device for device in devices if device.type == "cuda"]

    def _executor(self, device: torch.device) -> _Executor:
        executor = self._executors.get(device)
        if executor is not None:
            return executor
        if device.type == "cuda" and device.index is None:
            return self._executor(torch.device("cuda", torch.cuda.current_device()))

        config = dist.distributed_c10d._world.pg_backend_config.get(self, "cpu:symm,cuda:symm")
        if f"{device.type}:symm" not in config:
            raise UnsupportedError(
                f"{device}: symm serves all devices of a process group or none, not {config!r}"
            )
        if device.type == "cuda" and self._cuda_devices():
            raise InvalidArgumentError(
                f"the tensor is on {device}: a rank has one device, and this one began with another"
            )

        make = functools.partial(self._new_group, device, self._rank, self._size, device.type)
        on_host = device.type == "cpu"
        executor = _Executor(
            device,
            make,
            name=self._name or str(device),
            threaded=on_host,
            in_order=on_host,
            patience=self._patience,
        )
        self._executors[device] = executor
        return executor

    def _run(
        self,
        opts: Any,
        written: Sequence[Tensor],
        read: Sequence[Tensor],
        body: Body,
        result: Any = None,
    ) -> Any:
        """Run a collective that writes and reads these tensors; `result` is its future's value."""
        tensors = [*written, *read]
        for tensor in read:
            _require_values(tensor, written=False)
        for tensor in written:
            _require_values(tensor, written=True)
            require_distinct_elements(tensor)

        executor = self._executor(tensors[0].device)
        if getattr(opts, "asyncOp", True):
            work = executor.submit(body, tensors, written if result is None else result)
            return self._submitted(work)
        with torch.no_grad():
            executor.run(body)
        return _DONE

    def _require_one_for_each_rank(self, name: str, parts: Sequence[Tensor]) -> None:
        if len(parts) != self._size:
            raise InvalidArgumentError(f"{name}: {len(parts)} tensors for {self._size} ranks")

    # ---- collectives

    def _each(
        self, name: str, opts: Any, outputs: Sequence[Tensor], tensors: Sequence[Tensor], **how: Any
    ) -> Any:
        """Run the collective `name` for each pair of `outputs` and `tensors`.

        If both are one tensor, the collective is in place. `how` are its other arguments.
        """

        def body(group: Group) -> None:
            collective = getattr(group, name)
            for output, tensor in zip(outputs, tensors, strict=True):
                with _written(output) as recv:
                    send = recv if tensor is output else _read(tensor)
                    collective(send=send, recv=recv, **how)

        return self._run(opts, outputs, tensors, body)

    def _rooted(self, name: str, opts: Any, tensor: Tensor, *, writes: bool, **how: Any) -> Any:
        """Run a collective in place that writes the tensor on some ranks, reads it on others."""

        def body(group: Group) -> None:
            with _written(tensor) if writes else contextlib.nullcontext(_read(tensor)) as x:
                getattr(group, name)(x, root=opts.rootRank, **how)

        written, read = ([tensor], []) if writes else ([], [tensor])
        return self._run(opts, written, read, body, [tensor])

    def allreduce(self, tensors: list[Tensor], opts: Any = dist.AllreduceOptions()) -> Any:
        how = _reduction_options(tensors[0].dtype, opts.reduceOp)
        return self._each("allreduce", opts, tensors, tensors, **how)

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        is_root = self._rank == opts.rootRank
        return self._rooted("broadcast", opts, _one(tensors), writes=not is_root)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        how = _reduction_options(_one(tensors).dtype, opts.reduceOp)
        is_root = self._rank == opts.rootRank
        return self._rooted("reduce", opts, tensors[0], writes=is_root, **how)

    def allgather_into_tensor_coalesced(
        self, outputs: list[Tensor], tensors: list[Tensor], opts: Any = None
    ) -> Any:
        return self._each("allgather", opts, outputs, tensors)

    def _allgather_base(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Any:
        return self.allgather_into_tensor_coalesced([output], [tensor], opts)

    def allgather(
        self, outputs: list[list[Tensor]], tensors: list[Tensor], opts: Any = None
    ) -> Any:
        for parts in outputs:
            self._require_one_for_each_rank("tensor_list", parts)

        def body(group: Group) -> None:
            for parts, tensor in zip(outputs, tensors, strict=True):
                with _all_written(parts) as recv:
                    group.allgatherv(_read(tensor), recv, [_count(part) for part in parts])

        all_parts = [part for parts in outputs for part in parts]
        return self._run(opts, all_parts, tensors, body, outputs)

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], tensors: list[Tensor], opts: Any = None
    ) -> Any:
        return self.allgather([list(parts) for parts in zip(*outputs, strict=True)], tensors, opts)

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[Tensor], tensors: list[Tensor], opts: Any
    ) -> Any:
        how = _reduction_options(outputs[0].dtype, opts.reduceOp)
        return self._each("reduce_scatter", opts, outputs, tensors, **how)

    def _reduce_scatter_base(
        self, output: Tensor, tensor: Tensor, opts: Any = dist.ReduceScatterOptions()
    ) -> Any:
        return self.reduce_scatter_tensor_coalesced([output], [tensor], opts)

    def reduce_scatter(self, outputs: list[Tensor], tensors: list[list[Tensor]], opts: Any) -> Any:
        output = _one(outputs)
        parts = _one(tensors)
        how = _reduction_options(output.dtype, opts.reduceOp)
        self._require_one_for_each_rank("input_list", parts)

        def body(group: Group) -> None:
            counts = [_count(part) for part in parts]
            with _written(output) as recv:
                group.reduce_scatterv(_read_all(parts), counts, recv, **how)

        return self._run(opts, outputs, parts, body)

    def alltoall_base(
        self,
        output: Tensor,
        tensor: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> Any:
        def counts(name: str, tensor: Tensor, splits: list[int]) -> list[int]:
            rows = tensor.shape[0]
            if splits:
                require_rows(name, splits, rows, self._size)
            elif rows % self._size:
                raise InvalidArgumentError(
                    f"{rows} rows cannot be divided among {self._size} ranks"
                )
            row = _count(tensor) // max(1, rows)
            rows_by_rank = splits or [rows // self._size] * self._size
            return [row * rows_of_rank for rows_of_rank in rows_by_rank]

        return self._each(
            "alltoallv",
            opts,
            [output],
            [tensor],
            send_counts=counts("input_split_sizes", tensor, input_splits),
            recv_counts=counts("output_split_sizes", output, output_splits),
        )

    def alltoall(self, outputs: list[Tensor], tensors: list[Tensor], opts: Any = None) -> Any:
        self._require_one_for_each_rank("input_tensor_list", tensors)
        self._require_one_for_each_rank("output_tensor_list", outputs)

        def body(group: Group) -> None:
            send_counts = [_count(tensor) for tensor in tensors]
            recv_counts = [_count(output) for output in outputs]
            with _all_written(outputs) as recv:
                group.alltoallv(_read_all(tensors), send_counts, recv, recv_counts)

        return self._run(opts, outputs, tensors, body)

    def gather(self, outputs: list[list[Tensor]], tensors: list[Tensor], opts: Any) -> Any:
        tensor = _one(tensors)
        is_root = self._rank == opts.rootRank
        parts = _one(outputs) if is_root else []
        if is_root:
            self._require_one_for_each_rank("gather_list", parts)

        def body(group: Group) -> None:
            if is_root:
                with _all_written(parts) as recv:
                    group.gather(_read(tensor), recv, opts.rootRank)
            else:
                group.gather(_read(tensor), None, opts.rootRank)

        return self._run(opts, parts, [tensor], body, outputs)

    def scatter(self, outputs: list[Tensor], tensors: list[list[Tensor]], opts: Any) -> Any:
        output = _one(outputs)
        parts = _one(tensors) if self._rank == opts.rootRank else []
        if self._rank == opts.rootRank:
            self._require_one_for_each_rank("scatter_list", parts)

        def body(group: Group) -> None:
            send = _read_all(parts) if parts else None
            with _written(output) as recv:
                group.scatter(send, recv, opts.rootRank)

        return self._run(opts, outputs, parts, body)

    def barrier(self, opts: Any = None) -> Any:
        cuda_devices = self._cuda_devices()
        executor = self._executor(cuda_devices[0] if cuda_devices else torch.device("cpu"))

        def body(group: Group) -> None:
            if cuda_devices:
                group.barrier(stream=torch.cuda.current_stream(executor.device))
            else:
                group.barrier()

        if getattr(opts, "asyncOp", True):
            return executor.submit(body, [], [])
        executor.run(body)
        if cuda_devices:
            # Callers rely on this, because NCCL's back end does it.
            torch.cuda.current_stream(executor.device).synchronize()
        return _DONE

    # ---- messages between two ranks
    #
    # For each direction between two ranks, and each tag, there is a group of these two, whose
    # rank 0 sends. A group of more ranks would have to wait for ranks that have no messages, and
    # with CUDA a receive that waits would hold up the sends behind it.

    def _message(
        self, tensors: list[Tensor], source: int, target: int, tag: int, *, sends: bool
    ) -> Any:
        tensor = _one(tensors)
        _require_values(tensor, written=not sends)
        if not sends:
            require_distinct_elements(tensor)
        if self._coalesced is not None and self.supports_coalescing:
            side = Send(target, tensor, tag) if sends else Recv(source, tensor, tag)
            self._batch.append(side)
            return _DONE  # the handle is that of the batch

        if source == target:
            raise InvalidArgumentError(f"rank {source} cannot send to itself")
        executor = self._executor_of_messages(source, target, tag, tensor.device)

        def body(group: Group) -> None:
            with contextlib.nullcontext(_read(tensor)) if sends else _written(tensor) as x:
                _pass_message(group, x, sends=sends)

        return self._submitted(executor.submit(body, tensors, tensors))

    def _executor_of_messages(
        self, source: int, target: int, tag: int, device: torch.device
    ) -> _Executor:
        key = (source, target, tag, device)
        executor = self._executors.get(key)
        if executor is None:
            rank_of_pair = int(self._rank == target)
            name = f"{source}-{target} {tag}"
            make = functools.partial(self._new_group, device, rank_of_pair, 2, name)
            executor = _Executor(
                device,
                make,
                name=name,
                threaded=True,
                in_order=False,
                patience=self._patience,
                ranks=(source, target),
            )
            self._executors[key] = executor
        return executor

    def _pass_batch(self, batch: list[Send | Recv]) -> _Work:
        """Make one call of all messages of a batch, which has its place among the collectives."""
        tensors = [side.array for side in batch]

        def body(group: Group) -> None:
            with contextlib.ExitStack() as written:
                sides = [
                    side._replace(array=_read(side.array))
                    if isinstance(side, Send)
                    else side._replace(array=written.enter_context(_written(side.array)))
                    for side in batch
                ]
                for side, length in zip(sides, group.messages(sides), strict=True):
                    if isinstance(side, Recv):
                        _require_whole(group, side.rank, length, side.array)

        return self._executor(tensors[0].device).submit(body, tensors, tensors)

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Any:
        return self._message(tensors, self._rank, dst, tag, sends=True)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Any:
        return self._message(tensors, src, self._rank, tag, sends=False)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Any:  # noqa: ARG002
        raise UnsupportedError("src: symm receives from a rank that is named, not from any")

    allreduce_coalesced = allreduce
    # Later versions of PyTorch call these methods by other names.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base


def _create(given: Any, options: Any = None) -> ProcessGroup:
    return ProcessGroup(given.store, given.group_rank, given.group_size, given.timeout, options)


dist.Backend.register_backend("symm", _create, extended_api=True, devices=["cpu", "cuda"])
# From 2.15 on, PyTorch's flight recorder attaches itself to process groups unless their back
# end is listed here, and asks them for a back end in C++, which symm does not have.
getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set[str]()).add("symm")
