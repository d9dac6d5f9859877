//! Log messages of the library.

use crate::LogLevel;
use crate::convert::given;
use crate::error::{Result, call};
use crate::unwind::contained;
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

type Callback = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Receives messages of the library until it is dropped. After that, its callback is not running
/// and will not run again; only a callback that drops its own listener runs to its end.
#[must_use = "messages end when it is dropped"]
pub struct LogListener {
    id: u64,
    /// The callback that the library holds a pointer to; None for a descriptor.
    callback: Option<Arc<Callback>>,
}

/// Sends log messages up to `level` (errors are the lowest) to `callback`, for the whole process,
/// beside all other listeners.
///
/// The callback may be called from the library's own threads, from several at once, and must not
/// call into the library. A panic in the callback ends there. The library prints nothing, unless
/// the environment variable `SYMM_LOG` names a level. Errors: `Unavailable` if there is no
/// library, `Unsupported` for an unknown level.
pub fn log_to(
    level: LogLevel,
    callback: impl Fn(LogLevel, &str) + Send + Sync + 'static,
) -> Result<LogListener> {
    let callback: Arc<Callback> = Arc::new(Box::new(callback));
    let user = Arc::as_ptr(&callback).cast_mut().cast();
    // SAFETY: `user` is a callback of the type that forward()
    // expects, and lives until drop() has ended the listener.
    let id = given(0, |api, out| unsafe {
        api.symm_log_add_listener(Some(forward), user, level.as_raw(), out)
    })?;
    Ok(LogListener {
        id,
        callback: Some(callback),
    })
}

/// Writes log messages up to `level` to a descriptor, which is duplicated, one line for each
/// message (`warning: ...`). A descriptor that is full, because nobody reads it, loses lines and
/// delays nobody. Errors: as [`log_to`], and `System`.
pub fn log_to_fd(level: LogLevel, fd: impl AsFd) -> Result<LogListener> {
    // SAFETY: the descriptor is open during the call.
    let id = given(0, |api, out| unsafe {
        api.symm_log_to_fd(fd.as_fd().as_raw_fd(), level.as_raw(), out)
    })?;
    Ok(LogListener { id, callback: None })
}

/// Sends log messages up to `level` to [`tracing`] as events with the target `symm`.
#[cfg(feature = "tracing")]
pub fn log_to_tracing(level: LogLevel) -> Result<LogListener> {
    log_to(level, |level, message| match level {
        LogLevel::Error => tracing::error!(target: "symm", "{message}"),
        LogLevel::Warning => tracing::warn!(target: "symm", "{message}"),
        LogLevel::Info => tracing::info!(target: "symm", "{message}"),
        _ => tracing::debug!(target: "symm", "{message}"),
    })
}

impl Drop for LogListener {
    fn drop(&mut self) {
        // SAFETY: the library accepts any number.
        if call(|api| unsafe { api.symm_log_remove_listener(self.id) }).is_err() {
            // The callback may still be running, so it must not be freed.
            std::mem::forget(self.callback.take());
        }
    }
}

/// # Safety
/// Called by the library with a living [`Callback`] in an [`Arc`], and a C string.
unsafe extern "C" fn forward(user: *mut c_void, level: i32, message: *const c_char) {
    let callback = user.cast_const().cast::<Callback>();
    // SAFETY: by contract. The callback may drop its own listener, so this reference keeps it
    // alive until it has returned.
    let (callback, message) = unsafe {
        Arc::increment_strong_count(callback);
        (Arc::from_raw(callback), CStr::from_ptr(message))
    };

    // There is nobody to tell of a panic. The callback is dropped inside, because what it has
    // captured may panic then.
    let _ = contained(move || {
        callback(LogLevel::from_raw(level), &message.to_string_lossy());
        drop(callback);
    });
}
