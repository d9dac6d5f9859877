//! One memory, handed out in pieces.

use crate::buffer::{AllocConfig, bytes, on_host};
use crate::convert::{Handle, to_c};
use crate::error::{Result, call, looked_up};
use crate::{Backend, Element, Error, Group, Memory, Source, Status, Target, Timeout, View};
use std::ffi::CString;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use symm_sys::symm_heap;

known! {
    /// What is known of a heap.
    pub struct HeapInfo of symm_heap_info_t {
        pub bytes: u64 = "Of each rank's block.";
        pub used_bytes: u64 = "In pieces, each a multiple of 256.";
        pub peak_bytes: u64 = "The most that were ever used at once.";
        pub free_bytes: u64 = "The rest.";
        pub largest_free: u64 = "Bytes of the largest free piece: more cannot be had at once.";
        pub pieces: u64 = "In use.";
        pub free_pieces: u64 = "That the free bytes lie in.";
        pub calls: u64 = "Pieces taken and given back so far.";
        pub fragmentation: u64 = "Per mille of the free bytes that are not in the largest free piece.";
        pub name: String = "Of its configuration.";
    }
}

/// Symmetric memory that is handed out in pieces without
/// a word to the other ranks: made by [`Group::heap`].
///
/// Ranks that make the same calls in the same order get the same offsets,
/// and a [`Piece`] goes back where it is dropped; so drop them in the same
/// order on all ranks. Threads of a rank must take turns in an order that
/// all ranks share. Where a group [checks](crate::GroupConfig::check),
/// ranks that went apart get `Mismatch` in the next collective.
///
/// A clone is another handle to the same heap.
#[derive(Clone)]
pub struct Heap {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Handle<symm_heap>,
    memory: Memory<u8>,
}

impl Group {
    /// A heap of `bytes` on every rank, rounded up to a multiple of 256. All ranks call
    /// it, with the same number, and all succeed or all fail. Errors: those of
    /// [`Group::alloc`] and [`Group::rendezvous`], on whichever rank.
    pub fn heap(&self, bytes: usize) -> Result<Heap> {
        self.heap_with(bytes, &AllocConfig::new(), Timeout::default())
    }

    /// As [`heap`](Self::heap), of another kind, with a deadline that is otherwise that
    /// of creating the group. Errors: as [`heap`](Self::heap), and `InvalidArgument`
    /// for an alignment or a node that there is not.
    pub fn heap_with(
        &self,
        bytes: usize,
        config: &AllocConfig,
        timeout: impl Into<Timeout>,
    ) -> Result<Heap> {
        let name: CString = to_c("name", &config.name)?;
        let options = sized!(symm_heap_options_t: flags = config.flags(), numa_node = config.numa_node(),
            alignment = config.alignment as u64, page_bytes = config.page_bytes as u64, name = name.as_ptr(),
            timeout_ms = timeout.into().as_millis());
        let handle: Handle<symm_heap> = on!(self.symm_heap_create(bytes, &options) => Handle)?;
        let memory = Memory::adopt(on!(handle.symm_heap_memory() => Handle)?, None, self)?;
        Ok(Heap {
            inner: Arc::new(Inner { handle, memory }),
        })
    }
}

impl Heap {
    /// A piece of `len` elements of this rank's block, which hold whatever was there
    /// before. A local call. Errors: `OutOfMemory` says what was asked for, what is
    /// free, and the largest free piece; `InvalidArgument` for no elements.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Piece<T>> {
        self.alloc_aligned(len, 0)
    }

    /// As [`alloc`](Self::alloc), at a multiple of `alignment` bytes: a power of two,
    /// at most that of the heap; 0 is 256, and less is not had. Errors: as
    /// [`alloc`](Self::alloc), and `InvalidArgument` for an alignment.
    pub fn alloc_aligned<T: Element>(&self, len: usize, alignment: usize) -> Result<Piece<T>> {
        let size = bytes::<T>(len)?;
        let (mut pointer, mut offset) = (ptr::null_mut(), 0);
        on!(self.symm_heap_alloc(size, alignment, &mut pointer, &mut offset))?;
        let pointer = NonNull::new(pointer.cast())
            .ok_or_else(|| Error::from_parts(Status::Internal, "the piece is at NULL"))?;
        Ok(Piece {
            heap: self.clone(),
            pointer,
            len,
            offset,
        })
    }

    /// Offset and length in bytes of the piece that contains
    /// an address of this rank's block, if there is one.
    pub fn find<T>(&self, address: *const T) -> Result<Option<(usize, usize)>> {
        let (mut pointer, mut size) = (ptr::null_mut(), 0);
        let found = looked_up(on!(self.symm_heap_find(
            address.cast(),
            &mut pointer,
            &mut size
        )))?;
        Ok(found.then(|| (pointer as usize - self.inner.memory.own() as usize, size)))
    }

    /// What the pieces lie in.
    #[must_use]
    pub fn memory<T: Element>(&self) -> Memory<T> {
        self.inner.memory.cast()
    }

    /// Describes it.
    pub fn info(&self) -> Result<HeapInfo> {
        on!(self.symm_heap_info() => HeapInfo)
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value, or a piece, lives.
    pub fn as_raw(&self) -> *mut symm_heap {
        self.inner.handle.as_raw()
    }
}

/// A piece of a [`Heap`], which goes back when it is dropped: on all ranks in the same
/// order, and when no rank uses it any more (a barrier says so). On a device, what was
/// issued with it must be ahead of what uses the next piece, as it is on one stream.
///
/// Who may touch what is as in [`Memory`]. It keeps the heap alive.
pub struct Piece<T: Element> {
    heap: Heap,
    pointer: NonNull<T>,
    len: usize,
    offset: usize,
}

// SAFETY: a piece is an address; what is done with it is decided by Span, View and local().
unsafe impl<T: Element> Send for Piece<T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Piece<T> {}

impl<T: Element> Piece<T> {
    /// Where it begins in the block, in elements: the same on all ranks.
    pub fn offset(&self) -> usize {
        self.offset / size_of::<T>()
    }

    /// What it lies in: signals, and puts and gets at its [`offset`](Self::offset).
    #[must_use]
    pub fn memory(&self) -> Memory<T> {
        self.heap.memory()
    }

    /// The piece at the same place of a rank's block, this one's or another's.
    pub fn view(&self, rank: usize) -> Result<View<'_, T>> {
        let memory = &self.heap.inner.memory;
        on_host(memory.backend())?;
        // SAFETY: the block is mapped while the heap lives,
        // and the piece lies within, at a multiple of 256.
        Ok(unsafe {
            View::new(
                memory.pointer(rank)?.wrapping_add(self.offset).cast(),
                self.len,
            )
        })
    }

    /// Copies `source` to where the piece begins in a rank's block, as [`Memory::put`].
    pub fn put<S: Source<Element = T> + ?Sized>(&self, rank: usize, source: &S) -> Result<()> {
        self.require_room(source.operand().len())?;
        self.memory().put(rank, self.offset(), source)
    }

    /// Fills `target` from where the piece begins in a rank's block, as [`Memory::get`].
    pub fn get<D: Target<Element = T> + ?Sized>(&self, rank: usize, target: &mut D) -> Result<()> {
        self.require_room(target.operand_mut().len())?;
        self.memory().get(rank, self.offset(), target)
    }

    fn require_room(&self, len: usize) -> Result<()> {
        if len <= self.len {
            return Ok(());
        }
        Err(Error::argument(format!(
            "{len} elements are more than the {} of the piece",
            self.len
        )))
    }

    fn parts(&self) -> (*mut T, usize, Backend) {
        (
            self.pointer.as_ptr(),
            self.len,
            self.heap.inner.memory.backend(),
        )
    }
}

slices!(
    Piece,
    "A part of it, as an operand or to be exported.",
    "As [`Memory::local`], of this piece; and the elements hold what was there before, until somebody writes.",
    "As [`Memory::local_mut`], of this piece."
);

impl<T: Element> Drop for Piece<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and the piece is this
        // value's own. It cannot fail: the piece is in use.
        let _ = call(|api| unsafe {
            api.symm_heap_free(self.heap.as_raw(), self.pointer.as_ptr().cast())
        });
    }
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Heap({} bytes on each of {} ranks)",
            self.inner.memory.len(),
            self.inner.memory.size()
        )
    }
}

described!(Piece);
