//! Puts, signals and fences between processes that are in no group.

use super::{Import, Token, address_and_bytes};
use crate::buffer::bytes;
use crate::convert::index;
use crate::error::{Result, acting};
use crate::operand::{Operand, Source, Target};
use crate::stream::no_wait;
use crate::{Compare, Element, Pieces, SignalOp, Span, Timeout};
use std::ffi::c_void;
use std::ptr;

impl<T: Element> Import<T> {
    /// Copies pieces of `source` into the memory, from element `offset` on, in one call, and
    /// signals the owner if the pieces say so, who then sees them. `epoch` is the number of the
    /// request that the put serves; 0 without channels. A local call, in which threads take turns.
    ///
    /// # Errors
    ///
    /// Nothing was written then: `Aborted` if the put comes too late for a [`fence`];
    /// `InvalidArgument` for a piece that reaches beyond `source` or the import, and for a signal
    /// or an epoch if the token has no channels; `PeerFailed` if the owner is gone; `Unsupported`
    /// for memory of a GPU.
    pub fn put_pieces<S: Source<Element = T> + ?Sized>(
        &self,
        offset: usize,
        source: &S,
        pieces: &Pieces<'_, T>,
        epoch: u64,
    ) -> Result<()> {
        let (offset, from, bytes) = self.copied(offset, source.operand())?;
        let (call, stream) = (&pieces.to_c(), self.stream.as_raw());
        on!(
            self.symm_ipc_put_pieces(offset, from, bytes, call, epoch, options, stream),
            options: Timeout::Group.options()
        )
    }

    /// Copies pieces of the memory, from element `offset` on, to `target` in one call, and signals
    /// the owner, if the pieces say so, that it may write them anew. A local call; no fence keeps
    /// it off. All else is as for [`put_pieces`](Self::put_pieces).
    pub fn get_pieces<D: Target<Element = T> + ?Sized>(
        &self,
        offset: usize,
        target: &mut D,
        pieces: &Pieces<'_, T>,
    ) -> Result<()> {
        let (offset, to, bytes) = self.copied(offset, target.operand_mut())?;
        let (call, stream) = (&pieces.to_c(), self.stream.as_raw());
        on!(
            self.symm_ipc_get_pieces(offset, to, bytes, call, options, stream),
            options: no_wait()
        )
    }

    /// Adds a value to a word of the token, or sets the word to it. The owner, once it has
    /// [waited](wait_value) for the value, sees what this process wrote before. A local call that
    /// never waits. Errors: `InvalidArgument` for a channel that the token does not have,
    /// `PeerFailed` if the owner is gone.
    pub fn signal_value(&self, channel: usize, op: SignalOp, value: u64) -> Result<()> {
        let (channel, op, stream) = (index(channel), op.as_raw(), self.stream.as_raw());
        on!(
            self.symm_ipc_signal_value(channel, op, value, options, stream),
            options: no_wait()
        )
    }

    /// The offset in bytes, the operand's address, and the bytes to copy.
    fn copied(&self, offset: usize, operand: Operand<T>) -> Result<(usize, *mut c_void, usize)> {
        let operand = operand.reached_by(self.backend, &self.stream)?;
        Ok((
            bytes::<T>(offset)?,
            operand.pointer(),
            bytes::<T>(operand.len())?,
        ))
    }
}

/// Waits until a word of a token of this process compares with `value` as `compare` says, and
/// returns the word, which stays as it is. [`Timeout::Group`] is `$SYMM_TIMEOUT_MS`, else 60
/// seconds. Give each writer a token of its own, so that an error names the one that was awaited.
///
/// # Errors
///
/// * `Timeout`: the word did not compare so; names who has imported the token.
/// * `PeerFailed`: a process that had imported the token died, and none is left that has.
/// * `InvalidHandle`: the memory was released or withdrawn, also during the wait.
/// * `InvalidArgument`: no token of this process with such a channel.
pub fn wait_value(
    token: &Token,
    channel: usize,
    compare: Compare,
    value: u64,
    timeout: impl Into<Timeout>,
) -> Result<u64> {
    let bytes = token.as_bytes();
    let mut seen = 0;
    // SAFETY: the token has `bytes.len()` bytes, and `seen` is a place for a word.
    acting(timeout.into().options(), |api, options| unsafe {
        api.symm_ipc_wait_value(
            bytes.as_ptr().cast(),
            bytes.len(),
            index(channel),
            compare.as_raw(),
            value,
            options,
            &mut seen,
            ptr::null_mut(),
        )
    })?;
    Ok(seen)
}

/// Keeps late puts off a piece of memory: from the end of the call on, no put of an epoch below
/// `epoch` stores there, and no signal of such a put comes. The piece is made of whole parts
/// ([`fence_bytes`](super::ExportOptions::fence_bytes)) of the tokens with channels that name some
/// of it. Waits for the puts that are under way. Errors: `Timeout` (names the process of a put that
/// is not over; the fence stands all the same), `PeerFailed` (a process is gone in the middle of a
/// put, and its death cannot be confirmed), `InvalidArgument`.
pub fn fence<T: Element>(
    piece: &Span<'_, T>,
    epoch: u64,
    timeout: impl Into<Timeout>,
) -> Result<()> {
    let (at, bytes) = address_and_bytes(piece);
    // SAFETY: the address is only looked up.
    acting(timeout.into().options(), |api, options| unsafe {
        api.symm_ipc_fence(at, bytes, epoch, options, ptr::null_mut())
    })
}
