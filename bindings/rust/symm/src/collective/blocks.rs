//! Collectives whose blocks have lengths of their own, gather and scatter, and all-gather by rows.

use crate::buffer::bytes;
use crate::convert::index;
use crate::error::{Error, Result, acting};
use crate::operand::{Operand, Source, Target, TargetOf};
use crate::{Collective, Element, Group, Op};
use std::ptr;

/// Lengths and places of the blocks of an operand, by rank, in elements.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    counts: &'a [usize],
    displacements: Option<&'a [usize]>,
}

type Placed<'a, T> = (Operand<T>, Blocks<'a>);
type Both<T> = (Operand<T>, Operand<T>);

/// The blocks of an operand that has no counts.
pub(super) const NONE: Blocks<'_> = Blocks::packed(&[]);

impl<'a> Blocks<'a> {
    /// Blocks of these lengths, each of which begins where the one before ends.
    pub const fn packed(counts: &'a [usize]) -> Self {
        Self {
            counts,
            displacements: None,
        }
    }

    /// Blocks of these lengths, each of which begins `displacements` elements from the start of the
    /// operand.
    pub const fn at(counts: &'a [usize], displacements: &'a [usize]) -> Self {
        Self {
            counts,
            displacements: Some(displacements),
        }
    }

    /// The element at which each block begins.
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

    /// Elements from the start of the operand to the end of the last block.
    pub fn end(&self) -> usize {
        self.places()
            .zip(self.counts)
            .filter(|(_, count)| **count != 0)
            .map(|(at, count)| at.saturating_add(*count))
            .max()
            .unwrap_or(0)
    }

    /// The element at which this rank's block begins. Refuses blocks that are not those of the
    /// group's ranks, or do not lie within `len` elements.
    fn require(&self, name: &str, group: &Group, len: usize) -> Result<usize> {
        self.require_of(name, group.size(), len)?;
        Ok(self.places().nth(group.rank()).unwrap_or(0))
    }

    /// Refuses blocks that are not those of `ranks` ranks, or do not lie within `len` elements.
    fn require_of(&self, name: &str, ranks: usize, len: usize) -> Result<()> {
        if self.counts.len() != ranks || self.displacements.is_some_and(|all| all.len() != ranks) {
            return Err(Error::argument(format!(
                "the blocks of {name} are not those of {ranks} ranks"
            )));
        }
        if self.end() > len {
            return Err(Error::argument(format!(
                "{name} has {len} elements; its blocks need {}",
                self.end()
            )));
        }
        Ok(())
    }

    /// Counts and displacements for a plan; both are NULL if there are no blocks.
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

    /// Counts and displacements, which are NULL for packed blocks.
    pub(super) fn raw(&self) -> (*const usize, *const usize) {
        (
            self.counts.as_ptr(),
            self.displacements.map_or(ptr::null(), <[usize]>::as_ptr),
        )
    }
}

fn require_length(name: &str, len: usize, expected: usize) -> Result<()> {
    if len == expected {
        return Ok(());
    }
    Err(Error::argument(format!(
        "{name} has {len} elements, not {expected}"
    )))
}

/// # Collectives with counts
///
/// The rules are those of [all collectives](Group#collectives). The block that a rank sends to
/// another rank must be as long as that rank expects.
impl Group {
    /// Block r of `recv` = `send` of rank r. The counts are equal on all ranks.
    pub fn allgatherv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        of_recv: Blocks<'_>,
    ) -> Result<()> {
        let (send, recv) = self.gathered_blocks(send, recv, of_recv)?;
        self.run_blocks(
            Collective::Allgatherv,
            (send, NONE),
            (recv, of_recv),
            Op::Sum,
        )
    }

    /// [`allgatherv`](Self::allgatherv) in place: this rank's own block is in `data` before the
    /// call.
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

    /// `recv[i] = op over all ranks of element i of their block for this rank`. The counts are
    /// equal on all ranks.
    pub fn reduce_scatterv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        of_send: Blocks<'_>,
        recv: &mut R,
        op: Op,
    ) -> Result<()> {
        let (send, recv) = self.scattered_blocks(send, of_send, recv)?;
        self.run_blocks(
            Collective::ReduceScatterv,
            (send, of_send),
            (recv, NONE),
            op,
        )
    }

    /// [`reduce_scatterv`](Self::reduce_scatterv) in place: this rank's own block of `data` is
    /// replaced by the result, and the other blocks are undefined afterwards.
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

    /// Block r of `recv` = `send` of rank r, on the root; `recv` and its blocks on other ranks are
    /// not looked at, and may be empty.
    pub fn gatherv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        of_recv: Blocks<'_>,
        root: usize,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        self.require_of_root(("recv", recv.len()), of_recv, ("send", send.len()), root)?;
        self.run_gatherv((send, send.len()), (recv, of_recv), root)
    }

    /// [`gatherv`](Self::gatherv) in place: the root's own block is in `data` before the call. On
    /// other ranks `data` is their block.
    pub fn gatherv_in_place<D: Target + ?Sized>(
        &self,
        data: &mut D,
        blocks: Blocks<'_>,
        root: usize,
    ) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        if self.rank() != root {
            return self.run_gatherv((data, data.len()), (data, NONE), root);
        }
        let at = blocks.require("data", self, data.len())?;
        self.run_gatherv((data.from(at), blocks.counts[root]), (data, blocks), root)
    }

    /// `recv` = this rank's block of `send` of the root; `send` and its blocks on other ranks are
    /// not looked at, and may be empty.
    pub fn scatterv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        of_send: Blocks<'_>,
        recv: &mut R,
        root: usize,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        self.require_of_root(("send", send.len()), of_send, ("recv", recv.len()), root)?;
        self.run_scatterv((send, of_send), (recv, recv.len()), root)
    }

    /// [`scatterv`](Self::scatterv) in place: the root's own block stays where it is in `data`. On
    /// other ranks `data` receives their block.
    pub fn scatterv_in_place<D: Target + ?Sized>(
        &self,
        data: &mut D,
        blocks: Blocks<'_>,
        root: usize,
    ) -> Result<()> {
        let data = data.operand_mut().on(&self.shared, &self.stream)?;
        if self.rank() != root {
            return self.run_scatterv((data, NONE), (data, data.len()), root);
        }
        let at = blocks.require("data", self, data.len())?;
        self.run_scatterv((data, blocks), (data.from(at), blocks.counts[root]), root)
    }

    /// Refuses, on the root, blocks that do not lie within the operand `of_all`, or of which the
    /// root's own is not as long as the operand `of_rank`. An operand is a name and a length.
    pub(super) fn require_of_root(
        &self,
        of_all: (&str, usize),
        blocks: Blocks<'_>,
        of_rank: (&str, usize),
        root: usize,
    ) -> Result<()> {
        if self.rank() != root {
            return Ok(());
        }
        blocks.require(of_all.0, self, of_all.1)?;
        require_length(of_rank.0, of_rank.1, blocks.counts[root])
    }

    fn run_gatherv<T: Element>(
        &self,
        (send, count): (Operand<T>, usize),
        (recv, of_recv): Placed<'_, T>,
        root: usize,
    ) -> Result<()> {
        let (counts, at) = of_recv.raw();
        // SAFETY: on the root the blocks lie within the operand, and have a number for each rank.
        // On other ranks C does not look at them.
        self.issue(0, |api, o| unsafe {
            api.symm_gatherv(
                self.as_raw(),
                send.pointer(),
                count,
                recv.pointer(),
                counts,
                at,
                T::DTYPE,
                index(root),
                o,
                self.stream.as_raw(),
            )
        })
    }

    fn run_scatterv<T: Element>(
        &self,
        (send, of_send): Placed<'_, T>,
        (recv, count): (Operand<T>, usize),
        root: usize,
    ) -> Result<()> {
        let (counts, at) = of_send.raw();
        // SAFETY: as in run_gatherv().
        self.issue(0, |api, o| unsafe {
            api.symm_scatterv(
                self.as_raw(),
                send.pointer(),
                counts,
                at,
                recv.pointer(),
                count,
                T::DTYPE,
                index(root),
                o,
                self.stream.as_raw(),
            )
        })
    }

    /// The first bytes of `recv` = those of `send` of the root, on all ranks but the root; `recv`
    /// of the root and `send` of other ranks are not looked at, and may be empty. Returns the
    /// number of bytes, which other ranks need not know. Errors: `InvalidArgument` on all ranks if
    /// `recv` of one of them is too small; nothing is written then, and the group stays usable.
    pub fn broadcast_bytes<S: Source + ?Sized, R: Target + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        root: usize,
    ) -> Result<usize> {
        let (send, recv) = self.both(send, recv)?;
        let sent = bytes::<S::Element>(send.len())?;
        let capacity = bytes::<R::Element>(recv.len())?;
        let mut came = 0;
        // SAFETY: the operands have so many bytes.
        self.issue(0, |api, o| unsafe {
            api.symm_broadcast_bytes(
                self.as_raw(),
                send.pointer(),
                sent,
                recv.pointer(),
                capacity,
                index(root),
                o,
                &raw mut came,
                self.stream.as_raw(),
            )
        })?;
        Ok(came)
    }

    /// Block r of `recv` = rank r's block for this rank.
    pub fn alltoallv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        of_send: Blocks<'_>,
        recv: &mut R,
        of_recv: Blocks<'_>,
    ) -> Result<()> {
        let (send, recv) = self.exchanged_blocks(send, of_send, recv, of_recv)?;
        self.run_blocks(
            Collective::Alltoallv,
            (send, of_send),
            (recv, of_recv),
            Op::Sum,
        )
    }

    /// [`alltoallv`](Self::alltoallv) in place: the block that comes from a rank replaces the block
    /// that went to it, and has its length.
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

    /// Sends block i of `send` to the i-th rank of `to`, and receives block i of `recv` from the
    /// i-th rank of `from`, as [`Group::messages`] does; blocks of two ranks meet in the order of
    /// their lists. A local call. Errors: `Mismatch` if a rank sends more or less than is expected;
    /// else those of messages, with the receives first.
    pub fn neighbor_alltoallv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        (to, send, of_send): (&[usize], &S, Blocks<'_>),
        (from, recv, of_recv): (&[usize], &mut R, Blocks<'_>),
        channel: usize,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        of_send.require_of("send", to.len(), send.len())?;
        of_recv.require_of("recv", from.len(), recv.len())?;
        let ranks = |list: &[usize]| -> Vec<i32> { list.iter().copied().map(index).collect() };
        let (to, from) = (ranks(to), ranks(from));
        let (counts, at) = of_send.raw();
        let (recv_counts, recv_at) = of_recv.raw();
        // SAFETY: the blocks lie within the operands, and there is a number for each rank.
        acting(self.timeout.options(), |api, o| unsafe {
            api.symm_neighbor_alltoallv(
                self.as_raw(),
                to.as_ptr(),
                to.len(),
                send.pointer(),
                counts,
                at,
                from.as_ptr(),
                from.len(),
                recv.pointer(),
                recv_counts,
                recv_at,
                <S::Element as Element>::DTYPE,
                index(channel),
                o,
                self.stream.as_raw(),
            )
        })
    }

    /// The operands of [`allgatherv`](Self::allgatherv), checked.
    pub(super) fn gathered_blocks<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        of_recv: Blocks<'_>,
    ) -> Result<Both<S::Element>> {
        let (send, recv) = self.both(send, recv)?;
        of_recv.require("recv", self, recv.len())?;
        require_length("send", send.len(), of_recv.counts[self.rank()])?;
        Ok((send, recv))
    }

    /// The operands of [`reduce_scatterv`](Self::reduce_scatterv), checked.
    pub(super) fn scattered_blocks<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        of_send: Blocks<'_>,
        recv: &mut R,
    ) -> Result<Both<S::Element>> {
        let (send, recv) = self.both(send, recv)?;
        of_send.require("send", self, send.len())?;
        require_length("recv", recv.len(), of_send.counts[self.rank()])?;
        Ok((send, recv))
    }

    /// The operands of [`alltoallv`](Self::alltoallv), checked.
    pub(super) fn exchanged_blocks<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        of_send: Blocks<'_>,
        recv: &mut R,
        of_recv: Blocks<'_>,
    ) -> Result<Both<S::Element>> {
        let (send, recv) = self.both(send, recv)?;
        of_send.require("send", self, send.len())?;
        of_recv.require("recv", self, recv.len())?;
        Ok((send, recv))
    }

    /// Calls the function of C for a collective with counts. A collective without `op`, or without
    /// counts of one operand, ignores that argument.
    fn run_blocks<T: Element>(
        &self,
        what: Collective,
        (send, of_send): Placed<'_, T>,
        (recv, of_recv): Placed<'_, T>,
        op: Op,
    ) -> Result<()> {
        let (counts, at) = of_send.raw();
        let (recv_counts, recv_at) = of_recv.raw();
        let group = self.as_raw();
        let stream = self.stream.as_raw();
        let send = send.pointer();
        let recv = recv.pointer();
        let dtype = T::DTYPE;
        let op = op.as_raw();

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

    /// As [`alltoallv`](Self::alltoallv), with counts and displacements that are read when the call
    /// runs: for each rank one number, in memory of the kind that the group works on. A captured
    /// call reads them again at each replay. Empty displacements mean packed blocks. Errors: a
    /// block that does not lie within its operand is `InvalidArgument`; on the host the call fails
    /// with it, on CUDA the group.
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
        let [counts, at, recv_counts, recv_at] = self.device_lists(of_send, of_recv)?;

        // SAFETY: the operands have as many elements as
        // is said, and the lists a number for each rank.
        self.issue(0, |api, o| unsafe {
            api.symm_alltoallv_device(
                self.as_raw(),
                send.pointer(),
                send.len(),
                counts,
                at,
                recv.pointer(),
                recv.len(),
                recv_counts,
                recv_at,
                S::Element::DTYPE,
                o,
                self.stream.as_raw(),
            )
        })
    }

    /// The addresses of the lists of a call with counts on the device: the counts and the
    /// displacements of send, and those of recv.
    pub(super) fn device_lists<N: Source<Element = u64> + ?Sized>(
        &self,
        of_send: (&N, &N),
        of_recv: (&N, &N),
    ) -> Result<[*const u64; 4]> {
        Ok([
            self.device_list("send_counts", of_send.0, false)?,
            self.device_list("send_displacements", of_send.1, true)?,
            self.device_list("recv_counts", of_recv.0, false)?,
            self.device_list("recv_displacements", of_recv.1, true)?,
        ])
    }

    /// The address of a list with a number for each rank. An empty list, where it may be one, is
    /// NULL.
    fn device_list<N: Source<Element = u64> + ?Sized>(
        &self,
        name: &str,
        list: &N,
        may_be_empty: bool,
    ) -> Result<*const u64> {
        let list = list.operand().on(&self.shared, &self.stream)?;
        if may_be_empty && list.len() == 0 {
            return Ok(ptr::null());
        }
        require_length(name, list.len(), self.size())?;
        Ok(list.pointer().cast::<u64>().cast_const())
    }

    /// `recv[r * send.len() + i] = send[i] of rank r`, on the root; `recv` of other ranks is not
    /// written and may be empty.
    pub fn gather<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        root: usize,
    ) -> Result<()> {
        self.apart(Collective::Gather, send, recv, Op::Sum, root)
    }

    /// `recv[i] = send[rank * recv.len() + i] of the root`; `send` of other ranks is not read and
    /// may be empty.
    pub fn scatter<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        root: usize,
    ) -> Result<()> {
        self.apart(Collective::Scatter, send, recv, Op::Sum, root)
    }

    /// All-gather along the last dimension. `send` has `rows` rows of n elements. Each row of
    /// `recv` is that row of all ranks in their order, `size * n` elements, and begins
    /// `recv_stride` elements after the row before.
    pub fn allgather_rows<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        rows: usize,
        recv_stride: usize,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        let of_rank = ("send", send.len());
        let of_all = ("recv", recv.len());
        let count = self.count_of_row(of_rank, of_all, rows, recv_stride)?;

        // SAFETY: the operands have that many rows.
        self.issue(0, |api, o| unsafe {
            api.symm_allgather_rows(
                self.as_raw(),
                send.pointer(),
                recv.pointer(),
                rows,
                count,
                recv_stride,
                S::Element::DTYPE,
                o,
                self.stream.as_raw(),
            )
        })
    }

    /// Reduce-scatter along the last dimension. `recv` has `rows` rows of n elements. Each row of
    /// `send` has such a row for every rank, in their order, `size * n` elements, and begins
    /// `send_stride` elements after the row before.
    pub fn reduce_scatter_rows<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        rows: usize,
        send_stride: usize,
        op: Op,
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        let of_rank = ("recv", recv.len());
        let of_all = ("send", send.len());
        let count = self.count_of_row(of_rank, of_all, rows, send_stride)?;

        // SAFETY: the operands have that many rows.
        self.issue(0, |api, o| unsafe {
            api.symm_reduce_scatter_rows(
                self.as_raw(),
                send.pointer(),
                recv.pointer(),
                rows,
                count,
                send_stride,
                S::Element::DTYPE,
                op.as_raw(),
                o,
                self.stream.as_raw(),
            )
        })
    }

    /// The elements of a row of one rank, which has all the elements of the operand `of_rank`. Such
    /// rows of all ranks must fit into the operand `of_all`. An operand is a name and a length.
    pub(super) fn count_of_row(
        &self,
        of_rank: (&str, usize),
        of_all: (&str, usize),
        rows: usize,
        stride: usize,
    ) -> Result<usize> {
        let count = of_rank.1.checked_div(rows).unwrap_or(0);
        require_length(of_rank.0, of_rank.1, count * rows)?;
        let between = stride.saturating_mul(rows.saturating_sub(1));
        let needed = if count == 0 {
            0
        } else {
            between.saturating_add(count.saturating_mul(self.size()))
        };
        if of_all.1 < needed {
            require_length(of_all.0, of_all.1, needed)?;
        }
        Ok(count)
    }
}
