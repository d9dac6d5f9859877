//! Heaps: one symmetric memory that is handed out in pieces.

use crate::buffer::{AllocConfig, bytes, on_host};
use crate::convert::{Handle, to_c};
use crate::error::{Result, acting, looked_up};
use crate::stream::no_wait;
use crate::{Backend, Element, Error, Group, Memory, Source, Status, Target, Timeout, View};
use std::ffi::CString;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use symm_sys::{symm_heap, symm_heap_options_t};

known! {
    /// Information about a heap.
    pub struct HeapInfo of symm_heap_info_t {
        pub bytes: u64 = "Bytes of each rank's block.";
        pub used_bytes: u64 = "Bytes in pieces, each of which is a multiple of 256.";
        pub peak_bytes: u64 = "The most bytes that were ever used at once.";
        pub free_bytes: u64 = "Bytes that are not in pieces.";
        pub largest_free_bytes: u64 =
            "Bytes of the largest free piece: more cannot be had at once.";
        pub pieces: u64 = "Pieces in use.";
        pub free_pieces: u64 = "Pieces that the free bytes lie in.";
        pub calls: u64 = "Pieces taken and given back so far.";
        pub fragmentation_permille: u64 =
            "How many of 1000 free bytes are not in the largest free piece.";
        pub name: String = "The name of its configuration.";
    }
}

/// Symmetric memory that is handed out in pieces without communication: made by [`Group::heap`].
///
/// Ranks that make equal calls in one order get equal offsets. A [`Piece`] is given back when it
/// is dropped, so drop pieces in one order on all ranks. Threads of a rank must take turns in an
/// order that all ranks share. If the group [checks](crate::GroupConfig::check), ranks whose
/// calls differed get `Mismatch` in the next collective.
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
    /// A heap of `bytes` on every rank, rounded up to a multiple of 256. All ranks call it, with
    /// equal numbers, and all succeed or all fail. Errors: those of [`Group::alloc`] and
    /// [`Group::rendezvous`] on any rank.
    pub fn heap(&self, bytes: usize) -> Result<Heap> {
        self.heap_with(bytes, &AllocConfig::new(), Timeout::default())
    }

    /// As [`heap`](Self::heap), with memory as `config` says and a deadline of its own; the default
    /// deadline is that of creating the group. Errors: as [`heap`](Self::heap), and
    /// `InvalidArgument` for an alignment that is not a power of two, or an unknown NUMA node.
    pub fn heap_with(
        &self,
        bytes: usize,
        config: &AllocConfig,
        timeout: impl Into<Timeout>,
    ) -> Result<Heap> {
        let name: CString = to_c("name", &config.name)?;
        let given = symm_heap_options_t {
            flags: config.flags(),
            numa_node: config.numa_node(),
            alignment: config.alignment as u64,
            page_bytes: config.page_bytes as u64,
            name: name.as_ptr(),
            timeout_ms: timeout.into().as_millis(),
            ..Default::default()
        };

        let handle: Handle<symm_heap> = on!(
            self.symm_heap_create(bytes, options) => Handle,
            options: given
        )?;
        Heap::adopt(handle, self)
    }

    /// Moves a heap of another group to this one, with all its pieces, as
    /// [`move_memory`](Self::move_memory) does with a memory. Pieces stay at their offsets, also on
    /// newcomers, which bring `None`, and are taken from the new heap from then on. Errors: as
    /// there, and `Mismatch` (ranks have made different calls of the heap).
    pub fn move_heap(&self, heap: Option<&Heap>, timeout: impl Into<Timeout>) -> Result<Heap> {
        let from = heap.map_or(ptr::null_mut(), Heap::as_raw);
        let mut out = ptr::null_mut();
        // SAFETY: the handles are alive, or null for no heap.
        acting(timeout.into().options(), |api, options| unsafe {
            api.symm_heap_move(from, self.as_raw(), options, &mut out)
        })?;
        // SAFETY: a successful call gives one reference.
        Heap::adopt(unsafe { Handle::new(out) }?, self)
    }
}

impl Heap {
    fn adopt(handle: Handle<symm_heap>, group: &Group) -> Result<Self> {
        let memory = Memory::adopt(on!(handle.symm_heap_memory() => Handle)?, group)?;
        Ok(Self {
            inner: Arc::new(Inner { handle, memory }),
        })
    }

    /// Takes a piece of `len` elements of this rank's block, which hold whatever was there before.
    /// A local call. Errors: `OutOfMemory`, which names the bytes that were asked for, the free
    /// bytes and the largest free piece; `InvalidArgument` for no elements.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Piece<T>> {
        self.alloc_aligned(len, 0)
    }

    /// As [`alloc`](Self::alloc), at a multiple of `alignment` bytes: a power of two that is at
    /// most the alignment of the heap. Every piece is aligned to 256 bytes at least; 0 asks for
    /// no more. Errors: as [`alloc`](Self::alloc), and `InvalidArgument` for another alignment.
    pub fn alloc_aligned<T: Element>(&self, len: usize, alignment: usize) -> Result<Piece<T>> {
        let bytes = bytes::<T>(len)?;
        let mut pointer = ptr::null_mut();
        let mut offset = 0;
        on!(
            self.symm_heap_alloc(bytes, alignment, options, &mut pointer, &mut offset),
            options: no_wait()
        )?;

        let pointer = NonNull::new(pointer.cast())
            .ok_or_else(|| Error::from_parts(Status::Internal, "the piece is at NULL"))?;
        Ok(Piece {
            heap: self.clone(),
            pointer,
            len,
            offset,
        })
    }

    /// Offset and length in bytes of the piece that contains an address of this rank's block, if
    /// there is one.
    pub fn find<T>(&self, address: *const T) -> Result<Option<(usize, usize)>> {
        let mut pointer = ptr::null_mut();
        let mut bytes = 0;
        let found = on!(
            self.symm_heap_find(address.cast(), options, &mut pointer, &mut bytes),
            options: no_wait()
        );
        let start = self.inner.memory.own() as usize;
        Ok(looked_up(found)?.then(|| (pointer as usize - start, bytes)))
    }

    /// The memory that the pieces lie in.
    #[must_use]
    pub fn memory<T: Element>(&self) -> Memory<T> {
        self.inner.memory.cast()
    }

    /// The group of the heap.
    pub fn group(&self) -> Group {
        self.inner.memory.group()
    }

    /// Describes the heap.
    pub fn info(&self) -> Result<HeapInfo> {
        on!(self.symm_heap_info() => HeapInfo)
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value, or a piece of the heap,
    /// lives.
    pub fn as_raw(&self) -> *mut symm_heap {
        self.inner.handle.as_raw()
    }
}

/// A piece of a [`Heap`], given back when it is dropped. Drop pieces on all ranks in one order,
/// and only when no rank uses the piece any more, which a barrier ensures. On a device, work that
/// uses the piece must be ordered before work that uses the next piece at its place, as it is on
/// one stream.
///
/// The rules about who may touch the elements are those of [`Memory`]. A piece keeps its heap
/// alive.
pub struct Piece<T: Element> {
    heap: Heap,
    pointer: NonNull<T>,
    len: usize,
    offset: usize,
}

// SAFETY: a piece is an address; only Span, View and local() access the memory behind it.
unsafe impl<T: Element> Send for Piece<T> {}
// SAFETY: a shared reference gives no access to the memory but through Span, View and local().
unsafe impl<T: Element> Sync for Piece<T> {}

impl<T: Element> Piece<T> {
    /// The element of the block at which the piece begins; equal on all ranks.
    pub fn offset(&self) -> usize {
        self.offset / size_of::<T>()
    }

    /// The memory that the piece lies in: for signals, and for puts and gets at the piece's
    /// [`offset`](Self::offset).
    #[must_use]
    pub fn memory(&self) -> Memory<T> {
        self.heap.memory()
    }

    /// The elements at the piece's offset in the block of `rank`, which may be this rank.
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

    /// Copies `source` to the piece's offset in the block of `rank`, as [`Memory::put`] does.
    pub fn put<S: Source<Element = T> + ?Sized>(&self, rank: usize, source: &S) -> Result<()> {
        self.require_room(source.operand().len())?;
        self.memory().put(rank, self.offset(), source)
    }

    /// Fills `target` from the piece's offset in the block of `rank`, as [`Memory::get`] does.
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
    "A part of the piece, as an operand or to be exported.",
    "The contract of [`Memory::local`], for this piece. The elements hold what was there before,
until somebody writes.",
    "The contract of [`Memory::local_mut`], for this piece."
);

impl<T: Element> Drop for Piece<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and the piece belongs to this value. The call cannot fail,
        // because the piece is in use.
        let _ = acting(no_wait(), |api, options| unsafe {
            api.symm_heap_free(self.heap.as_raw(), self.pointer.as_ptr().cast(), options)
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
