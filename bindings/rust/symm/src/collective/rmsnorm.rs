//! All-reduce, residual and RMSNorm in one call.

use super::{Source, Target};
use crate::error::{Error, Result};
use crate::{Element, F8E4M3, Group};
use std::ffi::c_void;
use std::ptr;
use symm_sys as sys;

type From<'a, T> = &'a dyn Source<Element = T>;
type To<'a, T> = &'a mut dyn Target<Element = T>;

/// What is added to the sum, and where that goes.
pub enum Residual<'a, T: Element> {
    /// Nothing is added.
    None,
    /// The sum with it takes its place.
    InPlace(To<'a, T>),
    /// It is read only.
    Read(From<'a, T>),
    /// It is read from the first, and the sum with it goes to the second.
    Apart(From<'a, T>, To<'a, T>),
}

/// By what [`RmsNorm::quantised`] is divided.
pub enum QuantScale<'a> {
    /// One number, read when the call runs.
    Tensor(From<'a, f32>),
    /// Receives a scale for each row.
    Token(To<'a, f32>),
    /// Receives a scale for 128 elements of each row.
    Group(To<'a, f32>),
}

/// What [`Group::allreduce_rmsnorm`] adds to the sum, how it normalises, and where results go. The arithmetic is that of `symm.h`.
pub struct RmsNorm<'a, T: Element, W: Element> {
    /// As long as a row.
    pub weight: From<'a, W>,
    /// Of the length of `send`, as all matrices.
    pub residual: Residual<'a, T>,
    /// The normalised rows.
    pub normalised: Option<To<'a, T>>,
    /// These, divided by their scale.
    pub quantised: Option<(To<'a, F8E4M3>, QuantScale<'a>)>,
    /// Added to the mean of squares.
    pub epsilon: f32,
    /// Added to each weight.
    pub weight_offset: f32,
}

impl<'a, T: Element, W: Element> RmsNorm<'a, T, W> {
    /// Without residual and results.
    pub fn new(weight: From<'a, W>) -> Self {
        Self { weight, residual: Residual::None, normalised: None, quantised: None, epsilon: 1e-6, weight_offset: 0.0 }
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
        let read = |name, from: From<'_, S::Element>| self.of_norm(name, from.operand(), all);
        let write = |name, to: To<'_, S::Element>| self.of_norm(name, to.operand_mut(), all);
        let (residual_in, residual_out) = match norm.residual {
            Residual::None => (ptr::null_mut(), ptr::null_mut()),
            Residual::InPlace(both) => (write("residual", both)?, write("residual", both)?),
            Residual::Read(from) => (read("residual", from)?, ptr::null_mut()),
            Residual::Apart(from, to) => (read("residual", from)?, write("residual", to)?),
        };
        let norm_out = norm.normalised.map_or(Ok(ptr::null_mut()), |to| write("normalised", to))?;
        let (mut quant_out, mut scale_in, mut scale_out, mut scale_kind) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0);
        if let Some((to, scale)) = norm.quantised {
            quant_out = self.of_norm("quantised", to.operand_mut(), all)?;
            match scale {
                QuantScale::Tensor(one) => scale_in = self.of_norm("the scale", one.operand(), 1)?,
                QuantScale::Token(to) => {
                    (scale_kind, scale_out) = (sys::SYMM_QUANT_SCALE_TOKEN, self.of_norm("scales", to.operand_mut(), rows)?);
                }
                QuantScale::Group(to) => {
                    let scales = self.of_norm("scales", to.operand_mut(), all / 128)?;
                    (scale_kind, scale_out) = (sys::SYMM_QUANT_SCALE_GROUP, scales);
                }
            }
        }
        let norm = sys::symm_rmsnorm_t {
            struct_size: size_of::<sys::symm_rmsnorm_t>(),
            residual_in,
            residual_out,
            norm_out,
            weight: weight.pointer(),
            weight_dtype: W::DTYPE,
            epsilon: f64::from(norm.epsilon),
            weight_offset: f64::from(norm.weight_offset),
            scale_kind,
            quant_out,
            scale_in,
            scale_out,
        };
        let (group, stream, dtype) = (self.as_raw(), self.stream.as_raw(), S::Element::DTYPE);
        // SAFETY: operands are as long as the call takes them to be.
        self.issue(0, |api, o| unsafe { api.symm_allreduce_rmsnorm(group, send.pointer(), rows, hidden, dtype, &norm, o, stream) })
    }

    fn of_norm<T: Element>(&self, name: &str, operand: super::Operand<T>, needed: usize) -> Result<*mut c_void> {
        let operand = operand.on(&self.shared, &self.stream)?;
        if operand.len() == needed {
            return Ok(operand.pointer());
        }
        Err(Error::argument(format!("{name} has {} elements, not {needed}", operand.len())))
    }
}
