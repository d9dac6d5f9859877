//! Collectives whose result takes the place of their input.

use super::Target;
use crate::error::Result;
use crate::{Collective, Group, Op};

/// # Collectives in place
///
/// As [the others](Group#collectives), on one operand.
impl Group {
    /// `data[i] = op over all ranks of data[i]`, on every rank.
    #[inline]
    pub fn allreduce_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        // SAFETY: the operand has `data.len()` elements.
        unsafe { self.run(Collective::Allreduce, data, data, data.len(), op, 0) }
    }

    /// Reduces `data`, of which this rank receives its part: `data[rank * n + i]`, where `data` has `size * n` elements. The rest of
    /// `data` is undefined afterwards.
    pub fn reduce_scatter_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let count = self.part(data.len())?;
        // SAFETY: the operand has `size * count` elements.
        unsafe { self.run(Collective::ReduceScatter, data, data.from(self.rank() * count), count, op, 0) }
    }

    /// Gathers everybody's part into `data`, which has `size * n` elements. This rank's own part is there before the call, at
    /// `data[rank * n + i]`.
    pub fn allgather_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let count = self.part(data.len())?;
        // SAFETY: the operand has `size * count` elements.
        unsafe { self.run(Collective::Allgather, data.from(self.rank() * count), data, count, Op::Sum, 0) }
    }

    /// `data[i] = data[i] of the root`.
    pub fn broadcast_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        // SAFETY: the operand has `data.len()` elements.
        unsafe { self.run(Collective::Broadcast, data, data, data.len(), Op::Sum, root) }
    }

    /// `data[i] = op over all ranks of data[i]`, on the root; other ranks' `data` is only read.
    pub fn reduce_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op, root: usize) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        // SAFETY: the operand has `data.len()` elements.
        unsafe { self.run(Collective::Reduce, data, data, data.len(), op, root) }
    }

    /// `data[r * n + i] = data[rank * n + i] of rank r`, where `data` has `size * n` elements.
    pub fn alltoall_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let count = self.part(data.len())?;
        // SAFETY: the operand has `size * count` elements.
        unsafe { self.run(Collective::Alltoall, data, data, count, Op::Sum, 0) }
    }
    /// Gathers everybody's part on the root, in `data` of `size * n` elements, of which its own part is there before the call. Elsewhere
    /// `data` is the part: n elements, which are only read.
    pub fn gather_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (at, count) = if self.rank() == root { (root, self.part(data.len())?) } else { (0, data.len()) };
        // SAFETY: the operand has `size * count` elements on the root, and `count` elsewhere.
        unsafe { self.run(Collective::Gather, data.from(at * count), data, count, Op::Sum, root) }
    }

    /// The other way: the root keeps its own part of `data`, of `size * n` elements, and sends the others. Elsewhere `data` receives n.
    pub fn scatter_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (at, count) = if self.rank() == root { (root, self.part(data.len())?) } else { (0, data.len()) };
        // SAFETY: as above.
        unsafe { self.run(Collective::Scatter, data, data.from(at * count), count, Op::Sum, root) }
    }
}
