//! What is shared, and what can be freed.

use crate::convert::filled;
use crate::error::Result;
pub use symm_sys::{symm_ipc_holders_t as Holders, symm_ipc_report_t as Report, symm_ipc_stats_t as Stats};

/// Frees what is provably free. Never waits. Exports and allocations do as much of it as they need. Says what all collections of
/// the process have done.
pub fn collect() -> Result<Report> {
    // SAFETY: a struct of symm.h, and the function that fills it.
    unsafe { filled(|api, out| api.symm_ipc_collect(out)) }
}

/// The state of sharing in this process.
pub fn stats() -> Result<Stats> {
    // SAFETY: a struct of symm.h, and the function that fills it.
    unsafe { filled(|api, out| api.symm_ipc_stats(out)) }
}
