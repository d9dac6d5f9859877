// SPDX-License-Identifier: Apache-2.0
// The functions of `symm.h`, for the linker.
// Generated from symm.h by bindings/rust/generate. Do not edit.

use super::types::*;
unsafe extern "C" {
    /// See [`Api::symm_version`](crate::Api::symm_version).
    pub fn symm_version() -> u32;
    /// See [`Api::symm_build_info`](crate::Api::symm_build_info).
    pub fn symm_build_info() -> *const ::core::ffi::c_char;
    /// See [`Api::symm_status_string`](crate::Api::symm_status_string).
    pub fn symm_status_string(status: symm_status_t) -> *const ::core::ffi::c_char;
    /// See [`Api::symm_last_error`](crate::Api::symm_last_error).
    pub fn symm_last_error() -> *const ::core::ffi::c_char;
    /// See [`Api::symm_last_failure`](crate::Api::symm_last_failure).
    pub fn symm_last_failure(out: *mut symm_failure_t) -> symm_status_t;
    /// See [`Api::symm_set_log_callback`](crate::Api::symm_set_log_callback).
    pub fn symm_set_log_callback(
        callback: symm_log_callback_t,
        user: *mut ::core::ffi::c_void,
        level: symm_log_level_t,
    ) -> symm_status_t;
    /// See [`Api::symm_dtype_size`](crate::Api::symm_dtype_size).
    pub fn symm_dtype_size(dtype: symm_dtype_t, out_bytes: *mut usize) -> symm_status_t;
    /// See [`Api::symm_device_count`](crate::Api::symm_device_count).
    pub fn symm_device_count(
        backend: symm_backend_t,
        out_count: *mut i32,
    ) -> symm_status_t;
    /// See [`Api::symm_device_info`](crate::Api::symm_device_info).
    pub fn symm_device_info(
        backend: symm_backend_t,
        device: i32,
        out: *mut symm_device_info_t,
    ) -> symm_status_t;
    /// See [`Api::symm_topology`](crate::Api::symm_topology).
    pub fn symm_topology(
        backend: symm_backend_t,
        out_class: *mut symm_topology_class_t,
        out_links: *mut i32,
        capacity: usize,
    ) -> symm_status_t;
    /// See [`Api::symm_group_config_init`](crate::Api::symm_group_config_init).
    pub fn symm_group_config_init(
        config: *mut symm_group_config_t,
        struct_size: usize,
    ) -> symm_status_t;
    /// See [`Api::symm_group_create`](crate::Api::symm_group_create).
    pub fn symm_group_create(
        config: *const symm_group_config_t,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;
    /// See [`Api::symm_group_split`](crate::Api::symm_group_split).
    pub fn symm_group_split(
        group: *mut symm_group_t,
        color: i32,
        key: i32,
        out: *mut *mut symm_group_t,
    ) -> symm_status_t;
    /// See [`Api::symm_group_rank`](crate::Api::symm_group_rank).
    pub fn symm_group_rank(
        group: *mut symm_group_t,
        out_rank: *mut i32,
    ) -> symm_status_t;
    /// See [`Api::symm_group_size`](crate::Api::symm_group_size).
    pub fn symm_group_size(
        group: *mut symm_group_t,
        out_size: *mut i32,
    ) -> symm_status_t;
    /// See [`Api::symm_group_info`](crate::Api::symm_group_info).
    pub fn symm_group_info(
        group: *mut symm_group_t,
        out: *mut symm_group_info_t,
    ) -> symm_status_t;
    /// See [`Api::symm_group_status`](crate::Api::symm_group_status).
    pub fn symm_group_status(
        group: *mut symm_group_t,
        out: *mut symm_group_status_t,
    ) -> symm_status_t;
    /// See [`Api::symm_group_abort`](crate::Api::symm_group_abort).
    pub fn symm_group_abort(
        group: *mut symm_group_t,
        reason: *const ::core::ffi::c_char,
    ) -> symm_status_t;
    /// See [`Api::symm_group_finalize`](crate::Api::symm_group_finalize).
    pub fn symm_group_finalize(
        group: *mut symm_group_t,
        timeout_ms: u64,
    ) -> symm_status_t;
    /// See [`Api::symm_group_retain`](crate::Api::symm_group_retain).
    pub fn symm_group_retain(group: *mut symm_group_t) -> symm_status_t;
    /// See [`Api::symm_group_release`](crate::Api::symm_group_release).
    pub fn symm_group_release(group: *mut symm_group_t);
    /// See [`Api::symm_alloc`](crate::Api::symm_alloc).
    pub fn symm_alloc(
        group: *mut symm_group_t,
        size: usize,
        flags: u64,
        out: *mut *mut symm_buffer_t,
    ) -> symm_status_t;
    /// See [`Api::symm_buffer_adopt`](crate::Api::symm_buffer_adopt).
    pub fn symm_buffer_adopt(
        group: *mut symm_group_t,
        pointer: *const ::core::ffi::c_void,
        size: usize,
        out: *mut *mut symm_buffer_t,
    ) -> symm_status_t;
    /// See [`Api::symm_buffer_export_dmabuf`](crate::Api::symm_buffer_export_dmabuf).
    pub fn symm_buffer_export_dmabuf(
        buffer: *mut symm_buffer_t,
        offset: usize,
        size: usize,
        out_fd: *mut i32,
    ) -> symm_status_t;
    /// See [`Api::symm_buffer_pointer`](crate::Api::symm_buffer_pointer).
    pub fn symm_buffer_pointer(
        buffer: *mut symm_buffer_t,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_buffer_size`](crate::Api::symm_buffer_size).
    pub fn symm_buffer_size(
        buffer: *mut symm_buffer_t,
        out_bytes: *mut usize,
    ) -> symm_status_t;
    /// See [`Api::symm_buffer_retain`](crate::Api::symm_buffer_retain).
    pub fn symm_buffer_retain(buffer: *mut symm_buffer_t) -> symm_status_t;
    /// See [`Api::symm_buffer_release`](crate::Api::symm_buffer_release).
    pub fn symm_buffer_release(buffer: *mut symm_buffer_t);
    /// See [`Api::symm_rendezvous`](crate::Api::symm_rendezvous).
    pub fn symm_rendezvous(
        group: *mut symm_group_t,
        buffer: *mut symm_buffer_t,
        tag: u64,
        out: *mut *mut symm_memory_t,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_info`](crate::Api::symm_memory_info).
    pub fn symm_memory_info(
        memory: *mut symm_memory_t,
        out: *mut symm_memory_info_t,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_pointer`](crate::Api::symm_memory_pointer).
    pub fn symm_memory_pointer(
        memory: *mut symm_memory_t,
        rank: i32,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_signal_pad`](crate::Api::symm_memory_signal_pad).
    pub fn symm_memory_signal_pad(
        memory: *mut symm_memory_t,
        rank: i32,
        out_pad: *mut *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_pointer_table`](crate::Api::symm_memory_pointer_table).
    pub fn symm_memory_pointer_table(
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_signal_pad_table`](crate::Api::symm_memory_signal_pad_table).
    pub fn symm_memory_signal_pad_table(
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_multicast_pointer`](crate::Api::symm_memory_multicast_pointer).
    pub fn symm_memory_multicast_pointer(
        memory: *mut symm_memory_t,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_find`](crate::Api::symm_memory_find).
    pub fn symm_memory_find(
        group: *mut symm_group_t,
        address: *const ::core::ffi::c_void,
        out: *mut *mut symm_memory_t,
        out_rank: *mut i32,
        out_offset: *mut usize,
    ) -> symm_status_t;
    /// See [`Api::symm_memory_retain`](crate::Api::symm_memory_retain).
    pub fn symm_memory_retain(memory: *mut symm_memory_t) -> symm_status_t;
    /// See [`Api::symm_memory_release`](crate::Api::symm_memory_release).
    pub fn symm_memory_release(memory: *mut symm_memory_t);
    /// See [`Api::symm_barrier`](crate::Api::symm_barrier).
    pub fn symm_barrier(
        group: *mut symm_group_t,
        ranks: *const i32,
        count: usize,
        channel: i32,
        timeout_ms: u64,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_put_signal`](crate::Api::symm_put_signal).
    pub fn symm_put_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_wait_signal`](crate::Api::symm_wait_signal).
    pub fn symm_wait_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        timeout_ms: u64,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_put`](crate::Api::symm_put).
    pub fn symm_put(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const ::core::ffi::c_void,
        size: usize,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_get`](crate::Api::symm_get).
    pub fn symm_get(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        destination: *mut ::core::ffi::c_void,
        size: usize,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_put_with_signal`](crate::Api::symm_put_with_signal).
    pub fn symm_put_with_signal(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const ::core::ffi::c_void,
        size: usize,
        channel: i32,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_fill32`](crate::Api::symm_fill32).
    pub fn symm_fill32(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        count: usize,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_write_value32`](crate::Api::symm_write_value32).
    pub fn symm_write_value32(
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_collective_options_init`](crate::Api::symm_collective_options_init).
    pub fn symm_collective_options_init(
        options: *mut symm_collective_options_t,
        struct_size: usize,
    ) -> symm_status_t;
    /// See [`Api::symm_allreduce`](crate::Api::symm_allreduce).
    pub fn symm_allreduce(
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_reduce_scatter`](crate::Api::symm_reduce_scatter).
    pub fn symm_reduce_scatter(
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        recv_count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_allgather`](crate::Api::symm_allgather).
    pub fn symm_allgather(
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        send_count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_broadcast`](crate::Api::symm_broadcast).
    pub fn symm_broadcast(
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_reduce`](crate::Api::symm_reduce).
    pub fn symm_reduce(
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_alltoall`](crate::Api::symm_alltoall).
    pub fn symm_alltoall(
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_collective_plan`](crate::Api::symm_collective_plan).
    pub fn symm_collective_plan(
        group: *mut symm_group_t,
        collective: symm_collective_t,
        send: *const ::core::ffi::c_void,
        recv: *const ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        out: *mut symm_plan_info_t,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_export_options_init`](crate::Api::symm_ipc_export_options_init).
    pub fn symm_ipc_export_options_init(
        options: *mut symm_ipc_export_options_t,
        struct_size: usize,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_export`](crate::Api::symm_ipc_export).
    pub fn symm_ipc_export(
        pointer: *const ::core::ffi::c_void,
        size: usize,
        options: *const symm_ipc_export_options_t,
        out_token: *mut ::core::ffi::c_void,
        capacity: usize,
        out_size: *mut usize,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_import_options_init`](crate::Api::symm_ipc_import_options_init).
    pub fn symm_ipc_import_options_init(
        options: *mut symm_ipc_import_options_t,
        struct_size: usize,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_import`](crate::Api::symm_ipc_import).
    pub fn symm_ipc_import(
        token: *const ::core::ffi::c_void,
        token_size: usize,
        options: *const symm_ipc_import_options_t,
        out: *mut *mut symm_ipc_t,
        stream: *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_pointer`](crate::Api::symm_ipc_pointer).
    pub fn symm_ipc_pointer(
        ipc: *mut symm_ipc_t,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_size`](crate::Api::symm_ipc_size).
    pub fn symm_ipc_size(ipc: *mut symm_ipc_t, out_bytes: *mut usize) -> symm_status_t;
    /// See [`Api::symm_ipc_info`](crate::Api::symm_ipc_info).
    pub fn symm_ipc_info(
        ipc: *mut symm_ipc_t,
        out: *mut symm_ipc_info_t,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_release`](crate::Api::symm_ipc_release).
    pub fn symm_ipc_release(ipc: *mut symm_ipc_t, stream: *mut ::core::ffi::c_void);
    /// See [`Api::symm_ipc_withdraw`](crate::Api::symm_ipc_withdraw).
    pub fn symm_ipc_withdraw(
        pointer: *const ::core::ffi::c_void,
        size: usize,
        timeout_ms: u64,
    ) -> symm_status_t;
    /// See [`Api::symm_ipc_collect`](crate::Api::symm_ipc_collect).
    pub fn symm_ipc_collect(out: *mut symm_ipc_report_t) -> symm_status_t;
    /// See [`Api::symm_ipc_stats`](crate::Api::symm_ipc_stats).
    pub fn symm_ipc_stats(out: *mut symm_ipc_stats_t) -> symm_status_t;
}
