"""Operators of PyTorch's library, which torch.compile, autograd and CUDA graphs
understand: ``torch.ops.symm.all_reduce(x)``.

Common to all: [collective] [stream; blocking on the host]. `x` is any tensor;
one in symmetric memory is used without a copy. The call is on the current
stream of its device, and on the group that `use()` has given for that kind of
device under the name `group`; else `group` is the name of a process group of
``torch.distributed`` whose back end is symm. Errors are symm's.

A gradient is that of the sum of all ranks' losses. `all_reduce_` and `barrier` have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from symm.collectives import first_dimension
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
    """From now on the operators mean `group` by `name`, on tensors of its kind of device;
    it lives until `forget()`. [local]
    """
    _groups[name, "cpu" if group._on_host else "cuda"] = group
    return name


def forget(name: str = "") -> None:
    """End what `use()` has begun, for both kinds of device. [local]"""
    for kind in ("cpu", "cuda"):
        _groups.pop((name, kind), None)


def group_of(name: str, device: torch.device) -> Group:
    """The group that operators on tensors of `device` mean by
    `name`. [local], but the first time for a process group.
    """
    found = _groups.get((name, device.type))
    if found is not None:
        return found
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
        f"group: {name!r} is neither known for tensors on {device.type} (symm.torch.use) nor a process group of symm's"
    )


# ---- what they do

library: Any = torch.library.Library("symm", "DEF")
ops: Any = torch.ops.symm


def operator(
    schema: str, *, result: Callable[..., Any] = lambda *_: None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Define one: `result` makes its result for the kernel to fill, and is what tracers
    see of it; None where there is none.
    """

    def define(body: Body) -> Body:
        name = library.define(schema)

        def kernel(x: torch.Tensor, *arguments: Any) -> Any:
            out = result(x, *arguments)
            if out is None:
                if x.requires_grad and torch.is_grad_enabled():
                    raise NotImplementedError(f"symm::{name} has no gradient")
                dense = x.contiguous()
                body(dense, dense, *arguments)
                if dense is not x:
                    x.copy_(dense)
            else:
                body(x.contiguous(), out, *arguments)
            return out

        for kind in ("CPU", "CUDA"):
            library.impl(name, kernel, kind)
        torch.library.register_fake(f"symm::{name}", result, lib=library)
        return body

    return define


def _alike(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _gathered(x: torch.Tensor, group: str = "") -> torch.Tensor:
    return x.new_empty((first_dimension(x.shape) * group_of(group, x.device).size, *x.shape[1:]))


def _scattered(x: torch.Tensor, op: str = "sum", group: str = "") -> torch.Tensor:  # noqa: ARG001
    size = group_of(group, x.device).size
    return x.new_empty((first_dimension(x.shape, size) // size, *x.shape[1:]))


def _exchanged(
    x: torch.Tensor, group: str = "", send_rows: Rows = None, recv_rows: Rows = None
) -> torch.Tensor:
    group_of(group, x.device)
    rows = first_dimension(x.shape)
    if (send_rows is None) != (recv_rows is None):
        raise InvalidArgumentError("send_rows, recv_rows: both, or neither")
    return x.new_empty((rows if recv_rows is None else sum(recv_rows), *x.shape[1:]))


@operator('all_reduce_(Tensor(a!) x, str op="sum", str group="") -> ()')
@operator('all_reduce(Tensor x, str op="sum", str group="") -> Tensor', result=_alike)
def all_reduce(x: torch.Tensor, out: torch.Tensor, op: str = "sum", group: str = "") -> None:
    """Op over all ranks of `x`; with the underscore in place."""
    group_of(group, x.device).allreduce(x, out, op)


@operator('all_gather(Tensor x, str group="") -> Tensor', result=_gathered)
def all_gather(x: torch.Tensor, out: torch.Tensor, group: str = "") -> None:
    """All ranks' `x`, of equal shapes, one behind the other along the first dimension."""
    group_of(group, x.device).allgather(x, out)


@operator('reduce_scatter(Tensor x, str op="sum", str group="") -> Tensor', result=_scattered)
def reduce_scatter(x: torch.Tensor, out: torch.Tensor, op: str = "sum", group: str = "") -> None:
    """This rank's part, along the first dimension, of op over all ranks of `x`."""
    group_of(group, x.device).reduce_scatter(x, out, op)


@operator(
    'all_to_all(Tensor x, str group="", SymInt[]? send_rows=None, SymInt[]? recv_rows=None) -> Tensor',
    result=_exchanged,
)
def all_to_all(
    x: torch.Tensor,
    out: torch.Tensor,
    group: str = "",
    send_rows: Rows = None,
    recv_rows: Rows = None,
) -> None:
    """Part r of the result is rank r's part for this rank, along the first dimension;
    without numbers of rows all are equal.
    """
    found = group_of(group, x.device)
    if send_rows is None or recv_rows is None:
        found.alltoall(x, out)
    else:
        row = x[:1].numel() or out[:1].numel()
        found.alltoallv(x, [n * row for n in send_rows], out, [n * row for n in recv_rows])


@operator('broadcast(Tensor x, int root=0, str group="") -> Tensor', result=_alike)
def broadcast(x: torch.Tensor, out: torch.Tensor, root: int = 0, group: str = "") -> None:
    """The root's `x`, of the same shape on all ranks."""
    group_of(group, x.device).broadcast(x, out, root)


@operator('reduce(Tensor x, str op="sum", int root=0, str group="") -> Tensor', result=_alike)
def reduce(
    x: torch.Tensor, out: torch.Tensor, op: str = "sum", root: int = 0, group: str = ""
) -> None:
    """Op over all ranks of `x` on the root, zeros elsewhere."""
    found = group_of(group, x.device)
    found.reduce(x, out, op, root)
    if found.rank != root:
        out.zero_()


@operator('barrier(Tensor(a!) x, str group="") -> ()')
def barrier(x: torch.Tensor, out: torch.Tensor, group: str = "") -> None:  # noqa: ARG001
    """A barrier between what was done with `x` before and what is done with it after: so
    tracers keep its place. `x` stays.
    """
    found = group_of(group, x.device)
    found.barrier(stream=None if found._on_host else torch.cuda.current_stream(x.device))


# ---- their gradients: of the context, the result's
# gradient, and the operator's arguments behind `x`


def _of_all_reduce(context: Any, given: torch.Tensor, op: str, group: str) -> torch.Tensor:
    kind = member(Op, op)
    if kind in (Op.SUM, Op.AVG):
        return ops.all_reduce(given, op, group)
    if kind == Op.PROD:
        raise NotImplementedError("symm::all_reduce has no gradient for 'prod'")
    x, output = context.saved_tensors
    # ranks that have the extreme share the gradient, as in torch.amax()
    chosen = (x == output).to(given.dtype)
    return ops.all_reduce(given, "sum", group) * chosen / ops.all_reduce(chosen, "sum", group)


def _share(name: str, given: torch.Tensor, op: str, group: str) -> torch.Tensor:
    """The part that each operand of a sum or an average has in a gradient."""
    kind = member(Op, op)
    if kind not in (Op.SUM, Op.AVG):
        raise NotImplementedError(f"symm::{name} has no gradient for {op!r}")
    return given if kind == Op.SUM else given / group_of(group, given.device).size


def _differentiate(name: str, backward: Callable[..., torch.Tensor]) -> None:
    # called by these names
    def setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.arguments = inputs[1:]
        if member(Op, inputs[1] if name == "all_reduce" else "sum") in (Op.MIN, Op.MAX):
            ctx.save_for_backward(inputs[0], output)

    def whole(ctx: Any, given: torch.Tensor) -> Any:
        return backward(ctx, given, *ctx.arguments), *(None for _ in ctx.arguments)

    torch.library.register_autograd(f"symm::{name}", whole, setup_context=setup, lib=library)


_differentiate("all_reduce", _of_all_reduce)
_differentiate(
    "reduce_scatter",
    lambda _, dy, op, group: ops.all_gather(_share("reduce_scatter", dy, op, group), group),
)
_differentiate("all_gather", lambda _, dy, group: ops.reduce_scatter(dy, "sum", group))
_differentiate(
    "all_to_all",
    lambda _, dy, group, send_rows, recv_rows: ops.all_to_all(dy, group, recv_rows, send_rows),
)
# Read by all ranks, or a compiler leaves the call out on those that do not.
_differentiate("broadcast", lambda _, dy, root, group: ops.reduce(dy, "sum", root, group))
_differentiate(
    "reduce",
    lambda _, dy, op, root, group: ops.broadcast(_share("reduce", dy, op, group), root, group),
)
