// SPDX-License-Identifier: Apache-2.0
//! The collectives, in the type that a line names.

use crate::Outcome;
use crate::line::Line;
use crate::runner::Runner;
use half::{bf16, f16};
use symm::{Algorithm, Element, F8E4M3, F8E5M2, Group, Op, Place, Raw, symm_sys as sys};

/// Whether there is an element type for it.
pub fn known(dtype: i32) -> bool {
    by_type(dtype).is_some()
}

type Typed = fn(&mut Runner, &Line, &Group) -> Outcome;

fn by_type(dtype: i32) -> Option<Typed> {
    Some(match dtype {
        sys::SYMM_DTYPE_I8 => run::<i8>,
        sys::SYMM_DTYPE_I32 => run::<i32>,
        sys::SYMM_DTYPE_I64 => run::<i64>,
        sys::SYMM_DTYPE_U8 => run::<u8>,
        sys::SYMM_DTYPE_U32 => run::<u32>,
        sys::SYMM_DTYPE_U64 => run::<u64>,
        sys::SYMM_DTYPE_F16 => run::<f16>,
        sys::SYMM_DTYPE_F32 => run::<f32>,
        sys::SYMM_DTYPE_F64 => run::<f64>,
        sys::SYMM_DTYPE_BF16 => run::<bf16>,
        sys::SYMM_DTYPE_F8E4M3 => run::<F8E4M3>,
        sys::SYMM_DTYPE_F8E5M2 => run::<F8E5M2>,
        _ => return None,
    })
}

impl Runner {
    pub fn collective(&mut self, line: &Line) -> Outcome {
        let algorithm = Algorithm::from_raw(line.constant_or("algorithm", sys::SYMM_ALGORITHM_AUTO)?);
        let group = self.things.group(line)?.with_algorithm(algorithm);
        let dtype = line.constant("dtype")?;
        by_type(dtype).ok_or(format!("no type {dtype:#x}"))?(self, line, &group)
    }
}

fn run<T: Element>(runner: &mut Runner, line: &Line, group: &Group) -> Outcome {
    let (send, recv, count) = (runner.address(line, "send")?, runner.address(line, "recv")?, line.size("count")?);
    let all = count.saturating_mul(group.size());
    let operand = |at: *mut u8, len: usize| {
        // SAFETY: as in Runner::operand().
        unsafe { Raw::<T>::new(at.cast(), len, Place::Host) }
    };
    let op = || Ok::<_, String>(Op::from_raw(line.constant("op")?));
    match line.verb.as_str() {
        "allreduce" => group.allreduce(&operand(send, count), &mut operand(recv, count), op()?)?,
        "reduce_scatter" => group.reduce_scatter(&operand(send, all), &mut operand(recv, count), op()?)?,
        "allgather" => group.allgather(&operand(send, count), &mut operand(recv, all))?,
        "broadcast" => group.broadcast(&operand(send, count), &mut operand(recv, count), line.size("root")?)?,
        "reduce" => group.reduce(&operand(send, count), &mut operand(recv, count), op()?, line.size("root")?)?,
        "alltoall" => group.alltoall(&operand(send, all), &mut operand(recv, all))?,
        verb => return Err(format!("unknown verb {verb}").into()),
    }
    Ok(())
}
