"""Collectives in programs of JAX, for instance ``symm.jax.all_reduce(x, group)``.

They work on the host and on CUDA, under jit, grad, vmap and shard_map. All of them are
[collective] [stream; blocking on the host].

`x` is an array or a tracer on this process's device, of any type that symm knows. All ranks
give the same shape and type. The first dimension is gathered, scattered or exchanged.

`group` is a constant of a traced program. A program that was compiled for a group raises after the
group was closed, also if there is a new one. In such a program a process has one device; a mesh of
several devices is refused.

Calls run in the order of the program on every rank, also if XLA sees no dependency between
them. So do those of ``io_callback(ordered=True)``.

A gradient is the gradient of the sum of all ranks' losses; ``min``, ``max`` and ``prod`` have
none. An error in a running call is a ``jax.errors.JaxRuntimeError`` with the library's message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax._src import dispatch, effects
from jax._src.interpreters import mlir
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from symm._library import raw
from symm.collectives import first_dimension
from symm.dtypes import dtype_of
from symm.enums import Collective, Op, member
from symm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from symm.group import Group


class _Order(effects.Effect):
    """The effect by which JAX keeps all calls in order, also in control flow and gradients."""

    # JAX shows this text when it refuses a mesh of several devices.
    def __repr__(self) -> str:
        return "symm.jax: a process is one rank, on one device"


_order = _Order()
for _kind in (
    effects.ordered_effects,
    effects.lowerable_effects,
    effects.control_flow_allowed_effects,
    effects.custom_derivatives_allowed_effects,
    effects.remat_allowed_effects,
):
    _kind.add_type(_Order)

for _device, _platform in enumerate(("cpu", "CUDA")):
    jax.ffi.register_ffi_target("symm_collective", raw.xla_handler(_device), platform=_platform)

_call = Primitive("symm_collective")
_DIVIDES_ROWS = (Collective.REDUCE_SCATTER, Collective.ALLTOALL)
_call.def_impl(lambda x, **parameters: dispatch.apply_primitive(_call, x, **parameters))


@_call.def_effectful_abstract_eval
def _result(x: Any, *, group: Group, collective: Collective, **_: Any) -> Any:
    rows = x.shape[:1]
    if collective == Collective.ALLGATHER:
        rows = (rows[0] * group.size,)
    elif collective == Collective.REDUCE_SCATTER:
        rows = (rows[0] // group.size,)
    return x.update(shape=rows + x.shape[1:]), {_order}


def _lower(ctx: Any, x: Any, *, group: Group, collective: Collective, op: Op, root: int) -> Any:
    (operand,) = ctx.avals_in
    (result,) = ctx.avals_out
    platforms = list(ctx.module_context.platforms)
    if group._on_host != (platforms == ["cpu"]):
        has, remedy = "host", 'make the group with backend="cuda", or set JAX_PLATFORMS=cpu'
        if not group._on_host:
            has, remedy = "CUDA", 'make the group with backend="host"'
        raise InvalidArgumentError(
            f"x: is for {', '.join(platforms)}, the group is one of {has}; {remedy}"
        )

    # native/xla.c reads these fields in this order.
    count = operand.size // (group.size if collective in _DIVIDES_ROWS else 1)
    fields = [group._handle, collective, count, dtype_of(operand.dtype).value, op, root]

    # A token of _order goes in and comes out beside the array.
    token = ctx.tokens_in.get(_order)
    layouts = [list(reversed(range(operand.ndim))), []]
    result_type = mlir.ir.RankedTensorType.get(result.shape, x.type.element_type)
    done = mlir.custom_call(
        "symm_collective",
        api_version=4,
        operands=[x, token],
        result_types=[result_type, token.type],
        backend_config={"call": mlir.ir.DenseI64ArrayAttr.get([int(field) for field in fields])},
        operand_layouts=layouts,
        result_layouts=layouts,
        has_side_effect=True,
    )
    ctx.set_tokens_out(mlir.TokenSet({_order: done.results[1]}))
    return [done.results[0]]


mlir.register_lowering(_call, _lower)


def _batch(arrays: Any, axes: Any, **parameters: Any) -> Any:
    # The batch becomes the last dimension, so that the first one stays the one that is divided.
    last = arrays[0].ndim - 1
    return _call.bind(jax.numpy.moveaxis(arrays[0], axes[0], last), **parameters), last


batching.primitive_batchers[_call] = _batch


def _tangent(primals: Any, tangents: Any, **parameters: Any) -> Any:
    op = parameters["op"]
    if op not in (Op.SUM, Op.AVG):
        raise NotImplementedError(f"op: {op.name.lower()} has no gradient")
    y = _call.bind(primals[0], **parameters)
    (tangent,) = tangents
    if type(tangent) is ad.Zero:
        return y, ad.Zero.from_primal_value(y)
    return y, _call.bind(tangent, **parameters)


ad.primitive_jvps[_call] = _tangent


def _transposed(
    cotangent: Any, x: Any, *, group: Group, collective: Collective, op: Op, root: int
) -> Any:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(x.aval)]
    share = cotangent / group.size if op == Op.AVG else cotangent
    transposed = {
        Collective.ALLREDUCE: lambda: all_reduce(cotangent, group, op),
        Collective.ALLGATHER: lambda: reduce_scatter(cotangent, group),
        Collective.REDUCE_SCATTER: lambda: all_gather(share, group),
        Collective.ALLTOALL: lambda: all_to_all(cotangent, group),
        Collective.BROADCAST: lambda: reduce(cotangent, group, root=root),
        Collective.REDUCE: lambda: broadcast(share, group, root),
    }

    return [transposed[collective]()]


ad.primitive_transposes[_call] = _transposed


def _bind(
    x: Any, group: Group, collective: Collective, op: Op | str = Op.SUM, root: int = 0
) -> jax.Array:
    x = jax.numpy.asarray(x)
    try:
        dtype_of(x.dtype)
    except ValueError as error:
        raise InvalidArgumentError(f"x: {error}") from None
    if collective in _DIVIDES_ROWS:
        first_dimension(x.shape, group.size)
    elif collective == Collective.ALLGATHER:
        first_dimension(x.shape)
    return _call.bind(x, group=group, collective=collective, op=member(Op, op), root=root)


def all_reduce(x: Any, group: Group, op: Op | str = Op.SUM) -> jax.Array:
    """Op over all ranks of `x`."""
    return _bind(x, group, Collective.ALLREDUCE, op)


def all_gather(x: Any, group: Group) -> jax.Array:
    """The concatenation of all ranks' `x`: `[size * rows, ...]`."""
    return _bind(x, group, Collective.ALLGATHER)


def reduce_scatter(x: Any, group: Group, op: Op | str = Op.SUM) -> jax.Array:
    """This rank's part of op over all ranks of `x`: `[rows / size, ...]`."""
    return _bind(x, group, Collective.REDUCE_SCATTER, op)


def all_to_all(x: Any, group: Group) -> jax.Array:
    """Part r of the result is rank r's part for this rank. Parts are `[rows / size, ...]`."""
    return _bind(x, group, Collective.ALLTOALL)


def broadcast(x: Any, group: Group, root: int = 0) -> jax.Array:
    """The root's `x`."""
    return _bind(x, group, Collective.BROADCAST, root=root)


def reduce(x: Any, group: Group, op: Op | str = Op.SUM, root: int = 0) -> jax.Array:
    """Op over all ranks of `x` on the root, zeros elsewhere."""
    reduced = _bind(x, group, Collective.REDUCE, op, root)
    # The result is selected on every rank and not left out on some, because its gradient is a
    # call that all ranks must make.
    return jax.numpy.where(group.rank == root, reduced, jax.numpy.zeros_like(reduced))
