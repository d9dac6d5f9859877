//! Signals between ranks.

use super::Memory;
use crate::convert::{filled, index};
use crate::error::{Result, call};
use crate::{Compare, Element, SignalOp, Timeout};
use std::ffi::c_void;
use std::ptr;
use symm_sys as sys;

/// One of the signals that [`Memory::wait_any_signal`] and its kin wait for: until its word compares so with `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalWait {
    /// Whose signal.
    pub rank: usize,
    /// On which channel.
    pub channel: usize,
    /// How the word is to compare,
    pub compare: Compare,
    /// with what.
    pub value: u64,
}

impl SignalWait {
    fn to_c(self) -> sys::symm_signal_wait_t {
        sys::symm_signal_wait_t {
            struct_size: size_of::<sys::symm_signal_wait_t>(),
            rank: index(self.rank),
            channel: index(self.channel),
            compare: self.compare.as_raw(),
            value: self.value,
        }
    }
}

impl<T: Element> Memory<T> {
    /// Adds one to the signals that this rank has sent to `rank` on `channel`. Never waits; any number may be outstanding. What this
    /// rank wrote before is visible to whoever waited for the signal.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank or channel out of range; what revoked the group.
    pub fn signal(&self, rank: usize, channel: usize) -> Result<()> {
        on!(self.symm_signal(index(rank), index(channel), self.stream.as_raw()))
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
    pub fn wait_signal_for(&self, rank: usize, channel: usize, timeout: impl Into<Timeout>) -> Result<()> {
        on!(self.symm_wait_signal(index(rank), index(channel), &timeout.into().options(), self.stream.as_raw()))
    }

    /// Adds a value to the word of 64 bits that `rank` sees of this rank on `channel`, or sets it. Never waits.
    pub fn signal_value(&self, rank: usize, channel: usize, op: SignalOp, value: u64) -> Result<()> {
        let (op, stream) = (op.as_raw(), self.stream.as_raw());
        on!(self.symm_signal_value(index(rank), index(channel), op, value, stream))
    }

    /// Waits until the word from `rank` on `channel` compares so with `value`, and takes nothing. On the host it returns the word as it
    /// was then; on a CUDA stream it returns `None`, before.
    pub fn wait_signal_value(
        &self, rank: usize, channel: usize, compare: Compare, value: u64, timeout: impl Into<Timeout>,
    ) -> Result<Option<u64>> {
        let (options, stream) = (timeout.into().options(), self.stream.as_raw());
        let (rank, channel, compare) = (index(rank), index(channel), compare.as_raw());
        let mut seen = self.is_on_host().then_some(0);
        let out = seen.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: the handle is alive, and `out` is null or lives as long as the call.
        call(|api| unsafe { api.symm_wait_signal_value(self.as_raw(), rank, channel, compare, value, &options, out, stream) })?;
        Ok(seen)
    }

    /// Waits until each of `waits` has been as awaited, at whatever moment, and takes nothing.
    ///
    /// # Errors
    /// As [`wait_signal`](Self::wait_signal); `InvalidArgument` for none, or more than 64.
    pub fn wait_all_signals(&self, waits: &[SignalWait], timeout: impl Into<Timeout>) -> Result<()> {
        self.wait_signals(waits, false, timeout.into()).map(|_| ())
    }

    /// Waits until one of `waits` is as awaited, and takes nothing. On the host it returns the index of the first that is; on a CUDA
    /// stream it returns `None`, before.
    pub fn wait_any_signal(&self, waits: &[SignalWait], timeout: impl Into<Timeout>) -> Result<Option<usize>> {
        self.wait_signals(waits, true, timeout.into())
    }

    fn wait_signals(&self, waits: &[SignalWait], any: bool, timeout: Timeout) -> Result<Option<usize>> {
        let (options, stream) = (timeout.options(), self.stream.as_raw());
        let waits: Vec<_> = waits.iter().copied().map(SignalWait::to_c).collect();
        let (at, count) = (waits.as_ptr(), waits.len());
        let mut first = self.is_on_host().then_some(0);
        let out = first.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: the handle is alive, and so are `waits` and what `out` points to.
        call(|api| unsafe { api.symm_wait_signals(self.as_raw(), at, count, any.into(), &options, out, stream) })?;
        Ok(first)
    }

    /// How many signals from `rank` on `channel` are there and not taken. Never waits.
    pub fn test_signal(&self, rank: usize, channel: usize) -> Result<u64> {
        on!(self.symm_test_signal(index(rank), index(channel)) -> 0)
    }

    /// The word from `rank` on `channel`. Never waits.
    pub fn test_signal_value(&self, rank: usize, channel: usize) -> Result<u64> {
        on!(self.symm_test_signal_value(index(rank), index(channel)) -> 0)
    }

    /// The memory as kernels of your own see it: `symm::device::Memory` of `device.cuh`. `stop` is the device address of a word that ends
    /// all waits when it becomes other than 0, or null.
    ///
    /// # Errors
    /// `Unsupported` on the host.
    pub fn device_view(&self, timeout: impl Into<Timeout>, stop: *const u32) -> Result<sys::symm_memory_view_t> {
        let (timeout, stop) = (timeout.into().as_millis(), stop.cast::<c_void>());
        // SAFETY: the handle is alive, and the function fills that struct.
        unsafe { filled(|api, out| api.symm_memory_device_view(self.as_raw(), timeout, stop, out)) }
    }

    fn is_on_host(&self) -> bool {
        self.inner.group.backend == sys::Backend::Host
    }

    /// Address of a rank's signal pad, `u64 pad[channel][source rank]`, for code of your own. Use a channel either by the calls above
    /// or by such code.
    pub fn signal_pad(&self, rank: usize) -> Result<*mut u64> {
        on!(self.symm_memory_signal_pad(index(rank)) -> ptr::null_mut()).map(|pad| pad.cast())
    }
}
