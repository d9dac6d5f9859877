// SPDX-License-Identifier: Apache-2.0
//! Collectives whose result takes the place of their input.

use super::Target;
use crate::convert::index;
use crate::error::Result;
use crate::{Element, Group, Op};

/// # Collectives in place
///
/// As [the others](Group#collectives), on one operand.
impl Group {
    /// `data[i] = op over all ranks of data[i]`, on every rank.
    #[inline]
    pub fn allreduce_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (at, count, dtype) = (data.pointer(), data.len(), D::Element::DTYPE);
        // SAFETY: the handle is alive, and the operand has `count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_allreduce(group, at, at, count, dtype, op.as_raw(), o, stream)
        })
    }

    /// Reduces `data`, of which this rank receives its part: `data[rank * n + i]`, where `data` has `size * n` elements. The rest of
    /// `data` is undefined afterwards.
    pub fn reduce_scatter_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (count, dtype) = (self.part(data.len())?, D::Element::DTYPE);
        let (send, recv) = (data.pointer(), data.pointer_at(self.rank() * count));
        // SAFETY: the handle is alive, and the operand has `size * count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_reduce_scatter(group, send, recv, count, dtype, op.as_raw(), o, stream)
        })
    }

    /// Gathers everybody's part into `data`, which has `size * n` elements. This rank's own part is there before the call, at
    /// `data[rank * n + i]`.
    pub fn allgather_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (count, dtype) = (self.part(data.len())?, D::Element::DTYPE);
        let (send, recv) = (data.pointer_at(self.rank() * count), data.pointer());
        // SAFETY: the handle is alive, and the operand has `size * count` elements of that type.
        self.issue(|api, group, o, stream| unsafe { api.symm_allgather(group, send, recv, count, dtype, o, stream) })
    }

    /// `data[i] = data[i] of the root`.
    pub fn broadcast_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (at, count, dtype) = (data.pointer(), data.len(), D::Element::DTYPE);
        // SAFETY: the handle is alive, and the operand has `count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_broadcast(group, at, at, count, dtype, index(root), o, stream)
        })
    }

    /// `data[i] = op over all ranks of data[i]`, on the root; other ranks' `data` is only read.
    pub fn reduce_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op, root: usize) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (at, count, dtype, op) = (data.pointer(), data.len(), D::Element::DTYPE, op.as_raw());
        // SAFETY: the handle is alive, and the operand has `count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_reduce(group, at, at, count, dtype, op, index(root), o, stream)
        })
    }

    /// `data[r * n + i] = data[rank * n + i] of rank r`, where `data` has `size * n` elements.
    pub fn alltoall_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let (at, count, dtype) = (data.pointer(), self.part(data.len())?, D::Element::DTYPE);
        // SAFETY: the handle is alive, and the operand has `size * count` elements of that type.
        self.issue(|api, group, o, stream| unsafe { api.symm_alltoall(group, at, at, count, dtype, o, stream) })
    }
}
