"""Operators in PyTorch's registry, for instance ``torch.ops.symm.all_reduce(x)``.

torch.compile, autograd and CUDA graphs know them. All are [collective] [stream; blocking on the
host], and raise symm's errors.

`x` is any tensor. A tensor in symmetric memory is used without a copy. The call is ordered on
the current stream of its device.

`group` is a name. `use()` gives it to a group, for that group's kind of device. Any other name
is that of a process group of ``torch.distributed`` whose back end is symm; the empty name is
the default process group.

A gradient is the gradient of the sum of all ranks' losses. `all_reduce_` and `barrier` have
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from symm.collectives import first_dimension, require_rows
from symm.enums import Op, member
from symm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from symm.group import Group

    Body: TypeAlias = Callable[..., None]
    Rows: TypeAlias = list[int] | None

_groups: dict[tuple[str, str], Group] = {}


def use(group: Group, name: str = "") -> str:
    """Give `name` to `group`, for operators on tensors of its kind of device. [local]

    The group is kept alive until `forget()`.
    """
    device_type = "cpu" if group._on_host else "cuda"
    _groups[name, device_type] = group
    return name


def forget(name: str = "") -> None:
    """Take `name` from the groups that `use()` gave it to, for both kinds of device. [local]"""
    for device_type in ("cpu", "cuda"):
        _groups.pop((name, device_type), None)


def group_of(name: str, device: torch.device) -> Group:
    """The group of that name for tensors on `device`.

    [local], except for the first call for a process group, which is [collective].
    """
    used = _groups.get((name, device.type))
    if used is not None:
        return used

    from symm.torch.backend import ProcessGroup

    if torch.distributed.is_initialized():
        c10d = torch.distributed.distributed_c10d
        try:
            process_group = c10d._resolve_process_group(name) if name else c10d._get_default_group()
        except (RuntimeError, ValueError, KeyError):
            process_group = None
        if isinstance(process_group, ProcessGroup):
            return process_group.group(device)
    raise InvalidArgumentError(
        f"group: {name!r} is neither known for tensors on {device.type} (symm.torch.use) "
        "nor a process group of symm's"
    )


def require_distinct_elements(x: torch.Tensor) -> None:
    """Raise InvalidArgumentError if elements of `x`, which is written, may share memory.

    PyTorch would refuse to copy a result into such a tensor, but only after the collective.
    """
    if x.is_contiguous():
        return
    end = 0
    strides_and_extents = zip(x.stride(), x.shape, strict=True)
    for stride, extent in sorted(both for both in strides_and_extents if both[1] > 1):
        if stride <= end:
            raise InvalidArgumentError(
                f"a tensor of shape {tuple(x.shape)} and strides {x.stride()} cannot be written: "
                "several of its elements share memory; pass its clone()"
            )
        end += stride * (extent - 1)


# ---- the operators

library: Any = torch.library.Library("symm", "DEF")
ops: Any = torch.ops.symm


def operator(
    schema: str, *, result: Callable[..., Any] = lambda *_: None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Define an operator by its schema. The decorated function fills its result.

    Args:
        schema: the schema in PyTorch's notation.
        result: makes the empty result from the operator's arguments; tracers see it as the
            result. It returns None if the operator is in place.
    """

    def define(body: Body) -> Body:
        name = library.define(schema)

        def kernel(x: torch.Tensor, *arguments: Any) -> Any:
            out = result(x, *arguments)
            if out is not None:
                body(x.contiguous(), out, *arguments)
                return out

            if x.requires_grad and torch.is_grad_enabled():
                raise NotImplementedError(f"symm::{name} has no gradient")
            require_distinct_elements(x)
            dense = x.contiguous()
            body(dense, dense, *arguments)
            if dense is not x:
                x.copy_(dense)
            return None

        for dispatch_key in ("CPU", "CUDA"):
            library.impl(name, kernel, dispatch_key)
        torch.library.register_fake(f"symm::{name}", result, lib=library)
        return body

    return define


def _same_shape(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _gathered_shape(x: torch.Tensor, group: str = "") -> torch.Tensor:
    size = group_of(group, x.device).size
    return x.new_empty((first_dimension(x.shape) * size, *x.shape[1:]))


def _scattered_shape(x: torch.Tensor, op: str = "sum", group: str = "") -> torch.Tensor:  # noqa: ARG001
    size = group_of(group, x.device).size
    return x.new_empty((first_dimension(x.shape, size) // size, *x.shape[1:]))


def _exchanged_shape(
    x: torch.Tensor, group: str = "", send_rows: Rows = None, recv_rows: Rows = None
) -> torch.Tensor:
    group_of(group, x.device)  # raises if there is no such group
    rows = first_dimension(x.shape)
    if (send_rows is None) != (recv_rows is None):
        raise InvalidArgumentError("send_rows, recv_rows: both, or neither")
    if recv_rows is not None:
        rows = sum(recv_rows)
    return x.new_empty((rows, *x.shape[1:]))


@operator('all_reduce_(Tensor(a!) x, str op="sum", str group="") -> ()')
@operator('all_reduce(Tensor x, str op="sum", str group="") -> Tensor', result=_same_shape)
def all_reduce(x: torch.Tensor, out: torch.Tensor, op: str = "sum", group: str = "") -> None:
    """Op over all ranks of `x`; `all_reduce_` is in place."""
    group_of(group, x.device).allreduce(x, out, op)


@operator('all_gather(Tensor x, str group="") -> Tensor', result=_gathered_shape)
def all_gather(x: torch.Tensor, out: torch.Tensor, group: str = "") -> None:
    """The concatenation of all ranks' `x`, of equal shapes, along the first dimension."""
    group_of(group, x.device).allgather(x, out)


@operator('reduce_scatter(Tensor x, str op="sum", str group="") -> Tensor', result=_scattered_shape)
def reduce_scatter(x: torch.Tensor, out: torch.Tensor, op: str = "sum", group: str = "") -> None:
    """This rank's part, along the first dimension, of op over all ranks of `x`."""
    group_of(group, x.device).reduce_scatter(x, out, op)


@operator(
    'all_to_all(Tensor x, str group="", SymInt[]? send_rows=None, SymInt[]? recv_rows=None)'
    " -> Tensor",
    result=_exchanged_shape,
)
def all_to_all(
    x: torch.Tensor,
    out: torch.Tensor,
    group: str = "",
    send_rows: Rows = None,
    recv_rows: Rows = None,
) -> None:
    """Part r of the result is rank r's part for this rank, along the first dimension.

    `send_rows` and `recv_rows` have the number of rows of each part, and their sums are all rows;
    without them all parts are equal.
    """
    member_group = group_of(group, x.device)
    if send_rows is None or recv_rows is None:
        member_group.alltoall(x, out)
        return
    require_rows("send_rows", send_rows, x.shape[0], member_group.size)
    require_rows("recv_rows", recv_rows, out.shape[0], member_group.size)
    row = x[:1].numel() or out[:1].numel()
    send_counts = [rows * row for rows in send_rows]
    recv_counts = [rows * row for rows in recv_rows]
    member_group.alltoallv(x, send_counts, out, recv_counts)


@operator('broadcast(Tensor x, int root=0, str group="") -> Tensor', result=_same_shape)
def broadcast(x: torch.Tensor, out: torch.Tensor, root: int = 0, group: str = "") -> None:
    """The root's `x`, of the same shape on all ranks."""
    group_of(group, x.device).broadcast(x, out, root)


@operator('reduce(Tensor x, str op="sum", int root=0, str group="") -> Tensor', result=_same_shape)
def reduce(
    x: torch.Tensor, out: torch.Tensor, op: str = "sum", root: int = 0, group: str = ""
) -> None:
    """Op over all ranks of `x` on the root, zeros elsewhere."""
    member_group = group_of(group, x.device)
    member_group.reduce(x, out, op, root)
    if member_group.rank != root:
        out.zero_()


@operator('barrier(Tensor(a!) x, str group="") -> ()')
def barrier(x: torch.Tensor, out: torch.Tensor, group: str = "") -> None:  # noqa: ARG001
    """A barrier between earlier and later uses of `x`, which stays as it is.

    `x` is an operand so that tracers keep the barrier in its place.
    """
    member_group = group_of(group, x.device)
    stream = None if member_group._on_host else torch.cuda.current_stream(x.device)
    member_group.barrier(stream=stream)


# ---- gradients
#
# The arguments of a backward function are the context, the gradient of the result, and the
# arguments of the operator after `x`.


def _backward_of_all_reduce(context: Any, dy: torch.Tensor, op: str, group: str) -> torch.Tensor:
    kind = member(Op, op)
    if kind in (Op.SUM, Op.AVG):
        return ops.all_reduce(dy, op, group)
    if kind == Op.PROD:
        raise NotImplementedError("symm::all_reduce has no gradient for 'prod'")

    # Ranks that have the extreme share the gradient, as in torch.amax().
    x, output = context.saved_tensors
    is_extreme = (x == output).to(dy.dtype)
    count = ops.all_reduce(is_extreme, "sum", group)
    return ops.all_reduce(dy, "sum", group) * is_extreme / count


def _share(name: str, dy: torch.Tensor, op: str, group: str) -> torch.Tensor:
    """The gradient of one operand of a sum or an average."""
    kind = member(Op, op)
    if kind not in (Op.SUM, Op.AVG):
        raise NotImplementedError(f"symm::{name} has no gradient for {op!r}")
    return dy if kind == Op.SUM else dy / group_of(group, dy.device).size


def _differentiate(name: str, backward: Callable[..., torch.Tensor]) -> None:
    # PyTorch passes these arguments by name.
    def setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.arguments = inputs[1:]
        op = inputs[1] if name == "all_reduce" else "sum"
        if member(Op, op) in (Op.MIN, Op.MAX):
            ctx.save_for_backward(inputs[0], output)

    def gradients(ctx: Any, dy: torch.Tensor) -> Any:
        return backward(ctx, dy, *ctx.arguments), *(None for _ in ctx.arguments)

    torch.library.register_autograd(f"symm::{name}", gradients, setup_context=setup, lib=library)


_differentiate("all_reduce", _backward_of_all_reduce)
_differentiate(
    "reduce_scatter",
    lambda _, dy, op, group: ops.all_gather(_share("reduce_scatter", dy, op, group), group),
)
_differentiate("all_gather", lambda _, dy, group: ops.reduce_scatter(dy, "sum", group))
_differentiate(
    "all_to_all",
    lambda _, dy, group, send_rows, recv_rows: ops.all_to_all(dy, group, recv_rows, send_rows),
)
# reduce() has a result on every rank, zeros elsewhere than on the root. So every rank reads it,
# and no compiler leaves the call out on some of them.
_differentiate("broadcast", lambda _, dy, root, group: ops.reduce(dy, "sum", root, group))
_differentiate(
    "reduce",
    lambda _, dy, op, root, group: ops.broadcast(_share("reduce", dy, op, group), root, group),
)
