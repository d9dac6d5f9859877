// SPDX-License-Identifier: Apache-2.0
//! Ending pending calls from elsewhere.

use super::shared::Shared;
use crate::Status;
use crate::error::{Error, Result};
use std::sync::{Arc, Weak};

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
            None => {
                Err(Error::from_parts(Status::InvalidHandle, "the group was released, so there is nothing to abort"))
            }
        }
    }
}
