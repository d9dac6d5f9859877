//! Values and handles to and from C.

use crate::error::{Called, Error, Result, call, from_array};
use crate::{Algorithm, Backend, Status};
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use symm_sys::{Api, MissingSymbol, symm_buffer, symm_group, symm_heap, symm_memory};

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
        if there != 0 {
            Ok(())
        } else {
            Err(from_array(&reason))
        }
    }
}

/// A rank, channel or root as C has it. What does not fit
/// is out of range for the library too, which says so.
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
/// # Safety `T` is a struct of `symm.h` without references that begins with
/// `struct_size`, and `function` fills no other.
pub(crate) unsafe fn filled<T>(function: impl FnOnce(&Api, *mut T) -> Called) -> Result<T> {
    let mut out = MaybeUninit::<T>::zeroed();
    // SAFETY: the struct begins with its size.
    unsafe { out.as_mut_ptr().cast::<usize>().write(size_of::<T>()) };
    call(|api| function(api, out.as_mut_ptr()))?;
    // SAFETY: all zeros is a value of a struct of integers, characters and raw
    // pointers, and so is what the library wrote.
    Ok(unsafe { out.assume_init() })
}

/// A C string, or an error that names the argument.
pub(crate) fn to_c(name: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::argument(format!("{name} contains a NUL character")))
}

/// What the library counts references of.
pub(crate) trait Object {
    /// What is given a reference that the caller owns and gives up.
    const RELEASE: unsafe fn(&Api, *mut Self) -> std::result::Result<(), MissingSymbol>;
}

macro_rules! objects {
    ($($name:ident: $release:ident),*) => {
        $(impl Object for $name {
            const RELEASE: unsafe fn(&Api, *mut Self) -> std::result::Result<(), MissingSymbol> = Api::$release;
        })*
    };
}
objects!(symm_group: symm_group_release, symm_buffer: symm_buffer_release,
    symm_memory: symm_memory_release, symm_heap: symm_heap_release);

/// An owned reference.
pub(crate) struct Handle<T: Object>(NonNull<T>);

// SAFETY: symm.h: all functions may be called from any thread, release
// included, and on distinct or equal handles at once; what must be in
// order is put in order inside the library. The only rule is not to
// release the last reference during a call, and a call borrows its handle.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
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
            // SAFETY: this is the reference that was given up in
            // new(). Without a release function the reference leaks,
            // which is all that can be done: Drop does not fail.
            let _ = unsafe { (T::RELEASE)(api, self.0.as_ptr()) };
        }
    }
}
