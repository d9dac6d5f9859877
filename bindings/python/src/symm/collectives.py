"""The collectives, as methods of a group.

Common to all: [collective] [stream; blocking on the host]. ``send`` and ``recv`` are
contiguous arrays on the group's device of any package that speaks DLPack (or, on the
host, with the buffer protocol); symmetric arrays of the same group are used without a
copy. They must not overlap unless in place. Shapes do not matter, numbers of elements
do. With CUDA the call is ordered on ``stream``, or if it is None on the current stream
of the framework of ``send``, else of ``recv``, else of PyTorch or CuPy if they are
used, else on the legacy default stream.

Errors of all: `InvalidArgumentError` (nothing has happened anywhere then);
`DeadlineError`, `PeerFailedError` and `AbortedError` name the rank; `MismatchError` if
ranks disagree in operation, element type, op, root or count.
"""

from __future__ import annotations

from itertools import accumulate
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any

from symm import _operand
from symm._generated import Plan
from symm._library import Owned, raw
from symm._streams import current_of, current_on, handle_of, milliseconds
from symm.array import SymmArray
from symm.dtypes import bf16, f8e4m3, f8e5m2, f16, f32, i64, u64
from symm.enums import Algorithm, Collective, Op, Scale, member
from symm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing_extensions import TypedDict, Unpack

    from symm._operand import AnyOperand

    class CallOptions(TypedDict, total=False):
        """What all take, as `Collectives.allreduce()` says."""

        algorithm: Algorithm | str | None
        timeout: float | None
        stream: Any

    class ReductionOptions(CallOptions, total=False):
        """What reductions take beside that."""

        scale: Any
        scale_position: Scale | str


_allreduce = raw.symm_allreduce
_NARROW = (f16, bf16, f8e4m3, f8e5m2)


def _options(algorithm: Algorithm | str | None, timeout: float | None) -> tuple[int, int] | None:
    if algorithm is None and timeout is None:
        return None
    return int(member(Algorithm, algorithm or Algorithm.AUTO)), milliseconds(timeout)


def _require(
    recv: AnyOperand, send: AnyOperand, *, factor: int = 1, divisor: int = 1, wider: bool = False
) -> None:
    if recv.dtype is not send.dtype and not (wider and recv.dtype is f32 and send.dtype in _NARROW):
        raise InvalidArgumentError(f"recv: is of {recv.dtype!r}, send of {send.dtype!r}")
    if recv.size * divisor != send.size * factor:
        expected = send.size * factor // divisor
        raise InvalidArgumentError(
            f"recv: has {recv.size} elements; {expected} are needed for a send of {send.size}"
        )


def first_dimension(shape: Sequence[int], ranks: int = 1) -> int:
    """Length of the first dimension of `x`, which is to be divided among so many."""
    if not shape:
        raise InvalidArgumentError("x: has no dimension to divide or to gather along")
    if shape[0] % ranks:
        raise InvalidArgumentError(f"x: {shape[0]} rows cannot be divided among {ranks} ranks")
    return shape[0]


class Collectives(Owned):
    """Part of `Group`. ``**options`` are algorithm, timeout and
    stream, of reductions also scale, as of `allreduce()`.
    """

    _on_host: bool
    device: int
    device_key: tuple[int, int]
    rank: int
    size: int

    def _stream(self, stream: Any, *arrays: Any) -> int:
        """The stream of a call: the one given, else the current one of the first array
        that has one, else of the framework.
        """
        if stream is not None:
            return handle_of(stream)
        if self._on_host:
            return 0
        found = next((found for array in arrays if (found := current_of(array)) is not None), None)
        return (current_on(self.device) or 0) if found is None else found

    def _operand(self, array: Any, name: str, stream: int, *, written: bool = False) -> AnyOperand:
        return _operand.operand(array, name, self, stream, written=written)

    def _begin(
        self,
        send: Any,
        recv: Any,
        algorithm: Algorithm | str | None = None,
        timeout: float | None = None,
        stream: Any = None,
    ) -> tuple[AnyOperand, AnyOperand, tuple[int, int] | None, int]:
        """Both operands, of which `recv` is None when in place, and the options and the
        stream as the library takes them.
        """
        number = self._stream(stream, send, recv)
        in_place = recv is None or recv is send
        source = target = self._operand(send, "send", number, written=in_place)
        if not in_place:
            target = self._operand(recv, "recv", number, written=True)
        return source, target, _options(algorithm, timeout), number

    def _begin_with(
        self,
        operand: Any,
        name: str,
        algorithm: Algorithm | str | None = None,
        timeout: float | None = None,
        stream: Any = None,
    ) -> tuple[AnyOperand, tuple[int, int] | None, int]:
        """The same for a rank that has one operand only."""
        number = self._stream(stream, operand)
        return (
            self._operand(operand, name, number, written=name == "recv"),
            _options(algorithm, timeout),
            number,
        )

    def _begin_reduction(
        self,
        send: Any,
        recv: Any,
        scale: Any = None,
        scale_position: Scale | str = Scale.BEFORE,
        **options: Unpack[CallOptions],
    ) -> tuple[AnyOperand, AnyOperand, tuple[Any, ...] | None, int]:
        """As `_begin()`, with a factor, or with `recv` of f32 where `send` is narrower."""
        source, target, how, number = self._begin(send, recv, **options)
        wider = target.code != source.code
        if scale is None and not wider:
            return source, target, how, number
        position, value, pointer = Scale.NONE, 0.0, 0
        if scale is not None:
            position = member(Scale, scale_position)
            if isinstance(scale, Real):
                value = float(scale)
            else:
                factor = self._operand(scale, "scale", number)
                if factor.dtype is not f32 or factor.size != 1:
                    raise InvalidArgumentError(
                        f"scale: is {factor.size} elements of {factor.dtype!r}, not one of symm.f32"
                    )
                pointer = factor.pointer
        result = target.code if wider else 0
        return (
            source,
            target,
            (*(how or (int(Algorithm.AUTO), 0)), int(position), result, value, pointer),
            number,
        )

    def _part(self, elements: int) -> int:
        """Elements of each rank's part of an array."""
        if elements % self.size:
            raise InvalidArgumentError(
                f"send: {elements} elements cannot be divided among {self.size} ranks"
            )
        return elements // self.size

    def _part_at(self, part: AnyOperand, whole: AnyOperand, rank: int) -> tuple[int, int]:
        """Address and elements of `part`, which in place is `rank`'s of `whole`."""
        count = self._part(whole.size) if part is whole else part.size
        return part.pointer + (rank * count * part.dtype.itemsize if part is whole else 0), count

    def allreduce(
        self,
        send: Any,
        recv: Any = None,
        op: Op | str = Op.SUM,
        **options: Unpack[ReductionOptions],
    ) -> None:
        """``recv[i]`` = op over all ranks of ``send[i]``, on every rank.

        Args:
            send: n elements. recv: n elements; None: in place. Of f32 where `send` is
            of a narrower float: the result is not rounded. op: "sum", "avg", "min",
            "max" or "prod". algorithm: force one; the same on all ranks. timeout:
            seconds; None: the group's. stream: see above. scale: a factor: a number,
            the same on all ranks, or an array of one f32, which is read when the call
            runs. scale_position: "before": of every operand, or "after": of the result.
        """
        if recv is None:
            recv = send
        # Small host calls cost as much as the way to them, so symmetric arrays that
        # need no look take the short one.
        if (
            type(send) is SymmArray
            and type(recv) is SymmArray
            and self.device_key is send.device_key is recv.device_key
            and self._on_host
            and send.size == recv.size
            and send.code == recv.code
            and not options
        ):
            source: AnyOperand = send
            target: AnyOperand = recv
            how, number = None, 0
        else:
            source, target, how, number = self._begin_reduction(send, recv, **options)
            if target is not source:
                _require(target, source, wider=True)
        op = op if type(op) is Op else member(Op, op)
        _allreduce(
            self._handle, source.pointer, target.pointer, source.size, source.code, op, how, number
        )

    def reduce_scatter(
        self,
        send: Any,
        recv: Any = None,
        op: Op | str = Op.SUM,
        **options: Unpack[ReductionOptions],
    ) -> None:
        """``recv[i]`` = op over all ranks of ``send[rank * n + i]``, i < n.

        Args:
            send: size * n elements.
            recv: n elements, also of f32; None: in place, into this rank's part of `send`.
        """
        source, target, how, number = self._begin_reduction(send, recv, **options)
        pointer, count = self._part_at(target, source, self.rank)
        if target is not source:
            _require(target, source, divisor=self.size, wider=True)
        raw.symm_reduce_scatter(
            self._handle, source.pointer, pointer, count, source.code, member(Op, op), how, number
        )

    def allgather(self, send: Any, recv: Any, **options: Unpack[CallOptions]) -> None:
        """``recv[r * n + i]`` = rank r's ``send[i]``, i < n.

        Args:
            send: n elements; None: in place, this rank's part of `recv`.
            recv: size * n elements.
        """
        source, target, how, number = self._begin(recv if send is None else send, recv, **options)
        pointer, count = self._part_at(source, target, self.rank)
        if target is not source:
            _require(target, source, factor=self.size)
        raw.symm_allgather(self._handle, pointer, target.pointer, count, target.code, how, number)

    def broadcast(
        self, send: Any, recv: Any = None, root: int = 0, **options: Unpack[CallOptions]
    ) -> None:
        """``recv[i]`` = the root's ``send[i]``, on every rank.

        Args:
            send: n elements, read on the root only.
            recv: n elements; None: in place.
            root: whose elements.
        """
        source, target, how, number = self._begin(send, recv, **options)
        _require(target, source)
        raw.symm_broadcast(
            self._handle,
            source.pointer,
            target.pointer,
            source.size,
            source.code,
            root,
            how,
            number,
        )

    def reduce(
        self,
        send: Any,
        recv: Any = None,
        op: Op | str = Op.SUM,
        root: int = 0,
        **options: Unpack[ReductionOptions],
    ) -> None:
        """``recv[i]`` = op over all ranks of ``send[i]``, on the root only.

        Args:
            send: n elements.
            recv: n elements, also of f32, written on the root only; None: in place.
            root: who receives.
        """
        source, target, how, number = self._begin_reduction(send, recv, **options)
        _require(target, source, wider=True)
        raw.symm_reduce(
            self._handle,
            source.pointer,
            target.pointer,
            source.size,
            source.code,
            member(Op, op),
            root,
            how,
            number,
        )

    def alltoall(self, send: Any, recv: Any = None, **options: Unpack[CallOptions]) -> None:
        """``recv[r * n + i]`` = rank r's ``send[rank * n + i]``, i < n.

        Args:
            send: size * n elements.
            recv: size * n elements; None: in place.
        """
        source, target, how, number = self._begin(send, recv, **options)
        _require(target, source)
        raw.symm_alltoall(
            self._handle,
            source.pointer,
            target.pointer,
            self._part(source.size),
            source.code,
            how,
            number,
        )

    def _require_blocks(
        self,
        name: str,
        operand: AnyOperand,
        counts: Sequence[int],
        displacements: Sequence[int] | None,
    ) -> None:
        """Blocks of `operand` by rank, within it."""
        for what, numbers in (("counts", counts), ("displacements", displacements)):
            if numbers is not None and len(numbers) != self.size:
                raise InvalidArgumentError(
                    f"{name}_{what}: has {len(numbers)} numbers for {self.size} ranks"
                )
        counts = [index(n) for n in counts]  # those of NumPy overflow
        places = (
            accumulate(counts, initial=0) if displacements is None else map(index, displacements)
        )
        end = max((at + n for at, n in zip(places, counts, strict=False) if n), default=0)
        if end > operand.size:
            raise InvalidArgumentError(
                f"{name}: has {operand.size} elements; {end} are needed for its blocks"
            )

    def _own_block(
        self,
        name: str,
        operand: AnyOperand,
        whole: AnyOperand,
        counts: Sequence[int],
        displacements: Sequence[int] | None,
    ) -> int:
        """Where this rank's block lies that `operand` is; in place, in `whole`."""
        own = counts[self.rank]
        if operand is whole:
            at = (
                sum(map(index, counts[: self.rank]))
                if displacements is None
                else index(displacements[self.rank])
            )
            return whole.pointer + at * whole.dtype.itemsize
        if operand.size != own or operand.dtype is not whole.dtype:
            raise InvalidArgumentError(
                f"{name}: has {operand.size} {operand.dtype!r}, not {own} {whole.dtype!r}"
            )
        return operand.pointer

    def allgatherv(
        self,
        send: Any,
        recv: Any,
        recv_counts: Sequence[int],
        recv_displacements: Sequence[int] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """``recv[recv_displacements[r] + i]`` = rank r's ``send[i]``, i < ``recv_counts[r]``.

        Args:
            send: ``recv_counts[rank]`` elements; None: in place, this rank's block of
            `recv`. recv: elements for all blocks, which do not overlap. recv_counts:
            elements of each rank's block; the same on all ranks. recv_displacements:
            where each block begins, in elements; None: one behind the other.
        """
        source, target, how, number = self._begin(recv if send is None else send, recv, **options)
        self._require_blocks("recv", target, recv_counts, recv_displacements)
        pointer = self._own_block("send", source, target, recv_counts, recv_displacements)
        raw.symm_allgatherv(
            self._handle,
            pointer,
            target.pointer,
            recv_counts,
            recv_displacements,
            target.code,
            how,
            number,
        )

    def reduce_scatterv(
        self,
        send: Any,
        send_counts: Sequence[int],
        recv: Any = None,
        op: Op | str = Op.SUM,
        send_displacements: Sequence[int] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """``recv[i]`` = op over all ranks of ``send[send_displacements[rank]
        + i]``, i < ``send_counts[rank]``.

        Args:
            send: elements for all blocks. send_counts: elements of each rank's block;
            the same on all ranks. recv: ``send_counts[rank]`` elements; None: in place,
            into this rank's block of `send`. send_displacements: where each block
            begins, in elements; None: one behind the other.
        """
        source, target, how, number = self._begin(send, recv, **options)
        self._require_blocks("send", source, send_counts, send_displacements)
        pointer = self._own_block("recv", target, source, send_counts, send_displacements)
        raw.symm_reduce_scatterv(
            self._handle,
            source.pointer,
            send_counts,
            send_displacements,
            pointer,
            source.code,
            member(Op, op),
            how,
            number,
        )

    def alltoallv(
        self,
        send: Any,
        send_counts: Sequence[int],
        recv: Any,
        recv_counts: Sequence[int],
        send_displacements: Sequence[int] | None = None,
        recv_displacements: Sequence[int] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Block r of `recv` = rank r's block for this rank, whose length both give.

        Args:
            send: elements for the blocks that go to each rank. send_counts: elements of
            each. recv: elements for the blocks that come from each rank; None or
            `send`: in place, with equal counts and displacements. recv_counts: elements
            of each. send_displacements: where each block of `send` begins, in elements;
            None: one behind the other. recv_displacements: the same of `recv`.
        """
        source, target, how, number = self._begin(send, recv, **options)
        self._require_blocks("send", source, send_counts, send_displacements)
        self._require_blocks("recv", target, recv_counts, recv_displacements)
        if target.dtype is not source.dtype:
            raise InvalidArgumentError(f"recv: is of {target.dtype!r}, send of {source.dtype!r}")
        blocks = (
            source.pointer,
            send_counts,
            send_displacements,
            target.pointer,
            recv_counts,
            recv_displacements,
        )
        raw.symm_alltoallv(self._handle, *blocks, source.code, how, number)

    def alltoallv_device(
        self,
        send: Any,
        send_counts: Any,
        recv: Any,
        recv_counts: Any,
        send_displacements: Any = None,
        recv_displacements: Any = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """`alltoallv()` with counts and displacements that are read when it runs: a
        captured call takes new ones at each replay.

        Args:
            send: has room for the blocks that go to each rank; no part of `recv`.
            send_counts: elements of each: an array of one i64 or u64 for each rank,
            where `send` lies. recv: has room for the blocks that come from each rank.
            recv_counts: elements of each, likewise. send_displacements: where each
            block of `send` begins, likewise; None: one behind the other.
            recv_displacements: the same of `recv`. **options: algorithm, timeout,
            stream; see `allreduce()`. On CUDA all arrays live until the call has run.

        A block that does not lie within its array is an `InvalidArgumentError`: on the
        host of the call, on CUDA of the group.
        """
        source, target, how, number = self._begin(send, recv, **options)
        if target.dtype is not source.dtype:
            raise InvalidArgumentError(f"recv: is of {target.dtype!r}, send of {source.dtype!r}")

        def numbers(array: Any, name: str) -> int | None:
            if array is None and name.endswith("displacements"):
                return None
            operand = self._operand(array, name, number)
            if operand.dtype not in (i64, u64) or operand.size != self.size:
                raise InvalidArgumentError(
                    f"{name}: is {operand.size} elements of {operand.dtype!r}, not an i64 for each rank"
                )
            return operand.pointer

        of_send = (
            numbers(send_counts, "send_counts"),
            numbers(send_displacements, "send_displacements"),
        )
        of_recv = (
            numbers(recv_counts, "recv_counts"),
            numbers(recv_displacements, "recv_displacements"),
        )
        blocks = (source.pointer, source.size, *of_send, target.pointer, target.size, *of_recv)
        raw.symm_alltoallv_device(self._handle, *blocks, source.code, how, number)

    def gather(
        self, send: Any, recv: Any = None, root: int = 0, **options: Unpack[CallOptions]
    ) -> None:
        """``recv[r * n + i]`` = rank r's ``send[i]``, i < n, on the root.

        Args:
            send: n elements; None, on the root: in place, its part of `recv`.
            recv: size * n elements on the root; not looked at elsewhere.
            root: who receives.
        """
        if self.rank != root:
            source, how, number = self._begin_with(send, "send", **options)
            raw.symm_gather(
                self._handle, source.pointer, None, source.size, source.code, root, how, number
            )
            return
        source, target, how, number = self._begin(recv if send is None else send, recv, **options)
        pointer, count = self._part_at(source, target, root)
        if target is not source:
            _require(target, source, factor=self.size)
        raw.symm_gather(
            self._handle, pointer, target.pointer, count, source.code, root, how, number
        )

    def scatter(
        self, send: Any, recv: Any = None, root: int = 0, **options: Unpack[CallOptions]
    ) -> None:
        """``recv[i]`` = the root's ``send[rank * n + i]``, i < n.

        Args:
            send: size * n elements on the root; not looked at elsewhere.
            recv: n elements; None, on the root: in place, its part of `send`.
            root: who sends.
        """
        if self.rank != root:
            target, how, number = self._begin_with(recv, "recv", **options)
            raw.symm_scatter(
                self._handle, None, target.pointer, target.size, target.code, root, how, number
            )
            return
        source, target, how, number = self._begin(send, recv, **options)
        pointer, count = self._part_at(target, source, root)
        if target is not source:
            _require(target, source, divisor=self.size)
        raw.symm_scatter(
            self._handle, source.pointer, pointer, count, target.code, root, how, number
        )

    def allgather_rows(
        self,
        send: Any,
        recv: Any,
        rows: int,
        recv_stride: int | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """All-gather along the last dimension: row by row, `recv`
        = all ranks' rows of `send`, one behind the other.

        Args:
            send: rows * n elements.
            recv: rows of size * n elements.
            recv_stride: elements from one row of `recv` to the next; None: size * n.
        """
        source, target, how, number = self._begin(send, recv, **options)
        rows = index(rows)
        count = source.size // rows if rows else 0
        stride = self.size * count if recv_stride is None else index(recv_stride)
        needed = (rows - 1) * stride + self.size * count if count else 0
        if count * rows != source.size:
            raise InvalidArgumentError(
                f"send: {source.size} elements cannot be divided into {rows} rows"
            )
        if target.size < needed or target.dtype is not source.dtype:
            raise InvalidArgumentError(
                f"recv: has {target.size} {target.dtype!r}; {needed} {source.dtype!r} are needed"
            )
        raw.symm_allgather_rows(
            self._handle,
            source.pointer,
            target.pointer,
            rows,
            count,
            stride,
            source.code,
            how,
            number,
        )

    def allreduce_rmsnorm(
        self,
        send: Any,
        weight: Any,
        norm_out: Any = None,
        *,
        residual_in: Any = None,
        residual_out: Any = None,
        epsilon: float = 1e-6,
        weight_offset: float = 0.0,
        quant_out: Any = None,
        scale_in: Any = None,
        scale_out: Any = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """The sum of all ranks' `send` with a residual and RMSNorm,
        in one kernel; the arithmetic is that of `symm.h`.

        Args:
            send: rows of hidden elements, of f32, f16 or bf16; so are `norm_out` and
            both residuals. weight: hidden elements, of any of these types. norm_out:
            the normalised rows; None: not wanted, as all outputs. residual_in: added to
            the sum. residual_out: sum + residual; may be `residual_in`. epsilon: added
            to the mean of squares. weight_offset: added to each weight. quant_out: the
            normalised rows divided by their scale, of f8e4m3. scale_in: one f32, the
            scale of all; or scale_out: receives scales, f32: one a row, or one for 128
            elements of a row. **options: algorithm, timeout, stream; see `allreduce()`.
        """
        given = {"weight": weight, "residual_in": residual_in, "scale_in": scale_in}
        wanted = {
            "residual_out": residual_out,
            "norm_out": norm_out,
            "quant_out": quant_out,
            "scale_out": scale_out,
        }
        source, how, number = self._begin_with(send, "send", **options)
        operands = {
            name: self._operand(array, name, number, written=name in wanted)
            for name, array in (given | wanted).items()
            if array is not None
        }
        weights = operands.get("weight", source)
        hidden = weights.size if weights is not source else 0
        rows = source.size // hidden if hidden else 0
        if rows * hidden != source.size or not hidden:
            raise InvalidArgumentError(
                f"send: {source.size} elements are not rows of as many as weight has, {hidden}"
            )
        groups, scales = rows * hidden // 128, operands.get("scale_out")
        needed = {
            "scale_in": (1, f32),
            "scale_out": (groups if scales is not None and scales.size != rows else rows, f32),
        }
        needed |= {"weight": (hidden, weights.dtype), "quant_out": (source.size, f8e4m3)}
        for name, operand in operands.items():
            size, dtype = needed.get(name, (source.size, source.dtype))
            if operand.size != size or operand.dtype is not dtype:
                raise InvalidArgumentError(
                    f"{name}: has {operand.size} {operand.dtype!r}; {size} {dtype!r} are needed"
                )
        kind = raw.SYMM_QUANT_SCALE_TENSOR
        if scales is not None:
            kind = raw.SYMM_QUANT_SCALE_TOKEN if scales.size == rows else raw.SYMM_QUANT_SCALE_GROUP
        pointers = {name: operand.pointer for name, operand in operands.items()}
        order = ("residual_in", "residual_out", "norm_out", "weight")
        norm = (
            *(pointers.get(name, 0) for name in order),
            weights.code,
            float(epsilon),
            float(weight_offset),
            kind,
        )
        norm += tuple(pointers.get(name, 0) for name in ("quant_out", "scale_in", "scale_out"))
        raw.symm_allreduce_rmsnorm(
            self._handle, source.pointer, rows, hidden, source.code, norm, how, number
        )

    def plan(
        self,
        collective: Collective | str,
        send: Any,
        recv: Any = None,
        op: Op | str = Op.SUM,
        *,
        root: int = 0,
        send_counts: Sequence[int] | None = None,
        send_displacements: Sequence[int] | None = None,
        recv_counts: Sequence[int] | None = None,
        recv_displacements: Sequence[int] | None = None,
        rows: int = 0,
        recv_stride: int | None = None,
        **options: Unpack[ReductionOptions],
    ) -> Plan:
        """Which algorithm a collective would use if every
        rank passed memory like this rank's. [local]

        `collective` is "allreduce", "reduce_scatter", ...
        Of what follows, each has what the call itself has.
        """
        kind = member(Collective, collective)
        source, target, how, _ = self._begin_reduction(
            recv if send is None else send, recv, **options
        )
        count = source.size
        send_at, recv_at = source.pointer, target.pointer
        divided = kind in (Collective.REDUCE_SCATTER, Collective.ALLTOALL) or (
            kind == Collective.SCATTER and self.rank == root
        )
        if divided or (kind == Collective.ALLGATHER and target is source):
            count = self._part(count)
        if target is source and kind in (Collective.REDUCE_SCATTER, Collective.ALLGATHER):
            part = source.pointer + self.rank * count * source.dtype.itemsize
            send_at, recv_at = (
                (send_at, part) if kind == Collective.REDUCE_SCATTER else (part, recv_at)
            )
        if rows:
            count //= index(rows)
        blocks = (send_counts, send_displacements, recv_counts, recv_displacements)
        stride = self.size * count if recv_stride is None else recv_stride
        call = (
            kind,
            send_at,
            recv_at,
            count,
            source.code,
            member(Op, op),
            root,
            *blocks,
            rows,
            stride,
        )
        return Plan.read(raw.symm_collective_plan(self._handle, call, how))
