// SPDX-License-Identifier: Apache-2.0
// The functions of `symm.h` as a table that is filled at run time.
// Generated from symm.h by bindings/rust/generate. Do not edit.

use super::types::*;
use crate::MissingSymbol;
/// The functions of one loaded library. A function that the library does not have is an error when it is called.
pub struct Api {
    symm_version: Option<unsafe extern "C" fn() -> u32>,
    symm_build_info: Option<unsafe extern "C" fn() -> *const ::core::ffi::c_char>,
    symm_status_string: Option<
        unsafe extern "C" fn(status: symm_status_t) -> *const ::core::ffi::c_char,
    >,
    symm_last_error: Option<unsafe extern "C" fn() -> *const ::core::ffi::c_char>,
    symm_last_failure: Option<
        unsafe extern "C" fn(out: *mut symm_failure_t) -> symm_status_t,
    >,
    symm_set_log_callback: Option<
        unsafe extern "C" fn(
            callback: symm_log_callback_t,
            user: *mut ::core::ffi::c_void,
            level: symm_log_level_t,
        ) -> symm_status_t,
    >,
    symm_dtype_size: Option<
        unsafe extern "C" fn(dtype: symm_dtype_t, out_bytes: *mut usize) -> symm_status_t,
    >,
    symm_device_count: Option<
        unsafe extern "C" fn(
            backend: symm_backend_t,
            out_count: *mut i32,
        ) -> symm_status_t,
    >,
    symm_device_info: Option<
        unsafe extern "C" fn(
            backend: symm_backend_t,
            device: i32,
            out: *mut symm_device_info_t,
        ) -> symm_status_t,
    >,
    symm_topology: Option<
        unsafe extern "C" fn(
            backend: symm_backend_t,
            out_class: *mut symm_topology_class_t,
            out_links: *mut i32,
            capacity: usize,
        ) -> symm_status_t,
    >,
    symm_group_config_init: Option<
        unsafe extern "C" fn(
            config: *mut symm_group_config_t,
            struct_size: usize,
        ) -> symm_status_t,
    >,
    symm_group_create: Option<
        unsafe extern "C" fn(
            config: *const symm_group_config_t,
            out: *mut *mut symm_group_t,
        ) -> symm_status_t,
    >,
    symm_group_split: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            color: i32,
            key: i32,
            out: *mut *mut symm_group_t,
        ) -> symm_status_t,
    >,
    symm_group_rank: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            out_rank: *mut i32,
        ) -> symm_status_t,
    >,
    symm_group_size: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            out_size: *mut i32,
        ) -> symm_status_t,
    >,
    symm_group_info: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            out: *mut symm_group_info_t,
        ) -> symm_status_t,
    >,
    symm_group_status: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            out: *mut symm_group_status_t,
        ) -> symm_status_t,
    >,
    symm_group_abort: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            reason: *const ::core::ffi::c_char,
        ) -> symm_status_t,
    >,
    symm_group_finalize: Option<
        unsafe extern "C" fn(group: *mut symm_group_t, timeout_ms: u64) -> symm_status_t,
    >,
    symm_group_retain: Option<
        unsafe extern "C" fn(group: *mut symm_group_t) -> symm_status_t,
    >,
    symm_group_release: Option<unsafe extern "C" fn(group: *mut symm_group_t)>,
    symm_alloc: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            size: usize,
            flags: u64,
            out: *mut *mut symm_buffer_t,
        ) -> symm_status_t,
    >,
    symm_buffer_adopt: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            pointer: *const ::core::ffi::c_void,
            size: usize,
            out: *mut *mut symm_buffer_t,
        ) -> symm_status_t,
    >,
    symm_buffer_export_dmabuf: Option<
        unsafe extern "C" fn(
            buffer: *mut symm_buffer_t,
            offset: usize,
            size: usize,
            out_fd: *mut i32,
        ) -> symm_status_t,
    >,
    symm_buffer_pointer: Option<
        unsafe extern "C" fn(
            buffer: *mut symm_buffer_t,
            out_pointer: *mut *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_buffer_size: Option<
        unsafe extern "C" fn(
            buffer: *mut symm_buffer_t,
            out_bytes: *mut usize,
        ) -> symm_status_t,
    >,
    symm_buffer_retain: Option<
        unsafe extern "C" fn(buffer: *mut symm_buffer_t) -> symm_status_t,
    >,
    symm_buffer_release: Option<unsafe extern "C" fn(buffer: *mut symm_buffer_t)>,
    symm_rendezvous: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            buffer: *mut symm_buffer_t,
            tag: u64,
            out: *mut *mut symm_memory_t,
        ) -> symm_status_t,
    >,
    symm_memory_info: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            out: *mut symm_memory_info_t,
        ) -> symm_status_t,
    >,
    symm_memory_pointer: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            out_pointer: *mut *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_memory_signal_pad: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            out_pad: *mut *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_memory_pointer_table: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            out_table: *mut *const *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_memory_signal_pad_table: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            out_table: *mut *const *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_memory_multicast_pointer: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            out_pointer: *mut *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_memory_find: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            address: *const ::core::ffi::c_void,
            out: *mut *mut symm_memory_t,
            out_rank: *mut i32,
            out_offset: *mut usize,
        ) -> symm_status_t,
    >,
    symm_memory_retain: Option<
        unsafe extern "C" fn(memory: *mut symm_memory_t) -> symm_status_t,
    >,
    symm_memory_release: Option<unsafe extern "C" fn(memory: *mut symm_memory_t)>,
    symm_barrier: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            ranks: *const i32,
            count: usize,
            channel: i32,
            timeout_ms: u64,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_put_signal: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            channel: i32,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_wait_signal: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            channel: i32,
            timeout_ms: u64,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_put: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            offset: usize,
            source: *const ::core::ffi::c_void,
            size: usize,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_get: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            offset: usize,
            destination: *mut ::core::ffi::c_void,
            size: usize,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_put_with_signal: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            offset: usize,
            source: *const ::core::ffi::c_void,
            size: usize,
            channel: i32,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_fill32: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            offset: usize,
            value: u32,
            count: usize,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_write_value32: Option<
        unsafe extern "C" fn(
            memory: *mut symm_memory_t,
            rank: i32,
            offset: usize,
            value: u32,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_collective_options_init: Option<
        unsafe extern "C" fn(
            options: *mut symm_collective_options_t,
            struct_size: usize,
        ) -> symm_status_t,
    >,
    symm_allreduce: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            send: *const ::core::ffi::c_void,
            recv: *mut ::core::ffi::c_void,
            count: usize,
            dtype: symm_dtype_t,
            op: symm_op_t,
            options: *const symm_collective_options_t,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_reduce_scatter: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            send: *const ::core::ffi::c_void,
            recv: *mut ::core::ffi::c_void,
            recv_count: usize,
            dtype: symm_dtype_t,
            op: symm_op_t,
            options: *const symm_collective_options_t,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_allgather: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            send: *const ::core::ffi::c_void,
            recv: *mut ::core::ffi::c_void,
            send_count: usize,
            dtype: symm_dtype_t,
            options: *const symm_collective_options_t,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_broadcast: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            send: *const ::core::ffi::c_void,
            recv: *mut ::core::ffi::c_void,
            count: usize,
            dtype: symm_dtype_t,
            root: i32,
            options: *const symm_collective_options_t,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_reduce: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            send: *const ::core::ffi::c_void,
            recv: *mut ::core::ffi::c_void,
            count: usize,
            dtype: symm_dtype_t,
            op: symm_op_t,
            root: i32,
            options: *const symm_collective_options_t,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_alltoall: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            send: *const ::core::ffi::c_void,
            recv: *mut ::core::ffi::c_void,
            count: usize,
            dtype: symm_dtype_t,
            options: *const symm_collective_options_t,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_collective_plan: Option<
        unsafe extern "C" fn(
            group: *mut symm_group_t,
            collective: symm_collective_t,
            send: *const ::core::ffi::c_void,
            recv: *const ::core::ffi::c_void,
            count: usize,
            dtype: symm_dtype_t,
            op: symm_op_t,
            options: *const symm_collective_options_t,
            out: *mut symm_plan_info_t,
        ) -> symm_status_t,
    >,
    symm_ipc_export_options_init: Option<
        unsafe extern "C" fn(
            options: *mut symm_ipc_export_options_t,
            struct_size: usize,
        ) -> symm_status_t,
    >,
    symm_ipc_export: Option<
        unsafe extern "C" fn(
            pointer: *const ::core::ffi::c_void,
            size: usize,
            options: *const symm_ipc_export_options_t,
            out_token: *mut ::core::ffi::c_void,
            capacity: usize,
            out_size: *mut usize,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_ipc_import_options_init: Option<
        unsafe extern "C" fn(
            options: *mut symm_ipc_import_options_t,
            struct_size: usize,
        ) -> symm_status_t,
    >,
    symm_ipc_import: Option<
        unsafe extern "C" fn(
            token: *const ::core::ffi::c_void,
            token_size: usize,
            options: *const symm_ipc_import_options_t,
            out: *mut *mut symm_ipc_t,
            stream: *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_ipc_pointer: Option<
        unsafe extern "C" fn(
            ipc: *mut symm_ipc_t,
            out_pointer: *mut *mut ::core::ffi::c_void,
        ) -> symm_status_t,
    >,
    symm_ipc_size: Option<
        unsafe extern "C" fn(
            ipc: *mut symm_ipc_t,
            out_bytes: *mut usize,
        ) -> symm_status_t,
    >,
    symm_ipc_info: Option<
        unsafe extern "C" fn(
            ipc: *mut symm_ipc_t,
            out: *mut symm_ipc_info_t,
        ) -> symm_status_t,
    >,
    symm_ipc_release: Option<
        unsafe extern "C" fn(ipc: *mut symm_ipc_t, stream: *mut ::core::ffi::c_void),
    >,
    symm_ipc_withdraw: Option<
        unsafe extern "C" fn(
            pointer: *const ::core::ffi::c_void,
            size: usize,
            timeout_ms: u64,
        ) -> symm_status_t,
    >,
    symm_ipc_collect: Option<
        unsafe extern "C" fn(out: *mut symm_ipc_report_t) -> symm_status_t,
    >,
    symm_ipc_stats: Option<
        unsafe extern "C" fn(out: *mut symm_ipc_stats_t) -> symm_status_t,
    >,
}
impl Api {
    /// The names of all functions of the header that these bindings were made from.
    pub const NAMES: &'static [&'static str] = &[
        "symm_version",
        "symm_build_info",
        "symm_status_string",
        "symm_last_error",
        "symm_last_failure",
        "symm_set_log_callback",
        "symm_dtype_size",
        "symm_device_count",
        "symm_device_info",
        "symm_topology",
        "symm_group_config_init",
        "symm_group_create",
        "symm_group_split",
        "symm_group_rank",
        "symm_group_size",
        "symm_group_info",
        "symm_group_status",
        "symm_group_abort",
        "symm_group_finalize",
        "symm_group_retain",
        "symm_group_release",
        "symm_alloc",
        "symm_buffer_adopt",
        "symm_buffer_export_dmabuf",
        "symm_buffer_pointer",
        "symm_buffer_size",
        "symm_buffer_retain",
        "symm_buffer_release",
        "symm_rendezvous",
        "symm_memory_info",
        "symm_memory_pointer",
        "symm_memory_signal_pad",
        "symm_memory_pointer_table",
        "symm_memory_signal_pad_table",
        "symm_memory_multicast_pointer",
        "symm_memory_find",
        "symm_memory_retain",
        "symm_memory_release",
        "symm_barrier",
        "symm_put_signal",
        "symm_wait_signal",
        "symm_put",
        "symm_get",
        "symm_put_with_signal",
        "symm_fill32",
        "symm_write_value32",
        "symm_collective_options_init",
        "symm_allreduce",
        "symm_reduce_scatter",
        "symm_allgather",
        "symm_broadcast",
        "symm_reduce",
        "symm_alltoall",
        "symm_collective_plan",
        "symm_ipc_export_options_init",
        "symm_ipc_export",
        "symm_ipc_import_options_init",
        "symm_ipc_import",
        "symm_ipc_pointer",
        "symm_ipc_size",
        "symm_ipc_info",
        "symm_ipc_release",
        "symm_ipc_withdraw",
        "symm_ipc_collect",
        "symm_ipc_stats",
    ];
    /// The functions that the loaded library does not have.
    pub fn missing(&self) -> impl Iterator<Item = &'static str> {
        let there = [
            self.symm_version.is_some(),
            self.symm_build_info.is_some(),
            self.symm_status_string.is_some(),
            self.symm_last_error.is_some(),
            self.symm_last_failure.is_some(),
            self.symm_set_log_callback.is_some(),
            self.symm_dtype_size.is_some(),
            self.symm_device_count.is_some(),
            self.symm_device_info.is_some(),
            self.symm_topology.is_some(),
            self.symm_group_config_init.is_some(),
            self.symm_group_create.is_some(),
            self.symm_group_split.is_some(),
            self.symm_group_rank.is_some(),
            self.symm_group_size.is_some(),
            self.symm_group_info.is_some(),
            self.symm_group_status.is_some(),
            self.symm_group_abort.is_some(),
            self.symm_group_finalize.is_some(),
            self.symm_group_retain.is_some(),
            self.symm_group_release.is_some(),
            self.symm_alloc.is_some(),
            self.symm_buffer_adopt.is_some(),
            self.symm_buffer_export_dmabuf.is_some(),
            self.symm_buffer_pointer.is_some(),
            self.symm_buffer_size.is_some(),
            self.symm_buffer_retain.is_some(),
            self.symm_buffer_release.is_some(),
            self.symm_rendezvous.is_some(),
            self.symm_memory_info.is_some(),
            self.symm_memory_pointer.is_some(),
            self.symm_memory_signal_pad.is_some(),
            self.symm_memory_pointer_table.is_some(),
            self.symm_memory_signal_pad_table.is_some(),
            self.symm_memory_multicast_pointer.is_some(),
            self.symm_memory_find.is_some(),
            self.symm_memory_retain.is_some(),
            self.symm_memory_release.is_some(),
            self.symm_barrier.is_some(),
            self.symm_put_signal.is_some(),
            self.symm_wait_signal.is_some(),
            self.symm_put.is_some(),
            self.symm_get.is_some(),
            self.symm_put_with_signal.is_some(),
            self.symm_fill32.is_some(),
            self.symm_write_value32.is_some(),
            self.symm_collective_options_init.is_some(),
            self.symm_allreduce.is_some(),
            self.symm_reduce_scatter.is_some(),
            self.symm_allgather.is_some(),
            self.symm_broadcast.is_some(),
            self.symm_reduce.is_some(),
            self.symm_alltoall.is_some(),
            self.symm_collective_plan.is_some(),
            self.symm_ipc_export_options_init.is_some(),
            self.symm_ipc_export.is_some(),
            self.symm_ipc_import_options_init.is_some(),
            self.symm_ipc_import.is_some(),
            self.symm_ipc_pointer.is_some(),
            self.symm_ipc_size.is_some(),
            self.symm_ipc_info.is_some(),
            self.symm_ipc_release.is_some(),
            self.symm_ipc_withdraw.is_some(),
            self.symm_ipc_collect.is_some(),
            self.symm_ipc_stats.is_some(),
        ];
        Self::NAMES
            .iter()
            .copied()
            .zip(there)
            .filter_map(|(name, there)| (!there).then_some(name))
    }
    /// # Safety
    /// `find` returns the address of the C function of that name and `symm.h`'s type, or `None`.
    pub(crate) unsafe fn resolve(
        mut find: impl FnMut(
            &'static core::ffi::CStr,
        ) -> Option<*const core::ffi::c_void>,
    ) -> Self {
        unsafe {
            Self {
                symm_version: find(c"symm_version")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn() -> u32,
                    >(address)),
                symm_build_info: find(c"symm_build_info")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn() -> *const ::core::ffi::c_char,
                    >(address)),
                symm_status_string: find(c"symm_status_string")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            status: symm_status_t,
                        ) -> *const ::core::ffi::c_char,
                    >(address)),
                symm_last_error: find(c"symm_last_error")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn() -> *const ::core::ffi::c_char,
                    >(address)),
                symm_last_failure: find(c"symm_last_failure")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(out: *mut symm_failure_t) -> symm_status_t,
                    >(address)),
                symm_set_log_callback: find(c"symm_set_log_callback")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            callback: symm_log_callback_t,
                            user: *mut ::core::ffi::c_void,
                            level: symm_log_level_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_dtype_size: find(c"symm_dtype_size")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            dtype: symm_dtype_t,
                            out_bytes: *mut usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_device_count: find(c"symm_device_count")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            backend: symm_backend_t,
                            out_count: *mut i32,
                        ) -> symm_status_t,
                    >(address)),
                symm_device_info: find(c"symm_device_info")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            backend: symm_backend_t,
                            device: i32,
                            out: *mut symm_device_info_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_topology: find(c"symm_topology")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            backend: symm_backend_t,
                            out_class: *mut symm_topology_class_t,
                            out_links: *mut i32,
                            capacity: usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_config_init: find(c"symm_group_config_init")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            config: *mut symm_group_config_t,
                            struct_size: usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_create: find(c"symm_group_create")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            config: *const symm_group_config_t,
                            out: *mut *mut symm_group_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_split: find(c"symm_group_split")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            color: i32,
                            key: i32,
                            out: *mut *mut symm_group_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_rank: find(c"symm_group_rank")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            out_rank: *mut i32,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_size: find(c"symm_group_size")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            out_size: *mut i32,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_info: find(c"symm_group_info")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            out: *mut symm_group_info_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_status: find(c"symm_group_status")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            out: *mut symm_group_status_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_abort: find(c"symm_group_abort")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            reason: *const ::core::ffi::c_char,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_finalize: find(c"symm_group_finalize")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            timeout_ms: u64,
                        ) -> symm_status_t,
                    >(address)),
                symm_group_retain: find(c"symm_group_retain")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(group: *mut symm_group_t) -> symm_status_t,
                    >(address)),
                symm_group_release: find(c"symm_group_release")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(group: *mut symm_group_t),
                    >(address)),
                symm_alloc: find(c"symm_alloc")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            size: usize,
                            flags: u64,
                            out: *mut *mut symm_buffer_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_buffer_adopt: find(c"symm_buffer_adopt")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            pointer: *const ::core::ffi::c_void,
                            size: usize,
                            out: *mut *mut symm_buffer_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_buffer_export_dmabuf: find(c"symm_buffer_export_dmabuf")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            buffer: *mut symm_buffer_t,
                            offset: usize,
                            size: usize,
                            out_fd: *mut i32,
                        ) -> symm_status_t,
                    >(address)),
                symm_buffer_pointer: find(c"symm_buffer_pointer")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            buffer: *mut symm_buffer_t,
                            out_pointer: *mut *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_buffer_size: find(c"symm_buffer_size")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            buffer: *mut symm_buffer_t,
                            out_bytes: *mut usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_buffer_retain: find(c"symm_buffer_retain")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(buffer: *mut symm_buffer_t) -> symm_status_t,
                    >(address)),
                symm_buffer_release: find(c"symm_buffer_release")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(buffer: *mut symm_buffer_t),
                    >(address)),
                symm_rendezvous: find(c"symm_rendezvous")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            buffer: *mut symm_buffer_t,
                            tag: u64,
                            out: *mut *mut symm_memory_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_info: find(c"symm_memory_info")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            out: *mut symm_memory_info_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_pointer: find(c"symm_memory_pointer")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            out_pointer: *mut *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_signal_pad: find(c"symm_memory_signal_pad")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            out_pad: *mut *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_pointer_table: find(c"symm_memory_pointer_table")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            out_table: *mut *const *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_signal_pad_table: find(c"symm_memory_signal_pad_table")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            out_table: *mut *const *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_multicast_pointer: find(c"symm_memory_multicast_pointer")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            out_pointer: *mut *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_find: find(c"symm_memory_find")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            address: *const ::core::ffi::c_void,
                            out: *mut *mut symm_memory_t,
                            out_rank: *mut i32,
                            out_offset: *mut usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_memory_retain: find(c"symm_memory_retain")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(memory: *mut symm_memory_t) -> symm_status_t,
                    >(address)),
                symm_memory_release: find(c"symm_memory_release")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(memory: *mut symm_memory_t),
                    >(address)),
                symm_barrier: find(c"symm_barrier")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            ranks: *const i32,
                            count: usize,
                            channel: i32,
                            timeout_ms: u64,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_put_signal: find(c"symm_put_signal")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            channel: i32,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_wait_signal: find(c"symm_wait_signal")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            channel: i32,
                            timeout_ms: u64,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_put: find(c"symm_put")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            offset: usize,
                            source: *const ::core::ffi::c_void,
                            size: usize,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_get: find(c"symm_get")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            offset: usize,
                            destination: *mut ::core::ffi::c_void,
                            size: usize,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_put_with_signal: find(c"symm_put_with_signal")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            offset: usize,
                            source: *const ::core::ffi::c_void,
                            size: usize,
                            channel: i32,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_fill32: find(c"symm_fill32")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            offset: usize,
                            value: u32,
                            count: usize,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_write_value32: find(c"symm_write_value32")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            memory: *mut symm_memory_t,
                            rank: i32,
                            offset: usize,
                            value: u32,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_collective_options_init: find(c"symm_collective_options_init")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            options: *mut symm_collective_options_t,
                            struct_size: usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_allreduce: find(c"symm_allreduce")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            send: *const ::core::ffi::c_void,
                            recv: *mut ::core::ffi::c_void,
                            count: usize,
                            dtype: symm_dtype_t,
                            op: symm_op_t,
                            options: *const symm_collective_options_t,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_reduce_scatter: find(c"symm_reduce_scatter")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            send: *const ::core::ffi::c_void,
                            recv: *mut ::core::ffi::c_void,
                            recv_count: usize,
                            dtype: symm_dtype_t,
                            op: symm_op_t,
                            options: *const symm_collective_options_t,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_allgather: find(c"symm_allgather")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            send: *const ::core::ffi::c_void,
                            recv: *mut ::core::ffi::c_void,
                            send_count: usize,
                            dtype: symm_dtype_t,
                            options: *const symm_collective_options_t,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_broadcast: find(c"symm_broadcast")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            send: *const ::core::ffi::c_void,
                            recv: *mut ::core::ffi::c_void,
                            count: usize,
                            dtype: symm_dtype_t,
                            root: i32,
                            options: *const symm_collective_options_t,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_reduce: find(c"symm_reduce")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            send: *const ::core::ffi::c_void,
                            recv: *mut ::core::ffi::c_void,
                            count: usize,
                            dtype: symm_dtype_t,
                            op: symm_op_t,
                            root: i32,
                            options: *const symm_collective_options_t,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_alltoall: find(c"symm_alltoall")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            send: *const ::core::ffi::c_void,
                            recv: *mut ::core::ffi::c_void,
                            count: usize,
                            dtype: symm_dtype_t,
                            options: *const symm_collective_options_t,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_collective_plan: find(c"symm_collective_plan")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            group: *mut symm_group_t,
                            collective: symm_collective_t,
                            send: *const ::core::ffi::c_void,
                            recv: *const ::core::ffi::c_void,
                            count: usize,
                            dtype: symm_dtype_t,
                            op: symm_op_t,
                            options: *const symm_collective_options_t,
                            out: *mut symm_plan_info_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_export_options_init: find(c"symm_ipc_export_options_init")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            options: *mut symm_ipc_export_options_t,
                            struct_size: usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_export: find(c"symm_ipc_export")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            pointer: *const ::core::ffi::c_void,
                            size: usize,
                            options: *const symm_ipc_export_options_t,
                            out_token: *mut ::core::ffi::c_void,
                            capacity: usize,
                            out_size: *mut usize,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_import_options_init: find(c"symm_ipc_import_options_init")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            options: *mut symm_ipc_import_options_t,
                            struct_size: usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_import: find(c"symm_ipc_import")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            token: *const ::core::ffi::c_void,
                            token_size: usize,
                            options: *const symm_ipc_import_options_t,
                            out: *mut *mut symm_ipc_t,
                            stream: *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_pointer: find(c"symm_ipc_pointer")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            ipc: *mut symm_ipc_t,
                            out_pointer: *mut *mut ::core::ffi::c_void,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_size: find(c"symm_ipc_size")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            ipc: *mut symm_ipc_t,
                            out_bytes: *mut usize,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_info: find(c"symm_ipc_info")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            ipc: *mut symm_ipc_t,
                            out: *mut symm_ipc_info_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_release: find(c"symm_ipc_release")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            ipc: *mut symm_ipc_t,
                            stream: *mut ::core::ffi::c_void,
                        ),
                    >(address)),
                symm_ipc_withdraw: find(c"symm_ipc_withdraw")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            pointer: *const ::core::ffi::c_void,
                            size: usize,
                            timeout_ms: u64,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_collect: find(c"symm_ipc_collect")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(
                            out: *mut symm_ipc_report_t,
                        ) -> symm_status_t,
                    >(address)),
                symm_ipc_stats: find(c"symm_ipc_stats")
                    .map(|address| core::mem::transmute::<
                        *const core::ffi::c_void,
                        unsafe extern "C" fn(out: *mut symm_ipc_stats_t) -> symm_status_t,
                    >(address)),
            }
        }
    }
    /// The functions that the linker found.
    #[cfg(feature = "linked")]
    pub(crate) fn linked() -> Self {
        Self {
            symm_version: Some(super::linked::symm_version),
            symm_build_info: Some(super::linked::symm_build_info),
            symm_status_string: Some(super::linked::symm_status_string),
            symm_last_error: Some(super::linked::symm_last_error),
            symm_last_failure: Some(super::linked::symm_last_failure),
            symm_set_log_callback: Some(super::linked::symm_set_log_callback),
            symm_dtype_size: Some(super::linked::symm_dtype_size),
            symm_device_count: Some(super::linked::symm_device_count),
            symm_device_info: Some(super::linked::symm_device_info),
            symm_topology: Some(super::linked::symm_topology),
            symm_group_config_init: Some(super::linked::symm_group_config_init),
            symm_group_create: Some(super::linked::symm_group_create),
            symm_group_split: Some(super::linked::symm_group_split),
            symm_group_rank: Some(super::linked::symm_group_rank),
            symm_group_size: Some(super::linked::symm_group_size),
            symm_group_info: Some(super::linked::symm_group_info),
            symm_group_status: Some(super::linked::symm_group_status),
            symm_group_abort: Some(super::linked::symm_group_abort),
            symm_group_finalize: Some(super::linked::symm_group_finalize),
            symm_group_retain: Some(super::linked::symm_group_retain),
            symm_group_release: Some(super::linked::symm_group_release),
            symm_alloc: Some(super::linked::symm_alloc),
            symm_buffer_adopt: Some(super::linked::symm_buffer_adopt),
            symm_buffer_export_dmabuf: Some(super::linked::symm_buffer_export_dmabuf),
            symm_buffer_pointer: Some(super::linked::symm_buffer_pointer),
            symm_buffer_size: Some(super::linked::symm_buffer_size),
            symm_buffer_retain: Some(super::linked::symm_buffer_retain),
            symm_buffer_release: Some(super::linked::symm_buffer_release),
            symm_rendezvous: Some(super::linked::symm_rendezvous),
            symm_memory_info: Some(super::linked::symm_memory_info),
            symm_memory_pointer: Some(super::linked::symm_memory_pointer),
            symm_memory_signal_pad: Some(super::linked::symm_memory_signal_pad),
            symm_memory_pointer_table: Some(super::linked::symm_memory_pointer_table),
            symm_memory_signal_pad_table: Some(
                super::linked::symm_memory_signal_pad_table,
            ),
            symm_memory_multicast_pointer: Some(
                super::linked::symm_memory_multicast_pointer,
            ),
            symm_memory_find: Some(super::linked::symm_memory_find),
            symm_memory_retain: Some(super::linked::symm_memory_retain),
            symm_memory_release: Some(super::linked::symm_memory_release),
            symm_barrier: Some(super::linked::symm_barrier),
            symm_put_signal: Some(super::linked::symm_put_signal),
            symm_wait_signal: Some(super::linked::symm_wait_signal),
            symm_put: Some(super::linked::symm_put),
            symm_get: Some(super::linked::symm_get),
            symm_put_with_signal: Some(super::linked::symm_put_with_signal),
            symm_fill32: Some(super::linked::symm_fill32),
            symm_write_value32: Some(super::linked::symm_write_value32),
            symm_collective_options_init: Some(
                super::linked::symm_collective_options_init,
            ),
            symm_allreduce: Some(super::linked::symm_allreduce),
            symm_reduce_scatter: Some(super::linked::symm_reduce_scatter),
            symm_allgather: Some(super::linked::symm_allgather),
            symm_broadcast: Some(super::linked::symm_broadcast),
            symm_reduce: Some(super::linked::symm_reduce),
            symm_alltoall: Some(super::linked::symm_alltoall),
            symm_collective_plan: Some(super::linked::symm_collective_plan),
            symm_ipc_export_options_init: Some(
                super::linked::symm_ipc_export_options_init,
            ),
            symm_ipc_export: Some(super::linked::symm_ipc_export),
            symm_ipc_import_options_init: Some(
                super::linked::symm_ipc_import_options_init,
            ),
            symm_ipc_import: Some(super::linked::symm_ipc_import),
            symm_ipc_pointer: Some(super::linked::symm_ipc_pointer),
            symm_ipc_size: Some(super::linked::symm_ipc_size),
            symm_ipc_info: Some(super::linked::symm_ipc_info),
            symm_ipc_release: Some(super::linked::symm_ipc_release),
            symm_ipc_withdraw: Some(super::linked::symm_ipc_withdraw),
            symm_ipc_collect: Some(super::linked::symm_ipc_collect),
            symm_ipc_stats: Some(super::linked::symm_ipc_stats),
        }
    }
    /// Version of the loaded library, encoded like SYMM_VERSION. \[local\] Never fails. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_version(&self) -> Result<u32, MissingSymbol> {
        self.symm_version
            .map(|function| unsafe { function() })
            .ok_or(MissingSymbol {
                name: "symm_version",
            })
    }
    /// Static JSON object: version, git revision, compiler, back ends, CUDA architectures, SIMD targets. \[local\] Never NULL.
    /// Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_build_info(
        &self,
    ) -> Result<*const ::core::ffi::c_char, MissingSymbol> {
        self.symm_build_info
            .map(|function| unsafe { function() })
            .ok_or(MissingSymbol {
                name: "symm_build_info",
            })
    }
    /// Static name of a status, "unknown status" for a value of a newer library. \[local\] Never NULL. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_status_string(
        &self,
        status: symm_status_t,
    ) -> Result<*const ::core::ffi::c_char, MissingSymbol> {
        self.symm_status_string
            .map(|function| unsafe { function(status) })
            .ok_or(MissingSymbol {
                name: "symm_status_string",
            })
    }
    /// Message of the last failing call on this thread: one line of UTF-8, "" before the first failure. \[local\] Valid until
    /// the next failing call on this thread. Never NULL. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_last_error(
        &self,
    ) -> Result<*const ::core::ffi::c_char, MissingSymbol> {
        self.symm_last_error
            .map(|function| unsafe { function() })
            .ok_or(MissingSymbol {
                name: "symm_last_error",
            })
    }
    /// What the last failing call on this thread failed of, and who is to blame. \[local\] A failure of this call itself becomes the
    /// last one. Since 0.1.
    ///
    /// * `out`: struct_size set by the caller; at most that many bytes are written.
    ///
    /// Returns INVALID_ARGUMENT for NULL or a struct_size smaller than that of 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_last_failure(
        &self,
        out: *mut symm_failure_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_last_failure
            .map(|function| unsafe { function(out) })
            .ok_or(MissingSymbol {
                name: "symm_last_failure",
            })
    }
    /// Send log messages of at most `level` to `callback`, for the whole process; NULL stops them. \[local\]
    /// Without a callback the library prints nothing, unless SYMM_LOG=error|warning|info|debug names a level: then messages go
    /// to stderr. When the call returns, the former callback is not running and will not run again. Since 0.1.
    ///
    /// Returns INVALID_ARGUMENT for an unknown level.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_set_log_callback(
        &self,
        callback: symm_log_callback_t,
        user: *mut ::core::ffi::c_void,
        level: symm_log_level_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_set_log_callback
            .map(|function| unsafe { function(callback, user, level) })
            .ok_or(MissingSymbol {
                name: "symm_set_log_callback",
            })
    }
    /// Size of one element in bytes. \[local\] Since 0.1.
    ///
    /// Returns INVALID_ARGUMENT for an unknown dtype.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_dtype_size(
        &self,
        dtype: symm_dtype_t,
        out_bytes: *mut usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_dtype_size
            .map(|function| unsafe { function(dtype, out_bytes) })
            .ok_or(MissingSymbol {
                name: "symm_dtype_size",
            })
    }
    /// Number of devices of a back end. The host back end has one. AUTO resolves as symm_group_create() would. \[local\]
    /// Since 0.1.
    ///
    /// Returns UNAVAILABLE when the back end cannot be used here; the message says why.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_device_count(
        &self,
        backend: symm_backend_t,
        out_count: *mut i32,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_device_count
            .map(|function| unsafe { function(backend, out_count) })
            .ok_or(MissingSymbol {
                name: "symm_device_count",
            })
    }
    /// Describe device `device` of `backend`. \[local\] Since 0.1.
    ///
    /// * `out`: struct_size set by the caller; at most that many bytes are written.
    ///
    /// Returns UNAVAILABLE when the back end cannot be used, INVALID_ARGUMENT for a device out of range.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_device_info(
        &self,
        backend: symm_backend_t,
        device: i32,
        out: *mut symm_device_info_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_device_info
            .map(|function| unsafe { function(backend, device, out) })
            .ok_or(MissingSymbol {
                name: "symm_device_info",
            })
    }
    /// Links between the devices of a back end. \[local\] Since 0.1.
    ///
    /// * `out_class`: class of the whole.
    /// * `out_links`: row-major matrix \[device_count\]\[device_count\] of the number of direct links; the diagonal is 0.
    /// NULL with capacity 0 asks for the class only.
    /// * `capacity`: elements that out_links holds; at least device_count \* device_count.
    ///
    /// Returns UNAVAILABLE, INVALID_ARGUMENT.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_topology(
        &self,
        backend: symm_backend_t,
        out_class: *mut symm_topology_class_t,
        out_links: *mut i32,
        capacity: usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_topology
            .map(|function| unsafe { function(backend, out_class, out_links, capacity) })
            .ok_or(MissingSymbol {
                name: "symm_topology",
            })
    }
    /// Set the first `struct_size` bytes of `config` to the defaults. \[local\] Since 0.1.
    ///
    /// Returns INVALID_ARGUMENT if config is NULL or struct_size is smaller than that of 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_config_init(
        &self,
        config: *mut symm_group_config_t,
        struct_size: usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_config_init
            .map(|function| unsafe { function(config, struct_size) })
            .ok_or(MissingSymbol {
                name: "symm_group_config_init",
            })
    }
    /// Form a group. \[collective\] \[blocking, create_timeout_ms\] All ranks succeed or all fail with the same status, and a failure
    /// leaves nothing behind. What goes wrong once all have agreed is the group's trouble: a rank that has it finds it failed, one
    /// that has not returned yet may get that failure instead. The first group of a process starts its monitor thread. Since 0.1.
    ///
    /// * `config`: NULL for the defaults.
    /// * `out`: one reference, for symm_group_release().
    ///
    /// Returns INVALID_ARGUMENT, UNAVAILABLE (back end, launcher), TIMEOUT (names the missing ranks), PEER_FAILED, MISMATCH,
    /// SYSTEM, OUT_OF_MEMORY.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_create(
        &self,
        config: *const symm_group_config_t,
        out: *mut *mut symm_group_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_create
            .map(|function| unsafe { function(config, out) })
            .ok_or(MissingSymbol {
                name: "symm_group_create",
            })
    }
    /// Divide a group. \[collective over `group`\] \[blocking, create_timeout_ms\] Ranks that pass the same color form a new group,
    /// ordered by key, then by rank. Groups may overlap with others made earlier; their signals never meet. Since 0.1.
    ///
    /// * `color`: >= 0, or negative to be in no new group: then \*out is set to NULL.
    ///
    /// Returns as symm_group_create().
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_split(
        &self,
        group: *mut symm_group_t,
        color: i32,
        key: i32,
        out: *mut *mut symm_group_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_split
            .map(|function| unsafe { function(group, color, key, out) })
            .ok_or(MissingSymbol {
                name: "symm_group_split",
            })
    }
    /// This process's rank in the group. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_rank(
        &self,
        group: *mut symm_group_t,
        out_rank: *mut i32,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_rank
            .map(|function| unsafe { function(group, out_rank) })
            .ok_or(MissingSymbol {
                name: "symm_group_rank",
            })
    }
    /// Number of ranks. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_size(
        &self,
        group: *mut symm_group_t,
        out_size: *mut i32,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_size
            .map(|function| unsafe { function(group, out_size) })
            .ok_or(MissingSymbol {
                name: "symm_group_size",
            })
    }
    /// Describe a group. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_info(
        &self,
        group: *mut symm_group_t,
        out: *mut symm_group_info_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_info
            .map(|function| unsafe { function(group, out) })
            .ok_or(MissingSymbol {
                name: "symm_group_info",
            })
    }
    /// Ask whether the group was revoked, and why. \[local\] Never waits. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_status(
        &self,
        group: *mut symm_group_t,
        out: *mut symm_group_status_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_status
            .map(|function| unsafe { function(group, out) })
            .ok_or(MissingSymbol {
                name: "symm_group_status",
            })
    }
    /// Revoke the group on all ranks: pending and later calls return ABORTED. \[local\] Never waits; any thread; idempotent.
    ///
    /// * `reason`: shown in the messages; NULL for none. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_abort(
        &self,
        group: *mut symm_group_t,
        reason: *const ::core::ffi::c_char,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_abort
            .map(|function| unsafe { function(group, reason) })
            .ok_or(MissingSymbol {
                name: "symm_group_abort",
            })
    }
    /// Politely end a group: wait until all ranks have arrived here, so that none sees another leave early.
    /// \[collective\] \[blocking\] Optional. Afterwards only queries and release are allowed. Since 0.1.
    ///
    /// Returns TIMEOUT, PEER_FAILED, ABORTED; the group is ended all the same.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_finalize(
        &self,
        group: *mut symm_group_t,
        timeout_ms: u64,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_finalize
            .map(|function| unsafe { function(group, timeout_ms) })
            .ok_or(MissingSymbol {
                name: "symm_group_finalize",
            })
    }
    /// Add a reference. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_retain(
        &self,
        group: *mut symm_group_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_group_retain
            .map(|function| unsafe { function(group) })
            .ok_or(MissingSymbol {
                name: "symm_group_retain",
            })
    }
    /// Drop a reference. \[local\] NULL is accepted. Peers that still wait for this rank get PEER_FAILED. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_group_release(
        &self,
        group: *mut symm_group_t,
    ) -> Result<(), MissingSymbol> {
        self.symm_group_release
            .map(|function| unsafe { function(group) })
            .ok_or(MissingSymbol {
                name: "symm_group_release",
            })
    }
    /// Allocate this rank's block on the group's device, zeroed. \[local\] \[blocking\] The buffer may be rendezvoused on this
    /// group and on any other group of the same device. Since 0.1.
    /// With SYMM_ALLOC_HOST the block lies in memory of the host. On a CUDA group the devices of all ranks reach it, and after a
    /// rendezvous so does the host in each rank's process, by the same address; imported by a token it is mapped for the importer's
    /// device only. symm_device_info() says whether it can be had. On a host group, where all memory is the host's, the flag only
    /// allows to name a node. All pages are on that node, whoever touches them first, or the call fails.
    ///
    /// * `size`: bytes, > 0.
    /// * `flags`: 0, or as described at enum symm_alloc_flag_values.
    ///
    /// Returns OUT_OF_MEMORY (the limit that was hit is named), INVALID_ARGUMENT (size, flags, no such node), UNAVAILABLE
    /// (SYMM_ALLOC_HOST or its node; the message says why), CUDA.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_alloc(
        &self,
        group: *mut symm_group_t,
        size: usize,
        flags: u64,
        out: *mut *mut symm_buffer_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_alloc
            .map(|function| unsafe { function(group, size, flags, out) })
            .ok_or(MissingSymbol {
                name: "symm_alloc",
            })
    }
    /// Make a buffer of device memory that another library has allocated, to be rendezvoused like one of symm_alloc(). \[local\]
    /// \[blocking\] With CUDA it must have been made by cuMemCreate on the group's device and for a POSIX file descriptor
    /// (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), and mapped by cuMemMap; memory of cudaMalloc cannot be shared so. Ranks may mix
    /// adopted and allocated buffers.
    ///
    /// The buffer refers to the physical memory and maps it once more: symm_buffer_pointer() is a new address of the same bytes,
    /// which stay as they are. The owner's mapping is never touched, and the owner may unmap it and free the memory at any time.
    /// While it is there, its addresses count as symmetric ones too, as operands and for symm_memory_find(). Peers map the whole
    /// allocation that the piece lies in.
    ///
    /// * `pointer`: anywhere inside a mapped allocation, a multiple of 16.
    /// * `size`: bytes, > 0; up to the end of the allocation that `pointer` lies in. What was mapped piece by piece (PyTorch's
    /// expandable segments) can be adopted piece by piece.
    ///
    /// Returns INVALID_ARGUMENT (the message says what is wrong with the memory), UNSUPPORTED (the host back end: no other process
    /// could map memory that is no shared file of symm's), OUT_OF_MEMORY, CUDA. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_buffer_adopt(
        &self,
        group: *mut symm_group_t,
        pointer: *const ::core::ffi::c_void,
        size: usize,
        out: *mut *mut symm_buffer_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_buffer_adopt
            .map(|function| unsafe { function(group, pointer, size, out) })
            .ok_or(MissingSymbol {
                name: "symm_buffer_adopt",
            })
    }
    /// Export a piece of a buffer as DMA-BUF, for a device of another kind (a network card, say) to map. \[local\] symm_device_info()
    /// says whether that can be had. What such a device writes is ordered with kernels by its own means, not by symm.
    ///
    /// * `offset`: bytes from the start of the buffer; the address there must be a multiple of the host's page size.
    /// * `size`: bytes, > 0, within the buffer; the descriptor covers whole pages, so up to a page less one byte more.
    /// * `out_fd`: a descriptor of this piece, which starts at offset 0 of it and is closed on exec. The caller's, to close;
    /// use it no longer than the buffer or a memory of it lives.
    ///
    /// Returns INVALID_ARGUMENT (offset, size), UNAVAILABLE (the message says why; always on the host back end), CUDA. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_buffer_export_dmabuf(
        &self,
        buffer: *mut symm_buffer_t,
        offset: usize,
        size: usize,
        out_fd: *mut i32,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_buffer_export_dmabuf
            .map(|function| unsafe { function(buffer, offset, size, out_fd) })
            .ok_or(MissingSymbol {
                name: "symm_buffer_export_dmabuf",
            })
    }
    /// Address of the block; aligned to at least 4096 bytes, an adopted one to 16. \[local\] Valid while the buffer or a memory of it
    /// lives. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_buffer_pointer(
        &self,
        buffer: *mut symm_buffer_t,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_buffer_pointer
            .map(|function| unsafe { function(buffer, out_pointer) })
            .ok_or(MissingSymbol {
                name: "symm_buffer_pointer",
            })
    }
    /// Bytes asked for. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_buffer_size(
        &self,
        buffer: *mut symm_buffer_t,
        out_bytes: *mut usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_buffer_size
            .map(|function| unsafe { function(buffer, out_bytes) })
            .ok_or(MissingSymbol {
                name: "symm_buffer_size",
            })
    }
    /// Add a reference. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_buffer_retain(
        &self,
        buffer: *mut symm_buffer_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_buffer_retain
            .map(|function| unsafe { function(buffer) })
            .ok_or(MissingSymbol {
                name: "symm_buffer_retain",
            })
    }
    /// Drop a reference. \[local\] NULL is accepted. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_buffer_release(
        &self,
        buffer: *mut symm_buffer_t,
    ) -> Result<(), MissingSymbol> {
        self.symm_buffer_release
            .map(|function| unsafe { function(buffer) })
            .ok_or(MissingSymbol {
                name: "symm_buffer_release",
            })
    }
    /// Exchange blocks: after it, every rank's block is mapped here. \[collective\] \[blocking, create_timeout_ms\] All or nothing.
    /// Several may run at once from several threads: on distinct groups freely, on one group with distinct tags.
    /// Since 0.1.
    ///
    /// * `buffer`: of the same size on all ranks.
    /// * `tag`: calls with equal tags meet, in the order in which they are made; 0 is as good as any.
    ///
    /// Returns MISMATCH (sizes differ), TIMEOUT, PEER_FAILED, ABORTED, SYSTEM, OUT_OF_MEMORY.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_rendezvous(
        &self,
        group: *mut symm_group_t,
        buffer: *mut symm_buffer_t,
        tag: u64,
        out: *mut *mut symm_memory_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_rendezvous
            .map(|function| unsafe { function(group, buffer, tag, out) })
            .ok_or(MissingSymbol {
                name: "symm_rendezvous",
            })
    }
    /// Describe a memory. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_info(
        &self,
        memory: *mut symm_memory_t,
        out: *mut symm_memory_info_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_info
            .map(|function| unsafe { function(memory, out) })
            .ok_or(MissingSymbol {
                name: "symm_memory_info",
            })
    }
    /// Address at which rank `rank`'s block is mapped here. \[local\] Valid while the memory lives, even after that rank died.
    /// Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_pointer(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_pointer
            .map(|function| unsafe { function(memory, rank, out_pointer) })
            .ok_or(MissingSymbol {
                name: "symm_memory_pointer",
            })
    }
    /// Address of rank `rank`'s signal pad: uint32_t pad\[channel\]\[source rank\], zero at first. \[local\] A word is written by its
    /// source rank only. Use a channel either through symm_put_signal()/symm_wait_signal() or by code of your own. With CUDA,
    /// symm/device.cuh counts as those calls do and goes together with them: behind this rank's own pad lies
    /// uint32_t taken\[channel\]\[source rank\]. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_signal_pad(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        out_pad: *mut *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_signal_pad
            .map(|function| unsafe { function(memory, rank, out_pad) })
            .ok_or(MissingSymbol {
                name: "symm_memory_signal_pad",
            })
    }
    /// Table of the `size` block addresses, readable by the group's device (and for the host back end, by the host). \[local\] Valid
    /// while the memory lives. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_pointer_table(
        &self,
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_pointer_table
            .map(|function| unsafe { function(memory, out_table) })
            .ok_or(MissingSymbol {
                name: "symm_memory_pointer_table",
            })
    }
    /// Table of the `size` pad addresses, as symm_memory_pointer_table(). \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_signal_pad_table(
        &self,
        memory: *mut symm_memory_t,
        out_table: *mut *const *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_signal_pad_table
            .map(|function| unsafe { function(memory, out_table) })
            .ok_or(MissingSymbol {
                name: "symm_memory_signal_pad_table",
            })
    }
    /// Multicast address of the memory: what is stored there reaches all ranks' blocks, and a reducing load combines them, by the
    /// multimem instructions of the device (compute capability 9.0); any other access is undefined. \[local\] Valid while the memory
    /// lives. Only a group that asked for it (SYMM_GROUP_MULTICAST or SYMM_MULTICAST=1 on all ranks) has such addresses, and none
    /// where on any rank SYMM_MULTICAST=0, NCCL_NVLS_ENABLE=0, NVSHMEM_DISABLE_NVLS=1 or TORCH_SYMM_MEM_DISABLE_MULTICAST=1 is set,
    /// the driver or a device has no multicast, ranks share a device, or setting it up fails. Everything else works without.
    /// Since 0.1.
    ///
    /// Returns UNAVAILABLE if there is none; the message says why, as symm_memory_info() does.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_multicast_pointer(
        &self,
        memory: *mut symm_memory_t,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_multicast_pointer
            .map(|function| unsafe { function(memory, out_pointer) })
            .ok_or(MissingSymbol {
                name: "symm_memory_multicast_pointer",
            })
    }
    /// Find the memory of `group` that maps `address`, which may lie anywhere inside any rank's block. \[local\] An adopted block is
    /// found by the addresses of its owner too, as long as he has it mapped there. Since 0.1.
    ///
    /// * `out`: one reference, for symm_memory_release(); may be NULL.
    /// * `out_rank`: whose block it is; may be NULL.
    /// * `out_offset`: bytes from the start of the block; may be NULL.
    ///
    /// Returns INVALID_ARGUMENT if no memory of the group maps the address.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_find(
        &self,
        group: *mut symm_group_t,
        address: *const ::core::ffi::c_void,
        out: *mut *mut symm_memory_t,
        out_rank: *mut i32,
        out_offset: *mut usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_find
            .map(|function| unsafe {
                function(group, address, out, out_rank, out_offset)
            })
            .ok_or(MissingSymbol {
                name: "symm_memory_find",
            })
    }
    /// Add a reference. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_retain(
        &self,
        memory: *mut symm_memory_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_memory_retain
            .map(|function| unsafe { function(memory) })
            .ok_or(MissingSymbol {
                name: "symm_memory_retain",
            })
    }
    /// Drop a reference. \[local\] NULL is accepted. Other ranks keep their mappings of this block. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_memory_release(
        &self,
        memory: *mut symm_memory_t,
    ) -> Result<(), MissingSymbol> {
        self.symm_memory_release
            .map(|function| unsafe { function(memory) })
            .ok_or(MissingSymbol {
                name: "symm_memory_release",
            })
    }
    /// Wait until all ranks of a set are here. \[collective over the set\] \[stream\] What they wrote before is visible after.
    /// Barriers on different channels, and of different sets, are independent. Since 0.1.
    ///
    /// * `ranks`: distinct ranks, this one among them, in any order; NULL with count 0: the whole group.
    /// * `channel`: 0 .. channels-1.
    ///
    /// Returns TIMEOUT (names the first missing rank), PEER_FAILED, ABORTED, INVALID_ARGUMENT.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_barrier(
        &self,
        group: *mut symm_group_t,
        ranks: *const i32,
        count: usize,
        channel: i32,
        timeout_ms: u64,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_barrier
            .map(|function| unsafe {
                function(group, ranks, count, channel, timeout_ms, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_barrier",
            })
    }
    /// Add one to the signals that this rank has sent to `rank` on `channel`. \[local\] \[stream\] Never waits; any number may be
    /// outstanding (up to 2^31). What this rank wrote before is visible to whoever waited for the signal. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_put_signal(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_put_signal
            .map(|function| unsafe { function(memory, rank, channel, stream) })
            .ok_or(MissingSymbol {
                name: "symm_put_signal",
            })
    }
    /// Take one signal from `rank` on `channel`, waiting for it if need be. \[local\] \[stream\] Since 0.1.
    ///
    /// Returns TIMEOUT: with the host back end nothing was taken and the group stays usable, while on a CUDA stream the deadline
    /// revokes the group, since what follows on the stream would run without the signal; PEER_FAILED; ABORTED.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_wait_signal(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        channel: i32,
        timeout_ms: u64,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_wait_signal
            .map(|function| unsafe {
                function(memory, rank, channel, timeout_ms, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_wait_signal",
            })
    }
    /// Copy `size` bytes to `offset` in rank `rank`'s block. \[local\] \[stream\] `source` may be any memory of this process and may
    /// be symmetric, but must not overlap the destination. Visible to that rank after a signal or barrier. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_put(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const ::core::ffi::c_void,
        size: usize,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_put
            .map(|function| unsafe {
                function(memory, rank, offset, source, size, stream)
            })
            .ok_or(MissingSymbol { name: "symm_put" })
    }
    /// Copy `size` bytes from `offset` in rank `rank`'s block to `destination`. \[local\] \[stream\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_get(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        destination: *mut ::core::ffi::c_void,
        size: usize,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_get
            .map(|function| unsafe {
                function(memory, rank, offset, destination, size, stream)
            })
            .ok_or(MissingSymbol { name: "symm_get" })
    }
    /// symm_put(), then symm_put_signal() on `channel`, in one call. \[local\] \[stream\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_put_with_signal(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        source: *const ::core::ffi::c_void,
        size: usize,
        channel: i32,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_put_with_signal
            .map(|function| unsafe {
                function(memory, rank, offset, source, size, channel, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_put_with_signal",
            })
    }
    /// Store `count` copies of a 32-bit value at `offset` (a multiple of 4) in rank `rank`'s block. \[local\] \[stream\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_fill32(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        count: usize,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_fill32
            .map(|function| unsafe {
                function(memory, rank, offset, value, count, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_fill32",
            })
    }
    /// Store one 32-bit value at `offset` (a multiple of 4) in rank `rank`'s block, after everything that this rank wrote before
    /// (release order). \[local\] \[stream\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_write_value32(
        &self,
        memory: *mut symm_memory_t,
        rank: i32,
        offset: usize,
        value: u32,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_write_value32
            .map(|function| unsafe { function(memory, rank, offset, value, stream) })
            .ok_or(MissingSymbol {
                name: "symm_write_value32",
            })
    }
    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_collective_options_init(
        &self,
        options: *mut symm_collective_options_t,
        struct_size: usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_collective_options_init
            .map(|function| unsafe { function(options, struct_size) })
            .ok_or(MissingSymbol {
                name: "symm_collective_options_init",
            })
    }
    /// recv\[i\] = op over ranks r of send_r\[i\], i \< count, on every rank. In place: send == recv. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_allreduce(
        &self,
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_allreduce
            .map(|function| unsafe {
                function(group, send, recv, count, dtype, op, options, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_allreduce",
            })
    }
    /// recv\[i\] = op over ranks r of send_r\[rank \* recv_count + i\], i \< recv_count; send has size \* recv_count elements.
    /// In place: recv == send + rank \* recv_count elements. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_reduce_scatter(
        &self,
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        recv_count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_reduce_scatter
            .map(|function| unsafe {
                function(group, send, recv, recv_count, dtype, op, options, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_reduce_scatter",
            })
    }
    /// recv\[r \* send_count + i\] = send_r\[i\], i \< send_count; recv has size \* send_count elements.
    /// In place: send == recv + rank \* send_count elements. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_allgather(
        &self,
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        send_count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_allgather
            .map(|function| unsafe {
                function(group, send, recv, send_count, dtype, options, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_allgather",
            })
    }
    /// recv\[i\] = send_root\[i\], i \< count; send is read on the root only. In place: send == recv. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_broadcast(
        &self,
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_broadcast
            .map(|function| unsafe {
                function(group, send, recv, count, dtype, root, options, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_broadcast",
            })
    }
    /// recv\[i\] = op over ranks r of send_r\[i\] on the root; recv is written on the root only. In place: send == recv.
    /// Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_reduce(
        &self,
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        root: i32,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_reduce
            .map(|function| unsafe {
                function(group, send, recv, count, dtype, op, root, options, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_reduce",
            })
    }
    /// recv\[r \* count + i\] = send_r\[rank \* count + i\], i \< count; both have size \* count elements. In place: send == recv.
    /// Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_alltoall(
        &self,
        group: *mut symm_group_t,
        send: *const ::core::ffi::c_void,
        recv: *mut ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        options: *const symm_collective_options_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_alltoall
            .map(|function| unsafe {
                function(group, send, recv, count, dtype, options, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_alltoall",
            })
    }
    /// Which algorithm a collective would use if every rank passed memory like this rank's. \[local\] Since 0.1.
    ///
    /// * `count`: as the collective's own count argument.
    /// * `op`: ignored where the collective has none.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_collective_plan(
        &self,
        group: *mut symm_group_t,
        collective: symm_collective_t,
        send: *const ::core::ffi::c_void,
        recv: *const ::core::ffi::c_void,
        count: usize,
        dtype: symm_dtype_t,
        op: symm_op_t,
        options: *const symm_collective_options_t,
        out: *mut symm_plan_info_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_collective_plan
            .map(|function| unsafe {
                function(group, collective, send, recv, count, dtype, op, options, out)
            })
            .ok_or(MissingSymbol {
                name: "symm_collective_plan",
            })
    }
    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_export_options_init(
        &self,
        options: *mut symm_ipc_export_options_t,
        struct_size: usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_export_options_init
            .map(|function| unsafe { function(options, struct_size) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_export_options_init",
            })
    }
    /// Make a token for `size` bytes at `pointer`. \[local\] \[stream\] Costs no system call after the first for a buffer.
    ///
    /// * `pointer`: anywhere inside a buffer of symm_alloc() or an import of symm_ipc_import(); with CUDA also inside any
    /// allocation that the driver can export (cuMemCreate with a POSIX file descriptor), which then is kept
    /// until symm_ipc_withdraw(). A token for imported memory names the process that made that memory, or
    /// this one if that one is dead.
    /// * `size`: bytes, > 0; the whole buffer is mapped by the importer, whatever the size.
    /// * `options`: NULL for the defaults.
    /// * `out_token`: receives the token.
    /// * `capacity`: bytes that out_token holds; SYMM_IPC_TOKEN_MAX_SIZE is always enough.
    /// * `out_size`: receives the length of the token.
    ///
    /// Returns INVALID_ARGUMENT (not memory that can be exported, range, capacity), OUT_OF_MEMORY, SYSTEM, UNAVAILABLE (the
    /// directory is not private), PEER_FAILED, CUDA. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn symm_ipc_export(
        &self,
        pointer: *const ::core::ffi::c_void,
        size: usize,
        options: *const symm_ipc_export_options_t,
        out_token: *mut ::core::ffi::c_void,
        capacity: usize,
        out_size: *mut usize,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_export
            .map(|function| unsafe {
                function(pointer, size, options, out_token, capacity, out_size, stream)
            })
            .ok_or(MissingSymbol {
                name: "symm_ipc_export",
            })
    }
    /// Set the first `struct_size` bytes of `options` to the defaults. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_import_options_init(
        &self,
        options: *mut symm_ipc_import_options_t,
        struct_size: usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_import_options_init
            .map(|function| unsafe { function(options, struct_size) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_import_options_init",
            })
    }
    /// Map the memory that a token names. \[local\] \[blocking, options.timeout_ms\] \[stream\] Imports of one buffer in one process share
    /// one mapping; after the first, importing another piece of it is local.
    ///
    /// * `token`: as made by symm_ipc_export(), exactly `token_size` bytes.
    /// * `options`: NULL for the defaults.
    /// * `out`: one import, for symm_ipc_release().
    ///
    /// Returns INVALID_ARGUMENT (not a token, cut short, damaged, forged), UNSUPPORTED (made by a newer library),
    /// UNAVAILABLE (made on another machine or by another user; its GPU or directory is not visible here),
    /// INVALID_HANDLE (the memory was released or withdrawn), PEER_FAILED (the exporter is gone), TIMEOUT (it does not
    /// answer), OUT_OF_MEMORY, SYSTEM, CUDA. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_import(
        &self,
        token: *const ::core::ffi::c_void,
        token_size: usize,
        options: *const symm_ipc_import_options_t,
        out: *mut *mut symm_ipc_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_import
            .map(|function| unsafe { function(token, token_size, options, out, stream) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_import",
            })
    }
    /// Address of the imported piece. \[local\] Valid until symm_ipc_release(), even after the exporter died. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_pointer(
        &self,
        ipc: *mut symm_ipc_t,
        out_pointer: *mut *mut ::core::ffi::c_void,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_pointer
            .map(|function| unsafe { function(ipc, out_pointer) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_pointer",
            })
    }
    /// Bytes of the imported piece. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_size(
        &self,
        ipc: *mut symm_ipc_t,
        out_bytes: *mut usize,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_size
            .map(|function| unsafe { function(ipc, out_bytes) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_size",
            })
    }
    /// Describe an import. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_info(
        &self,
        ipc: *mut symm_ipc_t,
        out: *mut symm_ipc_info_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_info
            .map(|function| unsafe { function(ipc, out) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_info",
            })
    }
    /// End an import. \[local\] \[stream\] NULL is accepted. Never waits: with CUDA the lease ends when what was issued on `stream`
    /// before is over. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_release(
        &self,
        ipc: *mut symm_ipc_t,
        stream: *mut ::core::ffi::c_void,
    ) -> Result<(), MissingSymbol> {
        self.symm_ipc_release
            .map(|function| unsafe { function(ipc, stream) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_release",
            })
    }
    /// End the tokens made so far for any part of a piece of memory, and wait until nobody holds a lease on any part of it: then it
    /// may be written anew and exported again. \[local\] \[blocking\] Tokens of other pieces stay valid.
    ///
    /// * `pointer`: inside memory that this process can export.
    /// * `size`: bytes, > 0.
    /// * `timeout_ms`: 0: $SYMM_TIMEOUT_MS, else 60,000.
    ///
    /// Returns TIMEOUT (names a holder; its tokens have ended all the same), PEER_FAILED (a holder is gone, but may still write:
    /// a GPU may be finishing its work, or its death cannot be confirmed. Release the buffer, do not use it again),
    /// INVALID_ARGUMENT. Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_withdraw(
        &self,
        pointer: *const ::core::ffi::c_void,
        size: usize,
        timeout_ms: u64,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_withdraw
            .map(|function| unsafe { function(pointer, size, timeout_ms) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_withdraw",
            })
    }
    /// Free what is provably free. \[local\] Never waits. Looks only at consumers that have released something, never at all leases.
    /// symm_ipc_export() does the exporter's half of it, symm_alloc() all of it when memory is short. Since 0.1.
    ///
    /// * `out`: what was done since the last collection; NULL: not asked for.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_collect(
        &self,
        out: *mut symm_ipc_report_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_collect
            .map(|function| unsafe { function(out) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_collect",
            })
    }
    /// Ask for the state of sharing. \[local\] Since 0.1.
    /// # Safety
    /// As the C function: pointers are valid for what it does with them, handles are its own.
    #[inline]
    pub unsafe fn symm_ipc_stats(
        &self,
        out: *mut symm_ipc_stats_t,
    ) -> Result<symm_status_t, MissingSymbol> {
        self.symm_ipc_stats
            .map(|function| unsafe { function(out) })
            .ok_or(MissingSymbol {
                name: "symm_ipc_stats",
            })
    }
}
