"""Packages that see the memory on the host, where they are installed. tests/test_gpu.py has them on GPUs."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

import symm

TYPES = ["f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i16", "u16", "bool", "i32"]


@pytest.mark.parametrize("dtype", TYPES)
def test_jax(alone, dtype):
    jnp = pytest.importorskip("jax.numpy")
    array = alone.empty((8, 16), dtype)
    seen = jnp.from_dlpack(array)
    assert (seen.unsafe_buffer_pointer(), seen.shape, seen.dtype) == (array.pointer, (8, 16), array.dtype.long_name)
    given = jnp.ones((8, 16), array.dtype.long_name)
    alone.allreduce(given, array)
    assert (array.numpy().astype(np.float32) == 1).all()
    with pytest.raises(symm.InvalidArgumentError, match="read-only"):
        alone.allreduce(given)


@pytest.mark.parametrize("dtype", TYPES)
def test_torch(alone, dtype):
    torch = pytest.importorskip("torch")
    array = alone.empty((8, 16), dtype)
    seen = array.torch()
    kind = getattr(torch, array.dtype.long_name)
    assert (seen.data_ptr(), tuple(seen.shape), seen.dtype) == (array.pointer, (8, 16), kind)
    given = torch.ones(8, 16).to(kind)
    alone.allreduce(given, array)
    assert (seen.float() == 1).all().item()
    alone.allreduce(array, given)
    assert (given.float() == 1).all().item()


MPI_PROGRAM = """
import symm
with symm.Group.from_mpi(backend="host", create_timeout=20) as group:
    array = group.empty(4)
    array.fill(1)
    group.allreduce(array)
    assert (memoryview(array).tolist(), group.size) == ([2.0] * 4, 2)
"""


def test_mpi4py():
    pytest.importorskip("mpi4py")
    mpirun = shutil.which("mpirun") or pytest.skip("no mpirun")
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version or "OpenRTE" in version else []
    command = [mpirun, *options, "-n", "2", sys.executable, "-c", MPI_PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
