// SPDX-License-Identifier: Apache-2.0
//! What the handles to a group have in common.

use crate::Backend;
use crate::convert::to_c;
use crate::error::{Result, call};
use crate::handle::Handle;
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
        call(|api| unsafe { api.symm_group_abort(self.handle.as_ptr(), reason.as_ptr()) })
    }
}
