//! Ranks that share memory.

mod config;
mod info;
mod shared;

pub use config::GroupConfig;
pub(crate) use config::number;
pub use info::{GroupInfo, GroupStats, GroupStatus, PeerInfo};
pub use shared::AbortHandle;
pub(crate) use shared::Shared;

use crate::convert::{count, given, index, to_c};
use crate::error::{Error, Result, call, looked_up};
use crate::handle::Handle;
use crate::{Algorithm, Backend, Scale, Stream, Timeout};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;
use symm_sys::symm_group;

/// Ranks that share memory.
///
/// A clone is another handle to the same group. The group is released when the last of its handles, buffers and memories is
/// dropped; peers that still wait for this rank then get [`Status::PeerFailed`](crate::Status::PeerFailed). To part politely, [`finalize`](Self::finalize)
/// first.
///
/// Collective calls must be made in the same order on all ranks. Calls from several threads of one rank are put one after the
/// other by the library.
#[derive(Clone)]
pub struct Group {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stream: Stream,
    pub(crate) algorithm: Algorithm,
    pub(crate) timeout: Timeout,
    pub(crate) factor: Factor,
}

/// Position, value, and address of an f32.
pub(crate) type Factor = (Scale, f64, usize);
pub(crate) const NO_FACTOR: Factor = (Scale::None, 0.0, 0);

impl Group {
    pub(crate) fn from_handle(handle: Handle<symm_group>) -> Result<Self> {
        let info = GroupInfo::of(&handle)?;
        let shared = Shared { handle, rank: info.rank, size: info.size, backend: info.backend };
        Ok(Self {
            shared: Arc::new(shared),
            stream: Stream::none(),
            algorithm: Algorithm::Auto,
            timeout: Timeout::Group,
            factor: NO_FACTOR,
        })
    }

    /// This process's or thread's rank.
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// What memory the group works on: [`Backend::Host`] or [`Backend::Cuda`].
    pub fn backend(&self) -> Backend {
        self.shared.backend
    }

    /// What is known of the group.
    pub fn info(&self) -> Result<GroupInfo> {
        GroupInfo::of(&self.shared.handle)
    }

    /// Whether the group was revoked, and why. Never waits.
    pub fn status(&self) -> Result<GroupStatus> {
        GroupStatus::of(&self.shared.handle)
    }

    /// The same group; calls by this handle, and buffers and memories made by it, are ordered on `stream`.
    #[must_use]
    pub fn with_stream(&self, stream: Stream) -> Self {
        Self { stream, ..self.clone() }
    }

    /// The same group; collectives by this handle use `algorithm`, which must be the same on all ranks.
    #[must_use]
    pub fn with_algorithm(&self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self.clone() }
    }

    /// The same group; reductions of floats by this handle multiply by `factor`, before they combine or after. It must be the same on
    /// all ranks. Other collectives by this handle are `InvalidArgument`.
    #[must_use]
    pub fn with_scale(&self, position: Scale, factor: f64) -> Self {
        Self { factor: (position, factor, 0), ..self.clone() }
    }

    /// As [`with_scale`](Self::with_scale), by a factor that is read when a call runs, and may differ from rank to rank: a captured
    /// call takes a new one at each replay.
    ///
    /// # Safety
    /// `factor` is valid for reads, by the device with the CUDA back end, while calls by this handle run.
    #[must_use]
    pub unsafe fn with_scale_at(&self, position: Scale, factor: *const f32) -> Self {
        Self { factor: (position, 0.0, factor as usize), ..self.clone() }
    }

    /// The same group; barriers and collectives by this handle have this deadline.
    #[must_use]
    pub fn with_timeout(&self, timeout: impl Into<Timeout>) -> Self {
        Self { timeout: timeout.into(), ..self.clone() }
    }

    /// Divides the group. Ranks that pass the same color form a new group, ordered by key, then by rank. `None` takes part in
    /// the division and is in no new group. All ranks of the group call it.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Self>> {
        let color = match color {
            None => -1,
            Some(color) => i32::try_from(color).map_err(|_| Error::argument(format!("color {color} is over 2^31 - 1")))?,
        };
        let out = on!(self.symm_group_split(color, key) -> ptr::null_mut())?;
        if out.is_null() {
            return Ok(None);
        }
        // SAFETY: a successful split gives one reference, or NULL for no group.
        Self::from_handle(unsafe { Handle::new(out) }?).map(Some)
    }

    /// A group of some ranks of this one, in this order; only they call it, with the same list.
    ///
    /// # Errors
    /// As [`GroupConfig::create`]; `Mismatch` if the order differs.
    pub fn create_from_ranks(&self, ranks: &[usize]) -> Result<Self> {
        let ranks: Vec<i32> = ranks.iter().map(|rank| index(*rank)).collect();
        // SAFETY: the handle is alive, and the list has that many elements.
        let out = given(ptr::null_mut(), |api, out| unsafe {
            api.symm_group_create_from_ranks(self.as_raw(), ranks.as_ptr(), ranks.len(), out)
        })?;
        // SAFETY: a successful call gives one reference.
        Self::from_handle(unsafe { Handle::new(out) }?)
    }

    /// A group of the ranks of this rank's machine; only they call it.
    pub fn local(&self) -> Result<Self> {
        Self::from_handle(on!(self.symm_group_local() => Handle)?)
    }

    /// A group of the ranks that live and have not released this one, in their old order, also after a failure: this group may be
    /// revoked, and stays as it is. All that live call it, and get the same group or the same failure; who dies meanwhile is left out.
    ///
    /// # Errors
    /// `Timeout` (a rank lives and did not come; once it is gone the call can be made again), otherwise as [`GroupConfig::create`].
    pub fn shrink(&self, name: Option<&str>, timeout: impl Into<Timeout>) -> Result<Self> {
        let name = name.map(|text| to_c("name", text)).transpose()?;
        let options = sized!(symm_group_shrink_options_t: timeout_ms = timeout.into().as_millis(),
            name = name.as_ref().map_or(ptr::null(), |text| text.as_ptr()));
        Self::from_handle(on!(self.symm_group_shrink(&options) => Handle)?)
    }

    /// Which rank of this group is rank `rank` of `other`.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank that is not in `other`.
    pub fn translate_rank(&self, other: &Self, rank: usize) -> Result<Option<usize>> {
        let mut here = 0;
        // SAFETY: both handles are alive.
        let found =
            looked_up(|api| unsafe { api.symm_group_translate_rank(self.as_raw(), other.as_raw(), index(rank), &mut here) })?;
        Ok(found.then(|| count(here)))
    }

    /// The ranks that this rank knows to be dead, or to have released the group, ascending. Never waits.
    pub fn failed_ranks(&self) -> Result<Vec<usize>> {
        let mut ranks = vec![0; self.size()];
        // SAFETY: the handle is alive, and the list has that many elements.
        let failed =
            given(0, |api, out| unsafe { api.symm_group_failed_ranks(self.as_raw(), ranks.as_mut_ptr(), ranks.len(), out) })?;
        Ok(ranks.into_iter().take(failed).map(count).collect())
    }

    /// A descriptor that becomes readable when the group is revoked, for event loops.
    ///
    /// # Errors
    /// `System`, `InvalidHandle` in a forked child.
    pub fn failure_fd(&self) -> Result<BorrowedFd<'_>> {
        let fd = on!(self.symm_group_failure_fd() -> -1)?;
        // SAFETY: it is the group's, which this handle keeps.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Describes a rank: process, host, device, whether it lives.
    pub fn peer_info(&self, rank: usize) -> Result<PeerInfo> {
        on!(self.symm_peer_info(index(rank)) => PeerInfo)
    }

    /// What this rank has done on the group so far.
    pub fn stats(&self) -> Result<GroupStats> {
        on!(self.symm_group_stats() => GroupStats)
    }

    /// Waits until all ranks are here. What they wrote before is visible after.
    ///
    /// # Errors
    /// `Timeout` (names the first missing rank), `PeerFailed`, `Aborted`.
    pub fn barrier(&self) -> Result<()> {
        self.barrier_among(&[], 0)
    }

    /// Waits until the given ranks are here, this one among them; none are all. Barriers on different channels, and of different
    /// sets, are independent.
    pub fn barrier_among(&self, ranks: &[usize], channel: usize) -> Result<()> {
        let ranks: Vec<i32> = ranks.iter().map(|rank| index(*rank)).collect();
        let pointer = if ranks.is_empty() { ptr::null() } else { ranks.as_ptr() };
        let (channel, options) = (index(channel), self.timeout.options());
        // SAFETY: the handle is alive, and the list has that many elements.
        call(|api| unsafe { api.symm_barrier(self.as_raw(), pointer, ranks.len(), channel, &options, self.stream.as_raw()) })
    }

    /// Waits until all that was issued on this handle's stream is over, and says what went wrong there.
    ///
    /// # Errors
    /// `Timeout`: the stream is not there yet, and the group stays usable; what revoked the group; `InvalidArgument` for a stream
    /// under capture.
    pub fn synchronize(&self) -> Result<()> {
        on!(self.symm_group_synchronize(self.stream.as_raw(), &self.timeout.options()))
    }

    /// Whether all that was issued on this handle's stream is over; always on the host. Never waits.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream under capture, which stays as it is.
    pub fn is_done(&self) -> Result<bool> {
        on!(self.symm_stream_query(self.stream.as_raw()) -> 0).map(|done| done != 0)
    }

    /// What is issued on this handle's stream next runs after what was issued on another; none: on all on which calls on this group
    /// were issued. Does nothing on the host.
    pub fn wait_for(&self, other: Option<&Stream>) -> Result<()> {
        let after = other.map_or_else(Stream::all, Stream::as_raw);
        on!(self.symm_stream_wait(self.stream.as_raw(), after))
    }

    /// Revokes the group on all ranks: pending and later calls return [`Status::Aborted`](crate::Status::Aborted). Never waits; any thread; idempotent.
    ///
    /// # Errors
    /// `InvalidArgument` for a reason with a NUL character, `InvalidHandle` in a forked child.
    pub fn abort(&self, reason: &str) -> Result<()> {
        self.shared.abort(reason)
    }

    /// Something by which another thread can abort the group, and which does not keep it alive.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(&self.shared)
    }

    /// Politely ends the group: waits until all ranks are here, so that none sees another leave early. Afterwards only queries
    /// are of use. All ranks call it.
    ///
    /// # Errors
    /// `Timeout`, `PeerFailed`, `Aborted`; the group is ended all the same.
    pub fn finalize(&self) -> Result<()> {
        on!(self.symm_group_finalize(&self.timeout.options()))
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value, or another handle to the group, lives.
    #[inline]
    pub fn as_raw(&self) -> *mut symm_group {
        self.shared.handle.as_raw()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(rank {} of {}, {:?})", self.rank(), self.size(), self.backend())
    }
}
