"""symm.jax on three ranks that are programs, `test_jax.py`; test_gpu.py runs check() on GPUs."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import symm

SIZE = 3


def exchanged(all_x):
    by_part = all_x.reshape(len(all_x), len(all_x), -1, all_x.shape[2])
    return by_part.swapaxes(0, 1).reshape(all_x.shape)


# Each collective, and its results on all ranks, computed from all ranks' operands, stacked.
COLLECTIVES = {
    "sum": (
        lambda x, on: on.all_reduce(x),
        lambda all_x: [all_x.sum(0)] * len(all_x),
    ),
    "avg": (
        lambda x, on: on.all_reduce(x, op="avg"),
        lambda all_x: [all_x.sum(0) / len(all_x)] * len(all_x),
    ),
    "all_gather": (
        lambda x, on: on.all_gather(x),
        lambda all_x: [all_x.reshape(-1, all_x.shape[2])] * len(all_x),
    ),
    "reduce_scatter": (
        lambda x, on: on.reduce_scatter(x),
        lambda all_x: all_x.sum(0).reshape(len(all_x), -1, all_x.shape[2]),
    ),
    "scatter avg": (
        lambda x, on: on.reduce_scatter(x, op="avg"),
        lambda all_x: all_x.sum(0).reshape(len(all_x), -1, all_x.shape[2]) / len(all_x),
    ),
    "all_to_all": (
        lambda x, on: on.all_to_all(x),
        exchanged,
    ),
    "broadcast": (
        lambda x, on: on.broadcast(x, root=1),
        lambda all_x: [all_x[1]] * len(all_x),
    ),
    "reduce": (
        lambda x, on: on.reduce(x, root=1),
        lambda all_x: [all_x.sum(0) * (rank == 1) for rank in range(len(all_x))],
    ),
}


def on_group(group):
    """The functions of symm.jax, on this group."""
    import symm.jax as module

    names = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
    return SimpleNamespace(**{name: partial(getattr(module, name), group=group) for name in names})


def operands(group):
    """All ranks' operands, stacked; in NumPy, since JAX compiles each operation that it meets."""
    numbers = np.arange(group.size**2 * 2 * 4, dtype=np.float32) % 11
    return numbers.reshape(group.size, -1, 4) * 6


def check_collective(name, on, rank, all_x):
    """The results of a collective, its gradient and its batches."""
    import jax

    apply, expect = COLLECTIVES[name]
    expected = expect(all_x)
    x = jax.numpy.asarray(all_x[rank])

    def collective(x):
        return apply(x, on)

    assert (collective(x) == expected[rank]).all(), name
    assert (jax.jit(collective)(x) == expected[rank]).all(), name

    weights = [
        np.float32(1 + index + np.arange(one.size).reshape(one.shape) % 3)
        for index, one in enumerate(expected)
    ]

    def loss_of_all(all_x):
        weighted = zip(expect(all_x), weights, strict=True)
        return sum((one * weight).sum() for one, weight in weighted)

    def loss(x):
        return (collective(x) * weights[rank]).sum()

    gradient = jax.jit(jax.grad(loss))(x)
    expected_gradient = jax.jit(jax.grad(loss_of_all))(all_x)[rank]
    assert jax.numpy.allclose(gradient, expected_gradient, rtol=1e-6), name

    batched = jax.vmap(collective, in_axes=1, out_axes=1)(np.stack([x, 2 * x], 1))
    assert (batched[:, 1] == 2 * expected[rank]).all(), name


def check_order(group, on, all_x):
    """Calls that only the order of the program connects; another order would be a mismatch."""
    import jax

    x = jax.numpy.asarray(all_x[group.rank])
    total = all_x.sum(0)

    def many_calls(x):
        return [on.all_reduce(x[: 1 + 5 * i % 7]) for i in range(24)] + [on.all_gather(x)]

    compiled = jax.jit(many_calls)
    for _ in range(20):
        assert all((one == total[: len(one)]).all() for one in compiled(x)[:-1])

    def loop(x):
        return jax.lax.scan(lambda carry, _: (on.all_reduce(carry), None), x, None, length=3)[0]

    assert (jax.jit(loop)(x) == total * group.size**2).all()


def check_types(group, on):
    import jax.numpy as jnp

    for name in ("bfloat16", "int8", "uint32", "bool", "float8_e4m3fn"):
        of_rank = [jnp.full((3, 5), rank, name) for rank in range(group.size)]
        assert (on.all_gather(of_rank[group.rank]) == jnp.concatenate(of_rank)).all(), name


def check_meshes(on, x, total):
    """A mesh of one device works, one of several is refused."""
    import jax

    spec = jax.sharding.PartitionSpec("a")
    for devices in (list(x.devices()), jax.devices()):
        mesh = jax.sharding.Mesh(devices, ("a",))
        summed = jax.jit(jax.shard_map(on.all_reduce, mesh=mesh, in_specs=spec, out_specs=spec))
        if len(devices) == 1:
            assert (summed(x) == total).all()
        else:
            sharded = jax.device_put(x, jax.sharding.NamedSharding(mesh, spec))
            with pytest.raises(ValueError, match="one rank, on one device"):
                summed(sharded)


def check_refusals(on, x):
    import jax

    with pytest.raises(NotImplementedError, match="max has no gradient"):
        jax.grad(lambda x: on.all_reduce(x, op="max").sum())(x)
    for wrong, message in (
        (x.astype(jax.numpy.float8_e4m3b11fnuz), "float8_e4m3b11fnuz"),
        (x[1:], "cannot be divided"),
        (x[0, 0], "no dimension"),
    ):
        with pytest.raises(symm.InvalidArgumentError, match=message):
            on.reduce_scatter(wrong)

    # A program for a device that the group is not on, as where JAX finds a GPU by itself.
    (device,) = x.devices()
    other, remedy = ("cpu", "host") if device.platform != "cpu" else ("cuda", "cuda")
    with pytest.raises(symm.InvalidArgumentError, match=f'backend="{remedy}"'):
        jax.jit(on.all_reduce).trace(x).lower(lowering_platforms=(other,))


def check(group):
    """All checks, on a group of any back end and on JAX's default device."""
    import jax

    on = on_group(group)
    all_x = operands(group)
    x = jax.numpy.asarray(all_x[group.rank])
    for name in COLLECTIVES:
        check_collective(name, on, group.rank, all_x)
    check_order(group, on, all_x)
    check_types(group, on)
    check_meshes(on, x, all_x.sum(0))
    check_refusals(on, x)


def test_collectives_work_in_programs_of_jax_on_the_host(launch, monkeypatch):
    # JAX is not imported here, because other tests fork this process.
    importlib.util.find_spec("jax") or pytest.skip("no JAX here: bindings/python/dev setup")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    for status, output in launch(SIZE, sys.executable, str(Path(__file__))):
        assert status == 0, output


def stale():
    """Programs that were compiled for a group that was closed, while there are other groups."""
    import jax

    group = symm.Group.from_env(backend="host", timeout=60)
    x = jax.numpy.full(1 << 16, 1.0 + group.rank)
    alone = group.split(group.rank)
    on_alone = on_group(alone)
    gather = jax.jit(on_alone.all_gather)
    assert (gather(x) == x).all()
    alone.close()
    both = group.split(0)  # may have the place of `alone`, and a result of twice the size
    with pytest.raises(jax.errors.JaxRuntimeError, match="group: "):
        gather(x)

    reduce = jax.jit(on_group(both).all_reduce)
    assert (reduce(x) == sum(range(1, group.size + 1))).all()
    both.close()
    alone = group.split(group.rank)
    with pytest.raises(jax.errors.JaxRuntimeError, match="group: "):
        reduce(x)
    assert (jax.jit(on_group(alone).all_reduce)(x) == x).all()
    group.finalize()


def test_a_compiled_program_knows_its_own_group_only(launch, monkeypatch):
    importlib.util.find_spec("jax") or pytest.skip("no JAX here: bindings/python/dev setup")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    for status, output in launch(2, sys.executable, str(Path(__file__)), "stale"):
        assert status == 0, output


def raise_an_error():
    raise ValueError("of this rank alone")


MANNERS = {
    "raise": (raise_an_error, 1),
    "exit": (lambda: os._exit(3), 3),
    "sys.exit": (lambda: sys.exit(3), 3),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), -9),
}


def steps_of_jit(jax, on):
    step = jax.jit(on.all_reduce)
    return lambda: step(jax.numpy.ones(8)).block_until_ready()


def steps_of_grad(jax, on):
    step = jax.jit(jax.grad(lambda x: (on.all_reduce(x) ** 2).sum()))
    return lambda: step(jax.numpy.ones(8)).block_until_ready()


def steps_of_scan(jax, on):
    def body(x, _):
        return on.all_reduce(x) / 2, None

    step = jax.jit(lambda x: jax.lax.scan(body, x, None, length=4)[0])
    return lambda: step(jax.numpy.ones(8)).block_until_ready()


def steps_of_calls_one_by_one(jax, on):
    return lambda: on.all_gather(jax.numpy.ones(8)).block_until_ready()


DOORS = {
    "jit": steps_of_jit,
    "grad": steps_of_grad,
    "scan": steps_of_scan,
    "calls one by one": steps_of_calls_one_by_one,
}
# Each door in each manner; of most manners a sample, unless `./dev doors` asks for all.
DEATHS = [
    (door, manner)
    for door in DOORS
    for manner in MANNERS
    if door == "jit" or manner == "kill" or "SYMM_TEST_DOORS" in os.environ
]


def death(door, manner):
    import jax

    def go_on():
        while True:
            step()

    with symm.Group.from_env(backend="host", timeout=60) as group:
        step = DOORS[door](jax, on_group(group))
        for _ in range(3):
            step()
        if group.rank == 1:
            MANNERS[manner][0]()
        with pytest.raises(jax.errors.JaxRuntimeError, match="rank 1"):
            go_on()
        print("rank 0 heard of it", flush=True)
        group.close()


@pytest.mark.parametrize(("door", "manner"), DEATHS)
def test_a_rank_that_ends_is_named_by_the_other_one(door, manner, launch, monkeypatch):
    importlib.util.find_spec("jax") or pytest.skip("no JAX here: bindings/python/dev setup")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    command = (sys.executable, str(Path(__file__)), "death", door, manner)
    (status, output), (other_status, other_output) = launch(2, *command)
    assert status == 0, output
    assert "rank 0 heard of it" in output
    assert other_status == MANNERS[manner][1], other_output


def main():
    import jax

    with symm.Group.from_env(backend="host", timeout=60) as group:
        check(group)
        with pytest.raises(jax.errors.JaxRuntimeError, match="rank 0 makes allreduce"):
            on_group(group).all_reduce(jax.numpy.ones(3 + group.rank))
        group.close()
    with pytest.raises(jax.errors.JaxRuntimeError, match="group: "):
        on_group(group).all_reduce(jax.numpy.ones(3))


if __name__ == "__main__":
    chapter, *arguments = sys.argv[1:] or ["main"]
    globals()[chapter](*arguments)
