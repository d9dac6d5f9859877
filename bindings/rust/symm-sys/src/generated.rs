// Types, constants and functions of `symm.h`, which says at length what is here in a sentence, for
// the macros of header.rs. Generated from symm.h by bindings/rust/generate. Do not edit.

use crate::MissingSymbol;
use core::ffi::{c_char, c_void};

/// Ranks that share memory, deadlines and failures.
pub type symm_group_t = symm_group;
/// Allocation of one rank.
pub type symm_buffer_t = symm_buffer;
/// Buffer after rendezvous: the block of every rank is mapped here.
pub type symm_memory_t = symm_memory;
/// Memory that is handed out in pieces.
pub type symm_heap_t = symm_heap;
/// Memory of another process, imported by a token.
pub type symm_ipc_t = symm_ipc;
/// Receives log messages, possibly on a thread of the library, and on several threads at once.
/// It must not call into the library, except for symm_log_remove_listener().
pub type symm_log_callback_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        level: symm_log_level_t,
        message: *const c_char,
    ),
>;
/// Says whether the call that the thread is in shall end: 0 if it shall go on. The callback is
/// asked inside of the call, so it must not make calls that wait.
pub type symm_interrupt_callback_t = Option<
    unsafe extern "C" fn(user: *mut c_void) -> i32,
>;
/// Gives memory back when symm_alloc() is short of it, from a cache of the program's or the
/// like. `bytes` is what is wanted on `device` of `backend`. Returns the bytes that it gave
/// back; 0: none. It is called inside of the call that allocates, on its thread, on several
/// threads at once if several allocate. It may call the library to release handles, to collect
/// and to ask, must not wait for other ranks, and must not unwind. What it allocates itself
/// asks no callback.
pub type symm_memory_pressure_callback_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        backend: symm_backend_t,
        device: i32,
        bytes: u64,
    ) -> u64,
>;

enums! {
    /// Result of a call. Values are fixed for ever; new ones may be added.
    pub enum Status: symm_status_t {
        /// The call did what was asked.
        Ok = SYMM_OK = 0,
        /// An argument is out of range; the message names it.
        InvalidArgument = SYMM_ERR_INVALID_ARGUMENT = -1,
        /// What was given names nothing that can be used: a handle is NULL, was released, is of
        /// another type, was inherited through fork(), or belongs to a finalized group or to
        /// memory of one; or the memory of a token was released or withdrawn.
        InvalidHandle = SYMM_ERR_INVALID_HANDLE = -2,
        /// Memory of the host or a device has run out, or a limit on it was hit.
        OutOfMemory = SYMM_ERR_OUT_OF_MEMORY = -3,
        /// This machine has no such device, driver, launcher or feature.
        Unavailable = SYMM_ERR_UNAVAILABLE = -4,
        /// This library does not do that: it is too old, or the back end cannot.
        Unsupported = SYMM_ERR_UNSUPPORTED = -5,
        /// A deadline passed; the message names who was awaited.
        Timeout = SYMM_ERR_TIMEOUT = -6,
        /// symm_group_abort() was called, here or on another rank.
        Aborted = SYMM_ERR_ABORTED = -7,
        /// A rank died or left; the message gives its rank and pid.
        PeerFailed = SYMM_ERR_PEER_FAILED = -8,
        /// Ranks disagree about a size, an operation, a data type, a count or the like.
        Mismatch = SYMM_ERR_MISMATCH = -9,
        /// A system call failed; the message names it and its errno.
        System = SYMM_ERR_SYSTEM = -10,
        /// A call of the CUDA driver failed; the message names it and its result.
        Cuda = SYMM_ERR_CUDA = -11,
        /// A defect of this library.
        Internal = SYMM_ERR_INTERNAL = -13,
        /// A look-up found nothing.
        NotFound = SYMM_ERR_NOT_FOUND = -14,
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
        /// A byte: 0 is false, all else is true; results are 0 or 1.
        Bool = SYMM_DTYPE_BOOL = 1544,
        /// The finite-only variant (float8_e4m3fn of DLPack); finite results saturate at +-448.
        F8e4m3 = SYMM_DTYPE_F8E4M3 = 2568,
        /// Finite results saturate at +-57344; infinite ones stay infinite.
        F8e5m2 = SYMM_DTYPE_F8E5M2 = 3080,
    }

    /// Reduction operation. Ranks are combined in the order 0, 1, ..., size-1, on every rank
    /// and by every algorithm, so the result has the same bits everywhere; symm_algorithm_t
    /// names the exceptions. F16, BF16 and F8 are combined in f32 and rounded once, to nearest
    /// even. An infinite operand gives what it gives in f32, infinity or NaN, in groups of
    /// every size; F8 saturates where all operands are finite, and only there. MIN and MAX
    /// return the bits of an operand, and NaN if any operand is NaN. The payload of a NaN
    /// result is unspecified. Integers wrap. AVG is the sum divided by the number of ranks, for
    /// integers truncated towards zero. For BOOL, SUM and MAX are "or", MIN and PROD are "and",
    /// and AVG is INVALID_ARGUMENT.
    pub enum Op: symm_op_t {
        Sum = SYMM_OP_SUM = 0,
        Avg = SYMM_OP_AVG = 1,
        Min = SYMM_OP_MIN = 2,
        Max = SYMM_OP_MAX = 3,
        Prod = SYMM_OP_PROD = 4,
    }

    /// Where a factor is multiplied in; see symm_collective_options_t.
    pub enum Scale: symm_scale_t {
        /// There is no factor.
        None = SYMM_SCALE_NONE = 0,
        /// Every operand is multiplied before it is combined.
        Before = SYMM_SCALE_BEFORE = 1,
        /// The result is multiplied, after the division of AVG and before rounding.
        After = SYMM_SCALE_AFTER = 2,
    }

    /// What memory a group works on.
    pub enum Backend: symm_backend_t {
        /// $SYMM_BACKEND ("host" or "cuda") if it is set, else the host. A group with
        /// SYMM_GROUP_ON_DEVICE: CUDA.
        Auto = SYMM_BACKEND_AUTO = 0,
        /// Memory that is shared between processes of one machine.
        Host = SYMM_BACKEND_HOST = 1,
        /// Memory of CUDA devices.
        Cuda = SYMM_BACKEND_CUDA = 2,
    }

    /// Collective operation, for symm_collective_plan() and symm_group_collective_stats().
    pub enum Collective: symm_collective_t {
        Allreduce = SYMM_COLLECTIVE_ALLREDUCE = 0,
        ReduceScatter = SYMM_COLLECTIVE_REDUCE_SCATTER = 1,
        Allgather = SYMM_COLLECTIVE_ALLGATHER = 2,
        Broadcast = SYMM_COLLECTIVE_BROADCAST = 3,
        Reduce = SYMM_COLLECTIVE_REDUCE = 4,
        Alltoall = SYMM_COLLECTIVE_ALLTOALL = 5,
        Allgatherv = SYMM_COLLECTIVE_ALLGATHERV = 6,
        ReduceScatterv = SYMM_COLLECTIVE_REDUCE_SCATTERV = 7,
        Alltoallv = SYMM_COLLECTIVE_ALLTOALLV = 8,
        Gather = SYMM_COLLECTIVE_GATHER = 9,
        Scatter = SYMM_COLLECTIVE_SCATTER = 10,
        AllgatherRows = SYMM_COLLECTIVE_ALLGATHER_ROWS = 11,
        AllreduceRmsnorm = SYMM_COLLECTIVE_ALLREDUCE_RMSNORM = 12,
    }

    /// Which elements share a scale of symm_rmsnorm_t.
    pub enum QuantScale: symm_quant_scale_t {
        /// All elements; the caller gives the scale.
        ScaleTensor = SYMM_QUANT_SCALE_TENSOR = 0,
        /// The elements of a row; the scale follows from the largest of them.
        ScaleToken = SYMM_QUANT_SCALE_TOKEN = 1,
        /// Each 128 elements of a row; the scale follows from the largest of them.
        ScaleGroup = SYMM_QUANT_SCALE_GROUP = 2,
    }

    /// Algorithm of a collective. All algorithms give the same bits, with two exceptions. By
    /// MULTIMEM_ONE_SHOT and MULTIMEM_TWO_SHOT the switch adds, in an order of its own, and
    /// HIERARCHICAL has an order of its own for sums, averages and products of floats. These
    /// are used only where they are asked for.
    pub enum Algorithm: symm_algorithm_t {
        /// The library chooses; symm_collective_plan() says what and why.
        Auto = SYMM_ALGORITHM_AUTO = 0,
        /// Flag in data: the message rides in the line that signals it.
        Ll = SYMM_ALGORITHM_LL = 1,
        /// Every rank publishes its input, and every rank combines all inputs.
        OneShot = SYMM_ALGORITHM_ONE_SHOT = 2,
        /// Each rank combines its slice and stores the result to all; on the host without a
        /// copy.
        TwoShot = SYMM_ALGORITHM_TWO_SHOT = 3,
        /// TWO_SHOT in chunks, through memory of the library; takes any buffer.
        TwoShotStaged = SYMM_ALGORITHM_TWO_SHOT_STAGED = 4,
        /// 8 ranks, each of which exchanges data with 4 neighbours only; all-reduce.
        HybridCubeMesh = SYMM_ALGORITHM_HYBRID_CUBE_MESH = 5,
        /// Every rank loads the sum from the multicast address of send; not in place.
        MultimemOneShot = SYMM_ALGORITHM_MULTIMEM_ONE_SHOT = 6,
        /// Each rank loads the sum of its slice and stores it to all, by multicast.
        MultimemTwoShot = SYMM_ALGORITHM_MULTIMEM_TWO_SHOT = 7,
        /// CUDA: LL with a mark of 4 bytes for every 64, for data that moves unchanged.
        Marked = SYMM_ALGORITHM_MARKED = 8,
        /// Several machines: sums that are not rounded yet go from each machine to the next,
        /// and results come back.
        Chain = SYMM_ALGORITHM_CHAIN = 9,
        /// Several machines: TWO_SHOT in as many rounds as the logarithm of the ranks.
        Bruck = SYMM_ALGORITHM_BRUCK = 10,
        /// Several machines: each machine combines the operands of its ranks, then the sums of
        /// the machines are combined. Between GPUs NCCL may do all of that.
        Hierarchical = SYMM_ALGORITHM_HIERARCHICAL = 11,
        /// CUDA: copy engines store what moves unchanged into recv, without kernels.
        CopyEngine = SYMM_ALGORITHM_COPY_ENGINE = 12,
    }

    /// What symm_signal_value() does to a word.
    pub enum SignalOp: symm_signal_op_t {
        Add = SYMM_SIGNAL_ADD = 0,
        Set = SYMM_SIGNAL_SET = 1,
    }

    /// How an awaited word, on the left, compares with a value, on the right; both are
    /// unsigned.
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
        /// Every two devices have a link.
        FullyConnected = SYMM_TOPOLOGY_FULLY_CONNECTED = 1,
        /// 8 devices (DGX-1 with P100 or V100): two quads, in each of which every two devices
        /// have a link, and one link from each device to one device of the other quad.
        HybridCubeMesh = SYMM_TOPOLOGY_HYBRID_CUBE_MESH = 2,
    }

    /// Where a rank's memory is, as seen from another rank; the nearest that holds.
    pub enum Locality: symm_locality_t {
        /// Never given; what a newer version may say is another number.
        Other = SYMM_LOCALITY_UNKNOWN = 0,
        /// In the same device: the rank itself, or one that shares its GPU.
        SameDevice = SYMM_LOCALITY_SAME_DEVICE = 1,
        /// In another GPU, which direct links or a switch of NVLink connect.
        Nvlink = SYMM_LOCALITY_NVLINK = 2,
        /// On the same machine, and at the same NUMA node of its host.
        SameNode = SYMM_LOCALITY_SAME_NODE = 3,
        /// On the same machine, at another NUMA node, or it is not known at which.
        SameMachine = SYMM_LOCALITY_SAME_MACHINE = 4,
        /// On another machine.
        OtherMachine = SYMM_LOCALITY_OTHER_MACHINE = 5,
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
    pub const SYMM_VERSION_MAJOR: u32 = 0;
    pub const SYMM_VERSION_MINOR: u32 = 2;
    pub const SYMM_VERSION_PATCH: u32 = 0;
    pub const SYMM_VERSION: u32 = 512;
    pub const SYMM_UNIQUE_ID_MAX_BYTES: u32 = 128;
    pub const SYMM_MEMORY_VIEW_LAYOUT: u32 = 1;
    pub const SYMM_IPC_TOKEN_MAX_BYTES: u32 = 512;
    /// No deadline.
    pub const SYMM_TIMEOUT_INFINITE: u64 = 18446744073709551615;
    /// Look once instead of waiting. The call succeeds if nothing is missing. Otherwise it
    /// returns TIMEOUT, has taken nothing and has revoked nothing. Accepted by symm_barrier()
    /// and the waits for signals and words of a host group, by symm_group_synchronize(),
    /// symm_ipc_import() and symm_ipc_withdraw(), and by all calls that never wait, to which it
    /// says nothing. A call that is ordered on a CUDA stream and waits, or that needs the other
    /// ranks to act, returns INVALID_ARGUMENT; so do signals, copies and stores to the block of
    /// a rank, which wait when that rank is on another machine.
    pub const SYMM_TIMEOUT_NOW: u64 = 18446744073709551614;
    /// Several ranks may use one CUDA device. A flag of symm_group_config_t and
    /// symm_group_options_t, and of symm_group_info_t.
    pub const SYMM_GROUP_OVERLAPPING_DEVICES: u64 = 1;
    /// Compare the arguments of every collective on all ranks. As SYMM_CHECK=1. A flag of
    /// symm_group_config_t and symm_group_options_t, and of symm_group_info_t.
    pub const SYMM_GROUP_CHECK: u64 = 2;
    /// Give the group's memories multicast addresses where they can be had. As
    /// SYMM_MULTICAST=1. All ranks must ask; see symm_memory_multicast_pointer(). A flag of
    /// symm_group_config_t and symm_group_options_t, and of symm_group_info_t.
    pub const SYMM_GROUP_MULTICAST: u64 = 4;
    /// Groups that are made of this one work in its scratch memory, which they keep alive. The
    /// introduction of this chapter says what this demands of the order of their calls. All
    /// ranks must ask. UNSUPPORTED on the host, where ranks read each other's scratch after a
    /// call. A flag of symm_group_config_t and symm_group_options_t, and of symm_group_info_t.
    pub const SYMM_GROUP_SHARED_SCRATCH: u64 = 8;
    /// All-reduces may combine floats in an order of their own: between machines HIERARCHICAL
    /// is chosen where it is faster. All ranks still get the same result, and a group of the
    /// same layout gets it again. As SYMM_ORDER=any. All ranks must ask. A flag of
    /// symm_group_config_t and symm_group_options_t, and of symm_group_info_t.
    pub const SYMM_GROUP_ANY_ORDER: u64 = 16;
    /// A promise by the caller: in each all-reduce, all-gather, all-to-all and broadcast the
    /// recvs of all ranks are private, or lie at the same offset of the same memory, and all
    /// ranks are in place or none is. Large calls then go by SYMM_ALGORITHM_COPY_ENGINE with
    /// CUDA. All ranks must ask. A flag of symm_group_config_t and symm_group_options_t, and of
    /// symm_group_info_t.
    pub const SYMM_GROUP_SAME_OFFSETS: u64 = 32;
    /// symm_group_config_t.device is the device to use. With SYMM_BACKEND_AUTO the back end is
    /// CUDA then. Not for symm_group_options_t: a group that is made of another uses the device
    /// of that. A flag of symm_group_config_t and symm_group_options_t, and of
    /// symm_group_info_t.
    pub const SYMM_GROUP_ON_DEVICE: u64 = 64;
    /// Combine floats in the order of the ranks, whatever SYMM_ORDER says. The opposite of
    /// SYMM_GROUP_ANY_ORDER. A flag of symm_group_config_t and symm_group_options_t, and of
    /// symm_group_info_t.
    pub const SYMM_GROUP_RANK_ORDER: u64 = 128;
    /// Do not compare the arguments of collectives beyond need, whatever SYMM_CHECK says. The
    /// opposite of SYMM_GROUP_CHECK. A flag of symm_group_config_t and symm_group_options_t,
    /// and of symm_group_info_t.
    pub const SYMM_GROUP_NO_CHECK: u64 = 256;
    /// Give the group's memories no multicast addresses, whatever SYMM_MULTICAST says. The
    /// opposite of SYMM_GROUP_MULTICAST. A flag of symm_group_config_t and
    /// symm_group_options_t, and of symm_group_info_t.
    pub const SYMM_GROUP_NO_MULTICAST: u64 = 512;
    /// Pinned memory of the host, which devices and the host reach alike. A flag of
    /// symm_alloc_options_t and symm_heap_options_t.
    pub const SYMM_ALLOC_HOST: u64 = 1;
    /// numa_node is the node that the memory is on. Goes with SYMM_ALLOC_HOST, and alone with
    /// the host back end. A flag of symm_alloc_options_t and symm_heap_options_t.
    pub const SYMM_ALLOC_ON_NODE: u64 = 2;
    /// The memory is a piece of a memfd, which `fd` and `offset` name. A flag of
    /// symm_adopt_options_t.
    pub const SYMM_ADOPT_FD: u64 = 1;
    /// Allocated by SYMM_ALLOC_HOST, or for a host group. A flag of symm_buffer_info_t.
    pub const SYMM_BUFFER_HOST: u64 = 1;
    /// Made by symm_buffer_adopt(). A flag of symm_buffer_info_t.
    pub const SYMM_BUFFER_ADOPTED: u64 = 2;
    /// All streams. Accepted where a parameter says so, cast to void \* by way of uintptr_t.
    pub const SYMM_ALL_STREAMS: u64 = 18446744073709551615;
    /// Do not keep the memory for this token, whatever $SYMM_IPC_HOLD_MS says. A flag of
    /// symm_ipc_export_options_t.
    pub const SYMM_IPC_NO_HOLD: u64 = 1;
    /// symm_ipc_import_options_t.device is the device for which to map. A flag of
    /// symm_ipc_import_options_t.
    pub const SYMM_IPC_ON_DEVICE: u64 = 1;
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

    /// Everything that is known of one failure. Filled by symm_last_failure().
    /// symm_group_status() fills one with why a group was revoked. Any call that takes options
    /// also writes the failure of that very call to options.failure, if that is not NULL. The
    /// caller must have set its struct_size. Nothing is written when the call succeeds.
    pub struct symm_failure_t {
        pub struct_size: usize,
        pub status: symm_status_t,
        pub rank: i32,
        pub pid: i64,
        pub os_error: i32,
        pub cuda_result: i32,
        pub message: [c_char; 1024],
    }

    /// Options of one call. NULL means the defaults.
    pub struct symm_call_options_t {
        pub struct_size: usize,
        pub timeout_ms: u64,
        pub failure: *mut symm_failure_t,
    }

    /// Facts about one device. Filled by symm_device_info().
    pub struct symm_device_info_t {
        pub struct_size: usize,
        pub backend: symm_backend_t,
        pub device: i32,
        pub memory_bytes: u64,
        pub compute_units: i32,
        pub multicast: i32,
        pub fabric: i32,
        pub dmabuf: i32,
        pub name: [c_char; 128],
        pub uuid: [c_char; 64],
        pub multicast_reason: [c_char; 128],
        pub fabric_reason: [c_char; 128],
        pub dmabuf_reason: [c_char; 128],
        pub host_memory: i32,
        pub numa_node: i32,
        pub host_memory_reason: [c_char; 128],
    }

    /// Key-value store of the caller's, by which ranks find each other. The functions are
    /// called only on the thread that is inside symm_group_create(), and must not unwind (no
    /// exception, panic or longjmp). They return SYMM_OK or an error other than
    /// SYMM_ERR_NOT_FOUND, which then fails the creation. A key is set once. It begins with
    /// symm/ and the name of the group, so a store that serves several creations of one name
    /// must keep them apart itself. A value has at most 65536 bytes.
    pub struct symm_store_t {
        pub struct_size: usize,
        pub user: *mut c_void,
        pub set: Option<
            unsafe extern "C" fn(
                user: *mut c_void,
                key: *const c_char,
                value: *const c_void,
                bytes: usize,
                timeout_ms: u64,
            ) -> symm_status_t,
        >,
        pub get: Option<
            unsafe extern "C" fn(
                user: *mut c_void,
                key: *const c_char,
                value: *mut c_void,
                capacity: usize,
                out_bytes: *mut usize,
                timeout_ms: u64,
            ) -> symm_status_t,
        >,
    }

    /// How to make a group. NULL means the defaults.
    pub struct symm_group_config_t {
        pub struct_size: usize,
        pub rank: i32,
        pub size: i32,
        pub backend: symm_backend_t,
        pub device: i32,
        pub flags: u64,
        pub bootstrap: *const c_char,
        pub store: *const symm_store_t,
        pub id: *const c_void,
        pub id_bytes: usize,
        pub create_timeout_ms: u64,
        pub timeout_ms: u64,
        pub name: *const c_char,
        pub scratch_bytes: u64,
        pub channels: i32,
        pub failure: *mut symm_failure_t,
    }

    /// How to make a group of another: by symm_group_split(), symm_group_create_from_ranks(),
    /// symm_group_local() and symm_group_shrink(). NULL means the defaults. The new group
    /// inherits the back end and the device, the flags that are in force
    /// (symm_group_info_t.flags), scratch_bytes, channels and both deadlines of the group that
    /// it is made of. The environment is not asked again. All fields but timeout_ms and failure
    /// must be the same on all ranks of the new group; a difference is MISMATCH.
    pub struct symm_group_options_t {
        pub struct_size: usize,
        pub timeout_ms: u64,
        pub failure: *mut symm_failure_t,
        pub name: *const c_char,
        pub flags: u64,
        pub remove_flags: u64,
        pub scratch_bytes: u64,
        pub create_timeout_ms: u64,
        pub group_timeout_ms: u64,
        pub channels: i32,
    }

    /// Facts about a group. Filled by symm_group_info().
    pub struct symm_group_info_t {
        pub struct_size: usize,
        pub rank: i32,
        pub size: i32,
        pub backend: symm_backend_t,
        pub device: i32,
        pub id: u64,
        pub flags: u64,
        pub create_timeout_ms: u64,
        pub timeout_ms: u64,
        pub channels: i32,
        pub unwatched_peers: i32,
        pub rejected_connections: u64,
        pub bootstrap: [c_char; 64],
        pub name: [c_char; 64],
        pub multicast: i32,
        pub multicast_reason: [c_char; 192],
        pub scratch_bytes: u64,
        pub max_ranks: i32,
        pub max_memories: i32,
        pub max_channels: i32,
        pub max_handles: i32,
        pub max_name: i32,
        pub shared_scratch_bytes: u64,
        pub machines: i32,
        pub machine: i32,
        pub local_rank: i32,
        pub local_size: i32,
        pub engine: [c_char; 64],
    }

    /// Facts about one rank of a group. Filled by symm_group_peer_info().
    pub struct symm_group_peer_info_t {
        pub struct_size: usize,
        pub rank: i32,
        pub backend: symm_backend_t,
        pub device: i32,
        pub alive: i32,
        pub pid: i64,
        pub host: [c_char; 64],
        pub machine_name: [c_char; 64],
        pub uuid: [c_char; 64],
        pub machine: i32,
        pub mapped: i32,
        pub numa_node: i32,
        pub links: i32,
        pub locality: symm_locality_t,
    }

    /// Counts of what this rank has done on a group so far. Calls that succeeded are counted,
    /// unless a field says otherwise. Filled by symm_group_stats().
    pub struct symm_group_stats_t {
        pub struct_size: usize,
        pub barriers: u64,
        pub signals_sent: u64,
        pub signals_taken: u64,
        pub failures: u64,
        pub sleeps: u64,
        pub slept_ns: u64,
        pub waits: u64,
    }

    /// Counts of one collective on a group, of calls that succeeded. Filled by
    /// symm_group_collective_stats().
    pub struct symm_collective_stats_t {
        pub struct_size: usize,
        pub calls: u64,
        pub bytes: u64,
    }

    /// Counts of one algorithm on a group, of calls that succeeded. Filled by
    /// symm_group_algorithm_stats().
    pub struct symm_algorithm_stats_t {
        pub struct_size: usize,
        pub calls: u64,
    }

    /// How to allocate. NULL means the defaults.
    pub struct symm_alloc_options_t {
        pub struct_size: usize,
        pub flags: u64,
        pub numa_node: i32,
        pub alignment: u64,
        pub page_bytes: u64,
        pub name: *const c_char,
        pub failure: *mut symm_failure_t,
    }

    /// How to adopt. NULL means the defaults.
    pub struct symm_adopt_options_t {
        pub struct_size: usize,
        pub flags: u64,
        pub offset: u64,
        pub fd: i32,
        pub name: *const c_char,
        pub failure: *mut symm_failure_t,
    }

    /// Facts about a buffer. Filled by symm_buffer_info().
    pub struct symm_buffer_info_t {
        pub struct_size: usize,
        pub backend: symm_backend_t,
        pub device: i32,
        pub bytes: u64,
        pub mapped_bytes: u64,
        pub flags: u64,
        pub numa_node: i32,
        pub memories: i32,
        pub pointer: *mut c_void,
        pub page_bytes: u64,
        pub name: [c_char; 64],
    }

    /// How to meet. NULL means the defaults.
    pub struct symm_rendezvous_options_t {
        pub struct_size: usize,
        pub tag: u64,
        pub timeout_ms: u64,
        pub channels: i32,
        pub failure: *mut symm_failure_t,
    }

    /// Facts about a memory. Filled by symm_memory_info().
    pub struct symm_memory_info_t {
        pub struct_size: usize,
        pub rank: i32,
        pub size: i32,
        pub bytes: u64,
        pub id: u64,
        pub channels: i32,
        pub multicast: i32,
        pub signal_pad_bytes: u64,
        pub multicast_reason: [c_char; 192],
    }

    /// Memory as kernels see it; symm::device::Memory of symm/device.cuh is this struct. All
    /// pointers are device addresses. symm_memory_device_view() fills it.
    pub struct symm_memory_view_t {
        pub struct_size: usize,
        pub layout: u32,
        pub rank: i32,
        pub size: i32,
        pub channels: i32,
        pub blocks: *const *mut c_void,
        pub pads: *const *mut u64,
        pub taken: *mut u64,
        pub timeout_ns: u64,
        pub stop: *const u32,
    }

    /// How to make a heap. NULL means the defaults.
    pub struct symm_heap_options_t {
        pub struct_size: usize,
        pub flags: u64,
        pub numa_node: i32,
        pub alignment: u64,
        pub page_bytes: u64,
        pub name: *const c_char,
        pub timeout_ms: u64,
        pub failure: *mut symm_failure_t,
    }

    /// Facts about a heap. Filled by symm_heap_info().
    pub struct symm_heap_info_t {
        pub struct_size: usize,
        pub bytes: u64,
        pub used_bytes: u64,
        pub peak_bytes: u64,
        pub free_bytes: u64,
        pub largest_free: u64,
        pub pieces: u64,
        pub free_pieces: u64,
        pub calls: u64,
        pub fragmentation: u64,
        pub name: [c_char; 64],
    }

    /// One of the signals that symm_wait_signals() waits for, as the arguments of
    /// symm_wait_signal_value().
    pub struct symm_signal_wait_t {
        pub struct_size: usize,
        pub rank: i32,
        pub channel: i32,
        pub compare: symm_compare_t,
        pub value: u64,
    }

    /// Options of one collective call. NULL means the defaults. The introduction of the chapter
    /// on collectives explains the factor and result_dtype.
    pub struct symm_collective_options_t {
        pub struct_size: usize,
        pub algorithm: symm_algorithm_t,
        pub timeout_ms: u64,
        pub failure: *mut symm_failure_t,
        pub scale_position: symm_scale_t,
        pub result_dtype: symm_dtype_t,
        pub scale: f64,
        pub scale_pointer: *const c_void,
        pub tag: *const c_char,
        pub max_blocks: i32,
    }

    /// What symm_allreduce_rmsnorm() adds to the sum, how it normalises, and where results go.
    /// Matrices are \[tokens\]\[hidden\], rows one behind the other. weight, matrices and send
    /// begin at multiples of 16 bytes. A NULL input does not exist, and a NULL output is not
    /// wanted.
    pub struct symm_rmsnorm_t {
        pub struct_size: usize,
        pub residual_in: *const c_void,
        pub residual_out: *mut c_void,
        pub norm_out: *mut c_void,
        pub weight: *const c_void,
        pub weight_dtype: symm_dtype_t,
        pub epsilon: f64,
        pub weight_offset: f64,
        pub scale_kind: symm_quant_scale_t,
        pub quant_out: *mut c_void,
        pub scale_in: *const c_void,
        pub scale_out: *mut c_void,
    }

    /// Plan of a collective call. Filled by symm_collective_plan().
    pub struct symm_plan_info_t {
        pub struct_size: usize,
        pub algorithm: symm_algorithm_t,
        pub slices: i32,
        pub chunk_bytes: u64,
        pub nontemporal: i32,
        pub reason: [c_char; 192],
    }

    /// One call of a collective. Fields that the collective has no argument for are ignored.
    pub struct symm_collective_call_t {
        pub struct_size: usize,
        pub collective: symm_collective_t,
        pub send: *const c_void,
        pub recv: *mut c_void,
        pub count: usize,
        pub dtype: symm_dtype_t,
        pub op: symm_op_t,
        pub root: i32,
        pub send_counts: *const usize,
        pub send_displacements: *const usize,
        pub recv_counts: *const usize,
        pub recv_displacements: *const usize,
        pub rows: usize,
        pub recv_stride: usize,
    }

    /// How to export. NULL means the defaults.
    pub struct symm_ipc_export_options_t {
        pub struct_size: usize,
        pub flags: u64,
        pub hold_ms: u64,
        pub hold_imports: u64,
        pub failure: *mut symm_failure_t,
    }

    /// How to import. NULL means the defaults.
    pub struct symm_ipc_import_options_t {
        pub struct_size: usize,
        pub flags: u64,
        pub timeout_ms: u64,
        pub directory: *const c_char,
        pub device: i32,
        pub failure: *mut symm_failure_t,
    }

    /// Facts about an import. Filled by symm_ipc_info().
    pub struct symm_ipc_info_t {
        pub struct_size: usize,
        pub backend: symm_backend_t,
        pub device: i32,
        pub bytes: u64,
        pub offset: u64,
        pub block_bytes: u64,
        pub exporter_pid: i64,
        pub exporter_alive: i32,
        pub host_memory: i32,
    }

    /// Holders of leases on a piece of memory. Filled by symm_ipc_holders().
    pub struct symm_ipc_holders_t {
        pub struct_size: usize,
        pub leases: u64,
        pub processes: u64,
        pub pid: i64,
        pub quarantined: i32,
    }

    /// Totals of what collections have done since the process began, those of
    /// symm_ipc_collect() and the library's own. The difference of two reports is what happened
    /// in between. Filled by symm_ipc_collect().
    #[derive(PartialEq, Eq)]
    pub struct symm_ipc_report_t {
        pub struct_size: usize,
        /// Leases that were found released by their holders.
        pub leases_ended: u64,
        /// Leases of holders that died.
        pub leases_written_off: u64,
        /// Released buffers that nobody holds any more.
        pub blocks_freed: u64,
        /// Bytes of these buffers.
        pub bytes_freed: u64,
        /// Mappings of other processes' memory that were kept here for the next import.
        pub mappings_dropped: u64,
        /// Released buffers that somebody still holds now.
        pub blocks_in_limbo: u64,
        /// Bytes of these buffers.
        pub bytes_in_limbo: u64,
    }

    /// State of sharing in this process. Filled by symm_ipc_stats().
    #[derive(PartialEq, Eq)]
    pub struct symm_ipc_stats_t {
        pub struct_size: usize,
        /// Tokens made so far.
        pub tokens: u64,
        /// Blocks that can be imported now.
        pub exported_blocks: u64,
        /// Bytes of these blocks.
        pub exported_bytes: u64,
        /// Leases given so far.
        pub grants: u64,
        /// Leases that others, and this process, hold on memory of this process.
        pub leased: u64,
        /// Blocks on which there are leases.
        pub leased_blocks: u64,
        /// Blocks that are released, but still held.
        pub limbo_blocks: u64,
        /// Bytes of these blocks.
        pub limbo_bytes: u64,
        /// Blocks to which a holder that is gone may still write; never to be used again.
        pub quarantined_blocks: u64,
        /// Bytes of these blocks.
        pub quarantined_bytes: u64,
        /// Leases of dead holders so far.
        pub written_off: u64,
        /// Imports that were refused so far: forged, stale.
        pub refused: u64,
        /// Connections of other users, or that broke the protocol.
        pub rejected_connections: u64,
        /// Processes that are connected to this one.
        pub consumers: u64,
        /// Imports from other processes that are not released; those of its own count as
        /// `leased`.
        pub imported: u64,
        /// Blocks that are mapped here for them, or kept for the next.
        pub imported_blocks: u64,
        /// Bytes of these blocks.
        pub imported_bytes: u64,
        /// Processes to which this one is connected.
        pub exporters: u64,
        /// Collections run so far.
        pub collections: u64,
        /// Age of the oldest lease in milliseconds, 0 if there is none.
        pub oldest_lease_ms: u64,
        /// Holder of the oldest lease, 0 if the pid is not visible here.
        pub oldest_lease_pid: i64,
        /// Start of that holder in clock ticks since boot (field 22 of its stat in /proc), 0 if
        /// unknown.
        pub oldest_lease_start_time: u64,
    }
}

functions! {
    /// Version of the loaded library, encoded like SYMM_VERSION. \[local\] \[capturable\]
    pub fn symm_version() -> u32;

    /// Static JSON object with version, git revision, compiler, back ends, CUDA architectures,
    /// SIMD targets and environment variables. \[local\] \[capturable\]
    pub fn symm_build_info() -> *const c_char;

    /// Static name of a status, "unknown status" for a value of a newer library. \[local\]
    /// \[capturable\]
    pub fn symm_status_string(status: symm_status_t) -> *const c_char;

    /// Message of the last failing call on this thread, "" before the first failure. \[local\]
    /// \[capturable\]
    pub fn symm_last_error() -> *const c_char;

    /// Tell what the last failing call on this thread failed of, and who is to blame. \[local\]
    /// \[capturable\]
    pub fn symm_last_failure(out: *mut symm_failure_t) -> symm_status_t;

    /// Send log messages of at most `level` to `callback`. \[local\]
    pub fn symm_log_add_listener(
        callback: symm_log_callback_t,
        user: *mut c_void,
        level: symm_log_level_t,
        out_id: *mut u64,
    ) -> symm_status_t;

    /// Send log messages of at most `level` to a descriptor, for languages whose code must not
    /// run on threads of the library. \[local\]
    pub fn symm_log_to_fd(
        fd: i32,
        level: symm_log_level_t,
        out_id: *mut u64,
    ) -> symm_status_t;

    /// End a listener. \[local\]
    pub fn symm_log_remove_listener(id: u64) -> symm_status_t;

    /// Set the callback that the calls of this thread ask while they wait on the host, so that
    /// Ctrl-C or another signal ends them at once. \[local\]
    pub fn symm_thread_interrupt(
        callback: symm_interrupt_callback_t,
        user: *mut c_void,
    ) -> symm_status_t;

    /// Size of one element in bytes. \[local\] \[capturable\]
    pub fn symm_dtype_bytes(dtype: symm_dtype_t, out_bytes: *mut usize) -> symm_status_t;

    /// Number of devices of a back end. \[local\] \[capturable\]
    pub fn symm_device_count(
        backend: symm_backend_t,
        out_count: *mut i32,
    ) -> symm_status_t;

    /// Describe device `device` of `backend`. \[local\] \[capturable\]
    pub fn symm_device_info(
        backend: symm_backend_t,
        device: i32,
        out: *mut symm_device_info_t,
    ) -> symm_status_t;

    /// Links between the devices of a back end. \[local\] \[capturable\]
    pub fn symm_topology(
        backend: symm_backend_t,
        out_class: *mut symm_topology_class_t,
        out_links: *mut i32,
        capacity: usize,
        out_count: *mut usize,
    ) -> symm_status_t;

    /// Make an id by which the ranks of one group meet. \[local\]
    pub fn symm_unique_id(
        options: *const symm_call_options_t,
        out_id: *mut c_void,
        capacity: usize,
        out_bytes: *mut usize,
    ) -> symm_status_t;

    /// Form a group. \[collective\] \[blocking, create_timeout_ms\]
    pub fn symm_group_create(
        config: *const symm_group_config_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Divide a group: ranks that pass the same color form a new group. \[collective over
    /// `group`\] \[blocking, options.timeout_ms\]
    pub fn symm_group_split(
        group: *mut symm_group_t,
        color: i32,
        key: i32,
        options: *const symm_group_options_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Form a group of some ranks of another. \[collective over `ranks`\] \[blocking,
    /// options.timeout_ms\]
    pub fn symm_group_create_from_ranks(
        group: *mut symm_group_t,
        ranks: *const i32,
        count: usize,
        options: *const symm_group_options_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Form a group of the ranks on this rank's machine, in the order of their ranks.
    /// \[collective over the ranks of a machine\] \[blocking, options.timeout_ms\]
    pub fn symm_group_local(
        group: *mut symm_group_t,
        options: *const symm_group_options_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Form a group of those ranks of `group` that are alive and have not released it, in their
    /// old order. \[collective over these\] \[blocking, options.timeout_ms\]
    pub fn symm_group_shrink(
        group: *mut symm_group_t,
        options: *const symm_group_options_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Tell which rank of `group` is rank `rank` of `other`. \[local\] \[capturable\]
    pub fn symm_group_translate_rank(
        group: *mut symm_group_t,
        other: *mut symm_group_t,
        rank: i32,
        out_rank: *mut i32,
    ) -> symm_status_t;

    /// Rank of this process in the group. \[local\] \[capturable\]
    pub fn symm_group_rank(
        group: *mut symm_group_t,
        out_rank: *mut i32,
    ) -> symm_status_t;

    /// Number of ranks. \[local\] \[capturable\]
    pub fn symm_group_size(
        group: *mut symm_group_t,
        out_size: *mut i32,
    ) -> symm_status_t;

    /// Describe a group. \[local\] \[capturable\]
    pub fn symm_group_info(
        group: *mut symm_group_t,
        out: *mut symm_group_info_t,
    ) -> symm_status_t;

    /// Ask whether the group was revoked, and why. \[local\] \[capturable\]
    pub fn symm_group_status(
        group: *mut symm_group_t,
        out: *mut symm_failure_t,
    ) -> symm_status_t;

    /// List the ranks that this rank knows to be dead, or to have released the group. \[local\]
    /// \[capturable\]
    pub fn symm_group_failed_ranks(
        group: *mut symm_group_t,
        out_ranks: *mut i32,
        capacity: usize,
        out_count: *mut usize,
    ) -> symm_status_t;

    /// Get a descriptor for event loops, which becomes readable, and stays so, when the group
    /// is revoked. \[local\] \[capturable\]
    pub fn symm_group_failure_fd(
        group: *mut symm_group_t,
        out_fd: *mut i32,
    ) -> symm_status_t;

    /// Describe rank `rank` of a group, this one or another. \[local\] \[capturable\]
    pub fn symm_group_peer_info(
        group: *mut symm_group_t,
        rank: i32,
        out: *mut symm_group_peer_info_t,
    ) -> symm_status_t;

    /// Links between the devices of the ranks of a group. \[local\] \[capturable\]
    pub fn symm_group_topology(
        group: *mut symm_group_t,
        out_class: *mut symm_topology_class_t,
        out_links: *mut i32,
        capacity: usize,
        out_count: *mut usize,
    ) -> symm_status_t;

    /// Ask what was done on a group. \[local\] \[capturable\]
    pub fn symm_group_stats(
        group: *mut symm_group_t,
        out: *mut symm_group_stats_t,
    ) -> symm_status_t;

    /// Ask how often this rank has made a collective on a group. \[local\] \[capturable\]
    pub fn symm_group_collective_stats(
        group: *mut symm_group_t,
        collective: symm_collective_t,
        out: *mut symm_collective_stats_t,
    ) -> symm_status_t;

    /// Ask how often collectives of this rank on a group went by an algorithm. \[local\]
    /// \[capturable\]
    pub fn symm_group_algorithm_stats(
        group: *mut symm_group_t,
        algorithm: symm_algorithm_t,
        out: *mut symm_algorithm_stats_t,
    ) -> symm_status_t;

    /// Revoke the group on all ranks: pending and later calls return ABORTED. \[local\]
    pub fn symm_group_abort(
        group: *mut symm_group_t,
        reason: *const c_char,
    ) -> symm_status_t;

    /// End a group in good order: wait until all ranks have arrived here, so that none sees
    /// another leave early. \[collective\] \[blocking, options.timeout_ms\]
    pub fn symm_group_finalize(
        group: *mut symm_group_t,
        options: *const symm_call_options_t,
    ) -> symm_status_t;

    /// Add a reference. \[local\] \[capturable\]
    pub fn symm_group_retain(group: *mut symm_group_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_group_release(group: *mut symm_group_t);

    /// Add a callback that symm asks to give memory back. \[local\]
    pub fn symm_memory_pressure_add_listener(
        callback: symm_memory_pressure_callback_t,
        user: *mut c_void,
        out_id: *mut u64,
    ) -> symm_status_t;

    /// End a callback. \[local\]
    pub fn symm_memory_pressure_remove_listener(id: u64) -> symm_status_t;

    /// Allocate this rank's block on the group's device, zeroed. \[local\] \[blocking\]
    pub fn symm_alloc(
        group: *mut symm_group_t,
        bytes: usize,
        options: *const symm_alloc_options_t,
        out: *mut *mut symm_buffer_t,
    ) -> symm_status_t;

    /// Make a buffer of memory that another library has allocated, to be rendezvoused like one
    /// of symm_alloc(). \[local\] \[blocking\]
    pub fn symm_buffer_adopt(
        group: *mut symm_group_t,
        pointer: *const c_void,
        bytes: usize,
        options: *const symm_adopt_options_t,
        out: *mut *mut symm_buffer_t,
    ) -> symm_status_t;

    /// Describe a buffer. \[local\] \[capturable\]
    pub fn symm_buffer_info(
        buffer: *mut symm_buffer_t,
        out: *mut symm_buffer_info_t,
    ) -> symm_status_t;

    /// Find the buffer of this process that contains `address`. \[local\] \[capturable\]
    pub fn symm_buffer_find(
        address: *const c_void,
        options: *const symm_call_options_t,
        out: *mut *mut symm_buffer_t,
        out_offset: *mut usize,
    ) -> symm_status_t;

    /// Export a piece of a buffer as DMA-BUF, for a device of another kind (a network card,
    /// say) to map. \[local\]
    pub fn symm_buffer_export_dmabuf(
        buffer: *mut symm_buffer_t,
        offset: usize,
        bytes: usize,
        options: *const symm_call_options_t,
        out_fd: *mut i32,
    ) -> symm_status_t;

    /// Address of the block. \[local\] \[capturable\]
    pub fn symm_buffer_pointer(
        buffer: *mut symm_buffer_t,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Bytes that were asked for. \[local\] \[capturable\]
    pub fn symm_buffer_bytes(
        buffer: *mut symm_buffer_t,
        out_bytes: *mut usize,
    ) -> symm_status_t;

    /// Get the group that a buffer was made for. \[local\] \[capturable\]
    pub fn symm_buffer_group(
        buffer: *mut symm_buffer_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Add a reference. \[local\] \[capturable\]
    pub fn symm_buffer_retain(buffer: *mut symm_buffer_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_buffer_release(buffer: *mut symm_buffer_t);

    /// Exchange blocks: after the call every rank's block is mapped here. \[collective\]
    /// \[blocking, options.timeout_ms\]
    pub fn symm_rendezvous(
        group: *mut symm_group_t,
        buffer: *mut symm_buffer_t,
        options: *const symm_rendezvous_options_t,
        out: *mut *mut symm_memory_t,
    ) -> symm_status_t;

    /// Get the memory that a buffer has become on a group. \[local\] \[capturable\]
    pub fn symm_buffer_memory(
        buffer: *mut symm_buffer_t,
        group: *mut symm_group_t,
        options: *const symm_call_options_t,
        out: *mut *mut symm_memory_t,
    ) -> symm_status_t;

    /// Describe a memory. \[local\] \[capturable\]
    pub fn symm_memory_info(
        memory: *mut symm_memory_t,
        out: *mut symm_memory_info_t,
    ) -> symm_status_t;

    /// Get the group of a memory. \[local\] \[capturable\]
    pub fn symm_memory_group(
        memory: *mut symm_memory_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Get the buffer that has become a memory: this rank's block. \[local\] \[capturable\]
    pub fn symm_memory_buffer(
        memory: *mut symm_memory_t,
        out: *mut *mut symm_buffer_t,
    ) -> symm_status_t;

    /// Address at which rank `rank`'s block is mapped here. \[local\] \[capturable\]
    pub fn symm_memory_pointer(
        memory: *mut symm_memory_t,
        rank: i32,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Address of rank `rank`'s signal pad: uint64_t pad\[channel\]\[source rank\], zero at
    /// first. \[local\] \[capturable\]
    pub fn symm_memory_signal_pad(
        memory: *mut symm_memory_t,
        rank: i32,
        out_pad: *mut *mut c_void,
    ) -> symm_status_t;

    /// Table of the `size` block addresses, readable by the group's device, for the host back
    /// end by the host. \[local\] \[capturable\]
    pub fn symm_memory_pointer_table(
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut c_void,
    ) -> symm_status_t;

    /// Table of the `size` pad addresses, readable by the group's device, for the host back end
    /// by the host. \[local\] \[capturable\]
    pub fn symm_memory_signal_pad_table(
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut c_void,
    ) -> symm_status_t;

    /// Describe a memory for kernels of your own, to which the struct is passed by value.
    /// \[local\] \[capturable\]
    pub fn symm_memory_device_view(
        memory: *mut symm_memory_t,
        stop: *const c_void,
        options: *const symm_call_options_t,
        out: *mut symm_memory_view_t,
    ) -> symm_status_t;

    /// Multicast address of the memory. \[local\] \[capturable\]
    pub fn symm_memory_multicast_pointer(
        memory: *mut symm_memory_t,
        options: *const symm_call_options_t,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Find the memory of `group` that maps `address`. \[local\] \[capturable\]
    pub fn symm_memory_find(
        group: *mut symm_group_t,
        address: *const c_void,
        options: *const symm_call_options_t,
        out: *mut *mut symm_memory_t,
        out_rank: *mut i32,
        out_offset: *mut usize,
    ) -> symm_status_t;

    /// Add a reference. \[local\] \[capturable\]
    pub fn symm_memory_retain(memory: *mut symm_memory_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_memory_release(memory: *mut symm_memory_t);

    /// Order streams: what is issued on `stream` next runs after what was issued on
    /// `after_stream`. \[local\] \[stream\] \[capturable\]
    pub fn symm_stream_wait(
        group: *mut symm_group_t,
        stream: *mut c_void,
        after_stream: *mut c_void,
        options: *const symm_call_options_t,
    ) -> symm_status_t;

    /// Ask whether everything that was issued on `stream` is over. \[local\] \[capturable\]
    pub fn symm_stream_query(
        group: *mut symm_group_t,
        stream: *mut c_void,
        options: *const symm_call_options_t,
        out_done: *mut i32,
    ) -> symm_status_t;

    /// Wait until everything that was issued on `stream` is over, and say what went wrong with
    /// the group. \[local\] \[blocking, options.timeout_ms\]
    pub fn symm_group_synchronize(
        group: *mut symm_group_t,
        stream: *mut c_void,
        options: *const symm_call_options_t,
    ) -> symm_status_t;

    /// Say that what was issued on `stream` so far uses the buffer. \[local\] \[stream\]
    /// \[capturable\]
    pub fn symm_buffer_record_use(
        buffer: *mut symm_buffer_t,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Say that what was issued on `stream` so far uses the memory. \[local\] \[stream\]
    /// \[capturable\]
    pub fn symm_memory_record_use(
        memory: *mut symm_memory_t,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Make a heap of `bytes` on every rank. \[collective\] \[blocking, options.timeout_ms\]
    pub fn symm_heap_create(
        group: *mut symm_group_t,
        bytes: usize,
        options: *const symm_heap_options_t,
        out: *mut *mut symm_heap_t,
    ) -> symm_status_t;

    /// Take a piece of this rank's block. \[local\] \[capturable\]
    pub fn symm_heap_alloc(
        heap: *mut symm_heap_t,
        bytes: usize,
        alignment: usize,
        options: *const symm_call_options_t,
        out_pointer: *mut *mut c_void,
        out_offset: *mut usize,
    ) -> symm_status_t;

    /// Give a piece back. \[local\] \[capturable\]
    pub fn symm_heap_free(
        heap: *mut symm_heap_t,
        pointer: *mut c_void,
        options: *const symm_call_options_t,
    ) -> symm_status_t;

    /// Find the piece that contains `address`, anywhere between its first and its last byte in
    /// this rank's block. \[local\] \[capturable\]
    pub fn symm_heap_find(
        heap: *mut symm_heap_t,
        address: *const c_void,
        options: *const symm_call_options_t,
        out_pointer: *mut *mut c_void,
        out_bytes: *mut usize,
    ) -> symm_status_t;

    /// Get the memory that the pieces lie in. \[local\] \[capturable\]
    pub fn symm_heap_memory(
        heap: *mut symm_heap_t,
        out: *mut *mut symm_memory_t,
    ) -> symm_status_t;

    /// Get the group of a heap. \[local\] \[capturable\]
    pub fn symm_heap_group(
        heap: *mut symm_heap_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Describe a heap. \[local\] \[capturable\]
    pub fn symm_heap_info(
        heap: *mut symm_heap_t,
        out: *mut symm_heap_info_t,
    ) -> symm_status_t;

    /// Add a reference. \[local\] \[capturable\]
    pub fn symm_heap_retain(heap: *mut symm_heap_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_heap_release(heap: *mut symm_heap_t);

    /// Wait until all ranks of a set are here. \[collective over the set\] \[stream\]
    /// \[capturable\]
    pub fn symm_barrier(
        group: *mut symm_group_t,
        ranks: *const i32,
        count: usize,
        channel: i32,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Add one to the signals that this rank has sent to `rank` on `channel`. \[local\]
    /// \[stream\] \[capturable\]
    pub fn symm_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Add a value to the word that this rank has at `rank` on `channel`, or set the word to
    /// it. \[local\] \[stream\] \[capturable\]
    pub fn symm_signal_value(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        op: symm_signal_op_t,
        value: u64,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Take one signal from `rank` on `channel`, waiting for it if need be. \[local\]
    /// \[stream\] \[capturable\]
    pub fn symm_wait_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Wait until the word from `rank` on `channel` compares with `value` as `compare` says.
    /// \[local\] \[stream\] \[capturable\]
    pub fn symm_wait_signal_value(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        compare: symm_compare_t,
        value: u64,
        options: *const symm_call_options_t,
        out_seen: *mut u64,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Wait for several signals. \[local\] \[stream\] \[capturable\]
    pub fn symm_wait_signals(
        memory: *mut symm_memory_t,
        waits: *const symm_signal_wait_t,
        count: usize,
        any: i32,
        options: *const symm_call_options_t,
        out_index: *mut usize,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Count the signals from `rank` on `channel` that are there and not taken. \[local\]
    pub fn symm_test_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        options: *const symm_call_options_t,
        out_pending: *mut u64,
    ) -> symm_status_t;

    /// Read the word from `rank` on `channel`. \[local\]
    pub fn symm_test_signal_value(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        options: *const symm_call_options_t,
        out_value: *mut u64,
    ) -> symm_status_t;

    /// Copy `bytes` bytes to `offset` in rank `rank`'s block. \[local\] \[stream\]
    /// \[capturable\]
    pub fn symm_put(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const c_void,
        bytes: usize,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Copy `bytes` bytes from `offset` in rank `rank`'s block to `destination`. \[local\]
    /// \[stream\] \[capturable\]
    pub fn symm_get(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        destination: *mut c_void,
        bytes: usize,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Copy as symm_put() does, then signal as symm_signal() does, in one call. \[local\]
    /// \[stream\] \[capturable\]
    pub fn symm_put_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const c_void,
        bytes: usize,
        channel: i32,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Store `count` copies of a 32-bit value at `offset` in rank `rank`'s block. \[local\]
    /// \[stream\] \[capturable\]
    pub fn symm_fill32(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        count: usize,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Store one 32-bit value at `offset` in rank `rank`'s block, after everything that this
    /// rank wrote before (release order). \[local\] \[stream\] \[capturable\]
    pub fn symm_write_value32(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Store one 64-bit value at `offset` in rank `rank`'s block, after everything that this
    /// rank wrote before (release order). \[local\] \[stream\] \[capturable\]
    pub fn symm_write_value64(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u64,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Wait until a 32-bit word of this rank's own block compares with `value` as `compare`
    /// says. \[local\] \[stream\] \[capturable\]
    pub fn symm_wait_value32(
        memory: *mut symm_memory_t,
        offset: usize,
        compare: symm_compare_t,
        value: u32,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Wait until a 64-bit word of this rank's own block compares with `value` as `compare`
    /// says. \[local\] \[stream\] \[capturable\]
    pub fn symm_wait_value64(
        memory: *mut symm_memory_t,
        offset: usize,
        compare: symm_compare_t,
        value: u64,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Combine the operands of all ranks, with the result on every rank. \[collective\]
    /// \[stream\] \[capturable\]
    pub fn symm_allreduce(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Combine the operands of all ranks, with a block of the result on each rank.
    /// \[collective\] \[stream\] \[capturable\]
    pub fn symm_reduce_scatter(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        recv_count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Gather the operands of all ranks on every rank. \[collective\] \[stream\] \[capturable\]
    pub fn symm_allgather(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        send_count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Copy the operand of the root to every rank. \[collective\] \[stream\] \[capturable\]
    pub fn symm_broadcast(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        dtype: symm_dtype_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Combine the operands of all ranks, with the result on the root. \[collective\]
    /// \[stream\] \[capturable\]
    pub fn symm_reduce(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Send a block to every rank and receive one from every rank. \[collective\] \[stream\]
    /// \[capturable\]
    pub fn symm_alltoall(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Gather blocks of different lengths on every rank. \[collective\] \[stream\]
    /// \[capturable\]
    pub fn symm_allgatherv(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        recv_counts: *const usize,
        recv_displacements: *const usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Combine the operands of all ranks, with a block of its own length of the result on each
    /// rank. \[collective\] \[stream\] \[capturable\]
    pub fn symm_reduce_scatterv(
        group: *mut symm_group_t,
        send: *const c_void,
        send_counts: *const usize,
        send_displacements: *const usize,
        recv: *mut c_void,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Send a block of its own length to every rank and receive one from every rank.
    /// \[collective\] \[stream\] \[capturable\]
    pub fn symm_alltoallv(
        group: *mut symm_group_t,
        send: *const c_void,
        send_counts: *const usize,
        send_displacements: *const usize,
        recv: *mut c_void,
        recv_counts: *const usize,
        recv_displacements: *const usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Do as symm_alltoallv() with counts and displacements that are read when the call runs.
    /// \[collective\] \[stream\] \[capturable\]
    pub fn symm_alltoallv_device(
        group: *mut symm_group_t,
        send: *const c_void,
        send_capacity: usize,
        send_counts: *const u64,
        send_displacements: *const u64,
        recv: *mut c_void,
        recv_capacity: usize,
        recv_counts: *const u64,
        recv_displacements: *const u64,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Gather the operands of all ranks on the root. \[collective\] \[stream\] \[capturable\]
    pub fn symm_gather(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        dtype: symm_dtype_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Send a block of the root's operand to each rank. \[collective\] \[stream\]
    /// \[capturable\]
    pub fn symm_scatter(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        dtype: symm_dtype_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Gather matrices along the last dimension on every rank. \[collective\] \[stream\]
    /// \[capturable\]
    pub fn symm_allgather_rows(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        rows: usize,
        row_count: usize,
        recv_stride: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Combine, add a residual and normalise. \[collective\] \[stream\] \[capturable\]
    pub fn symm_allreduce_rmsnorm(
        group: *mut symm_group_t,
        send: *const c_void,
        tokens: usize,
        hidden: usize,
        dtype: symm_dtype_t,
        norm: *const symm_rmsnorm_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Tell which algorithm a collective would use if every rank passed memory like this
    /// rank's. \[local\] \[capturable\]
    pub fn symm_collective_plan(
        group: *mut symm_group_t,
        call: *const symm_collective_call_t,
        options: *const symm_collective_options_t,
        out: *mut symm_plan_info_t,
    ) -> symm_status_t;

    /// Make a token for `bytes` bytes at `pointer`. \[local\] \[stream\]
    pub fn symm_ipc_export(
        pointer: *const c_void,
        bytes: usize,
        options: *const symm_ipc_export_options_t,
        out_token: *mut c_void,
        capacity: usize,
        out_bytes: *mut usize,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Map the memory that a token names. \[local\] \[blocking, options.timeout_ms\] \[stream\]
    pub fn symm_ipc_import(
        token: *const c_void,
        token_bytes: usize,
        options: *const symm_ipc_import_options_t,
        out: *mut *mut symm_ipc_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Address of the imported piece; NULL if it has 0 bytes. \[local\] \[capturable\]
    pub fn symm_ipc_pointer(
        ipc: *mut symm_ipc_t,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Bytes of the imported piece. \[local\] \[capturable\]
    pub fn symm_ipc_bytes(ipc: *mut symm_ipc_t, out_bytes: *mut usize) -> symm_status_t;

    /// Describe an import. \[local\] \[capturable\]
    pub fn symm_ipc_info(
        ipc: *mut symm_ipc_t,
        out: *mut symm_ipc_info_t,
    ) -> symm_status_t;

    /// Let another stream wait for the export: what is issued on `stream` next runs after what
    /// the exporter had issued before it, too. \[local\] \[stream\]
    pub fn symm_ipc_stream_wait(
        ipc: *mut symm_ipc_t,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Say that what was issued on `stream` so far uses the import: its lease does not end
    /// before that is over. \[local\] \[stream\]
    pub fn symm_ipc_record_use(
        ipc: *mut symm_ipc_t,
        options: *const symm_call_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Add a reference. \[local\] \[capturable\]
    pub fn symm_ipc_retain(ipc: *mut symm_ipc_t) -> symm_status_t;

    /// Drop a reference to an import, which ends with the last. \[local\] \[stream\]
    pub fn symm_ipc_release(ipc: *mut symm_ipc_t, stream: *mut c_void);

    /// End the tokens made so far for any part of a piece of memory, and wait until nobody
    /// holds a lease on any part of it. \[local\] \[blocking, options.timeout_ms\]
    pub fn symm_ipc_withdraw(
        pointer: *const c_void,
        bytes: usize,
        options: *const symm_call_options_t,
    ) -> symm_status_t;

    /// Ask who holds a piece of memory, without ending its tokens. \[local\]
    pub fn symm_ipc_holders(
        pointer: *const c_void,
        bytes: usize,
        options: *const symm_call_options_t,
        out: *mut symm_ipc_holders_t,
    ) -> symm_status_t;

    /// Free what is provably free. \[local\]
    pub fn symm_ipc_collect(
        options: *const symm_call_options_t,
        out: *mut symm_ipc_report_t,
    ) -> symm_status_t;

    /// Ask for the state of sharing. \[local\]
    pub fn symm_ipc_stats(out: *mut symm_ipc_stats_t) -> symm_status_t;
}
