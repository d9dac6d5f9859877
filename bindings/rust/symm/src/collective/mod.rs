// SPDX-License-Identifier: Apache-2.0
//! Collectives: what all ranks do together.

mod in_place;
mod operand;
mod plan;

pub use operand::{Operand, Place, Raw, Source, Target};
pub use plan::Plan;

use crate::convert::index;
use crate::error::{Called, Error, Result, call};
use crate::{Algorithm, Element, Group, Op, Timeout};
use std::ffi::c_void;
use std::ptr;
use symm_sys::{self as sys, Api, symm_group};

type Pair<T> = (Operand<T>, Operand<T>);

/// # Collectives
///
/// All ranks make the same calls in the same order, with the same type, op, root and lengths. Operands may be any memory of the kind
/// that the group works on; [`Span`](crate::Span)s of a memory of this group are used without a copy. Some ranks may pass spans and
/// others not, at different offsets.
///
/// # Errors of all collectives
/// All return `InvalidArgument` (lengths that do not fit, root, overlap, an algorithm that cannot do it), after which nothing has
/// happened, or `Timeout`, `PeerFailed`, `Aborted`, `Mismatch`, after which the group is revoked and what was to be written is undefined.
impl Group {
    /// `recv[i] = op over all ranks of send[i]`, on every rank.
    #[inline]
    pub fn allreduce<S, R>(&self, send: &S, recv: &mut R, op: Op) -> Result<()>
    where
        S: Source + ?Sized,
        R: Target<Element = S::Element> + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        same(send.len(), recv.len())?;
        let (count, dtype) = (recv.len(), S::Element::DTYPE);
        // SAFETY: the handle is alive, and both operands have `count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_allreduce(group, send.pointer(), recv.pointer(), count, dtype, op.as_raw(), o, stream)
        })
    }

    /// `recv[i] = op over all ranks of send[rank * recv.len() + i]`; `send` is [`size`](Self::size) times as long as `recv`.
    pub fn reduce_scatter<S, R>(&self, send: &S, recv: &mut R, op: Op) -> Result<()>
    where
        S: Source + ?Sized,
        R: Target<Element = S::Element> + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        self.all_parts("send", send.len(), "recv", recv.len())?;
        let (count, dtype) = (recv.len(), S::Element::DTYPE);
        // SAFETY: the handle is alive, and the operands have `size * count` and `count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_reduce_scatter(group, send.pointer(), recv.pointer(), count, dtype, op.as_raw(), o, stream)
        })
    }

    /// `recv[r * send.len() + i] = send[i] of rank r`; `recv` is [`size`](Self::size) times as long as `send`.
    pub fn allgather<S, R>(&self, send: &S, recv: &mut R) -> Result<()>
    where
        S: Source + ?Sized,
        R: Target<Element = S::Element> + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        self.all_parts("recv", recv.len(), "send", send.len())?;
        let (count, dtype) = (send.len(), S::Element::DTYPE);
        // SAFETY: the handle is alive, and the operands have `count` and `size * count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_allgather(group, send.pointer(), recv.pointer(), count, dtype, o, stream)
        })
    }

    /// `recv[i] = send[i] of the root`; other ranks' `send` is not read and may be empty.
    pub fn broadcast<S, R>(&self, send: &S, recv: &mut R, root: usize) -> Result<()>
    where
        S: Source + ?Sized,
        R: Target<Element = S::Element> + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        if self.rank() == root || send.len() != 0 {
            same(send.len(), recv.len())?;
        }
        let (count, dtype) = (recv.len(), S::Element::DTYPE);
        // SAFETY: the handle is alive, `recv` has `count` elements of that type, and so has `send` where it is read.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_broadcast(group, send.pointer(), recv.pointer(), count, dtype, index(root), o, stream)
        })
    }

    /// `recv[i] = op over all ranks of send[i]`, on the root; other ranks' `recv` is not written and may be empty.
    pub fn reduce<S, R>(&self, send: &S, recv: &mut R, op: Op, root: usize) -> Result<()>
    where
        S: Source + ?Sized,
        R: Target<Element = S::Element> + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        if self.rank() == root || recv.len() != 0 {
            same(send.len(), recv.len())?;
        }
        let (count, dtype, op) = (send.len(), S::Element::DTYPE, op.as_raw());
        // SAFETY: the handle is alive, `send` has `count` elements of that type, and so has `recv` where it is written.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_reduce(group, send.pointer(), recv.pointer(), count, dtype, op, index(root), o, stream)
        })
    }

    /// `recv[r * n + i] = send[rank * n + i] of rank r`, where both have `size * n` elements.
    pub fn alltoall<S, R>(&self, send: &S, recv: &mut R) -> Result<()>
    where
        S: Source + ?Sized,
        R: Target<Element = S::Element> + ?Sized,
    {
        let (send, recv) = self.both(send, recv)?;
        same(send.len(), recv.len())?;
        let (count, dtype) = (self.part(recv.len())?, S::Element::DTYPE);
        // SAFETY: the handle is alive, and both operands have `size * count` elements of that type.
        self.issue(|api, group, o, stream| unsafe {
            api.symm_alltoall(group, send.pointer(), recv.pointer(), count, dtype, o, stream)
        })
    }

    /// Both operands, if the group can reach them.
    #[inline]
    fn both<S, R>(&self, send: &S, recv: &mut R) -> Result<Pair<S::Element>>
    where
        S: Source + ?Sized,
        R: Target<Element = S::Element> + ?Sized,
    {
        Ok((send.operand().on(&self.shared, &self.stream)?, recv.operand_mut().on(&self.shared, &self.stream)?))
    }

    /// One call on this group, with the options and the stream of this handle.
    #[inline]
    fn issue(
        &self,
        function: impl FnOnce(&Api, *mut symm_group, *const sys::symm_collective_options_t, *mut c_void) -> Called,
    ) -> Result<()> {
        call(|api| self.options(|options| function(api, self.as_raw(), options, self.stream.as_raw())))
    }

    /// Passes the options of this handle, NULL if they are the defaults.
    #[inline]
    fn options<X>(&self, function: impl FnOnce(*const sys::symm_collective_options_t) -> X) -> X {
        if self.algorithm == Algorithm::Auto && self.timeout == Timeout::Group {
            return function(ptr::null());
        }
        let options = sys::symm_collective_options_t {
            struct_size: size_of::<sys::symm_collective_options_t>(),
            algorithm: self.algorithm.as_raw(),
            timeout_ms: self.timeout.as_millis(),
        };
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
    Err(Error::argument(format!("send has {send} elements and recv {recv}")))
}
