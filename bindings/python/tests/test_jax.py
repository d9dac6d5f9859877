"""symm.jax: three ranks on the host as programs, `test_jax.py`; test_gpu.py runs them on GPUs."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import symm

SIZE = 3

# Each collective, and what it does to all ranks' operands, stacked.
COLLECTIVES = {
    "sum": (lambda x, g: g.all_reduce(x), lambda a: [a.sum(0)] * len(a)),
    "avg": (lambda x, g: g.all_reduce(x, op="avg"), lambda a: [a.sum(0) / len(a)] * len(a)),
    "all_gather": (lambda x, g: g.all_gather(x), lambda a: [a.reshape(-1, a.shape[2])] * len(a)),
    "reduce_scatter": (
        lambda x, g: g.reduce_scatter(x),
        lambda a: a.sum(0).reshape(len(a), -1, a.shape[2]),
    ),
    "scatter avg": (
        lambda x, g: g.reduce_scatter(x, op="avg"),
        lambda a: a.sum(0).reshape(len(a), -1, a.shape[2]) / len(a),
    ),
    "all_to_all": (
        lambda x, g: g.all_to_all(x),
        lambda a: a.reshape(len(a), len(a), -1, a.shape[2]).swapaxes(0, 1).reshape(a.shape),
    ),
    "broadcast": (lambda x, g: g.broadcast(x, root=1), lambda a: [a[1]] * len(a)),
    "reduce": (
        lambda x, g: g.reduce(x, root=1),
        lambda a: [a.sum(0) * (rank == 1) for rank in range(len(a))],
    ),
}


def on_group(group):
    """The functions of symm.jax, on this group."""
    import symm.jax as module

    names = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
    return SimpleNamespace(**{name: partial(getattr(module, name), group=group) for name in names})


def check(group):
    """What ranks of any back end do, on JAX's default device."""
    import jax

    jnp, rank, on = jax.numpy, group.rank, on_group(group)
    # In NumPy what can be: JAX compiles each operation that it meets.
    all_x = (np.arange(group.size**2 * 2 * 4, dtype=np.float32) % 11).reshape(group.size, -1, 4) * 6
    x = jnp.asarray(all_x[rank])
    for name, (apply, expect) in COLLECTIVES.items():
        weights = [
            np.float32(1 + index + np.arange(one.size).reshape(one.shape) % 3)
            for index, one in enumerate(expect(all_x))
        ]

        def losses(a, expect=expect, weights=weights):
            return sum((one * weight).sum() for one, weight in zip(expect(a), weights, strict=True))

        def loss(x, apply=apply, weight=weights[rank]):
            return (apply(x, on) * weight).sum()

        for transform in (lambda f: f, jax.jit):
            assert (
                transform(lambda x, apply=apply: apply(x, on))(x) == expect(all_x)[rank]
            ).all(), name
        assert jnp.allclose(
            jax.jit(jax.grad(loss))(x), jax.jit(jax.grad(losses))(all_x)[rank], rtol=1e-6
        ), name
        batched = jax.vmap(lambda x, apply=apply: apply(x, on), in_axes=1, out_axes=1)(
            np.stack([x, 2 * x], 1)
        )
        assert (batched[:, 1] == 2 * expect(all_x)[rank]).all(), name

    # Nothing but the order of the program connects
    # them: another on some rank would be a mismatch.
    many = jax.jit(
        lambda x: [on.all_reduce(x[: 1 + 5 * i % 7]) for i in range(24)] + [on.all_gather(x)]
    )
    for _ in range(20):
        assert all((one == all_x.sum(0)[: len(one)]).all() for one in many(x)[:-1])
    looped = jax.jit(
        lambda x: jax.lax.scan(lambda c, _: (on.all_reduce(c), None), x, None, length=3)[0]
    )
    assert (looped(x) == all_x.sum(0) * group.size**2).all()
    for name in ("bfloat16", "int8", "uint32", "bool", "float8_e4m3fn"):
        narrow = jnp.full((3, 5), rank, name)
        assert (
            on.all_gather(narrow)
            == jnp.concatenate([jnp.full((3, 5), r, name) for r in range(group.size)])
        ).all(), name

    spec = jax.sharding.PartitionSpec("a")
    for devices in (list(x.devices()), jax.devices()):
        mesh = jax.sharding.Mesh(devices, ("a",))
        summed = jax.jit(jax.shard_map(on.all_reduce, mesh=mesh, in_specs=spec, out_specs=spec))
        if len(devices) == 1:
            assert (summed(x) == all_x.sum(0)).all()
        else:
            with pytest.raises(ValueError, match="one rank, on one device"):
                summed(jax.device_put(x, jax.sharding.NamedSharding(mesh, spec)))
    with pytest.raises(NotImplementedError, match="max has no gradient"):
        jax.grad(lambda x: on.all_reduce(x, op="max").sum())(x)
    for wrong, message in (
        (x * 1j, "complex64"),
        (x[1:], "cannot be divided"),
        (x[0, 0], "no dimension"),
    ):
        with pytest.raises(symm.InvalidArgumentError, match=message):
            on.reduce_scatter(wrong)


def test_on_the_host(launch, monkeypatch):
    # not imported where other tests fork
    importlib.util.find_spec("jax") or pytest.skip("no JAX here")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    for status, output in launch(SIZE, sys.executable, str(Path(__file__)), patience=300):
        assert status == 0, output


if __name__ == "__main__":
    import jax

    with symm.Group.from_env(backend="host", timeout=60) as made:
        check(made)
        with pytest.raises(jax.errors.JaxRuntimeError, match="rank 0 makes allreduce"):
            on_group(made).all_reduce(jax.numpy.ones(3 + made.rank))
        made.close()
    with pytest.raises(jax.errors.JaxRuntimeError, match="group: "):
        on_group(made).all_reduce(jax.numpy.ones(3))
