//! CUDA streams, on which calls are ordered, and deadlines, which bound how long calls wait.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use symm_sys as sys;

/// A CUDA stream. Calls on a CUDA group return when their work is on the stream; calls
/// on a host group are done when they return and take no stream.
#[derive(Clone)]
pub struct Stream {
    raw: *mut c_void,
    /// Keeps the stream alive, where it has an owner.
    _owner: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the driver's streams may be used from any thread, and the pointer is only passed on.
unsafe impl Send for Stream {}
// SAFETY: a shared reference gives the pointer only, which is only passed on.
unsafe impl Sync for Stream {}

impl Stream {
    /// No stream, as host groups need it. On CUDA, the legacy default stream.
    pub const fn none() -> Self {
        Self {
            raw: std::ptr::null_mut(),
            _owner: None,
        }
    }

    /// A `CUstream` (or `cudaStream_t`).
    ///
    /// # Safety
    /// The stream belongs to the primary context of the group's device, and lives as long as this
    /// value, its clones and the groups and memories that they are given to.
    pub const unsafe fn from_raw(raw: *mut c_void) -> Self {
        Self { raw, _owner: None }
    }

    #[cfg(feature = "cudarc")]
    pub(crate) fn owned(raw: *mut c_void, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            raw,
            _owner: Some(owner),
        }
    }

    /// The value that means all streams, for functions of the library that accept it.
    pub(crate) const fn all() -> *mut c_void {
        std::ptr::without_provenance_mut(sys::SYMM_ALL_STREAMS as usize)
    }

    /// The `CUstream`, NULL for none.
    #[inline]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:p})", self.raw)
    }
}

/// Deadline of a call. A [`Duration`] is one: of zero it is [`Now`](Self::Now). So is an
/// `Option<Duration>`: `None` is [`Group`](Self::Group).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// The group's own ([`GroupConfig::timeout`](crate::GroupConfig::timeout)).
    #[default]
    Group,
    /// This long, rounded up to milliseconds; zero is [`Now`](Self::Now).
    After(Duration),
    /// Do not wait: if the condition does not hold now, the call fails with
    /// [`Status::Timeout`](crate::Status::Timeout) and takes nothing. For calls on the host that
    /// need no other rank to act; `InvalidArgument` elsewhere.
    Now,
    /// No deadline: wait until the condition holds or the group fails.
    Never,
}

impl Timeout {
    pub(crate) fn as_millis(self) -> u64 {
        match self {
            Self::Group => 0,
            Self::Never => sys::SYMM_TIMEOUT_INFINITE,
            Self::Now | Self::After(Duration::ZERO) => sys::SYMM_TIMEOUT_NOW,
            Self::After(time) => {
                let millis = time.as_nanos().div_ceil(1_000_000);
                u64::try_from(millis)
                    .unwrap_or(u64::MAX)
                    .min(sys::SYMM_TIMEOUT_NOW - 1)
            }
        }
    }

    /// The deadline that a group tells in milliseconds.
    pub(crate) fn from_millis(millis: u64) -> Self {
        match millis {
            sys::SYMM_TIMEOUT_INFINITE => Self::Never,
            sys::SYMM_TIMEOUT_NOW => Self::Now,
            _ => Self::After(Duration::from_millis(millis)),
        }
    }

    /// The options of a call with this deadline.
    #[inline]
    pub(crate) fn options(self) -> sys::symm_call_options_t {
        sys::symm_call_options_t {
            timeout_ms: self.as_millis(),
            ..Default::default()
        }
    }
}

/// The options of a call that does not wait.
#[inline]
pub(crate) fn no_wait() -> sys::symm_call_options_t {
    sys::symm_call_options_t::default()
}

impl From<Duration> for Timeout {
    fn from(time: Duration) -> Self {
        if time.is_zero() {
            Self::Now
        } else {
            Self::After(time)
        }
    }
}

impl From<Option<Duration>> for Timeout {
    fn from(time: Option<Duration>) -> Self {
        time.map_or(Self::Group, Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_looks_once_and_nothing_is_the_default() {
        assert_eq!(Timeout::from(Duration::ZERO), Timeout::Now);
        assert_eq!(Timeout::After(Duration::ZERO).as_millis(), u64::MAX - 1);
        assert_eq!(Timeout::from(None), Timeout::Group);
        let time = Duration::from_secs(2);
        assert_eq!(Timeout::from(Some(time)), Timeout::After(time));
        assert_eq!(Timeout::from_millis(2000), Timeout::After(time));
    }

    #[test]
    fn no_duration_means_the_default_or_no_deadline() {
        assert_eq!(Timeout::from(Duration::from_nanos(1)).as_millis(), 1);
        assert_eq!(Timeout::from(Duration::from_micros(1001)).as_millis(), 2);
        assert_eq!(Timeout::from(Duration::MAX).as_millis(), u64::MAX - 2);
        assert_eq!(Timeout::Now.as_millis(), u64::MAX - 1);
        assert_eq!(Timeout::Never.as_millis(), u64::MAX);
        assert_eq!(Timeout::default().as_millis(), 0);
    }
}
