// SPDX-License-Identifier: Apache-2.0
// Types, constants and functions of `symm.h`, which says of the functions what is here in a sentence, for the macros of header.rs.
// Generated from symm.h by bindings/rust/generate. Do not edit.

use crate::MissingSymbol;

pub type symm_group_t = symm_group;
pub type symm_buffer_t = symm_buffer;
pub type symm_memory_t = symm_memory;
pub type symm_heap_t = symm_heap;
pub type symm_ipc_t = symm_ipc;
/// Receives log messages, possibly from a thread of the library's, and from several threads at once. Must not call into the library, but for symm_log_remove_listener().
pub type symm_log_callback_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        level: symm_log_level_t,
        message: *const ::core::ffi::c_char,
    ),
>;

enums! {
/// Result of a call. Values are fixed for ever; new ones may be added.
pub enum Status: symm_status_t {
Ok = SYMM_OK = 0,
#[doc = "an argument is out of range; the message names it"] InvalidArgument = SYMM_ERR_INVALID_ARGUMENT = -1,
#[doc = "NULL, released, of another type, inherited through fork(), or of a finalized group; a token whose memory was released or withdrawn"] InvalidHandle = SYMM_ERR_INVALID_HANDLE = -2,
#[doc = "host or device memory, or a limit on it"] OutOfMemory = SYMM_ERR_OUT_OF_MEMORY = -3,
#[doc = "no such device, driver, launcher or feature on this machine"] Unavailable = SYMM_ERR_UNAVAILABLE = -4,
#[doc = "this library does not do that: it is too old, or the back end cannot"] Unsupported = SYMM_ERR_UNSUPPORTED = -5,
#[doc = "a deadline passed; the message names who was awaited"] Timeout = SYMM_ERR_TIMEOUT = -6,
#[doc = "symm_group_abort() was called, here or on another rank"] Aborted = SYMM_ERR_ABORTED = -7,
#[doc = "a rank died or left; the message gives its rank and pid"] PeerFailed = SYMM_ERR_PEER_FAILED = -8,
#[doc = "ranks disagree (size, operation, data type, count ...)"] Mismatch = SYMM_ERR_MISMATCH = -9,
#[doc = "a system call failed; the message names it and its errno"] System = SYMM_ERR_SYSTEM = -10,
#[doc = "a CUDA driver call failed; the message names it and its result"] Cuda = SYMM_ERR_CUDA = -11,
#[doc = "a defect of this library"] Internal = SYMM_ERR_INTERNAL = -13,
#[doc = "a look-up found nothing"] NotFound = SYMM_ERR_NOT_FOUND = -14,
}
/// Data type. The value is (DLPack type code) \<\< 8 | bits, one lane.
pub enum Dtype: symm_dtype_t {
I8 = SYMM_DTYPE_I8 = 8,
I16 = SYMM_DTYPE_I16 = 16,
I32 = SYMM_DTYPE_I32 = 32,
I64 = SYMM_DTYPE_I64 = 64,
U8 = SYMM_DTYPE_U8 = 264,
U16 = SYMM_DTYPE_U16 = 272,
U32 = SYMM_DTYPE_U32 = 288,
U64 = SYMM_DTYPE_U64 = 320,
F16 = SYMM_DTYPE_F16 = 528,
F32 = SYMM_DTYPE_F32 = 544,
F64 = SYMM_DTYPE_F64 = 576,
Bf16 = SYMM_DTYPE_BF16 = 1040,
#[doc = "a byte: 0 is false, all else true; results are 0 or 1"] Bool = SYMM_DTYPE_BOOL = 1544,
#[doc = "finite-only variant (DLPack float8_e4m3fn); results saturate at +-448"] F8e4m3 = SYMM_DTYPE_F8E4M3 = 2568,
#[doc = "results saturate at +-57344"] F8e5m2 = SYMM_DTYPE_F8E5M2 = 3080,
}
/// Reduction. Ranks are combined in the order 0, 1, ..., size-1 on every rank and in every algorithm, so the result has the same bits everywhere. F16, BF16 and F8 are combined in f32 and rounded once, to nearest even. Integers wrap. MIN and MAX return NaN if any operand is NaN. AVG is the sum divided by the number of ranks (integers: truncated towards zero). Of BOOL, SUM and MAX are "or", MIN and PROD are "and", and there is no AVG (INVALID_ARGUMENT). The payload of a NaN result is unspecified.
pub enum Op: symm_op_t {
Sum = SYMM_OP_SUM = 0,
Avg = SYMM_OP_AVG = 1,
Min = SYMM_OP_MIN = 2,
Max = SYMM_OP_MAX = 3,
Prod = SYMM_OP_PROD = 4,
}
/// Where a factor is multiplied in; see symm_collective_options_t. Since 0.2.
pub enum Scale: symm_scale_t {
None = SYMM_SCALE_NONE = 0,
#[doc = "every operand, before it is combined"] Before = SYMM_SCALE_BEFORE = 1,
#[doc = "the result, after the division of AVG and before rounding"] After = SYMM_SCALE_AFTER = 2,
}
/// What memory a group works on.
pub enum Backend: symm_backend_t {
#[doc = "$SYMM_BACKEND (\"host\" or \"cuda\") if set, else the host"] Auto = SYMM_BACKEND_AUTO = 0,
#[doc = "memory shared between processes of one machine"] Host = SYMM_BACKEND_HOST = 1,
Cuda = SYMM_BACKEND_CUDA = 2,
}
/// Collective operations, for symm_collective_plan().
pub enum Collective: symm_collective_t {
Allreduce = SYMM_COLLECTIVE_ALLREDUCE = 0,
ReduceScatter = SYMM_COLLECTIVE_REDUCE_SCATTER = 1,
Allgather = SYMM_COLLECTIVE_ALLGATHER = 2,
Broadcast = SYMM_COLLECTIVE_BROADCAST = 3,
Reduce = SYMM_COLLECTIVE_REDUCE = 4,
Alltoall = SYMM_COLLECTIVE_ALLTOALL = 5,
#[doc = "since 0.2, as all below"] Allgatherv = SYMM_COLLECTIVE_ALLGATHERV = 6,
ReduceScatterv = SYMM_COLLECTIVE_REDUCE_SCATTERV = 7,
Alltoallv = SYMM_COLLECTIVE_ALLTOALLV = 8,
Gather = SYMM_COLLECTIVE_GATHER = 9,
Scatter = SYMM_COLLECTIVE_SCATTER = 10,
AllgatherRows = SYMM_COLLECTIVE_ALLGATHER_ROWS = 11,
}
/// Algorithms. All give the same bits, but for the two of multicast (MULTIMEM), in which the switch adds, in an order of its own: they are used only where they are asked for.
pub enum Algorithm: symm_algorithm_t {
Auto = SYMM_ALGORITHM_AUTO = 0,
#[doc = "flag in data: the message rides in the line that signals it"] Ll = SYMM_ALGORITHM_LL = 1,
#[doc = "every rank publishes its input, every rank combines all"] OneShot = SYMM_ALGORITHM_ONE_SHOT = 2,
#[doc = "each rank combines its slice and stores it to all; on the host without a copy"] TwoShot = SYMM_ALGORITHM_TWO_SHOT = 3,
#[doc = "the same in chunks through library memory; any buffer"] TwoShotStaged = SYMM_ALGORITHM_TWO_SHOT_STAGED = 4,
#[doc = "8 ranks, each touching 4 neighbours only"] HybridCubeMesh = SYMM_ALGORITHM_HYBRID_CUBE_MESH = 5,
#[doc = "every rank loads the sum from send's multicast address; not in place"] MultimemOneShot = SYMM_ALGORITHM_MULTIMEM_ONE_SHOT = 6,
#[doc = "each rank loads the sum of its slice and stores it to all, by multicast"] MultimemTwoShot = SYMM_ALGORITHM_MULTIMEM_TWO_SHOT = 7,
#[doc = "CUDA: as LL, with a mark of 4 bytes for every 64; for what moves unchanged"] Marked = SYMM_ALGORITHM_MARKED = 8,
}
/// What symm_signal_value() does to a word.
pub enum SignalOp: symm_signal_op_t {
Add = SYMM_SIGNAL_ADD = 0,
Set = SYMM_SIGNAL_SET = 1,
}
/// How a word that is waited for, to the left, compares with a value, to the right; both are unsigned.
pub enum Compare: symm_compare_t {
Eq = SYMM_COMPARE_EQ = 0,
Ne = SYMM_COMPARE_NE = 1,
Lt = SYMM_COMPARE_LT = 2,
Le = SYMM_COMPARE_LE = 3,
Gt = SYMM_COMPARE_GT = 4,
Ge = SYMM_COMPARE_GE = 5,
}
/// Class of the links between devices.
pub enum TopologyClass: symm_topology_class_t {
Other = SYMM_TOPOLOGY_UNKNOWN = 0,
FullyConnected = SYMM_TOPOLOGY_FULLY_CONNECTED = 1,
HybridCubeMesh = SYMM_TOPOLOGY_HYBRID_CUBE_MESH = 2,
}
/// Severity of a log message.
pub enum LogLevel: symm_log_level_t {
Error = SYMM_LOG_ERROR = 1,
Warning = SYMM_LOG_WARNING = 2,
Info = SYMM_LOG_INFO = 3,
Debug = SYMM_LOG_DEBUG = 4,
}
}

constants! {
#[doc = "No deadline."] pub const SYMM_TIMEOUT_INFINITE: u64 = u64::MAX;
#[doc = "Where a parameter says so, cast to a pointer: all streams."] pub const SYMM_ALL_STREAMS: u64 = u64::MAX;
#[doc = "Look once instead of waiting."] pub const SYMM_TIMEOUT_NOW: u64 = u64::MAX - 1;
pub const SYMM_VERSION_MAJOR: u32 = 0;
pub const SYMM_VERSION_MINOR: u32 = 2;
pub const SYMM_VERSION_PATCH: u32 = 0;
pub const SYMM_VERSION: u32 = 512;
pub const SYMM_MEMORY_VIEW_LAYOUT: u32 = 1;
pub const SYMM_IPC_TOKEN_MAX_SIZE: u32 = 512;
#[doc = "the local rank's share: device (local rank modulo device count)"] pub const SYMM_DEVICE_AUTO: i32 = -1;
#[doc = "no NUMA node in particular"] pub const SYMM_NODE_NEAREST: i32 = -1;
#[doc = "several ranks may use one CUDA device"] pub const SYMM_GROUP_OVERLAPPING_DEVICES: u64 = 1;
#[doc = "compare the arguments of every collective on all ranks; as SYMM_CHECK=1"] pub const SYMM_GROUP_CHECK: u64 = 2;
#[doc = "multicast addresses for the group's memories, where they can be had; as SYMM_MULTICAST=1. All ranks must ask; see symm_memory_multicast_pointer()"] pub const SYMM_GROUP_MULTICAST: u64 = 4;
#[doc = "memory of the host, pinned, which devices and the host reach alike"] pub const SYMM_ALLOC_HOST: u64 = 1;
#[doc = "allocated by SYMM_ALLOC_HOST, or for a host group"] pub const SYMM_BUFFER_HOST: u64 = 1;
#[doc = "made by symm_buffer_adopt()"] pub const SYMM_BUFFER_ADOPTED: u64 = 2;
}

structs! {
pub struct symm_group {
    _unused: [u8; 0],
}
pub struct symm_buffer {
    _unused: [u8; 0],
}
pub struct symm_memory {
    _unused: [u8; 0],
}
pub struct symm_heap {
    _unused: [u8; 0],
}
pub struct symm_ipc {
    _unused: [u8; 0],
}
/// A failure, whole. Filled by symm_last_failure() with the last one of the thread; by any call that takes options with the failure of that very call, if options.failure points to one, whose struct_size the caller has set: written on failure only.
pub struct symm_failure_t {
    pub struct_size: usize,
    #[doc = "SYMM_OK before the first failure"] pub status: symm_status_t,
    #[doc = "the rank to blame, as numbered in the group of the call; -1: nobody in particular"] pub rank: i32,
    #[doc = "its process, as its own machine numbers it; 0: not known"] pub pid: i64,
    #[doc = "errno of the system call that failed, on the rank to blame; 0: it was none"] pub os_error: i32,
    #[doc = "CUresult of the driver call that failed, on the rank to blame; 0: it was none"] pub cuda_result: i32,
    #[doc = "as symm_last_error()"] pub message: [::core::ffi::c_char; 1024usize],
}
/// How long a call may wait; NULL means the defaults.
pub struct symm_wait_options_t {
    pub struct_size: usize,
    #[doc = "0: the group's"] pub timeout_ms: u64,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// What is known of one device. Filled by symm_device_info().
pub struct symm_device_info_t {
    pub struct_size: usize,
    pub backend: symm_backend_t,
    pub device: i32,
    #[doc = "total memory"] pub memory_bytes: u64,
    #[doc = "processors this process may use, or multiprocessors"] pub compute_units: i32,
    #[doc = "1 if multicast addresses can be had by asking for them (SYMM_GROUP_MULTICAST)"] pub multicast: i32,
    #[doc = "1 if memory can be had by fabric handles, which was tried, and so can be shared across machines"] pub fabric: i32,
    #[doc = "1 if memory can be exported as DMA-BUF"] pub dmabuf: i32,
    #[doc = "product name"] pub name: [::core::ffi::c_char; 128usize],
    #[doc = "GPU UUID; for the host, the boot id"] pub uuid: [::core::ffi::c_char; 64usize],
    #[doc = "why multicast is 0, else \"\""] pub multicast_reason: [::core::ffi::c_char; 128usize],
    #[doc = "why fabric is 0, else \"\""] pub fabric_reason: [::core::ffi::c_char; 128usize],
    #[doc = "why dmabuf is 0, else \"\""] pub dmabuf_reason: [::core::ffi::c_char; 128usize],
    #[doc = "1 if SYMM_ALLOC_HOST can be had"] pub host_memory: i32,
    #[doc = "of the host, nearest to the device; -1 if unknown, and for the host itself"] pub numa_node: i32,
    #[doc = "why host_memory is 0, else \"\""] pub host_memory_reason: [::core::ffi::c_char; 128usize],
}
/// Key-value store by which ranks find each other, supplied by the caller. The functions are called only on the thread that is inside symm_group_create(), and must not unwind (no exception, panic or longjmp). They return SYMM_OK or a negative status, which then fails the creation. A key is set once; it begins with symm/ and the name of the group, so a store that serves several creations of one name must keep them apart itself.
pub struct symm_store_t {
    pub struct_size: usize,
    #[doc = "passed to every function"] pub user: *mut ::core::ffi::c_void,
    #[doc = "Store `size` bytes under `key`."] pub set: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            key: *const ::core::ffi::c_char,
            value: *const ::core::ffi::c_void,
            size: usize,
            timeout_ms: u64,
        ) -> symm_status_t,
    >,
    #[doc = "Wait until `key` is there, at most timeout_ms (then SYMM_ERR_TIMEOUT), and copy its value to `value`. If it is longer than `capacity`, return SYMM_ERR_INVALID_ARGUMENT. `\\*out_size` receives its length."] pub get: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            key: *const ::core::ffi::c_char,
            value: *mut ::core::ffi::c_void,
            capacity: usize,
            out_size: *mut usize,
            timeout_ms: u64,
        ) -> symm_status_t,
    >,
}
/// How to make a group. Start from SYMM_GROUP_CONFIG_INIT or symm_group_config_init().
pub struct symm_group_config_t {
    pub struct_size: usize,
    #[doc = "this rank; read only if size > 0"] pub rank: i32,
    #[doc = "number of ranks; 0: rank and size come from the bootstrap"] pub size: i32,
    #[doc = "must be the same on all ranks"] pub backend: symm_backend_t,
    #[doc = "CUDA ordinal or SYMM_DEVICE_AUTO; the host back end ignores it"] pub device: i32,
    #[doc = "enum symm_group_flag_values"] pub flags: u64,
    #[doc = "Where the ranks meet. NULL: $SYMM_BOOTSTRAP, else \"env://\". \"env://\"         rank and size from the launcher (SYMM_\\*, Open MPI, PMI-1 as of MPICH, torchrun, Slurm, or a single process); sources that disagree are an error. \"dir:///path\"    a directory of mode 0700 owned by this user, made if missing; ranks on one machine. \"thread://name\"  ranks are threads of this process; `name` is any string."] pub bootstrap: *const ::core::ffi::c_char,
    #[doc = "if not NULL, used instead of `bootstrap`; needs size > 0"] pub store: *const symm_store_t,
    #[doc = "for create, split and rendezvous; 0: $SYMM_CREATE_TIMEOUT_MS, else 300,000"] pub create_timeout_ms: u64,
    #[doc = "for every other wait; 0: $SYMM_TIMEOUT_MS, else 60,000"] pub timeout_ms: u64,
    #[doc = "tells apart concurrent groups with the same bootstrap; shown in messages; NULL: \"\""] pub name: *const ::core::ffi::c_char,
    #[doc = "at most for the group's scratch, on each rank, and for that of each group made of this one; the same     on all ranks; 0: what is fastest. With less, large messages take longer"] pub scratch_bytes: u64,
    #[doc = "barrier channels, and signal channels of a memory that asks for no other number; the same on all ranks; 0: 64"] pub channels: i32,
    #[doc = "NULL, or receives the failure of symm_group_create()"] pub failure: *mut symm_failure_t,
}
/// How to shrink a group; NULL means the defaults.
pub struct symm_group_shrink_options_t {
    pub struct_size: usize,
    #[doc = "0: the group's create_timeout_ms"] pub timeout_ms: u64,
    #[doc = "of the new group; NULL: that of the old one"] pub name: *const ::core::ffi::c_char,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// What is known of a group. Filled by symm_group_info().
pub struct symm_group_info_t {
    pub struct_size: usize,
    pub rank: i32,
    pub size: i32,
    pub backend: symm_backend_t,
    pub device: i32,
    #[doc = "the same on all ranks, different for every group"] pub id: u64,
    #[doc = "barrier channels, and signal channels of a memory by default: 0 .. channels-1"] pub channels: i32,
    #[doc = "peers whose death is noticed by their closed socket only, for want of a pidfd"] pub unwatched_peers: i32,
    #[doc = "connection attempts refused during creation: wrong user or wrong group"] pub rejected_connections: u64,
    #[doc = "what the ranks were found by, for instance \"env:// (Open MPI)\""] pub bootstrap: [::core::ffi::c_char; 64usize],
    pub name: [::core::ffi::c_char; 64usize],
    #[doc = "1 if its memories are given multicast addresses"] pub multicast: i32,
    #[doc = "why multicast is 0, else \"\"; the same on all ranks"] pub multicast_reason: [::core::ffi::c_char; 192usize],
    #[doc = "that the group takes on this rank, of memory of its own"] pub scratch_bytes: u64,
    #[doc = "of a group of this back end"] pub max_ranks: i32,
    #[doc = "of a group; 0: no limit"] pub max_memories: i32,
    #[doc = "of a group or memory"] pub max_channels: i32,
    #[doc = "of each kind, in a process"] pub max_handles: i32,
    #[doc = "bytes of a name that are kept"] pub max_name: i32,
}
/// Health of a group. Filled by symm_group_status().
pub struct symm_group_status_t {
    pub struct_size: usize,
    #[doc = "SYMM_OK, or why the group was revoked"] pub status: symm_status_t,
    #[doc = "rank that caused it, -1 if none"] pub failed_rank: i32,
    #[doc = "its process id where known, else 0"] pub failed_pid: i64,
    #[doc = "\"\" while status is SYMM_OK"] pub message: [::core::ffi::c_char; 256usize],
}
/// What is known of one rank of a group. Filled by symm_peer_info().
pub struct symm_peer_info_t {
    pub struct_size: usize,
    pub rank: i32,
    pub backend: symm_backend_t,
    #[doc = "as that rank's process numbers it"] pub device: i32,
    #[doc = "0 once its death or departure was noticed"] pub alive: i32,
    #[doc = "as seen from here; 0 if its process is in another pid namespace"] pub pid: i64,
    #[doc = "its host name"] pub host: [::core::ffi::c_char; 64usize],
    #[doc = "boot id of its kernel: ranks with the same one can share memory"] pub machine: [::core::ffi::c_char; 64usize],
    #[doc = "of its GPU; for the host back end, the boot id"] pub uuid: [::core::ffi::c_char; 64usize],
}
/// What this rank has done on a group so far, calls that succeeded unless it says otherwise. Filled by symm_group_stats().
pub struct symm_group_stats_t {
    pub struct_size: usize,
    #[doc = "by symm_collective_t"] pub collective_calls: [u64; 32usize],
    #[doc = "by symm_collective_t: count times the size of an element, of each call"] pub collective_bytes: [u64; 32usize],
    #[doc = "by symm_algorithm_t; calls that needed none, as those of one rank, are under AUTO"] pub algorithm_calls: [u64; 32usize],
    pub barriers: u64,
    pub signals_sent: u64,
    pub signals_taken: u64,
    #[doc = "collectives, barriers and waits that failed"] pub failures: u64,
    #[doc = "waits on the host that did not end while they spun"] pub sleeps: u64,
    #[doc = "how long those took, in sum"] pub slept_ns: u64,
    #[doc = "symm_wait_signal_value(), symm_wait_signals(), symm_wait_value32() and symm_wait_value64()"] pub waits: u64,
}
/// How to allocate; NULL means the defaults.
pub struct symm_alloc_options_t {
    pub struct_size: usize,
    #[doc = "enum symm_alloc_flag_values"] pub flags: u64,
    #[doc = "of SYMM_ALLOC_HOST; SYMM_NODE_NEAREST: to the device, with the host back end to the calling thread"] pub numa_node: i32,
    #[doc = "of the address of this rank's block here, a power of two; 0: as symm_buffer_pointer() says"] pub alignment: u64,
    #[doc = "least size of its pages, a power of two; 0: the system's, of which the kernel may join some. On the host larger ones are huge pages (2 MiB and 1 GiB on x86-64), which an administrator has set aside"] pub page_bytes: u64,
    #[doc = "shown in messages, cut to 63 bytes; NULL: \"\""] pub name: *const ::core::ffi::c_char,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// How to adopt; NULL means the defaults.
pub struct symm_adopt_options_t {
    pub struct_size: usize,
    #[doc = "a memfd, with the host back end, where `pointer` is NULL; -1: none"] pub fd: i32,
    #[doc = "of the piece in it, a multiple of 16"] pub offset: u64,
    #[doc = "shown in messages, cut to 63 bytes; NULL: \"\""] pub name: *const ::core::ffi::c_char,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// What is known of a buffer. Filled by symm_buffer_info().
pub struct symm_buffer_info_t {
    pub struct_size: usize,
    pub backend: symm_backend_t,
    #[doc = "0 with the host back end"] pub device: i32,
    #[doc = "asked for"] pub bytes: u64,
    #[doc = "of address space, and of memory where it was not adopted"] pub mapped_bytes: u64,
    #[doc = "enum symm_buffer_flag_values"] pub flags: u64,
    #[doc = "that was asked for, else SYMM_NODE_NEAREST"] pub numa_node: i32,
    #[doc = "that it has become and that live"] pub memories: i32,
    #[doc = "as symm_buffer_pointer()"] pub pointer: *mut ::core::ffi::c_void,
    #[doc = "size of the pages that its memory is made of; 0: adopted from a device, not known"] pub page_bytes: u64,
    pub name: [::core::ffi::c_char; 64usize],
}
/// How to meet; NULL means the defaults.
pub struct symm_rendezvous_options_t {
    pub struct_size: usize,
    #[doc = "calls with equal tags meet, in the order in which they are made; 0 is as good as any"] pub tag: u64,
    #[doc = "0: the group's create_timeout_ms"] pub timeout_ms: u64,
    #[doc = "signal channels of the memory, the same on all ranks; 0: as many as the group has"] pub channels: i32,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// What is known of a memory. Filled by symm_memory_info().
pub struct symm_memory_info_t {
    pub struct_size: usize,
    pub rank: i32,
    #[doc = "ranks"] pub size: i32,
    #[doc = "of each block"] pub bytes: u64,
    #[doc = "the same on all ranks"] pub id: u64,
    #[doc = "signal channels"] pub channels: i32,
    #[doc = "of each pad: channels \\* size \\* 8"] pub signal_pad_bytes: i32,
    #[doc = "1 if it has a multicast address, then on all ranks"] pub multicast: i32,
    #[doc = "why multicast is 0, else \"\"; the same on all ranks"] pub multicast_reason: [::core::ffi::c_char; 192usize],
}
/// A memory as kernels see it; symm::device::Memory of symm/device.cuh is this struct. All pointers are device addresses. symm_memory_device_view() fills it.
pub struct symm_memory_view_t {
    pub struct_size: usize,
    #[doc = "SYMM_MEMORY_VIEW_LAYOUT of the library; a kernel that knows another must not use the pads"] pub layout: u32,
    pub rank: i32,
    #[doc = "ranks"] pub size: i32,
    #[doc = "signal channels"] pub channels: i32,
    #[doc = "symm_memory_pointer_table()"] pub blocks: *const *mut ::core::ffi::c_void,
    #[doc = "symm_memory_signal_pad_table()"] pub pads: *const *mut u64,
    #[doc = "counts of signals that this rank has taken"] pub taken: *mut u64,
    #[doc = "of each wait; UINT64_MAX: none"] pub timeout_ns: u64,
    #[doc = "a word that ends all waits when it becomes other than 0; NULL: none"] pub stop: *const u32,
}
/// How to make a heap; NULL means the defaults.
pub struct symm_heap_options_t {
    pub struct_size: usize,
    #[doc = "as in symm_alloc_options_t"] pub flags: u64,
    #[doc = "as there"] pub numa_node: i32,
    #[doc = "of the block, and so the most that a piece can have; as there"] pub alignment: u64,
    #[doc = "as there"] pub page_bytes: u64,
    #[doc = "as there"] pub name: *const ::core::ffi::c_char,
    #[doc = "0: the group's create_timeout_ms"] pub timeout_ms: u64,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// What is known of a heap. Filled by symm_heap_info().
pub struct symm_heap_info_t {
    pub struct_size: usize,
    #[doc = "of each rank's block"] pub bytes: u64,
    #[doc = "in pieces, each a multiple of 256"] pub used_bytes: u64,
    #[doc = "the most that were ever used at once"] pub peak_bytes: u64,
    #[doc = "the rest"] pub free_bytes: u64,
    #[doc = "bytes of the largest free piece: more cannot be had at once"] pub largest_free: u64,
    #[doc = "in use"] pub pieces: u64,
    #[doc = "that the free bytes lie in"] pub free_pieces: u64,
    #[doc = "of symm_heap_alloc() and symm_heap_free() that went well"] pub calls: u64,
    #[doc = "per mille of the free bytes that are not in the largest free piece"] pub fragmentation: u64,
    #[doc = "as given, cut to 63 bytes"] pub name: [::core::ffi::c_char; 64usize],
}
/// One of the signals that symm_wait_signals() waits for, as the arguments of symm_wait_signal_value().
pub struct symm_signal_wait_t {
    pub struct_size: usize,
    pub rank: i32,
    pub channel: i32,
    pub compare: symm_compare_t,
    pub value: u64,
}
/// Options of one collective call; NULL means the defaults.  symm_allreduce(), symm_reduce_scatter() and symm_reduce() of floats can multiply by a factor, and leave the sum of narrow ones unrounded. Operands are then converted to f32 (F64: f64), multiplied (BEFORE), combined in rank order, divided (AVG), multiplied (AFTER), and rounded once to the type of the result; the factor is rounded to f32 (F64: f64) first. Every algorithm but those of multicast gives the same bits; its limits on bytes count f32 (F64: f64). With a position one of scale and scale_pointer, and not both, is other than 0; without, both are 0. All of it must agree on all ranks, but for what scale_pointer points to: each rank's factor is for its own operand (BEFORE) or result (AFTER). INVALID_ARGUMENT: a factor with integers, another result_dtype than F32 of F16, BF16 and F8, either of them without a reduction. With a result_dtype other than dtype no form is in place.
pub struct symm_collective_options_t {
    pub struct_size: usize,
    #[doc = "force one; must be the same on all ranks"] pub algorithm: symm_algorithm_t,
    #[doc = "0: the group's"] pub timeout_ms: u64,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
    #[doc = "whether, and where, there is a factor"] pub scale_position: symm_scale_t,
    #[doc = "of recv; 0: dtype"] pub result_dtype: symm_dtype_t,
    #[doc = "the factor, finite"] pub scale: f64,
    #[doc = "the factor as one aligned f32 in memory that the device (host back end: the host) reads when the call runs; so a captured call takes a new one at each replay"] pub scale_pointer: *const ::core::ffi::c_void,
}
/// The algorithm chosen for a call, and why. Filled by symm_collective_plan().
pub struct symm_plan_info_t {
    pub struct_size: usize,
    pub algorithm: symm_algorithm_t,
    #[doc = "parts into which the work is divided among the ranks"] pub slices: i32,
    #[doc = "bytes moved per step and rank when staged, else 0"] pub chunk_bytes: u64,
    #[doc = "1 if results bypass the cache"] pub nontemporal: i32,
    pub reason: [::core::ffi::c_char; 192usize],
}
/// One call of a collective.
pub struct symm_collective_call_t {
    pub struct_size: usize,
    pub collective: symm_collective_t,
    pub send: *const ::core::ffi::c_void,
    pub recv: *mut ::core::ffi::c_void,
    #[doc = "as the collective's own count argument"] pub count: usize,
    pub dtype: symm_dtype_t,
    #[doc = "ignored where the collective has none"] pub op: symm_op_t,
    #[doc = "likewise"] pub root: i32,
    #[doc = "this and what follows likewise"] pub send_counts: *const usize,
    pub send_displacements: *const usize,
    pub recv_counts: *const usize,
    pub recv_displacements: *const usize,
    #[doc = "whose `count` is row_count"] pub rows: usize,
    pub recv_stride: usize,
}
/// How to export; NULL means the defaults.
pub struct symm_ipc_export_options_t {
    pub struct_size: usize,
    #[doc = "keep the memory for this token, though its buffer is released, for as long from now; 0: $SYMM_IPC_HOLD_MS, else do not"] pub hold_ms: u64,
    #[doc = "or until so many imports of this token were made; 0: only hold_ms ends it"] pub hold_imports: u64,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// How to import; NULL means the defaults.
pub struct symm_ipc_import_options_t {
    pub struct_size: usize,
    #[doc = "for the exporter's answer; 0: $SYMM_TIMEOUT_MS, else 60,000"] pub timeout_ms: u64,
    #[doc = "where $SYMM_IPC_DIRECTORY of the exporter is seen here; NULL: under the same path"] pub directory: *const ::core::ffi::c_char,
    #[doc = "CUDA ordinal for which to map; SYMM_DEVICE_AUTO: the GPU that has the memory"] pub device: i32,
    #[doc = "NULL, or receives the failure of this call"] pub failure: *mut symm_failure_t,
}
/// What is known of an import. Filled by symm_ipc_info().
pub struct symm_ipc_info_t {
    pub struct_size: usize,
    pub backend: symm_backend_t,
    #[doc = "for which it is mapped here; 0 with the host back end"] pub device: i32,
    #[doc = "of the piece"] pub bytes: u64,
    #[doc = "of the piece in the exporter's block"] pub offset: u64,
    #[doc = "of that block"] pub block_bytes: u64,
    #[doc = "as the exporter itself knows it"] pub exporter_pid: i64,
    #[doc = "0 once its death or departure was noticed"] pub exporter_alive: i32,
    #[doc = "1 if the host may touch it: of the host back end, or of SYMM_ALLOC_HOST"] pub host_memory: i32,
}
/// Who holds leases on a piece of memory. Filled by symm_ipc_holders().
pub struct symm_ipc_holders_t {
    pub struct_size: usize,
    #[doc = "on any part of the piece; 0: nobody holds it now"] pub leases: u64,
    #[doc = "that hold them"] pub processes: u64,
    #[doc = "one of these, 0 if there is none or its pid is not visible here"] pub pid: i64,
    #[doc = "1 if a process that held the block is gone, but may still write to it"] pub quarantined: i32,
}
/// What collections have done since the process began, of symm_ipc_collect() and of the library's own: the difference of two reports is what happened in between. Filled by symm_ipc_collect().
#[derive(Default, PartialEq, Eq)]
pub struct symm_ipc_report_t {
    pub struct_size: usize,
    #[doc = "found released by their holders"] pub leases_ended: u64,
    #[doc = "of holders that died"] pub leases_written_off: u64,
    #[doc = "released buffers that nobody holds any more"] pub blocks_freed: u64,
    #[doc = "of these"] pub bytes_freed: u64,
    #[doc = "of other processes' memory, kept here for the next import"] pub mappings_dropped: u64,
    #[doc = "released buffers that somebody still holds now"] pub blocks_in_limbo: u64,
    #[doc = "of these"] pub bytes_in_limbo: u64,
}
/// The state of sharing in this process. Filled by symm_ipc_stats().
#[derive(Default, PartialEq, Eq)]
pub struct symm_ipc_stats_t {
    pub struct_size: usize,
    #[doc = "made so far"] pub tokens: u64,
    #[doc = "that can be imported now"] pub exported_blocks: u64,
    #[doc = "of these"] pub exported_bytes: u64,
    #[doc = "leases given so far"] pub grants: u64,
    #[doc = "leases that others, and this process, hold on memory of this process"] pub leased: u64,
    #[doc = "on which there are leases"] pub leased_blocks: u64,
    #[doc = "released, but still held"] pub limbo_blocks: u64,
    #[doc = "of these"] pub limbo_bytes: u64,
    #[doc = "on which a holder that is gone may still write; never to be used again"] pub quarantined_blocks: u64,
    #[doc = "of these"] pub quarantined_bytes: u64,
    #[doc = "leases of dead holders so far"] pub written_off: u64,
    #[doc = "imports refused so far: forged, stale"] pub refused: u64,
    #[doc = "of other users, or that broke the protocol"] pub rejected_connections: u64,
    #[doc = "processes connected to this one"] pub consumers: u64,
    #[doc = "imports from other processes that are not released; those of its own count as `leased`"] pub imported: u64,
    #[doc = "mapped here for them, or kept for the next"] pub imported_blocks: u64,
    #[doc = "of these"] pub imported_bytes: u64,
    #[doc = "processes to which this one is connected"] pub exporters: u64,
    #[doc = "run so far"] pub collections: u64,
    #[doc = "age of the oldest lease, 0 if there is none"] pub oldest_lease_ms: u64,
    #[doc = "its holder, 0 if the pid is not visible here"] pub oldest_lease_pid: i64,
    #[doc = "of the holder, in clock ticks since boot (/proc/\\<pid>/stat, field 22), 0 if unknown"] pub oldest_lease_start_time: u64,
}
}

functions! {
/// Version of the loaded library, encoded like SYMM_VERSION. \[local\]
pub fn symm_version() -> u32;
/// Static JSON object: version, git revision, compiler, back ends, CUDA architectures, SIMD targets. \[local\]
pub fn symm_build_info() -> *const ::core::ffi::c_char;
/// Static name of a status, "unknown status" for a value of a newer library. \[local\]
pub fn symm_status_string(status: symm_status_t) -> *const ::core::ffi::c_char;
/// Message of the last failing call on this thread: one line of UTF-8, "" before the first failure. \[local\]
pub fn symm_last_error() -> *const ::core::ffi::c_char;
/// What the last failing call on this thread failed of, and who is to blame. \[local\]
pub fn symm_last_failure(out: *mut symm_failure_t) -> symm_status_t;
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_wait_options_init(options: *mut symm_wait_options_t, struct_size: usize) -> symm_status_t;
/// Send log messages of at most `level` to `callback`, for the whole process, beside all other listeners. \[local\]
pub fn symm_log_add_listener(callback: symm_log_callback_t, user: *mut ::core::ffi::c_void, level: symm_log_level_t, out_id: *mut u64) -> symm_status_t;
/// The same, to a descriptor: for languages whose code must not run on threads of the library. \[local\]
pub fn symm_log_to_fd(fd: i32, level: symm_log_level_t, out_id: *mut u64) -> symm_status_t;
/// End a listener. \[local\]
pub fn symm_log_remove_listener(id: u64) -> symm_status_t;
/// Size of one element in bytes. \[local\]
pub fn symm_dtype_size(dtype: symm_dtype_t, out_bytes: *mut usize) -> symm_status_t;
/// Number of devices of a back end.
pub fn symm_device_count(backend: symm_backend_t, out_count: *mut i32) -> symm_status_t;
/// Describe device `device` of `backend`. \[local\]
pub fn symm_device_info(backend: symm_backend_t, device: i32, out: *mut symm_device_info_t) -> symm_status_t;
/// Links between the devices of a back end. \[local\]
pub fn symm_topology(backend: symm_backend_t, out_class: *mut symm_topology_class_t, out_links: *mut i32, capacity: usize) -> symm_status_t;
/// Set the first `struct_size` bytes of `config` to the defaults. \[local\]
pub fn symm_group_config_init(config: *mut symm_group_config_t, struct_size: usize) -> symm_status_t;
/// Form a group. \[collective\] \[blocking, create_timeout_ms\]
pub fn symm_group_create(config: *const symm_group_config_t, out: *mut *mut symm_group_t) -> symm_status_t;
/// Divide a group. \[collective over `group`\] \[blocking, create_timeout_ms\]
pub fn symm_group_split(group: *mut symm_group_t, color: i32, key: i32, out: *mut *mut symm_group_t) -> symm_status_t;
/// Form a group of some ranks of another. \[collective over `ranks`\] \[blocking, create_timeout_ms\]
pub fn symm_group_create_from_ranks(group: *mut symm_group_t, ranks: *const i32, count: usize, out: *mut *mut symm_group_t) -> symm_status_t;
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_group_shrink_options_init(options: *mut symm_group_shrink_options_t, struct_size: usize) -> symm_status_t;
/// Form a group of those ranks of `group` that are alive and have not released it, in their old order. \[collective over these\] \[blocking, options.timeout_ms\]
pub fn symm_group_shrink(group: *mut symm_group_t, options: *const symm_group_shrink_options_t, out: *mut *mut symm_group_t) -> symm_status_t;
/// Which rank of `group` is rank `rank` of `other`. \[local\]
pub fn symm_group_translate_rank(group: *mut symm_group_t, other: *mut symm_group_t, rank: i32, out_rank: *mut i32) -> symm_status_t;
/// This process's rank in the group. \[local\]
pub fn symm_group_rank(group: *mut symm_group_t, out_rank: *mut i32) -> symm_status_t;
/// Number of ranks. \[local\]
pub fn symm_group_size(group: *mut symm_group_t, out_size: *mut i32) -> symm_status_t;
/// Describe a group. \[local\]
pub fn symm_group_info(group: *mut symm_group_t, out: *mut symm_group_info_t) -> symm_status_t;
/// Ask whether the group was revoked, and why. \[local\]
pub fn symm_group_status(group: *mut symm_group_t, out: *mut symm_group_status_t) -> symm_status_t;
/// Which ranks this rank knows to be dead, or to have released the group. \[local\]
pub fn symm_group_failed_ranks(group: *mut symm_group_t, out_ranks: *mut i32, capacity: usize, out_count: *mut usize) -> symm_status_t;
/// A descriptor for event loops, which becomes readable, and stays so, when the group is revoked: then ask symm_group_status(). \[local\]
pub fn symm_group_failure_fd(group: *mut symm_group_t, out_fd: *mut i32) -> symm_status_t;
/// Describe rank `rank` of a group, this one or another. \[local\]
pub fn symm_peer_info(group: *mut symm_group_t, rank: i32, out: *mut symm_peer_info_t) -> symm_status_t;
/// Ask what was done on a group. \[local\]
pub fn symm_group_stats(group: *mut symm_group_t, out: *mut symm_group_stats_t) -> symm_status_t;
/// Revoke the group on all ranks: pending and later calls return ABORTED. \[local\]
pub fn symm_group_abort(group: *mut symm_group_t, reason: *const ::core::ffi::c_char) -> symm_status_t;
/// Politely end a group: wait until all ranks have arrived here, so that none sees another leave early. \[collective\] \[blocking, options.timeout_ms\]
pub fn symm_group_finalize(group: *mut symm_group_t, options: *const symm_wait_options_t) -> symm_status_t;
/// Add a reference. \[local\]
pub fn symm_group_retain(group: *mut symm_group_t) -> symm_status_t;
/// Drop a reference. \[local\]
pub fn symm_group_release(group: *mut symm_group_t);
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_alloc_options_init(options: *mut symm_alloc_options_t, struct_size: usize) -> symm_status_t;
/// Allocate this rank's block on the group's device, zeroed. \[local\] \[blocking\]
pub fn symm_alloc(group: *mut symm_group_t, size: usize, options: *const symm_alloc_options_t, out: *mut *mut symm_buffer_t) -> symm_status_t;
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_adopt_options_init(options: *mut symm_adopt_options_t, struct_size: usize) -> symm_status_t;
/// Make a buffer of memory that another library has allocated, to be rendezvoused like one of symm_alloc(). \[local\] \[blocking\]
pub fn symm_buffer_adopt(group: *mut symm_group_t, pointer: *const ::core::ffi::c_void, size: usize, options: *const symm_adopt_options_t, out: *mut *mut symm_buffer_t) -> symm_status_t;
/// Describe a buffer. \[local\]
pub fn symm_buffer_info(buffer: *mut symm_buffer_t, out: *mut symm_buffer_info_t) -> symm_status_t;
/// Find the buffer of this process that `address` lies in, anywhere inside; an adopted one also by the addresses of its owner, as long as he has it mapped there. \[local\]
pub fn symm_buffer_find(address: *const ::core::ffi::c_void, out: *mut *mut symm_buffer_t, out_offset: *mut usize) -> symm_status_t;
/// Export a piece of a buffer as DMA-BUF, for a device of another kind (a network card, say) to map. \[local\]
pub fn symm_buffer_export_dmabuf(buffer: *mut symm_buffer_t, offset: usize, size: usize, out_fd: *mut i32) -> symm_status_t;
/// Address of the block; aligned to at least 4096 bytes and as asked for, an adopted one to 16. \[local\]
pub fn symm_buffer_pointer(buffer: *mut symm_buffer_t, out_pointer: *mut *mut ::core::ffi::c_void) -> symm_status_t;
/// Bytes asked for. \[local\]
pub fn symm_buffer_size(buffer: *mut symm_buffer_t, out_bytes: *mut usize) -> symm_status_t;
/// Add a reference. \[local\]
pub fn symm_buffer_retain(buffer: *mut symm_buffer_t) -> symm_status_t;
/// Drop a reference. \[local\]
pub fn symm_buffer_release(buffer: *mut symm_buffer_t);
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_rendezvous_options_init(options: *mut symm_rendezvous_options_t, struct_size: usize) -> symm_status_t;
/// Exchange blocks: after it, every rank's block is mapped here. \[collective\] \[blocking, options.timeout_ms\]
pub fn symm_rendezvous(group: *mut symm_group_t, buffer: *mut symm_buffer_t, options: *const symm_rendezvous_options_t, out: *mut *mut symm_memory_t) -> symm_status_t;
/// The memory that a buffer has become on a group. \[local\]
pub fn symm_buffer_memory(buffer: *mut symm_buffer_t, group: *mut symm_group_t, out: *mut *mut symm_memory_t) -> symm_status_t;
/// Describe a memory. \[local\]
pub fn symm_memory_info(memory: *mut symm_memory_t, out: *mut symm_memory_info_t) -> symm_status_t;
/// Address at which rank `rank`'s block is mapped here. \[local\]
pub fn symm_memory_pointer(memory: *mut symm_memory_t, rank: i32, out_pointer: *mut *mut ::core::ffi::c_void) -> symm_status_t;
/// Address of rank `rank`'s signal pad: uint64_t pad\[channel\]\[source rank\], zero at first. \[local\]
pub fn symm_memory_signal_pad(memory: *mut symm_memory_t, rank: i32, out_pad: *mut *mut ::core::ffi::c_void) -> symm_status_t;
/// Table of the `size` block addresses, readable by the group's device (and for the host back end, by the host). \[local\]
pub fn symm_memory_pointer_table(memory: *mut symm_memory_t, out_table: *mut *const *mut ::core::ffi::c_void) -> symm_status_t;
/// Table of the `size` pad addresses, as symm_memory_pointer_table(). \[local\]
pub fn symm_memory_signal_pad_table(memory: *mut symm_memory_t, out_table: *mut *const *mut ::core::ffi::c_void) -> symm_status_t;
/// Describe a memory for kernels of your own, to which the struct is passed by value. \[local\]
pub fn symm_memory_device_view(memory: *mut symm_memory_t, timeout_ms: u64, stop: *const ::core::ffi::c_void, out: *mut symm_memory_view_t) -> symm_status_t;
/// Multicast address of the memory: what is stored there reaches all ranks' blocks, and a reducing load combines them, by the multimem instructions of the device (compute capability 9.0); any other access is undefined. \[local\]
pub fn symm_memory_multicast_pointer(memory: *mut symm_memory_t, out_pointer: *mut *mut ::core::ffi::c_void) -> symm_status_t;
/// Find the memory of `group` that maps `address`, which may lie anywhere inside any rank's block. \[local\]
pub fn symm_memory_find(group: *mut symm_group_t, address: *const ::core::ffi::c_void, out: *mut *mut symm_memory_t, out_rank: *mut i32, out_offset: *mut usize) -> symm_status_t;
/// Add a reference. \[local\]
pub fn symm_memory_retain(memory: *mut symm_memory_t) -> symm_status_t;
/// Drop a reference. \[local\]
pub fn symm_memory_release(memory: *mut symm_memory_t);
/// What is issued on `stream` next runs after what was issued on `after_stream`. \[local\] \[stream\]
pub fn symm_stream_wait(group: *mut symm_group_t, stream: *mut ::core::ffi::c_void, after_stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Ask whether all that was issued on `stream` is over. \[local\]
pub fn symm_stream_query(group: *mut symm_group_t, stream: *mut ::core::ffi::c_void, out_done: *mut i32) -> symm_status_t;
/// Wait until all that was issued on `stream` is over, and say what went wrong with the group. \[local\] \[blocking, options.timeout_ms\]
pub fn symm_group_synchronize(group: *mut symm_group_t, stream: *mut ::core::ffi::c_void, options: *const symm_wait_options_t) -> symm_status_t;
/// Say that what was issued on `stream` so far uses the buffer: call it behind the last work there. \[local\] \[stream\]
pub fn symm_buffer_record_use(buffer: *mut symm_buffer_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// The same, of a memory: of all ranks' blocks and pads that are mapped here. \[local\] \[stream\]
pub fn symm_memory_record_use(memory: *mut symm_memory_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_heap_options_init(options: *mut symm_heap_options_t, struct_size: usize) -> symm_status_t;
/// Make a heap of `bytes` on every rank. \[collective\] \[blocking, options.timeout_ms\]
pub fn symm_heap_create(group: *mut symm_group_t, bytes: usize, options: *const symm_heap_options_t, out: *mut *mut symm_heap_t) -> symm_status_t;
/// Take a piece of this rank's block. \[local\]
pub fn symm_heap_alloc(heap: *mut symm_heap_t, size: usize, alignment: usize, out_pointer: *mut *mut ::core::ffi::c_void, out_offset: *mut usize) -> symm_status_t;
/// Give a piece back. \[local\]
pub fn symm_heap_free(heap: *mut symm_heap_t, pointer: *mut ::core::ffi::c_void) -> symm_status_t;
/// Find the piece that contains `address`, anywhere between its first and its last byte in this rank's block. \[local\]
pub fn symm_heap_find(heap: *mut symm_heap_t, address: *const ::core::ffi::c_void, out_pointer: *mut *mut ::core::ffi::c_void, out_size: *mut usize) -> symm_status_t;
/// The memory that the pieces lie in. \[local\]
pub fn symm_heap_memory(heap: *mut symm_heap_t, out: *mut *mut symm_memory_t) -> symm_status_t;
/// Describe a heap. \[local\]
pub fn symm_heap_info(heap: *mut symm_heap_t, out: *mut symm_heap_info_t) -> symm_status_t;
/// Add a reference. \[local\]
pub fn symm_heap_retain(heap: *mut symm_heap_t) -> symm_status_t;
/// Drop a reference. \[local\]
pub fn symm_heap_release(heap: *mut symm_heap_t);
/// Wait until all ranks of a set are here. \[collective over the set\] \[stream\]
pub fn symm_barrier(group: *mut symm_group_t, ranks: *const i32, count: usize, channel: i32, options: *const symm_wait_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Add one to the signals that this rank has sent to `rank` on `channel`. \[local\] \[stream\]
pub fn symm_signal(memory: *mut symm_memory_t, rank: i32, channel: i32, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// The same with a value: add it to the word, or set the word to it. \[local\] \[stream\]
pub fn symm_signal_value(memory: *mut symm_memory_t, rank: i32, channel: i32, op: symm_signal_op_t, value: u64, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Take one signal from `rank` on `channel`, waiting for it if need be. \[local\] \[stream\]
pub fn symm_wait_signal(memory: *mut symm_memory_t, rank: i32, channel: i32, options: *const symm_wait_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Wait until the word from `rank` on `channel` compares so with `value`. \[local\] \[stream\]
pub fn symm_wait_signal_value(memory: *mut symm_memory_t, rank: i32, channel: i32, compare: symm_compare_t, value: u64, options: *const symm_wait_options_t, out_seen: *mut u64, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Wait for several signals. \[local\] \[stream\]
pub fn symm_wait_signals(memory: *mut symm_memory_t, waits: *const symm_signal_wait_t, count: usize, any: i32, options: *const symm_wait_options_t, out_index: *mut usize, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// How many signals from `rank` on `channel` are there and not taken. \[local\]
pub fn symm_test_signal(memory: *mut symm_memory_t, rank: i32, channel: i32, out_pending: *mut u64) -> symm_status_t;
/// The word from `rank` on `channel`, likewise. \[local\]
pub fn symm_test_signal_value(memory: *mut symm_memory_t, rank: i32, channel: i32, out_value: *mut u64) -> symm_status_t;
/// Copy `size` bytes to `offset` in rank `rank`'s block. \[local\] \[stream\]
pub fn symm_put(memory: *mut symm_memory_t, rank: i32, offset: usize, source: *const ::core::ffi::c_void, size: usize, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Copy `size` bytes from `offset` in rank `rank`'s block to `destination`. \[local\] \[stream\]
pub fn symm_get(memory: *mut symm_memory_t, rank: i32, offset: usize, destination: *mut ::core::ffi::c_void, size: usize, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// symm_put(), then symm_signal() on `channel`, in one call. \[local\] \[stream\]
pub fn symm_put_signal(memory: *mut symm_memory_t, rank: i32, offset: usize, source: *const ::core::ffi::c_void, size: usize, channel: i32, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Store `count` copies of a 32-bit value at `offset` (a multiple of 4) in rank `rank`'s block. \[local\] \[stream\]
pub fn symm_fill32(memory: *mut symm_memory_t, rank: i32, offset: usize, value: u32, count: usize, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Store one 32-bit value at `offset` (a multiple of 4) in rank `rank`'s block, after everything that this rank wrote before (release order). \[local\] \[stream\]
pub fn symm_write_value32(memory: *mut symm_memory_t, rank: i32, offset: usize, value: u32, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Store one 64-bit value at `offset` (a multiple of 8), likewise. \[local\] \[stream\]
pub fn symm_write_value64(memory: *mut symm_memory_t, rank: i32, offset: usize, value: u64, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Wait until the word at `offset` (a multiple of 4) in this rank's own block compares so with `value`, whoever writes it, by whatever means. \[local\] \[stream\]
pub fn symm_wait_value32(memory: *mut symm_memory_t, offset: usize, compare: symm_compare_t, value: u32, options: *const symm_wait_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// The same for a word of 64 bits (`offset` is a multiple of 8). \[local\] \[stream\]
pub fn symm_wait_value64(memory: *mut symm_memory_t, offset: usize, compare: symm_compare_t, value: u64, options: *const symm_wait_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_collective_options_init(options: *mut symm_collective_options_t, struct_size: usize) -> symm_status_t;
/// recv\[i\] = op over ranks r of send_r\[i\], i \< count, on every rank.
pub fn symm_allreduce(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, count: usize, dtype: symm_dtype_t, op: symm_op_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[i\] = op over ranks r of send_r\[rank \* recv_count + i\], i \< recv_count; send has size \* recv_count elements.
pub fn symm_reduce_scatter(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, recv_count: usize, dtype: symm_dtype_t, op: symm_op_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[r \* send_count + i\] = send_r\[i\], i \< send_count; recv has size \* send_count elements.
pub fn symm_allgather(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, send_count: usize, dtype: symm_dtype_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[i\] = send_root\[i\], i \< count; send is read on the root only.
pub fn symm_broadcast(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, count: usize, dtype: symm_dtype_t, root: i32, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[i\] = op over ranks r of send_r\[i\] on the root; recv is written on the root only.
pub fn symm_reduce(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, count: usize, dtype: symm_dtype_t, op: symm_op_t, root: i32, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[r \* count + i\] = send_r\[rank \* count + i\], i \< count; both have size \* count elements.
pub fn symm_alltoall(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, count: usize, dtype: symm_dtype_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[recv_displacements\[r\] + i\] = send_r\[i\], i \< recv_counts\[r\]; send has recv_counts\[rank\] elements.
pub fn symm_allgatherv(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, recv_counts: *const usize, recv_displacements: *const usize, dtype: symm_dtype_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[i\] = op over ranks r of send_r\[send_displacements_r\[rank\] + i\], i \< send_counts\[rank\].
pub fn symm_reduce_scatterv(group: *mut symm_group_t, send: *const ::core::ffi::c_void, send_counts: *const usize, send_displacements: *const usize, recv: *mut ::core::ffi::c_void, dtype: symm_dtype_t, op: symm_op_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[recv_displacements\[r\] + i\] = send_r\[send_displacements_r\[rank\] + i\], i \< recv_counts\[r\], which is send_counts_r\[rank\].
pub fn symm_alltoallv(group: *mut symm_group_t, send: *const ::core::ffi::c_void, send_counts: *const usize, send_displacements: *const usize, recv: *mut ::core::ffi::c_void, recv_counts: *const usize, recv_displacements: *const usize, dtype: symm_dtype_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// symm_alltoallv() whose counts and displacements are read when it runs, from memory that the device (host back end: the host) can read: a captured call takes new ones at each replay.
pub fn symm_alltoallv_device(group: *mut symm_group_t, send: *const ::core::ffi::c_void, send_capacity: usize, send_counts: *const u64, send_displacements: *const u64, recv: *mut ::core::ffi::c_void, recv_capacity: usize, recv_counts: *const u64, recv_displacements: *const u64, dtype: symm_dtype_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[r \* count + i\] = send_r\[i\], i \< count, on the root; recv is written on the root only.
pub fn symm_gather(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, count: usize, dtype: symm_dtype_t, root: i32, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// recv\[i\] = send_root\[rank \* count + i\], i \< count; send is read on the root only.
pub fn symm_scatter(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, count: usize, dtype: symm_dtype_t, root: i32, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// All-gather along the last dimension: recv\[row \* recv_stride + r \* row_count + i\] = send_r\[row \* row_count + i\], row \< rows, i \< row_count.
pub fn symm_allgather_rows(group: *mut symm_group_t, send: *const ::core::ffi::c_void, recv: *mut ::core::ffi::c_void, rows: usize, row_count: usize, recv_stride: usize, dtype: symm_dtype_t, options: *const symm_collective_options_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Which algorithm a collective would use if every rank passed memory like this rank's. \[local\]
pub fn symm_collective_plan(group: *mut symm_group_t, call: *const symm_collective_call_t, options: *const symm_collective_options_t, out: *mut symm_plan_info_t) -> symm_status_t;
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_ipc_export_options_init(options: *mut symm_ipc_export_options_t, struct_size: usize) -> symm_status_t;
/// Make a token for `size` bytes at `pointer`. \[local\] \[stream\]
pub fn symm_ipc_export(pointer: *const ::core::ffi::c_void, size: usize, options: *const symm_ipc_export_options_t, out_token: *mut ::core::ffi::c_void, capacity: usize, out_size: *mut usize, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
pub fn symm_ipc_import_options_init(options: *mut symm_ipc_import_options_t, struct_size: usize) -> symm_status_t;
/// Map the memory that a token names. \[local\] \[blocking, options.timeout_ms\] \[stream\]
pub fn symm_ipc_import(token: *const ::core::ffi::c_void, token_size: usize, options: *const symm_ipc_import_options_t, out: *mut *mut symm_ipc_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Address of the imported piece; NULL of 0 bytes. \[local\]
pub fn symm_ipc_pointer(ipc: *mut symm_ipc_t, out_pointer: *mut *mut ::core::ffi::c_void) -> symm_status_t;
/// Bytes of the imported piece. \[local\]
pub fn symm_ipc_size(ipc: *mut symm_ipc_t, out_bytes: *mut usize) -> symm_status_t;
/// Describe an import. \[local\]
pub fn symm_ipc_info(ipc: *mut symm_ipc_t, out: *mut symm_ipc_info_t) -> symm_status_t;
/// What is issued on `stream` next runs after what the exporter had issued before the export, too. \[local\] \[stream\]
pub fn symm_ipc_stream_wait(ipc: *mut symm_ipc_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Say that what was issued on `stream` so far uses the import: its lease does not end before that is over. \[local\] \[stream\]
pub fn symm_ipc_record_use(ipc: *mut symm_ipc_t, stream: *mut ::core::ffi::c_void) -> symm_status_t;
/// Add a reference. \[local\]
pub fn symm_ipc_retain(ipc: *mut symm_ipc_t) -> symm_status_t;
/// Drop a reference to an import, which ends with the last. \[local\] \[stream\]
pub fn symm_ipc_release(ipc: *mut symm_ipc_t, stream: *mut ::core::ffi::c_void);
/// End the tokens made so far for any part of a piece of memory, and wait until nobody holds a lease on any part of it: then it may be written anew and exported again. \[local\] \[blocking\]
pub fn symm_ipc_withdraw(pointer: *const ::core::ffi::c_void, size: usize, timeout_ms: u64) -> symm_status_t;
/// Ask who holds a piece of memory, without ending its tokens: those who have one may import it at any time. \[local\]
pub fn symm_ipc_holders(pointer: *const ::core::ffi::c_void, size: usize, out: *mut symm_ipc_holders_t) -> symm_status_t;
/// Free what is provably free. \[local\]
pub fn symm_ipc_collect(out: *mut symm_ipc_report_t) -> symm_status_t;
/// Ask for the state of sharing. \[local\]
pub fn symm_ipc_stats(out: *mut symm_ipc_stats_t) -> symm_status_t;
}
