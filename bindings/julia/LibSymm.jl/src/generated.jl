# Generated from symm.h by bindings/generator. Do not edit: `bindings/generator/generate.py write`
# writes it, a test compares.
#
# Every name and every meaning is the header's, which says at length what is here in a sentence.
# `@call` and `@waiting` are in call.jl.

"""Major version of this header."""
const SYMM_VERSION_MAJOR = Int32(0)
"""Minor version of this header."""
const SYMM_VERSION_MINOR = Int32(2)
"""Patch version of this header."""
const SYMM_VERSION_PATCH = Int32(0)
"""
Version of this header: major << 24 | minor << 12 | patch. symm_version() compares to it.
"""
const SYMM_VERSION = Int32(8192)
"""No deadline."""
const SYMM_TIMEOUT_INFINITE = UInt64(0xffffffffffffffff)
"""
Look once instead of waiting. The call succeeds if nothing is missing. Otherwise it returns
TIMEOUT, has taken nothing and has revoked nothing. Accepted by symm_barrier() and the waits
for signals and words of a host group, by symm_group_synchronize(), symm_ipc_import() and
symm_ipc_withdraw(), and by all calls that never wait, to which it says nothing. A call that
is ordered on a CUDA stream and waits, or that needs the other ranks to act, returns
INVALID_ARGUMENT; so do signals, copies and stores to the block of a rank, which wait when
that rank is on another machine.
"""
const SYMM_TIMEOUT_NOW = UInt64(0xfffffffffffffffe)
"""No unique id has more bytes, so that it fits where an ncclUniqueId travels."""
const SYMM_UNIQUE_ID_MAX_BYTES = Int32(128)
"""No ticket has more bytes."""
const SYMM_TICKET_MAX_BYTES = Int32(512)
"""
Layout of pads and counts in a symm_memory_view_t: uint64_t[channel][source]. Another number
is another layout.
"""
const SYMM_MEMORY_VIEW_LAYOUT = Int32(1)
"""All streams. Accepted where a parameter says so, cast to void * by way of uintptr_t."""
const SYMM_ALL_STREAMS = UInt64(0xffffffffffffffff)
"""Keep the contents in memory of the host: for symm_buffer_suspend()."""
const SYMM_SUSPEND_KEEP = UInt64(0x1)
"""Longest token in bytes."""
const SYMM_IPC_TOKEN_MAX_BYTES = Int32(512)
"""Most channels of a token."""
const SYMM_IPC_CHANNELS_MAX = Int32(4096)
"""Longest name of a piece, or of a version, in bytes."""
const SYMM_IPC_NAME_MAX_BYTES = Int32(1000)
"""Most bytes that say what a piece is."""
const SYMM_IPC_ABOUT_MAX_BYTES = Int32(4096)
"""Most pieces of a bundle."""
const SYMM_IPC_BUNDLE_MAX_PIECES = Int32(1048576)
"""
Major version of this header. It changes where a compiled program would no longer work.
"""
const SYMM_FUSED_VERSION_MAJOR = Int32(1)
"""Minor version of this header. It changes where something was added."""
const SYMM_FUSED_VERSION_MINOR = Int32(0)
"""Version of this header, major << 16 | minor. Compare it with symm_fused_version()."""
const SYMM_FUSED_VERSION = Int32(65536)

"""Result of a call. Values are fixed for ever; new ones may be added."""
@enum symm_status_t::Int32 begin
    SYMM_OK = 0
    SYMM_ERR_INVALID_ARGUMENT = -1
    SYMM_ERR_INVALID_HANDLE = -2
    SYMM_ERR_OUT_OF_MEMORY = -3
    SYMM_ERR_UNAVAILABLE = -4
    SYMM_ERR_UNSUPPORTED = -5
    SYMM_ERR_TIMEOUT = -6
    SYMM_ERR_ABORTED = -7
    SYMM_ERR_PEER_FAILED = -8
    SYMM_ERR_MISMATCH = -9
    SYMM_ERR_SYSTEM = -10
    SYMM_ERR_CUDA = -11
    SYMM_ERR_INTERNAL = -13
    SYMM_ERR_NOT_FOUND = -14
end

"""
Data type. The value is (DLPack type code) << 8 | bits, one lane. DLPack has no pairs: the
code of a pair is 0x80 | (DLPack type code of its value), and its bits are those of both
parts.
"""
const symm_dtype_t = Int32

const SYMM_DTYPE_I8 = symm_dtype_t(8)
const SYMM_DTYPE_I16 = symm_dtype_t(16)
const SYMM_DTYPE_I32 = symm_dtype_t(32)
const SYMM_DTYPE_I64 = symm_dtype_t(64)
const SYMM_DTYPE_U8 = symm_dtype_t(264)
const SYMM_DTYPE_U16 = symm_dtype_t(272)
const SYMM_DTYPE_U32 = symm_dtype_t(288)
const SYMM_DTYPE_U64 = symm_dtype_t(320)
const SYMM_DTYPE_F16 = symm_dtype_t(528)
const SYMM_DTYPE_F32 = symm_dtype_t(544)
const SYMM_DTYPE_F64 = symm_dtype_t(576)
const SYMM_DTYPE_BF16 = symm_dtype_t(1040)
const SYMM_DTYPE_BOOL = symm_dtype_t(1544)
const SYMM_DTYPE_F8E4M3 = symm_dtype_t(2568)
const SYMM_DTYPE_F8E5M2 = symm_dtype_t(3080)
const SYMM_DTYPE_C64 = symm_dtype_t(1344)
const SYMM_DTYPE_C128 = symm_dtype_t(1408)
const SYMM_DTYPE_I32_I32 = symm_dtype_t(32832)
const SYMM_DTYPE_I64_I64 = symm_dtype_t(32896)
const SYMM_DTYPE_F32_I32 = symm_dtype_t(33344)
const SYMM_DTYPE_F64_I64 = symm_dtype_t(33408)

"""
Reduction operation. Ranks are combined in the order 0, 1, ..., size-1, on every rank and by
every algorithm, so the result has the same bits everywhere; symm_algorithm_t names the
exceptions. F16, BF16 and F8 are combined in f32 and rounded once, to nearest even. An
infinite operand gives what it gives in f32, infinity or NaN, in groups of every size; F8
saturates where all operands are finite (and with a factor, what is rounded at the end), and
only there. MIN and MAX return the bits of an operand, and NaN if any operand is NaN. The
payload of a NaN result is unspecified. Integers wrap. AVG is the sum divided by the number
of ranks, for integers truncated towards zero. For BOOL, SUM and MAX are "or", MIN and PROD
are "and", and AVG is INVALID_ARGUMENT. BAND, BOR and BXOR are "and", "or" and "exclusive
or" of each bit, of integers only: with all other types they are INVALID_ARGUMENT. SUM and
AVG of complex numbers are those of their parts. PROD of a and b is, each product and each
sum of two of them rounded once, (a.real * b.real - a.imag * b.imag, a.real * b.imag +
a.imag * b.real), also where that is NaN and the product of C, which looks for infinities,
is not. All other operations of them are INVALID_ARGUMENT, and so are a factor and a
result_dtype. MINLOC and MAXLOC are of pairs of a value and an index, and pairs have no
other operation: everything else is INVALID_ARGUMENT. The result is the pair with the least
or the greatest value, of equal values the pair with the lowest index; it has the bits of an
operand. A value that is NaN is ahead of all that are not; the lowest index decides between
several. -0.0 and +0.0 are equal. An index is signed; the caller chooses what it says, for
instance where the value lies among all ranks' values. Results do not depend on the order of
ranks.
"""
const symm_op_t = Int32

const SYMM_OP_SUM = symm_op_t(0)
const SYMM_OP_AVG = symm_op_t(1)
const SYMM_OP_MIN = symm_op_t(2)
const SYMM_OP_MAX = symm_op_t(3)
const SYMM_OP_PROD = symm_op_t(4)
const SYMM_OP_BAND = symm_op_t(5)
const SYMM_OP_BOR = symm_op_t(6)
const SYMM_OP_BXOR = symm_op_t(7)
const SYMM_OP_MINLOC = symm_op_t(8)
const SYMM_OP_MAXLOC = symm_op_t(9)

"""Where a factor is multiplied in; see symm_collective_options_t."""
const symm_scale_t = Int32

const SYMM_SCALE_NONE = symm_scale_t(0)
const SYMM_SCALE_BEFORE = symm_scale_t(1)
const SYMM_SCALE_AFTER = symm_scale_t(2)

"""
The order in which a collective combines the floats of the ranks; see the introduction of
the chapter on collectives. Minima, maxima, and operations of integers and BOOL are the same
in any order.
"""
const symm_order_t = Int32

const SYMM_ORDER_GROUP = symm_order_t(0)
const SYMM_ORDER_RANKS = symm_order_t(1)
const SYMM_ORDER_TREE = symm_order_t(2)
const SYMM_ORDER_ANY = symm_order_t(3)

"""What memory a group works on."""
const symm_backend_t = Int32

const SYMM_BACKEND_AUTO = symm_backend_t(0)
const SYMM_BACKEND_HOST = symm_backend_t(1)
const SYMM_BACKEND_CUDA = symm_backend_t(2)

"""Collective operation, for symm_collective_plan() and symm_group_collective_stats()."""
const symm_collective_t = Int32

const SYMM_COLLECTIVE_ALLREDUCE = symm_collective_t(0)
const SYMM_COLLECTIVE_REDUCE_SCATTER = symm_collective_t(1)
const SYMM_COLLECTIVE_ALLGATHER = symm_collective_t(2)
const SYMM_COLLECTIVE_BROADCAST = symm_collective_t(3)
const SYMM_COLLECTIVE_REDUCE = symm_collective_t(4)
const SYMM_COLLECTIVE_ALLTOALL = symm_collective_t(5)
const SYMM_COLLECTIVE_ALLGATHERV = symm_collective_t(6)
const SYMM_COLLECTIVE_REDUCE_SCATTERV = symm_collective_t(7)
const SYMM_COLLECTIVE_ALLTOALLV = symm_collective_t(8)
const SYMM_COLLECTIVE_GATHER = symm_collective_t(9)
const SYMM_COLLECTIVE_SCATTER = symm_collective_t(10)
const SYMM_COLLECTIVE_ALLGATHER_ROWS = symm_collective_t(11)
const SYMM_COLLECTIVE_ALLREDUCE_RMSNORM = symm_collective_t(12)
const SYMM_COLLECTIVE_SCAN = symm_collective_t(13)
const SYMM_COLLECTIVE_EXSCAN = symm_collective_t(14)
const SYMM_COLLECTIVE_REDUCE_SCATTER_ROWS = symm_collective_t(15)
const SYMM_COLLECTIVE_GATHERV = symm_collective_t(16)
const SYMM_COLLECTIVE_SCATTERV = symm_collective_t(17)
const SYMM_COLLECTIVE_BROADCAST_BYTES = symm_collective_t(18)

"""
Algorithm of a collective. All algorithms give the same bits, with two exceptions. By
MULTIMEM_ONE_SHOT and MULTIMEM_TWO_SHOT the switch adds, in an order of its own, and
HIERARCHICAL has an order of its own for sums, averages and products of floats. These are
used only where they are asked for.
"""
const symm_algorithm_t = Int32

const SYMM_ALGORITHM_AUTO = symm_algorithm_t(0)
const SYMM_ALGORITHM_LL = symm_algorithm_t(1)
const SYMM_ALGORITHM_ONE_SHOT = symm_algorithm_t(2)
const SYMM_ALGORITHM_TWO_SHOT = symm_algorithm_t(3)
const SYMM_ALGORITHM_TWO_SHOT_STAGED = symm_algorithm_t(4)
const SYMM_ALGORITHM_HYBRID_CUBE_MESH = symm_algorithm_t(5)
const SYMM_ALGORITHM_MULTIMEM_ONE_SHOT = symm_algorithm_t(6)
const SYMM_ALGORITHM_MULTIMEM_TWO_SHOT = symm_algorithm_t(7)
const SYMM_ALGORITHM_MARKED = symm_algorithm_t(8)
const SYMM_ALGORITHM_CHAIN = symm_algorithm_t(9)
const SYMM_ALGORITHM_BRUCK = symm_algorithm_t(10)
const SYMM_ALGORITHM_HIERARCHICAL = symm_algorithm_t(11)
const SYMM_ALGORITHM_COPY_ENGINE = symm_algorithm_t(12)

"""What symm_signal_value() does to a word."""
const symm_signal_op_t = Int32

const SYMM_SIGNAL_ADD = symm_signal_op_t(0)
const SYMM_SIGNAL_SET = symm_signal_op_t(1)

"""What symm_atomic32() and symm_atomic64() make of a word and `value`."""
const symm_atomic_op_t = Int32

const SYMM_ATOMIC_FETCH = symm_atomic_op_t(0)
const SYMM_ATOMIC_ADD = symm_atomic_op_t(1)
const SYMM_ATOMIC_AND = symm_atomic_op_t(2)
const SYMM_ATOMIC_OR = symm_atomic_op_t(3)
const SYMM_ATOMIC_XOR = symm_atomic_op_t(4)
const SYMM_ATOMIC_SWAP = symm_atomic_op_t(5)
const SYMM_ATOMIC_COMPARE_SWAP = symm_atomic_op_t(6)

"""What a side of a message does, in symm_messages()."""
const symm_message_kind_t = Int32

const SYMM_MESSAGE_SEND = symm_message_kind_t(0)
const SYMM_MESSAGE_RECV = symm_message_kind_t(1)

"""
How an awaited word, on the left, compares with a value, on the right; both are unsigned.
"""
const symm_compare_t = Int32

const SYMM_COMPARE_EQ = symm_compare_t(0)
const SYMM_COMPARE_NE = symm_compare_t(1)
const SYMM_COMPARE_LT = symm_compare_t(2)
const SYMM_COMPARE_LE = symm_compare_t(3)
const SYMM_COMPARE_GT = symm_compare_t(4)
const SYMM_COMPARE_GE = symm_compare_t(5)

"""How many of the signals of symm_wait_signals() are awaited."""
const symm_wait_mode_t = Int32

const SYMM_WAIT_ALL = symm_wait_mode_t(0)
const SYMM_WAIT_ANY = symm_wait_mode_t(1)

"""Class of the links between devices."""
const symm_topology_class_t = Int32

const SYMM_TOPOLOGY_UNKNOWN = symm_topology_class_t(0)
const SYMM_TOPOLOGY_FULLY_CONNECTED = symm_topology_class_t(1)
const SYMM_TOPOLOGY_HYBRID_CUBE_MESH = symm_topology_class_t(2)

"""Whether another library was measured to be faster for a call."""
const symm_advice_t = Int32

const SYMM_ADVICE_UNMEASURED = symm_advice_t(0)
const SYMM_ADVICE_SYMM = symm_advice_t(1)
const SYMM_ADVICE_NCCL = symm_advice_t(2)

"""Where a rank's memory is, as seen from another rank; the nearest that holds."""
const symm_locality_t = Int32

const SYMM_LOCALITY_UNKNOWN = symm_locality_t(0)
const SYMM_LOCALITY_SAME_DEVICE = symm_locality_t(1)
const SYMM_LOCALITY_NVLINK = symm_locality_t(2)
const SYMM_LOCALITY_SAME_NODE = symm_locality_t(3)
const SYMM_LOCALITY_SAME_MACHINE = symm_locality_t(4)
const SYMM_LOCALITY_OTHER_MACHINE = symm_locality_t(5)

"""Severity of a log message."""
const symm_log_level_t = Int32

const SYMM_LOG_ERROR = symm_log_level_t(1)
const SYMM_LOG_WARNING = symm_log_level_t(2)
const SYMM_LOG_INFO = symm_log_level_t(3)
const SYMM_LOG_DEBUG = symm_log_level_t(4)

"""The places that newcomers take in a group that grows."""
const symm_grow_mode_t = Int32

const SYMM_GROW_FILL_DEAD = symm_grow_mode_t(0)
const SYMM_GROW_APPEND = symm_grow_mode_t(1)
const SYMM_GROW_SPARE = symm_grow_mode_t(2)

"""Which elements share a scale of symm_rmsnorm_call_t."""
const symm_quant_scale_t = Int32

const SYMM_QUANT_SCALE_TENSOR = symm_quant_scale_t(0)
const SYMM_QUANT_SCALE_TOKEN = symm_quant_scale_t(1)
const SYMM_QUANT_SCALE_GROUP = symm_quant_scale_t(2)

# Flags of symm_group_config_t and symm_group_options_t, and of symm_group_info_t.
"""Several ranks may use one CUDA device."""
const SYMM_GROUP_OVERLAPPING_DEVICES = UInt64(0x1)
"""Compare the arguments of every collective on all ranks. As SYMM_CHECK=1."""
const SYMM_GROUP_CHECK = UInt64(0x2)
"""
Give the group's memories multicast addresses where they can be had. As SYMM_MULTICAST=1.
All ranks must ask; see symm_memory_multicast_pointer().
"""
const SYMM_GROUP_MULTICAST = UInt64(0x4)
"""
Groups that are made of this one work in its scratch memory, which they keep alive. The
introduction of this chapter says what this demands of the order of their calls. All ranks
must ask. UNSUPPORTED on the host, where ranks read each other's scratch after a call.
"""
const SYMM_GROUP_SHARED_SCRATCH = UInt64(0x8)
"""
All-reduces may combine floats in an order of their own: between machines HIERARCHICAL is
chosen where it is faster. All ranks still get the same result, and a group of the same
layout gets it again. As SYMM_ORDER=any. All ranks must ask.
"""
const SYMM_GROUP_ANY_ORDER = UInt64(0x10)
"""
A promise by the caller: in each all-reduce, all-gather, all-to-all and broadcast the recvs
of all ranks are private, or lie at the same offset of the same memory, and all ranks are in
place or none is. Large calls then go by SYMM_ALGORITHM_COPY_ENGINE with CUDA. All ranks
must ask.
"""
const SYMM_GROUP_SAME_OFFSETS = UInt64(0x20)
"""
symm_group_config_t.device is the device to use. With SYMM_BACKEND_AUTO the back end is CUDA
then. Not for symm_group_options_t: a group that is made of another uses the device of that.
"""
const SYMM_GROUP_ON_DEVICE = UInt64(0x40)
"""
Combine floats in the order of the ranks, whatever SYMM_ORDER says. The opposite of
SYMM_GROUP_ANY_ORDER and SYMM_GROUP_TREE_ORDER.
"""
const SYMM_GROUP_RANK_ORDER = UInt64(0x80)
"""
Do not compare the arguments of collectives beyond need, whatever SYMM_CHECK says. The
opposite of SYMM_GROUP_CHECK.
"""
const SYMM_GROUP_NO_CHECK = UInt64(0x100)
"""
Give the group's memories no multicast addresses, whatever SYMM_MULTICAST says. The opposite
of SYMM_GROUP_MULTICAST.
"""
const SYMM_GROUP_NO_MULTICAST = UInt64(0x200)
"""
Combine floats as a balanced binary tree of the ranks, so that a sum has the same bits
however many ranks share the work; "Order" in the chapter on collectives says how. As
SYMM_ORDER=tree. All ranks must ask.
"""
const SYMM_GROUP_TREE_ORDER = UInt64(0x400)
"""
The environment variables for this call are those that the library found when it was loaded.
For a group that a thread of another library's own makes, beside which the program may call
setenv(). Not for symm_group_options_t, and not told by symm_group_info().
"""
const SYMM_GROUP_VARIABLES_AT_LOAD = UInt64(0x800)

# Flags of symm_alloc_options_t and symm_heap_options_t.
"""Pinned memory of the host, which devices and the host reach alike."""
const SYMM_ALLOC_HOST = UInt64(0x1)
"""
numa_node is the node that the memory is on. Goes with SYMM_ALLOC_HOST, and alone with the
host back end.
"""
const SYMM_ALLOC_ON_NODE = UInt64(0x2)

# Flags of symm_adopt_options_t.
"""The memory is a piece of a memfd, which `fd` and `offset` name."""
const SYMM_ADOPT_FD = UInt64(0x1)

# Flags of symm_buffer_info_t.
"""Allocated by SYMM_ALLOC_HOST, or for a host group."""
const SYMM_BUFFER_HOST = UInt64(0x1)
"""Made by symm_buffer_adopt()."""
const SYMM_BUFFER_ADOPTED = UInt64(0x2)
"""It has an address and no memory: symm_buffer_suspend()."""
const SYMM_BUFFER_SUSPENDED = UInt64(0x4)

# Flags of symm_pieces_call_t.
"""A signal follows the last piece: channel, op and value count."""
const SYMM_PIECES_SIGNAL = UInt64(0x1)
"""
The list or the tables, and device_count, lie in memory that the device (host back end: the
host) can read, and are read when the call runs, not before. So kernels may write them, and
a captured call takes new ones at each replay. They stay as they are until the call has run.
"""
const SYMM_PIECES_ON_DEVICE = UInt64(0x2)

# Flags of symm_collective_call_t.
"""
An all-to-all with counts is that of symm_alltoallv_device(): send_capacity and
recv_capacity count, and counts and displacements are arrays of uint64_t that are read when
the call runs.
"""
const SYMM_CALL_DEVICE_COUNTS = UInt64(0x1)

# Flags of symm_ipc_export_options_t.
"""Do not keep the memory for this token, whatever \$SYMM_IPC_HOLD_MS says."""
const SYMM_IPC_NO_HOLD = UInt64(0x1)

# Flags of symm_ipc_import_options_t.
"""symm_ipc_import_options_t.device is the device for which to map."""
const SYMM_IPC_ON_DEVICE = UInt64(0x1)
"""
Map the memory for reading only. A store to it faults as one to any memory that may not be
written: by a signal (SIGSEGV) on the host, by an error of the kernel on a GPU. The memory
stays writable for its owner, and for those that import it without this flag.
"""
const SYMM_IPC_READ_ONLY = UInt64(0x2)
"""
In symm_ipc_info_t.flags alone: the exporter lives and has released the memory, or some of
the bundle's, without withdrawing it. The import keeps it.
"""
const SYMM_IPC_RELEASED = UInt64(0x4)
"""
In symm_ipc_info_t.flags alone: it has its addresses and no memory: symm_ipc_suspend().
"""
const SYMM_IPC_SUSPENDED = UInt64(0x8)
"""
In symm_ipc_info_t.flags alone: the memory, or some of the bundle's, is of cudaMalloc, and
symm cannot keep it. It goes when its owner frees it, and when the exporter ends: what is
read there afterwards is undefined. symm_ipc_info_t.exporter_alive tells of the end.
"""
const SYMM_IPC_DIES_WITH_MAKER = UInt64(0x10)

"""Ranks that share memory, deadlines and failures."""
mutable struct symm_group_t end

"""Allocation of one rank."""
mutable struct symm_buffer_t end

"""Buffer after rendezvous: the block of every rank is mapped here."""
mutable struct symm_memory_t end

"""Memory that is handed out in pieces."""
mutable struct symm_heap_t end

"""What neighbours put into each other's blocks in every round."""
mutable struct symm_exchange_t end

"""Call that the library makes while the program goes on."""
mutable struct symm_request_t end

"""Memory of another process, imported by a token."""
mutable struct symm_ipc_t end

"""
Receives log messages, possibly on a thread of the library, and on several threads at once.
It must not call into the library, except for symm_log_remove_listener().
"""
const symm_log_callback_t = Ptr{Cvoid}

"""
Says whether the call that the thread is in shall end: 0 if it shall go on. The callback is
asked inside of the call, so it must not make calls that wait.
"""
const symm_interrupt_callback_t = Ptr{Cvoid}

"""
Gives memory back when symm_alloc() is short of it, from a cache of the program's or the
like. `bytes` is what is wanted on `device` of `backend`. Returns the bytes that it gave
back; 0: none. It is called inside of the call that allocates, on its thread, on several
threads at once if several allocate. It may call the library to release handles, to collect
and to ask, and must not wait for other ranks. What it allocates itself asks no callback.
"""
const symm_memory_pressure_callback_t = Ptr{Cvoid}

"""
Combines operands for symm_reduce_by(): into[i] = into[i] op other[i] for i < count, where
`into` is of lower ranks than `other`. They do not overlap, and are aligned as the elements
are in an array that begins at a multiple of 64 bytes. It returns 0, or a number that says
what has gone wrong: then the group is aborted. It must not leave by an exception or a jump,
and must not make calls of symm.
"""
const symm_combine_callback_t = Ptr{Cvoid}

"""
Everything that is known of one failure. Filled by symm_last_failure(). symm_group_status()
fills one with why a group was revoked. Any call that takes options also writes the failure
of that very call to options.failure, if that is not NULL. The caller must have set its
struct_size. Nothing is written when the call succeeds.
"""
struct symm_failure_t
    struct_size::Csize_t
    status::symm_status_t
    rank::Int32
    pid::Int64
    os_error::Int32
    cuda_result::Int32
    message::NTuple{1024,UInt8}
end

"""Options of one call. NULL means the defaults."""
struct symm_call_options_t
    struct_size::Csize_t
    timeout_ms::UInt64
    failure::Ptr{symm_failure_t}
    request::Ptr{Ptr{symm_request_t}}
end

"""Facts about one device. Filled by symm_device_info()."""
struct symm_device_info_t
    struct_size::Csize_t
    backend::symm_backend_t
    device::Int32
    memory_bytes::UInt64
    compute_units::Int32
    multicast::Int32
    fabric::Int32
    dmabuf::Int32
    name::NTuple{128,UInt8}
    uuid::NTuple{64,UInt8}
    multicast_reason::NTuple{128,UInt8}
    fabric_reason::NTuple{128,UInt8}
    dmabuf_reason::NTuple{128,UInt8}
    host_memory::Int32
    numa_node::Int32
    host_memory_reason::NTuple{128,UInt8}
end

"""
Key-value store of the caller's, by which ranks find each other. The functions are called
only on the thread that is inside symm_group_create(). They return SYMM_OK or an error other
than SYMM_ERR_NOT_FOUND, which then fails the creation. A key is set once. It begins with
symm/ and the name of the group, so a store that serves several creations of one name must
keep them apart itself. A value has at most 65536 bytes.
"""
struct symm_store_t
    struct_size::Csize_t
    user::Ptr{Cvoid}
    set::Ptr{Cvoid}
    get::Ptr{Cvoid}
end

"""How to make a group. NULL means the defaults."""
struct symm_group_config_t
    struct_size::Csize_t
    rank::Int32
    size::Int32
    backend::symm_backend_t
    device::Int32
    flags::UInt64
    bootstrap::Cstring
    store::Ptr{symm_store_t}
    id::Ptr{Cvoid}
    id_bytes::Csize_t
    create_timeout_ms::UInt64
    timeout_ms::UInt64
    name::Cstring
    scratch_bytes::UInt64
    channels::Int32
    failure::Ptr{symm_failure_t}
end

"""
How to make a group of another: by symm_group_split(), symm_group_create_from_ranks(),
symm_group_local() and symm_group_shrink(). NULL means the defaults. The new group inherits
the back end and the device, the flags that are in force (symm_group_info_t.flags),
scratch_bytes, channels and both deadlines of the group that it is made of. The environment
is not asked again. All fields but timeout_ms and failure must be the same on all ranks of
the new group; a difference is MISMATCH.
"""
struct symm_group_options_t
    struct_size::Csize_t
    timeout_ms::UInt64
    failure::Ptr{symm_failure_t}
    name::Cstring
    flags::UInt64
    remove_flags::UInt64
    scratch_bytes::UInt64
    create_timeout_ms::UInt64
    group_timeout_ms::UInt64
    channels::Int32
end

"""For symm_group_invite()."""
struct symm_invite_options_t
    struct_size::Csize_t
    lifetime_ms::UInt64
    failure::Ptr{symm_failure_t}
end

"""For symm_group_grow()."""
struct symm_grow_options_t
    struct_size::Csize_t
    timeout_ms::UInt64
    failure::Ptr{symm_failure_t}
    mode::symm_grow_mode_t
    count::Int32
end

"""Facts about a group. Filled by symm_group_info()."""
struct symm_group_info_t
    struct_size::Csize_t
    rank::Int32
    size::Int32
    backend::symm_backend_t
    device::Int32
    id::UInt64
    flags::UInt64
    create_timeout_ms::UInt64
    timeout_ms::UInt64
    channels::Int32
    unwatched_peers::Int32
    rejected_connections::UInt64
    bootstrap::NTuple{64,UInt8}
    name::NTuple{64,UInt8}
    multicast::Int32
    multicast_reason::NTuple{192,UInt8}
    scratch_bytes::UInt64
    max_ranks::Int32
    max_memories::Int32
    max_channels::Int32
    max_handles::Int32
    max_name_bytes::Int32
    shared_scratch_bytes::UInt64
    machines::Int32
    machine::Int32
    local_rank::Int32
    local_size::Int32
    spares::Int32
    engine::NTuple{64,UInt8}
end

"""Facts about one rank of a group. Filled by symm_group_peer_info()."""
struct symm_group_peer_info_t
    struct_size::Csize_t
    rank::Int32
    backend::symm_backend_t
    device::Int32
    alive::Int32
    pid::Int64
    host::NTuple{64,UInt8}
    machine_name::NTuple{64,UInt8}
    uuid::NTuple{64,UInt8}
    machine::Int32
    mapped::Int32
    numa_node::Int32
    links::Int32
    locality::symm_locality_t
end

"""
Counts of what this rank has done on a group so far. Calls that succeeded are counted,
unless a field says otherwise. Filled by symm_group_stats().
"""
struct symm_group_stats_t
    struct_size::Csize_t
    barriers::UInt64
    signals_sent::UInt64
    signals_taken::UInt64
    failures::UInt64
    sleeps::UInt64
    slept_ns::UInt64
    waits::UInt64
end

"""
Counts of one collective on a group, of calls that succeeded. Filled by
symm_group_collective_stats().
"""
struct symm_collective_stats_t
    struct_size::Csize_t
    calls::UInt64
    bytes::UInt64
end

"""
Counts of one algorithm on a group, of calls that succeeded. Filled by
symm_group_algorithm_stats().
"""
struct symm_algorithm_stats_t
    struct_size::Csize_t
    calls::UInt64
end

"""How to allocate. NULL means the defaults."""
struct symm_alloc_options_t
    struct_size::Csize_t
    flags::UInt64
    numa_node::Int32
    alignment::UInt64
    page_bytes::UInt64
    name::Cstring
    failure::Ptr{symm_failure_t}
end

"""How to adopt. NULL means the defaults."""
struct symm_adopt_options_t
    struct_size::Csize_t
    flags::UInt64
    offset::UInt64
    fd::Int32
    name::Cstring
    failure::Ptr{symm_failure_t}
end

"""Facts about a buffer. Filled by symm_buffer_info()."""
struct symm_buffer_info_t
    struct_size::Csize_t
    backend::symm_backend_t
    device::Int32
    bytes::UInt64
    mapped_bytes::UInt64
    flags::UInt64
    numa_node::Int32
    memories::Int32
    pointer::Ptr{Cvoid}
    page_bytes::UInt64
    name::NTuple{64,UInt8}
end

"""How to meet. NULL means the defaults."""
struct symm_rendezvous_options_t
    struct_size::Csize_t
    tag::UInt64
    timeout_ms::UInt64
    channels::Int32
    failure::Ptr{symm_failure_t}
end

"""Facts about a memory. Filled by symm_memory_info()."""
struct symm_memory_info_t
    struct_size::Csize_t
    rank::Int32
    size::Int32
    bytes::UInt64
    id::UInt64
    channels::Int32
    multicast::Int32
    signal_pad_bytes::UInt64
    multicast_reason::NTuple{192,UInt8}
end

"""
Memory as kernels see it; symm::device::Memory of symm/device.cuh is this struct. All
pointers are device addresses. symm_memory_device_view() fills it.
"""
struct symm_memory_view_t
    struct_size::Csize_t
    layout::UInt32
    rank::Int32
    size::Int32
    channels::Int32
    blocks::Ptr{Ptr{Cvoid}}
    pads::Ptr{Ptr{UInt64}}
    taken::Ptr{UInt64}
    timeout_ns::UInt64
    stop::Ptr{UInt32}
end

"""How to make a heap. NULL means the defaults."""
struct symm_heap_options_t
    struct_size::Csize_t
    flags::UInt64
    numa_node::Int32
    alignment::UInt64
    page_bytes::UInt64
    name::Cstring
    timeout_ms::UInt64
    failure::Ptr{symm_failure_t}
end

"""Facts about a heap. Filled by symm_heap_info()."""
struct symm_heap_info_t
    struct_size::Csize_t
    bytes::UInt64
    used_bytes::UInt64
    peak_bytes::UInt64
    free_bytes::UInt64
    largest_free_bytes::UInt64
    pieces::UInt64
    free_pieces::UInt64
    calls::UInt64
    fragmentation_permille::UInt64
    name::NTuple{64,UInt8}
end

"""
One of the signals that symm_wait_signals() waits for, as the arguments of
symm_wait_signal_value().
"""
struct symm_signal_wait_t
    struct_size::Csize_t
    rank::Int32
    channel::Int32
    compare::symm_compare_t
    value::UInt64
end

"""
A piece of symm_put_pieces() and symm_get_pieces(): rows of equal length, at equal
distances. One side is memory of this process, the other one a block from `offset` on. A
piece has no struct_size and never changes, so that programs can write long lists quickly.
"""
struct symm_piece_t
    from::UInt64
    to::UInt64
    bytes::UInt64
    rows::UInt64
    from_stride::UInt64
    to_stride::UInt64
end

"""
What symm_put_pieces() and symm_get_pieces() copy: the pieces of a list, or pages of one
size, by their numbers. Page n begins n * page_bytes bytes behind the start of its side.
"""
struct symm_pieces_call_t
    struct_size::Csize_t
    pieces::Ptr{symm_piece_t}
    count::Csize_t
    page_bytes::Csize_t
    from_table::Ptr{UInt64}
    to_table::Ptr{UInt64}
    flags::UInt64
    channel::Int32
    op::symm_signal_op_t
    value::UInt64
    device_count::Ptr{UInt64}
end

"""One side of a message, as the arguments of symm_send() or symm_recv()."""
struct symm_message_t
    struct_size::Csize_t
    kind::symm_message_kind_t
    rank::Int32
    channel::Int32
    source::Ptr{Cvoid}
    destination::Ptr{Cvoid}
    bytes::Csize_t
end

"""
What a rank puts to one neighbour in every round. For several memories or sources a
neighbour may have several; it is told once, when all are there.
"""
struct symm_neighbor_t
    struct_size::Csize_t
    rank::Int32
    memory::Ptr{symm_memory_t}
    offset::Csize_t
    source::Ptr{Cvoid}
    source_bytes::Csize_t
    pieces::Ptr{symm_piece_t}
    count::Csize_t
    expected_bytes::Csize_t
end

"""
Options of one collective call. NULL means the defaults. The introduction of the chapter on
collectives explains the factor, result_dtype, the wire and chunks.
"""
struct symm_collective_options_t
    struct_size::Csize_t
    algorithm::symm_algorithm_t
    timeout_ms::UInt64
    failure::Ptr{symm_failure_t}
    scale_position::symm_scale_t
    result_dtype::symm_dtype_t
    scale::Cdouble
    scale_pointer::Ptr{Cvoid}
    tag::Cstring
    max_blocks::Int32
    order::symm_order_t
    request::Ptr{Ptr{symm_request_t}}
    wire_dtype::symm_dtype_t
    wire_group::Int32
    chunk_bytes::UInt64
    progress::Ptr{UInt32}
    ready::Ptr{UInt32}
    word_value::UInt32
    word_pointer::Ptr{UInt32}
end

"""
One call of a collective. Fields that the collective has no argument for are ignored, except
flags and the fields that count only with them.
"""
struct symm_collective_call_t
    struct_size::Csize_t
    collective::symm_collective_t
    send::Ptr{Cvoid}
    recv::Ptr{Cvoid}
    count::Csize_t
    dtype::symm_dtype_t
    op::symm_op_t
    root::Int32
    send_counts::Ptr{Csize_t}
    send_displacements::Ptr{Csize_t}
    recv_counts::Ptr{Csize_t}
    recv_displacements::Ptr{Csize_t}
    rows::Csize_t
    recv_stride::Csize_t
    flags::UInt64
    send_capacity::Csize_t
    recv_capacity::Csize_t
    fused::Ptr{Cvoid}
    fused_version::UInt32
    options::Ptr{symm_collective_options_t}
    send_stride::Csize_t
end

"""Options of symm_batch(). NULL means the defaults."""
struct symm_batch_options_t
    struct_size::Csize_t
    timeout_ms::UInt64
    failure::Ptr{symm_failure_t}
    tag::Cstring
    request::Ptr{Ptr{symm_request_t}}
end

"""Facts about a request. Filled by symm_request_info()."""
struct symm_request_info_t
    struct_size::Csize_t
    done::Int32
    status::symm_status_t
    value::UInt64
    call::NTuple{64,UInt8}
end

"""Plan of a collective call. Filled by symm_collective_plan()."""
struct symm_plan_info_t
    struct_size::Csize_t
    algorithm::symm_algorithm_t
    chunk_bytes::UInt64
    reason::NTuple{192,UInt8}
    advice::symm_advice_t
    symm_ns::UInt64
    nccl_ns::UInt64
    advice_reason::NTuple{192,UInt8}
end

"""How to export. NULL means the defaults."""
struct symm_ipc_export_options_t
    struct_size::Csize_t
    flags::UInt64
    hold_ms::UInt64
    hold_imports::UInt64
    failure::Ptr{symm_failure_t}
    channels::Int32
    fence_bytes::UInt64
end

"""
A piece of memory in a bundle: a tensor of a model, for one. An input of
symm_ipc_export_bundle(), and filled by symm_ipc_bundle_piece().
"""
struct symm_ipc_piece_t
    struct_size::Csize_t
    pointer::Ptr{Cvoid}
    bytes::UInt64
    name::Cstring
    about::Ptr{Cvoid}
    about_bytes::UInt64
end

"""How to import. NULL means the defaults."""
struct symm_ipc_import_options_t
    struct_size::Csize_t
    flags::UInt64
    timeout_ms::UInt64
    directory::Cstring
    device::Int32
    failure::Ptr{symm_failure_t}
end

"""Facts about an import. Filled by symm_ipc_info()."""
struct symm_ipc_info_t
    struct_size::Csize_t
    backend::symm_backend_t
    device::Int32
    bytes::UInt64
    offset::UInt64
    block_bytes::UInt64
    exporter_pid::Int64
    exporter_alive::Int32
    host_memory::Int32
    flags::UInt64
end

"""How to publish. NULL means the defaults."""
struct symm_ipc_publish_options_t
    struct_size::Csize_t
    keep::UInt64
    failure::Ptr{symm_failure_t}
end

"""How to look a version up. NULL means the defaults."""
struct symm_ipc_lookup_options_t
    struct_size::Csize_t
    timeout_ms::UInt64
    directory::Cstring
    failure::Ptr{symm_failure_t}
end

"""Holders of leases on a piece of memory. Filled by symm_ipc_holders()."""
struct symm_ipc_holders_t
    struct_size::Csize_t
    leases::UInt64
    processes::UInt64
    pid::Int64
    quarantined::Int32
end

"""
Totals of what collections have done since the process began, those of symm_ipc_collect()
and the library's own. The difference of two of them is what happened in between. Filled by
symm_ipc_collect().
"""
struct symm_ipc_collect_stats_t
    struct_size::Csize_t
    ended_leases::UInt64
    written_off_leases::UInt64
    freed_blocks::UInt64
    freed_bytes::UInt64
    dropped_mappings::UInt64
    limbo_blocks::UInt64
    limbo_bytes::UInt64
end

"""State of sharing in this process. Filled by symm_ipc_stats()."""
struct symm_ipc_stats_t
    struct_size::Csize_t
    tokens::UInt64
    exported_blocks::UInt64
    exported_bytes::UInt64
    granted_leases::UInt64
    leases::UInt64
    leased_blocks::UInt64
    limbo_blocks::UInt64
    limbo_bytes::UInt64
    quarantined_blocks::UInt64
    quarantined_bytes::UInt64
    written_off_leases::UInt64
    refused_imports::UInt64
    rejected_connections::UInt64
    consumers::UInt64
    imports::UInt64
    imported_blocks::UInt64
    imported_bytes::UInt64
    exporters::UInt64
    collections::UInt64
    oldest_lease_ms::UInt64
    oldest_lease_pid::Int64
    oldest_lease_start_time::UInt64
end

"""
What symm_allreduce_rmsnorm() adds to the sum, how it normalises, and where results go.
Matrices are [tokens][hidden], rows one behind the other. weight, matrices and send begin at
multiples of 16 bytes. A NULL input does not exist, and a NULL output is not wanted.
"""
struct symm_rmsnorm_call_t
    struct_size::Csize_t
    residual_in::Ptr{Cvoid}
    residual_out::Ptr{Cvoid}
    norm_out::Ptr{Cvoid}
    weight::Ptr{Cvoid}
    weight_dtype::symm_dtype_t
    epsilon::Cdouble
    weight_offset::Cdouble
    scale_kind::symm_quant_scale_t
    quant_out::Ptr{Cvoid}
    scale_in::Ptr{Cvoid}
    scale_out::Ptr{Cvoid}
end

const STRUCTS = (
    symm_failure_t,
    symm_call_options_t,
    symm_device_info_t,
    symm_store_t,
    symm_group_config_t,
    symm_group_options_t,
    symm_invite_options_t,
    symm_grow_options_t,
    symm_group_info_t,
    symm_group_peer_info_t,
    symm_group_stats_t,
    symm_collective_stats_t,
    symm_algorithm_stats_t,
    symm_alloc_options_t,
    symm_adopt_options_t,
    symm_buffer_info_t,
    symm_rendezvous_options_t,
    symm_memory_info_t,
    symm_memory_view_t,
    symm_heap_options_t,
    symm_heap_info_t,
    symm_signal_wait_t,
    symm_piece_t,
    symm_pieces_call_t,
    symm_message_t,
    symm_neighbor_t,
    symm_collective_options_t,
    symm_collective_call_t,
    symm_batch_options_t,
    symm_request_info_t,
    symm_plan_info_t,
    symm_ipc_export_options_t,
    symm_ipc_piece_t,
    symm_ipc_import_options_t,
    symm_ipc_info_t,
    symm_ipc_publish_options_t,
    symm_ipc_lookup_options_t,
    symm_ipc_holders_t,
    symm_ipc_collect_stats_t,
    symm_ipc_stats_t,
    symm_rmsnorm_call_t,
)

"""Version of the loaded library, encoded like SYMM_VERSION. [local] [capturable]"""
@call symm_version()::UInt32

"""
Version of fused.h of the loaded library, encoded like SYMM_FUSED_VERSION. [local]
[capturable]
"""
@call symm_fused_version()::UInt32

"""
Static JSON object with version, git revision, compiler, back ends, CUDA architectures, SIMD
targets and environment variables. [local] [capturable]
"""
@call symm_build_info()::Cstring

"""
Static name of a status, "unknown status" for a value of a newer library. [local]
[capturable]
"""
@call symm_status_string(status::symm_status_t)::Cstring

"""
Message of the last failing call on this thread, "" before the first failure. [local]
[capturable]
"""
@call symm_last_error()::Cstring

"""
Tell what the last failing call on this thread failed of, and who is to blame. [local]
[capturable]
"""
@call symm_last_failure(out::Ptr{symm_failure_t})::symm_status_t

"""Send log messages of at most `level` to `callback`. [local]"""
@call symm_log_add_listener(
    callback::Ptr{Cvoid},
    user::Ptr{Cvoid},
    level::symm_log_level_t,
    out_id::Ptr{UInt64},
)::symm_status_t

"""
Send log messages of at most `level` to a descriptor, for languages whose code must not run
on threads of the library. [local]
"""
@call symm_log_to_fd(fd::Int32, level::symm_log_level_t, out_id::Ptr{UInt64})::symm_status_t

"""End a listener. [local]"""
@waiting symm_log_remove_listener(id::UInt64)::symm_status_t

"""
Set the callback that the calls of this thread ask while they wait on the host, so that
Ctrl-C or another signal ends them soon. [local]
"""
@call symm_thread_interrupt(callback::Ptr{Cvoid}, user::Ptr{Cvoid})::symm_status_t

"""Size of one element in bytes. [local] [capturable]"""
@call symm_dtype_bytes(dtype::symm_dtype_t, out_bytes::Ptr{Csize_t})::symm_status_t

"""Number of devices of a back end. [local] [capturable]"""
@call symm_device_count(backend::symm_backend_t, out_count::Ptr{Int32})::symm_status_t

"""Describe device `device` of `backend`. [local] [capturable]"""
@call symm_device_info(
    backend::symm_backend_t,
    device::Int32,
    out::Ptr{symm_device_info_t},
)::symm_status_t

"""Links between the devices of a back end. [local] [capturable]"""
@call symm_topology(
    backend::symm_backend_t,
    out_class::Ptr{symm_topology_class_t},
    out_links::Ptr{Int32},
    capacity::Csize_t,
    out_count::Ptr{Csize_t},
)::symm_status_t

"""Make an id by which the ranks of one group meet. [local]"""
@call symm_unique_id(
    options::Ptr{symm_call_options_t},
    out_id::Ptr{Cvoid},
    capacity::Csize_t,
    out_bytes::Ptr{Csize_t},
)::symm_status_t

"""Form a group. [collective] [blocking, create_timeout_ms]"""
@call symm_group_create(
    config::Ptr{symm_group_config_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""
`symm_group_create()` for arguments that hold no function of the caller's: other threads may
collect garbage meanwhile.
"""
@waiting symm_group_create_without_callbacks symm_group_create(
    config::Ptr{symm_group_config_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""
Divide a group: ranks that pass the same color form a new group. [collective over `group`]
[blocking, options.timeout_ms]
"""
@waiting symm_group_split(
    group::Ptr{symm_group_t},
    color::Int32,
    key::Int32,
    options::Ptr{symm_group_options_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""
Form a group of some ranks of another. [collective over `ranks`] [blocking,
options.timeout_ms]
"""
@waiting symm_group_create_from_ranks(
    group::Ptr{symm_group_t},
    ranks::Ptr{Int32},
    count::Csize_t,
    options::Ptr{symm_group_options_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""
Form a group of the ranks on this rank's machine, in the order of their ranks. [collective
over the ranks of a machine] [blocking, options.timeout_ms]
"""
@waiting symm_group_local(
    group::Ptr{symm_group_t},
    options::Ptr{symm_group_options_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""
Form a group of those ranks of `group` that are alive and have not released it, in their old
order. [collective over these] [blocking, options.timeout_ms]
"""
@waiting symm_group_shrink(
    group::Ptr{symm_group_t},
    options::Ptr{symm_group_options_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""Make a ticket, by which other processes join `group` when it grows. [local]"""
@call symm_group_invite(
    group::Ptr{symm_group_t},
    options::Ptr{symm_invite_options_t},
    out_ticket::Ptr{Cvoid},
    capacity::Csize_t,
    out_bytes::Ptr{Csize_t},
)::symm_status_t

"""
Wait, as a newcomer, until the group of a ticket grows, and become a rank of what it
becomes. [local] [blocking, config.create_timeout_ms]
"""
@call symm_group_join(
    ticket::Ptr{Cvoid},
    ticket_bytes::Csize_t,
    config::Ptr{symm_group_config_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""
`symm_group_join()` for arguments that hold no function of the caller's: other threads may
collect garbage meanwhile.
"""
@waiting symm_group_join_without_callbacks symm_group_join(
    ticket::Ptr{Cvoid},
    ticket_bytes::Csize_t,
    config::Ptr{symm_group_config_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""
Form a group of those ranks of `group` that are alive and have not released it, and of
newcomers, which wait in symm_group_join(). [collective over these] [blocking,
options.timeout_ms]
"""
@waiting symm_group_grow(
    group::Ptr{symm_group_t},
    options::Ptr{symm_grow_options_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""Tell which rank of `group` is rank `rank` of `other`. [local] [capturable]"""
@call symm_group_translate_rank(
    group::Ptr{symm_group_t},
    other::Ptr{symm_group_t},
    rank::Int32,
    out_rank::Ptr{Int32},
)::symm_status_t

"""Rank of this process in the group. [local] [capturable]"""
@call symm_group_rank(group::Ptr{symm_group_t}, out_rank::Ptr{Int32})::symm_status_t

"""Number of ranks. [local] [capturable]"""
@call symm_group_size(group::Ptr{symm_group_t}, out_size::Ptr{Int32})::symm_status_t

"""Describe a group. [local] [capturable]"""
@call symm_group_info(group::Ptr{symm_group_t}, out::Ptr{symm_group_info_t})::symm_status_t

"""Ask whether the group was revoked, and why. [local] [capturable]"""
@call symm_group_status(group::Ptr{symm_group_t}, out::Ptr{symm_failure_t})::symm_status_t

"""
List the ranks that this rank knows to be dead, or to have released the group. [local]
[capturable]
"""
@call symm_group_failed_ranks(
    group::Ptr{symm_group_t},
    out_ranks::Ptr{Int32},
    capacity::Csize_t,
    out_count::Ptr{Csize_t},
)::symm_status_t

"""
Get a descriptor for event loops, which becomes readable, and stays so, when the group is
revoked. [local] [capturable]
"""
@call symm_group_failure_fd(group::Ptr{symm_group_t}, out_fd::Ptr{Int32})::symm_status_t

"""Describe rank `rank` of a group, this one or another. [local] [capturable]"""
@call symm_group_peer_info(
    group::Ptr{symm_group_t},
    rank::Int32,
    out::Ptr{symm_group_peer_info_t},
)::symm_status_t

"""Links between the devices of the ranks of a group. [local] [capturable]"""
@call symm_group_topology(
    group::Ptr{symm_group_t},
    out_class::Ptr{symm_topology_class_t},
    out_links::Ptr{Int32},
    capacity::Csize_t,
    out_count::Ptr{Csize_t},
)::symm_status_t

"""Ask what was done on a group. [local] [capturable]"""
@call symm_group_stats(
    group::Ptr{symm_group_t},
    out::Ptr{symm_group_stats_t},
)::symm_status_t

"""Ask how often this rank has made a collective on a group. [local] [capturable]"""
@call symm_group_collective_stats(
    group::Ptr{symm_group_t},
    collective::symm_collective_t,
    out::Ptr{symm_collective_stats_t},
)::symm_status_t

"""
Ask how often collectives of this rank on a group went by an algorithm. [local] [capturable]
"""
@call symm_group_algorithm_stats(
    group::Ptr{symm_group_t},
    algorithm::symm_algorithm_t,
    out::Ptr{symm_algorithm_stats_t},
)::symm_status_t

"""Revoke the group on all ranks: pending and later calls return ABORTED. [local]"""
@call symm_group_abort(group::Ptr{symm_group_t}, reason::Cstring)::symm_status_t

"""
End a group in good order: wait until all ranks have arrived here, so that none sees another
leave early. [collective] [blocking, options.timeout_ms]
"""
@waiting symm_group_finalize(
    group::Ptr{symm_group_t},
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""Add a reference. [local] [capturable]"""
@call symm_group_retain(group::Ptr{symm_group_t})::symm_status_t

"""Drop a reference. [local]"""
@call symm_group_release(group::Ptr{symm_group_t})::Cvoid

"""Add a callback that symm asks to give memory back. [local]"""
@call symm_memory_pressure_add_listener(
    callback::Ptr{Cvoid},
    user::Ptr{Cvoid},
    out_id::Ptr{UInt64},
)::symm_status_t

"""End a callback. [local]"""
@waiting symm_memory_pressure_remove_listener(id::UInt64)::symm_status_t

"""Allocate this rank's block on the group's device, zeroed. [local] [blocking]"""
@waiting symm_alloc(
    group::Ptr{symm_group_t},
    bytes::Csize_t,
    options::Ptr{symm_alloc_options_t},
    out::Ptr{Ptr{symm_buffer_t}},
)::symm_status_t

"""
Make a buffer of memory that another library has allocated, to be rendezvoused like one of
symm_alloc(). [local] [blocking]
"""
@waiting symm_buffer_adopt(
    group::Ptr{symm_group_t},
    pointer::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_adopt_options_t},
    out::Ptr{Ptr{symm_buffer_t}},
)::symm_status_t

"""Describe a buffer. [local] [capturable]"""
@call symm_buffer_info(
    buffer::Ptr{symm_buffer_t},
    out::Ptr{symm_buffer_info_t},
)::symm_status_t

"""Find the buffer of this process that contains `address`. [local] [capturable]"""
@call symm_buffer_find(
    address::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
    out::Ptr{Ptr{symm_buffer_t}},
    out_offset::Ptr{Csize_t},
)::symm_status_t

"""
Export a piece of a buffer as DMA-BUF, for a device of another kind (a network card, say) to
map. [local]
"""
@call symm_buffer_export_dmabuf(
    buffer::Ptr{symm_buffer_t},
    offset::Csize_t,
    bytes::Csize_t,
    options::Ptr{symm_call_options_t},
    out_fd::Ptr{Int32},
)::symm_status_t

"""Address of the block. [local] [capturable]"""
@call symm_buffer_pointer(
    buffer::Ptr{symm_buffer_t},
    out_pointer::Ptr{Ptr{Cvoid}},
)::symm_status_t

"""Bytes that were asked for. [local] [capturable]"""
@call symm_buffer_bytes(buffer::Ptr{symm_buffer_t}, out_bytes::Ptr{Csize_t})::symm_status_t

"""Get the group that a buffer was made for. [local] [capturable]"""
@call symm_buffer_group(
    buffer::Ptr{symm_buffer_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""Add a reference. [local] [capturable]"""
@call symm_buffer_retain(buffer::Ptr{symm_buffer_t})::symm_status_t

"""Drop a reference. [local]"""
@call symm_buffer_release(buffer::Ptr{symm_buffer_t})::Cvoid

"""
Exchange blocks: after the call every rank's block is mapped here. [collective] [blocking,
options.timeout_ms]
"""
@waiting symm_rendezvous(
    group::Ptr{symm_group_t},
    buffer::Ptr{symm_buffer_t},
    options::Ptr{symm_rendezvous_options_t},
    out::Ptr{Ptr{symm_memory_t}},
)::symm_status_t

"""Get the memory that a buffer has become on a group. [local] [capturable]"""
@call symm_buffer_memory(
    buffer::Ptr{symm_buffer_t},
    group::Ptr{symm_group_t},
    options::Ptr{symm_call_options_t},
    out::Ptr{Ptr{symm_memory_t}},
)::symm_status_t

"""
Move a memory to another group: the ranks that have it bring it, and newcomers get a block.
[collective over `new_group`] [blocking, options.timeout_ms]
"""
@waiting symm_memory_move(
    memory::Ptr{symm_memory_t},
    new_group::Ptr{symm_group_t},
    options::Ptr{symm_call_options_t},
    out::Ptr{Ptr{symm_memory_t}},
)::symm_status_t

"""Describe a memory. [local] [capturable]"""
@call symm_memory_info(
    memory::Ptr{symm_memory_t},
    out::Ptr{symm_memory_info_t},
)::symm_status_t

"""Get the group of a memory. [local] [capturable]"""
@call symm_memory_group(
    memory::Ptr{symm_memory_t},
    out::Ptr{Ptr{symm_group_t}},
)::symm_status_t

"""Get the buffer that has become a memory: this rank's block. [local] [capturable]"""
@call symm_memory_buffer(
    memory::Ptr{symm_memory_t},
    out::Ptr{Ptr{symm_buffer_t}},
)::symm_status_t

"""Address at which rank `rank`'s block is mapped here. [local] [capturable]"""
@call symm_memory_pointer(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    out_pointer::Ptr{Ptr{Cvoid}},
)::symm_status_t

"""
Address of rank `rank`'s signal pad: uint64_t pad[channel][source rank], zero at first.
[local] [capturable]
"""
@call symm_memory_signal_pad(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    out_pad::Ptr{Ptr{Cvoid}},
)::symm_status_t

"""
Table of the `size` block addresses, readable by the group's device, for the host back end
by the host. [local] [capturable]
"""
@call symm_memory_pointer_table(
    memory::Ptr{symm_memory_t},
    out_table::Ptr{Ptr{Ptr{Cvoid}}},
)::symm_status_t

"""
Table of the `size` pad addresses, readable by the group's device, for the host back end by
the host. [local] [capturable]
"""
@call symm_memory_signal_pad_table(
    memory::Ptr{symm_memory_t},
    out_table::Ptr{Ptr{Ptr{Cvoid}}},
)::symm_status_t

"""
Describe a memory for kernels of your own, to which the struct is passed by value. [local]
[capturable]
"""
@call symm_memory_device_view(
    memory::Ptr{symm_memory_t},
    stop::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
    out::Ptr{symm_memory_view_t},
)::symm_status_t

"""Multicast address of the memory. [local] [capturable]"""
@call symm_memory_multicast_pointer(
    memory::Ptr{symm_memory_t},
    options::Ptr{symm_call_options_t},
    out_pointer::Ptr{Ptr{Cvoid}},
)::symm_status_t

"""Find the memory of `group` that maps `address`. [local] [capturable]"""
@call symm_memory_find(
    group::Ptr{symm_group_t},
    address::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
    out::Ptr{Ptr{symm_memory_t}},
    out_rank::Ptr{Int32},
    out_offset::Ptr{Csize_t},
)::symm_status_t

"""Add a reference. [local] [capturable]"""
@call symm_memory_retain(memory::Ptr{symm_memory_t})::symm_status_t

"""Drop a reference. [local]"""
@call symm_memory_release(memory::Ptr{symm_memory_t})::Cvoid

"""
Order streams: what is issued on `stream` next runs after what was issued on `after_stream`.
[local] [stream] [capturable]
"""
@waiting symm_stream_wait(
    group::Ptr{symm_group_t},
    stream::Ptr{Cvoid},
    after_stream::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""Ask whether everything that was issued on `stream` is over. [local] [capturable]"""
@call symm_stream_query(
    group::Ptr{symm_group_t},
    stream::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
    out_done::Ptr{Int32},
)::symm_status_t

"""
Wait until everything that was issued on `stream` is over, and say what went wrong with the
group. [local] [blocking, options.timeout_ms]
"""
@waiting symm_group_synchronize(
    group::Ptr{symm_group_t},
    stream::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""
Say that what was issued on `stream` so far uses the buffer. [local] [stream] [capturable]
"""
@call symm_buffer_record_use(
    buffer::Ptr{symm_buffer_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Give the memory of a buffer back to the system, and keep its address: for an engine that
sleeps.
"""
@waiting symm_buffer_suspend(
    buffer::Ptr{symm_buffer_t},
    flags::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Bring memory back to the address of a suspended buffer: with the contents that were kept, or
zeroed. [local] [stream]
"""
@waiting symm_buffer_resume(
    buffer::Ptr{symm_buffer_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Say that what was issued on `stream` so far uses the memory. [local] [stream] [capturable]
"""
@waiting symm_memory_record_use(
    memory::Ptr{symm_memory_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Make a heap of `bytes` on every rank. [collective] [blocking, options.timeout_ms]"""
@waiting symm_heap_create(
    group::Ptr{symm_group_t},
    bytes::Csize_t,
    options::Ptr{symm_heap_options_t},
    out::Ptr{Ptr{symm_heap_t}},
)::symm_status_t

"""
Move a heap to another group, with all its pieces. [collective over `new_group`] [blocking,
options.timeout_ms]
"""
@waiting symm_heap_move(
    heap::Ptr{symm_heap_t},
    new_group::Ptr{symm_group_t},
    options::Ptr{symm_call_options_t},
    out::Ptr{Ptr{symm_heap_t}},
)::symm_status_t

"""Take a piece of this rank's block. [local] [capturable]"""
@call symm_heap_alloc(
    heap::Ptr{symm_heap_t},
    bytes::Csize_t,
    alignment::Csize_t,
    options::Ptr{symm_call_options_t},
    out_pointer::Ptr{Ptr{Cvoid}},
    out_offset::Ptr{Csize_t},
)::symm_status_t

"""Give a piece back. [local] [capturable]"""
@call symm_heap_free(
    heap::Ptr{symm_heap_t},
    pointer::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""
Find the piece that contains `address`, anywhere between its first and its last byte in this
rank's block. [local] [capturable]
"""
@call symm_heap_find(
    heap::Ptr{symm_heap_t},
    address::Ptr{Cvoid},
    options::Ptr{symm_call_options_t},
    out_pointer::Ptr{Ptr{Cvoid}},
    out_bytes::Ptr{Csize_t},
)::symm_status_t

"""Get the memory that the pieces lie in. [local] [capturable]"""
@call symm_heap_memory(heap::Ptr{symm_heap_t}, out::Ptr{Ptr{symm_memory_t}})::symm_status_t

"""Get the group of a heap. [local] [capturable]"""
@call symm_heap_group(heap::Ptr{symm_heap_t}, out::Ptr{Ptr{symm_group_t}})::symm_status_t

"""Describe a heap. [local] [capturable]"""
@call symm_heap_info(heap::Ptr{symm_heap_t}, out::Ptr{symm_heap_info_t})::symm_status_t

"""Add a reference. [local] [capturable]"""
@call symm_heap_retain(heap::Ptr{symm_heap_t})::symm_status_t

"""Drop a reference. [local]"""
@call symm_heap_release(heap::Ptr{symm_heap_t})::Cvoid

"""
Wait until all ranks of a set are here. [collective over the set] [stream] [capturable]
"""
@waiting symm_barrier(
    group::Ptr{symm_group_t},
    ranks::Ptr{Int32},
    count::Csize_t,
    channel::Int32,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Add one to the signals that this rank has sent to `rank` on `channel`. [local] [stream]
[capturable]
"""
@waiting symm_signal(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    channel::Int32,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Add a value to the word that this rank has at `rank` on `channel`, or set the word to it.
[local] [stream] [capturable]
"""
@waiting symm_signal_value(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    channel::Int32,
    op::symm_signal_op_t,
    value::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Take one signal from `rank` on `channel`, waiting for it if need be. [local] [stream]
[capturable]
"""
@waiting symm_wait_signal(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    channel::Int32,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Wait until the word from `rank` on `channel` compares with `value` as `compare` says.
[local] [stream] [capturable]
"""
@waiting symm_wait_signal_value(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    channel::Int32,
    compare::symm_compare_t,
    value::UInt64,
    options::Ptr{symm_call_options_t},
    out_seen::Ptr{UInt64},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Wait for several signals. [local] [stream] [capturable]"""
@waiting symm_wait_signals(
    memory::Ptr{symm_memory_t},
    waits::Ptr{symm_signal_wait_t},
    count::Csize_t,
    mode::symm_wait_mode_t,
    options::Ptr{symm_call_options_t},
    out_index::Ptr{Csize_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Count the signals from `rank` on `channel` that are there and not taken. [local]"""
@call symm_test_signal(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    channel::Int32,
    options::Ptr{symm_call_options_t},
    out_pending::Ptr{UInt64},
)::symm_status_t

"""Read the word from `rank` on `channel`. [local]"""
@call symm_test_signal_value(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    channel::Int32,
    options::Ptr{symm_call_options_t},
    out_value::Ptr{UInt64},
)::symm_status_t

"""Copy `bytes` bytes to `offset` in rank `rank`'s block. [local] [stream] [capturable]"""
@waiting symm_put(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    source::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Copy `bytes` bytes from `offset` in rank `rank`'s block to `destination`. [local] [stream]
[capturable]
"""
@waiting symm_get(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    destination::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Copy as symm_put() does, then signal as symm_signal() does, in one call. [local] [stream]
[capturable]
"""
@waiting symm_put_signal(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    source::Ptr{Cvoid},
    bytes::Csize_t,
    channel::Int32,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Copy as symm_put() does, then signal as symm_signal_value() does, in one call. [local]
[stream] [capturable]
"""
@waiting symm_put_signal_value(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    source::Ptr{Cvoid},
    bytes::Csize_t,
    channel::Int32,
    op::symm_signal_op_t,
    value::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Copy many pieces to rank `rank`'s block in one call, and signal when all are there. [local]
[stream] [capturable]
"""
@waiting symm_put_pieces(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    source::Ptr{Cvoid},
    source_bytes::Csize_t,
    call::Ptr{symm_pieces_call_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Copy many pieces from rank `rank`'s block in one call, and signal when all are here. [local]
[stream] [capturable]
"""
@waiting symm_get_pieces(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    destination::Ptr{Cvoid},
    destination_bytes::Csize_t,
    call::Ptr{symm_pieces_call_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Store `count` copies of a 32-bit value at `offset` in rank `rank`'s block. [local] [stream]
[capturable]
"""
@waiting symm_fill32(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    value::UInt32,
    count::Csize_t,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Store `count` copies of an 8-bit value at `offset` in rank `rank`'s block. [local] [stream]
[capturable]
"""
@waiting symm_fill8(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    value::UInt8,
    count::Csize_t,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Store `count` copies of a 16-bit value at `offset` in rank `rank`'s block. [local] [stream]
[capturable]
"""
@waiting symm_fill16(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    value::UInt16,
    count::Csize_t,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Store `count` copies of a 64-bit value at `offset` in rank `rank`'s block. [local] [stream]
[capturable]
"""
@waiting symm_fill64(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    value::UInt64,
    count::Csize_t,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Store one 32-bit value at `offset` in rank `rank`'s block, after everything that this rank
wrote before (release order). [local] [stream] [capturable]
"""
@waiting symm_write_value32(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    value::UInt32,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Store one 64-bit value at `offset` in rank `rank`'s block, after everything that this rank
wrote before (release order). [local] [stream] [capturable]
"""
@waiting symm_write_value64(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    value::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Read a 32-bit word at `offset` in rank `rank`'s block. [local]"""
@waiting symm_read_value32(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    options::Ptr{symm_call_options_t},
    out_value::Ptr{UInt32},
)::symm_status_t

"""Read a 64-bit word at `offset` in rank `rank`'s block. [local]"""
@waiting symm_read_value64(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    options::Ptr{symm_call_options_t},
    out_value::Ptr{UInt64},
)::symm_status_t

"""
Change a 32-bit word at `offset` in rank `rank`'s block in one step, and fetch what it was.
[local] [stream] [capturable]
"""
@waiting symm_atomic32(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    op::symm_atomic_op_t,
    value::UInt32,
    compare::UInt32,
    options::Ptr{symm_call_options_t},
    fetched::Ptr{Cvoid},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Change a 64-bit word at `offset` in rank `rank`'s block in one step, and fetch what it was.
[local] [stream] [capturable]
"""
@waiting symm_atomic64(
    memory::Ptr{symm_memory_t},
    rank::Int32,
    offset::Csize_t,
    op::symm_atomic_op_t,
    value::UInt64,
    compare::UInt64,
    options::Ptr{symm_call_options_t},
    fetched::Ptr{Cvoid},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Wait until a 32-bit word of this rank's own block compares with `value` as `compare` says.
[local] [stream] [capturable]
"""
@waiting symm_wait_value32(
    memory::Ptr{symm_memory_t},
    offset::Csize_t,
    compare::symm_compare_t,
    value::UInt32,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Wait until a 64-bit word of this rank's own block compares with `value` as `compare` says.
[local] [stream] [capturable]
"""
@waiting symm_wait_value64(
    memory::Ptr{symm_memory_t},
    offset::Csize_t,
    compare::symm_compare_t,
    value::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Send `bytes` bytes to rank `rank`. [local] [stream] [capturable]"""
@waiting symm_send(
    group::Ptr{symm_group_t},
    rank::Int32,
    channel::Int32,
    source::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Receive the next message from rank `rank`. [local] [stream] [capturable]"""
@waiting symm_recv(
    group::Ptr{symm_group_t},
    rank::Int32,
    channel::Int32,
    destination::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_call_options_t},
    out_bytes::Ptr{Csize_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Send and receive any number of messages, which progress together. [local] [stream]
[capturable]
"""
@waiting symm_messages(
    group::Ptr{symm_group_t},
    messages::Ptr{symm_message_t},
    count::Csize_t,
    options::Ptr{symm_call_options_t},
    out_lengths::Ptr{Csize_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Agree with the neighbours on what is put in every round. [collective] [blocking,
options.timeout_ms]
"""
@waiting symm_exchange_create(
    group::Ptr{symm_group_t},
    neighbors::Ptr{symm_neighbor_t},
    count::Csize_t,
    options::Ptr{symm_call_options_t},
    out::Ptr{Ptr{symm_exchange_t}},
)::symm_status_t

"""
Begin a round: put to all neighbours that are ready for it. [local] [stream] [capturable]
"""
@waiting symm_exchange_start(
    exchange::Ptr{symm_exchange_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
End a round: put what is left, and wait until all neighbours have put. [local] [stream]
[capturable]
"""
@waiting symm_exchange_finish(
    exchange::Ptr{symm_exchange_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Add a reference. [local] [capturable]"""
@call symm_exchange_retain(exchange::Ptr{symm_exchange_t})::symm_status_t

"""Drop a reference. [local]"""
@call symm_exchange_release(exchange::Ptr{symm_exchange_t})::Cvoid

"""
Send a block of its own length to each neighbour and receive one from each. [local] [stream]
"""
@waiting symm_neighbor_alltoallv(
    group::Ptr{symm_group_t},
    send_ranks::Ptr{Int32},
    send_count::Csize_t,
    send::Ptr{Cvoid},
    send_counts::Ptr{Csize_t},
    send_displacements::Ptr{Csize_t},
    recv_ranks::Ptr{Int32},
    recv_count::Csize_t,
    recv::Ptr{Cvoid},
    recv_counts::Ptr{Csize_t},
    recv_displacements::Ptr{Csize_t},
    dtype::symm_dtype_t,
    channel::Int32,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Combine the operands of all ranks, with the result on every rank. [collective] [stream]
[capturable]
"""
@waiting symm_allreduce(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    op::symm_op_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Combine the operands of all ranks, with a block of the result on each rank. [collective]
[stream] [capturable]
"""
@waiting symm_reduce_scatter(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    recv_count::Csize_t,
    dtype::symm_dtype_t,
    op::symm_op_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Gather the operands of all ranks on every rank. [collective] [stream] [capturable]"""
@waiting symm_allgather(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    send_count::Csize_t,
    dtype::symm_dtype_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Copy the operand of the root to every rank. [collective] [stream] [capturable]"""
@waiting symm_broadcast(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    root::Int32,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Combine the operands of all ranks, with the result on the root. [collective] [stream]
[capturable]
"""
@waiting symm_reduce(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    op::symm_op_t,
    root::Int32,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Combine the operands of the ranks up to this one. [collective] [stream] [capturable]"""
@waiting symm_scan(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    op::symm_op_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Combine the operands of the ranks before this one. [collective] [stream] [capturable]"""
@waiting symm_exscan(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    op::symm_op_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Combine the operands of all ranks by a function of the caller's. [collective] [blocking,
options.timeout_ms]
"""
@call symm_reduce_by(
    group::Ptr{symm_group_t},
    collective::symm_collective_t,
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    element_bytes::Csize_t,
    combine::Ptr{Cvoid},
    user::Ptr{Cvoid},
    root::Int32,
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""
`symm_reduce_by()` for arguments that hold no function of the caller's: other threads may
collect garbage meanwhile.
"""
@waiting symm_reduce_by_without_callbacks symm_reduce_by(
    group::Ptr{symm_group_t},
    collective::symm_collective_t,
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    element_bytes::Csize_t,
    combine::Ptr{Cvoid},
    user::Ptr{Cvoid},
    root::Int32,
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""
Send a block to every rank and receive one from every rank. [collective] [stream]
[capturable]
"""
@waiting symm_alltoall(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Gather blocks of different lengths on every rank. [collective] [stream] [capturable]"""
@waiting symm_allgatherv(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    recv_counts::Ptr{Csize_t},
    recv_displacements::Ptr{Csize_t},
    dtype::symm_dtype_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Combine the operands of all ranks, with a block of its own length of the result on each
rank. [collective] [stream] [capturable]
"""
@waiting symm_reduce_scatterv(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    send_counts::Ptr{Csize_t},
    send_displacements::Ptr{Csize_t},
    recv::Ptr{Cvoid},
    dtype::symm_dtype_t,
    op::symm_op_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Send a block of its own length to every rank and receive one from every rank. [collective]
[stream] [capturable]
"""
@waiting symm_alltoallv(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    send_counts::Ptr{Csize_t},
    send_displacements::Ptr{Csize_t},
    recv::Ptr{Cvoid},
    recv_counts::Ptr{Csize_t},
    recv_displacements::Ptr{Csize_t},
    dtype::symm_dtype_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Do as symm_alltoallv() with counts and displacements that are read when the call runs.
[collective] [stream] [capturable]
"""
@waiting symm_alltoallv_device(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    send_capacity::Csize_t,
    send_counts::Ptr{UInt64},
    send_displacements::Ptr{UInt64},
    recv::Ptr{Cvoid},
    recv_capacity::Csize_t,
    recv_counts::Ptr{UInt64},
    recv_displacements::Ptr{UInt64},
    dtype::symm_dtype_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Gather the operands of all ranks on the root. [collective] [stream] [capturable]"""
@waiting symm_gather(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    root::Int32,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Send a block of the root's operand to each rank. [collective] [stream] [capturable]"""
@waiting symm_scatter(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    count::Csize_t,
    dtype::symm_dtype_t,
    root::Int32,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Gather blocks of different lengths on the root. [collective] [stream] [capturable]"""
@waiting symm_gatherv(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    send_count::Csize_t,
    recv::Ptr{Cvoid},
    recv_counts::Ptr{Csize_t},
    recv_displacements::Ptr{Csize_t},
    dtype::symm_dtype_t,
    root::Int32,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Send a block of its own length of the root's operand to each rank. [collective] [stream]
[capturable]
"""
@waiting symm_scatterv(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    send_counts::Ptr{Csize_t},
    send_displacements::Ptr{Csize_t},
    recv::Ptr{Cvoid},
    recv_count::Csize_t,
    dtype::symm_dtype_t,
    root::Int32,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Send bytes of the root to all other ranks, which need not know how many there are.
[collective] [stream]
"""
@waiting symm_broadcast_bytes(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    send_bytes::Csize_t,
    recv::Ptr{Cvoid},
    recv_capacity::Csize_t,
    root::Int32,
    options::Ptr{symm_collective_options_t},
    out_bytes::Ptr{Csize_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Gather matrices along the last dimension on every rank. [collective] [stream] [capturable]
"""
@waiting symm_allgather_rows(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    rows::Csize_t,
    row_count::Csize_t,
    recv_stride::Csize_t,
    dtype::symm_dtype_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Combine matrices of all ranks, with a block of columns of the result on each rank.
[collective] [stream] [capturable]
"""
@waiting symm_reduce_scatter_rows(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    recv::Ptr{Cvoid},
    rows::Csize_t,
    row_count::Csize_t,
    send_stride::Csize_t,
    dtype::symm_dtype_t,
    op::symm_op_t,
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Make the call that a struct describes. [collective] [stream] [capturable]"""
@waiting symm_collective(
    group::Ptr{symm_group_t},
    call::Ptr{symm_collective_call_t},
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Make several calls of collectives in one submission. [collective] [stream] [capturable]
"""
@waiting symm_batch(
    group::Ptr{symm_group_t},
    calls::Ptr{symm_collective_call_t},
    count::Csize_t,
    options::Ptr{symm_batch_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Look whether the call of a request is over. [local]"""
@call symm_request_test(
    request::Ptr{symm_request_t},
    options::Ptr{symm_call_options_t},
    out_done::Ptr{Int32},
)::symm_status_t

"""
Wait until the call of a request is over, and return what it returned. [local] [blocking,
options.timeout_ms]
"""
@waiting symm_request_wait(
    request::Ptr{symm_request_t},
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""
Wait until the call of one of several requests is over. [local] [blocking,
options.timeout_ms]
"""
@waiting symm_request_wait_any(
    requests::Ptr{Ptr{symm_request_t}},
    count::Csize_t,
    options::Ptr{symm_call_options_t},
    out_index::Ptr{Csize_t},
)::symm_status_t

"""Tell what is known of a request. [local]"""
@call symm_request_info(
    request::Ptr{symm_request_t},
    out::Ptr{symm_request_info_t},
)::symm_status_t

"""
Get a descriptor that becomes readable when the call of a request is over, for event loops.
[local]
"""
@call symm_request_fd(request::Ptr{symm_request_t}, out_fd::Ptr{Int32})::symm_status_t

"""Add a reference to a request. [local]"""
@call symm_request_retain(request::Ptr{symm_request_t})::symm_status_t

"""Drop a reference to a request."""
@call symm_request_release(request::Ptr{symm_request_t})::Cvoid

"""
Tell which algorithm a collective would use if every rank passed memory like this rank's.
[local] [capturable]
"""
@call symm_collective_plan(
    group::Ptr{symm_group_t},
    call::Ptr{symm_collective_call_t},
    options::Ptr{symm_collective_options_t},
    out::Ptr{symm_plan_info_t},
)::symm_status_t

"""Make a token for `bytes` bytes at `pointer`. [local] [stream]"""
@waiting symm_ipc_export(
    pointer::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_ipc_export_options_t},
    out_token::Ptr{Cvoid},
    capacity::Csize_t,
    out_bytes::Ptr{Csize_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Make one token for many pieces of memory, each with a name and with what it is: a bundle.
[local] [stream]
"""
@waiting symm_ipc_export_bundle(
    pieces::Ptr{symm_ipc_piece_t},
    count::Csize_t,
    options::Ptr{symm_ipc_export_options_t},
    out_token::Ptr{Cvoid},
    capacity::Csize_t,
    out_bytes::Ptr{Csize_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Map the memory that a token names. [local] [blocking, options.timeout_ms] [stream]"""
@waiting symm_ipc_import(
    token::Ptr{Cvoid},
    token_bytes::Csize_t,
    options::Ptr{symm_ipc_import_options_t},
    out::Ptr{Ptr{symm_ipc_t}},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Address of the imported piece; NULL if it has 0 bytes, or if it is a bundle, whose pieces
symm_ipc_bundle_piece() tells. [local] [capturable]
"""
@call symm_ipc_pointer(ipc::Ptr{symm_ipc_t}, out_pointer::Ptr{Ptr{Cvoid}})::symm_status_t

"""
Bytes of the imported piece; of a bundle, those of all its pieces. [local] [capturable]
"""
@call symm_ipc_bytes(ipc::Ptr{symm_ipc_t}, out_bytes::Ptr{Csize_t})::symm_status_t

"""Describe an import. [local] [capturable]"""
@call symm_ipc_info(ipc::Ptr{symm_ipc_t}, out::Ptr{symm_ipc_info_t})::symm_status_t

"""How many pieces an imported bundle has. [local] [capturable]"""
@call symm_ipc_bundle_size(ipc::Ptr{symm_ipc_t}, out_count::Ptr{Csize_t})::symm_status_t

"""
Describe a piece of an imported bundle: where it is mapped, its name, and what it is.
[local] [capturable]
"""
@call symm_ipc_bundle_piece(
    ipc::Ptr{symm_ipc_t},
    index::Csize_t,
    out::Ptr{symm_ipc_piece_t},
)::symm_status_t

"""
Find a piece of an imported bundle by its name, at the same cost for any number of pieces.
[local] [capturable]
"""
@call symm_ipc_bundle_find(
    ipc::Ptr{symm_ipc_t},
    name::Cstring,
    out_index::Ptr{Csize_t},
)::symm_status_t

"""
Let another stream wait for the export: what is issued on `stream` next runs after what the
exporter had issued before it, too. [local] [stream]
"""
@waiting symm_ipc_stream_wait(
    ipc::Ptr{symm_ipc_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Say that what was issued on `stream` so far uses the import: its lease does not end before
that is over. [local] [stream]
"""
@waiting symm_ipc_record_use(
    ipc::Ptr{symm_ipc_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Give an import's memory up, and keep its addresses: for a reader that sleeps, or that goes
on with another version.
"""
@waiting symm_ipc_suspend(
    ipc::Ptr{symm_ipc_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Map memory at the addresses of a suspended import: the same, or what another token names,
such as that of another version. [local] [blocking, options.timeout_ms] [stream]
"""
@waiting symm_ipc_resume(
    ipc::Ptr{symm_ipc_t},
    token::Ptr{Cvoid},
    token_bytes::Csize_t,
    options::Ptr{symm_ipc_import_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""Add a reference. [local] [capturable]"""
@call symm_ipc_retain(ipc::Ptr{symm_ipc_t})::symm_status_t

"""Drop a reference to an import, which ends with the last. [local] [stream]"""
@call symm_ipc_release(ipc::Ptr{symm_ipc_t}, stream::Ptr{Cvoid})::Cvoid

"""
End the tokens made so far for any part of a piece of memory, and wait until nobody holds a
lease on any part of it. [local] [blocking, options.timeout_ms]
"""
@waiting symm_ipc_withdraw(
    pointer::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""
Copy many pieces into imported memory in one call, and signal when all are there. [local]
[stream]
"""
@waiting symm_ipc_put_pieces(
    ipc::Ptr{symm_ipc_t},
    offset::Csize_t,
    source::Ptr{Cvoid},
    source_bytes::Csize_t,
    call::Ptr{symm_pieces_call_t},
    epoch::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Copy many pieces from imported memory in one call, and signal when all are here. [local]
[stream]
"""
@waiting symm_ipc_get_pieces(
    ipc::Ptr{symm_ipc_t},
    offset::Csize_t,
    destination::Ptr{Cvoid},
    destination_bytes::Csize_t,
    call::Ptr{symm_pieces_call_t},
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Add a value to a word of the token that was imported, or set the word to it. [local]
[stream]
"""
@call symm_ipc_signal_value(
    ipc::Ptr{symm_ipc_t},
    channel::Int32,
    op::symm_signal_op_t,
    value::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Wait until a word of a token of this process compares with `value` as `compare` says.
[local] [blocking, options.timeout_ms] [stream]
"""
@waiting symm_ipc_wait_value(
    token::Ptr{Cvoid},
    token_bytes::Csize_t,
    channel::Int32,
    compare::symm_compare_t,
    value::UInt64,
    options::Ptr{symm_call_options_t},
    out_seen::Ptr{UInt64},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Keep late puts off a piece of memory: when the call returns, no put of an epoch below
`epoch` stores there any more, and no signal of such a put comes. [local] [blocking,
options.timeout_ms] [stream]
"""
@waiting symm_ipc_fence(
    pointer::Ptr{Cvoid},
    bytes::Csize_t,
    epoch::UInt64,
    options::Ptr{symm_call_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t

"""
Publish a token under a name and the number of a version, for symm_ipc_lookup(). [local]
"""
@call symm_ipc_publish(
    name::Cstring,
    version::UInt64,
    token::Ptr{Cvoid},
    token_bytes::Csize_t,
    options::Ptr{symm_ipc_publish_options_t},
)::symm_status_t

"""
Find the newest published version of a name that compares with a number, and wait for one if
there is none. [local] [blocking, options.timeout_ms]
"""
@waiting symm_ipc_lookup(
    name::Cstring,
    compare::symm_compare_t,
    version::UInt64,
    options::Ptr{symm_ipc_lookup_options_t},
    out_token::Ptr{Cvoid},
    capacity::Csize_t,
    out_bytes::Ptr{Csize_t},
    out_version::Ptr{UInt64},
)::symm_status_t

"""
Withdraw a version that this process has published: end its token, and wait until nobody
holds a lease on it. [local] [blocking, options.timeout_ms]
"""
@waiting symm_ipc_withdraw_version(
    name::Cstring,
    version::UInt64,
    options::Ptr{symm_call_options_t},
)::symm_status_t

"""Ask who holds a piece of memory, without ending its tokens. [local]"""
@call symm_ipc_holders(
    pointer::Ptr{Cvoid},
    bytes::Csize_t,
    options::Ptr{symm_call_options_t},
    out::Ptr{symm_ipc_holders_t},
)::symm_status_t

"""Free what is provably free. [local]"""
@call symm_ipc_collect(
    options::Ptr{symm_call_options_t},
    out::Ptr{symm_ipc_collect_stats_t},
)::symm_status_t

"""Ask for the state of sharing. [local]"""
@call symm_ipc_stats(out::Ptr{symm_ipc_stats_t})::symm_status_t

"""Combine, add a residual and normalise. [collective] [stream] [capturable]"""
@waiting symm_allreduce_rmsnorm(
    group::Ptr{symm_group_t},
    send::Ptr{Cvoid},
    tokens::Csize_t,
    hidden::Csize_t,
    dtype::symm_dtype_t,
    norm::Ptr{symm_rmsnorm_call_t},
    options::Ptr{symm_collective_options_t},
    stream::Ptr{Cvoid},
)::symm_status_t
