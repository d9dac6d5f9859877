//! Making tokens, and ending them.

use super::{Holders, Token};
use crate::convert::filled;
use crate::error::{Error, Result, call};
use crate::{Element, Span, Stream, Timeout};
use std::time::Duration;
use symm_sys as sys;

/// How to export.
///
/// ```no_run
/// # use std::time::Duration;
/// # let shared = symm::Group::from_env()?.alloc::<f32>(1024)?.share();
/// // One consumer may still come within five seconds after this process has released the block.
/// let token = symm::ipc::ExportOptions::new().hold(Duration::from_secs(5)).hold_imports(1).export(&shared.span(..512)?)?;
/// # Ok::<(), symm::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until export() is called"]
pub struct ExportOptions {
    hold: u64,
    hold_imports: u64,
    stream: Stream,
}

setters! { ExportOptions:
    /// Keeps the memory for this token, though its owner releases it, for as long from now. Otherwise `$SYMM_IPC_HOLD_MS`, if that
    /// is set.
    hold(time: Duration) = Timeout::from(time).as_millis();
    /// Or until so many imports of this token were made.
    hold_imports(imports: u64) = imports;
    /// On CUDA: what was issued on this stream before is there after an import.
    stream(stream: Stream) = stream;
}

impl ExportOptions {
    /// Makes a token for a piece of memory. A local call.
    ///
    /// # Errors
    /// `InvalidArgument` (not memory that can be exported), `Unsupported` (a hold of an import, which only its owner can hold),
    /// `OutOfMemory`, `System`, `Unavailable` (the directory of the sockets is not private), `PeerFailed`, `Cuda`.
    pub fn export<T: Element>(&self, piece: &Span<'_, T>) -> Result<Token> {
        let options = sized!(symm_ipc_export_options_t: hold_ms = self.hold, hold_imports = self.hold_imports);
        let mut token = vec![0; sys::SYMM_IPC_TOKEN_MAX_SIZE as usize];
        let (at, size) = (piece.as_ptr().cast_const().cast(), size_of::<T>() * piece.len());
        let (mut len, stream) = (0, self.stream.as_raw());
        // SAFETY: the struct says its size, and the token holds as many bytes as is said. The piece lies in a block that lives, and
        // that safe code does not borrow.
        call(|api| unsafe { api.symm_ipc_export(at, size, &options, token.as_mut_ptr().cast(), token.len(), &mut len, stream) })?;
        token.truncate(len);
        Ok(Token(token))
    }
}

impl<T: Element> Span<'_, T> {
    /// Makes a token for these elements, by which any process of this user maps them. A local call.
    pub fn export(&self) -> Result<Token> {
        ExportOptions::new().export(self)
    }
}

/// Ends the tokens made so far for any part of a piece of memory, and waits until nobody holds a lease on any part of it.
/// [`Timeout::Group`] is `$SYMM_TIMEOUT_MS`, else 60 seconds. To have a whole [`Shared`](super::Shared) block back, use its own
/// [`withdraw`](super::Shared::withdraw).
///
/// # Errors
/// `Timeout` (names a holder; the tokens have ended all the same), `PeerFailed` (a holder is gone, but may still write),
/// `InvalidArgument`.
pub fn withdraw<T: Element>(piece: &Span<'_, T>, timeout: impl Into<Timeout>) -> Result<()> {
    withdraw_bytes(piece.as_ptr(), piece.len(), timeout.into())
}

/// Who holds leases on any part of a piece of memory, without ending its tokens. Never waits; looks at all leases.
///
/// # Errors
/// `InvalidArgument` for memory of which this process makes no tokens.
pub fn holders<T: Element>(piece: &Span<'_, T>) -> Result<Holders> {
    let (at, size) = (piece.as_ptr().cast_const().cast(), size_of::<T>() * piece.len());
    // SAFETY: the address is only looked up; a struct of symm.h, and the function that fills it.
    unsafe { filled(|api, out| api.symm_ipc_holders(at, size, out)) }
}

pub(super) fn withdraw_bytes<T>(at: *mut T, len: usize, timeout: Timeout) -> Result<()> {
    let size = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::argument("the piece is too large"))?;
    // SAFETY: the address is only looked up.
    call(|api| unsafe { api.symm_ipc_withdraw(at.cast_const().cast(), size, timeout.as_millis()) })
}
