//! Conversion of values and handles to and from C.

use crate::error::{Called, Error, Result, call, from_array};
use crate::{Advice, Algorithm, Backend, Locality, Status, Timeout};
use std::ffi::{CString, c_char, c_void};
use std::ptr::NonNull;
use symm_sys::{
    Api, MissingSymbol, symm_buffer, symm_exchange, symm_group, symm_heap, symm_memory,
    symm_request,
};

/// A feature: `Ok` where it is there, or the reason why it is not.
pub type Feature = std::result::Result<(), String>;

/// A type of this crate that a field of a struct of C, of type `C`, becomes.
pub(crate) trait FromC<C> {
    fn from_c(value: C) -> Self;
}

macro_rules! from_c {
    ($($c:ty => $rust:ty: $convert:expr;)*) => {
        $(impl FromC<$c> for $rust {
            fn from_c(value: $c) -> Self {
                ($convert)(value)
            }
        })*
    };
}
from_c! {
    u64 => u64: std::convert::identity;
    u64 => Timeout: Timeout::from_millis;
    i64 => i64: std::convert::identity;
    i32 => bool: |value| value != 0;
    i32 => usize: count;
    *mut c_void => usize: |address| address as usize;
    i32 => Option<usize>: |rank| usize::try_from(rank).ok(); // -1 if there is none
    i64 => Option<i64>: |pid| (pid > 0).then_some(pid);
    i32 => Advice: Advice::from_raw;
    i32 => Algorithm: Algorithm::from_raw;
    i32 => Backend: Backend::from_raw;
    i32 => Locality: Locality::from_raw;
}

impl<const N: usize> FromC<[c_char; N]> for String {
    fn from_c(text: [c_char; N]) -> Self {
        from_array(&text)
    }
}

impl<const N: usize> FromC<(i32, [c_char; N])> for Feature {
    fn from_c((there, reason): (i32, [c_char; N])) -> Self {
        if there != 0 {
            Ok(())
        } else {
            Err(from_array(&reason))
        }
    }
}

/// A rank, channel or root as an integer of C. A number that does not fit becomes the largest
/// one, which is out of range for the library too, so the library refuses it.
#[inline]
pub(crate) fn index(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// A count that the library returned. The library never returns a negative one.
pub(crate) fn count(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// The value that `function` writes to its second argument, which is `start` before.
pub(crate) fn given<T>(start: T, function: impl FnOnce(&Api, &mut T) -> Called) -> Result<T> {
    let mut out = start;
    call(|api| function(api, &mut out))?;
    Ok(out)
}

/// A struct of `symm.h` that `function` fills.
pub(crate) fn filled<T: Default>(function: impl FnOnce(&mut T) -> Result<()>) -> Result<T> {
    let mut out = T::default(); // which says its size
    function(&mut out)?;
    Ok(out)
}

/// A C string, or an error that names the argument.
pub(crate) fn to_c(name: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::argument(format!("{name} contains a NUL character")))
}

/// The function that releases a reference which its caller owns.
type Release<T> = unsafe fn(&Api, *mut T) -> std::result::Result<(), MissingSymbol>;

/// An object of the library, whose references the library counts.
pub(crate) trait Object {
    const RELEASE: Release<Self>;
}

macro_rules! objects {
    ($($name:ident: $release:ident,)*) => {
        $(impl Object for $name {
            const RELEASE: Release<Self> = Api::$release;
        })*
    };
}
objects! {
    symm_group: symm_group_release,
    symm_buffer: symm_buffer_release,
    symm_memory: symm_memory_release,
    symm_heap: symm_heap_release,
    symm_exchange: symm_exchange_release,
    symm_request: symm_request_release,
}

/// A reference to an object of the library, released when this value is dropped.
pub(crate) struct Handle<T: Object>(NonNull<T>);

// SAFETY: symm.h says that all functions, release included, may be called from any thread, and
// at once on distinct or equal handles; the library serialises what must be in order. The only
// rule is that the last reference is not released during a call, and a call borrows its handle.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: a shared reference allows only calls, which any thread may make, as Send explains.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// # Safety
    /// `object` is NULL or a reference that the caller owns and gives up.
    pub(crate) unsafe fn new(object: *mut T) -> Result<Self> {
        NonNull::new(object).map(Self).ok_or_else(|| {
            Error::from_parts(Status::Internal, "the library gave NULL for a handle")
        })
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        if let Ok(api) = symm_sys::api() {
            // SAFETY: this is the reference that was given up in new(). Without a release
            // function the reference leaks, because Drop cannot fail.
            let _ = unsafe { (T::RELEASE)(api, self.0.as_ptr()) };
        }
    }
}
