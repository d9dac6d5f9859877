//! What calls on a CUDA group are ordered on.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// A CUDA stream. Calls on a CUDA group return when their work is on the stream; calls on a host group are done when they
/// return and take no stream.
#[derive(Clone)]
pub struct Stream {
    raw: *mut c_void,
    /// Keeps the stream alive, where it has an owner.
    _owner: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the driver's streams may be used from any thread, and the pointer is only passed on.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// No stream: what host groups take. On CUDA, the legacy default stream.
    pub const fn none() -> Self {
        Self { raw: std::ptr::null_mut(), _owner: None }
    }

    /// A `CUstream` (or `cudaStream_t`).
    ///
    /// # Safety
    /// The stream belongs to the primary context of the group's device, and lives as long as this value, its clones and the
    /// groups and memories that they are given to.
    pub const unsafe fn from_raw(raw: *mut c_void) -> Self {
        Self { raw, _owner: None }
    }

    #[cfg(feature = "cudarc")]
    pub(crate) fn owned(raw: *mut c_void, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { raw, _owner: Some(owner) }
    }

    /// What stands for all streams, where the library says so.
    pub(crate) const fn all() -> *mut c_void {
        std::ptr::without_provenance_mut(usize::MAX)
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
