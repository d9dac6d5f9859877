// SPDX-License-Identifier: Apache-2.0
//! What a failing call says.

use crate::Status;
use std::ffi::CStr;
use std::fmt;
use symm_sys::{Api, LoadError, MissingSymbol, symm_status_t};

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// A call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The kind of failure.
    pub status: Status,
    /// One line that names the argument, rank, process or system call. Read in the same call, on the same thread.
    pub message: String,
    /// The rank that caused the failure, in the group of the call, where that is known: the one that died, aborted, disagreed
    /// or did not come in time.
    pub rank: Option<usize>,
}

impl Error {
    /// An error of a program's own layer over the raw calls.
    pub fn from_parts(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), rank: None }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::from_parts(Status::InvalidArgument, message)
    }

    #[cold]
    fn last(api: &Api, status: symm_status_t) -> Self {
        // SAFETY: the string is never NULL and valid until the next failing call on this thread, of which there is none
        // before it is copied.
        let message = unsafe { api.symm_last_error().map(|text| CStr::from_ptr(text).to_string_lossy().into_owned()) };
        Self::from_parts(Status::from_raw(status), message.unwrap_or_default())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Ok => "ok",
            Self::InvalidArgument => "invalid argument",
            Self::InvalidHandle => "invalid handle",
            Self::OutOfMemory => "out of memory",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
            Self::Timeout => "timeout",
            Self::Aborted => "aborted",
            Self::PeerFailed => "peer failed",
            Self::Mismatch => "mismatch",
            Self::System => "system call failed",
            Self::Cuda => "CUDA driver call failed",
            Self::Busy => "busy",
            Self::Internal => "internal error",
            Self::Unknown(value) => return write!(f, "unknown status {value}"),
        };
        f.write_str(name)
    }
}

impl From<&LoadError> for Error {
    fn from(error: &LoadError) -> Self {
        Self::from_parts(Status::Unavailable, error.to_string())
    }
}

impl From<MissingSymbol> for Error {
    fn from(error: MissingSymbol) -> Self {
        Self::from_parts(Status::Unsupported, error.to_string())
    }
}

/// One call of the library: its status becomes a `Result`.
#[inline]
pub(crate) fn call(function: impl FnOnce(&Api) -> std::result::Result<symm_status_t, MissingSymbol>) -> Result<()> {
    let api = symm_sys::api()?;
    match function(api)? {
        status if status < 0 => Err(Error::last(api, status)),
        _ => Ok(()),
    }
}
