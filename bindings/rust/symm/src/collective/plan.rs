//! Plans: the algorithm that a collective would use, and why.

use super::Blocks;
use crate::convert::index;
use crate::error::Result;
use crate::operand::Source;
use crate::{Advice, Algorithm, Collective, Element, Group, Op, Reduces};
use symm_sys::symm_collective_call_t;

known! {
    /// The algorithm chosen for a call, and why.
    pub struct Plan of symm_plan_info_t {
        pub algorithm: Algorithm = "The algorithm that would be used.";
        pub chunk_bytes: u64 = "Bytes moved per step and rank when staged, else 0.";
        pub reason: String = "The reason, in words.";
        pub advice: Advice =
            "Whether NCCL was measured to be faster for this call, by the plan table's column \
             of NCCL. Equal on all ranks.";
        pub symm_ns: u64 = "Nanoseconds that symm took; 0: it was not measured.";
        pub nccl_ns: u64 = "Nanoseconds that NCCL took; 0: it was not measured.";
        pub advice_reason: String = "The reason for `advice`, in words.";
    }
}

/// A call, and the type of its result if that differs from the type of the operands, else 0.
type Asked = (symm_collective_call_t, i32);

impl Group {
    /// The algorithm that a collective would use if every rank passed memory like this rank's.
    /// `count` is that of the C call: elements of `recv` for reduce-scatter, of `send` for
    /// all-gather, of one rank's part for all-to-all. A collective without `op` or `root` ignores
    /// that argument. A local call. Errors: `InvalidArgument` if the collective would fail with
    /// it.
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

    /// As [`plan`](Self::plan), for collectives with counts. The blocks are those of the call;
    /// [`Blocks::packed`]`(&[])` for an operand without counts.
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

    /// As [`plan`](Self::plan), for [`allgather_rows`](Self::allgather_rows).
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
        asked.rows = rows;
        asked.recv_stride = recv_stride;
        self.ask(&asked, result)
    }

    /// As [`plan`](Self::plan), for [`reduce_scatter_rows`](Self::reduce_scatter_rows).
    pub fn plan_reduced_rows<S, R>(
        &self,
        send: &S,
        recv: &R,
        rows: usize,
        send_stride: usize,
        op: Op,
    ) -> Result<Plan>
    where
        S: Source + ?Sized,
        R: Source<Element = S::Element> + ?Sized,
    {
        let count = recv.operand().len().checked_div(rows).unwrap_or(0);
        let (mut asked, result) =
            self.asked(Collective::ReduceScatterRows, send, recv, (count, op, 0))?;
        asked.rows = rows;
        asked.send_stride = send_stride;
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
        let send = send.operand().on(&self.shared, &self.stream)?;
        let recv = recv.operand().on(&self.shared, &self.stream)?;
        let asked = symm_collective_call_t {
            collective: what.as_raw(),
            send: send.pointer(),
            recv: recv.pointer(),
            count,
            dtype: S::Element::DTYPE,
            op: op.as_raw(),
            root: index(root),
            ..Default::default()
        };
        Ok((asked, result))
    }

    fn ask(&self, asked: &symm_collective_call_t, result: i32) -> Result<Plan> {
        on!(
            self.symm_collective_plan(asked, options) => Plan,
            options: self.options(result)
        )
    }
}
