//! What calls read and write.

use crate::error::{Error, Result};
use crate::group::Shared;
use crate::{Backend, Buffer, Element, Status, Stream};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::ptr;

/// Where an operand lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In memory of the host, where host groups work.
    Host,
    /// In memory of a CUDA device, where CUDA groups work.
    Device,
}

impl Place {
    pub(crate) fn of(backend: Backend) -> Self {
        if backend == Backend::Cuda {
            Self::Device
        } else {
            Self::Host
        }
    }
}

/// Address, length and place of an operand: what a [`Source`] or [`Target`] says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Operand<T> {
    pointer: *mut T,
    len: usize,
    place: Place,
    stream: Option<*mut c_void>,
}

impl<T: Element> Operand<T> {
    /// An operand of `len` elements at `pointer`.
    pub const fn new(pointer: *mut T, len: usize, place: Place) -> Self {
        Self {
            pointer,
            len,
            place,
            stream: None,
        }
    }

    /// The same, valid for work on this `CUstream` only: a call on another stream is refused.
    #[must_use]
    pub const fn only_on(self, stream: *mut c_void) -> Self {
        Self {
            stream: Some(stream),
            ..self
        }
    }

    /// Refuses what the group cannot reach. The library could not tell a host address
    /// from a device address that is wrong.
    #[inline]
    pub(crate) fn on(self, group: &Shared, stream: &Stream) -> Result<Self> {
        if self.place != Place::of(group.backend) {
            return Err(misplaced(self.place, group.backend));
        }
        match self.stream {
            Some(own) if own != stream.as_raw() => Err(Error::argument(
                "the operand belongs to another stream than the call",
            )),
            _ => Ok(self),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer.cast()
    }

    /// The part that begins at element `at`.
    #[inline]
    pub(crate) fn from(self, at: usize) -> Self {
        Self {
            pointer: self.pointer.wrapping_add(at),
            len: self.len.saturating_sub(at),
            ..self
        }
    }
}

#[cold]
fn misplaced(place: Place, backend: Backend) -> Error {
    Error::from_parts(
        Status::InvalidArgument,
        format!("an operand in {place:?} memory cannot be used by a {backend:?} group"),
    )
}

/// What a call can read: slices, arrays, vectors, [`Buffer`]s, [`Span`]s, [`Raw`]
/// pointers; with feature `cudarc` also device slices.
///
/// # Safety The operand is valid for reads of its length until the value is dropped,
/// and on a device until the work of calls that were made while it lived has ended.
pub unsafe trait Source {
    /// What it consists of.
    type Element: Element;
    /// Where it is.
    fn operand(&self) -> Operand<Self::Element>;
}

/// What a call can write: the exclusive form of a [`Source`].
///
/// # Safety
/// As [`Source`], for writes too.
pub unsafe trait Target: Source {
    /// Where it is.
    fn operand_mut(&mut self) -> Operand<Self::Element>;
}

/// A [`Target`] of the same elements as `S`.
pub trait TargetOf<S: Source + ?Sized>: Target<Element = S::Element> {}
impl<S: Source + ?Sized, T: Target<Element = S::Element> + ?Sized> TargetOf<S> for T {}

// SAFETY: a slice is valid for reads of its length while it
// is borrowed, and host calls are done when they return.
unsafe impl<T: Element> Source for [T] {
    type Element = T;
    #[inline]
    fn operand(&self) -> Operand<T> {
        Operand::new(self.as_ptr().cast_mut(), self.len(), Place::Host)
    }
}

// SAFETY: as above, exclusively.
unsafe impl<T: Element> Target for [T] {
    #[inline]
    fn operand_mut(&mut self) -> Operand<T> {
        Operand::new(self.as_mut_ptr(), self.len(), Place::Host)
    }
}

macro_rules! like_a_slice {
    ([$($parameters:tt)*] $type:ty) => {
        // SAFETY: it is a slice with an owner.
        unsafe impl<T: Element, $($parameters)*> Source for $type {
            type Element = T;
            #[inline]
            fn operand(&self) -> Operand<T> {
                self[..].operand()
            }
        }
        // SAFETY: as above.
        unsafe impl<T: Element, $($parameters)*> Target for $type {
            #[inline]
            fn operand_mut(&mut self) -> Operand<T> {
                self[..].operand_mut()
            }
        }
    };
}
like_a_slice!([] Vec<T>);
like_a_slice!([] Box<[T]>);
like_a_slice!([const N: usize] [T; N]);

// A buffer owns its block. On a device, the library gives
// it back only when the work that it issued has ended.
operand!(Buffer<T>, |buffer| Operand::new(
    buffer.as_ptr(),
    buffer.len(),
    Place::of(buffer.group.backend)
));

/// An operand by its address: device memory of another
/// library, or host memory that no slice describes.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a, T: Element> {
    operand: Operand<T>,
    _owner: PhantomData<&'a ()>,
}

impl<'a, T: Element> Raw<'a, T> {
    /// `len` elements at `pointer`.
    ///
    /// # Safety During `'a` the memory is valid for what the calls that it is passed to
    /// do: reads of a source, reads and writes of a target. Nobody borrows from it what
    /// is written. On a device, `'a` ends after the work of these calls has ended.
    pub const unsafe fn new(pointer: *mut T, len: usize, place: Place) -> Self {
        Self {
            operand: Operand::new(pointer, len, place),
            _owner: PhantomData,
        }
    }

    /// No elements, at NULL: what a rank passes that has nothing to send or receive.
    pub const fn empty(place: Place) -> Self {
        Self {
            operand: Operand::new(ptr::null_mut(), 0, place),
            _owner: PhantomData,
        }
    }
}

// As promised to Raw::new().
operand!(Raw<'_, T>, |raw| raw.operand);

/// Elements of this rank's own block ([`Memory::span`](crate::Memory::span)), or of
/// memory that is shared by a token ([`Shared::span`](crate::ipc::Shared::span),
/// [`Import::span`](crate::ipc::Import::span)), to be passed to collectives, `put`
/// and `get`, or to be [exported](Self::export). Collectives use spans of a memory
/// of their group without a copy.
///
/// It is an address and a length, not a borrow of the elements, so spans may overlap.
/// What a collective does with operands that overlap is said by the collective: an
/// error, unless it is the in-place form.
#[derive(Clone, Copy)]
pub struct Span<'a, T: Element> {
    pointer: *mut T,
    len: usize,
    place: Place,
    _block: PhantomData<&'a ()>,
}

// SAFETY: nothing is read or written through a span here; it is an address for the
// library, whose calls may be made from any thread.
unsafe impl<T: Element> Send for Span<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Span<'_, T> {}

impl<T: Element> Span<'_, T> {
    /// The part `range` of a block, which lives as long as the span.
    pub(crate) fn within(
        pointer: *mut T,
        len: usize,
        backend: Backend,
        range: impl RangeBounds<usize>,
    ) -> Result<Self> {
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
            return Err(Error::argument(format!(
                "range {start}..{end} is not within the block of {len} elements"
            )));
        }
        let place = Place::of(backend);
        Ok(Self {
            pointer: pointer.wrapping_add(start),
            len: end - start,
            place,
            _block: PhantomData,
        })
    }

    /// Address of the first element.
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }
}

// The elements lie in a block that lives as long as the span's borrow of the memory,
// and whose contents nobody borrows in safe code.
operand!(Span<'_, T>, |span| Operand::new(
    span.pointer,
    span.len,
    span.place
));

elements_at!(Span<'_>);
