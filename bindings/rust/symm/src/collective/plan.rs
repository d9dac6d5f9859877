// SPDX-License-Identifier: Apache-2.0
//! Which algorithm a call would use, and why.

use super::Source;
use crate::convert::{filled, index};
use crate::error::Result;
use crate::{Algorithm, Collective, Element, Group, Op, Reduces};
use std::ptr;
use symm_sys as sys;

known! {
    /// The algorithm chosen for a call, and why.
    #[derive(Debug, Clone)]
    pub struct Plan of symm_plan_info_t {
        /// What would be used.
        pub algorithm: Algorithm;
        /// Parts into which the work is divided among the ranks.
        pub slices: usize;
        /// Bytes moved per step and rank when staged, else 0.
        pub chunk_bytes: u64;
        /// Whether results bypass the cache.
        pub nontemporal: bool;
        /// The reason, in words.
        pub reason: String;
    }
}

impl Group {
    /// Which algorithm a collective would use if every rank passed memory like this rank's. `count` is that of the C call: elements
    /// of `recv` for reduce-scatter, of `send` for all-gather, of one rank's part for all-to-all; `op` and `root` are ignored where
    /// it has none. A local call.
    ///
    /// # Errors
    /// `InvalidArgument`, as the collective would answer.
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
        let send = send.operand().on(&self.shared, &self.stream)?.pointer();
        let recv = recv.operand().on(&self.shared, &self.stream)?.pointer();
        let result = if S::Element::DTYPE == R::Element::DTYPE { 0 } else { R::Element::DTYPE };
        let asked = sys::symm_collective_call_t {
            struct_size: size_of::<sys::symm_collective_call_t>(),
            collective: collective.as_raw(),
            send,
            recv,
            count,
            dtype: S::Element::DTYPE,
            op: op.as_raw(),
            root: index(root),
            send_counts: ptr::null(),
            send_displacements: ptr::null(),
            recv_counts: ptr::null(),
            recv_displacements: ptr::null(),
            rows: 0,
            recv_stride: 0,
        };
        // SAFETY: the handle is alive, the addresses are only looked at; a struct of symm.h, and the function that fills it.
        let plan = unsafe {
            filled(|api, out| self.options(result, |o| api.symm_collective_plan(self.as_raw(), &asked, o, out)))
        };
        plan.map(Plan::from)
    }
}
