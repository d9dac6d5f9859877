// SPDX-License-Identifier: Apache-2.0
//! What is shared, and what can be freed.

use crate::error::{Result, call};
use symm_sys as sys;

/// A struct of numbers, as C fills it.
macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident from $raw:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl From<sys::$raw> for $name {
            fn from(raw: sys::$raw) -> Self {
                Self { $($field: raw.$field,)* }
            }
        }
    };
}

numbers! {
    /// What a collection did.
    Report from symm_ipc_report_t {
        /// Leases found released by their holders.
        leases_ended: u64,
        /// Leases of holders that died.
        leases_written_off: u64,
        /// Released blocks that nobody holds any more.
        blocks_freed: u64,
        /// Bytes of these.
        bytes_freed: u64,
        /// Mappings of other processes' memory that were kept here for the next import.
        mappings_dropped: u64,
        /// Released blocks that somebody still holds.
        blocks_in_limbo: u64,
        /// Bytes of these.
        bytes_in_limbo: u64,
    }
}

numbers! {
    /// The state of sharing in this process.
    Stats from symm_ipc_stats_t {
        /// Tokens made so far.
        tokens: u64,
        /// Blocks that can be imported now.
        exported_blocks: u64,
        /// Bytes of these.
        exported_bytes: u64,
        /// Leases given so far.
        grants: u64,
        /// Leases that others, and this process, hold on memory of this process.
        leased: u64,
        /// Blocks on which there are leases.
        leased_blocks: u64,
        /// Blocks that were released, but are still held.
        limbo_blocks: u64,
        /// Bytes of these.
        limbo_bytes: u64,
        /// Blocks on which a holder that is gone may still write; never to be used again.
        quarantined_blocks: u64,
        /// Bytes of these.
        quarantined_bytes: u64,
        /// Leases of dead holders so far.
        written_off: u64,
        /// Imports refused so far: forged, stale.
        refused: u64,
        /// Connections of other users, or that broke the protocol.
        rejected_connections: u64,
        /// Processes connected to this one.
        consumers: u64,
        /// Imports of this process that are not released.
        imported: u64,
        /// Blocks mapped here for them, or kept for the next.
        imported_blocks: u64,
        /// Bytes of these.
        imported_bytes: u64,
        /// Processes to which this one is connected.
        exporters: u64,
        /// Collections run so far.
        collections: u64,
        /// Age of the oldest lease, 0 if there is none.
        oldest_lease_ms: u64,
        /// Its holder, 0 if the pid is not visible here.
        oldest_lease_pid: i64,
        /// Of the holder, in clock ticks since boot, 0 if unknown.
        oldest_lease_start_time: u64,
    }
}

/// Frees what is provably free. Never waits. Exports and allocations do as much of it as they need.
///
/// # Errors
/// `Unavailable` without a library.
pub fn collect() -> Result<Report> {
    // SAFETY: all zeros is a value of this struct of integers.
    let mut report: sys::symm_ipc_report_t = unsafe { std::mem::zeroed() };
    report.struct_size = size_of_val(&report);
    // SAFETY: the struct says its size.
    call(|api| unsafe { api.symm_ipc_collect(&mut report) })?;
    Ok(report.into())
}

/// The state of sharing in this process.
///
/// # Errors
/// `Unavailable` without a library.
pub fn stats() -> Result<Stats> {
    // SAFETY: all zeros is a value of this struct of integers.
    let mut stats: sys::symm_ipc_stats_t = unsafe { std::mem::zeroed() };
    stats.struct_size = size_of_val(&stats);
    // SAFETY: the struct says its size.
    call(|api| unsafe { api.symm_ipc_stats(&mut stats) })?;
    Ok(stats.into())
}
