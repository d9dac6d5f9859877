"""Collectives in JAX's programs, on the host and on CUDA: ``symm.jax.all_reduce(x,
group)`` under jit, grad, vmap and shard_map.

Common to all: [collective] [stream; blocking on the host]. `x` is an array, or a
tracer, of this process's device, of any type that symm knows, and all ranks give the
same shape and type; what is gathered, scattered or exchanged is the first dimension.
`group` is constant in a traced program, in which its process has one device: a mesh of
more is refused. Calls come in the order of the program on every rank, also where XLA
sees nothing between them, as those of ``io_callback(ordered=True)``.

A gradient is that of the sum of all ranks' losses; ``min``,
``max`` and ``prod`` have none. Errors of a call that runs are
``jax.errors.JaxRuntimeError`` with the library's message.
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
    """By which JAX keeps all calls in order, in control flow and in gradients too."""

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
_DIVIDES = (Collective.REDUCE_SCATTER, Collective.ALLTOALL)
_call.def_impl(lambda x, **how: dispatch.apply_primitive(_call, x, **how))


@_call.def_effectful_abstract_eval
def _result(x: Any, *, group: Group, collective: Collective, **_: Any) -> Any:
    rows = x.shape[:1]
    if collective == Collective.ALLGATHER:
        rows = (rows[0] * group.size,)
    elif collective == Collective.REDUCE_SCATTER:
        rows = (rows[0] // group.size,)
    return x.update(shape=rows + x.shape[1:]), {_order}


def _lower(ctx: Any, x: Any, *, group: Group, collective: Collective, op: Op, root: int) -> Any:
    (given,), (made,) = ctx.avals_in, ctx.avals_out
    if group._on_host != (list(ctx.module_context.platforms) == ["cpu"]):
        kind = "host" if group._on_host else "CUDA"
        raise InvalidArgumentError(
            f"x: is for {', '.join(ctx.module_context.platforms)}, the group is one of {kind}"
        )
    count = given.size // (group.size if collective in _DIVIDES else 1)
    fields = [group._handle, collective, count, dtype_of(given.dtype).value, op, root]
    token = ctx.tokens_in.get(_order)
    layouts = [list(reversed(range(given.ndim))), []]
    done = mlir.custom_call(
        "symm_collective",
        api_version=4,
        operands=[x, token],
        result_types=[mlir.ir.RankedTensorType.get(made.shape, x.type.element_type), token.type],
        backend_config={"call": mlir.ir.DenseI64ArrayAttr.get([int(field) for field in fields])},
        operand_layouts=layouts,
        result_layouts=layouts,
        has_side_effect=True,
    )
    ctx.set_tokens_out(mlir.TokenSet({_order: done.results[1]}))
    return [done.results[0]]


mlir.register_lowering(_call, _lower)


def _batch(arrays: Any, axes: Any, **how: Any) -> Any:
    last = arrays[0].ndim - 1  # the first stays what it is
    return _call.bind(jax.numpy.moveaxis(arrays[0], axes[0], last), **how), last


batching.primitive_batchers[_call] = _batch


def _tangent(primals: Any, tangents: Any, **how: Any) -> Any:
    if how["op"] not in (Op.SUM, Op.AVG):
        raise NotImplementedError(f"op: {how['op'].name.lower()} has no gradient")
    y = _call.bind(primals[0], **how)
    (given,) = tangents
    return y, ad.Zero.from_primal_value(y) if type(given) is ad.Zero else _call.bind(given, **how)


ad.primitive_jvps[_call] = _tangent


def _transposed(
    given: Any, x: Any, *, group: Group, collective: Collective, op: Op, root: int
) -> Any:
    if type(given) is ad.Zero:
        return [ad.Zero(x.aval)]
    share = given / group.size if op == Op.AVG else given
    gradient = {
        Collective.ALLREDUCE: lambda: all_reduce(given, group, op),
        Collective.ALLGATHER: lambda: reduce_scatter(given, group),
        Collective.REDUCE_SCATTER: lambda: all_gather(share, group),
        Collective.ALLTOALL: lambda: all_to_all(given, group),
        Collective.BROADCAST: lambda: reduce(given, group, root=root),
        Collective.REDUCE: lambda: broadcast(share, group, root),
    }
    return [gradient[collective]()]


ad.primitive_transposes[_call] = _transposed


def _bind(
    x: Any, group: Group, collective: Collective, op: Op | str = Op.SUM, root: int = 0
) -> jax.Array:
    x = jax.numpy.asarray(x)
    try:
        dtype_of(x.dtype)
    except ValueError as error:
        raise InvalidArgumentError(f"x: {error}") from None
    if collective in (Collective.ALLGATHER, *_DIVIDES):
        first_dimension(x.shape, group.size if collective in _DIVIDES else 1)
    return _call.bind(x, group=group, collective=collective, op=member(Op, op), root=root)


def all_reduce(x: Any, group: Group, op: Op | str = Op.SUM) -> jax.Array:
    """Op over all ranks of `x`."""
    return _bind(x, group, Collective.ALLREDUCE, op)


def all_gather(x: Any, group: Group) -> jax.Array:
    """All ranks' `x`, one behind the other: `[size * rows, ...]`."""
    return _bind(x, group, Collective.ALLGATHER)


def reduce_scatter(x: Any, group: Group, op: Op | str = Op.SUM) -> jax.Array:
    """This rank's part of op over all ranks of `x`: `[rows / size, ...]`."""
    return _bind(x, group, Collective.REDUCE_SCATTER, op)


def all_to_all(x: Any, group: Group) -> jax.Array:
    """Part r of the result is rank r's part for this rank; parts are `[rows / size, ...]`."""
    return _bind(x, group, Collective.ALLTOALL)


def broadcast(x: Any, group: Group, root: int = 0) -> jax.Array:
    """The root's `x`."""
    return _bind(x, group, Collective.BROADCAST, root=root)


def reduce(x: Any, group: Group, op: Op | str = Op.SUM, root: int = 0) -> jax.Array:
    """Op over all ranks of `x` on the root, zeros elsewhere."""
    found = _bind(x, group, Collective.REDUCE, op, root)
    # Selected, not left out: its gradient is a call, which all ranks must make.
    return jax.numpy.where(group.rank == root, found, jax.numpy.zeros_like(found))
