//! Operands: the memory that calls read and write.

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

/// Address, length and place of an operand, given by a [`Source`] or [`Target`].
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

    /// This operand, valid for work on one `CUstream` only: a call on another stream is refused.
    #[must_use]
    pub const fn only_on(self, stream: *mut c_void) -> Self {
        Self {
            stream: Some(stream),
            ..self
        }
    }

    /// Refuses an operand that the group cannot reach. The library could not do that: to it a host
    /// address looks like a device address that is wrong.
    #[inline]
    pub(crate) fn on(self, group: &Shared, stream: &Stream) -> Result<Self> {
        self.reached_by(group.backend, stream)
    }

    /// As [`on`](Self::on), for calls on imports, which are in no group.
    #[inline]
    pub(crate) fn reached_by(self, backend: Backend, stream: &Stream) -> Result<Self> {
        if self.place != Place::of(backend) {
            return Err(misplaced(self.place, backend));
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

/// A value that a call can read: slices, arrays, vectors, [`Buffer`]s, [`Span`]s, [`Raw`]
/// pointers; with feature `cudarc` also device slices.
///
/// # Safety
/// The operand is valid for reads of its length until the value is dropped, and on a device until
/// the work of calls that were made while the value lived has ended.
pub unsafe trait Source {
    /// The type of its elements.
    type Element: Element;
    /// Its address, length and place.
    fn operand(&self) -> Operand<Self::Element>;
}

/// A value that a call can write: the exclusive form of a [`Source`].
///
/// # Safety
/// The contract of [`Source`], for writes too.
pub unsafe trait Target: Source {
    /// Its address, length and place.
    fn operand_mut(&mut self) -> Operand<Self::Element>;
}

/// A [`Target`] with the element type of `S`.
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

// SAFETY: a mutable slice is valid for reads and writes of its length while it is borrowed, and
// host calls are done when they return.
unsafe impl<T: Element> Target for [T] {
    #[inline]
    fn operand_mut(&mut self) -> Operand<T> {
        Operand::new(self.as_mut_ptr(), self.len(), Place::Host)
    }
}

macro_rules! like_a_slice {
    ([$($parameters:tt)*] $type:ty) => {
        // SAFETY: the value owns the slice, which is valid as long as the value.
        unsafe impl<T: Element, $($parameters)*> Source for $type {
            type Element = T;
            #[inline]
            fn operand(&self) -> Operand<T> {
                self[..].operand()
            }
        }

        // SAFETY: the value owns the slice, and the borrow is exclusive.
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

// The operand is valid because a buffer owns its block; on a device, the library frees the block
// only when the work that it issued has ended.
operand!(Buffer<T>, |buffer| Operand::new(
    buffer.as_ptr(),
    buffer.len(),
    Place::of(buffer.group.backend)
));

/// An operand given by its address: device memory of another library, or host memory that no slice
/// describes.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a, T: Element> {
    operand: Operand<T>,
    _owner: PhantomData<&'a ()>,
}

impl<'a, T: Element> Raw<'a, T> {
    /// `len` elements at `pointer`.
    ///
    /// # Safety
    /// During `'a` the memory is valid for the accesses of the calls that it is passed to: reads of
    /// a source, reads and writes of a target. Nobody borrows memory that is written. On a device,
    /// `'a` ends after the work of these calls has ended.
    pub const unsafe fn new(pointer: *mut T, len: usize, place: Place) -> Self {
        Self {
            operand: Operand::new(pointer, len, place),
            _owner: PhantomData,
        }
    }

    /// No elements, at NULL, for a rank that has nothing to send or receive.
    pub const fn empty(place: Place) -> Self {
        Self {
            operand: Operand::new(ptr::null_mut(), 0, place),
            _owner: PhantomData,
        }
    }
}

// The operand is valid because the caller of Raw::new() promised it.
operand!(Raw<'_, T>, |raw| raw.operand);

/// Elements of this rank's own block ([`Memory::span`](crate::Memory::span)), or of memory that is
/// shared by a token ([`Shared::span`](crate::ipc::Shared::span),
/// [`Import::span`](crate::ipc::Import::span)), to be passed to collectives, `put` and `get`, or to
/// be [exported](Self::export). Collectives use spans of a memory of their group without a copy.
///
/// A span is an address and a length, not a borrow of the elements, so spans may overlap. A
/// collective whose operands overlap fails, unless it is the in-place form.
#[derive(Clone, Copy)]
pub struct Span<'a, T: Element> {
    pointer: *mut T,
    len: usize,
    place: Place,
    _block: PhantomData<&'a ()>,
}

// SAFETY: nothing is read or written through a span here; it is an address for the library, whose
// calls may be made from any thread.
unsafe impl<T: Element> Send for Span<'_, T> {}
// SAFETY: a shared reference gives the address only, which any thread may pass to the library.
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
        Ok(Self {
            pointer: pointer.wrapping_add(start),
            len: end - start,
            place: Place::of(backend),
            _block: PhantomData,
        })
    }

    /// Address of the first element.
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }
}

// The operand is valid because the elements lie in a block that lives as long as the span's borrow
// of the memory, and nobody borrows the contents of that block in safe code.
operand!(Span<'_, T>, |span| Operand::new(
    span.pointer,
    span.len,
    span.place
));

elements_at!(Span<'_>);
