// SPDX-License-Identifier: Apache-2.0
//! What is known of a group.

use crate::convert::{Feature, count, feature, filled};
use crate::error::{Result, from_array};
use crate::handle::Handle;
use crate::{Backend, Status};
use symm_sys::{self as sys, symm_group};

/// What is known of a group.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GroupInfo {
    /// This rank.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Host or CUDA.
    pub backend: Backend,
    /// The device; 0 on the host.
    pub device: usize,
    /// The same on all ranks, different for every group.
    pub id: u64,
    /// Barrier channels, and signal channels of each memory: `0 .. channels`.
    pub channels: usize,
    /// Peers whose death is noticed by their closed socket only.
    pub unwatched_peers: usize,
    /// Connection attempts refused during creation: wrong user or wrong group.
    pub rejected_connections: u64,
    /// What the ranks were found by, for instance `env:// (Open MPI)`.
    pub bootstrap: String,
    /// The name of its configuration.
    pub name: String,
    /// Whether its memories are given multicast addresses, or why not; the same on all ranks.
    pub multicast: Feature,
}

/// Health of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStatus {
    /// [`Status::Ok`], or why the group was revoked.
    pub status: Status,
    /// The rank that caused it.
    pub failed_rank: Option<usize>,
    /// Its process id, where known.
    pub failed_pid: Option<i64>,
    /// Empty while the status is [`Status::Ok`].
    pub message: String,
}

impl GroupInfo {
    pub(super) fn of(handle: &Handle<symm_group>) -> Result<Self> {
        // SAFETY: the handle is alive; a struct of symm.h, and the function that fills it.
        let info: sys::symm_group_info_t = unsafe { filled(|api, out| api.symm_group_info(handle.as_ptr(), out)) }?;
        Ok(Self {
            rank: count(info.rank),
            size: count(info.size),
            backend: Backend::from_raw(info.backend),
            device: count(info.device),
            id: info.id,
            channels: count(info.channels),
            unwatched_peers: count(info.unwatched_peers),
            rejected_connections: info.rejected_connections,
            bootstrap: from_array(&info.bootstrap),
            name: from_array(&info.name),
            multicast: feature(info.multicast, &info.multicast_reason),
        })
    }
}

impl GroupStatus {
    pub(crate) fn of(handle: &Handle<symm_group>) -> Result<Self> {
        // SAFETY: as in GroupInfo::of().
        let status: sys::symm_group_status_t =
            unsafe { filled(|api, out| api.symm_group_status(handle.as_ptr(), out)) }?;
        Ok(Self {
            status: Status::from_raw(status.status),
            failed_rank: usize::try_from(status.failed_rank).ok(),
            failed_pid: (status.failed_pid > 0).then_some(status.failed_pid),
            message: from_array(&status.message),
        })
    }
}
