//! Heaps as allocators of containers.

use crate::buffer::on_host;
use crate::error::acting;
use crate::stream::no_wait;
use crate::{Heap, Result};
use allocator_api2::alloc::{AllocError, Allocator, Layout};
use std::ptr::{self, NonNull};

/// A [`Heap`] as the allocator of the containers of `allocator-api2` and of those that take its
/// trait (hashbrown, bumpalo): made by [`Heap::allocator`]. The contents of such a container are a
/// piece of the heap, so slices of them are symmetric operands, and [`Heap::find`] gives their
/// offset.
///
/// ```
/// use allocator_api2::vec::Vec;
/// let group = symm::Group::from_env()?;
/// let heap = group.heap(1 << 20)?;
/// // SAFETY: ranks put into nothing of this heap.
/// let mut losses = Vec::new_in(unsafe { heap.allocator() }?);
/// losses.extend([1.0_f32, 2.0]);
/// group.allreduce_in_place(&mut losses[..], symm::Op::Sum)?;
/// # Ok::<(), symm::Error>(())
/// ```
///
/// A container that grows takes a new piece before it gives the old one back. An [`AllocError`] has
/// no text; [`Heap::info`] gives the bytes that are free.
#[derive(Clone, Debug)]
pub struct HeapAllocator(Heap);

impl Heap {
    /// This heap as an allocator for containers of the host. Offsets are equal on all ranks as long
    /// as all ranks grow and drop their containers in one order.
    ///
    /// # Safety
    /// Containers lend plain references to their contents. So no rank may write to the piece of a
    /// container while its contents are borrowed, nor write anything that is not a value of the
    /// element type; and no rank may read the piece while it is written.
    pub unsafe fn allocator(&self) -> Result<HeapAllocator> {
        on_host(self.memory::<u8>().backend())?;
        Ok(HeapAllocator(self.clone()))
    }
}

// SAFETY: a piece is mapped as long as its heap lives, every clone keeps the heap alive, and nobody
// else gets the piece before it is given back.
unsafe impl Allocator for HeapAllocator {
    fn allocate(&self, layout: Layout) -> std::result::Result<NonNull<[u8]>, AllocError> {
        let heap = &self.0;
        let align = layout.align();
        let mut start = ptr::without_provenance_mut(align);
        if layout.size() != 0 {
            let taken = on!(
                heap.symm_heap_alloc(layout.size(), align, options, &mut start, ptr::null_mut()),
                options: no_wait()
            );
            taken.map_err(|_| AllocError)?;
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(start, layout.size()))
    }

    unsafe fn deallocate(&self, piece: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        // SAFETY: the handle is alive, and the caller promises that the piece is of this heap. So
        // the call cannot fail.
        let _ = acting(no_wait(), |api, options| unsafe {
            api.symm_heap_free(self.0.as_raw(), piece.as_ptr().cast(), options)
        });
    }
}
