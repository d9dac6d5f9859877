"""symm: symmetric memory for any language.

Ranks form a `Group` and allocate a block of the same size each. From then on every rank can
load from and store to every other rank's block. Collectives run on that memory. ::

    import symm

    with symm.Group.from_env() as group:
        a = group.empty(1024, "f32")  # collective; a.peer(r) is rank r's
        a.numpy()[:] = group.rank
        group.allreduce(a)

Tags in the docstrings:

- [local]: the call involves this rank only.
- [collective]: every rank of the group must make the call.
- [blocking]: the call returns when the work is done.
- [stream]: the work is ordered on a CUDA stream; on the host the call is blocking.

Time-outs are in seconds: None is the default, ``math.inf`` waits for ever, and 0 looks once without
waiting. Sizes are in bytes where the name says so (`nbytes`), else in elements.
"""

from types import ModuleType as _Module

from symm._generated import (
    AlgorithmStats as AlgorithmStats,
    BufferInfo as BufferInfo,
    CollectiveStats as CollectiveStats,
    DeviceInfo as DeviceInfo,
    GroupStats as GroupStats,
    HeapInfo as HeapInfo,
    ImportInfo as ImportInfo,
    IpcCollectStats as IpcCollectStats,
    IpcHolders as IpcHolders,
    IpcStats as IpcStats,
    MemoryInfo as MemoryInfo,
    PeerInfo as PeerInfo,
    Plan as Plan,
    RequestInfo as RequestInfo,
)
from symm._library import version as version
from symm._pieces import Rows as Rows
from symm._view import Array as Array
from symm.array import SymmArray as SymmArray
from symm.collectives import Batch as Batch
from symm.devices import (
    Topology as Topology,
    build_info as build_info,
    device_count as device_count,
    device_info as device_info,
    topology as topology,
)
from symm.dtypes import (
    DType as DType,
    bf16 as bf16,
    bool_ as bool_,
    c64 as c64,
    c128 as c128,
    f8e4m3 as f8e4m3,
    f8e5m2 as f8e5m2,
    f16 as f16,
    f32 as f32,
    f32_i32 as f32_i32,
    f64 as f64,
    f64_i64 as f64_i64,
    i8 as i8,
    i16 as i16,
    i32 as i32,
    i32_i32 as i32_i32,
    i64 as i64,
    i64_i64 as i64_i64,
    u8 as u8,
    u16 as u16,
    u32 as u32,
    u64 as u64,
)
from symm.enums import (
    Advice as Advice,
    Algorithm as Algorithm,
    AtomicOp as AtomicOp,
    Backend as Backend,
    BufferFlag as BufferFlag,
    Collective as Collective,
    Compare as Compare,
    GroupFlag as GroupFlag,
    Locality as Locality,
    Op as Op,
    Order as Order,
    Scale as Scale,
    SignalOp as SignalOp,
    Status as Status,
    TopologyClass as TopologyClass,
)
from symm.errors import (
    AbortedError as AbortedError,
    CudaError as CudaError,
    Failure as Failure,
    InternalError as InternalError,
    InvalidArgumentError as InvalidArgumentError,
    InvalidHandleError as InvalidHandleError,
    MismatchError as MismatchError,
    NotFoundError as NotFoundError,
    OutOfMemoryError as OutOfMemoryError,
    PeerFailedError as PeerFailedError,
    SymmError as SymmError,
    SystemCallError as SystemCallError,
    TimeoutError as TimeoutError,  # noqa: A004 - it is one of Python's, too
    UnavailableError as UnavailableError,
    UnsupportedError as UnsupportedError,
)
from symm.exchange import Exchange as Exchange, Neighbor as Neighbor
from symm.group import Group as Group, GroupInfo as GroupInfo, unique_id as unique_id
from symm.heap import Heap as Heap
from symm.ipc import (
    Bundle as Bundle,
    ImportedArray as ImportedArray,
    import_bundle as import_bundle,
    import_token as import_token,
    ipc_collect as ipc_collect,
    ipc_export as ipc_export,
    ipc_export_bundle as ipc_export_bundle,
    ipc_fence as ipc_fence,
    ipc_holders as ipc_holders,
    ipc_lookup as ipc_lookup,
    ipc_publish as ipc_publish,
    ipc_stats as ipc_stats,
    ipc_wait_value as ipc_wait_value,
    ipc_withdraw as ipc_withdraw,
    ipc_withdraw_version as ipc_withdraw_version,
)
from symm.logs import log_to as log_to
from symm.memory import (
    Buffer as Buffer,
    Memory as Memory,
    SignalWait as SignalWait,
    find_buffer as find_buffer,
)
from symm.messages import Recv as Recv, Send as Send
from symm.pressure import (
    MemoryPressureListener as MemoryPressureListener,
    on_memory_pressure as on_memory_pressure,
)
from symm.requests import Request as Request, start as start, wait_any as wait_any

__version__ = "0.2.0"
# The public names are the imports above, without the modules that they come from.
__all__ = sorted(
    name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _Module)
)
