//! Stores by which ranks find each other, implemented by the caller.

use crate::Status;
use crate::unwind::contained;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::time::Duration;
use symm_sys::{symm_status_t, symm_store_t};

/// Why a store failed.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// A key-value store that ranks use before memory is shared: a TCP store, an MPI communicator, a
/// database. Called only on the thread that is inside
/// [`GroupConfig::create`](crate::GroupConfig::create). An error, or a panic, fails the creation
/// on all ranks.
pub trait Store {
    /// Stores `value` under `key`. A key is set once. The text of an error becomes part of the
    /// message of the failed creation.
    fn set(&self, key: &str, value: &[u8], timeout: Duration) -> Result<(), StoreError>;

    /// Waits until `key` is there, at most `timeout`. `None` means that it was not set in time.
    fn get(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError>;
}

/// Passes a store to the library. The text of the store's error is kept here, because C returns
/// only a status.
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

    /// The functions for the library, valid while the adapter lives and is not moved.
    pub(crate) fn table(&self) -> symm_store_t {
        symm_store_t {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            set: Some(set),
            get: Some(get),
            ..Default::default()
        }
    }

    /// The store's error, to be added to the message of a failed creation.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.complaint
            .borrow()
            .as_ref()
            .map(|text| format!(" (the store says: {text})"))
    }

    /// Runs a call of the store and keeps the text of its error. A panic becomes an error, also one
    /// of the error's own code.
    fn guarded(&self, action: impl FnOnce() -> Result<Status, StoreError>) -> symm_status_t {
        let result = contained(|| action().map_err(|error| error.to_string()));
        let result = result.unwrap_or_else(|| Err("it panicked".to_owned()));
        let status = result.unwrap_or_else(|text| {
            *self.complaint.borrow_mut() = Some(text);
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
    bytes: usize,
    timeout_ms: u64,
) -> symm_status_t {
    // SAFETY: `user` is the adapter, which outlives the creation.
    let adapter = unsafe { &*user.cast::<Adapter>() };
    // SAFETY: the library passes a C string.
    let key = unsafe { CStr::from_ptr(key) }.to_string_lossy();
    let value = if bytes == 0 {
        &[]
    } else {
        // SAFETY: the library passes that many bytes.
        unsafe { std::slice::from_raw_parts(value.cast(), bytes) }
    };

    let timeout = Duration::from_millis(timeout_ms);
    adapter.guarded(|| adapter.store.set(&key, value, timeout).map(|()| Status::Ok))
}

/// # Safety
/// Called by the library with the table of a living adapter.
unsafe extern "C" fn get(
    user: *mut c_void,
    key: *const c_char,
    value: *mut c_void,
    capacity: usize,
    out_bytes: *mut usize,
    timeout_ms: u64,
) -> symm_status_t {
    // SAFETY: `user` is the adapter, which outlives the creation.
    let adapter = unsafe { &*user.cast::<Adapter>() };
    // SAFETY: the library passes a C string.
    let key = unsafe { CStr::from_ptr(key) }.to_string_lossy();
    let timeout = Duration::from_millis(timeout_ms);

    adapter.guarded(|| {
        let Some(found) = adapter.store.get(&key, timeout)? else {
            return Ok(Status::Timeout);
        };
        if found.len() > capacity {
            return Ok(Status::InvalidArgument);
        }

        // SAFETY: `value` holds `capacity` bytes, which is
        // enough, and `out_bytes` is the library's variable.
        unsafe {
            std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast(), found.len());
            *out_bytes = found.len();
        }
        Ok(Status::Ok)
    })
}
