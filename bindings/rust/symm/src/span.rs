//! A part of a block, as an operand.

use crate::collective::{Operand, Place};
use crate::error::{Error, Result};
use crate::{Backend, Element};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// Elements of this rank's own block ([`Memory::span`](crate::Memory::span)), or of memory that is shared by a token
/// ([`Shared::span`](crate::ipc::Shared::span), [`Import::span`](crate::ipc::Import::span)), to be passed to collectives, `put` and
/// `get`, or to be [exported](Self::export). Collectives use spans of a memory of their group without a copy.
///
/// It is an address and a length, not a borrow of the elements, so spans may overlap. What a collective does with
/// operands that overlap is said by the collective: an error, unless it is the in-place form.
#[derive(Clone, Copy)]
pub struct Span<'a, T: Element> {
    pointer: *mut T,
    len: usize,
    place: Place,
    _block: PhantomData<&'a ()>,
}

// SAFETY: nothing is read or written through a span here; it is an address for the library, whose calls may be made from any
// thread.
unsafe impl<T: Element> Send for Span<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Span<'_, T> {}

impl<T: Element> Span<'_, T> {
    /// The part `range` of a block, which lives as long as the span.
    pub(crate) fn within(pointer: *mut T, len: usize, backend: Backend, range: impl RangeBounds<usize>) -> Result<Self> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => len,
        };
        if start > end || end > len {
            return Err(Error::argument(format!("range {start}..{end} is not within the block of {len} elements")));
        }
        let place = Place::of(backend);
        Ok(Self { pointer: pointer.wrapping_add(start), len: end - start, place, _block: PhantomData })
    }

    /// Address of the first element.
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }
}

// The elements lie in a block that lives as long as the span's borrow of the memory, and whose contents nobody borrows in safe code.
operand!(Span<'_, T>, |span| Operand::new(span.pointer, span.len, span.place));

elements_at!(Span<'_>);
