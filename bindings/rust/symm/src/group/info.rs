// SPDX-License-Identifier: Apache-2.0
//! What is known of a group.

use crate::convert::{Feature, filled};
use crate::error::Result;
use crate::handle::Handle;
use crate::{Backend, Status};
use symm_sys::symm_group;

known! {
    /// What is known of a group.
    #[derive(Debug, Clone)]
    pub struct GroupInfo of symm_group_info_t {
        /// This rank.
        pub rank: usize;
        /// Number of ranks.
        pub size: usize;
        /// Host or CUDA.
        pub backend: Backend;
        /// The device; 0 on the host.
        pub device: usize;
        /// The same on all ranks, different for every group.
        pub id: u64;
        /// Barrier channels, and signal channels of a memory by default: `0 .. channels`.
        pub channels: usize;
        /// Peers whose death is noticed by their closed socket only.
        pub unwatched_peers: usize;
        /// Connection attempts refused during creation: wrong user or wrong group.
        pub rejected_connections: u64;
        /// What the ranks were found by, for instance `env:// (Open MPI)`.
        pub bootstrap: String;
        /// The name of its configuration.
        pub name: String;
        /// Whether its memories are given multicast addresses, or why not; the same on all ranks.
        pub multicast: Feature, or multicast_reason;
        /// What its scratch takes on this rank.
        pub scratch_bytes: u64;
        /// Of a group of this back end.
        pub max_ranks: usize;
        /// Of a group; 0 for no limit.
        pub max_memories: usize;
        /// Of a group or memory.
        pub max_channels: usize;
        /// Of each kind, in a process.
        pub max_handles: usize;
        /// Bytes of a name that are kept.
        pub max_name: usize;
    }
}

known! {
    /// Health of a group.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GroupStatus of symm_group_status_t {
        /// [`Status::Ok`], or why the group was revoked.
        pub status: Status;
        /// The rank that caused it.
        pub failed_rank: Option<usize>;
        /// Its process id, where known.
        pub failed_pid: Option<i64>;
        /// Empty while the status is [`Status::Ok`].
        pub message: String;
    }
}

known! {
    /// What is known of one rank of a group.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PeerInfo of symm_peer_info_t {
        /// The rank.
        pub rank: usize;
        /// Host or CUDA.
        pub backend: Backend;
        /// The device, as that rank's process numbers it.
        pub device: usize;
        /// Whether neither its death nor its departure was noticed.
        pub alive: bool;
        /// Its process as seen from here.
        pub pid: Option<i64>;
        /// Its host name.
        pub host: String;
        /// Boot id of its kernel: ranks with the same one can share memory.
        pub machine: String;
        /// Of its GPU; for the host back end, the boot id.
        pub uuid: String;
    }
}

known! {
    /// What this rank has done on a group so far, calls that succeeded unless it says otherwise.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GroupStats of symm_group_stats_t {
        /// By the number of the [`Collective`](crate::Collective).
        pub collective_calls: [u64; 32];
        /// By the number of the collective: count times the size of an element, of each call.
        pub collective_bytes: [u64; 32];
        /// By the number of the [`Algorithm`](crate::Algorithm); calls that needed none are under `Auto`.
        pub algorithm_calls: [u64; 32];
        /// Barriers.
        pub barriers: u64;
        /// Signals sent.
        pub signals_sent: u64;
        /// Signals taken.
        pub signals_taken: u64;
        /// Collectives, barriers and waits that failed.
        pub failures: u64;
        /// Waits on the host that did not end while they spun.
        pub sleeps: u64;
        /// How long those took, in sum, in nanoseconds.
        pub slept_ns: u64;
        /// Waits for values of signals, and for words.
        pub waits: u64;
    }
}

impl GroupInfo {
    pub(super) fn of(handle: &Handle<symm_group>) -> Result<Self> {
        // SAFETY: the handle is alive; a struct of symm.h, and the function that fills it.
        unsafe { filled(|api, out| api.symm_group_info(handle.as_ptr(), out)) }.map(Self::from)
    }
}

impl GroupStatus {
    pub(crate) fn of(handle: &Handle<symm_group>) -> Result<Self> {
        // SAFETY: as in GroupInfo::of().
        unsafe { filled(|api, out| api.symm_group_status(handle.as_ptr(), out)) }.map(Self::from)
    }
}
