// SPDX-License-Identifier: Apache-2.0
//! Signals between ranks.

use super::Memory;
use crate::convert::{given, index};
use crate::error::{Result, call};
use crate::{Element, Timeout};
use std::ptr;

impl<T: Element> Memory<T> {
    /// Adds one to the signals that this rank has sent to `rank` on `channel`. Never waits; any number may be outstanding. What this
    /// rank wrote before is visible to whoever waited for the signal.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank or channel out of range; what revoked the group.
    pub fn signal(&self, rank: usize, channel: usize) -> Result<()> {
        let stream = self.stream.as_raw();
        // SAFETY: the handle is alive.
        call(|api| unsafe { api.symm_signal(self.as_raw(), index(rank), index(channel), stream) })
    }

    /// Takes one signal from `rank` on `channel`, waiting for it if need be.
    ///
    /// # Errors
    /// `Timeout`: on the host nothing was taken and the group stays usable; on a CUDA stream the deadline revokes the group.
    /// `PeerFailed`, `Aborted`, `InvalidArgument`.
    pub fn wait_signal(&self, rank: usize, channel: usize) -> Result<()> {
        self.wait_signal_for(rank, channel, Timeout::Group)
    }

    /// As [`wait_signal`](Self::wait_signal), with a deadline of its own.
    ///
    /// # Errors
    /// As [`wait_signal`](Self::wait_signal).
    pub fn wait_signal_for(&self, rank: usize, channel: usize, timeout: impl Into<Timeout>) -> Result<()> {
        let options = timeout.into().options();
        let stream = self.stream.as_raw();
        // SAFETY: the handle is alive.
        call(|api| unsafe { api.symm_wait_signal(self.as_raw(), index(rank), index(channel), &options, stream) })
    }

    /// Address of a rank's signal pad, `u32 pad[channel][source rank]`, for code of your own. Use a channel either by the calls above
    /// or by such code.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank out of range.
    pub fn signal_pad(&self, rank: usize) -> Result<*mut u32> {
        // SAFETY: the handle is alive.
        given(ptr::null_mut(), |api, out| unsafe { api.symm_memory_signal_pad(self.as_raw(), index(rank), out) })
            .map(|pad| pad.cast())
    }
}
