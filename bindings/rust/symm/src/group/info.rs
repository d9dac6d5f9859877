//! What is known of a group.

use crate::convert::Feature;
use crate::error::Result;
use crate::handle::Handle;
use crate::{Backend, Status};
use symm_sys::symm_group;

known! {
    /// What is known of a group.
    #[derive(Debug, Clone)]
    pub struct GroupInfo of symm_group_info_t {
        pub rank: usize = "This rank.";
        pub size: usize = "Number of ranks.";
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "The device; 0 on the host.";
        pub id: u64 = "The same on all ranks, different for every group.";
        pub channels: usize = "Barrier channels, and signal channels of a memory by default: `0 .. channels`.";
        pub unwatched_peers: usize = "Peers whose death is noticed by their closed socket only.";
        pub rejected_connections: u64 = "Connection attempts refused during creation: wrong user or wrong group.";
        pub bootstrap: String = "What the ranks were found by, for instance `env:// (Open MPI)`.";
        pub name: String = "The name of its configuration.";
        pub multicast: Feature, or multicast_reason =
            "Whether its memories are given multicast addresses, or why not; the same on all ranks.";
        pub scratch_bytes: u64 = "What its scratch takes on this rank.";
        pub max_ranks: usize = "Of a group of this back end.";
        pub max_memories: usize = "Of a group; 0 for no limit.";
        pub max_channels: usize = "Of a group or memory.";
        pub max_handles: usize = "Of each kind, in a process.";
        pub max_name: usize = "Bytes of a name that are kept.";
        pub shared_scratch_bytes: u64 = "And of that of the group that it was made of; 0 if it has all of its own.";
        pub machines: usize = "That its ranks are on; those of one map each other's memory.";
        pub machine: usize = "This rank's, counted in the order of their lowest ranks.";
        pub local_rank: usize = "Among the ranks of this machine.";
        pub local_size: usize = "How many those are.";
        pub engine: String = "What carries bytes between machines; empty on one.";
    }
}

known! {
    /// Health of a group.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GroupStatus of symm_group_status_t {
        pub status: Status = "[`Status::Ok`], or why the group was revoked.";
        pub failed_rank: Option<usize> = "The rank that caused it.";
        pub failed_pid: Option<i64> = "Its process id, where known.";
        pub message: String = "Empty while the status is [`Status::Ok`].";
    }
}

known! {
    /// What is known of one rank of a group.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PeerInfo of symm_peer_info_t {
        pub rank: usize = "The rank.";
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "The device, as that rank's process numbers it.";
        pub alive: bool = "Whether neither its death nor its departure was noticed.";
        pub pid: Option<i64> = "Its process as seen from here.";
        pub host: String = "Its host name.";
        pub machine: String = "`$SYMM_MACHINE` there, or the boot id of its kernel.";
        pub uuid: String = "Of its GPU; for the host back end, the boot id.";
        pub machine_index: usize = "As [`GroupInfo::machine`].";
        pub mapped: bool = "Whether its memory is mapped here.";
    }
}

known! {
    /// What this rank has done on a group so far, calls that succeeded unless it says otherwise.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GroupStats of symm_group_stats_t {
        pub collective_calls: [u64; 32] = "By the number of the [`Collective`](crate::Collective).";
        pub collective_bytes: [u64; 32] =
            "By the number of the collective: count times the size of an element, of each call.";
        pub algorithm_calls: [u64; 32] =
            "By the number of the [`Algorithm`](crate::Algorithm); calls that needed none are under `Auto`.";
        pub barriers: u64 = "Barriers.";
        pub signals_sent: u64 = "Signals sent.";
        pub signals_taken: u64 = "Signals taken.";
        pub failures: u64 = "Collectives, barriers and waits that failed.";
        pub sleeps: u64 = "Waits on the host that did not end while they spun.";
        pub slept_ns: u64 = "How long those took, in sum, in nanoseconds.";
        pub waits: u64 = "Waits for values of signals, and for words.";
    }
}

impl GroupInfo {
    pub(super) fn of(handle: &Handle<symm_group>) -> Result<Self> {
        on!(handle.symm_group_info() => GroupInfo)
    }
}

impl GroupStatus {
    pub(crate) fn of(handle: &Handle<symm_group>) -> Result<Self> {
        on!(handle.symm_group_status() => GroupStatus)
    }
}
