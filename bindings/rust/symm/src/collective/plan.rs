//! Which algorithm a call would use, and why.

use super::{Blocks, Source};
use crate::convert::{filled, index};
use crate::error::Result;
use crate::{Algorithm, Collective, Element, Group, Op, Reduces};
use symm_sys as sys;

known! {
    /// The algorithm chosen for a call, and why.
    #[derive(Debug, Clone)]
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
    /// Which algorithm a collective would use if every rank passed memory like this rank's. `count` is that of the C call: elements
    /// of `recv` for reduce-scatter, of `send` for all-gather, of one rank's part for all-to-all; `op` and `root` are ignored where
    /// it has none. A local call.
    ///
    /// # Errors
    /// `InvalidArgument`, as the collective would answer.
    pub fn plan<S, R>(&self, collective: Collective, send: &S, recv: &R, count: usize, op: Op, root: usize) -> Result<Plan>
    where
        S: Source + ?Sized,
        R: Source + ?Sized,
        S::Element: Reduces<R::Element>,
    {
        let (asked, result) = self.asked(collective, send, recv, (count, op, root))?;
        self.ask(&asked, result)
    }

    /// The same for collectives with counts, whose blocks are those of the call; [`Blocks::packed`]`(&[])` where it has none.
    pub fn plan_blocks<S: Source + ?Sized, R: Source + ?Sized>(
        &self, collective: Collective, send: &S, of_send: Blocks<'_>, recv: &R, of_recv: Blocks<'_>, op: Op,
    ) -> Result<Plan> {
        let (mut asked, result) = self.asked(collective, send, recv, (0, op, 0))?;
        (asked.send_counts, asked.send_displacements) = of_send.for_plan("send", self.size())?;
        (asked.recv_counts, asked.recv_displacements) = of_recv.for_plan("recv", self.size())?;
        self.ask(&asked, result)
    }

    /// The same for [`allgather_rows`](Self::allgather_rows).
    pub fn plan_rows<S, R>(&self, send: &S, recv: &R, rows: usize, recv_stride: usize) -> Result<Plan>
    where
        S: Source + ?Sized,
        R: Source<Element = S::Element> + ?Sized,
    {
        let count = send.operand().len().checked_div(rows).unwrap_or(0);
        let (mut asked, result) = self.asked(Collective::AllgatherRows, send, recv, (count, Op::Sum, 0))?;
        (asked.rows, asked.recv_stride) = (rows, recv_stride);
        self.ask(&asked, result)
    }

    fn asked<S, R>(&self, what: Collective, send: &S, recv: &R, (count, op, root): (usize, Op, usize)) -> Result<Asked>
    where
        S: Source + ?Sized,
        R: Source + ?Sized,
    {
        let result = if S::Element::DTYPE == R::Element::DTYPE { 0 } else { R::Element::DTYPE };
        let asked = sized!(symm_collective_call_t: collective = what.as_raw(),
            send = send.operand().on(&self.shared, &self.stream)?.pointer(),
            recv = recv.operand().on(&self.shared, &self.stream)?.pointer(), count = count, dtype = S::Element::DTYPE,
            op = op.as_raw(), root = index(root));
        Ok((asked, result))
    }

    fn ask(&self, asked: &sys::symm_collective_call_t, result: i32) -> Result<Plan> {
        // SAFETY: the handle is alive, the addresses are only looked at; a struct of symm.h, and the function that fills it.
        let plan = unsafe { filled(|api, out| self.options(result, |o| api.symm_collective_plan(self.as_raw(), asked, o, out))) };
        plan.map(Plan::from)
    }
}
