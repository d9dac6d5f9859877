//! Collectives: calls that all ranks of a group make together.

mod batch;
mod blocks;
mod plan;
mod rmsnorm;
mod user;

pub use batch::Batch;
pub use blocks::Blocks;
pub use plan::Plan;
pub use rmsnorm::RmsNorm;

use crate::convert::index;
use crate::error::{Called, Error, Result, acting};
use crate::group::as_pointer;
use crate::operand::{Operand, Source, Target, TargetOf};
use crate::{Collective, Element, Group, Op, Reduces};
use std::ffi::c_void;
use symm_sys::{self as sys, Api};

type Pair<T, U> = (Operand<T>, Operand<U>);

/// # Collectives
///
/// All ranks make their calls in one order, and in each call pass one type, op, root and length.
/// Operands may be any memory of the kind that the group works on; [`Span`](crate::Span)s of a
/// memory of this group are used without a copy. Some ranks may pass spans and others not, and
/// spans may have different offsets. A reduction of narrow floats into `f32` is not rounded, and
/// one of `f32` into a narrow float is rounded to that ([`Reduces`]).
///
/// # Errors of all collectives
///
/// * `InvalidArgument`: lengths that do not fit, root, overlap, an algorithm that cannot do the
///   call. Nothing has happened.
/// * `Timeout`, `PeerFailed`, `Aborted`, `Mismatch`: the group is revoked, and the contents of the
///   operands that were to be written are undefined.
impl Group {
    /// `recv[i] = op over all ranks of send[i]`, on every rank.
    #[inline]
    pub fn allreduce<S: Source + ?Sized, R: Target + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        op: Op,
    ) -> Result<()>
    where
        S::Element: Reduces<R::Element>,
    {
        self.apart(Collective::Allreduce, send, recv, op, 0)
    }

    /// `recv[i] = op over all ranks of send[rank * recv.len() + i]`; `send` is
    /// [`size`](Self::size) times as long as `recv`.
    pub fn reduce_scatter<S: Source + ?Sized, R: Target + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        op: Op,
    ) -> Result<()>
    where
        S::Element: Reduces<R::Element>,
    {
        self.apart(Collective::ReduceScatter, send, recv, op, 0)
    }

    /// `recv[r * send.len() + i] = send[i] of rank r`; `recv` is [`size`](Self::size) times as long
    /// as `send`.
    pub fn allgather<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
    ) -> Result<()> {
        self.apart(Collective::Allgather, send, recv, Op::Sum, 0)
    }

    /// `recv[i] = send[i] of the root`; `send` of other ranks is not read and may be empty.
    pub fn broadcast<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        root: usize,
    ) -> Result<()> {
        self.apart(Collective::Broadcast, send, recv, Op::Sum, root)
    }

    /// `recv[i] = op over all ranks of send[i]`, on the root; `recv` of other ranks is not written
    /// and may be empty.
    pub fn reduce<S: Source + ?Sized, R: Target + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        op: Op,
        root: usize,
    ) -> Result<()>
    where
        S::Element: Reduces<R::Element>,
    {
        self.apart(Collective::Reduce, send, recv, op, root)
    }

    /// `recv[i] = op over the ranks up to this one of send[i]`, in their order; not of
    /// [`Op::Avg`].
    pub fn scan<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        op: Op,
    ) -> Result<()> {
        self.apart(Collective::Scan, send, recv, op, 0)
    }

    /// `recv[i] = op over the ranks before this one of send[i]`, in their order; not of
    /// [`Op::Avg`]. Rank 0, before which there is none, gets the neutral element of `op`, which
    /// for a sum is 0.
    pub fn exscan<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        op: Op,
    ) -> Result<()> {
        self.apart(Collective::Exscan, send, recv, op, 0)
    }

    /// `recv[r * n + i] = send[rank * n + i] of rank r`, where both have `size * n` elements.
    pub fn alltoall<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
    ) -> Result<()> {
        self.apart(Collective::Alltoall, send, recv, Op::Sum, 0)
    }

    /// A collective on two operands, whose lengths must go together. An operand that is not read or
    /// written on this rank may be empty.
    #[inline]
    fn apart<S, R>(
        &self,
        what: Collective,
        send: &S,
        recv: &mut R,
        op: Op,
        root: usize,
    ) -> Result<()>
    where
        S: Source + ?Sized,
        R: Target + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        let count = self.count_of(what, send.len(), recv.len(), root)?;
        // SAFETY: the operands have as many elements as
        // the collective reads and writes on this rank.
        unsafe { self.run(what, send, recv, count, op, root) }
    }

    /// The count of a collective on two operands, whose lengths must go together.
    #[inline]
    fn count_of(
        &self,
        what: Collective,
        sent: usize,
        received: usize,
        root: usize,
    ) -> Result<usize> {
        let at_root = self.rank() == root;
        match what {
            Collective::Gather | Collective::Scatter if !at_root => {}
            Collective::Broadcast if !at_root && sent == 0 => {}
            Collective::Reduce if !at_root && received == 0 => {}
            Collective::ReduceScatter | Collective::Scatter => {
                self.all_parts("send", sent, "recv", received)?
            }
            Collective::Allgather | Collective::Gather => {
                self.all_parts("recv", received, "send", sent)?
            }
            _ => require_equal(sent, received)?,
        }

        match what {
            Collective::Allgather | Collective::Gather | Collective::Reduce => Ok(sent),
            Collective::Alltoall => self.part(received),
            _ => Ok(received),
        }
    }

    /// Both operands, if the group can reach them.
    #[inline]
    fn both<S: Source + ?Sized, R: Target + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
    ) -> Result<Pair<S::Element, R::Element>> {
        Ok((
            send.operand().on(&self.shared, &self.stream)?,
            recv.operand_mut().on(&self.shared, &self.stream)?,
        ))
    }

    /// Calls the function of C for a collective. A collective without `op` or `root` ignores that
    /// argument.
    ///
    /// # Safety
    /// The operands have the elements that the collective reads and writes for `count`.
    #[inline]
    unsafe fn run<T: Element, U: Element>(
        &self,
        what: Collective,
        send: Operand<T>,
        recv: Operand<U>,
        count: usize,
        op: Op,
        root: usize,
    ) -> Result<()> {
        let group = self.as_raw();
        let send = send.pointer();
        let recv = recv.pointer();
        let stream = self.stream.as_raw();
        let dtype = T::DTYPE;
        let op = op.as_raw();
        let root = index(root);

        // SAFETY: the handle is alive, and the caller vouches for the operands.
        let one = |api: &Api, o| unsafe {
            match what {
                Collective::Allreduce => {
                    api.symm_allreduce(group, send, recv, count, dtype, op, o, stream)
                }
                Collective::ReduceScatter => {
                    api.symm_reduce_scatter(group, send, recv, count, dtype, op, o, stream)
                }
                Collective::Allgather => {
                    api.symm_allgather(group, send, recv, count, dtype, o, stream)
                }
                Collective::Broadcast => {
                    api.symm_broadcast(group, send, recv, count, dtype, root, o, stream)
                }
                Collective::Reduce => {
                    api.symm_reduce(group, send, recv, count, dtype, op, root, o, stream)
                }
                Collective::Scan => api.symm_scan(group, send, recv, count, dtype, op, o, stream),
                Collective::Exscan => {
                    api.symm_exscan(group, send, recv, count, dtype, op, o, stream)
                }
                Collective::Gather => {
                    api.symm_gather(group, send, recv, count, dtype, root, o, stream)
                }
                Collective::Scatter => {
                    api.symm_scatter(group, send, recv, count, dtype, root, o, stream)
                }
                _ => api.symm_alltoall(group, send, recv, count, dtype, o, stream),
            }
        };
        let result = if T::DTYPE == U::DTYPE { 0 } else { U::DTYPE };
        self.issue(result, one)
    }

    /// Makes a call with the options of this handle. `result` is the type of the result if it
    /// differs from that of the operands, else 0.
    #[inline]
    fn issue(
        &self,
        result: i32,
        one: impl FnOnce(&Api, *const sys::symm_collective_options_t) -> Called,
    ) -> Result<()> {
        acting(self.options(result), |api, options| one(api, options))
    }

    /// The options of this handle.
    #[inline]
    fn options(&self, result: i32) -> sys::symm_collective_options_t {
        let (position, scale, scale_address) = self.factor;
        sys::symm_collective_options_t {
            algorithm: self.algorithm.as_raw(),
            timeout_ms: self.timeout.as_millis(),
            scale_position: position.as_raw(),
            result_dtype: result,
            scale,
            scale_pointer: scale_address as *const c_void,
            tag: as_pointer(self.tag.as_deref()),
            max_blocks: self.max_blocks,
            order: self.order.as_raw(),
            wire_dtype: self.wire.0,
            wire_group: self.wire.1,
            chunk_bytes: self.chunks.bytes,
            progress: self.chunks.progress as *mut u32,
            ready: self.chunks.ready as *const u32,
            word_value: self.chunks.value,
            word_pointer: self.chunks.value_at as *const u32,
            ..Default::default()
        }
    }

    /// Length of one rank's part of an operand that has a part for each rank.
    fn part(&self, whole: usize) -> Result<usize> {
        if whole % self.size() != 0 {
            return Err(Error::argument(format!(
                "{whole} elements cannot be divided among {} ranks",
                self.size()
            )));
        }
        Ok(whole / self.size())
    }

    /// Refuses an operand that is not as long as the parts of all ranks.
    fn all_parts(&self, long: &str, whole: usize, short: &str, part: usize) -> Result<()> {
        if part.checked_mul(self.size()) != Some(whole) {
            let size = self.size();
            return Err(Error::argument(format!(
                "{long} has {whole} elements, not {size} (ranks) times the {part} of {short}"
            )));
        }
        Ok(())
    }
}

#[inline]
fn require_equal(send: usize, recv: usize) -> Result<()> {
    if send == recv {
        return Ok(());
    }
    Err(Error::argument(format!(
        "send has {send} elements and recv {recv}"
    )))
}

/// # Collectives in place
///
/// The rules are those of [all collectives](Group#collectives), on one operand.
impl Group {
    /// `data[i] = op over all ranks of data[i]`, on every rank.
    #[inline]
    pub fn allreduce_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        self.in_place(Collective::Allreduce, data, op, 0)
    }

    /// Reduces `data` of `size * n` elements, of which this rank receives its part,
    /// `data[rank * n + i]`. The other elements of `data` are undefined afterwards.
    pub fn reduce_scatter_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        self.in_place(Collective::ReduceScatter, data, op, 0)
    }

    /// Gathers the parts of all ranks into `data`, which has `size * n` elements. This rank's own
    /// part is at `data[rank * n + i]` before the call.
    pub fn allgather_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        self.in_place(Collective::Allgather, data, Op::Sum, 0)
    }

    /// `data[i] = data[i] of the root`.
    pub fn broadcast_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        self.in_place(Collective::Broadcast, data, Op::Sum, root)
    }

    /// `data[i] = op over all ranks of data[i]`, on the root; `data` of other ranks is only read.
    pub fn reduce_in_place<D: Target + ?Sized>(
        &self,
        data: &mut D,
        op: Op,
        root: usize,
    ) -> Result<()> {
        self.in_place(Collective::Reduce, data, op, root)
    }

    /// [`scan`](Self::scan) in place.
    pub fn scan_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        self.in_place(Collective::Scan, data, op, 0)
    }

    /// [`exscan`](Self::exscan) in place.
    pub fn exscan_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        self.in_place(Collective::Exscan, data, op, 0)
    }

    /// `data[r * n + i] = data[rank * n + i] of rank r`, where `data` has `size * n` elements.
    pub fn alltoall_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        self.in_place(Collective::Alltoall, data, Op::Sum, 0)
    }

    /// Gathers the parts of all ranks on the root, in `data` of `size * n` elements, in which the
    /// root's own part is before the call. On other ranks `data` is the part: n elements, which are
    /// only read.
    pub fn gather_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        self.in_place(Collective::Gather, data, Op::Sum, root)
    }

    /// Scatters the root's `data` of `size * n` elements: the root keeps its own part and sends the
    /// parts of the others. On other ranks `data` receives n elements.
    pub fn scatter_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        self.in_place(Collective::Scatter, data, Op::Sum, root)
    }

    #[inline]
    fn in_place<D: Target + ?Sized>(
        &self,
        what: Collective,
        data: &mut D,
        op: Op,
        root: usize,
    ) -> Result<()> {
        let whole = data.operand_mut().on(&self.shared, &self.stream)?;
        let (send, recv, count) = self.parts_in_place(what, whole, root)?;
        // SAFETY: the operand has `size * count` elements
        // where it is divided, and `count` elsewhere.
        unsafe { self.run(what, send, recv, count, op, root) }
    }

    /// What a collective in place sends and receives, and its count.
    #[inline]
    fn parts_in_place<T: Element>(
        &self,
        what: Collective,
        whole: Operand<T>,
        root: usize,
    ) -> Result<(Operand<T>, Operand<T>, usize)> {
        let divided = match what {
            Collective::Allreduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::Scan
            | Collective::Exscan => false,
            Collective::Gather | Collective::Scatter => self.rank() == root,
            _ => true,
        };
        let count = if divided {
            self.part(whole.len())?
        } else {
            whole.len()
        };
        let own = if divided && what != Collective::Alltoall {
            whole.from(self.rank() * count)
        } else {
            whole
        };

        let gathers = matches!(what, Collective::Allgather | Collective::Gather);
        let (send, recv) = if gathers { (own, whole) } else { (whole, own) };
        Ok((send, recv, count))
    }
}
