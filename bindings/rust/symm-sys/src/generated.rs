// Types, constants and functions of `symm.h`, which says at length what is here in a sentence, for
// the macros of header.rs. Generated from symm.h by bindings/rust/generate. Do not edit.

use crate::MissingSymbol;
use core::ffi::{c_char, c_void};

pub type symm_group_t = symm_group;
pub type symm_buffer_t = symm_buffer;
pub type symm_memory_t = symm_memory;
pub type symm_heap_t = symm_heap;
pub type symm_ipc_t = symm_ipc;
/// Receives log messages, possibly from a thread of the library's, and from several threads at
/// once. Must not call into the library, but for symm_log_remove_listener().
pub type symm_log_callback_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        level: symm_log_level_t,
        message: *const c_char,
    ),
>;

enums! {
    /// Result of a call. Values are fixed for ever; new ones may be added.
    pub enum Status: symm_status_t {
        Ok = SYMM_OK = 0,
        /// an argument is out of range; the message names it
        InvalidArgument = SYMM_ERR_INVALID_ARGUMENT = -1,
        InvalidHandle = SYMM_ERR_INVALID_HANDLE = -2,
        /// host or device memory, or a limit on it
        OutOfMemory = SYMM_ERR_OUT_OF_MEMORY = -3,
        /// no such device, driver, launcher or feature on this machine
        Unavailable = SYMM_ERR_UNAVAILABLE = -4,
        Unsupported = SYMM_ERR_UNSUPPORTED = -5,
        /// a deadline passed; the message names who was awaited
        Timeout = SYMM_ERR_TIMEOUT = -6,
        /// symm_group_abort() was called, here or on another rank
        Aborted = SYMM_ERR_ABORTED = -7,
        /// a rank died or left; the message gives its rank and pid
        PeerFailed = SYMM_ERR_PEER_FAILED = -8,
        /// ranks disagree (size, operation, data type, count ...)
        Mismatch = SYMM_ERR_MISMATCH = -9,
        /// a system call failed; the message names it and its errno
        System = SYMM_ERR_SYSTEM = -10,
        /// a CUDA driver call failed; the message names it and its result
        Cuda = SYMM_ERR_CUDA = -11,
        /// a defect of this library
        Internal = SYMM_ERR_INTERNAL = -13,
        /// a look-up found nothing
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
        /// a byte: 0 is false, all else true; results are 0 or 1
        Bool = SYMM_DTYPE_BOOL = 1544,
        F8e4m3 = SYMM_DTYPE_F8E4M3 = 2568,
        /// results saturate at +-57344
        F8e5m2 = SYMM_DTYPE_F8E5M2 = 3080,
    }

    /// Reduction. Ranks are combined in the order 0, 1, ..., size-1 on every rank and in every
    /// algorithm, so the result has the same bits everywhere. F16, BF16 and F8 are combined in
    /// f32 and rounded once, to nearest even. Integers wrap. MIN and MAX return NaN if any
    /// operand is NaN. AVG is the sum divided by the number of ranks (integers: truncated
    /// towards zero). Of BOOL, SUM and MAX are "or", MIN and PROD are "and", and there is no
    /// AVG (INVALID_ARGUMENT). The payload of a NaN result is unspecified.
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
        /// every operand, before it is combined
        Before = SYMM_SCALE_BEFORE = 1,
        /// the result, after the division of AVG and before rounding
        After = SYMM_SCALE_AFTER = 2,
    }

    /// What memory a group works on.
    pub enum Backend: symm_backend_t {
        /// $SYMM_BACKEND ("host" or "cuda") if set, else the host
        Auto = SYMM_BACKEND_AUTO = 0,
        /// memory shared between processes of one machine
        Host = SYMM_BACKEND_HOST = 1,
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
        /// since 0.2, as all below
        Allgatherv = SYMM_COLLECTIVE_ALLGATHERV = 6,
        ReduceScatterv = SYMM_COLLECTIVE_REDUCE_SCATTERV = 7,
        Alltoallv = SYMM_COLLECTIVE_ALLTOALLV = 8,
        Gather = SYMM_COLLECTIVE_GATHER = 9,
        Scatter = SYMM_COLLECTIVE_SCATTER = 10,
        AllgatherRows = SYMM_COLLECTIVE_ALLGATHER_ROWS = 11,
        AllreduceRmsnorm = SYMM_COLLECTIVE_ALLREDUCE_RMSNORM = 12,
    }

    /// What a scale of symm_rmsnorm_t is for. Since 0.2.
    pub enum QuantScale: symm_quant_scale_t {
        /// all elements; the caller's
        ScaleTensor = SYMM_QUANT_SCALE_TENSOR = 0,
        /// a row, from its largest element
        ScaleToken = SYMM_QUANT_SCALE_TOKEN = 1,
        /// 128 elements of a row, from their largest
        ScaleGroup = SYMM_QUANT_SCALE_GROUP = 2,
    }

    /// Algorithms. All give the same bits, but for the two of multicast (MULTIMEM), in which
    /// the switch adds, and HIERARCHICAL, for sums, averages and products of floats: these have
    /// orders of their own, and are used only where they are asked for.
    pub enum Algorithm: symm_algorithm_t {
        Auto = SYMM_ALGORITHM_AUTO = 0,
        /// flag in data: the message rides in the line that signals it
        Ll = SYMM_ALGORITHM_LL = 1,
        /// every rank publishes its input, every rank combines all
        OneShot = SYMM_ALGORITHM_ONE_SHOT = 2,
        TwoShot = SYMM_ALGORITHM_TWO_SHOT = 3,
        /// the same in chunks through library memory; any buffer
        TwoShotStaged = SYMM_ALGORITHM_TWO_SHOT_STAGED = 4,
        MultimemOneShot = SYMM_ALGORITHM_MULTIMEM_ONE_SHOT = 6,
        MultimemTwoShot = SYMM_ALGORITHM_MULTIMEM_TWO_SHOT = 7,
        Marked = SYMM_ALGORITHM_MARKED = 8,
        Chain = SYMM_ALGORITHM_CHAIN = 9,
        Bruck = SYMM_ALGORITHM_BRUCK = 10,
        Hierarchical = SYMM_ALGORITHM_HIERARCHICAL = 11,
        CopyEngine = SYMM_ALGORITHM_COPY_ENGINE = 12,
    }

    /// What symm_signal_value() does to a word.
    pub enum SignalOp: symm_signal_op_t {
        Add = SYMM_SIGNAL_ADD = 0,
        Set = SYMM_SIGNAL_SET = 1,
    }

    /// How a word that is waited for, to the left, compares with a value, to the right; both
    /// are unsigned.
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
    /// No deadline.
    pub const SYMM_TIMEOUT_INFINITE: u64 = u64::MAX;
    /// Where a parameter says so, cast to a pointer: all streams.
    pub const SYMM_ALL_STREAMS: u64 = u64::MAX;
    /// Look once instead of waiting.
    pub const SYMM_TIMEOUT_NOW: u64 = u64::MAX - 1;
    pub const SYMM_VERSION_MAJOR: u32 = 0;
    pub const SYMM_VERSION_MINOR: u32 = 2;
    pub const SYMM_VERSION_PATCH: u32 = 0;
    pub const SYMM_VERSION: u32 = 512;
    pub const SYMM_MEMORY_VIEW_LAYOUT: u32 = 1;
    pub const SYMM_IPC_TOKEN_MAX_SIZE: u32 = 512;
    /// the local rank's share: device (local rank modulo device count)
    pub const SYMM_DEVICE_AUTO: i32 = -1;
    /// no NUMA node in particular
    pub const SYMM_NODE_NEAREST: i32 = -1;
    /// several ranks may use one CUDA device
    pub const SYMM_GROUP_OVERLAPPING_DEVICES: u64 = 1;
    pub const SYMM_GROUP_CHECK: u64 = 2;
    pub const SYMM_GROUP_MULTICAST: u64 = 4;
    /// Groups made of this one by symm_group_split() and symm_group_create_from_ranks(), and of
    /// those, work in its scratch and keep it; each has a part of its own still, which
    /// symm_group_info() shows. All ranks must ask. UNSUPPORTED on the host, where ranks read
    /// each other's scratch after a call. Collectives of these groups count as those of one
    /// group: - There is one order of them, in which every rank makes those of its groups.
    /// Another one ends by TIMEOUT. - The library orders them between streams, outside of
    /// captures and within one capture. A graph must be replayed on a stream that is ordered
    /// with all else that these groups do, or results are undefined. - When one of these groups
    /// fails, the others' calls that use the scratch end by ABORTED, as what fails on a stream.
    /// The group of symm_group_shrink() begins anew. Since 0.2.
    pub const SYMM_GROUP_SHARED_SCRATCH: u64 = 8;
    /// All-reduces may combine floats in an order of their own: between machines HIERARCHICAL
    /// is chosen where it is faster. All ranks get the same result still, and a group of the
    /// same layout gets it again. As SYMM_ORDER=any. All ranks must ask. Since 0.2.
    pub const SYMM_GROUP_ANY_ORDER: u64 = 16;
    /// A promise: in each all-reduce, all-gather, all-to-all and broadcast the recvs of all
    /// ranks are private, or lie at the same offset of the same memory, and all are in place or
    /// none. Large ones then go by SYMM_ALGORITHM_COPY_ENGINE with CUDA. All ranks must ask.
    /// Since 0.2.
    pub const SYMM_GROUP_SAME_OFFSETS: u64 = 32;
    /// memory of the host, pinned, which devices and the host reach alike
    pub const SYMM_ALLOC_HOST: u64 = 1;
    /// allocated by SYMM_ALLOC_HOST, or for a host group
    pub const SYMM_BUFFER_HOST: u64 = 1;
    /// made by symm_buffer_adopt()
    pub const SYMM_BUFFER_ADOPTED: u64 = 2;
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

    /// A failure, whole. Filled by symm_last_failure() with the last one of the thread; by any
    /// call that takes options with the failure of that very call, if options.failure points to
    /// one, whose struct_size the caller has set: written on failure only.
    pub struct symm_failure_t {
        pub struct_size: usize,
        pub status: symm_status_t,
        pub rank: i32,
        pub pid: i64,
        pub os_error: i32,
        pub cuda_result: i32,
        pub message: [c_char; 1024],
    }

    /// How long a call may wait; NULL means the defaults.
    pub struct symm_wait_options_t {
        pub struct_size: usize,
        pub timeout_ms: u64,
        pub failure: *mut symm_failure_t,
    }

    /// What is known of one device. Filled by symm_device_info().
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

    /// Key-value store by which ranks find each other, supplied by the caller. The functions
    /// are called only on the thread that is inside symm_group_create(), and must not unwind
    /// (no exception, panic or longjmp). They return SYMM_OK or a negative status, which then
    /// fails the creation. A key is set once; it begins with symm/ and the name of the group,
    /// so a store that serves several creations of one name must keep them apart itself.
    pub struct symm_store_t {
        pub struct_size: usize,
        pub user: *mut c_void,
        pub set: Option<
            unsafe extern "C" fn(
                user: *mut c_void,
                key: *const c_char,
                value: *const c_void,
                size: usize,
                timeout_ms: u64,
            ) -> symm_status_t,
        >,
        pub get: Option<
            unsafe extern "C" fn(
                user: *mut c_void,
                key: *const c_char,
                value: *mut c_void,
                capacity: usize,
                out_size: *mut usize,
                timeout_ms: u64,
            ) -> symm_status_t,
        >,
    }

    /// How to make a group. Start from SYMM_GROUP_CONFIG_INIT or symm_group_config_init().
    pub struct symm_group_config_t {
        pub struct_size: usize,
        pub rank: i32,
        pub size: i32,
        pub backend: symm_backend_t,
        pub device: i32,
        pub flags: u64,
        pub bootstrap: *const c_char,
        pub store: *const symm_store_t,
        pub create_timeout_ms: u64,
        pub timeout_ms: u64,
        pub name: *const c_char,
        pub scratch_bytes: u64,
        pub channels: i32,
        pub failure: *mut symm_failure_t,
    }

    /// How to shrink a group; NULL means the defaults.
    pub struct symm_group_shrink_options_t {
        pub struct_size: usize,
        pub timeout_ms: u64,
        pub name: *const c_char,
        pub failure: *mut symm_failure_t,
    }

    /// What is known of a group. Filled by symm_group_info().
    pub struct symm_group_info_t {
        pub struct_size: usize,
        pub rank: i32,
        pub size: i32,
        pub backend: symm_backend_t,
        pub device: i32,
        pub id: u64,
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

    /// Health of a group. Filled by symm_group_status().
    pub struct symm_group_status_t {
        pub struct_size: usize,
        pub status: symm_status_t,
        pub failed_rank: i32,
        pub failed_pid: i64,
        pub message: [c_char; 256],
    }

    /// What is known of one rank of a group. Filled by symm_peer_info().
    pub struct symm_peer_info_t {
        pub struct_size: usize,
        pub rank: i32,
        pub backend: symm_backend_t,
        pub device: i32,
        pub alive: i32,
        pub pid: i64,
        pub host: [c_char; 64],
        pub machine: [c_char; 64],
        pub uuid: [c_char; 64],
        pub machine_index: i32,
        pub mapped: i32,
    }

    /// What this rank has done on a group so far, calls that succeeded unless it says
    /// otherwise. Filled by symm_group_stats().
    pub struct symm_group_stats_t {
        pub struct_size: usize,
        pub collective_calls: [u64; 32],
        pub collective_bytes: [u64; 32],
        pub algorithm_calls: [u64; 32],
        pub barriers: u64,
        pub signals_sent: u64,
        pub signals_taken: u64,
        pub failures: u64,
        pub sleeps: u64,
        pub slept_ns: u64,
        pub waits: u64,
    }

    /// How to allocate; NULL means the defaults.
    pub struct symm_alloc_options_t {
        pub struct_size: usize,
        pub flags: u64,
        pub numa_node: i32,
        pub alignment: u64,
        pub page_bytes: u64,
        pub name: *const c_char,
        pub failure: *mut symm_failure_t,
    }

    /// How to adopt; NULL means the defaults.
    pub struct symm_adopt_options_t {
        pub struct_size: usize,
        pub fd: i32,
        pub offset: u64,
        pub name: *const c_char,
        pub failure: *mut symm_failure_t,
    }

    /// What is known of a buffer. Filled by symm_buffer_info().
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

    /// How to meet; NULL means the defaults.
    pub struct symm_rendezvous_options_t {
        pub struct_size: usize,
        pub tag: u64,
        pub timeout_ms: u64,
        pub channels: i32,
        pub failure: *mut symm_failure_t,
    }

    /// What is known of a memory. Filled by symm_memory_info().
    pub struct symm_memory_info_t {
        pub struct_size: usize,
        pub rank: i32,
        pub size: i32,
        pub bytes: u64,
        pub id: u64,
        pub channels: i32,
        pub signal_pad_bytes: i32,
        pub multicast: i32,
        pub multicast_reason: [c_char; 192],
    }

    /// A memory as kernels see it; symm::device::Memory of symm/device.cuh is this struct. All
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

    /// How to make a heap; NULL means the defaults.
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

    /// What is known of a heap. Filled by symm_heap_info().
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

    /// Options of one collective call; NULL means the defaults. symm_allreduce(),
    /// symm_reduce_scatter() and symm_reduce() of floats can multiply by a factor, and leave
    /// the sum of narrow ones unrounded. Operands are then converted to f32 (F64: f64),
    /// multiplied (BEFORE), combined in rank order, divided (AVG), multiplied (AFTER), and
    /// rounded once to the type of the result; the factor is rounded to f32 (F64: f64) first.
    /// Every algorithm but those of multicast gives the same bits; its limits on bytes count
    /// f32 (F64: f64). With a position one of scale and scale_pointer, and not both, is other
    /// than 0; without, both are 0. All of it must agree on all ranks, but for what
    /// scale_pointer points to: each rank's factor is for its own operand (BEFORE) or result
    /// (AFTER). INVALID_ARGUMENT: a factor with integers, another result_dtype than F32 of F16,
    /// BF16 and F8, either of them without a reduction. With a result_dtype other than dtype no
    /// form is in place.
    pub struct symm_collective_options_t {
        pub struct_size: usize,
        pub algorithm: symm_algorithm_t,
        pub timeout_ms: u64,
        pub failure: *mut symm_failure_t,
        pub scale_position: symm_scale_t,
        pub result_dtype: symm_dtype_t,
        pub scale: f64,
        pub scale_pointer: *const c_void,
    }

    /// What symm_allreduce_rmsnorm() adds to the sum, how it normalises, and where results go.
    /// Matrices are \[tokens\]\[hidden\], rows one behind the other; weight, matrices and send
    /// begin at multiples of 16 bytes. NULL: there is none, or it is not wanted.
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

    /// The algorithm chosen for a call, and why. Filled by symm_collective_plan().
    pub struct symm_plan_info_t {
        pub struct_size: usize,
        pub algorithm: symm_algorithm_t,
        pub slices: i32,
        pub chunk_bytes: u64,
        pub nontemporal: i32,
        pub reason: [c_char; 192],
    }

    /// One call of a collective.
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

    /// How to export; NULL means the defaults.
    pub struct symm_ipc_export_options_t {
        pub struct_size: usize,
        pub hold_ms: u64,
        pub hold_imports: u64,
        pub failure: *mut symm_failure_t,
    }

    /// How to import; NULL means the defaults.
    pub struct symm_ipc_import_options_t {
        pub struct_size: usize,
        pub timeout_ms: u64,
        pub directory: *const c_char,
        pub device: i32,
        pub failure: *mut symm_failure_t,
    }

    /// What is known of an import. Filled by symm_ipc_info().
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

    /// Who holds leases on a piece of memory. Filled by symm_ipc_holders().
    pub struct symm_ipc_holders_t {
        pub struct_size: usize,
        pub leases: u64,
        pub processes: u64,
        pub pid: i64,
        pub quarantined: i32,
    }

    /// What collections have done since the process began, of symm_ipc_collect() and of the
    /// library's own: the difference of two reports is what happened in between. Filled by
    /// symm_ipc_collect().
    #[derive(Default, PartialEq, Eq)]
    pub struct symm_ipc_report_t {
        pub struct_size: usize,
        /// found released by their holders
        pub leases_ended: u64,
        /// of holders that died
        pub leases_written_off: u64,
        /// released buffers that nobody holds any more
        pub blocks_freed: u64,
        /// of these
        pub bytes_freed: u64,
        /// of other processes' memory, kept here for the next import
        pub mappings_dropped: u64,
        /// released buffers that somebody still holds now
        pub blocks_in_limbo: u64,
        /// of these
        pub bytes_in_limbo: u64,
    }

    /// The state of sharing in this process. Filled by symm_ipc_stats().
    #[derive(Default, PartialEq, Eq)]
    pub struct symm_ipc_stats_t {
        pub struct_size: usize,
        /// made so far
        pub tokens: u64,
        /// that can be imported now
        pub exported_blocks: u64,
        /// of these
        pub exported_bytes: u64,
        /// leases given so far
        pub grants: u64,
        /// leases that others, and this process, hold on memory of this process
        pub leased: u64,
        /// on which there are leases
        pub leased_blocks: u64,
        /// released, but still held
        pub limbo_blocks: u64,
        /// of these
        pub limbo_bytes: u64,
        /// on which a holder that is gone may still write; never to be used again
        pub quarantined_blocks: u64,
        /// of these
        pub quarantined_bytes: u64,
        /// leases of dead holders so far
        pub written_off: u64,
        /// imports refused so far: forged, stale
        pub refused: u64,
        /// of other users, or that broke the protocol
        pub rejected_connections: u64,
        /// processes connected to this one
        pub consumers: u64,
        /// imports from other processes that are not released; those of its own count as
        /// `leased`
        pub imported: u64,
        /// mapped here for them, or kept for the next
        pub imported_blocks: u64,
        /// of these
        pub imported_bytes: u64,
        /// processes to which this one is connected
        pub exporters: u64,
        /// run so far
        pub collections: u64,
        /// age of the oldest lease, 0 if there is none
        pub oldest_lease_ms: u64,
        /// its holder, 0 if the pid is not visible here
        pub oldest_lease_pid: i64,
        /// of the holder, in clock ticks since boot (/proc/\<pid>/stat, field 22), 0 if unknown
        pub oldest_lease_start_time: u64,
    }
}

functions! {
    /// Version of the loaded library, encoded like SYMM_VERSION. \[local\]
    pub fn symm_version() -> u32;

    /// Static JSON object: version, git revision, compiler, back ends, CUDA architectures, SIMD
    /// targets. \[local\]
    pub fn symm_build_info() -> *const c_char;

    /// Static name of a status, "unknown status" for a value of a newer library. \[local\]
    pub fn symm_status_string(status: symm_status_t) -> *const c_char;

    /// Message of the last failing call on this thread: one line of UTF-8, "" before the first
    /// failure. \[local\]
    pub fn symm_last_error() -> *const c_char;

    /// What the last failing call on this thread failed of, and who is to blame. \[local\]
    pub fn symm_last_failure(out: *mut symm_failure_t) -> symm_status_t;

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_wait_options_init(
        options: *mut symm_wait_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Send log messages of at most `level` to `callback`, for the whole process, beside all
    /// other listeners. \[local\]
    pub fn symm_log_add_listener(
        callback: symm_log_callback_t,
        user: *mut c_void,
        level: symm_log_level_t,
        out_id: *mut u64,
    ) -> symm_status_t;

    /// The same, to a descriptor: for languages whose code must not run on threads of the
    /// library. \[local\]
    pub fn symm_log_to_fd(
        fd: i32,
        level: symm_log_level_t,
        out_id: *mut u64,
    ) -> symm_status_t;

    /// End a listener. \[local\]
    pub fn symm_log_remove_listener(id: u64) -> symm_status_t;

    /// Size of one element in bytes. \[local\]
    pub fn symm_dtype_size(dtype: symm_dtype_t, out_bytes: *mut usize) -> symm_status_t;

    /// Number of devices of a back end.
    pub fn symm_device_count(
        backend: symm_backend_t,
        out_count: *mut i32,
    ) -> symm_status_t;

    /// Describe device `device` of `backend`. \[local\]
    pub fn symm_device_info(
        backend: symm_backend_t,
        device: i32,
        out: *mut symm_device_info_t,
    ) -> symm_status_t;

    /// Links between the devices of a back end. \[local\]
    pub fn symm_topology(
        backend: symm_backend_t,
        out_class: *mut symm_topology_class_t,
        out_links: *mut i32,
        capacity: usize,
    ) -> symm_status_t;

    /// Set the first `struct_size` bytes of `config` to the defaults. \[local\]
    pub fn symm_group_config_init(
        config: *mut symm_group_config_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Form a group. \[collective\] \[blocking, create_timeout_ms\]
    pub fn symm_group_create(
        config: *const symm_group_config_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Divide a group. \[collective over `group`\] \[blocking, create_timeout_ms\]
    pub fn symm_group_split(
        group: *mut symm_group_t,
        color: i32,
        key: i32,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Form a group of some ranks of another. \[collective over `ranks`\] \[blocking,
    /// create_timeout_ms\]
    pub fn symm_group_create_from_ranks(
        group: *mut symm_group_t,
        ranks: *const i32,
        count: usize,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Form a group of this rank's machine, in the order of its ranks: those whose memory is
    /// mapped here (machine of symm_group_info()). \[collective over the ranks of a machine\]
    /// \[blocking, create_timeout_ms\]
    pub fn symm_group_local(
        group: *mut symm_group_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_group_shrink_options_init(
        options: *mut symm_group_shrink_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Form a group of those ranks of `group` that are alive and have not released it, in their
    /// old order. \[collective over these\] \[blocking, options.timeout_ms\]
    pub fn symm_group_shrink(
        group: *mut symm_group_t,
        options: *const symm_group_shrink_options_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;

    /// Which rank of `group` is rank `rank` of `other`. \[local\]
    pub fn symm_group_translate_rank(
        group: *mut symm_group_t,
        other: *mut symm_group_t,
        rank: i32,
        out_rank: *mut i32,
    ) -> symm_status_t;

    /// This process's rank in the group. \[local\]
    pub fn symm_group_rank(
        group: *mut symm_group_t,
        out_rank: *mut i32,
    ) -> symm_status_t;

    /// Number of ranks. \[local\]
    pub fn symm_group_size(
        group: *mut symm_group_t,
        out_size: *mut i32,
    ) -> symm_status_t;

    /// Describe a group. \[local\]
    pub fn symm_group_info(
        group: *mut symm_group_t,
        out: *mut symm_group_info_t,
    ) -> symm_status_t;

    /// Ask whether the group was revoked, and why. \[local\]
    pub fn symm_group_status(
        group: *mut symm_group_t,
        out: *mut symm_group_status_t,
    ) -> symm_status_t;

    /// Which ranks this rank knows to be dead, or to have released the group. \[local\]
    pub fn symm_group_failed_ranks(
        group: *mut symm_group_t,
        out_ranks: *mut i32,
        capacity: usize,
        out_count: *mut usize,
    ) -> symm_status_t;

    /// A descriptor for event loops, which becomes readable, and stays so, when the group is
    /// revoked: then ask symm_group_status(). \[local\]
    pub fn symm_group_failure_fd(
        group: *mut symm_group_t,
        out_fd: *mut i32,
    ) -> symm_status_t;

    /// Describe rank `rank` of a group, this one or another. \[local\]
    pub fn symm_peer_info(
        group: *mut symm_group_t,
        rank: i32,
        out: *mut symm_peer_info_t,
    ) -> symm_status_t;

    /// Ask what was done on a group. \[local\]
    pub fn symm_group_stats(
        group: *mut symm_group_t,
        out: *mut symm_group_stats_t,
    ) -> symm_status_t;

    /// Revoke the group on all ranks: pending and later calls return ABORTED. \[local\]
    pub fn symm_group_abort(
        group: *mut symm_group_t,
        reason: *const c_char,
    ) -> symm_status_t;

    /// Politely end a group: wait until all ranks have arrived here, so that none sees another
    /// leave early. \[collective\] \[blocking, options.timeout_ms\]
    pub fn symm_group_finalize(
        group: *mut symm_group_t,
        options: *const symm_wait_options_t,
    ) -> symm_status_t;

    /// Add a reference. \[local\]
    pub fn symm_group_retain(group: *mut symm_group_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_group_release(group: *mut symm_group_t);

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_alloc_options_init(
        options: *mut symm_alloc_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Allocate this rank's block on the group's device, zeroed. \[local\] \[blocking\]
    pub fn symm_alloc(
        group: *mut symm_group_t,
        size: usize,
        options: *const symm_alloc_options_t,
        out: *mut *mut symm_buffer_t,
    ) -> symm_status_t;

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_adopt_options_init(
        options: *mut symm_adopt_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Make a buffer of memory that another library has allocated, to be rendezvoused like one
    /// of symm_alloc(). \[local\] \[blocking\]
    pub fn symm_buffer_adopt(
        group: *mut symm_group_t,
        pointer: *const c_void,
        size: usize,
        options: *const symm_adopt_options_t,
        out: *mut *mut symm_buffer_t,
    ) -> symm_status_t;

    /// Describe a buffer. \[local\]
    pub fn symm_buffer_info(
        buffer: *mut symm_buffer_t,
        out: *mut symm_buffer_info_t,
    ) -> symm_status_t;

    /// Find the buffer of this process that `address` lies in, anywhere inside; an adopted one
    /// also by the addresses of its owner, as long as he has it mapped there. \[local\]
    pub fn symm_buffer_find(
        address: *const c_void,
        out: *mut *mut symm_buffer_t,
        out_offset: *mut usize,
    ) -> symm_status_t;

    /// Export a piece of a buffer as DMA-BUF, for a device of another kind (a network card,
    /// say) to map. \[local\]
    pub fn symm_buffer_export_dmabuf(
        buffer: *mut symm_buffer_t,
        offset: usize,
        size: usize,
        out_fd: *mut i32,
    ) -> symm_status_t;

    /// Address of the block; aligned to at least 4096 bytes and as asked for, an adopted one to 16.
    /// \[local\]
    pub fn symm_buffer_pointer(
        buffer: *mut symm_buffer_t,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Bytes asked for. \[local\]
    pub fn symm_buffer_size(
        buffer: *mut symm_buffer_t,
        out_bytes: *mut usize,
    ) -> symm_status_t;

    /// Add a reference. \[local\]
    pub fn symm_buffer_retain(buffer: *mut symm_buffer_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_buffer_release(buffer: *mut symm_buffer_t);

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_rendezvous_options_init(
        options: *mut symm_rendezvous_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Exchange blocks: after it, every rank's block is mapped here. \[collective\] \[blocking,
    /// options.timeout_ms\]
    pub fn symm_rendezvous(
        group: *mut symm_group_t,
        buffer: *mut symm_buffer_t,
        options: *const symm_rendezvous_options_t,
        out: *mut *mut symm_memory_t,
    ) -> symm_status_t;

    /// The memory that a buffer has become on a group. \[local\]
    pub fn symm_buffer_memory(
        buffer: *mut symm_buffer_t,
        group: *mut symm_group_t,
        out: *mut *mut symm_memory_t,
    ) -> symm_status_t;

    /// Describe a memory. \[local\]
    pub fn symm_memory_info(
        memory: *mut symm_memory_t,
        out: *mut symm_memory_info_t,
    ) -> symm_status_t;

    /// Address at which rank `rank`'s block is mapped here. \[local\]
    pub fn symm_memory_pointer(
        memory: *mut symm_memory_t,
        rank: i32,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Address of rank `rank`'s signal pad: uint64_t pad\[channel\]\[source rank\], zero at
    /// first. \[local\]
    pub fn symm_memory_signal_pad(
        memory: *mut symm_memory_t,
        rank: i32,
        out_pad: *mut *mut c_void,
    ) -> symm_status_t;

    /// Table of the `size` block addresses, readable by the group's device (and for the host
    /// back end, by the host). \[local\]
    pub fn symm_memory_pointer_table(
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut c_void,
    ) -> symm_status_t;

    /// Table of the `size` pad addresses, as symm_memory_pointer_table(). \[local\]
    pub fn symm_memory_signal_pad_table(
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut c_void,
    ) -> symm_status_t;

    /// Describe a memory for kernels of your own, to which the struct is passed by value.
    /// \[local\]
    pub fn symm_memory_device_view(
        memory: *mut symm_memory_t,
        timeout_ms: u64,
        stop: *const c_void,
        out: *mut symm_memory_view_t,
    ) -> symm_status_t;

    /// Multicast address of the memory: what is stored there reaches all ranks' blocks, and a
    /// reducing load combines them, by the multimem instructions of the device (compute
    /// capability 9.0); any other access is undefined. \[local\]
    pub fn symm_memory_multicast_pointer(
        memory: *mut symm_memory_t,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Find the memory of `group` that maps `address`, which may lie anywhere inside any rank's
    /// block. \[local\]
    pub fn symm_memory_find(
        group: *mut symm_group_t,
        address: *const c_void,
        out: *mut *mut symm_memory_t,
        out_rank: *mut i32,
        out_offset: *mut usize,
    ) -> symm_status_t;

    /// Add a reference. \[local\]
    pub fn symm_memory_retain(memory: *mut symm_memory_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_memory_release(memory: *mut symm_memory_t);

    /// What is issued on `stream` next runs after what was issued on `after_stream`. \[local\]
    /// \[stream\]
    pub fn symm_stream_wait(
        group: *mut symm_group_t,
        stream: *mut c_void,
        after_stream: *mut c_void,
    ) -> symm_status_t;

    /// Ask whether all that was issued on `stream` is over. \[local\]
    pub fn symm_stream_query(
        group: *mut symm_group_t,
        stream: *mut c_void,
        out_done: *mut i32,
    ) -> symm_status_t;

    /// Wait until all that was issued on `stream` is over, and say what went wrong with the
    /// group. \[local\] \[blocking, options.timeout_ms\]
    pub fn symm_group_synchronize(
        group: *mut symm_group_t,
        stream: *mut c_void,
        options: *const symm_wait_options_t,
    ) -> symm_status_t;

    /// Say that what was issued on `stream` so far uses the buffer: call it behind the last
    /// work there. \[local\] \[stream\]
    pub fn symm_buffer_record_use(
        buffer: *mut symm_buffer_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// The same, of a memory: of all ranks' blocks and pads that are mapped here. \[local\]
    /// \[stream\]
    pub fn symm_memory_record_use(
        memory: *mut symm_memory_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_heap_options_init(
        options: *mut symm_heap_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Make a heap of `bytes` on every rank. \[collective\] \[blocking, options.timeout_ms\]
    pub fn symm_heap_create(
        group: *mut symm_group_t,
        bytes: usize,
        options: *const symm_heap_options_t,
        out: *mut *mut symm_heap_t,
    ) -> symm_status_t;

    /// Take a piece of this rank's block. \[local\]
    pub fn symm_heap_alloc(
        heap: *mut symm_heap_t,
        size: usize,
        alignment: usize,
        out_pointer: *mut *mut c_void,
        out_offset: *mut usize,
    ) -> symm_status_t;

    /// Give a piece back. \[local\]
    pub fn symm_heap_free(heap: *mut symm_heap_t, pointer: *mut c_void) -> symm_status_t;

    /// Find the piece that contains `address`, anywhere between its first and its last byte in
    /// this rank's block. \[local\]
    pub fn symm_heap_find(
        heap: *mut symm_heap_t,
        address: *const c_void,
        out_pointer: *mut *mut c_void,
        out_size: *mut usize,
    ) -> symm_status_t;

    /// The memory that the pieces lie in. \[local\]
    pub fn symm_heap_memory(
        heap: *mut symm_heap_t,
        out: *mut *mut symm_memory_t,
    ) -> symm_status_t;

    /// Describe a heap. \[local\]
    pub fn symm_heap_info(
        heap: *mut symm_heap_t,
        out: *mut symm_heap_info_t,
    ) -> symm_status_t;

    /// Add a reference. \[local\]
    pub fn symm_heap_retain(heap: *mut symm_heap_t) -> symm_status_t;

    /// Drop a reference. \[local\]
    pub fn symm_heap_release(heap: *mut symm_heap_t);

    /// Wait until all ranks of a set are here. \[collective over the set\] \[stream\]
    pub fn symm_barrier(
        group: *mut symm_group_t,
        ranks: *const i32,
        count: usize,
        channel: i32,
        options: *const symm_wait_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Add one to the signals that this rank has sent to `rank` on `channel`. \[local\]
    /// \[stream\]
    pub fn symm_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// The same with a value: add it to the word, or set the word to it. \[local\] \[stream\]
    pub fn symm_signal_value(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        op: symm_signal_op_t,
        value: u64,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Take one signal from `rank` on `channel`, waiting for it if need be. \[local\]
    /// \[stream\]
    pub fn symm_wait_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        options: *const symm_wait_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Wait until the word from `rank` on `channel` compares so with `value`. \[local\]
    /// \[stream\]
    pub fn symm_wait_signal_value(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        compare: symm_compare_t,
        value: u64,
        options: *const symm_wait_options_t,
        out_seen: *mut u64,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Wait for several signals. \[local\] \[stream\]
    pub fn symm_wait_signals(
        memory: *mut symm_memory_t,
        waits: *const symm_signal_wait_t,
        count: usize,
        any: i32,
        options: *const symm_wait_options_t,
        out_index: *mut usize,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// How many signals from `rank` on `channel` are there and not taken. \[local\]
    pub fn symm_test_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        out_pending: *mut u64,
    ) -> symm_status_t;

    /// The word from `rank` on `channel`, likewise. \[local\]
    pub fn symm_test_signal_value(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        out_value: *mut u64,
    ) -> symm_status_t;

    /// Copy `size` bytes to `offset` in rank `rank`'s block. \[local\] \[stream\]
    pub fn symm_put(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const c_void,
        size: usize,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Copy `size` bytes from `offset` in rank `rank`'s block to `destination`. \[local\]
    /// \[stream\]
    pub fn symm_get(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        destination: *mut c_void,
        size: usize,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// symm_put(), then symm_signal() on `channel`, in one call. \[local\] \[stream\]
    pub fn symm_put_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const c_void,
        size: usize,
        channel: i32,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Store `count` copies of a 32-bit value at `offset` (a multiple of 4) in rank `rank`'s
    /// block. \[local\] \[stream\]
    pub fn symm_fill32(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        count: usize,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Store one 32-bit value at `offset` (a multiple of 4) in rank `rank`'s block, after
    /// everything that this rank wrote before (release order). \[local\] \[stream\]
    pub fn symm_write_value32(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Store one 64-bit value at `offset` (a multiple of 8), likewise. \[local\] \[stream\]
    pub fn symm_write_value64(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u64,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Wait until the word at `offset` (a multiple of 4) in this rank's own block compares so
    /// with `value`, whoever writes it, by whatever means. \[local\] \[stream\]
    pub fn symm_wait_value32(
        memory: *mut symm_memory_t,
        offset: usize,
        compare: symm_compare_t,
        value: u32,
        options: *const symm_wait_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// The same for a word of 64 bits (`offset` is a multiple of 8). \[local\] \[stream\]
    pub fn symm_wait_value64(
        memory: *mut symm_memory_t,
        offset: usize,
        compare: symm_compare_t,
        value: u64,
        options: *const symm_wait_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_collective_options_init(
        options: *mut symm_collective_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// recv\[i\] = op over ranks r of send_r\[i\], i \< count, on every rank.
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

    /// recv\[i\] = op over ranks r of send_r\[rank \* recv_count + i\], i \< recv_count; send
    /// has size \* recv_count elements.
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

    /// recv\[r \* send_count + i\] = send_r\[i\], i \< send_count; recv has size \* send_count
    /// elements.
    pub fn symm_allgather(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        send_count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// recv\[i\] = send_root\[i\], i \< count; send is read on the root only.
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

    /// recv\[i\] = op over ranks r of send_r\[i\] on the root; recv is written on the root
    /// only.
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

    /// recv\[r \* count + i\] = send_r\[rank \* count + i\], i \< count; both have size \*
    /// count elements.
    pub fn symm_alltoall(
        group: *mut symm_group_t,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// recv\[recv_displacements\[r\] + i\] = send_r\[i\], i \< recv_counts\[r\]; send has
    /// recv_counts\[rank\] elements.
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

    /// recv\[i\] = op over ranks r of send_r\[send_displacements_r\[rank\] + i\], i \<
    /// send_counts\[rank\].
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

    /// recv\[recv_displacements\[r\] + i\] = send_r\[send_displacements_r\[rank\] + i\], i \<
    /// recv_counts\[r\], which is send_counts_r\[rank\].
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

    /// symm_alltoallv() whose counts and displacements are read when it runs, from memory that
    /// the device (host back end: the host) can read: a captured call takes new ones at each
    /// replay.
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

    /// recv\[r \* count + i\] = send_r\[i\], i \< count, on the root; recv is written on the
    /// root only.
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

    /// recv\[i\] = send_root\[rank \* count + i\], i \< count; send is read on the root only.
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

    /// All-gather along the last dimension: recv\[row \* recv_stride + r \* row_count + i\] =
    /// send_r\[row \* row_count + i\], row \< rows, i \< row_count.
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

    /// All-reduce, residual and RMSNorm in one: what a transformer does behind each
    /// row-parallel product.
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

    /// Set the first `struct_size` bytes of `norm` to the defaults. \[local\]
    pub fn symm_rmsnorm_init(
        norm: *mut symm_rmsnorm_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Which algorithm a collective would use if every rank passed memory like this rank's.
    /// \[local\]
    pub fn symm_collective_plan(
        group: *mut symm_group_t,
        call: *const symm_collective_call_t,
        options: *const symm_collective_options_t,
        out: *mut symm_plan_info_t,
    ) -> symm_status_t;

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_ipc_export_options_init(
        options: *mut symm_ipc_export_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Make a token for `size` bytes at `pointer`. \[local\] \[stream\]
    pub fn symm_ipc_export(
        pointer: *const c_void,
        size: usize,
        options: *const symm_ipc_export_options_t,
        out_token: *mut c_void,
        capacity: usize,
        out_size: *mut usize,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\]
    pub fn symm_ipc_import_options_init(
        options: *mut symm_ipc_import_options_t,
        struct_size: usize,
    ) -> symm_status_t;

    /// Map the memory that a token names. \[local\] \[blocking, options.timeout_ms\] \[stream\]
    pub fn symm_ipc_import(
        token: *const c_void,
        token_size: usize,
        options: *const symm_ipc_import_options_t,
        out: *mut *mut symm_ipc_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Address of the imported piece; NULL of 0 bytes. \[local\]
    pub fn symm_ipc_pointer(
        ipc: *mut symm_ipc_t,
        out_pointer: *mut *mut c_void,
    ) -> symm_status_t;

    /// Bytes of the imported piece. \[local\]
    pub fn symm_ipc_size(ipc: *mut symm_ipc_t, out_bytes: *mut usize) -> symm_status_t;

    /// Describe an import. \[local\]
    pub fn symm_ipc_info(
        ipc: *mut symm_ipc_t,
        out: *mut symm_ipc_info_t,
    ) -> symm_status_t;

    /// What is issued on `stream` next runs after what the exporter had issued before the
    /// export, too. \[local\] \[stream\]
    pub fn symm_ipc_stream_wait(
        ipc: *mut symm_ipc_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Say that what was issued on `stream` so far uses the import: its lease does not end
    /// before that is over. \[local\] \[stream\]
    pub fn symm_ipc_record_use(
        ipc: *mut symm_ipc_t,
        stream: *mut c_void,
    ) -> symm_status_t;

    /// Add a reference. \[local\]
    pub fn symm_ipc_retain(ipc: *mut symm_ipc_t) -> symm_status_t;

    /// Drop a reference to an import, which ends with the last. \[local\] \[stream\]
    pub fn symm_ipc_release(ipc: *mut symm_ipc_t, stream: *mut c_void);

    /// End the tokens made so far for any part of a piece of memory, and wait until nobody
    /// holds a lease on any part of it: then it may be written anew and exported again.
    /// \[local\] \[blocking\]
    pub fn symm_ipc_withdraw(
        pointer: *const c_void,
        size: usize,
        timeout_ms: u64,
    ) -> symm_status_t;

    /// Ask who holds a piece of memory, without ending its tokens: those who have one may
    /// import it at any time. \[local\]
    pub fn symm_ipc_holders(
        pointer: *const c_void,
        size: usize,
        out: *mut symm_ipc_holders_t,
    ) -> symm_status_t;

    /// Free what is provably free. \[local\]
    pub fn symm_ipc_collect(out: *mut symm_ipc_report_t) -> symm_status_t;

    /// Ask for the state of sharing. \[local\]
    pub fn symm_ipc_stats(out: *mut symm_ipc_stats_t) -> symm_status_t;
}
