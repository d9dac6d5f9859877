//! Messages that progress together.

use crate::Group;
use crate::buffer::bytes;
use crate::convert::index;
use crate::error::{Result, acting};
use crate::operand::{Source, Target};
use std::marker::PhantomData;
use symm_sys::{self as sys, symm_message_t};

/// Messages that one rank sends and receives in one call, by [`pass`](Self::pass), in whatever
/// order they are listed.
///
/// So ranks in a ring, or all with all, never wait for each other in a circle. Messages between two
/// ranks on one channel keep their order. The operands are borrowed until the call is over. A list
/// that is dropped passes nothing.
///
/// ```
/// # fn main() -> symm::Result<()> {
/// # let group = symm::GroupConfig::new().ranks(0, 1).bootstrap("thread://messages").create()?;
/// let (next, last) = (0, 0);
/// let mut came = [0_i32; 4];
/// let mut messages = group.messages();
/// messages.send(next, &[1, 2, 3], 0)?;
/// messages.recv(last, &mut came, 0)?;
/// assert_eq!(messages.pass()?, [12, 12]);
/// assert_eq!(came, [1, 2, 3, 0]);
/// # Ok(())
/// # }
/// ```
#[must_use = "messages are passed by pass()"]
pub struct Messages<'a> {
    group: Group,
    sides: Vec<symm_message_t>,
    operands: PhantomData<&'a mut ()>,
}

impl Group {
    /// Begins a list of messages, with the deadline and the stream of this handle.
    pub fn messages<'a>(&self) -> Messages<'a> {
        Messages {
            group: self.clone(),
            sides: Vec::new(),
            operands: PhantomData,
        }
    }
}

impl<'a> Messages<'a> {
    /// Sends the elements of `source` to `rank`, as [`Group::send`].
    pub fn send<S: Source + ?Sized>(
        &mut self,
        rank: usize,
        source: &'a S,
        channel: usize,
    ) -> Result<&mut Self> {
        let from = source
            .operand()
            .on(&self.group.shared, &self.group.stream)?;
        self.sides.push(symm_message_t {
            kind: sys::SYMM_MESSAGE_SEND,
            rank: index(rank),
            channel: index(channel),
            source: from.pointer(),
            bytes: bytes::<S::Element>(from.len())?,
            ..Default::default()
        });
        Ok(self)
    }

    /// Receives the next message from `rank` into `target`, as [`Group::recv`].
    pub fn recv<D: Target + ?Sized>(
        &mut self,
        rank: usize,
        target: &'a mut D,
        channel: usize,
    ) -> Result<&mut Self> {
        let to = target
            .operand_mut()
            .on(&self.group.shared, &self.group.stream)?;
        self.sides.push(symm_message_t {
            kind: sys::SYMM_MESSAGE_RECV,
            rank: index(rank),
            channel: index(channel),
            destination: to.pointer(),
            bytes: bytes::<D::Element>(to.len())?,
            ..Default::default()
        });
        Ok(self)
    }

    /// The number of messages so far.
    pub fn len(&self) -> usize {
        self.sides.len()
    }

    /// Whether there is no message yet.
    pub fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    /// Sends and receives all of them, and returns the number of bytes of each, in their order.
    /// Errors: as [`Group::send`] and [`Group::recv`]; the text begins with the place of the
    /// message, from `messages[0]` on.
    pub fn pass(self) -> Result<Vec<usize>> {
        let group = self.group.as_raw();
        let stream = self.group.stream.as_raw();
        let mut lengths = vec![0; self.sides.len()];
        // SAFETY: the handle is alive, the operands are borrowed and have as many bytes as the
        // messages say, and there is a length for each of these.
        acting(self.group.timeout.options(), |api, o| unsafe {
            api.symm_messages(
                group,
                self.sides.as_ptr(),
                self.sides.len(),
                o,
                lengths.as_mut_ptr(),
                stream,
            )
        })?;
        Ok(lengths)
    }
}
