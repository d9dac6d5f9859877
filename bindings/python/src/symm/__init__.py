# SPDX-License-Identifier: Apache-2.0
"""symm: symmetric memory for any language.

Ranks form a `Group`, allocate a block of the same size each, and from then on every rank can load from and store to every other
rank's block. Collectives run on that memory. ::

    import symm

    with symm.Group.from_env() as group:
        a = group.empty(1024, "f32")  # collective; a.peer(r) is rank r's
        a.numpy()[:] = group.rank
        group.allreduce(a)

In the docstrings, [local] calls involve this rank only, [collective] ones must be made by every rank; [blocking] ones return
when the work is done, [stream] ones are ordered on a CUDA stream, and blocking on the host. Time-outs are in seconds, sizes in
bytes where the name says so, else in elements.
"""

from symm._generated import DeviceInfo, GroupInfo, ImportInfo, IpcReport, IpcStats, MemoryInfo, Plan
from symm._library import version
from symm.array import SymmArray
from symm.devices import Topology, build_info, device_count, device_info, topology
from symm.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, i64, u8, u32, u64
from symm.enums import Algorithm, Backend, Collective, Op, Status, TopologyClass
from symm.errors import (
    AbortedError,
    BusyError,
    CudaError,
    DeadlineError,
    InternalError,
    InvalidArgumentError,
    InvalidHandleError,
    MismatchError,
    OutOfMemoryError,
    PeerFailedError,
    SymmError,
    SystemCallError,
    UnavailableError,
    UnsupportedError,
)
from symm.group import Group, GroupStatus
from symm.ipc import ImportedArray, import_token, ipc_collect, ipc_stats
from symm.logs import log_to
from symm.memory import Buffer, Memory

__version__ = "0.1.0"

__all__ = [
    "AbortedError",
    "Algorithm",
    "Backend",
    "Buffer",
    "BusyError",
    "Collective",
    "CudaError",
    "DType",
    "DeadlineError",
    "DeviceInfo",
    "Group",
    "GroupInfo",
    "GroupStatus",
    "ImportInfo",
    "ImportedArray",
    "InternalError",
    "InvalidArgumentError",
    "InvalidHandleError",
    "IpcReport",
    "IpcStats",
    "Memory",
    "MemoryInfo",
    "MismatchError",
    "Op",
    "OutOfMemoryError",
    "PeerFailedError",
    "Plan",
    "Status",
    "SymmArray",
    "SymmError",
    "SystemCallError",
    "Topology",
    "TopologyClass",
    "UnavailableError",
    "UnsupportedError",
    "bf16",
    "build_info",
    "device_count",
    "device_info",
    "f8e4m3",
    "f8e5m2",
    "f16",
    "f32",
    "f64",
    "i8",
    "i32",
    "i64",
    "import_token",
    "ipc_collect",
    "ipc_stats",
    "log_to",
    "topology",
    "u8",
    "u32",
    "u64",
    "version",
]
