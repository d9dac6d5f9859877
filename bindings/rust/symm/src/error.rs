//! Errors of calls, and how the status of a call of the library becomes one.

use crate::Status;
use std::ffi::c_char;
use std::fmt;
use symm_sys::{Api, LoadError, MissingSymbol, symm_status_t};

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// A call failed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The kind of failure.
    pub status: Status,
    /// One line that names the argument, rank, process or system call.
    pub message: String,
    /// The rank that caused the failure, in the group of the call, where that is known:
    /// the one that died, aborted, disagreed or did not come in time.
    pub rank: Option<usize>,
    /// The process id of that rank, as its own machine numbers it, where that is known.
    pub pid: Option<i64>,
    /// `errno` of the system call that failed, on the rank to blame.
    pub os_error: Option<i32>,
    /// `CUresult` of the driver call that failed, on the rank to blame.
    pub cuda_result: Option<i32>,
}

impl Error {
    /// An error of a program's own layer over the raw calls.
    pub fn from_parts(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            rank: None,
            pid: None,
            os_error: None,
            cuda_result: None,
        }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::from_parts(Status::InvalidArgument, message)
    }

    /// The failure of the last call on this thread, as the library describes it.
    #[cold]
    fn last(api: &Api, status: symm_status_t) -> Self {
        let mut failure = sized!(symm_failure_t {});
        // SAFETY: the struct says its size.
        if let Err(missing) = unsafe { api.symm_last_failure(&mut failure) } {
            return missing.into();
        }

        Self {
            rank: usize::try_from(failure.rank).ok(), // -1 if there is none
            pid: (failure.pid > 0).then_some(failure.pid),
            os_error: (failure.os_error != 0).then_some(failure.os_error),
            cuda_result: (failure.cuda_result != 0).then_some(failure.cuda_result),
            ..Self::from_parts(Status::from_raw(status), from_array(&failure.message))
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

/// The form of `Display`, because this is what people see of an error that `main` returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

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

/// The status that a function of the library returned, or that the library does not have it.
pub(crate) type Called = std::result::Result<symm_status_t, MissingSymbol>;

/// Whether a look-up has found something.
pub(crate) fn looked_up(called: Result<()>) -> Result<bool> {
    match called {
        Err(error) if error.status == Status::NotFound => Ok(false),
        other => other.map(|()| true),
    }
}

/// Calls the library. A negative status becomes an error, which is read here, on the thread of
/// the call and before any other call.
#[inline]
pub(crate) fn call(function: impl FnOnce(&Api) -> Called) -> Result<()> {
    let api = symm_sys::api()?;
    match function(api)? {
        status if status < 0 => Err(Error::last(api, status)),
        _ => Ok(()),
    }
}

/// The text in a fixed array of a struct.
pub(crate) fn from_array(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array
        .iter()
        .map(|c| u8::from_ne_bytes(c.to_ne_bytes()))
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
