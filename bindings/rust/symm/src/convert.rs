//! Values to and from C.

use crate::error::{Called, Error, Result, call, from_array};
use crate::{Algorithm, Backend, Status};
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use symm_sys::Api;

/// A feature: there, or why not.
pub type Feature = std::result::Result<(), String>;

/// What stands in a struct of C, in the type that it has here.
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
    [u64; 32] => [u64; 32]: std::convert::identity;
    i64 => i64: std::convert::identity;
    i32 => bool: |value| value != 0;
    i32 => usize: count;
    i32 => Option<usize>: |rank| usize::try_from(rank).ok(); // -1 if there is none
    i64 => Option<i64>: |pid| (pid > 0).then_some(pid);
    i32 => Algorithm: Algorithm::from_raw;
    i32 => Backend: Backend::from_raw;
    i32 => Status: Status::from_raw;
}

impl<const N: usize> FromC<[c_char; N]> for String {
    fn from_c(text: [c_char; N]) -> Self {
        from_array(&text)
    }
}

impl<const N: usize> FromC<(i32, [c_char; N])> for Feature {
    fn from_c((there, reason): (i32, [c_char; N])) -> Self {
        if there != 0 { Ok(()) } else { Err(from_array(&reason)) }
    }
}

/// A rank, channel or root as C has it. What does not fit is out of range for the library too, which says so.
#[inline]
pub(crate) fn index(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The library never answers with a negative number where one is counted.
pub(crate) fn count(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// What `function` writes where `start` stands.
pub(crate) fn given<T>(start: T, function: impl FnOnce(&Api, &mut T) -> Called) -> Result<T> {
    let mut out = start;
    call(|api| function(api, &mut out))?;
    Ok(out)
}

/// A struct that `function` fills.
///
/// # Safety
/// `T` is a struct of `symm.h` without references that begins with `struct_size`, and `function` fills no other.
pub(crate) unsafe fn filled<T>(function: impl FnOnce(&Api, *mut T) -> Called) -> Result<T> {
    let mut out = MaybeUninit::<T>::zeroed();
    // SAFETY: the struct begins with its size.
    unsafe { out.as_mut_ptr().cast::<usize>().write(size_of::<T>()) };
    call(|api| function(api, out.as_mut_ptr()))?;
    // SAFETY: all zeros is a value of a struct of integers, characters and raw pointers, and so is what the library wrote.
    Ok(unsafe { out.assume_init() })
}

/// A C string, or an error that names the argument.
pub(crate) fn to_c(name: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::argument(format!("{name} contains a NUL character")))
}

/// A static string of the library.
///
/// # Safety
/// `text` is NULL or a C string that lives for ever.
pub(crate) unsafe fn from_static(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}
