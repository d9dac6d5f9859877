// SPDX-License-Identifier: Apache-2.0
// Types and constants of `symm.h`.
// Generated from symm.h by bindings/rust/generate. Do not edit.

/// No deadline.
pub const SYMM_TIMEOUT_INFINITE: u64 = u64::MAX;
pub const SYMM_VERSION_MAJOR: u32 = 0;
pub const SYMM_VERSION_MINOR: u32 = 1;
pub const SYMM_VERSION_PATCH: u32 = 0;
pub const SYMM_VERSION: u32 = 256;
pub const SYMM_IPC_TOKEN_MAX_SIZE: u32 = 512;
/// Result of a call. Values are fixed for ever; new ones may be added.
pub type symm_status_t = i32;
pub const SYMM_OK: symm_status_t = 0;
/// an argument is out of range; the message names it
pub const SYMM_ERR_INVALID_ARGUMENT: symm_status_t = -1;
/// NULL, released, of another type, or inherited through fork()
pub const SYMM_ERR_INVALID_HANDLE: symm_status_t = -2;
/// host or device memory, or a limit on it
pub const SYMM_ERR_OUT_OF_MEMORY: symm_status_t = -3;
/// no such device, driver, launcher or feature on this machine
pub const SYMM_ERR_UNAVAILABLE: symm_status_t = -4;
/// this library does not do that (for instance a newer struct)
pub const SYMM_ERR_UNSUPPORTED: symm_status_t = -5;
/// a deadline passed; the message names who was awaited
pub const SYMM_ERR_TIMEOUT: symm_status_t = -6;
/// symm_group_abort() was called, here or on another rank
pub const SYMM_ERR_ABORTED: symm_status_t = -7;
/// a rank died or left; the message gives its rank and pid
pub const SYMM_ERR_PEER_FAILED: symm_status_t = -8;
/// ranks disagree (size, operation, data type, count ...)
pub const SYMM_ERR_MISMATCH: symm_status_t = -9;
/// a system call failed; the message names it and its errno
pub const SYMM_ERR_SYSTEM: symm_status_t = -10;
/// a CUDA driver call failed; the message names it and its result
pub const SYMM_ERR_CUDA: symm_status_t = -11;
/// the object is in use
pub const SYMM_ERR_BUSY: symm_status_t = -12;
/// a defect of this library
pub const SYMM_ERR_INTERNAL: symm_status_t = -13;
/// Data type. The value is (DLPack type code) \<\< 8 | bits, one lane.
pub type symm_dtype_t = i32;
pub const SYMM_DTYPE_I8: symm_dtype_t = 8;
pub const SYMM_DTYPE_I32: symm_dtype_t = 32;
pub const SYMM_DTYPE_I64: symm_dtype_t = 64;
pub const SYMM_DTYPE_U8: symm_dtype_t = 264;
pub const SYMM_DTYPE_U32: symm_dtype_t = 288;
pub const SYMM_DTYPE_U64: symm_dtype_t = 320;
pub const SYMM_DTYPE_F16: symm_dtype_t = 528;
pub const SYMM_DTYPE_F32: symm_dtype_t = 544;
pub const SYMM_DTYPE_F64: symm_dtype_t = 576;
pub const SYMM_DTYPE_BF16: symm_dtype_t = 1040;
/// finite-only variant (DLPack float8_e4m3fn); results saturate at +-448
pub const SYMM_DTYPE_F8E4M3: symm_dtype_t = 2568;
/// results saturate at +-57344
pub const SYMM_DTYPE_F8E5M2: symm_dtype_t = 3080;
/// Reduction. Ranks are combined in the order 0, 1, ..., size-1 on every rank and in every algorithm, so the result
/// has the same bits everywhere. F16, BF16 and F8 are combined in f32 and rounded once, to nearest even.
/// Integers wrap. MIN and MAX return NaN if any operand is NaN. AVG is the sum divided by the number of ranks
/// (integers: truncated towards zero). The payload of a NaN result is unspecified.
pub type symm_op_t = i32;
pub const SYMM_OP_SUM: symm_op_t = 0;
pub const SYMM_OP_AVG: symm_op_t = 1;
pub const SYMM_OP_MIN: symm_op_t = 2;
pub const SYMM_OP_MAX: symm_op_t = 3;
pub const SYMM_OP_PROD: symm_op_t = 4;
/// What memory a group works on.
pub type symm_backend_t = i32;
/// CUDA where a device is usable, else host
pub const SYMM_BACKEND_AUTO: symm_backend_t = 0;
/// memory shared between processes of one machine
pub const SYMM_BACKEND_HOST: symm_backend_t = 1;
pub const SYMM_BACKEND_CUDA: symm_backend_t = 2;
/// Collective operations, for symm_collective_plan().
pub type symm_collective_t = i32;
pub const SYMM_COLLECTIVE_ALLREDUCE: symm_collective_t = 0;
pub const SYMM_COLLECTIVE_REDUCE_SCATTER: symm_collective_t = 1;
pub const SYMM_COLLECTIVE_ALLGATHER: symm_collective_t = 2;
pub const SYMM_COLLECTIVE_BROADCAST: symm_collective_t = 3;
pub const SYMM_COLLECTIVE_REDUCE: symm_collective_t = 4;
pub const SYMM_COLLECTIVE_ALLTOALL: symm_collective_t = 5;
/// Algorithms. All give the same bits, but for the two of multicast (MULTIMEM), in which the switch adds, in an order of its own:
/// they are used only where they are asked for.
pub type symm_algorithm_t = i32;
pub const SYMM_ALGORITHM_AUTO: symm_algorithm_t = 0;
/// flag in data: the message rides in the line that signals it
pub const SYMM_ALGORITHM_LL: symm_algorithm_t = 1;
/// every rank publishes its input, every rank combines all
pub const SYMM_ALGORITHM_ONE_SHOT: symm_algorithm_t = 2;
/// each rank combines its slice and stores it to all; on the host without a copy
pub const SYMM_ALGORITHM_TWO_SHOT: symm_algorithm_t = 3;
/// the same in chunks through library memory; any buffer
pub const SYMM_ALGORITHM_TWO_SHOT_STAGED: symm_algorithm_t = 4;
/// 8 ranks, each touching 4 neighbours only
pub const SYMM_ALGORITHM_HYBRID_CUBE_MESH: symm_algorithm_t = 5;
/// every rank loads the sum from send's multicast address; not in place
pub const SYMM_ALGORITHM_MULTIMEM_ONE_SHOT: symm_algorithm_t = 6;
/// each rank loads the sum of its slice and stores it to all, by multicast
pub const SYMM_ALGORITHM_MULTIMEM_TWO_SHOT: symm_algorithm_t = 7;
/// Class of the links between devices.
pub type symm_topology_class_t = i32;
pub const SYMM_TOPOLOGY_UNKNOWN: symm_topology_class_t = 0;
pub const SYMM_TOPOLOGY_FULLY_CONNECTED: symm_topology_class_t = 1;
pub const SYMM_TOPOLOGY_HYBRID_CUBE_MESH: symm_topology_class_t = 2;
/// Severity of a log message.
pub type symm_log_level_t = i32;
pub const SYMM_LOG_ERROR: symm_log_level_t = 1;
pub const SYMM_LOG_WARNING: symm_log_level_t = 2;
pub const SYMM_LOG_INFO: symm_log_level_t = 3;
pub const SYMM_LOG_DEBUG: symm_log_level_t = 4;
/// the local rank's share: device (local rank modulo device count)
pub const SYMM_DEVICE_AUTO: i32 = -1;
/// several ranks may use one CUDA device
pub const SYMM_GROUP_OVERLAPPING_DEVICES: u64 = 1;
/// compare the arguments of every collective on all ranks; as SYMM_CHECK=1
pub const SYMM_GROUP_CHECK: u64 = 2;
/// multicast addresses for the group's memories, where they can be had; as
/// SYMM_MULTICAST=1. All ranks must ask; see symm_memory_multicast_pointer()
pub const SYMM_GROUP_MULTICAST: u64 = 4;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_group {
    _unused: [u8; 0],
}
pub type symm_group_t = symm_group;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_buffer {
    _unused: [u8; 0],
}
pub type symm_buffer_t = symm_buffer;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_memory {
    _unused: [u8; 0],
}
pub type symm_memory_t = symm_memory;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_ipc {
    _unused: [u8; 0],
}
pub type symm_ipc_t = symm_ipc;
/// The last failure of this thread, whole. Filled by symm_last_failure().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_failure_t {
    pub struct_size: usize,
    /// SYMM_OK before the first failure
    pub status: symm_status_t,
    /// the rank to blame, as numbered in the group of the call; -1: nobody in particular
    pub rank: i32,
    /// its process, as its own machine numbers it; 0: not known
    pub pid: i64,
    /// as symm_last_error()
    pub message: [::core::ffi::c_char; 1024usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of symm_failure_t"][::core::mem::size_of::<symm_failure_t>() - 1048usize];
    ["Alignment of symm_failure_t"][::core::mem::align_of::<symm_failure_t>() - 8usize];
    [
        "Offset of field: symm_failure_t::struct_size",
    ][::core::mem::offset_of!(symm_failure_t, struct_size) - 0usize];
    [
        "Offset of field: symm_failure_t::status",
    ][::core::mem::offset_of!(symm_failure_t, status) - 8usize];
    [
        "Offset of field: symm_failure_t::rank",
    ][::core::mem::offset_of!(symm_failure_t, rank) - 12usize];
    [
        "Offset of field: symm_failure_t::pid",
    ][::core::mem::offset_of!(symm_failure_t, pid) - 16usize];
    [
        "Offset of field: symm_failure_t::message",
    ][::core::mem::offset_of!(symm_failure_t, message) - 24usize];
};
/// Receives log messages, possibly from the library's monitor thread. Must not call into the library.
pub type symm_log_callback_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        level: symm_log_level_t,
        message: *const ::core::ffi::c_char,
    ),
>;
/// What is known of one device. Filled by symm_device_info().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_device_info_t {
    pub struct_size: usize,
    pub backend: symm_backend_t,
    pub device: i32,
    /// total memory
    pub memory_bytes: u64,
    /// processors this process may use, or multiprocessors
    pub compute_units: i32,
    /// 1 if multicast addresses can be had by asking for them (SYMM_GROUP_MULTICAST)
    pub multicast: i32,
    /// 1 if memory can be shared across machines
    pub fabric: i32,
    /// 1 if memory can be exported as DMA-BUF
    pub dmabuf: i32,
    /// product name
    pub name: [::core::ffi::c_char; 128usize],
    /// GPU UUID; for the host, the boot id
    pub uuid: [::core::ffi::c_char; 64usize],
    /// why multicast is 0, else ""
    pub multicast_reason: [::core::ffi::c_char; 128usize],
    /// why fabric is 0, else ""
    pub fabric_reason: [::core::ffi::c_char; 128usize],
    /// why dmabuf is 0, else ""
    pub dmabuf_reason: [::core::ffi::c_char; 128usize],
    /// 1 if SYMM_ALLOC_HOST can be had
    pub host_memory: i32,
    /// of the host, nearest to the device; -1 if unknown, and for the host itself
    pub numa_node: i32,
    /// why host_memory is 0, else ""
    pub host_memory_reason: [::core::ffi::c_char; 128usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_device_info_t",
    ][::core::mem::size_of::<symm_device_info_t>() - 752usize];
    [
        "Alignment of symm_device_info_t",
    ][::core::mem::align_of::<symm_device_info_t>() - 8usize];
    [
        "Offset of field: symm_device_info_t::struct_size",
    ][::core::mem::offset_of!(symm_device_info_t, struct_size) - 0usize];
    [
        "Offset of field: symm_device_info_t::backend",
    ][::core::mem::offset_of!(symm_device_info_t, backend) - 8usize];
    [
        "Offset of field: symm_device_info_t::device",
    ][::core::mem::offset_of!(symm_device_info_t, device) - 12usize];
    [
        "Offset of field: symm_device_info_t::memory_bytes",
    ][::core::mem::offset_of!(symm_device_info_t, memory_bytes) - 16usize];
    [
        "Offset of field: symm_device_info_t::compute_units",
    ][::core::mem::offset_of!(symm_device_info_t, compute_units) - 24usize];
    [
        "Offset of field: symm_device_info_t::multicast",
    ][::core::mem::offset_of!(symm_device_info_t, multicast) - 28usize];
    [
        "Offset of field: symm_device_info_t::fabric",
    ][::core::mem::offset_of!(symm_device_info_t, fabric) - 32usize];
    [
        "Offset of field: symm_device_info_t::dmabuf",
    ][::core::mem::offset_of!(symm_device_info_t, dmabuf) - 36usize];
    [
        "Offset of field: symm_device_info_t::name",
    ][::core::mem::offset_of!(symm_device_info_t, name) - 40usize];
    [
        "Offset of field: symm_device_info_t::uuid",
    ][::core::mem::offset_of!(symm_device_info_t, uuid) - 168usize];
    [
        "Offset of field: symm_device_info_t::multicast_reason",
    ][::core::mem::offset_of!(symm_device_info_t, multicast_reason) - 232usize];
    [
        "Offset of field: symm_device_info_t::fabric_reason",
    ][::core::mem::offset_of!(symm_device_info_t, fabric_reason) - 360usize];
    [
        "Offset of field: symm_device_info_t::dmabuf_reason",
    ][::core::mem::offset_of!(symm_device_info_t, dmabuf_reason) - 488usize];
    [
        "Offset of field: symm_device_info_t::host_memory",
    ][::core::mem::offset_of!(symm_device_info_t, host_memory) - 616usize];
    [
        "Offset of field: symm_device_info_t::numa_node",
    ][::core::mem::offset_of!(symm_device_info_t, numa_node) - 620usize];
    [
        "Offset of field: symm_device_info_t::host_memory_reason",
    ][::core::mem::offset_of!(symm_device_info_t, host_memory_reason) - 624usize];
};
/// Key-value store by which ranks find each other, supplied by the caller. The functions are called only on the thread that
/// is inside symm_group_create(), and must not unwind (no exception, panic or longjmp). They return SYMM_OK or a negative
/// status, which then fails the creation. A key is set once.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_store_t {
    pub struct_size: usize,
    /// passed to every function
    pub user: *mut ::core::ffi::c_void,
    /// Store `size` bytes under `key`.
    pub set: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            key: *const ::core::ffi::c_char,
            value: *const ::core::ffi::c_void,
            size: usize,
            timeout_ms: u64,
        ) -> symm_status_t,
    >,
    /// Wait until `key` is there, at most timeout_ms (then SYMM_ERR_TIMEOUT), and copy its value to `value`. If it is longer
    /// than `capacity`, return SYMM_ERR_INVALID_ARGUMENT. `\*out_size` receives its length.
    pub get: ::core::option::Option<
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of symm_store_t"][::core::mem::size_of::<symm_store_t>() - 32usize];
    ["Alignment of symm_store_t"][::core::mem::align_of::<symm_store_t>() - 8usize];
    [
        "Offset of field: symm_store_t::struct_size",
    ][::core::mem::offset_of!(symm_store_t, struct_size) - 0usize];
    [
        "Offset of field: symm_store_t::user",
    ][::core::mem::offset_of!(symm_store_t, user) - 8usize];
    [
        "Offset of field: symm_store_t::set",
    ][::core::mem::offset_of!(symm_store_t, set) - 16usize];
    [
        "Offset of field: symm_store_t::get",
    ][::core::mem::offset_of!(symm_store_t, get) - 24usize];
};
/// How to make a group. Start from SYMM_GROUP_CONFIG_INIT or symm_group_config_init().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_group_config_t {
    pub struct_size: usize,
    /// this rank; read only if size > 0
    pub rank: i32,
    /// number of ranks; 0: rank and size come from the bootstrap
    pub size: i32,
    /// must be the same on all ranks
    pub backend: symm_backend_t,
    /// CUDA ordinal or SYMM_DEVICE_AUTO; the host back end ignores it
    pub device: i32,
    /// enum symm_group_flag_values
    pub flags: u64,
    /// Where the ranks meet. NULL: $SYMM_BOOTSTRAP, else "env://".
    /// "env://"         rank and size from the launcher (SYMM_\*, Open MPI, PMI-1 as of MPICH, torchrun, Slurm, or a
    /// single process); sources that disagree are an error.
    /// "dir:///path"    a directory of mode 0700 owned by this user, made if missing; ranks on one machine.
    /// "thread://name"  ranks are threads of this process; `name` is any string.
    pub bootstrap: *const ::core::ffi::c_char,
    /// if not NULL, used instead of `bootstrap`; needs size > 0
    pub store: *const symm_store_t,
    /// for create, split and rendezvous; 0: $SYMM_CREATE_TIMEOUT_MS, else 300,000
    pub create_timeout_ms: u64,
    /// for every other wait; 0: $SYMM_TIMEOUT_MS, else 60,000
    pub timeout_ms: u64,
    /// tells apart concurrent groups with the same bootstrap; shown in messages; NULL: ""
    pub name: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_group_config_t",
    ][::core::mem::size_of::<symm_group_config_t>() - 72usize];
    [
        "Alignment of symm_group_config_t",
    ][::core::mem::align_of::<symm_group_config_t>() - 8usize];
    [
        "Offset of field: symm_group_config_t::struct_size",
    ][::core::mem::offset_of!(symm_group_config_t, struct_size) - 0usize];
    [
        "Offset of field: symm_group_config_t::rank",
    ][::core::mem::offset_of!(symm_group_config_t, rank) - 8usize];
    [
        "Offset of field: symm_group_config_t::size",
    ][::core::mem::offset_of!(symm_group_config_t, size) - 12usize];
    [
        "Offset of field: symm_group_config_t::backend",
    ][::core::mem::offset_of!(symm_group_config_t, backend) - 16usize];
    [
        "Offset of field: symm_group_config_t::device",
    ][::core::mem::offset_of!(symm_group_config_t, device) - 20usize];
    [
        "Offset of field: symm_group_config_t::flags",
    ][::core::mem::offset_of!(symm_group_config_t, flags) - 24usize];
    [
        "Offset of field: symm_group_config_t::bootstrap",
    ][::core::mem::offset_of!(symm_group_config_t, bootstrap) - 32usize];
    [
        "Offset of field: symm_group_config_t::store",
    ][::core::mem::offset_of!(symm_group_config_t, store) - 40usize];
    [
        "Offset of field: symm_group_config_t::create_timeout_ms",
    ][::core::mem::offset_of!(symm_group_config_t, create_timeout_ms) - 48usize];
    [
        "Offset of field: symm_group_config_t::timeout_ms",
    ][::core::mem::offset_of!(symm_group_config_t, timeout_ms) - 56usize];
    [
        "Offset of field: symm_group_config_t::name",
    ][::core::mem::offset_of!(symm_group_config_t, name) - 64usize];
};
/// What is known of a group. Filled by symm_group_info().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_group_info_t {
    pub struct_size: usize,
    pub rank: i32,
    pub size: i32,
    pub backend: symm_backend_t,
    pub device: i32,
    /// the same on all ranks, different for every group
    pub id: u64,
    /// barrier channels, and signal channels of each memory: 0 .. channels-1
    pub channels: i32,
    /// peers whose death is noticed by their closed socket only, for want of a pidfd
    pub unwatched_peers: i32,
    /// connection attempts refused during creation: wrong user or wrong group
    pub rejected_connections: u64,
    /// what the ranks were found by, for instance "env:// (Open MPI)"
    pub bootstrap: [::core::ffi::c_char; 64usize],
    pub name: [::core::ffi::c_char; 64usize],
    /// 1 if its memories are given multicast addresses
    pub multicast: i32,
    /// why multicast is 0, else ""; the same on all ranks
    pub multicast_reason: [::core::ffi::c_char; 192usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_group_info_t",
    ][::core::mem::size_of::<symm_group_info_t>() - 376usize];
    [
        "Alignment of symm_group_info_t",
    ][::core::mem::align_of::<symm_group_info_t>() - 8usize];
    [
        "Offset of field: symm_group_info_t::struct_size",
    ][::core::mem::offset_of!(symm_group_info_t, struct_size) - 0usize];
    [
        "Offset of field: symm_group_info_t::rank",
    ][::core::mem::offset_of!(symm_group_info_t, rank) - 8usize];
    [
        "Offset of field: symm_group_info_t::size",
    ][::core::mem::offset_of!(symm_group_info_t, size) - 12usize];
    [
        "Offset of field: symm_group_info_t::backend",
    ][::core::mem::offset_of!(symm_group_info_t, backend) - 16usize];
    [
        "Offset of field: symm_group_info_t::device",
    ][::core::mem::offset_of!(symm_group_info_t, device) - 20usize];
    [
        "Offset of field: symm_group_info_t::id",
    ][::core::mem::offset_of!(symm_group_info_t, id) - 24usize];
    [
        "Offset of field: symm_group_info_t::channels",
    ][::core::mem::offset_of!(symm_group_info_t, channels) - 32usize];
    [
        "Offset of field: symm_group_info_t::unwatched_peers",
    ][::core::mem::offset_of!(symm_group_info_t, unwatched_peers) - 36usize];
    [
        "Offset of field: symm_group_info_t::rejected_connections",
    ][::core::mem::offset_of!(symm_group_info_t, rejected_connections) - 40usize];
    [
        "Offset of field: symm_group_info_t::bootstrap",
    ][::core::mem::offset_of!(symm_group_info_t, bootstrap) - 48usize];
    [
        "Offset of field: symm_group_info_t::name",
    ][::core::mem::offset_of!(symm_group_info_t, name) - 112usize];
    [
        "Offset of field: symm_group_info_t::multicast",
    ][::core::mem::offset_of!(symm_group_info_t, multicast) - 176usize];
    [
        "Offset of field: symm_group_info_t::multicast_reason",
    ][::core::mem::offset_of!(symm_group_info_t, multicast_reason) - 180usize];
};
/// Health of a group. Filled by symm_group_status().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_group_status_t {
    pub struct_size: usize,
    /// SYMM_OK, or why the group was revoked
    pub status: symm_status_t,
    /// rank that caused it, -1 if none
    pub failed_rank: i32,
    /// its process id where known, else 0
    pub failed_pid: i64,
    /// "" while status is SYMM_OK
    pub message: [::core::ffi::c_char; 256usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_group_status_t",
    ][::core::mem::size_of::<symm_group_status_t>() - 280usize];
    [
        "Alignment of symm_group_status_t",
    ][::core::mem::align_of::<symm_group_status_t>() - 8usize];
    [
        "Offset of field: symm_group_status_t::struct_size",
    ][::core::mem::offset_of!(symm_group_status_t, struct_size) - 0usize];
    [
        "Offset of field: symm_group_status_t::status",
    ][::core::mem::offset_of!(symm_group_status_t, status) - 8usize];
    [
        "Offset of field: symm_group_status_t::failed_rank",
    ][::core::mem::offset_of!(symm_group_status_t, failed_rank) - 12usize];
    [
        "Offset of field: symm_group_status_t::failed_pid",
    ][::core::mem::offset_of!(symm_group_status_t, failed_pid) - 16usize];
    [
        "Offset of field: symm_group_status_t::message",
    ][::core::mem::offset_of!(symm_group_status_t, message) - 24usize];
};
/// memory of the host, pinned, which devices and the host reach alike
pub const SYMM_ALLOC_HOST: u64 = 1;
/// 0 there: the node nearest to the device; with the host back end, to the calling thread
pub const SYMM_ALLOC_NODE_SHIFT: u64 = 32;
/// What is known of a memory. Filled by symm_memory_info().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_memory_info_t {
    pub struct_size: usize,
    pub rank: i32,
    /// ranks
    pub size: i32,
    /// of each block
    pub bytes: u64,
    /// the same on all ranks
    pub id: u64,
    /// signal channels
    pub channels: i32,
    /// of each pad: channels \* size \* 4
    pub signal_pad_bytes: i32,
    /// 1 if it has a multicast address, then on all ranks
    pub multicast: i32,
    /// why multicast is 0, else ""; the same on all ranks
    pub multicast_reason: [::core::ffi::c_char; 192usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_memory_info_t",
    ][::core::mem::size_of::<symm_memory_info_t>() - 240usize];
    [
        "Alignment of symm_memory_info_t",
    ][::core::mem::align_of::<symm_memory_info_t>() - 8usize];
    [
        "Offset of field: symm_memory_info_t::struct_size",
    ][::core::mem::offset_of!(symm_memory_info_t, struct_size) - 0usize];
    [
        "Offset of field: symm_memory_info_t::rank",
    ][::core::mem::offset_of!(symm_memory_info_t, rank) - 8usize];
    [
        "Offset of field: symm_memory_info_t::size",
    ][::core::mem::offset_of!(symm_memory_info_t, size) - 12usize];
    [
        "Offset of field: symm_memory_info_t::bytes",
    ][::core::mem::offset_of!(symm_memory_info_t, bytes) - 16usize];
    [
        "Offset of field: symm_memory_info_t::id",
    ][::core::mem::offset_of!(symm_memory_info_t, id) - 24usize];
    [
        "Offset of field: symm_memory_info_t::channels",
    ][::core::mem::offset_of!(symm_memory_info_t, channels) - 32usize];
    [
        "Offset of field: symm_memory_info_t::signal_pad_bytes",
    ][::core::mem::offset_of!(symm_memory_info_t, signal_pad_bytes) - 36usize];
    [
        "Offset of field: symm_memory_info_t::multicast",
    ][::core::mem::offset_of!(symm_memory_info_t, multicast) - 40usize];
    [
        "Offset of field: symm_memory_info_t::multicast_reason",
    ][::core::mem::offset_of!(symm_memory_info_t, multicast_reason) - 44usize];
};
/// Options of one collective call; NULL means the defaults.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_collective_options_t {
    pub struct_size: usize,
    /// force one; must be the same on all ranks
    pub algorithm: symm_algorithm_t,
    /// 0: the group's
    pub timeout_ms: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_collective_options_t",
    ][::core::mem::size_of::<symm_collective_options_t>() - 24usize];
    [
        "Alignment of symm_collective_options_t",
    ][::core::mem::align_of::<symm_collective_options_t>() - 8usize];
    [
        "Offset of field: symm_collective_options_t::struct_size",
    ][::core::mem::offset_of!(symm_collective_options_t, struct_size) - 0usize];
    [
        "Offset of field: symm_collective_options_t::algorithm",
    ][::core::mem::offset_of!(symm_collective_options_t, algorithm) - 8usize];
    [
        "Offset of field: symm_collective_options_t::timeout_ms",
    ][::core::mem::offset_of!(symm_collective_options_t, timeout_ms) - 16usize];
};
/// The algorithm chosen for a call, and why. Filled by symm_collective_plan().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_plan_info_t {
    pub struct_size: usize,
    pub algorithm: symm_algorithm_t,
    /// parts into which the work is divided among the ranks
    pub slices: i32,
    /// bytes moved per step and rank when staged, else 0
    pub chunk_bytes: u64,
    /// 1 if results bypass the cache
    pub nontemporal: i32,
    pub reason: [::core::ffi::c_char; 192usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of symm_plan_info_t"][::core::mem::size_of::<symm_plan_info_t>() - 224usize];
    [
        "Alignment of symm_plan_info_t",
    ][::core::mem::align_of::<symm_plan_info_t>() - 8usize];
    [
        "Offset of field: symm_plan_info_t::struct_size",
    ][::core::mem::offset_of!(symm_plan_info_t, struct_size) - 0usize];
    [
        "Offset of field: symm_plan_info_t::algorithm",
    ][::core::mem::offset_of!(symm_plan_info_t, algorithm) - 8usize];
    [
        "Offset of field: symm_plan_info_t::slices",
    ][::core::mem::offset_of!(symm_plan_info_t, slices) - 12usize];
    [
        "Offset of field: symm_plan_info_t::chunk_bytes",
    ][::core::mem::offset_of!(symm_plan_info_t, chunk_bytes) - 16usize];
    [
        "Offset of field: symm_plan_info_t::nontemporal",
    ][::core::mem::offset_of!(symm_plan_info_t, nontemporal) - 24usize];
    [
        "Offset of field: symm_plan_info_t::reason",
    ][::core::mem::offset_of!(symm_plan_info_t, reason) - 28usize];
};
/// How to export; NULL means the defaults.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_ipc_export_options_t {
    pub struct_size: usize,
    /// keep the memory for this token, though its buffer is released, for as long from now; 0: do not
    pub hold_ms: u64,
    /// or until so many imports of this token were made; 0: only hold_ms ends it
    pub hold_imports: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_ipc_export_options_t",
    ][::core::mem::size_of::<symm_ipc_export_options_t>() - 24usize];
    [
        "Alignment of symm_ipc_export_options_t",
    ][::core::mem::align_of::<symm_ipc_export_options_t>() - 8usize];
    [
        "Offset of field: symm_ipc_export_options_t::struct_size",
    ][::core::mem::offset_of!(symm_ipc_export_options_t, struct_size) - 0usize];
    [
        "Offset of field: symm_ipc_export_options_t::hold_ms",
    ][::core::mem::offset_of!(symm_ipc_export_options_t, hold_ms) - 8usize];
    [
        "Offset of field: symm_ipc_export_options_t::hold_imports",
    ][::core::mem::offset_of!(symm_ipc_export_options_t, hold_imports) - 16usize];
};
/// How to import; NULL means the defaults.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_ipc_import_options_t {
    pub struct_size: usize,
    /// for the exporter's answer; 0: $SYMM_TIMEOUT_MS, else 60,000
    pub timeout_ms: u64,
    /// where $SYMM_IPC_DIRECTORY of the exporter is seen here; NULL: under the same path
    pub directory: *const ::core::ffi::c_char,
    /// CUDA ordinal for which to map; SYMM_DEVICE_AUTO: the GPU that has the memory
    pub device: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of symm_ipc_import_options_t",
    ][::core::mem::size_of::<symm_ipc_import_options_t>() - 32usize];
    [
        "Alignment of symm_ipc_import_options_t",
    ][::core::mem::align_of::<symm_ipc_import_options_t>() - 8usize];
    [
        "Offset of field: symm_ipc_import_options_t::struct_size",
    ][::core::mem::offset_of!(symm_ipc_import_options_t, struct_size) - 0usize];
    [
        "Offset of field: symm_ipc_import_options_t::timeout_ms",
    ][::core::mem::offset_of!(symm_ipc_import_options_t, timeout_ms) - 8usize];
    [
        "Offset of field: symm_ipc_import_options_t::directory",
    ][::core::mem::offset_of!(symm_ipc_import_options_t, directory) - 16usize];
    [
        "Offset of field: symm_ipc_import_options_t::device",
    ][::core::mem::offset_of!(symm_ipc_import_options_t, device) - 24usize];
};
/// What is known of an import. Filled by symm_ipc_info().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct symm_ipc_info_t {
    pub struct_size: usize,
    pub backend: symm_backend_t,
    /// for which it is mapped here; 0 with the host back end
    pub device: i32,
    /// of the piece
    pub bytes: u64,
    /// of the piece in the exporter's block
    pub offset: u64,
    /// of that block
    pub block_bytes: u64,
    /// as the exporter itself knows it
    pub exporter_pid: i64,
    /// 0 once its death or departure was noticed
    pub exporter_alive: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of symm_ipc_info_t"][::core::mem::size_of::<symm_ipc_info_t>() - 56usize];
    [
        "Alignment of symm_ipc_info_t",
    ][::core::mem::align_of::<symm_ipc_info_t>() - 8usize];
    [
        "Offset of field: symm_ipc_info_t::struct_size",
    ][::core::mem::offset_of!(symm_ipc_info_t, struct_size) - 0usize];
    [
        "Offset of field: symm_ipc_info_t::backend",
    ][::core::mem::offset_of!(symm_ipc_info_t, backend) - 8usize];
    [
        "Offset of field: symm_ipc_info_t::device",
    ][::core::mem::offset_of!(symm_ipc_info_t, device) - 12usize];
    [
        "Offset of field: symm_ipc_info_t::bytes",
    ][::core::mem::offset_of!(symm_ipc_info_t, bytes) - 16usize];
    [
        "Offset of field: symm_ipc_info_t::offset",
    ][::core::mem::offset_of!(symm_ipc_info_t, offset) - 24usize];
    [
        "Offset of field: symm_ipc_info_t::block_bytes",
    ][::core::mem::offset_of!(symm_ipc_info_t, block_bytes) - 32usize];
    [
        "Offset of field: symm_ipc_info_t::exporter_pid",
    ][::core::mem::offset_of!(symm_ipc_info_t, exporter_pid) - 40usize];
    [
        "Offset of field: symm_ipc_info_t::exporter_alive",
    ][::core::mem::offset_of!(symm_ipc_info_t, exporter_alive) - 48usize];
};
/// What a collection did. Filled by symm_ipc_collect().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
    /// released buffers that somebody still holds
    pub blocks_in_limbo: u64,
    /// of these
    pub bytes_in_limbo: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of symm_ipc_report_t"][::core::mem::size_of::<symm_ipc_report_t>() - 64usize];
    [
        "Alignment of symm_ipc_report_t",
    ][::core::mem::align_of::<symm_ipc_report_t>() - 8usize];
    [
        "Offset of field: symm_ipc_report_t::struct_size",
    ][::core::mem::offset_of!(symm_ipc_report_t, struct_size) - 0usize];
    [
        "Offset of field: symm_ipc_report_t::leases_ended",
    ][::core::mem::offset_of!(symm_ipc_report_t, leases_ended) - 8usize];
    [
        "Offset of field: symm_ipc_report_t::leases_written_off",
    ][::core::mem::offset_of!(symm_ipc_report_t, leases_written_off) - 16usize];
    [
        "Offset of field: symm_ipc_report_t::blocks_freed",
    ][::core::mem::offset_of!(symm_ipc_report_t, blocks_freed) - 24usize];
    [
        "Offset of field: symm_ipc_report_t::bytes_freed",
    ][::core::mem::offset_of!(symm_ipc_report_t, bytes_freed) - 32usize];
    [
        "Offset of field: symm_ipc_report_t::mappings_dropped",
    ][::core::mem::offset_of!(symm_ipc_report_t, mappings_dropped) - 40usize];
    [
        "Offset of field: symm_ipc_report_t::blocks_in_limbo",
    ][::core::mem::offset_of!(symm_ipc_report_t, blocks_in_limbo) - 48usize];
    [
        "Offset of field: symm_ipc_report_t::bytes_in_limbo",
    ][::core::mem::offset_of!(symm_ipc_report_t, bytes_in_limbo) - 56usize];
};
/// The state of sharing in this process. Filled by symm_ipc_stats().
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
    /// imports from other processes that are not released; those of its own count as `leased`
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of symm_ipc_stats_t"][::core::mem::size_of::<symm_ipc_stats_t>() - 184usize];
    [
        "Alignment of symm_ipc_stats_t",
    ][::core::mem::align_of::<symm_ipc_stats_t>() - 8usize];
    [
        "Offset of field: symm_ipc_stats_t::struct_size",
    ][::core::mem::offset_of!(symm_ipc_stats_t, struct_size) - 0usize];
    [
        "Offset of field: symm_ipc_stats_t::tokens",
    ][::core::mem::offset_of!(symm_ipc_stats_t, tokens) - 8usize];
    [
        "Offset of field: symm_ipc_stats_t::exported_blocks",
    ][::core::mem::offset_of!(symm_ipc_stats_t, exported_blocks) - 16usize];
    [
        "Offset of field: symm_ipc_stats_t::exported_bytes",
    ][::core::mem::offset_of!(symm_ipc_stats_t, exported_bytes) - 24usize];
    [
        "Offset of field: symm_ipc_stats_t::grants",
    ][::core::mem::offset_of!(symm_ipc_stats_t, grants) - 32usize];
    [
        "Offset of field: symm_ipc_stats_t::leased",
    ][::core::mem::offset_of!(symm_ipc_stats_t, leased) - 40usize];
    [
        "Offset of field: symm_ipc_stats_t::leased_blocks",
    ][::core::mem::offset_of!(symm_ipc_stats_t, leased_blocks) - 48usize];
    [
        "Offset of field: symm_ipc_stats_t::limbo_blocks",
    ][::core::mem::offset_of!(symm_ipc_stats_t, limbo_blocks) - 56usize];
    [
        "Offset of field: symm_ipc_stats_t::limbo_bytes",
    ][::core::mem::offset_of!(symm_ipc_stats_t, limbo_bytes) - 64usize];
    [
        "Offset of field: symm_ipc_stats_t::quarantined_blocks",
    ][::core::mem::offset_of!(symm_ipc_stats_t, quarantined_blocks) - 72usize];
    [
        "Offset of field: symm_ipc_stats_t::quarantined_bytes",
    ][::core::mem::offset_of!(symm_ipc_stats_t, quarantined_bytes) - 80usize];
    [
        "Offset of field: symm_ipc_stats_t::written_off",
    ][::core::mem::offset_of!(symm_ipc_stats_t, written_off) - 88usize];
    [
        "Offset of field: symm_ipc_stats_t::refused",
    ][::core::mem::offset_of!(symm_ipc_stats_t, refused) - 96usize];
    [
        "Offset of field: symm_ipc_stats_t::rejected_connections",
    ][::core::mem::offset_of!(symm_ipc_stats_t, rejected_connections) - 104usize];
    [
        "Offset of field: symm_ipc_stats_t::consumers",
    ][::core::mem::offset_of!(symm_ipc_stats_t, consumers) - 112usize];
    [
        "Offset of field: symm_ipc_stats_t::imported",
    ][::core::mem::offset_of!(symm_ipc_stats_t, imported) - 120usize];
    [
        "Offset of field: symm_ipc_stats_t::imported_blocks",
    ][::core::mem::offset_of!(symm_ipc_stats_t, imported_blocks) - 128usize];
    [
        "Offset of field: symm_ipc_stats_t::imported_bytes",
    ][::core::mem::offset_of!(symm_ipc_stats_t, imported_bytes) - 136usize];
    [
        "Offset of field: symm_ipc_stats_t::exporters",
    ][::core::mem::offset_of!(symm_ipc_stats_t, exporters) - 144usize];
    [
        "Offset of field: symm_ipc_stats_t::collections",
    ][::core::mem::offset_of!(symm_ipc_stats_t, collections) - 152usize];
    [
        "Offset of field: symm_ipc_stats_t::oldest_lease_ms",
    ][::core::mem::offset_of!(symm_ipc_stats_t, oldest_lease_ms) - 160usize];
    [
        "Offset of field: symm_ipc_stats_t::oldest_lease_pid",
    ][::core::mem::offset_of!(symm_ipc_stats_t, oldest_lease_pid) - 168usize];
    [
        "Offset of field: symm_ipc_stats_t::oldest_lease_start_time",
    ][::core::mem::offset_of!(symm_ipc_stats_t, oldest_lease_start_time) - 176usize];
};
