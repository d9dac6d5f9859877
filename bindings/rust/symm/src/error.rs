//! Errors of calls, and how the status of a call of the library becomes one.

use crate::Status;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::mem::MaybeUninit;
use symm_sys::{self as sys, Api, LoadError, MissingSymbol, symm_failure_t, symm_status_t};

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
    fn last(api: &Api) -> Self {
        let mut failure = symm_failure_t::default();
        // SAFETY: the struct says its size.
        match unsafe { api.symm_last_failure(&mut failure) } {
            Ok(_) => failure.into(),
            Err(missing) => missing.into(),
        }
    }

    fn with_blame(mut self, rank: i32, pid: i64, os_error: i32, cuda_result: i32) -> Self {
        self.rank = usize::try_from(rank).ok(); // -1 if there is none
        self.pid = (pid > 0).then_some(pid);
        self.os_error = (os_error != 0).then_some(os_error);
        self.cuda_result = (cuda_result != 0).then_some(cuda_result);
        self
    }
}

impl From<symm_failure_t> for Error {
    fn from(c: symm_failure_t) -> Self {
        Self::from_parts(Status::from_raw(c.status), from_array(&c.message)).with_blame(
            c.rank,
            c.pid,
            c.os_error,
            c.cuda_result,
        )
    }
}

/// Where the library writes the failure of one call. Only the two fields that it reads are set
/// before, since the message is long and most calls succeed.
struct Sink(MaybeUninit<symm_failure_t>);

impl Sink {
    #[inline]
    fn new() -> Self {
        let mut failure = MaybeUninit::<symm_failure_t>::uninit();
        let at = failure.as_mut_ptr();
        // SAFETY: the fields lie within the struct, of which nothing is read.
        unsafe {
            (&raw mut (*at).struct_size).write(size_of::<symm_failure_t>());
            (&raw mut (*at).status).write(sys::SYMM_OK);
        }
        Self(failure)
    }

    /// The failure of the call that was given this place. A call that could not read its options
    /// has left it to the thread, which has made no other call since.
    #[cold]
    fn error(&self, api: &Api) -> Error {
        let at = self.0.as_ptr();
        // SAFETY: new() has set the status. Where it is another, the library has written all of
        // the other fields, and ended the message.
        unsafe {
            if (*at).status == sys::SYMM_OK {
                return Error::last(api);
            }
            let message = CStr::from_ptr((&raw const (*at).message).cast());
            Error::from_parts(Status::from_raw((*at).status), message.to_string_lossy()).with_blame(
                (*at).rank,
                (*at).pid,
                (*at).os_error,
                (*at).cuda_result,
            )
        }
    }
}

/// A struct of options of `symm.h`, which says where the failure of the call goes.
pub(crate) trait Options {
    fn set_failure(&mut self, failure: *mut symm_failure_t);
    /// Says where the request of the call goes, if it may have one.
    #[inline]
    fn set_request(&mut self) -> Result<()> {
        Ok(())
    }
}

macro_rules! options {
    ($($name:ident $(, $request:ident)?;)*) => {
        $(impl Options for sys::$name {
            #[inline]
            fn set_failure(&mut self, failure: *mut symm_failure_t) {
                self.failure = failure;
            }
            $(#[inline]
            fn set_request(&mut self) -> Result<()> {
                self.$request = crate::request::place()?;
                Ok(())
            })?
        })*
    };
}
options! {
    symm_call_options_t, request;
    symm_group_config_t;
    symm_group_options_t;
    symm_invite_options_t;
    symm_grow_options_t;
    symm_alloc_options_t;
    symm_adopt_options_t;
    symm_rendezvous_options_t;
    symm_heap_options_t;
    symm_collective_options_t, request;
    symm_batch_options_t, request;
    symm_ipc_export_options_t;
    symm_ipc_import_options_t;
    symm_ipc_publish_options_t;
    symm_ipc_lookup_options_t;
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

/// Calls a function of the library that has no options. A negative status becomes an error, which
/// is read here, on the thread of the call and before any other call.
#[inline]
pub(crate) fn call(function: impl FnOnce(&Api) -> Called) -> Result<()> {
    let api = symm_sys::api()?;
    match function(api)? {
        status if status < 0 => Err(Error::last(api)),
        _ => Ok(()),
    }
}

/// Calls a function of the library that has options. A negative status becomes the failure that
/// the library has written for this very call.
#[inline]
pub(crate) fn acting<O: Options>(
    mut options: O,
    function: impl FnOnce(&Api, &O) -> Called,
) -> Result<()> {
    let api = symm_sys::api()?;
    let mut sink = Sink::new();
    options.set_failure(sink.0.as_mut_ptr());
    options.set_request()?;
    match function(api, &options)? {
        status if status < 0 => Err(sink.error(api)),
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
