# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch's library, which torch.compile, autograd and CUDA graphs understand: ``torch.ops.symm.all_reduce(x)``.

Common to all: [collective] [stream; blocking on the host]. `x` is any tensor; one in symmetric memory is used without a copy. The
call is on the current stream of its device, and on the group that `use()` has given for that kind of device under the name
`group`; else `group` is the name of a process group of ``torch.distributed`` whose back end is symm. Errors are symm's.

A gradient is that of the sum of all ranks' losses. `all_reduce_` and `barrier` have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from symm.enums import Op, member
from symm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from symm.group import Group

_groups: dict[tuple[str, str], Group] = {}


def use(group: Group, name: str = "") -> str:
    """From now on the operators mean `group` by `name`, on tensors of its kind of device; it lives until `forget()`. [local]"""
    _groups[name, "cpu" if group._on_host else "cuda"] = group
    return name


def forget(name: str = "") -> None:
    """End what `use()` has begun, for both kinds of device. [local]"""
    for kind in ("cpu", "cuda"):
        _groups.pop((name, kind), None)


def group_of(name: str, device: torch.device) -> Group:
    """The group that operators on tensors of `device` mean by `name`. [local], but the first time for a process group."""
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

library = torch.library.Library("symm", "DEF")
ops: Any = torch.ops.symm


def operator(schema: str, *, result: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., Any]]:
    """Define one: `result` makes its result for the kernel to fill, and is what tracers see of it; None where there is none."""

    def define(body: Callable[..., None]) -> Callable[..., Any]:
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
        return kernel

    return define


def _nothing(*_: Any) -> None:
    return None


def _alike(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _size(x: torch.Tensor, group: str) -> int:
    if x.dim() == 0:
        raise InvalidArgumentError("x: has no dimension to divide or to gather along")
    return group_of(group, x.device).size


def _gathered(x: torch.Tensor, group: str = "") -> torch.Tensor:
    return x.new_empty((x.shape[0] * _size(x, group), *x.shape[1:]))


def _scattered(x: torch.Tensor, op: str = "sum", group: str = "") -> torch.Tensor:  # noqa: ARG001
    size = _size(x, group)
    if x.shape[0] % size:
        raise InvalidArgumentError(f"x: {x.shape[0]} rows cannot be divided among {size} ranks")
    return x.new_empty((x.shape[0] // size, *x.shape[1:]))


def _exchanged(
    x: torch.Tensor, group: str = "", send_rows: list[int] | None = None, recv_rows: list[int] | None = None
) -> torch.Tensor:
    _size(x, group)
    if (send_rows is None) != (recv_rows is None):
        raise InvalidArgumentError("send_rows, recv_rows: both, or neither")
    return x.new_empty((x.shape[0] if recv_rows is None else sum(recv_rows), *x.shape[1:]))


@operator('all_reduce(Tensor x, str op="sum", str group="") -> Tensor', result=_alike)
def all_reduce(x: torch.Tensor, out: torch.Tensor, op: str = "sum", group: str = "") -> None:
    """Op over all ranks of `x`."""
    group_of(group, x.device).allreduce(x, out, op)


@operator('all_reduce_(Tensor(a!) x, str op="sum", str group="") -> ()', result=_nothing)
def all_reduce_(x: torch.Tensor, out: torch.Tensor, op: str = "sum", group: str = "") -> None:
    """The same in place."""
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
    send_rows: list[int] | None = None,
    recv_rows: list[int] | None = None,
) -> None:
    """Part r of the result is rank r's part for this rank, along the first dimension; without numbers of rows all are equal."""
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


@operator('barrier(Tensor(a!) x, str group="") -> ()', result=_nothing)
def barrier(x: torch.Tensor, out: torch.Tensor, group: str = "") -> None:  # noqa: ARG001
    """A barrier between what was done with `x` before and what is done with it after: so tracers keep its place. `x` stays."""
    found = group_of(group, x.device)
    found.barrier(stream=None if found._on_host else torch.cuda.current_stream(x.device))


# ---- their gradients


def _differentiable(name: str, backward: Callable[..., Any], remember: Callable[..., None]) -> None:
    def setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:  # called by these names
        remember(ctx, inputs, output)

    torch.library.register_autograd(f"symm::{name}", backward, setup_context=setup, lib=library)


def _remember_op(context: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, context.op, context.group = inputs
    context.operation = member(Op, context.op)
    if context.operation in (Op.MIN, Op.MAX):
        context.save_for_backward(x, output)


def _all_reduce_backward(context: Any, gradient: torch.Tensor) -> Any:
    if context.operation in (Op.SUM, Op.AVG):
        return ops.all_reduce(gradient, context.op, context.group), None, None
    if context.operation == Op.PROD:
        raise NotImplementedError("symm::all_reduce has no gradient for 'prod'")
    x, output = context.saved_tensors
    chosen = (x == output).to(gradient.dtype)  # ranks that have the extreme share the gradient, as in torch.amax()
    shares = ops.all_reduce(chosen, "sum", context.group)
    return ops.all_reduce(gradient, "sum", context.group) * chosen / shares, None, None


def _reduce_scatter_backward(context: Any, gradient: torch.Tensor) -> Any:
    if context.operation not in (Op.SUM, Op.AVG):
        raise NotImplementedError(f"symm::reduce_scatter has no gradient for {context.op!r}")
    gathered = ops.all_gather(gradient, context.group)
    if context.operation == Op.AVG:
        gathered = gathered / group_of(context.group, gradient.device).size
    return gathered, None, None


def _remember_group(context: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:  # noqa: ARG001 - PyTorch's signature
    context.group = inputs[1]
    context.rows = inputs[2:]


def _all_gather_backward(context: Any, gradient: torch.Tensor) -> Any:
    return ops.reduce_scatter(gradient, "sum", context.group), None


def _all_to_all_backward(context: Any, gradient: torch.Tensor) -> Any:
    send_rows, recv_rows = context.rows
    return ops.all_to_all(gradient, context.group, recv_rows, send_rows), None, None, None


def _remember_root(context: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:  # noqa: ARG001 - PyTorch's signature
    _, context.root, context.group = inputs


def _broadcast_backward(context: Any, gradient: torch.Tensor) -> Any:
    total = ops.all_reduce(gradient, "sum", context.group)
    is_root = group_of(context.group, gradient.device).rank == context.root
    return total if is_root else torch.zeros_like(total), None, None


_differentiable("all_reduce", _all_reduce_backward, _remember_op)
_differentiable("reduce_scatter", _reduce_scatter_backward, _remember_op)
_differentiable("all_gather", _all_gather_backward, _remember_group)
_differentiable("all_to_all", _all_to_all_backward, _remember_group)
_differentiable("broadcast", _broadcast_backward, _remember_root)
