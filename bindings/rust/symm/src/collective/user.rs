//! Reductions by an operation of the caller's.

use super::require_equal;
use crate::convert::index;
use crate::error::{Error, Result, acting};
use crate::operand::{Source, TargetOf};
use crate::{Collective, Element, Group};
use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;

/// What the library is given to call: the closure, how many numbers an element has, and the payload
/// of its panic.
struct Operation<F> {
    combine: F,
    width: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl Group {
    /// Combines the operands of the ranks by `combine`, in their order, on a host group.
    ///
    /// `what` says who gets what, as the call of that name: `Allreduce`, `Reduce`, `ReduceScatter`,
    /// `Scan`, or `Exscan`, of which rank 0 gets nothing. `combine(into, other)` changes `into`,
    /// which is of lower ranks; it need not commute. Both have `width` numbers for each element,
    /// and any number of elements at a time. `root` is of `Reduce`, and 0 otherwise.
    ///
    /// A panic of `combine` goes on here, behind the call, and the group is aborted.
    ///
    /// Errors: as of all collectives; `InvalidArgument` also if `width` does not divide the
    /// operands, or another collective is given; `Unsupported` for groups of GPUs.
    pub fn reduce_by<S: Source + ?Sized, R: TargetOf<S> + ?Sized>(
        &self,
        what: Collective,
        (send, recv): (&S, &mut R),
        width: usize,
        root: usize,
        combine: impl FnMut(&mut [S::Element], &[S::Element]),
    ) -> Result<()> {
        let (send, recv) = self.both(send, recv)?;
        let is_known = matches!(
            what,
            Collective::Allreduce
                | Collective::Reduce
                | Collective::ReduceScatter
                | Collective::Scan
                | Collective::Exscan
        );
        if !is_known {
            return Err(Error::argument(format!(
                "what: {what:?} has no operation of the caller's"
            )));
        }
        let numbers = self.count_of(what, send.len(), recv.len(), root)?;
        if width == 0 || numbers % width != 0 {
            return Err(Error::argument(format!(
                "width: {width} does not divide {numbers} numbers"
            )));
        }
        if what == Collective::Reduce && self.rank() == root {
            require_equal(send.len(), recv.len())?;
        }
        self.reduce_checked(
            what,
            (send.pointer(), recv.pointer()),
            numbers,
            width,
            root,
            combine,
        )
    }

    fn reduce_checked<T: Element, F: FnMut(&mut [T], &[T])>(
        &self,
        what: Collective,
        (send, recv): (*mut c_void, *mut c_void),
        numbers: usize,
        width: usize,
        root: usize,
        combine: F,
    ) -> Result<()> {
        let mut operation = Operation {
            combine,
            width,
            panic: None,
        };
        let user: *mut Operation<F> = &raw mut operation;
        // SAFETY: the operands have as many elements as the collective reads and writes on this
        // rank, and the operation outlives the call, which has no form that does not block.
        let result = acting(self.timeout.options(), |api, o| unsafe {
            api.symm_reduce_by(
                self.as_raw(),
                what.as_raw(),
                send,
                recv,
                numbers / width,
                width * size_of::<T>(),
                Some(forward::<T, F>),
                user.cast(),
                index(root),
                o,
            )
        });
        if let Some(payload) = operation.panic {
            resume_unwind(payload);
        }
        result
    }
}

/// # Safety
/// Called by the library with a living [`Operation`] and `count` elements at both addresses.
unsafe extern "C" fn forward<T: Element, F: FnMut(&mut [T], &[T])>(
    user: *mut c_void,
    into: *mut c_void,
    other: *const c_void,
    count: usize,
) -> i32 {
    // SAFETY: `user` is the operation, which nothing else refers to during the call.
    let operation = unsafe { &mut *user.cast::<Operation<F>>() };
    let numbers = count * operation.width;
    // SAFETY: the library passes so many numbers, aligned, in memory that does not overlap.
    let (into, other) = unsafe {
        (
            slice::from_raw_parts_mut(into.cast::<T>(), numbers),
            slice::from_raw_parts(other.cast::<T>(), numbers),
        )
    };
    // A panic must not unwind into C.
    match catch_unwind(AssertUnwindSafe(|| (operation.combine)(into, other))) {
        Ok(()) => 0,
        Err(payload) => {
            operation.panic = Some(payload);
            1
        }
    }
}
