//! Several collectives in one submission.

use super::blocks::NONE;
use super::{Blocks, RmsNorm};
use crate::convert::index;
use crate::error::{Error, Result, acting};
use crate::group::as_pointer;
use crate::operand::{Operand, Source, Target, TargetOf};
use crate::{Collective, Element, Group, Op, Reduces};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use symm_sys::{self as sys, symm_collective_call_t, symm_rmsnorm_call_t};

/// Collectives that are made in one submission, by [`submit`](Self::submit).
///
/// The methods are those of the group, with the same operands, and check them at once. The operands
/// are borrowed until the batch is submitted, so in safe code no call can depend on another; spans
/// and raw pointers that do are refused. Ranks make batches of equal calls in one order. A batch
/// that is dropped makes no call.
///
/// The deadline, the tag and the stream are those of the handle that has made the batch, and so are
/// the algorithm, the factor and the limit of blocks, unless [`with`](Self::with) names another
/// handle for them.
///
/// ```
/// # fn main() -> symm::Result<()> {
/// # let group = symm::GroupConfig::new().ranks(0, 1).bootstrap("thread://batch").create()?;
/// let mut gradient = [1.0_f32, 2.0];
/// let mut lengths = [0_i64; 1];
/// let mut batch = group.batch();
/// batch.allreduce_in_place(&mut gradient, symm::Op::Sum)?;
/// batch.allgather(&[3_i64], &mut lengths)?;
/// batch.submit()?;
/// assert_eq!(lengths, [3]);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch makes no call before it is submitted"]
pub struct Batch<'a> {
    group: Group,
    /// The handle with the options of the calls that follow.
    how: Group,
    calls: Vec<symm_collective_call_t>,
    // The calls are given the addresses of their options and norms when all are there. A norm
    // stands with the index of its call.
    options: Vec<sys::symm_collective_options_t>,
    norms: Vec<(usize, symm_rmsnorm_call_t)>,
    operands: PhantomData<&'a mut ()>,
}

impl Group {
    /// Begins a batch.
    pub fn batch<'a>(&self) -> Batch<'a> {
        Batch {
            group: self.clone(),
            how: self.clone(),
            calls: Vec::new(),
            options: Vec::new(),
            norms: Vec::new(),
            operands: PhantomData,
        }
    }
}

impl<'a> Batch<'a> {
    /// Makes the calls that follow with the algorithm, the factor and the limit of blocks of
    /// another handle to the same group.
    pub fn with(&mut self, group: &Group) -> Result<&mut Self> {
        if !Arc::ptr_eq(&group.shared, &self.group.shared) {
            return Err(Error::argument("the handle is to another group".to_owned()));
        }
        self.how = group.clone();
        Ok(self)
    }

    /// The number of calls so far.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is no call yet.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Makes the calls. Errors: those of the collectives. With `InvalidArgument` and `Unsupported`
    /// the message names the call, from `calls[0]` on, and nothing has happened; so it does with
    /// `Mismatch`, and after this and all other errors the group is revoked.
    pub fn submit(mut self) -> Result<()> {
        for (call, options) in self.calls.iter_mut().zip(&self.options) {
            call.options = options;
        }
        for (i, norm) in &self.norms {
            let call = &mut self.calls[*i];
            call.fused = ptr::from_ref(norm).cast();
            call.fused_version = sys::SYMM_FUSED_VERSION;
        }

        let group = self.group.as_raw();
        let options = sys::symm_batch_options_t {
            timeout_ms: self.group.timeout.as_millis(),
            tag: as_pointer(self.group.tag.as_deref()),
            ..Default::default()
        };
        // SAFETY: the handle is alive, the operands of the calls are borrowed and have as many
        // elements as they take, and the other addresses are those of vectors of this batch.
        acting(options, |api, o| unsafe {
            api.symm_batch(
                group,
                self.calls.as_ptr(),
                self.calls.len(),
                o,
                self.group.stream.as_raw(),
            )
        })
    }

    /// Notes a call. `result` is the type of the result if it differs from that of the operands,
    /// else 0.
    fn note(&mut self, call: symm_collective_call_t, result: i32) -> &mut Self {
        self.calls.push(call);
        self.options.push(sys::symm_collective_options_t {
            timeout_ms: 0,
            tag: ptr::null(),
            ..self.how.options(result)
        });
        self
    }

    fn call_of<T: Element, U: Element>(
        what: Collective,
        send: &Operand<T>,
        recv: &Operand<U>,
    ) -> symm_collective_call_t {
        symm_collective_call_t {
            collective: what.as_raw(),
            send: send.pointer(),
            recv: recv.pointer(),
            dtype: T::DTYPE,
            ..Default::default()
        }
    }

    fn apart<S, R>(
        &mut self,
        what: Collective,
        send: &'a S,
        recv: &'a mut R,
        op: Op,
        root: usize,
    ) -> Result<&mut Self>
    where
        S: Source + ?Sized,
        R: Target + ?Sized,
    {
        let (send, recv) = self.group.both(send, recv)?;
        let count = self.group.count_of(what, send.len(), recv.len(), root)?;
        let result = if S::Element::DTYPE == R::Element::DTYPE {
            0
        } else {
            R::Element::DTYPE
        };
        let call = symm_collective_call_t {
            count,
            op: op.as_raw(),
            root: index(root),
            ..Self::call_of(what, &send, &recv)
        };
        Ok(self.note(call, result))
    }

    fn in_place<D: Target + ?Sized>(
        &mut self,
        what: Collective,
        data: &'a mut D,
        op: Op,
        root: usize,
    ) -> Result<&mut Self> {
        let whole = data
            .operand_mut()
            .on(&self.group.shared, &self.group.stream)?;
        let (send, recv, count) = self.group.parts_in_place(what, whole, root)?;
        let call = symm_collective_call_t {
            count,
            op: op.as_raw(),
            root: index(root),
            ..Self::call_of(what, &send, &recv)
        };
        Ok(self.note(call, 0))
    }

    /// [`Group::allreduce`].
    pub fn allreduce<S: Source + ?Sized, R: Target + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        op: Op,
    ) -> Result<&mut Self>
    where
        S::Element: Reduces<R::Element>,
    {
        self.apart(Collective::Allreduce, send, recv, op, 0)
    }

    /// [`Group::allreduce_in_place`].
    pub fn allreduce_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        op: Op,
    ) -> Result<&mut Self> {
        self.in_place(Collective::Allreduce, data, op, 0)
    }

    /// [`Group::reduce_scatter`].
    pub fn reduce_scatter<S: Source + ?Sized, R: Target + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        op: Op,
    ) -> Result<&mut Self>
    where
        S::Element: Reduces<R::Element>,
    {
        self.apart(Collective::ReduceScatter, send, recv, op, 0)
    }

    /// [`Group::reduce_scatter_in_place`].
    pub fn reduce_scatter_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        op: Op,
    ) -> Result<&mut Self> {
        self.in_place(Collective::ReduceScatter, data, op, 0)
    }

    /// [`Group::allgather`].
    pub fn allgather<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
    ) -> Result<&mut Self> {
        self.apart(Collective::Allgather, send, recv, Op::Sum, 0)
    }

    /// [`Group::allgather_in_place`].
    pub fn allgather_in_place<D: Target + ?Sized>(&mut self, data: &'a mut D) -> Result<&mut Self> {
        self.in_place(Collective::Allgather, data, Op::Sum, 0)
    }

    /// [`Group::broadcast`].
    pub fn broadcast<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        root: usize,
    ) -> Result<&mut Self> {
        self.apart(Collective::Broadcast, send, recv, Op::Sum, root)
    }

    /// [`Group::broadcast_in_place`].
    pub fn broadcast_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        root: usize,
    ) -> Result<&mut Self> {
        self.in_place(Collective::Broadcast, data, Op::Sum, root)
    }

    /// [`Group::reduce`].
    pub fn reduce<S: Source + ?Sized, R: Target + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        op: Op,
        root: usize,
    ) -> Result<&mut Self>
    where
        S::Element: Reduces<R::Element>,
    {
        self.apart(Collective::Reduce, send, recv, op, root)
    }

    /// [`Group::reduce_in_place`].
    pub fn reduce_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        op: Op,
        root: usize,
    ) -> Result<&mut Self> {
        self.in_place(Collective::Reduce, data, op, root)
    }

    /// [`Group::scan`].
    pub fn scan<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        op: Op,
    ) -> Result<&mut Self> {
        self.apart(Collective::Scan, send, recv, op, 0)
    }

    /// [`Group::scan_in_place`].
    pub fn scan_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        op: Op,
    ) -> Result<&mut Self> {
        self.in_place(Collective::Scan, data, op, 0)
    }

    /// [`Group::exscan`].
    pub fn exscan<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        op: Op,
    ) -> Result<&mut Self> {
        self.apart(Collective::Exscan, send, recv, op, 0)
    }

    /// [`Group::exscan_in_place`].
    pub fn exscan_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        op: Op,
    ) -> Result<&mut Self> {
        self.in_place(Collective::Exscan, data, op, 0)
    }

    /// [`Group::alltoall`].
    pub fn alltoall<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
    ) -> Result<&mut Self> {
        self.apart(Collective::Alltoall, send, recv, Op::Sum, 0)
    }

    /// [`Group::alltoall_in_place`].
    pub fn alltoall_in_place<D: Target + ?Sized>(&mut self, data: &'a mut D) -> Result<&mut Self> {
        self.in_place(Collective::Alltoall, data, Op::Sum, 0)
    }

    /// [`Group::gather`].
    pub fn gather<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        root: usize,
    ) -> Result<&mut Self> {
        self.apart(Collective::Gather, send, recv, Op::Sum, root)
    }

    /// [`Group::gather_in_place`].
    pub fn gather_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        root: usize,
    ) -> Result<&mut Self> {
        self.in_place(Collective::Gather, data, Op::Sum, root)
    }

    /// [`Group::scatter`].
    pub fn scatter<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        root: usize,
    ) -> Result<&mut Self> {
        self.apart(Collective::Scatter, send, recv, Op::Sum, root)
    }

    /// [`Group::scatter_in_place`].
    pub fn scatter_in_place<D: Target + ?Sized>(
        &mut self,
        data: &'a mut D,
        root: usize,
    ) -> Result<&mut Self> {
        self.in_place(Collective::Scatter, data, Op::Sum, root)
    }

    // ---- blocks of lengths of their own

    fn blocks<T: Element>(
        &mut self,
        what: Collective,
        (send, of_send): (Operand<T>, Blocks<'a>),
        (recv, of_recv): (Operand<T>, Blocks<'a>),
        op: Op,
    ) -> &mut Self {
        let (send_counts, send_displacements) = of_send.raw();
        let (recv_counts, recv_displacements) = of_recv.raw();
        let call = symm_collective_call_t {
            send_counts,
            send_displacements,
            recv_counts,
            recv_displacements,
            op: op.as_raw(),
            ..Self::call_of(what, &send, &recv)
        };
        self.note(call, 0)
    }

    /// [`Group::allgatherv`].
    pub fn allgatherv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        of_recv: Blocks<'a>,
    ) -> Result<&mut Self> {
        let (send, recv) = self.group.gathered_blocks(send, recv, of_recv)?;
        let to = (recv, of_recv);
        Ok(self.blocks(Collective::Allgatherv, (send, NONE), to, Op::Sum))
    }

    /// [`Group::reduce_scatterv`].
    pub fn reduce_scatterv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        of_send: Blocks<'a>,
        recv: &'a mut R,
        op: Op,
    ) -> Result<&mut Self> {
        let (send, recv) = self.group.scattered_blocks(send, of_send, recv)?;
        let from = (send, of_send);
        Ok(self.blocks(Collective::ReduceScatterv, from, (recv, NONE), op))
    }

    /// [`Group::gatherv`].
    pub fn gatherv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        of_recv: Blocks<'a>,
        root: usize,
    ) -> Result<&mut Self> {
        let (send, recv) = self.group.both(send, recv)?;
        let (of_all, of_rank) = (("recv", recv.len()), ("send", send.len()));
        self.group.require_of_root(of_all, of_recv, of_rank, root)?;
        let (recv_counts, recv_displacements) = of_recv.raw();
        let call = symm_collective_call_t {
            count: send.len(),
            recv_counts,
            recv_displacements,
            root: index(root),
            ..Self::call_of(Collective::Gatherv, &send, &recv)
        };
        Ok(self.note(call, 0))
    }

    /// [`Group::scatterv`].
    pub fn scatterv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        of_send: Blocks<'a>,
        recv: &'a mut R,
        root: usize,
    ) -> Result<&mut Self> {
        let (send, recv) = self.group.both(send, recv)?;
        let (of_all, of_rank) = (("send", send.len()), ("recv", recv.len()));
        self.group.require_of_root(of_all, of_send, of_rank, root)?;
        let (send_counts, send_displacements) = of_send.raw();
        let call = symm_collective_call_t {
            count: recv.len(),
            send_counts,
            send_displacements,
            root: index(root),
            ..Self::call_of(Collective::Scatterv, &send, &recv)
        };
        Ok(self.note(call, 0))
    }

    /// [`Group::alltoallv`].
    pub fn alltoallv<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        of_send: Blocks<'a>,
        recv: &'a mut R,
        of_recv: Blocks<'a>,
    ) -> Result<&mut Self> {
        let (send, recv) = self.group.exchanged_blocks(send, of_send, recv, of_recv)?;
        let from = (send, of_send);
        Ok(self.blocks(Collective::Alltoallv, from, (recv, of_recv), Op::Sum))
    }

    /// [`Group::alltoallv_device`].
    pub fn alltoallv_device<S, R, N>(
        &mut self,
        send: &'a S,
        of_send: (&'a N, &'a N),
        recv: &'a mut R,
        of_recv: (&'a N, &'a N),
    ) -> Result<&mut Self>
    where
        S: Source + ?Sized,
        R: TargetOf<S> + ?Sized,
        N: Source<Element = u64> + ?Sized,
    {
        let (send, recv) = self.group.both(send, recv)?;
        let lists = self.group.device_lists(of_send, of_recv)?;
        let call = symm_collective_call_t {
            send_counts: lists[0].cast(),
            send_displacements: lists[1].cast(),
            recv_counts: lists[2].cast(),
            recv_displacements: lists[3].cast(),
            flags: sys::SYMM_CALL_DEVICE_COUNTS,
            send_capacity: send.len(),
            recv_capacity: recv.len(),
            ..Self::call_of(Collective::Alltoallv, &send, &recv)
        };
        Ok(self.note(call, 0))
    }

    /// [`Group::allgather_rows`].
    pub fn allgather_rows<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        rows: usize,
        recv_stride: usize,
    ) -> Result<&mut Self> {
        let (send, recv) = self.group.both(send, recv)?;
        let of_rank = ("send", send.len());
        let of_all = ("recv", recv.len());
        let count = self
            .group
            .count_of_row(of_rank, of_all, rows, recv_stride)?;
        let call = symm_collective_call_t {
            rows,
            count,
            recv_stride,
            ..Self::call_of(Collective::AllgatherRows, &send, &recv)
        };
        Ok(self.note(call, 0))
    }

    /// [`Group::reduce_scatter_rows`].
    pub fn reduce_scatter_rows<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &mut self,
        send: &'a S,
        recv: &'a mut R,
        rows: usize,
        send_stride: usize,
        op: Op,
    ) -> Result<&mut Self> {
        let (send, recv) = self.group.both(send, recv)?;
        let of_rank = ("recv", recv.len());
        let of_all = ("send", send.len());
        let count = self
            .group
            .count_of_row(of_rank, of_all, rows, send_stride)?;
        let call = symm_collective_call_t {
            rows,
            count,
            send_stride,
            op: op.as_raw(),
            ..Self::call_of(Collective::ReduceScatterRows, &send, &recv)
        };
        Ok(self.note(call, 0))
    }

    /// [`Group::allreduce_rmsnorm`].
    pub fn allreduce_rmsnorm<S, W>(
        &mut self,
        send: &'a S,
        norm: RmsNorm<'a, S::Element, W>,
    ) -> Result<&mut Self>
    where
        S: Source + ?Sized,
        W: Element,
    {
        let (send, rows, hidden, norm) = self.group.normed(send, norm)?;
        let call = symm_collective_call_t {
            recv: ptr::null_mut(),
            rows,
            count: hidden,
            ..Self::call_of(Collective::AllreduceRmsnorm, &send, &send)
        };
        self.norms.push((self.calls.len(), norm));
        Ok(self.note(call, 0))
    }
}
