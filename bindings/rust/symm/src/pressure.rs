//! Callbacks that give memory back when the library is short of it.

use crate::Backend;
use crate::convert::given;
use crate::error::{Result, call};
use crate::unwind::contained;
use std::ffi::c_void;
use std::sync::Arc;

type Callback = Box<dyn Fn(Backend, usize, u64) -> u64 + Send + Sync>;

/// Gives memory back until it is dropped. After that, its callback is not running and will not run
/// again; only a callback that drops its own listener runs to its end.
#[must_use = "the callback is not asked any more when it is dropped"]
pub struct MemoryPressureListener {
    id: u64,
    callback: Option<Arc<Callback>>,
}

/// Adds a callback that is asked when an allocation is short of memory, for the whole process.
///
/// It is given the back end, the device and the bytes that are wanted, and returns the bytes that
/// it gave back. It runs inside of the call that allocates, on its thread, and may call into the
/// library to release, but nothing that waits for other ranks. A panic in the callback ends there
/// and counts as 0. Errors: `Unavailable` if there is no library.
///
/// ```no_run
/// let listener = symm::on_memory_pressure(|_backend, _device, _bytes| {
///     0 // the bytes that a cache of this program gave back
/// })?;
/// # Ok::<(), symm::Error>(())
/// ```
pub fn on_memory_pressure(
    callback: impl Fn(Backend, usize, u64) -> u64 + Send + Sync + 'static,
) -> Result<MemoryPressureListener> {
    let callback: Arc<Callback> = Arc::new(Box::new(callback));
    let user = Arc::as_ptr(&callback).cast_mut().cast();
    // SAFETY: `user` is a callback of the type that forward() expects, and lives until drop() has
    // ended the listener.
    let id = given(0, |api, out| unsafe {
        api.symm_memory_pressure_add_listener(Some(forward), user, out)
    })?;
    Ok(MemoryPressureListener {
        id,
        callback: Some(callback),
    })
}

impl Drop for MemoryPressureListener {
    fn drop(&mut self) {
        // SAFETY: the library accepts any number.
        if call(|api| unsafe { api.symm_memory_pressure_remove_listener(self.id) }).is_err() {
            // The callback may still be running, so it must not be freed.
            std::mem::forget(self.callback.take());
        }
    }
}

/// # Safety
/// Called by the library with a living [`Callback`] in an [`Arc`].
unsafe extern "C" fn forward(user: *mut c_void, backend: i32, device: i32, bytes: u64) -> u64 {
    let callback = user.cast_const().cast::<Callback>();
    // SAFETY: by contract. The callback may drop its own listener, so this reference keeps it alive
    // until it has returned.
    let callback = unsafe {
        Arc::increment_strong_count(callback);
        Arc::from_raw(callback)
    };
    let device = usize::try_from(device).unwrap_or(0);
    contained(move || {
        let given_back = callback(Backend::from_raw(backend), device, bytes);
        drop(callback);
        given_back
    })
    .unwrap_or(0)
}
