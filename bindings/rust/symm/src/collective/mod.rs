//! Collectives: what all ranks do together, and which algorithm that would use.

mod blocks;

pub use blocks::Blocks;

use crate::convert::{filled, index};
use crate::error::{Called, Error, Result, call};
use crate::group::NO_FACTOR;
use crate::operand::{Operand, Source, Target, TargetOf};
use crate::{Algorithm, Collective, Element, F8E4M3, Group, Op, Reduces, Timeout};
use std::ffi::c_void;
use std::ptr;
use symm_sys::{self as sys, Api};

type Pair<T, U> = (Operand<T>, Operand<U>);

/// # Collectives
///
/// All ranks make the same calls in the same order, with the same type, op, root and
/// lengths. Operands may be any memory of the kind that the group works on;
/// [`Span`](crate::Span)s of a memory of this group are used without a copy. Some ranks
/// may pass spans and others not, at different offsets. A reduction of narrow floats
/// into `f32` is not rounded ([`Reduces`]).
///
/// # Errors of all collectives All return `InvalidArgument` (lengths that do not fit,
/// root, overlap, an algorithm that cannot do it), after which nothing has happened, or
/// `Timeout`, `PeerFailed`, `Aborted`, `Mismatch`, after which the group is revoked and
/// what was to be written is undefined.
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

    /// `recv[r * send.len() + i] = send[i] of rank r`; `recv`
    /// is [`size`](Self::size) times as long as `send`.
    pub fn allgather<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
    ) -> Result<()> {
        self.apart(Collective::Allgather, send, recv, Op::Sum, 0)
    }

    /// `recv[i] = send[i] of the root`; other ranks' `send` is not read and may be empty.
    pub fn broadcast<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
        root: usize,
    ) -> Result<()> {
        self.apart(Collective::Broadcast, send, recv, Op::Sum, root)
    }

    /// `recv[i] = op over all ranks of send[i]`, on the root;
    /// other ranks' `recv` is not written and may be empty.
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

    /// `recv[r * n + i] = send[rank * n + i] of rank r`, where both have `size * n` elements.
    pub fn alltoall<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        send: &S,
        recv: &mut R,
    ) -> Result<()> {
        self.apart(Collective::Alltoall, send, recv, Op::Sum, 0)
    }

    /// On two operands, which have the lengths that go together; what is not read or
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
        let (sent, received, at_root) = (send.len(), recv.len(), self.rank() == root);
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
            _ => same(sent, received)?,
        }
        let count = match what {
            Collective::Allgather | Collective::Gather | Collective::Reduce => sent,
            Collective::Alltoall => self.part(received)?,
            _ => received,
        };
        // SAFETY: the operands have as many elements as
        // the collective reads and writes on this rank.
        unsafe { self.run(what, send, recv, count, op, root) }
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

    /// A collective of C; `op` and `root` are of no account where it has none.
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
        let (group, send, recv, stream) = (
            self.as_raw(),
            send.pointer(),
            recv.pointer(),
            self.stream.as_raw(),
        );
        let (dtype, op, root) = (T::DTYPE, op.as_raw(), index(root));
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

    /// A call with the options of this handle.
    #[inline]
    fn issue(
        &self,
        result: i32,
        one: impl FnOnce(&Api, *const sys::symm_collective_options_t) -> Called,
    ) -> Result<()> {
        call(|api| self.options(result, |options| one(api, options)))
    }

    /// Passes the options of this handle, NULL if they are the defaults.
    #[inline]
    fn options<X>(
        &self,
        result: i32,
        function: impl FnOnce(*const sys::symm_collective_options_t) -> X,
    ) -> X {
        let plain = result == 0 && self.factor == NO_FACTOR;
        if plain && self.algorithm == Algorithm::Auto && self.timeout == Timeout::Group {
            return function(ptr::null());
        }
        let options = sized!(symm_collective_options_t: algorithm = self.algorithm.as_raw(),
            timeout_ms = self.timeout.as_millis(), scale_position = self.factor.0.as_raw(), result_dtype = result,
            scale = self.factor.1, scale_pointer = self.factor.2 as *const std::ffi::c_void);
        function(&options)
    }

    /// Length of one rank's part of an operand that has one for each.
    fn part(&self, whole: usize) -> Result<usize> {
        if whole % self.size() != 0 {
            return Err(Error::argument(format!(
                "{whole} elements cannot be divided among {} ranks",
                self.size()
            )));
        }
        Ok(whole / self.size())
    }

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
fn same(send: usize, recv: usize) -> Result<()> {
    if send == recv {
        return Ok(());
    }
    Err(Error::argument(format!(
        "send has {send} elements and recv {recv}"
    )))
}

/// # Collectives in place
///
/// As [the others](Group#collectives), on one operand.
impl Group {
    /// `data[i] = op over all ranks of data[i]`, on every rank.
    #[inline]
    pub fn allreduce_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        self.in_place(Collective::Allreduce, data, op, 0)
    }

    /// Reduces `data`, of which this rank receives its part:
    /// `data[rank * n + i]`, where `data` has `size * n`
    /// elements. The rest of `data` is undefined afterwards.
    pub fn reduce_scatter_in_place<D: Target + ?Sized>(&self, data: &mut D, op: Op) -> Result<()> {
        self.in_place(Collective::ReduceScatter, data, op, 0)
    }

    /// Gathers everybody's part into `data`, which has `size * n` elements. This rank's
    /// own part is there before the call, at `data[rank * n + i]`.
    pub fn allgather_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        self.in_place(Collective::Allgather, data, Op::Sum, 0)
    }

    /// `data[i] = data[i] of the root`.
    pub fn broadcast_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        self.in_place(Collective::Broadcast, data, Op::Sum, root)
    }

    /// `data[i] = op over all ranks of data[i]`, on the root; other ranks' `data` is only read.
    pub fn reduce_in_place<D: Target + ?Sized>(
        &self,
        data: &mut D,
        op: Op,
        root: usize,
    ) -> Result<()> {
        self.in_place(Collective::Reduce, data, op, root)
    }

    /// `data[r * n + i] = data[rank * n + i] of rank r`, where `data` has `size * n` elements.
    pub fn alltoall_in_place<D: Target + ?Sized>(&self, data: &mut D) -> Result<()> {
        self.in_place(Collective::Alltoall, data, Op::Sum, 0)
    }

    /// Gathers everybody's part on the root, in `data` of `size * n`
    /// elements, of which its own part is there before the call.
    /// Elsewhere `data` is the part: n elements, which are only read.
    pub fn gather_in_place<D: Target + ?Sized>(&self, data: &mut D, root: usize) -> Result<()> {
        self.in_place(Collective::Gather, data, Op::Sum, root)
    }

    /// The other way: the root keeps its own part of `data`, of `size * n` elements,
    /// and sends the others. Elsewhere `data` receives n.
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
        let divided = match what {
            Collective::Allreduce | Collective::Broadcast | Collective::Reduce => false,
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
        // SAFETY: the operand has `size * count` elements
        // where it is divided, and `count` elsewhere.
        unsafe { self.run(what, send, recv, count, op, root) }
    }
}

type In<'a, T> = Option<&'a dyn Source<Element = T>>;
type Out<'a, T> = Option<&'a mut dyn Target<Element = T>>;

/// What [`Group::allreduce_rmsnorm`] adds to the sum, how it normalises, and where
/// results go. The arithmetic is that of `symm.h`.
pub struct RmsNorm<'a, T: Element, W: Element> {
    weight: &'a dyn Source<Element = W>,
    /// Added to the sum; of the length of `send`, as all matrices.
    pub residual_in: In<'a, T>,
    /// Receives the sum with it.
    pub residual_out: Out<'a, T>,
    /// Both of these: added to the sum, which takes its place.
    pub residual: Out<'a, T>,
    /// Receives the normalised rows.
    pub norm_out: Out<'a, T>,
    /// Receives these, divided by their scale.
    pub quant_out: Out<'a, F8E4M3>,
    /// The scale of all, one number that is read when the call runs; or
    pub scale_in: In<'a, f32>,
    /// receives scales: one for each row, or for 128 elements of one.
    pub scale_out: Out<'a, f32>,
    /// Added to the mean of squares.
    pub epsilon: f32,
    /// Added to each weight.
    pub weight_offset: f32,
}

impl<'a, T: Element, W: Element> RmsNorm<'a, T, W> {
    /// With weights as long as a row, and nothing else.
    pub fn new(weight: &'a dyn Source<Element = W>) -> Self {
        let (residual_in, residual_out, residual, norm_out, quant_out, scale_in, scale_out) =
            Default::default();
        let (epsilon, weight_offset) = (1e-6, 0.0);
        Self {
            weight,
            residual_in,
            residual_out,
            residual,
            norm_out,
            quant_out,
            scale_in,
            scale_out,
            epsilon,
            weight_offset,
        }
    }
}

impl Group {
    /// The sum of all ranks' `send`, rows as long as the
    /// weight, with a residual and RMSNorm, in one kernel.
    pub fn allreduce_rmsnorm<S, W>(&self, send: &S, norm: RmsNorm<'_, S::Element, W>) -> Result<()>
    where
        S: Source + ?Sized,
        W: Element,
    {
        let send = send.operand().on(&self.shared, &self.stream)?;
        let weight = norm.weight.operand().on(&self.shared, &self.stream)?;
        let (all, hidden) = (send.len(), weight.len());
        let rows = all.checked_div(hidden).unwrap_or(0);
        if rows * hidden != all || hidden == 0 {
            return Err(Error::argument(format!(
                "send has {all} elements, which are not rows of {hidden}"
            )));
        }
        let both = self.of_norm("residual", norm.residual.map(|to| to.operand_mut()), all)?;
        let residual_in =
            self.of_norm("residual_in", norm.residual_in.map(Source::operand), all)?;
        let residual_out = self.of_norm(
            "residual_out",
            norm.residual_out.map(|to| to.operand_mut()),
            all,
        )?;
        let scales = norm.scale_out.map(|to| to.operand_mut());
        let by_group = scales.is_some_and(|scales| scales.len() != rows);
        let norm = sys::symm_rmsnorm_t {
            struct_size: size_of::<sys::symm_rmsnorm_t>(),
            residual_in: if both.is_null() { residual_in } else { both },
            residual_out: if both.is_null() { residual_out } else { both },
            norm_out: self.of_norm("norm_out", norm.norm_out.map(|to| to.operand_mut()), all)?,
            weight: weight.pointer(),
            weight_dtype: W::DTYPE,
            epsilon: f64::from(norm.epsilon),
            weight_offset: f64::from(norm.weight_offset),
            scale_kind: match (by_group, scales.is_some()) {
                (true, _) => sys::SYMM_QUANT_SCALE_GROUP,
                (_, true) => sys::SYMM_QUANT_SCALE_TOKEN,
                _ => sys::SYMM_QUANT_SCALE_TENSOR,
            },
            quant_out: self.of_norm("quant_out", norm.quant_out.map(|to| to.operand_mut()), all)?,
            scale_in: self.of_norm("scale_in", norm.scale_in.map(Source::operand), 1)?,
            scale_out: self.of_norm(
                "scale_out",
                scales,
                if by_group { all / 128 } else { rows },
            )?,
        };
        let (group, stream, dtype) = (self.as_raw(), self.stream.as_raw(), S::Element::DTYPE);
        // SAFETY: operands are as long as the call takes them to be.
        self.issue(0, |api, o| unsafe {
            api.symm_allreduce_rmsnorm(group, send.pointer(), rows, hidden, dtype, &norm, o, stream)
        })
    }

    fn of_norm<T: Element>(
        &self,
        name: &str,
        operand: Option<Operand<T>>,
        needed: usize,
    ) -> Result<*mut c_void> {
        let Some(operand) = operand else {
            return Ok(ptr::null_mut());
        };
        let operand = operand.on(&self.shared, &self.stream)?;
        if operand.len() == needed {
            return Ok(operand.pointer());
        }
        Err(Error::argument(format!(
            "{name} has {} elements, not {needed}",
            operand.len()
        )))
    }
}

known! {
    /// The algorithm chosen for a call, and why.
    pub struct Plan of symm_plan_info_t {
        pub algorithm: Algorithm = "What would be used.";
        pub slices: usize = "Parts into which the work is divided among the ranks.";
        pub chunk_bytes: u64 = "Bytes moved per step and rank when staged, else 0.";
        pub nontemporal: bool = "Whether results bypass the cache.";
        pub reason: String = "The reason, in words.";
    }
}

/// The call, and the type of its result where that is another.
type Asked = (sys::symm_collective_call_t, i32);

impl Group {
    /// Which algorithm a collective would use if every rank passed memory
    /// like this rank's. `count` is that of the C call: elements of `recv`
    /// for reduce-scatter, of `send` for all-gather, of one rank's part for
    /// all-to-all; `op` and `root` are ignored where it has none. A local
    /// call. Errors: `InvalidArgument`, as the collective would answer.
    pub fn plan<S, R>(
        &self,
        collective: Collective,
        send: &S,
        recv: &R,
        count: usize,
        op: Op,
        root: usize,
    ) -> Result<Plan>
    where
        S: Source + ?Sized,
        R: Source + ?Sized,
        S::Element: Reduces<R::Element>,
    {
        let (asked, result) = self.asked(collective, send, recv, (count, op, root))?;
        self.ask(&asked, result)
    }

    /// The same for collectives with counts, whose blocks are those of the call;
    /// [`Blocks::packed`]`(&[])` where it has none.
    pub fn plan_blocks<S: Source + ?Sized, R: Source + ?Sized>(
        &self,
        collective: Collective,
        send: &S,
        of_send: Blocks<'_>,
        recv: &R,
        of_recv: Blocks<'_>,
        op: Op,
    ) -> Result<Plan> {
        let (mut asked, result) = self.asked(collective, send, recv, (0, op, 0))?;
        (asked.send_counts, asked.send_displacements) = of_send.for_plan("send", self)?;
        (asked.recv_counts, asked.recv_displacements) = of_recv.for_plan("recv", self)?;
        self.ask(&asked, result)
    }

    /// The same for [`allgather_rows`](Self::allgather_rows).
    pub fn plan_rows<S, R>(
        &self,
        send: &S,
        recv: &R,
        rows: usize,
        recv_stride: usize,
    ) -> Result<Plan>
    where
        S: Source + ?Sized,
        R: Source<Element = S::Element> + ?Sized,
    {
        let count = send.operand().len().checked_div(rows).unwrap_or(0);
        let (mut asked, result) =
            self.asked(Collective::AllgatherRows, send, recv, (count, Op::Sum, 0))?;
        (asked.rows, asked.recv_stride) = (rows, recv_stride);
        self.ask(&asked, result)
    }

    fn asked<S, R>(
        &self,
        what: Collective,
        send: &S,
        recv: &R,
        (count, op, root): (usize, Op, usize),
    ) -> Result<Asked>
    where
        S: Source + ?Sized,
        R: Source + ?Sized,
    {
        let result = if S::Element::DTYPE == R::Element::DTYPE {
            0
        } else {
            R::Element::DTYPE
        };
        let asked = sized!(symm_collective_call_t: collective = what.as_raw(),
            send = send.operand().on(&self.shared, &self.stream)?.pointer(),
            recv = recv.operand().on(&self.shared, &self.stream)?.pointer(), count = count, dtype = S::Element::DTYPE,
            op = op.as_raw(), root = index(root));
        Ok((asked, result))
    }

    fn ask(&self, asked: &sys::symm_collective_call_t, result: i32) -> Result<Plan> {
        // SAFETY: the handle is alive, the addresses are only looked at; a struct of
        // symm.h, and the function that fills it.
        let plan = unsafe {
            filled(|api, out| {
                self.options(result, |o| {
                    api.symm_collective_plan(self.as_raw(), asked, o, out)
                })
            })
        };
        plan.map(Plan::from)
    }
}
