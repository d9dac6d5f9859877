//! What the handles to a group have in common, and what can abort it without keeping it alive.

use crate::convert::to_c;
use crate::error::{Error, Result, call};
use crate::handle::Handle;
use crate::{Backend, Status};
use std::sync::{Arc, Weak};
use symm_sys::symm_group;

/// One for all handles to a group.
pub(crate) struct Shared {
    pub(crate) handle: Handle<symm_group>,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) backend: Backend,
}

impl Shared {
    pub(super) fn abort(&self, reason: &str) -> Result<()> {
        let reason = to_c("reason", reason)?;
        // SAFETY: the handle is alive, the string until the end of the call.
        call(|api| unsafe { api.symm_group_abort(self.handle.as_raw(), reason.as_ptr()) })
    }
}

/// Aborts a group from any thread, while another is in a call on it. Does not keep the group alive.
#[derive(Clone)]
pub struct AbortHandle(Weak<Shared>);

impl AbortHandle {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    /// As [`Group::abort`](crate::Group::abort).
    ///
    /// # Errors
    /// `InvalidHandle` if the group is no more; `InvalidArgument` for a reason with a NUL character.
    pub fn abort(&self, reason: &str) -> Result<()> {
        match self.0.upgrade() {
            Some(shared) => shared.abort(reason),
            None => Err(Error::from_parts(Status::InvalidHandle, "the group was released, so there is nothing to abort")),
        }
    }
}
