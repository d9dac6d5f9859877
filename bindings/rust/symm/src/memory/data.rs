//! Moving elements between blocks and memory of one's own.

use super::Memory;
use crate::buffer::bytes;
use crate::collective::{Source, Target};
use crate::convert::index;
use crate::element::Word;
use crate::error::{Result, call};
use crate::{Compare, Element, Timeout};

/// Offsets and counts are in elements.
impl<T: Element> Memory<T> {
    /// Copies `source` to element `offset` of a rank's block. Visible to that rank after a signal or barrier. A local call.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank out of range, or beyond the block; what revoked the group.
    pub fn put<S: Source<Element = T> + ?Sized>(&self, rank: usize, offset: usize, source: &S) -> Result<()> {
        let from = source.operand().on(&self.inner.group, &self.stream)?;
        let (offset, size) = (bytes::<T>(offset)?, bytes::<T>(from.len())?);
        let stream = self.stream.as_raw();
        // SAFETY: the handle is alive, and `source` is valid for that many elements.
        call(|api| unsafe { api.symm_put(self.as_raw(), index(rank), offset, from.pointer(), size, stream) })
    }

    /// Copies from element `offset` of a rank's block to `target`, as many elements as it has. A local call.
    pub fn get<D: Target<Element = T> + ?Sized>(&self, rank: usize, offset: usize, target: &mut D) -> Result<()> {
        let to = target.operand_mut().on(&self.inner.group, &self.stream)?;
        let (offset, size) = (bytes::<T>(offset)?, bytes::<T>(to.len())?);
        let stream = self.stream.as_raw();
        // SAFETY: the handle is alive, and `target` is valid for that many elements.
        call(|api| unsafe { api.symm_get(self.as_raw(), index(rank), offset, to.pointer(), size, stream) })
    }

    /// Says that what was issued on this handle's stream so far uses the memory. Needed by nobody: memory is never given back under
    /// a kernel. Without it that is when all that the device had to do at the drop is over; where uses were recorded, when those and
    /// this crate's own calls are, so then all must have been recorded, each behind its last work.
    pub fn record_use(&self) -> Result<()> {
        on!(self.symm_memory_record_use(self.stream.as_raw()))
    }

    /// [`put`](Self::put), then [`signal`](Self::signal), in one call.
    pub fn put_signal<S>(&self, rank: usize, offset: usize, source: &S, channel: usize) -> Result<()>
    where
        S: Source<Element = T> + ?Sized,
    {
        let from = source.operand().on(&self.inner.group, &self.stream)?;
        let (offset, size) = (bytes::<T>(offset)?, bytes::<T>(from.len())?);
        let stream = self.stream.as_raw();
        // SAFETY: the handle is alive, and `source` is valid for that many elements.
        call(|api| unsafe {
            api.symm_put_signal(self.as_raw(), index(rank), offset, from.pointer(), size, index(channel), stream)
        })
    }
}

/// Elements of 32 bits.
impl<T: Word> Memory<T> {
    /// Stores `count` copies of a value from element `offset` of a rank's block on. A local call.
    pub fn fill(&self, rank: usize, offset: usize, value: T, count: usize) -> Result<()> {
        let offset = bytes::<T>(offset)?;
        on!(self.symm_fill32(index(rank), offset, value.bits(), count, self.stream.as_raw()))
    }

    /// Stores one value at element `offset` of a rank's block, after everything that this rank wrote before. A local call.
    pub fn write_value(&self, rank: usize, offset: usize, value: T) -> Result<()> {
        let offset = bytes::<T>(offset)?;
        on!(self.symm_write_value32(index(rank), offset, value.bits(), self.stream.as_raw()))
    }
}

/// Words that one rank writes and another waits for.
impl Memory<u32> {
    /// Waits until element `offset` of this rank's own block compares so with `value`, whoever writes it. What was written before it in
    /// release order is visible after.
    ///
    /// # Errors
    /// `Timeout`: on the host the group stays usable; on a CUDA stream the deadline revokes it. `Aborted`, `InvalidArgument`.
    pub fn wait_value(&self, offset: usize, compare: Compare, value: u32, timeout: impl Into<Timeout>) -> Result<()> {
        let (offset, options) = (bytes::<u32>(offset)?, timeout.into().options());
        let (compare, stream) = (compare.as_raw(), self.stream.as_raw());
        on!(self.symm_wait_value32(offset, compare, value, &options, stream))
    }
}

/// Words that one rank writes and another waits for.
impl Memory<u64> {
    /// Stores one value at element `offset` of a rank's block, after everything that this rank wrote before. A local call.
    pub fn write_value(&self, rank: usize, offset: usize, value: u64) -> Result<()> {
        let (offset, stream) = (bytes::<u64>(offset)?, self.stream.as_raw());
        on!(self.symm_write_value64(index(rank), offset, value, stream))
    }

    /// Waits until element `offset` of this rank's own block compares so with `value`, as [`Memory::<u32>::wait_value`] does.
    pub fn wait_value(&self, offset: usize, compare: Compare, value: u64, timeout: impl Into<Timeout>) -> Result<()> {
        let (offset, options) = (bytes::<u64>(offset)?, timeout.into().options());
        let (compare, stream) = (compare.as_raw(), self.stream.as_raw());
        on!(self.symm_wait_value64(offset, compare, value, &options, stream))
    }
}
