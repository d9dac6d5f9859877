# SPDX-License-Identifier: Apache-2.0
"""What native/raw.i makes of symm.h. tests/test_raw.py compares this file with the extension."""

from collections.abc import Sequence
from typing import Any

_Address = int | None
_Options = tuple[int, int] | None

SYMM_VERSION: int
SYMM_VERSION_MAJOR: int
SYMM_VERSION_MINOR: int
SYMM_VERSION_PATCH: int
SYMM_OK: int
SYMM_ERR_INVALID_ARGUMENT: int
SYMM_ERR_INVALID_HANDLE: int
SYMM_ERR_OUT_OF_MEMORY: int
SYMM_ERR_UNAVAILABLE: int
SYMM_ERR_UNSUPPORTED: int
SYMM_ERR_TIMEOUT: int
SYMM_ERR_ABORTED: int
SYMM_ERR_PEER_FAILED: int
SYMM_ERR_MISMATCH: int
SYMM_ERR_SYSTEM: int
SYMM_ERR_CUDA: int
SYMM_ERR_BUSY: int
SYMM_ERR_INTERNAL: int
SYMM_DTYPE_I8: int
SYMM_DTYPE_I32: int
SYMM_DTYPE_I64: int
SYMM_DTYPE_U8: int
SYMM_DTYPE_U32: int
SYMM_DTYPE_U64: int
SYMM_DTYPE_F16: int
SYMM_DTYPE_F32: int
SYMM_DTYPE_F64: int
SYMM_DTYPE_BF16: int
SYMM_DTYPE_F8E4M3: int
SYMM_DTYPE_F8E5M2: int
SYMM_OP_SUM: int
SYMM_OP_AVG: int
SYMM_OP_MIN: int
SYMM_OP_MAX: int
SYMM_OP_PROD: int
SYMM_BACKEND_AUTO: int
SYMM_BACKEND_HOST: int
SYMM_BACKEND_CUDA: int
SYMM_COLLECTIVE_ALLREDUCE: int
SYMM_COLLECTIVE_REDUCE_SCATTER: int
SYMM_COLLECTIVE_ALLGATHER: int
SYMM_COLLECTIVE_BROADCAST: int
SYMM_COLLECTIVE_REDUCE: int
SYMM_COLLECTIVE_ALLTOALL: int
SYMM_ALGORITHM_AUTO: int
SYMM_ALGORITHM_LL: int
SYMM_ALGORITHM_ONE_SHOT: int
SYMM_ALGORITHM_TWO_SHOT: int
SYMM_ALGORITHM_TWO_SHOT_STAGED: int
SYMM_ALGORITHM_HYBRID_CUBE_MESH: int
SYMM_TOPOLOGY_UNKNOWN: int
SYMM_TOPOLOGY_FULLY_CONNECTED: int
SYMM_TOPOLOGY_HYBRID_CUBE_MESH: int
SYMM_LOG_ERROR: int
SYMM_LOG_WARNING: int
SYMM_LOG_INFO: int
SYMM_LOG_DEBUG: int
SYMM_DEVICE_AUTO: int
SYMM_GROUP_OVERLAPPING_DEVICES: int
SYMM_GROUP_CHECK: int

def symm_version() -> int: ...
def symm_build_info() -> str: ...
def symm_status_string(status: int) -> str: ...
def symm_last_error() -> str: ...
def symm_set_log_callback(descriptor: int, level: int) -> None: ...
def symm_dtype_size(dtype: int) -> int: ...
def symm_device_count(backend: int) -> int: ...
def symm_device_info(backend: int, device: int) -> dict[str, Any]: ...
def symm_topology(backend: int, capacity: int) -> tuple[int, list[int]]: ...
def symm_group_create(config: tuple[Any, ...]) -> int: ...
def symm_group_split(group: _Address, color: int, key: int) -> int: ...
def symm_group_rank(group: _Address) -> int: ...
def symm_group_size(group: _Address) -> int: ...
def symm_group_info(group: _Address) -> dict[str, Any]: ...
def symm_group_status(group: _Address) -> dict[str, Any]: ...
def symm_group_abort(group: _Address, reason: str | None) -> None: ...
def symm_group_finalize(group: _Address, timeout_ms: int) -> None: ...
def symm_group_retain(group: _Address) -> None: ...
def symm_group_release(group: _Address) -> None: ...
def symm_alloc(group: _Address, size: int, flags: int) -> int: ...
def symm_buffer_pointer(buffer: _Address) -> int: ...
def symm_buffer_size(buffer: _Address) -> int: ...
def symm_buffer_retain(buffer: _Address) -> None: ...
def symm_buffer_release(buffer: _Address) -> None: ...
def symm_rendezvous(group: _Address, buffer: _Address, tag: int) -> int: ...
def symm_memory_info(memory: _Address) -> dict[str, Any]: ...
def symm_memory_pointer(memory: _Address, rank: int) -> int: ...
def symm_memory_signal_pad(memory: _Address, rank: int) -> int: ...
def symm_memory_pointer_table(memory: _Address) -> int: ...
def symm_memory_signal_pad_table(memory: _Address) -> int: ...
def symm_memory_find(group: _Address, address: _Address) -> tuple[int, int, int]: ...
def symm_memory_retain(memory: _Address) -> None: ...
def symm_memory_release(memory: _Address) -> None: ...
def symm_barrier(group: _Address, ranks: Sequence[int] | None, channel: int, timeout_ms: int, stream: _Address) -> None: ...
def symm_put_signal(memory: _Address, rank: int, channel: int, stream: _Address) -> None: ...
def symm_wait_signal(memory: _Address, rank: int, channel: int, timeout_ms: int, stream: _Address) -> None: ...
def symm_put(memory: _Address, rank: int, offset: int, source: _Address, size: int, stream: _Address) -> None: ...
def symm_get(memory: _Address, rank: int, offset: int, destination: _Address, size: int, stream: _Address) -> None: ...
def symm_put_with_signal(
    memory: _Address, rank: int, offset: int, source: _Address, size: int, channel: int, stream: _Address
) -> None: ...
def symm_fill32(memory: _Address, rank: int, offset: int, value: int, count: int, stream: _Address) -> None: ...
def symm_write_value32(memory: _Address, rank: int, offset: int, value: int, stream: _Address) -> None: ...
def symm_allreduce(
    group: _Address,
    send: _Address,
    recv: _Address,
    count: int,
    dtype: int,
    op: int,
    options: _Options,
    stream: _Address,
) -> None: ...
def symm_reduce_scatter(
    group: _Address,
    send: _Address,
    recv: _Address,
    recv_count: int,
    dtype: int,
    op: int,
    options: _Options,
    stream: _Address,
) -> None: ...
def symm_allgather(
    group: _Address, send: _Address, recv: _Address, send_count: int, dtype: int, options: _Options, stream: _Address
) -> None: ...
def symm_broadcast(
    group: _Address,
    send: _Address,
    recv: _Address,
    count: int,
    dtype: int,
    root: int,
    options: _Options,
    stream: _Address,
) -> None: ...
def symm_reduce(
    group: _Address,
    send: _Address,
    recv: _Address,
    count: int,
    dtype: int,
    op: int,
    root: int,
    options: _Options,
    stream: _Address,
) -> None: ...
def symm_alltoall(
    group: _Address, send: _Address, recv: _Address, count: int, dtype: int, options: _Options, stream: _Address
) -> None: ...
def symm_collective_plan(
    group: _Address,
    collective: int,
    send: _Address,
    recv: _Address,
    count: int,
    dtype: int,
    op: int,
    options: _Options,
) -> dict[str, Any]: ...
def set_error_factory(factory: Any) -> None: ...
def dlpack_read(capsule: object) -> tuple[int, int, int, int, int, bool, bool, tuple[int, ...]]: ...
def dlpack_make(
    owner: object, address: int, dtype: int, shape: tuple[int, ...], device_type: int, device_id: int, versioned: int
) -> object: ...
def make_exporter_type() -> type: ...
