//! Single elements of memory that others write.

use crate::Element;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// A block that others may write, element by element: [`Memory::view`](crate::Memory::view),
/// [`Shared::view`](crate::ipc::Shared::view), [`Import::view`](crate::ipc::Import::view). Every load and store is atomic, because others may do the same at any time: what is read
/// is what somebody wrote, never a mixture. The order in which stores become visible elsewhere is given by barriers and signals, or
/// by [`store_release`](Self::store_release) and [`load_acquire`](Self::load_acquire).
///
/// Two honest words. What the library copies by `put`, `get` or a collective is not atomic as a whole; it moves whole aligned words
/// on the processors that are supported, so an element is old or new here, too. And Rust's memory model says nothing of atomics of
/// different sizes that race on the same bytes, as two views of different [casts](crate::Memory::cast) could: on these processors, each
/// reads and writes its bytes whole.
///
/// An index out of range panics, as a slice does.
pub struct View<'a, T: Element> {
    pointer: *mut T,
    len: usize,
    _block: PhantomData<&'a ()>,
}

// SAFETY: all access is atomic.
unsafe impl<T: Element> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for View<'_, T> {}

impl<T: Element> View<'_, T> {
    /// # Safety
    /// `pointer` is aligned and valid for `len` elements, to be read and written, as long as the view lives.
    pub(crate) unsafe fn new(pointer: *mut T, len: usize) -> Self {
        Self { pointer, len, _block: PhantomData }
    }

    /// One element.
    #[inline]
    pub fn load(&self, at: usize) -> T {
        // SAFETY: at() is within the block, which is mapped while the memory lives, and aligned.
        unsafe { T::load(self.at(at), Ordering::Relaxed) }
    }

    /// Stores one element.
    #[inline]
    pub fn store(&self, at: usize, value: T) {
        // SAFETY: as in load().
        unsafe { T::store(self.at(at), value, Ordering::Relaxed) }
    }

    /// One element; whatever its writer stored before its [`store_release`](Self::store_release) is seen by later loads.
    #[inline]
    pub fn load_acquire(&self, at: usize) -> T {
        // SAFETY: as in load().
        unsafe { T::load(self.at(at), Ordering::Acquire) }
    }

    /// Stores one element, after everything that was stored before.
    #[inline]
    pub fn store_release(&self, at: usize, value: T) {
        // SAFETY: as in load().
        unsafe { T::store(self.at(at), value, Ordering::Release) }
    }

    /// The elements one after the other, each loaded when it is its turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        (0..self.len).map(|at| self.load(at))
    }

    /// A copy of the elements.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }

    /// Stores all of `from`, beginning at element `at`.
    pub fn write(&self, at: usize, from: &[T]) {
        assert!(from.len() <= self.len.saturating_sub(at), "{} elements at {at} in a block of {}", from.len(), self.len);
        for (i, value) in from.iter().enumerate() {
            self.store(at + i, *value);
        }
    }

    #[inline]
    fn at(&self, at: usize) -> *mut T {
        assert!(at < self.len, "element {at} of a block of {}", self.len);
        self.pointer.wrapping_add(at)
    }
}

elements_at!(View<'_>);
