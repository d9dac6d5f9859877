//! Collectives whose blocks have lengths of their own, and those to and from one rank.

use crate::error::{Error, Result};
use crate::operand::{Operand, Source, Target, TargetOf};
use crate::{Collective, Element, Group, Op};
use std::ptr;

/// How the blocks of an operand lie, by rank, in elements.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    counts: &'a [usize],
    displacements: Option<&'a [usize]>,
}

type Placed<'a, T> = (Operand<T>, Blocks<'a>);

const NONE: Blocks<'_> = Blocks::packed(&[]);

impl<'a> Blocks<'a> {
    /// One behind the other.
    pub const fn packed(counts: &'a [usize]) -> Self {
        Self {
            counts,
            displacements: None,
        }
    }

    /// Each so many elements from the start of the operand.
    pub const fn at(counts: &'a [usize], displacements: &'a [usize]) -> Self {
        Self {
            counts,
            displacements: Some(displacements),
        }
    }

    /// Where each begins.
    fn places(&self) -> impl Iterator<Item = usize> {
        let mut next = 0_usize;
        let counts = self.counts;
        let displacements = self.displacements;
        (0..counts.len()).map(move |r| {
            let at = displacements.map_or(next, |all| all[r]);
            next = at.saturating_add(counts[r]);
            at
        })
    }

    /// Elements to the end of the last of them.
    pub fn end(&self) -> usize {
        let ends = self
            .places()
            .zip(self.counts)
            .filter(|(_, count)| **count != 0);
        ends.map(|(at, count)| at.saturating_add(*count))
            .max()
            .unwrap_or(0)
    }

    /// Where this rank's begins, if they lie within `len` elements.
    fn require(&self, name: &str, group: &Group, len: usize) -> Result<usize> {
        let size = group.size();
        if self.counts.len() != size || self.displacements.is_some_and(|all| all.len() != size) {
            return Err(Error::argument(format!(
                "the blocks of {name} are not those of {size} ranks"
            )));
        }
        if self.end() > len {
            return Err(Error::argument(format!(
                "{name} has {len} elements; its blocks need {}",
                self.end()
            )));
        }
        Ok(self.places().nth(group.rank()).unwrap_or(0))
    }

    /// As a plan takes them, where none is none at all.
    pub(super) fn for_plan(
        &self,
        name: &str,
        group: &Group,
    ) -> Result<(*const usize, *const usize)> {
        if self.counts.is_empty() {
            return Ok((ptr::null(), ptr::null()));
        }
        self.require(name, group, usize::MAX).map(|_| self.raw())
    }

    fn raw(&self) -> (*const usize, *const usize) {
        (
            self.counts.as_ptr(),
            self.displacements.map_or(ptr::null(), <[usize]>::as_ptr),
        )
    }
}

fn own(name: &str, len: usize, expected: usize) -> Result<()> {
    if len == expected {
        return Ok(());
    }
    Err(Error::argument(format!(
        "{name} has {len} elements, not {expected}"
    )))
}

/// # Collectives with counts
///
/// As [the others](Group#collectives); what a rank sends
/// to another must be as long as the other expects.
impl Group {
    /// Block r of `recv` = `send` of rank r. The counts are the same on all ranks.
    pub fn allgatherv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        of_recv: Blocks<'_>,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        of_recv.require("recv", self, recv.len())?;
        own("send", send.len(), of_recv.counts[self.rank()])?;
        self.run_blocks(
            Collective::Allgatherv,
            (send, NONE),
            (recv, of_recv),
            Op::Sum,
        )
    }

    /// The same in place: this rank's own block of `data` is there before the call.
    pub fn allgatherv_in_place<D: Target + ?Sized>(
        &self,
        data: &mut D,
        blocks: Blocks<'_>,
    ) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let at = blocks.require("data", self, data.len())?;
        self.run_blocks(
            Collective::Allgatherv,
            (data.from(at), NONE),
            (data, blocks),
            Op::Sum,
        )
    }

    /// `recv[i] = op over all ranks of element i of their block for this rank`. The
    /// counts are the same on all ranks.
    pub fn reduce_scatterv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        of_send: Blocks<'_>,
        recv: &mut R,
        op: Op,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        of_send.require("send", self, send.len())?;
        own("recv", recv.len(), of_send.counts[self.rank()])?;
        self.run_blocks(
            Collective::ReduceScatterv,
            (send, of_send),
            (recv, NONE),
            op,
        )
    }

    /// The same in place: this rank's own block of `data`
    /// is replaced, and the rest is undefined afterwards.
    pub fn reduce_scatterv_in_place<D: Target + ?Sized>(
        &self,
        data: &mut D,
        blocks: Blocks<'_>,
        op: Op,
    ) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        let at = blocks.require("data", self, data.len())?;
        self.run_blocks(
            Collective::ReduceScatterv,
            (data, blocks),
            (data.from(at), NONE),
            op,
        )
    }

    /// Block r of `recv` = rank r's block for this rank.
    pub fn alltoallv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        of_send: Blocks<'_>,
        recv: &mut R,
        of_recv: Blocks<'_>,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        of_send.require("send", self, send.len())?;
        of_recv.require("recv", self, recv.len())?;
        self.run_blocks(
            Collective::Alltoallv,
            (send, of_send),
            (recv, of_recv),
            Op::Sum,
        )
    }

    /// The same in place: what goes to a rank and what
    /// comes from it have one length and one place.
    pub fn alltoallv_in_place<D: Target + ?Sized>(
        &self,
        data: &mut D,
        blocks: Blocks<'_>,
    ) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        blocks.require("data", self, data.len())?;
        self.run_blocks(
            Collective::Alltoallv,
            (data, blocks),
            (data, blocks),
            Op::Sum,
        )
    }

    /// A collective of C; `op` and the blocks of either
    /// operand are of no account where it has none.
    fn run_blocks<T: Element>(
        &self,
        what: Collective,
        (send, of_send): Placed<'_, T>,
        (recv, of_recv): Placed<'_, T>,
        op: Op,
    ) -> Result<()> {
        let ((counts, at), (recv_counts, recv_at)) = (of_send.raw(), of_recv.raw());
        let (group, stream, send, recv) = (
            self.as_raw(),
            self.stream.as_raw(),
            send.pointer(),
            recv.pointer(),
        );
        let (dtype, op) = (T::DTYPE, op.as_raw());
        // SAFETY: the blocks lie within the operands, and have a number for each rank.
        self.issue(0, |api, o| unsafe {
            match what {
                Collective::Allgatherv => {
                    api.symm_allgatherv(group, send, recv, recv_counts, recv_at, dtype, o, stream)
                }
                Collective::ReduceScatterv => {
                    api.symm_reduce_scatterv(group, send, counts, at, recv, dtype, op, o, stream)
                }
                _ => api.symm_alltoallv(
                    group,
                    send,
                    counts,
                    at,
                    recv,
                    recv_counts,
                    recv_at,
                    dtype,
                    o,
                    stream,
                ),
            }
        })
    }

    /// As [`alltoallv`](Self::alltoallv), with counts and displacements that are read
    /// when it runs: for each rank one number, in memory of the kind that the group
    /// works on. A captured call takes new ones at each replay. Empty displacements:
    /// one behind the other. Errors: a block that does not lie within its operand is
    /// `InvalidArgument`: on the host of the call, on CUDA of the group.
    pub fn alltoallv_device<S, R, N>(
        &self,
        send: &S,
        of_send: (&N, &N),
        recv: &mut R,
        of_recv: (&N, &N),
    ) -> Result<()>
    where
        S: Source + ?Sized,
        R: TargetOf<S> + ?Sized,
        N: Source<Element = u64> + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        let numbers = |name: &str, list: &N, may_be_empty: bool| {
            let list = list.operand().on(&self.shared, &self.stream)?;
            if may_be_empty && list.len() == 0 {
                return Ok(ptr::null());
            }
            own(name, list.len(), self.size())?;
            Ok::<_, Error>(list.pointer().cast::<u64>().cast_const())
        };
        let counts = [
            numbers("send_counts", of_send.0, false)?,
            numbers("send_displacements", of_send.1, true)?,
        ];
        let recv_counts = [
            numbers("recv_counts", of_recv.0, false)?,
            numbers("recv_displacements", of_recv.1, true)?,
        ];
        let (group, stream, dtype) = (self.as_raw(), self.stream.as_raw(), S::Element::DTYPE);
        // SAFETY: the operands have as many elements as
        // is said, and the lists a number for each rank.
        self.issue(0, |api, o| unsafe {
            let [of_send, at] = counts;
            let [of_recv, recv_at] = recv_counts;
            let (room, recv_room) = (send.len(), recv.len());
            let (send, recv) = (send.pointer(), recv.pointer());
            api.symm_alltoallv_device(
                group, send, room, of_send, at, recv, recv_room, of_recv, recv_at, dtype, o, stream,
            )
        })
    }

    /// `recv[r * send.len() + i] = send[i] of rank r`, on the root; other ranks' `recv`
    /// is not written and may be empty.
    pub fn gather<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        root: usize,
    ) -> Result<()> {
        self.apart(Collective::Gather, send, recv, Op::Sum, root)
    }

    /// `recv[i] = send[rank * recv.len() + i] of the root`;
    /// other ranks' `send` is not read and may be empty.
    pub fn scatter<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        root: usize,
    ) -> Result<()> {
        self.apart(Collective::Scatter, send, recv, Op::Sum, root)
    }

    /// All-gather along the last dimension: row by row, `recv` =
    /// all ranks' rows of `send`, one behind the other. From one
    /// row of `recv` to the next are `recv_stride` elements.
    pub fn allgather_rows<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        rows: usize,
        recv_stride: usize,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        let count = send.len().checked_div(rows).unwrap_or(0);
        own("send", send.len(), count * rows)?;
        let between = recv_stride.saturating_mul(rows.saturating_sub(1));
        let needed = if count == 0 {
            0
        } else {
            between.saturating_add(count.saturating_mul(self.size()))
        };
        if recv.len() < needed {
            own("recv", recv.len(), needed)?;
        }
        let (group, stream, dtype) = (self.as_raw(), self.stream.as_raw(), S::Element::DTYPE);
        // SAFETY: the operands have that many rows.
        self.issue(0, |api, o| unsafe {
            let (send, recv) = (send.pointer(), recv.pointer());
            api.symm_allgather_rows(
                group,
                send,
                recv,
                rows,
                count,
                recv_stride,
                dtype,
                o,
                stream,
            )
        })
    }
}
