"""The collectives, as methods of a group.

All of them are [collective] [stream; blocking on the host].

Operands. `send` and `recv` are contiguous arrays on the group's device, of any package that
speaks DLPack or, on the host, has the buffer protocol. Symmetric arrays of the same group are
used without a copy. Operands must not overlap unless the call is in place. Shapes do not
matter, numbers of elements do.

Streams. With CUDA the call is ordered on `stream`. If that is None, it is ordered on the
current stream of the framework of `send`, else of `recv`, else of PyTorch or CuPy if they are
used, else on the legacy default stream.

Errors of all collectives:

- `InvalidArgumentError`: an argument is wrong. Nothing has happened on any rank.
- `symm.TimeoutError`, `PeerFailedError` and `AbortedError`: the exception names the rank.
- `MismatchError`: ranks disagree in operation, element type, op, root or count.
"""

from __future__ import annotations

from itertools import accumulate
from operator import index

from symm import _operand
from symm._generated import Plan
from symm._library import Owned, raw
from symm._streams import current_of, current_on, handle_of, milliseconds
from symm.array import SymmArray
from symm.dtypes import bf16, dtype_of, f8e4m3, f8e5m2, f16, f32, i64, u32, u64
from symm.enums import Algorithm, Collective, Op, Order, Scale, member
from symm.errors import InvalidArgumentError

TYPE_CHECKING = False  # to checkers of types it is true; importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import TypedDict, Unpack

    from symm._operand import AnyOperand

    class CallOptions(TypedDict, total=False):
        """The options that all collectives take; `Collectives.allreduce()` explains them."""

        algorithm: Algorithm | str | None
        timeout: float | None
        stream: Any
        tag: str | None
        max_blocks: int
        order: Order | str | None

    class ReductionOptions(CallOptions, total=False):
        """The options that reductions take in addition."""

        scale: Any
        scale_position: Scale | str
        wire_dtype: Any
        wire_group: int
        chunk_bytes: int
        ready: Any
        word_value: Any


# The fields of a call between the strides of recv and send: no flags, and no capacities.
_NO_DEVICE_COUNTS = (0, 0, 0)
_NARROW_FLOATS = (f16, bf16, f8e4m3, f8e5m2)


def _options(
    algorithm: Algorithm | str | None,
    timeout: float | None,
    tag: str | None,
    max_blocks: int,
    order: Order | str | None,
) -> tuple[Any, ...] | None:
    """The options as the library takes them: all of them, or the first two, or none."""
    has_rest = tag is not None or bool(max_blocks) or order is not None
    if algorithm is None and timeout is None and not has_rest:
        return None

    head = int(member(Algorithm, algorithm or Algorithm.AUTO)), milliseconds(timeout)
    if not has_rest:
        return head
    in_order = int(member(Order, order or Order.GROUP))
    return *head, int(Scale.NONE), 0, 0.0, 0, tag, max_blocks, in_order


def _is_number(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    from numbers import Real  # what is registered there has imported it

    return isinstance(value, Real)


def _require(
    recv: AnyOperand, send: AnyOperand, *, factor: int = 1, divisor: int = 1, reduces: bool = False
) -> None:
    """Check that `recv` has the type of `send`, and factor / divisor times its elements.

    With `reduces`, one of them may also be f32 where the other is a narrower float.
    """
    if recv.dtype is not send.dtype:
        is_wider = recv.dtype is f32 and send.dtype in _NARROW_FLOATS
        is_narrower = send.dtype is f32 and recv.dtype in _NARROW_FLOATS
        if not (reduces and (is_wider or is_narrower)):
            raise InvalidArgumentError(f"recv: is of {recv.dtype!r}, send of {send.dtype!r}")
    if recv.size * divisor != send.size * factor:
        expected = send.size * factor // divisor
        raise InvalidArgumentError(
            f"recv: has {recv.size} elements; {expected} are needed for a send of {send.size}"
        )


def first_dimension(shape: Sequence[int], ranks: int = 1) -> int:
    """The length of the first dimension of `shape`, which must be divisible by `ranks`."""
    if not shape:
        raise InvalidArgumentError("x: has no dimension to divide or to gather along")
    if shape[0] % ranks:
        raise InvalidArgumentError(f"x: {shape[0]} rows cannot be divided among {ranks} ranks")
    return shape[0]


def require_rows(name: str, rows_by_rank: Sequence[int], rows: int, ranks: int) -> None:
    """Raise InvalidArgumentError unless `rows_by_rank` divides `rows` among all ranks."""
    if len(rows_by_rank) != ranks:
        raise InvalidArgumentError(f"{name}: {len(rows_by_rank)} numbers for {ranks} ranks")
    if min(rows_by_rank) < 0 or sum(rows_by_rank) != rows:
        raise InvalidArgumentError(
            f"{name}: {list(rows_by_rank)} is a sum of {sum(rows_by_rank)}, "
            f"and the tensor has {rows} rows"
        )


class Collectives(Owned):
    """The collectives of a `Group`.

    All methods take the options `algorithm`, `timeout`, `stream`, `tag`, `max_blocks` and `order`
    by keyword. Reductions also take `scale` and `scale_position`. `allreduce()` explains them.
    """

    # What makes the calls. A batch has another, which notes them.
    _raw: Any = raw

    _on_host: bool
    device: int
    device_key: tuple[int, int]
    rank: int
    size: int

    # ---- operands and options, as the library takes them

    def _stream(self, stream: Any, *arrays: Any) -> int:
        """The CUstream of a call; 0 on the host.

        It is `stream` if given, else the current stream of the first array whose framework has
        one, else the current stream of the framework in use.
        """
        if stream is not None:
            return handle_of(stream)
        if self._on_host:
            return 0
        for array in arrays:
            current = current_of(array)
            if current is not None:
                return current
        return current_on(self.device) or 0

    def _operand(self, array: Any, name: str, stream: int, *, written: bool = False) -> AnyOperand:
        return _operand.operand(array, name, self, stream, written=written)

    def _begin(
        self,
        send: Any,
        recv: Any,
        algorithm: Algorithm | str | None = None,
        timeout: float | None = None,
        stream: Any = None,
        tag: str | None = None,
        max_blocks: int = 0,
        order: Order | str | None = None,
    ) -> tuple[AnyOperand, AnyOperand, tuple[Any, ...] | None, int]:
        """Convert the arguments of a call: (send, recv, options, CUstream).

        If `recv` is None or `send` itself, the call is in place, and both operands are one
        object.
        """
        cuda_stream = self._stream(stream, send, recv)
        in_place = recv is None or recv is send
        source = self._operand(send, "send", cuda_stream, written=in_place)
        target = source
        if not in_place:
            target = self._operand(recv, "recv", cuda_stream, written=True)
        return source, target, _options(algorithm, timeout, tag, max_blocks, order), cuda_stream

    def _begin_with(
        self,
        operand: Any,
        name: str,
        algorithm: Algorithm | str | None = None,
        timeout: float | None = None,
        stream: Any = None,
        tag: str | None = None,
        max_blocks: int = 0,
        order: Order | str | None = None,
    ) -> tuple[AnyOperand, tuple[Any, ...] | None, int]:
        """Convert the arguments of a call in which this rank has one operand.

        Returns:
            (operand, options, CUstream)
        """
        cuda_stream = self._stream(stream, operand)
        converted = self._operand(operand, name, cuda_stream, written=name == "recv")
        return converted, _options(algorithm, timeout, tag, max_blocks, order), cuda_stream

    def _begin_reduction(
        self,
        send: Any,
        recv: Any,
        scale: Any = None,
        scale_position: Scale | str = Scale.BEFORE,
        wire_dtype: Any = None,
        wire_group: int = 0,
        chunk_bytes: int = 0,
        ready: Any = None,
        word_value: Any = 0,
        **options: Unpack[CallOptions],
    ) -> tuple[AnyOperand, AnyOperand, tuple[Any, ...] | None, int]:
        """Convert the arguments of a reduction: (send, recv, options, CUstream).

        The options have more fields than those of `_begin()` if there is a scale, a wire or chunks,
        or if `recv` is of another type than `send`.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        changes_type = target.code != source.code
        has_wire = wire_dtype is not None or wire_group != 0
        words = self._words(chunk_bytes, None, ready, word_value, cuda_stream)
        if scale is None and not changes_type and not has_wire and not words:
            return source, target, call_options, cuda_stream

        position = Scale.NONE
        value = 0.0
        pointer = 0
        if scale is not None:
            position = member(Scale, scale_position)
            if _is_number(scale):
                value = float(scale)
            else:
                factor = self._operand(scale, "scale", cuda_stream)
                if factor.dtype is not f32 or factor.size != 1:
                    raise InvalidArgumentError(
                        f"scale: is {factor.size} elements of {factor.dtype!r}, not one of symm.f32"
                    )
                pointer = factor.pointer
        result = target.code if changes_type else 0

        given = call_options or (int(Algorithm.AUTO), 0)
        extended = (*given[:2], int(position), result, value, pointer, *given[6:])
        if has_wire or words:
            code = 0 if wire_dtype is None else dtype_of(wire_dtype).value
            rest = given[6:] or (None, 0, int(Order.GROUP))
            extended = (*extended[:6], *rest, code, wire_group, *words)
        return source, target, extended, cuda_stream

    def _words(
        self, chunk_bytes: int, progress: Any, ready: Any, word_value: Any, stream: int
    ) -> tuple[int, ...]:
        """The fields of the options for a call in chunks; none if it is made in one piece."""
        if not chunk_bytes and progress is None and ready is None:
            return ()

        def address(array: Any, name: str, *, one: bool = False, written: bool = False) -> int:
            if array is None:
                return 0
            words = self._operand(array, name, stream, written=written)
            if words.dtype is not u32 or (one and words.size != 1):
                wanted = "one of symm.u32" if one else "of symm.u32"
                raise InvalidArgumentError(
                    f"{name}: is {words.size} elements of {words.dtype!r}, not {wanted}"
                )
            return words.pointer

        value = pointer = 0
        if _is_number(word_value):
            value = index(word_value)
            if not 0 <= value < 1 << 32:
                raise InvalidArgumentError(f"word_value: {value} is not in 0 .. 2^32 - 1")
            value -= (value & 1 << 31) << 1  # the bits of a field of 32 bits
        else:
            pointer = address(word_value, "word_value", one=True)
        return (
            index(chunk_bytes),
            address(progress, "progress", written=True),
            address(ready, "ready"),
            value,
            pointer,
        )

    def _part(self, elements: int) -> int:
        """The number of elements of each rank's part of an array."""
        if elements % self.size:
            raise InvalidArgumentError(
                f"send: {elements} elements cannot be divided among {self.size} ranks"
            )
        return elements // self.size

    def _part_at(self, part: AnyOperand, whole: AnyOperand, rank: int) -> tuple[int, int]:
        """The address and the number of elements of the operand `part`.

        In place, where `part` is `whole`, these are of `rank`'s part of `whole`.
        """
        if part is not whole:
            return part.pointer, part.size
        count = self._part(whole.size)
        return whole.pointer + rank * count * whole.dtype.itemsize, count

    def _require_blocks(
        self,
        name: str,
        operand: AnyOperand,
        counts: Sequence[int],
        displacements: Sequence[int] | None,
        ranks: int | None = None,
    ) -> None:
        """Check that there is a block for each rank, and that all blocks lie within `operand`.

        Without a number of `ranks` there are those of the group.
        """
        if ranks is None:
            ranks = self.size
        for what, numbers in (("counts", counts), ("displacements", displacements)):
            if numbers is not None and len(numbers) != ranks:
                raise InvalidArgumentError(
                    f"{name}_{what}: has {len(numbers)} numbers for {ranks} ranks"
                )

        counts = [index(n) for n in counts]  # NumPy's integers overflow
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
        """The address of this rank's block.

        The block is `operand`. In place, where `operand` is `whole`, it is this rank's block of
        `whole`.
        """
        own_count = counts[self.rank]
        if operand is whole:
            if displacements is None:
                at = sum(map(index, counts[: self.rank]))
            else:
                at = index(displacements[self.rank])
            return whole.pointer + at * whole.dtype.itemsize

        if operand.size != own_count or operand.dtype is not whole.dtype:
            raise InvalidArgumentError(
                f"{name}: has {operand.size} {operand.dtype!r}, not {own_count} {whole.dtype!r}"
            )
        return operand.pointer

    # ---- collectives of equal counts

    def allreduce(
        self,
        send: Any,
        recv: Any = None,
        op: Op | str = Op.SUM,
        **options: Unpack[ReductionOptions],
    ) -> None:
        """``recv[i]`` = op over all ranks of ``send[i]``, on every rank.

        Args:
            send: n elements.
            recv: n elements; None: in place. If `send` is of a narrower float, `recv` may be of
                f32, and the result is not rounded to the narrower type; if `send` is of f32, `recv`
                may be of a narrower float, to which the result is rounded.
            op: "sum", "avg", "min", "max", "prod", "band", "bor", "bxor", "minloc" or "maxloc".
            algorithm: the algorithm to use, the same on all ranks; None: the library chooses.
            timeout: seconds; None: the group's.
            stream: the stream of the call; None: see the top of this module.
            tag: a text that is shown where the call is: in NVTX, traces, ``symm top`` and messages.
            max_blocks: the most multiprocessors that the call's kernel may use, the same on all
                ranks; 0: the library chooses.
            order: the order in which floats are combined, the same on all ranks: "ranks", "tree",
                "any"; None: as the group's options say.
            scale: a factor: a number, the same on all ranks, or an array of one f32, which is
                read when the call runs.
            scale_position: "before": every operand is scaled; "after": the result is scaled.
            wire_dtype: "f8e4m3", "f8e5m2" or "i8": operands and sums travel as codes of this
                type, with the error that ``symm.h`` states; the same on all ranks. None: as they
                are.
            wire_group: how many elements have a scale in common, 32 or 128; 0: 128.
            chunk_bytes: the bytes of a chunk, a multiple of 16, the same on all ranks; 0: the call
                is made in one piece. ``symm.h`` tells what chunks and their words are.
            ready: an array of u32, one for each chunk of `send`, which the call waits for.
            word_value: what words have reached when their chunk is there: a number, or an array of
                one u32, which is read when the call runs.
        """
        if recv is None:
            recv = send

        # Small host calls are as expensive as the Python code before them. So symmetric arrays
        # of the group that need no conversion skip it.
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
            call_options, cuda_stream = None, 0
        else:
            source, target, call_options, cuda_stream = self._begin_reduction(send, recv, **options)
            if target is not source:
                _require(target, source, reduces=True)

        op = op if type(op) is Op else member(Op, op)
        self._raw.symm_allreduce(
            self._handle,
            source.pointer,
            target.pointer,
            source.size,
            source.code,
            op,
            call_options,
            cuda_stream,
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
            recv: n elements, also of f32 as for `allreduce()`; None: in place, into this rank's
                part of `send`.
            op: the operation of `allreduce()`.
            **options: the options of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin_reduction(send, recv, **options)
        pointer, count = self._part_at(target, source, self.rank)
        if target is not source:
            _require(target, source, divisor=self.size, reduces=True)

        self._raw.symm_reduce_scatter(
            self._handle,
            source.pointer,
            pointer,
            count,
            source.code,
            member(Op, op),
            call_options,
            cuda_stream,
        )

    def allgather(
        self,
        send: Any,
        recv: Any,
        chunk_bytes: int = 0,
        progress: Any = None,
        word_value: Any = 0,
        **options: Unpack[CallOptions],
    ) -> None:
        """``recv[r * n + i]`` = rank r's ``send[i]``, i < n.

        Args:
            send: n elements; None: in place, this rank's part of `recv`.
            recv: size * n elements.
            chunk_bytes: the bytes of a chunk, as of `allreduce()`.
            progress: an array of u32, one for each chunk of each rank: a word becomes `word_value`
                when its chunk is in `recv`, this rank's first, then those of the ranks after it.
            word_value: a number, or an array of one u32, which is read when the call runs.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        whole_if_in_place = recv if send is None else send
        source, target, call_options, cuda_stream = self._begin(whole_if_in_place, recv, **options)
        pointer, count = self._part_at(source, target, self.rank)
        if target is not source:
            _require(target, source, factor=self.size)
        words = self._words(chunk_bytes, progress, None, word_value, cuda_stream)
        if words:
            given = call_options or (int(Algorithm.AUTO), 0)
            rest = given[2:] or (int(Scale.NONE), 0, 0.0, 0, None, 0, int(Order.GROUP))
            call_options = (*given[:2], *rest, 0, 0, *words)
        self._raw.symm_allgather(
            self._handle, pointer, target.pointer, count, target.code, call_options, cuda_stream
        )

    def broadcast(
        self, send: Any, recv: Any = None, root: int = 0, **options: Unpack[CallOptions]
    ) -> None:
        """``recv[i]`` = the root's ``send[i]``, on every rank.

        Args:
            send: n elements, which are read on the root only.
            recv: n elements; None: in place.
            root: the rank whose elements are sent.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        _require(target, source)
        self._raw.symm_broadcast(
            self._handle,
            source.pointer,
            target.pointer,
            source.size,
            source.code,
            root,
            call_options,
            cuda_stream,
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
            recv: n elements, also of f32 as for `allreduce()`, which are written on the root
                only; None: in place.
            op: the operation of `allreduce()`.
            root: the rank that receives.
            **options: the options of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin_reduction(send, recv, **options)
        _require(target, source, reduces=True)
        self._raw.symm_reduce(
            self._handle,
            source.pointer,
            target.pointer,
            source.size,
            source.code,
            member(Op, op),
            root,
            call_options,
            cuda_stream,
        )

    def scan(
        self,
        send: Any,
        recv: Any = None,
        op: Op | str = Op.SUM,
        **options: Unpack[CallOptions],
    ) -> None:
        """``recv[i]`` = op over the ranks up to this one of ``send[i]``, in their order.

        Args:
            send: n elements.
            recv: n elements; None: in place.
            op: the operation of `allreduce()`, but not "avg".
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        self._prefix(self._raw.symm_scan, send, recv, op, options)

    def exscan(
        self,
        send: Any,
        recv: Any = None,
        op: Op | str = Op.SUM,
        **options: Unpack[CallOptions],
    ) -> None:
        """``recv[i]`` = op over the ranks before this one of ``send[i]``, in their order.

        Rank 0, before which there is none, gets the neutral element of `op`, which for a sum is 0.

        Args:
            send: n elements.
            recv: n elements; None: in place.
            op: the operation of `allreduce()`, but not "avg".
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        self._prefix(self._raw.symm_exscan, send, recv, op, options)

    def _prefix(
        self, function: Any, send: Any, recv: Any, op: Op | str, options: CallOptions
    ) -> None:
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        _require(target, source)
        function(
            self._handle,
            source.pointer,
            target.pointer,
            source.size,
            source.code,
            member(Op, op),
            call_options,
            cuda_stream,
        )

    def alltoall(self, send: Any, recv: Any = None, **options: Unpack[CallOptions]) -> None:
        """``recv[r * n + i]`` = rank r's ``send[rank * n + i]``, i < n.

        Args:
            send: size * n elements.
            recv: size * n elements; None: in place.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        _require(target, source)
        self._raw.symm_alltoall(
            self._handle,
            source.pointer,
            target.pointer,
            self._part(source.size),
            source.code,
            call_options,
            cuda_stream,
        )

    def gather(
        self, send: Any, recv: Any = None, root: int = 0, **options: Unpack[CallOptions]
    ) -> None:
        """``recv[r * n + i]`` = rank r's ``send[i]``, i < n, on the root.

        Args:
            send: n elements; None, on the root only: in place, the root's part of `recv`.
            recv: size * n elements on the root; ignored on other ranks.
            root: the rank that receives.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        if self.rank != root:
            source, call_options, cuda_stream = self._begin_with(send, "send", **options)
            self._raw.symm_gather(
                self._handle,
                source.pointer,
                None,
                source.size,
                source.code,
                root,
                call_options,
                cuda_stream,
            )
            return

        whole_if_in_place = recv if send is None else send
        source, target, call_options, cuda_stream = self._begin(whole_if_in_place, recv, **options)
        pointer, count = self._part_at(source, target, root)
        if target is not source:
            _require(target, source, factor=self.size)
        self._raw.symm_gather(
            self._handle,
            pointer,
            target.pointer,
            count,
            source.code,
            root,
            call_options,
            cuda_stream,
        )

    def scatter(
        self, send: Any, recv: Any = None, root: int = 0, **options: Unpack[CallOptions]
    ) -> None:
        """``recv[i]`` = the root's ``send[rank * n + i]``, i < n.

        Args:
            send: size * n elements on the root; ignored on other ranks.
            recv: n elements; None, on the root only: in place, the root's part of `send`.
            root: the rank that sends.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        if self.rank != root:
            target, call_options, cuda_stream = self._begin_with(recv, "recv", **options)
            self._raw.symm_scatter(
                self._handle,
                None,
                target.pointer,
                target.size,
                target.code,
                root,
                call_options,
                cuda_stream,
            )
            return

        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        pointer, count = self._part_at(target, source, root)
        if target is not source:
            _require(target, source, divisor=self.size)
        self._raw.symm_scatter(
            self._handle,
            source.pointer,
            pointer,
            count,
            target.code,
            root,
            call_options,
            cuda_stream,
        )

    def broadcast_bytes(
        self, send: Any, recv: Any, root: int = 0, **options: Unpack[CallOptions]
    ) -> int:
        """The first bytes of `recv` = those of the root's `send`, on all ranks but the root.

        Ranks but the root need not know how many there are.

        Args:
            send: an array on the root; ignored on other ranks.
            recv: an array; ignored on the root.
            root: the rank whose bytes they are.
            **options: algorithm, timeout, tag, max_blocks and order of `allreduce()`.

        Returns:
            The number of bytes.

        Raises:
            InvalidArgumentError: `recv` of a rank is too small. All ranks raise this, nothing is
                written, and the group stays usable.
        """
        is_root = self.rank == root
        name = "send" if is_root else "recv"
        own, call_options, cuda_stream = self._begin_with(
            send if is_root else recv, name, **options
        )
        nbytes = own.size * own.dtype.itemsize
        length: int = self._raw.symm_broadcast_bytes(
            self._handle,
            own.pointer if is_root else None,
            nbytes if is_root else 0,
            None if is_root else own.pointer,
            0 if is_root else nbytes,
            root,
            call_options,
            cuda_stream,
        )
        return length

    def allgather_rows(
        self,
        send: Any,
        recv: Any,
        rows: int,
        recv_stride: int | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """All-gather along the last dimension.

        Each row of `recv` is the concatenation of all ranks' rows of `send`.

        Args:
            send: rows * n elements.
            recv: rows of size * n elements.
            rows: the number of rows.
            recv_stride: elements from the start of one row of `recv` to the next; None:
                size * n.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
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

        self._raw.symm_allgather_rows(
            self._handle,
            source.pointer,
            target.pointer,
            rows,
            count,
            stride,
            source.code,
            call_options,
            cuda_stream,
        )

    def reduce_scatter_rows(
        self,
        send: Any,
        recv: Any,
        rows: int,
        op: Op | str = Op.SUM,
        send_stride: int | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Reduce-scatter along the last dimension.

        Each row of `recv` is this rank's part of the reduction of all ranks' rows of `send`.

        Args:
            send: rows of size * n elements.
            recv: rows * n elements.
            rows: the number of rows; the same on all ranks.
            op: the operation of `allreduce()`.
            send_stride: elements from the start of one row of `send` to the next; None:
                size * n.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        rows = index(rows)
        count = target.size // rows if rows else 0
        stride = self.size * count if send_stride is None else index(send_stride)
        needed = (rows - 1) * stride + self.size * count if count else 0

        if count * rows != target.size:
            raise InvalidArgumentError(
                f"recv: {target.size} elements cannot be divided into {rows} rows"
            )
        if source.size < needed or target.dtype is not source.dtype:
            raise InvalidArgumentError(
                f"send: has {source.size} {source.dtype!r}; {needed} {target.dtype!r} are needed"
            )

        self._raw.symm_reduce_scatter_rows(
            self._handle,
            source.pointer,
            target.pointer,
            rows,
            count,
            stride,
            source.code,
            member(Op, op),
            call_options,
            cuda_stream,
        )

    # ---- collectives of counts by rank

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
            send: ``recv_counts[rank]`` elements; None: in place, this rank's block of `recv`.
            recv: elements for all blocks, which do not overlap.
            recv_counts: the number of elements of each rank's block; the same on all ranks.
            recv_displacements: the start of each rank's block, in elements; None: the blocks
                are contiguous, in the order of the ranks.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        whole_if_in_place = recv if send is None else send
        source, target, call_options, cuda_stream = self._begin(whole_if_in_place, recv, **options)
        self._require_blocks("recv", target, recv_counts, recv_displacements)
        pointer = self._own_block("send", source, target, recv_counts, recv_displacements)

        self._raw.symm_allgatherv(
            self._handle,
            pointer,
            target.pointer,
            recv_counts,
            recv_displacements,
            target.code,
            call_options,
            cuda_stream,
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
        """``recv[i]`` = op over all ranks of ``send[send_displacements[rank] + i]``.

        Here i < ``send_counts[rank]``.

        Args:
            send: elements for all blocks.
            send_counts: the number of elements of each rank's block; the same on all ranks.
            recv: ``send_counts[rank]`` elements; None: in place, into this rank's block of
                `send`.
            op: the operation of `allreduce()`.
            send_displacements: the start of each rank's block, in elements; None: the blocks
                are contiguous, in the order of the ranks.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        self._require_blocks("send", source, send_counts, send_displacements)
        pointer = self._own_block("recv", target, source, send_counts, send_displacements)

        self._raw.symm_reduce_scatterv(
            self._handle,
            source.pointer,
            send_counts,
            send_displacements,
            pointer,
            source.code,
            member(Op, op),
            call_options,
            cuda_stream,
        )

    def gatherv(
        self,
        send: Any,
        recv: Any = None,
        recv_counts: Sequence[int] | None = None,
        root: int = 0,
        recv_displacements: Sequence[int] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Block r of `recv` = rank r's `send`, on the root.

        Args:
            send: this rank's block; None, on the root only: in place, the root's block of
                `recv`.
            recv: elements for all blocks on the root; ignored on other ranks.
            recv_counts: the number of elements of each rank's block on the root; ignored on
                other ranks.
            root: the rank that receives.
            recv_displacements: the start of each rank's block, in elements, on the root; None:
                the blocks are contiguous, in the order of the ranks.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        if self.rank != root:
            source, call_options, cuda_stream = self._begin_with(send, "send", **options)
            self._raw.symm_gatherv(
                self._handle,
                source.pointer,
                source.size,
                None,
                None,
                None,
                source.code,
                root,
                call_options,
                cuda_stream,
            )
            return

        whole_if_in_place = recv if send is None else send
        source, target, call_options, cuda_stream = self._begin(whole_if_in_place, recv, **options)
        counts = () if recv_counts is None else recv_counts
        self._require_blocks("recv", target, counts, recv_displacements)
        pointer = self._own_block("send", source, target, counts, recv_displacements)

        self._raw.symm_gatherv(
            self._handle,
            pointer,
            index(counts[root]),
            target.pointer,
            counts,
            recv_displacements,
            source.code,
            root,
            call_options,
            cuda_stream,
        )

    def scatterv(
        self,
        send: Any,
        send_counts: Sequence[int] | None = None,
        recv: Any = None,
        root: int = 0,
        send_displacements: Sequence[int] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """``recv`` = this rank's block of the root's `send`.

        Args:
            send: elements for all blocks on the root; ignored on other ranks.
            send_counts: the number of elements of each rank's block on the root; ignored on
                other ranks.
            recv: this rank's block; None, on the root only: in place, the root's block of
                `send`.
            root: the rank that sends.
            send_displacements: the start of each rank's block, in elements, on the root; None:
                the blocks are contiguous, in the order of the ranks.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        if self.rank != root:
            target, call_options, cuda_stream = self._begin_with(recv, "recv", **options)
            self._raw.symm_scatterv(
                self._handle,
                None,
                None,
                None,
                target.pointer,
                target.size,
                target.code,
                root,
                call_options,
                cuda_stream,
            )
            return

        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        counts = () if send_counts is None else send_counts
        self._require_blocks("send", source, counts, send_displacements)
        pointer = self._own_block("recv", target, source, counts, send_displacements)

        self._raw.symm_scatterv(
            self._handle,
            source.pointer,
            counts,
            send_displacements,
            pointer,
            index(counts[root]),
            source.code,
            root,
            call_options,
            cuda_stream,
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
        """Block r of `recv` = rank r's block for this rank; both ranks give its length.

        Args:
            send: elements for the blocks that go to each rank.
            send_counts: the number of elements of each block of `send`.
            recv: elements for the blocks that come from each rank; None or `send`: in place,
                with equal counts and displacements.
            recv_counts: the number of elements of each block of `recv`.
            send_displacements: the start of each block of `send`, in elements; None: the blocks
                are contiguous, in the order of the ranks.
            recv_displacements: the start of each block of `recv`, in elements; None: the blocks
                are contiguous, in the order of the ranks.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        self._require_blocks("send", source, send_counts, send_displacements)
        self._require_blocks("recv", target, recv_counts, recv_displacements)
        if target.dtype is not source.dtype:
            raise InvalidArgumentError(f"recv: is of {target.dtype!r}, send of {source.dtype!r}")

        self._raw.symm_alltoallv(
            self._handle,
            source.pointer,
            send_counts,
            send_displacements,
            target.pointer,
            recv_counts,
            recv_displacements,
            source.code,
            call_options,
            cuda_stream,
        )

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
        """`alltoallv()` whose counts and displacements are read when the call runs.

        A captured call takes new counts and displacements at each replay. These are arrays of
        one i64 or u64 for each rank, on the device of `send`. On CUDA all arrays must live
        until the call has run.

        Args:
            send: room for the blocks that go to each rank; it must not overlap `recv`.
            send_counts: the number of elements of each block of `send`.
            recv: room for the blocks that come from each rank.
            recv_counts: the number of elements of each block of `recv`.
            send_displacements: the start of each block of `send`, in elements; None: the blocks
                are contiguous, in the order of the ranks.
            recv_displacements: the start of each block of `recv`, in elements; None: the blocks
                are contiguous, in the order of the ranks.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.

        Raises:
            InvalidArgumentError: a block does not lie within its array. On the host the call
                raises it; on CUDA it revokes the group.
        """
        source, target, call_options, cuda_stream = self._begin(send, recv, **options)
        if target.dtype is not source.dtype:
            raise InvalidArgumentError(f"recv: is of {target.dtype!r}, send of {source.dtype!r}")

        def pointer_of(numbers: Any, name: str) -> int:
            operand = self._operand(numbers, name, cuda_stream)
            if operand.dtype not in (i64, u64) or operand.size != self.size:
                raise InvalidArgumentError(
                    f"{name}: is {operand.size} elements of {operand.dtype!r}, "
                    "not an i64 for each rank"
                )
            return operand.pointer

        def pointer_or_none(numbers: Any, name: str) -> int | None:
            return None if numbers is None else pointer_of(numbers, name)

        self._raw.symm_alltoallv_device(
            self._handle,
            source.pointer,
            source.size,
            pointer_of(send_counts, "send_counts"),
            pointer_or_none(send_displacements, "send_displacements"),
            target.pointer,
            target.size,
            pointer_of(recv_counts, "recv_counts"),
            pointer_or_none(recv_displacements, "recv_displacements"),
            source.code,
            call_options,
            cuda_stream,
        )

    # ---- fused

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
        """The sum of all ranks' `send` with a residual and RMSNorm, in one kernel.

        ``fused.h``, which may still change, defines the arithmetic. Every output may be None, which
        means that it is not wanted.

        Args:
            send: rows of hidden elements, of f32, f16 or bf16. `norm_out` and both residuals
                have as many elements of the same type.
            weight: hidden elements, of f32, f16 or bf16.
            norm_out: receives the normalised rows.
            residual_in: is added to the sum.
            residual_out: receives sum + residual; may be `residual_in`.
            epsilon: is added to the mean of squares; 0 means 1e-6, too.
            weight_offset: is added to each weight.
            quant_out: receives the normalised rows divided by their scale, of f8e4m3.
            scale_in: one f32, the scale of all rows; an alternative to `scale_out`.
            scale_out: receives the scales that the call computes, of f32: one for each row, or
                one for each 128 elements of a row.
            **options: algorithm, timeout, stream, tag, max_blocks and order of `allreduce()`.
        """
        inputs = {"weight": weight, "residual_in": residual_in, "scale_in": scale_in}
        outputs = {
            "residual_out": residual_out,
            "norm_out": norm_out,
            "quant_out": quant_out,
            "scale_out": scale_out,
        }
        source, call_options, cuda_stream = self._begin_with(send, "send", **options)
        operands = {
            name: self._operand(array, name, cuda_stream, written=name in outputs)
            for name, array in (inputs | outputs).items()
            if array is not None
        }

        weights = operands.get("weight")
        hidden = 0 if weights is None else weights.size
        if weights is None or hidden == 0 or source.size % hidden:
            raise InvalidArgumentError(
                f"send: {source.size} elements are not rows of as many as weight has, {hidden}"
            )
        rows = source.size // hidden

        scales = operands.get("scale_out")
        scale_kind = raw.SYMM_QUANT_SCALE_TENSOR
        scale_count = rows
        if scales is not None:
            scale_kind = raw.SYMM_QUANT_SCALE_TOKEN
            if scales.size != rows:
                scale_kind = raw.SYMM_QUANT_SCALE_GROUP
                scale_count = rows * hidden // 128

        needed = {
            "weight": (hidden, weights.dtype),
            "quant_out": (source.size, f8e4m3),
            "scale_in": (1, f32),
            "scale_out": (scale_count, f32),
        }
        for name, operand in operands.items():
            size, dtype = needed.get(name, (source.size, source.dtype))
            if operand.size != size or operand.dtype is not dtype:
                raise InvalidArgumentError(
                    f"{name}: has {operand.size} {operand.dtype!r}; {size} {dtype!r} are needed"
                )

        pointers = {name: operand.pointer for name, operand in operands.items()}
        norm = (
            pointers.get("residual_in", 0),
            pointers.get("residual_out", 0),
            pointers.get("norm_out", 0),
            weights.pointer,
            weights.code,
            float(epsilon),
            float(weight_offset),
            scale_kind,
            pointers.get("quant_out", 0),
            pointers.get("scale_in", 0),
            pointers.get("scale_out", 0),
        )
        self._raw.symm_allreduce_rmsnorm(
            self._handle,
            source.pointer,
            rows,
            hidden,
            source.code,
            norm,
            call_options,
            cuda_stream,
        )

    # ---- plans

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
        send_stride: int | None = None,
        **options: Unpack[ReductionOptions],
    ) -> Plan:
        """The algorithm, path and grid that a collective would use. [local]

        The plan holds if every rank passes memory of the kind that this rank passes.

        Args:
            collective: the collective, for instance "allreduce" or "reduce_scatter".
            send: the operand of the call.
            recv: the operand of the call; None: in place.
            op: the operation, for reductions.
            root: the root, for collectives that have one.
            send_counts: the counts of the call, if it takes them.
            send_displacements: the displacements of the call, if it takes them.
            recv_counts: the counts of the call, if it takes them.
            recv_displacements: the displacements of the call, if it takes them.
            rows: the rows of `allgather_rows()` or `reduce_scatter_rows()`.
            recv_stride: the stride of `allgather_rows()`.
            send_stride: the stride of `reduce_scatter_rows()`.
            **options: the options of the call.
        """
        kind = member(Collective, collective)
        whole_if_in_place = recv if send is None else send
        source, target, call_options, _ = self._begin_reduction(whole_if_in_place, recv, **options)
        in_place = target is source

        count = source.size
        divides_send = kind in (Collective.REDUCE_SCATTER, Collective.ALLTOALL)
        if kind == Collective.SCATTER and self.rank == root:
            divides_send = True
        if divides_send or (kind == Collective.ALLGATHER and in_place):
            count = self._part(count)

        send_at, recv_at = source.pointer, target.pointer
        own_part = source.pointer + self.rank * count * source.dtype.itemsize
        if in_place and kind == Collective.REDUCE_SCATTER:
            recv_at = own_part
        elif in_place and kind == Collective.ALLGATHER:
            send_at = own_part

        if kind in (Collective.REDUCE_SCATTER_ROWS, Collective.SCATTERV):
            count = target.size
        if rows:
            count //= index(rows)
        whole_row = self.size * count
        call = (
            kind,
            send_at,
            recv_at,
            count,
            source.code,
            member(Op, op),
            root,
            send_counts,
            send_displacements,
            recv_counts,
            recv_displacements,
            rows,
            whole_row if recv_stride is None else recv_stride,
            *_NO_DEVICE_COUNTS,
            whole_row if send_stride is None else send_stride,
        )
        return Plan.read(raw.symm_collective_plan(self._handle, call, call_options))


class _Noted:
    """The functions of the library that make collectives, as a batch has them: they note calls.

    Each has the parameters of its function. A call is noted as the struct of `symm_batch()`, with
    its options and the arguments of ``fused.h``.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def _note(
        self,
        kind: Collective,
        send: int | None,
        recv: int | None,
        count: int,
        code: int,
        options: tuple[Any, ...] | None,
        *,
        op: int = 0,
        root: int = 0,
        lists: tuple[Any, Any, Any, Any] = (None, None, None, None),
        rows: int = 0,
        stride: int = 0,
        on_device: tuple[int, int, int] = _NO_DEVICE_COUNTS,
        fused: tuple[Any, ...] | None = None,
    ) -> None:
        call = (int(kind), send or 0, recv or 0, count, code, op, root)
        # The lists were checked, and are read when the batch is made.
        fixed = (
            numbers if numbers is None or isinstance(numbers, int) else tuple(numbers)
            for numbers in lists
        )
        self.calls.append(((*call, *fixed, rows, stride, *on_device, stride), options, fused))

    def symm_allreduce(self, *given: Any) -> None:
        _, send, recv, count, code, op, options, _ = given
        self._note(Collective.ALLREDUCE, send, recv, count, code, options, op=op)

    def symm_reduce_scatter(self, *given: Any) -> None:
        _, send, recv, count, code, op, options, _ = given
        self._note(Collective.REDUCE_SCATTER, send, recv, count, code, options, op=op)

    def symm_allgather(self, *given: Any) -> None:
        _, send, recv, count, code, options, _ = given
        self._note(Collective.ALLGATHER, send, recv, count, code, options)

    def symm_broadcast(self, *given: Any) -> None:
        _, send, recv, count, code, root, options, _ = given
        self._note(Collective.BROADCAST, send, recv, count, code, options, root=root)

    def symm_reduce(self, *given: Any) -> None:
        _, send, recv, count, code, op, root, options, _ = given
        self._note(Collective.REDUCE, send, recv, count, code, options, op=op, root=root)

    def symm_scan(self, *given: Any) -> None:
        _, send, recv, count, code, op, options, _ = given
        self._note(Collective.SCAN, send, recv, count, code, options, op=op)

    def symm_exscan(self, *given: Any) -> None:
        _, send, recv, count, code, op, options, _ = given
        self._note(Collective.EXSCAN, send, recv, count, code, options, op=op)

    def symm_alltoall(self, *given: Any) -> None:
        _, send, recv, count, code, options, _ = given
        self._note(Collective.ALLTOALL, send, recv, count, code, options)

    def symm_gather(self, *given: Any) -> None:
        _, send, recv, count, code, root, options, _ = given
        self._note(Collective.GATHER, send, recv, count, code, options, root=root)

    def symm_scatter(self, *given: Any) -> None:
        _, send, recv, count, code, root, options, _ = given
        self._note(Collective.SCATTER, send, recv, count, code, options, root=root)

    def symm_allgather_rows(self, *given: Any) -> None:
        _, send, recv, rows, count, stride, code, options, _ = given
        kind = Collective.ALLGATHER_ROWS
        self._note(kind, send, recv, count, code, options, rows=rows, stride=stride)

    def symm_reduce_scatter_rows(self, *given: Any) -> None:
        _, send, recv, rows, count, stride, code, op, options, _ = given
        kind = Collective.REDUCE_SCATTER_ROWS
        self._note(kind, send, recv, count, code, options, op=op, rows=rows, stride=stride)

    def symm_allgatherv(self, *given: Any) -> None:
        _, send, recv, counts, places, code, options, _ = given
        lists = (None, None, counts, places)
        self._note(Collective.ALLGATHERV, send, recv, 0, code, options, lists=lists)

    def symm_reduce_scatterv(self, *given: Any) -> None:
        _, send, counts, places, recv, code, op, options, _ = given
        lists = (counts, places, None, None)
        self._note(Collective.REDUCE_SCATTERV, send, recv, 0, code, options, op=op, lists=lists)

    def symm_broadcast_bytes(self, *_: Any) -> int:
        raise TypeError("broadcast_bytes: has a result, and is not a call of a batch")

    def symm_gatherv(self, *given: Any) -> None:
        _, send, count, recv, counts, places, code, root, options, _ = given
        lists = (None, None, counts, places)
        kind = Collective.GATHERV
        self._note(kind, send, recv, count, code, options, root=root, lists=lists)

    def symm_scatterv(self, *given: Any) -> None:
        _, send, counts, places, recv, count, code, root, options, _ = given
        lists = (counts, places, None, None)
        kind = Collective.SCATTERV
        self._note(kind, send, recv, count, code, options, root=root, lists=lists)

    def symm_alltoallv(self, *given: Any) -> None:
        _, send, counts, places, recv, recv_counts, recv_places, code, options, _ = given
        lists = (counts, places, recv_counts, recv_places)
        self._note(Collective.ALLTOALLV, send, recv, 0, code, options, lists=lists)

    def symm_alltoallv_device(self, *given: Any) -> None:
        (
            _,
            send,
            send_capacity,
            counts,
            places,
            recv,
            recv_capacity,
            recv_counts,
            recv_places,
            code,
            options,
            _,
        ) = given
        lists = (counts, places or 0, recv_counts, recv_places or 0)
        on_device = (raw.SYMM_CALL_DEVICE_COUNTS, send_capacity, recv_capacity)
        kind = Collective.ALLTOALLV
        self._note(kind, send, recv, 0, code, options, lists=lists, on_device=on_device)

    def symm_allreduce_rmsnorm(self, *given: Any) -> None:
        _, send, rows, hidden, code, norm, options, _ = given
        kind = Collective.ALLREDUCE_RMSNORM
        self._note(kind, send, None, hidden, code, options, rows=rows, fused=norm)


class Batch(Collectives):
    """Collects collectives for one submission; made by `Group.batch()`.

    It has the collectives of the group and `plan()`. It owns nothing, and is not a group.
    """

    device_key = (-1, -1)  # no array is found to be of this group without a look at it

    def __init__(
        self, group: Collectives, timeout: float | None, stream: Any, tag: str | None
    ) -> None:
        self._group = group
        self._handle = group._handle
        self._on_host = group._on_host
        self.device = group.device
        self.rank = group.rank
        self.size = group.size
        self._options = (milliseconds(timeout), tag)
        self._given_stream = stream
        self._cuda_stream: int | None = None
        self._kept: list[Any] = []
        self._noted = _Noted()
        self._raw = self._noted

    def close(self) -> None:
        """Nothing: the handle is the group's."""

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        calls, self._noted.calls = self._noted.calls, []
        kept, self._kept = self._kept, []
        stream, self._cuda_stream = self._cuda_stream, None
        if kind is None and calls:
            raw.symm_batch(self._group._handle, calls, self._options, stream or 0)
        del kept

    def _stream(self, stream: Any, *arrays: Any) -> int:
        if stream is not None:
            raise TypeError("stream: is that of the batch")
        found = self._group._stream(self._given_stream, *arrays)
        if self._cuda_stream is None:
            self._cuda_stream = found
        elif self._cuda_stream != found:
            raise InvalidArgumentError("stream: the calls of a batch are on one stream")
        return found

    def _operand(self, array: Any, name: str, stream: int, *, written: bool = False) -> AnyOperand:
        found = self._group._operand(array, name, stream, written=written)
        self._kept.append((array, found))
        return found

    def _begin(
        self, *operands: Any, timeout: float | None = None, tag: str | None = None, **options: Any
    ) -> tuple[AnyOperand, AnyOperand, tuple[Any, ...] | None, int]:
        self._require_own(timeout, tag)
        return super()._begin(*operands, **options)

    def _begin_with(
        self, *operands: Any, timeout: float | None = None, tag: str | None = None, **options: Any
    ) -> tuple[AnyOperand, tuple[Any, ...] | None, int]:
        self._require_own(timeout, tag)
        return super()._begin_with(*operands, **options)

    def _require_own(self, timeout: float | None, tag: str | None) -> None:
        for name, value in (("timeout", timeout), ("tag", tag)):
            if value is not None:
                raise TypeError(f"{name}: is that of the batch")
