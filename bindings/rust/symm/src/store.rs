//! A store of your own, by which ranks find each other.

use crate::Status;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use symm_sys::{symm_status_t, symm_store_t};

/// Why a store could not do what it was asked.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// Moves bytes by key before memory is shared: a TCP store, an
/// MPI communicator, a database. Called only on the thread that
/// is inside [`GroupConfig::create`](crate::GroupConfig::create).
/// An error, or a panic, fails the creation on all ranks.
pub trait Store {
    /// Stores `value` under `key`. A key is set once. Errors: whatever went wrong; its
    /// text becomes part of the message of the failed creation.
    fn set(&self, key: &str, value: &[u8], timeout: Duration) -> Result<(), StoreError>;

    /// Waits until `key` is there, at most `timeout`. `None`: it did not come in time.
    fn get(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError>;
}

/// A store as the library wants it. What the store
/// complained of is kept, since C carries a status only.
pub(crate) struct Adapter {
    store: Box<dyn Store>,
    complaint: RefCell<Option<String>>,
}

impl Adapter {
    pub(crate) fn new(store: Box<dyn Store>) -> Self {
        Self {
            store,
            complaint: RefCell::new(None),
        }
    }

    /// Valid while the adapter lives, and stays where it is.
    pub(crate) fn table(&self) -> symm_store_t {
        symm_store_t {
            struct_size: size_of::<symm_store_t>(),
            user: std::ptr::from_ref(self).cast_mut().cast(),
            set: Some(set),
            get: Some(get),
        }
    }

    /// To be added to the message of a failed creation.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.complaint
            .borrow()
            .as_ref()
            .map(|text| format!(" (the store says: {text})"))
    }

    /// A panic must not unwind into C.
    fn guarded(&self, action: impl FnOnce() -> Result<Status, StoreError>) -> symm_status_t {
        let result =
            catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|_| Err("it panicked".into()));
        let status = result.unwrap_or_else(|error| {
            *self.complaint.borrow_mut() = Some(error.to_string());
            Status::System
        });
        status.as_raw()
    }
}

/// # Safety
/// Called by the library with the table of a living adapter.
unsafe extern "C" fn set(
    user: *mut c_void,
    key: *const c_char,
    value: *const c_void,
    size: usize,
    timeout_ms: u64,
) -> symm_status_t {
    // SAFETY: `user` is the adapter, which outlives the
    // creation; the library passes a C string and `size` bytes.
    let (adapter, key) = unsafe { (&*user.cast::<Adapter>(), CStr::from_ptr(key)) };
    // SAFETY: as above.
    let value = if size == 0 {
        &[]
    } else {
        unsafe { std::slice::from_raw_parts(value.cast(), size) }
    };
    adapter.guarded(|| {
        adapter
            .store
            .set(
                &key.to_string_lossy(),
                value,
                Duration::from_millis(timeout_ms),
            )
            .map(|()| Status::Ok)
    })
}

/// # Safety
/// Called by the library with the table of a living adapter.
unsafe extern "C" fn get(
    user: *mut c_void,
    key: *const c_char,
    value: *mut c_void,
    capacity: usize,
    out_size: *mut usize,
    timeout_ms: u64,
) -> symm_status_t {
    // SAFETY: as in set().
    let (adapter, key) = unsafe { (&*user.cast::<Adapter>(), CStr::from_ptr(key)) };
    adapter.guarded(|| {
        let Some(found) = adapter
            .store
            .get(&key.to_string_lossy(), Duration::from_millis(timeout_ms))?
        else {
            return Ok(Status::Timeout);
        };
        if found.len() > capacity {
            return Ok(Status::InvalidArgument);
        }
        // SAFETY: `value` holds `capacity` bytes, which is
        // enough, and `out_size` is the library's variable.
        unsafe {
            std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast(), found.len());
            *out_size = found.len();
        }
        Ok(Status::Ok)
    })
}
