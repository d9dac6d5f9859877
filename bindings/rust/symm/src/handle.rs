//! One reference to an object of the library.

use crate::error::{Error, Result};
use std::ptr::NonNull;
use symm_sys::{Api, MissingSymbol, symm_buffer, symm_group, symm_heap, symm_memory};

/// What the library counts references of.
pub(crate) trait Object {
    /// # Safety
    /// `object` is a reference that the caller owns and gives up.
    unsafe fn release(api: &Api, object: *mut Self) -> std::result::Result<(), MissingSymbol>;
}

macro_rules! object {
    ($name:ident, $release:ident) => {
        impl Object for $name {
            unsafe fn release(api: &Api, object: *mut Self) -> std::result::Result<(), MissingSymbol> {
                // SAFETY: as promised by the caller.
                unsafe { api.$release(object) }
            }
        }
    };
}
object!(symm_group, symm_group_release);
object!(symm_buffer, symm_buffer_release);
object!(symm_memory, symm_memory_release);
object!(symm_heap, symm_heap_release);

/// An owned reference.
pub(crate) struct Handle<T: Object>(NonNull<T>);

// SAFETY: symm.h: all functions may be called from any thread, release included, and on distinct or equal handles at once;
// what must be in order is put in order inside the library. The only rule is not to release the last reference during a
// call, and a call borrows its handle.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// # Safety
    /// `object` is NULL or a reference that the caller owns and gives up.
    pub(crate) unsafe fn new(object: *mut T) -> Result<Self> {
        NonNull::new(object)
            .map(Self)
            .ok_or_else(|| Error::from_parts(crate::Status::Internal, "the library gave NULL for a handle"))
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        if let Ok(api) = symm_sys::api() {
            // SAFETY: this is the reference that was given up in new(). Without a release function the reference leaks, which
            // is all that can be done: Drop does not fail.
            let _ = unsafe { T::release(api, self.0.as_ptr()) };
        }
    }
}
