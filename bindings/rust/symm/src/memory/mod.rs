//! A buffer after rendezvous.

mod data;
mod rendezvous;
mod signal;

pub use rendezvous::Found;
pub use signal::SignalWait;

use crate::buffer::on_host;
use crate::convert::{Feature, FromC, count, index};
use crate::error::Result;
use crate::group::Shared;
use crate::handle::Handle;
use crate::{Element, Stream, View};
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use symm_sys::{self as sys, symm_buffer, symm_memory};

/// Blocks of all ranks, mapped here: made by [`Group::rendezvous`](crate::Group::rendezvous).
///
/// # Who may touch what
///
/// Any rank may write to any block at any time: that is what symmetric memory is for. So there is no safe `&[T]` to a block. There
/// are, from the safest to the fastest:
///
/// * [`put`](Self::put), [`get`](Self::get) and the collectives copy between blocks and memory of your own. They are done by the
///   library, outside of what the compiler reasons about; if ranks race, elements are old, new or mixed, and every
///   bit pattern is a value.
/// * [`view`](Self::view) loads and stores single elements of any rank's block atomically.
/// * [`local`](Self::local) and [`local_mut`](Self::local_mut) borrow this rank's own block as a slice. They are `unsafe`: you
///   promise that no rank writes to it, or touches it at all, during the borrow, which you know if barriers or signals say so.
///
/// What one rank wrote is visible to another after a barrier, or after a signal that was sent after the write.
///
/// # Life
///
/// A memory keeps its group and its own block alive, and the mappings of the others, even after their ranks died. What
/// is borrowed from it cannot outlive it:
///
/// ```compile_fail,E0505
/// # let group = symm::Group::from_env()?;
/// let memory = group.memory::<f32>(1024)?;
/// let view = memory.view(0)?;
/// drop(memory);
/// println!("{}", view.load(0));
/// # Ok::<(), symm::Error>(())
/// ```
///
/// ```compile_fail,E0505
/// # let group = symm::Group::from_env()?;
/// let memory = group.memory::<f32>(1024)?;
/// let mut span = memory.span(0..16)?;
/// drop(memory);
/// group.allreduce_in_place(&mut span, symm::Op::Sum)?;
/// # Ok::<(), symm::Error>(())
/// ```
///
/// A clone is another handle to the same memory.
pub struct Memory<T: Element> {
    pub(crate) inner: Arc<Inner>,
    stream: Stream,
    _type: PhantomData<fn() -> T>,
}

/// What the handles to a memory have in common. The order of the fields is that of their release.
pub(crate) struct Inner {
    handle: Handle<symm_memory>,
    /// To meet on another group. A memory that was found by an address has none.
    buffer: Option<Handle<symm_buffer>>,
    pub(crate) group: Arc<Shared>,
    info: sys::symm_memory_info_t,
    own: *mut c_void,
}

// SAFETY: the handles are Send and Sync; `own` is an address, and what is done with it is decided by Span, View and local().
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl<T: Element> Memory<T> {
    /// The same memory; calls by this handle are ordered on `stream`.
    #[must_use]
    pub fn with_stream(&self, stream: Stream) -> Self {
        Self { inner: self.inner.clone(), stream, _type: PhantomData }
    }

    /// The same memory as elements of another type; a rest of a block that is no whole element is out of reach.
    #[must_use]
    pub fn cast<U: Element>(&self) -> Memory<U> {
        Memory { inner: self.inner.clone(), stream: self.stream.clone(), _type: PhantomData }
    }

    /// Elements of each block.
    pub fn len(&self) -> usize {
        usize::try_from(self.inner.info.bytes).unwrap_or(usize::MAX) / size_of::<T>()
    }

    /// Whether a block has none, which can only be after a [`cast`](Self::cast).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// This rank, in the memory's group.
    pub fn rank(&self) -> usize {
        count(self.inner.info.rank)
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        count(self.inner.info.size)
    }

    /// The same on all ranks, different for every memory.
    pub fn id(&self) -> u64 {
        self.inner.info.id
    }

    /// Signal channels: `0 .. channels`.
    pub fn channels(&self) -> usize {
        count(self.inner.info.channels)
    }

    /// The address at which a rank's block is mapped here, for code of your own. Of device memory in a CUDA group.
    pub fn pointer(&self, rank: usize) -> Result<*mut T> {
        on!(self.symm_memory_pointer(index(rank)) -> ptr::null_mut()).map(|pointer| pointer.cast())
    }

    /// The address by which the multimem instructions of the device reach all ranks' blocks at once.
    ///
    /// # Errors
    /// `Unavailable` if there is none; the message says why.
    pub fn multicast_pointer(&self) -> Result<*mut T> {
        on!(self.symm_memory_multicast_pointer() -> ptr::null_mut()).map(|pointer| pointer.cast())
    }

    /// Whether it has a multicast address, then on all ranks, or why not.
    pub fn multicast(&self) -> Feature {
        FromC::from_c((self.inner.info.multicast, self.inner.info.multicast_reason))
    }

    /// A rank's block, this one's or another's.
    ///
    /// # Errors
    /// `Unsupported` if blocks are in device memory, `InvalidArgument` for a rank out of range.
    pub fn view(&self, rank: usize) -> Result<View<'_, T>> {
        on_host(self.inner.group.backend)?;
        // SAFETY: the block is mapped while the memory lives, and is as long.
        Ok(unsafe { View::new(self.pointer(rank)?, self.len()) })
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value, or another handle to the memory, lives.
    #[inline]
    pub fn as_raw(&self) -> *mut symm_memory {
        self.inner.handle.as_raw()
    }

    pub(crate) fn backend(&self) -> crate::Backend {
        self.inner.group.backend
    }

    fn parts(&self) -> (*mut T, usize, crate::Backend) {
        (self.own(), self.len(), self.backend())
    }

    #[inline]
    pub(crate) fn own(&self) -> *mut T {
        self.inner.own.cast()
    }
}

slices!(
    Memory,
    "A part of this rank's own block, as an operand or to be exported.",
    "During the borrow, nobody writes to this rank's own block: no rank by `put`, `fill`, a [`View`], a pointer or a collective into it, and
this rank not by another handle or a collective. A barrier or signal before the borrow, and one after it, is the usual way to
know. The compiler assumes that what it has read does not change; if it does, anything can happen.",
    "As [`local`](Self::local), and nobody reads the block either."
);

impl<T: Element> Clone for Memory<T> {
    fn clone(&self) -> Self {
        self.cast()
    }
}

impl<T: Element> fmt::Debug for Memory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "Memory<{name}>({} elements, rank {} of {})", self.len(), self.rank(), self.size())
    }
}
