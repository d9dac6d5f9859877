//! All-reduce, residual and RMSNorm in one call.

use super::{Operand, Source, Target};
use crate::error::{Error, Result};
use crate::{Element, F8E4M3, Group};
use std::ffi::c_void;
use std::ptr;
use symm_sys as sys;

type From<'a, T> = Option<&'a dyn Source<Element = T>>;
type To<'a, T> = Option<&'a mut dyn Target<Element = T>>;

/// What [`Group::allreduce_rmsnorm`] adds to the sum, how it normalises, and where results go. The arithmetic is that of `symm.h`.
pub struct RmsNorm<'a, T: Element, W: Element> {
    weight: &'a dyn Source<Element = W>,
    /// Added to the sum; of the length of `send`, as all matrices.
    pub residual_in: From<'a, T>,
    /// Receives the sum with it.
    pub residual_out: To<'a, T>,
    /// Both of these: added to the sum, which takes its place.
    pub residual: To<'a, T>,
    /// Receives the normalised rows.
    pub norm_out: To<'a, T>,
    /// Receives these, divided by their scale.
    pub quant_out: To<'a, F8E4M3>,
    /// The scale of all, one number that is read when the call runs; or
    pub scale_in: From<'a, f32>,
    /// receives scales: one for each row, or for 128 elements of one.
    pub scale_out: To<'a, f32>,
    /// Added to the mean of squares.
    pub epsilon: f32,
    /// Added to each weight.
    pub weight_offset: f32,
}

impl<'a, T: Element, W: Element> RmsNorm<'a, T, W> {
    /// With weights as long as a row, and nothing else.
    pub fn new(weight: &'a dyn Source<Element = W>) -> Self {
        let (residual_in, residual_out, residual, norm_out, quant_out, scale_in, scale_out) = Default::default();
        let (epsilon, weight_offset) = (1e-6, 0.0);
        Self { weight, residual_in, residual_out, residual, norm_out, quant_out, scale_in, scale_out, epsilon, weight_offset }
    }
}

impl Group {
    /// The sum of all ranks' `send`, rows as long as the weight, with a residual and RMSNorm, in one kernel.
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
            return Err(Error::argument(format!("send has {all} elements, which are not rows of {hidden}")));
        }
        let both = self.of_norm("residual", norm.residual.map(|to| to.operand_mut()), all)?;
        let residual_in = self.of_norm("residual_in", norm.residual_in.map(Source::operand), all)?;
        let residual_out = self.of_norm("residual_out", norm.residual_out.map(|to| to.operand_mut()), all)?;
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
            scale_out: self.of_norm("scale_out", scales, if by_group { all / 128 } else { rows })?,
        };
        let (group, stream, dtype) = (self.as_raw(), self.stream.as_raw(), S::Element::DTYPE);
        // SAFETY: operands are as long as the call takes them to be.
        self.issue(0, |api, o| unsafe {
            api.symm_allreduce_rmsnorm(group, send.pointer(), rows, hidden, dtype, &norm, o, stream)
        })
    }

    fn of_norm<T: Element>(&self, name: &str, operand: Option<Operand<T>>, needed: usize) -> Result<*mut c_void> {
        let Some(operand) = operand else { return Ok(ptr::null_mut()) };
        let operand = operand.on(&self.shared, &self.stream)?;
        if operand.len() == needed {
            return Ok(operand.pointer());
        }
        Err(Error::argument(format!("{name} has {} elements, not {needed}", operand.len())))
    }
}
