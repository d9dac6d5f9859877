//! A block that others may map by tokens.

use super::export::withdraw_bytes;
use crate::buffer::on_host;
use crate::error::{Error, Result};
use crate::{Backend, Buffer, Element, Timeout, View};
use std::fmt;

/// A block of this process of which tokens may be made: [`Buffer::share`].
///
/// ```compile_fail,E0505
/// # let group = symm::Group::from_env()?;
/// let shared = group.alloc::<f32>(1024)?.share();
/// let view = shared.view()?;
/// let buffer = shared.withdraw(symm::Timeout::Never); // takes what `view` looks at
/// println!("{}", view.load(0));
/// # Ok::<(), symm::Error>(())
/// ```
#[derive(Debug)]
pub struct Shared<T: Element>(Buffer<T>);

impl<T: Element> Buffer<T> {
    /// Gives up the certainty that nobody else has the block mapped, so that tokens can be made of it.
    pub fn share(self) -> Shared<T> {
        Shared(self)
    }
}

elements_in_other_hands!(
    Shared,
    "During the borrow nobody writes to them: not a process that imported a piece of the block.",
    "During the borrow nobody touches them: not a process that imported a piece of the block."
);

impl<T: Element> Shared<T> {
    fn parts(&self) -> (*mut T, usize, Backend) {
        (self.0.as_ptr(), self.0.len(), self.0.group.backend)
    }

    /// Ends all tokens of the block and waits until nobody holds a lease on it: then it is a buffer of one's own again.
    /// [`Timeout::Group`] is `$SYMM_TIMEOUT_MS`, else 60 seconds.
    ///
    /// # Errors
    /// `Timeout` (names a holder; the tokens have ended all the same), `PeerFailed` (a holder is gone, but may still write: release
    /// the block). The error holds the block.
    pub fn withdraw(self, timeout: impl Into<Timeout>) -> std::result::Result<Buffer<T>, WithdrawError<T>> {
        match withdraw_bytes(self.0.as_ptr(), self.len(), timeout.into()) {
            Ok(()) => Ok(self.0),
            Err(error) => Err(WithdrawError { error: Box::new(error), shared: self }),
        }
    }
}

/// The block could not be had back, and why.
#[derive(Debug)]
pub struct WithdrawError<T: Element> {
    /// Why not.
    pub error: Box<Error>,
    /// The block.
    pub shared: Shared<T>,
}

impl<T: Element> fmt::Display for WithdrawError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: Element> std::error::Error for WithdrawError<T> {}

impl<T: Element> From<WithdrawError<T>> for Error {
    fn from(error: WithdrawError<T>) -> Self {
        *error.error
    }
}
