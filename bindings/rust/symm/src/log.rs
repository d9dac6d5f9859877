// SPDX-License-Identifier: Apache-2.0
//! What the library has to say besides errors.

use crate::LogLevel;
use crate::error::{Result, call};
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, PoisonError};

type Callback = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// What the library holds a pointer to. Two boxes: the outer one gives the closure a thin address.
static CURRENT: Mutex<Option<Box<Callback>>> = Mutex::new(None);

/// Sends log messages up to `level` (errors are the lowest) to `callback`, for the whole process, instead of the former callback.
///
/// It may be called from the library's own threads, and must not call into the library. A panic in it ends there.
/// Without a callback the library prints nothing, unless the environment variable `SYMM_LOG` names a level.
///
/// # Errors
/// `Unavailable` if there is no library, `InvalidArgument` for an unknown level.
pub fn set_log_callback(level: LogLevel, callback: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Result<()> {
    let callback: Box<Callback> = Box::new(Box::new(callback));
    let user = ptr::from_ref::<Callback>(&callback).cast_mut().cast();
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: `user` is a callback of the type that forward() expects, and lives until the library has taken another one: it
    // is dropped after a successful call of this function or of clear_log_callback() only.
    call(|api| unsafe { api.symm_set_log_callback(Some(forward), user, level.as_raw()) })?;
    *current = Some(callback);
    Ok(())
}

/// No more messages. When this returns, the callback is not running and will not run again.
///
/// # Errors
/// `Unavailable` if there is no library.
pub fn clear_log_callback() -> Result<()> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: no callback needs no user data.
    call(|api| unsafe { api.symm_set_log_callback(None, ptr::null_mut(), LogLevel::Error.as_raw()) })?;
    *current = None;
    Ok(())
}

/// Sends log messages up to `level` to [`tracing`] as events with the target `symm`.
///
/// # Errors
/// As [`set_log_callback`].
#[cfg(feature = "tracing")]
pub fn log_to_tracing(level: LogLevel) -> Result<()> {
    set_log_callback(level, |level, message| match level {
        LogLevel::Error => tracing::error!(target: "symm", "{message}"),
        LogLevel::Warning => tracing::warn!(target: "symm", "{message}"),
        LogLevel::Info => tracing::info!(target: "symm", "{message}"),
        _ => tracing::debug!(target: "symm", "{message}"),
    })
}

/// # Safety
/// Called by the library with a living [`Callback`] and a C string.
unsafe extern "C" fn forward(user: *mut c_void, level: i32, message: *const c_char) {
    // SAFETY: by contract.
    let (callback, message) = unsafe { (&*user.cast::<Callback>(), CStr::from_ptr(message)) };
    // A panic must not unwind into C, and there is nobody to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| callback(LogLevel::from_raw(level), &message.to_string_lossy())));
}
