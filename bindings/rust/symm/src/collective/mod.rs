//! Collectives: what all ranks do together.

mod blocks;
mod in_place;
mod operand;
mod plan;
mod rmsnorm;

pub use blocks::Blocks;
pub use operand::{Operand, Place, Raw, Source, Target, TargetOf};
pub use plan::Plan;
pub use rmsnorm::RmsNorm;

use crate::convert::index;
use crate::error::{Called, Error, Result, call};
use crate::group::NO_FACTOR;
use crate::{Algorithm, Collective, Element, Group, Op, Reduces, Timeout};
use std::ptr;
use symm_sys::{self as sys, Api};

type Pair<T, U> = (Operand<T>, Operand<U>);

/// # Collectives
///
/// All ranks make the same calls in the same order, with the same type, op, root and lengths. Operands may be any memory of the kind
/// that the group works on; [`Span`](crate::Span)s of a memory of this group are used without a copy. Some ranks may pass spans and
/// others not, at different offsets. A reduction of narrow floats into `f32` is not rounded ([`Reduces`]).
///
/// # Errors of all collectives
/// All return `InvalidArgument` (lengths that do not fit, root, overlap, an algorithm that cannot do it), after which nothing has
/// happened, or `Timeout`, `PeerFailed`, `Aborted`, `Mismatch`, after which the group is revoked and what was to be written is undefined.
impl Group {
    /// `recv[i] = op over all ranks of send[i]`, on every rank.
    #[inline]
    pub fn allreduce<S: Source + ?Sized, R: Target + ?Sized>(&self, send: &S, recv: &mut R, op: Op) -> Result<()>
    where
        S::Element: Reduces<R::Element>,
    {
        let (send, recv) = self.both(send, recv)?;
        same(send.len(), recv.len())?;
        // SAFETY: both operands have `recv.len()` elements.
        unsafe { self.run(Collective::Allreduce, send, recv, recv.len(), op, 0) }
    }

    /// `recv[i] = op over all ranks of send[rank * recv.len() + i]`; `send` is [`size`](Self::size) times as long as `recv`.
    pub fn reduce_scatter<S: Source + ?Sized, R: Target + ?Sized>(&self, send: &S, recv: &mut R, op: Op) -> Result<()>
    where
        S::Element: Reduces<R::Element>,
    {
        let (send, recv) = self.both(send, recv)?;
        self.all_parts("send", send.len(), "recv", recv.len())?;
        // SAFETY: the operands have `size * recv.len()` and `recv.len()` elements.
        unsafe { self.run(Collective::ReduceScatter, send, recv, recv.len(), op, 0) }
    }

    /// `recv[r * send.len() + i] = send[i] of rank r`; `recv` is [`size`](Self::size) times as long as `send`.
    pub fn allgather<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(&self, send: &S, recv: &mut R) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        self.all_parts("recv", recv.len(), "send", send.len())?;
        // SAFETY: the operands have `send.len()` and `size * send.len()` elements.
        unsafe { self.run(Collective::Allgather, send, recv, send.len(), Op::Sum, 0) }
    }

    /// `recv[i] = send[i] of the root`; other ranks' `send` is not read and may be empty.
    pub fn broadcast<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(&self, send: &S, recv: &mut R, root: usize) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        if self.rank() == root || send.len() != 0 {
            same(send.len(), recv.len())?;
        }
        // SAFETY: `recv` has `recv.len()` elements, and so has `send` where it is read.
        unsafe { self.run(Collective::Broadcast, send, recv, recv.len(), Op::Sum, root) }
    }

    /// `recv[i] = op over all ranks of send[i]`, on the root; other ranks' `recv` is not written and may be empty.
    pub fn reduce<S: Source + ?Sized, R: Target + ?Sized>(&self, send: &S, recv: &mut R, op: Op, root: usize) -> Result<()>
    where
        S::Element: Reduces<R::Element>,
    {
        let (send, recv) = self.both(send, recv)?;
        if self.rank() == root || recv.len() != 0 {
            same(send.len(), recv.len())?;
        }
        // SAFETY: `send` has `send.len()` elements, and so has `recv` where it is written.
        unsafe { self.run(Collective::Reduce, send, recv, send.len(), op, root) }
    }

    /// `recv[r * n + i] = send[rank * n + i] of rank r`, where both have `size * n` elements.
    pub fn alltoall<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(&self, send: &S, recv: &mut R) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        same(send.len(), recv.len())?;
        let count = self.part(recv.len())?;
        // SAFETY: both operands have `size * count` elements.
        unsafe { self.run(Collective::Alltoall, send, recv, count, Op::Sum, 0) }
    }

    /// Both operands, if the group can reach them.
    #[inline]
    fn both<S: Source + ?Sized, R: Target + ?Sized>(&self, send: &S, recv: &mut R) -> Result<Pair<S::Element, R::Element>> {
        Ok((send.operand().on(&self.shared, &self.stream)?, recv.operand_mut().on(&self.shared, &self.stream)?))
    }

    /// A collective of C; `op` and `root` are of no account where it has none.
    ///
    /// # Safety
    /// The operands have the elements that the collective reads and writes for `count`.
    #[inline]
    unsafe fn run<T: Element, U: Element>(
        &self, what: Collective, send: Operand<T>, recv: Operand<U>, count: usize, op: Op, root: usize,
    ) -> Result<()> {
        let (group, send, recv, stream) = (self.as_raw(), send.pointer(), recv.pointer(), self.stream.as_raw());
        let (dtype, op, root) = (T::DTYPE, op.as_raw(), index(root));
        // SAFETY: the handle is alive, and the caller vouches for the operands.
        let one = |api: &Api, o| unsafe {
            match what {
                Collective::Allreduce => api.symm_allreduce(group, send, recv, count, dtype, op, o, stream),
                Collective::ReduceScatter => api.symm_reduce_scatter(group, send, recv, count, dtype, op, o, stream),
                Collective::Allgather => api.symm_allgather(group, send, recv, count, dtype, o, stream),
                Collective::Broadcast => api.symm_broadcast(group, send, recv, count, dtype, root, o, stream),
                Collective::Reduce => api.symm_reduce(group, send, recv, count, dtype, op, root, o, stream),
                Collective::Gather => api.symm_gather(group, send, recv, count, dtype, root, o, stream),
                Collective::Scatter => api.symm_scatter(group, send, recv, count, dtype, root, o, stream),
                _ => api.symm_alltoall(group, send, recv, count, dtype, o, stream),
            }
        };
        let result = if T::DTYPE == U::DTYPE { 0 } else { U::DTYPE };
        self.issue(result, one)
    }

    /// A call with the options of this handle.
    #[inline]
    fn issue(&self, result: i32, one: impl FnOnce(&Api, *const sys::symm_collective_options_t) -> Called) -> Result<()> {
        call(|api| self.options(result, |options| one(api, options)))
    }

    /// Passes the options of this handle, NULL if they are the defaults.
    #[inline]
    fn options<X>(&self, result: i32, function: impl FnOnce(*const sys::symm_collective_options_t) -> X) -> X {
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
            return Err(Error::argument(format!("{whole} elements cannot be divided among {} ranks", self.size())));
        }
        Ok(whole / self.size())
    }

    fn all_parts(&self, long: &str, whole: usize, short: &str, part: usize) -> Result<()> {
        if part.checked_mul(self.size()) != Some(whole) {
            let size = self.size();
            return Err(Error::argument(format!("{long} has {whole} elements, not {size} (ranks) times the {part} of {short}")));
        }
        Ok(())
    }
}

#[inline]
fn same(send: usize, recv: usize) -> Result<()> {
    if send == recv {
        return Ok(());
    }
    Err(Error::argument(format!("send has {send} elements and recv {recv}")))
}
