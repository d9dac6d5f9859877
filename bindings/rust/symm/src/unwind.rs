//! Code of the user that C calls. A panic must not unwind into C, where it would end the process.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the user. `None` means that it panicked. Whatever it returns, and what is dropped
/// on the way, belongs inside: `Display` and `Drop` of the user's types may panic, too.
pub(crate) fn contained<T>(action: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(action)) {
        Ok(result) => Some(result),
        Err(payload) => {
            drop_contained(payload);
            None
        }
    }
}

/// The payload of a panic is a value of the user's, and its `Drop` may panic. Then the payload of
/// that panic is leaked, since this could go on for ever.
fn drop_contained(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        forget(second);
    }
}
