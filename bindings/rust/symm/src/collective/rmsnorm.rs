//! All-reduce with residual and RMSNorm in one kernel.

use crate::error::{Error, Result};
use crate::operand::{Operand, Source, Target};
use crate::{Element, F8E4M3, Group, Status};
use std::ffi::c_void;
use std::ptr;
use symm_sys::{self as sys, symm_rmsnorm_call_t};

type In<'a, T> = Option<&'a dyn Source<Element = T>>;
type Out<'a, T> = Option<&'a mut dyn Target<Element = T>>;

/// The residual, the normalisation and the results of [`Group::allreduce_rmsnorm`]. The arithmetic
/// is that of `fused.h`. All matrices are as long as `send`.
pub struct RmsNorm<'a, T: Element, W: Element> {
    weight: &'a dyn Source<Element = W>,
    /// A matrix that is added to the sum.
    pub residual_in: In<'a, T>,
    /// Receives the sum with the residual.
    pub residual_out: Out<'a, T>,
    /// Residual in place: added to the sum, and receives the sum with the residual. It takes the
    /// place of both `residual_in` and `residual_out`.
    pub residual: Out<'a, T>,
    /// Receives the normalised rows.
    pub norm_out: Out<'a, T>,
    /// Receives the normalised rows, divided by their scale.
    pub quant_out: Out<'a, F8E4M3>,
    /// One scale for all elements, which is read when the call runs.
    pub scale_in: In<'a, f32>,
    /// Receives scales: one for each row, or one for each 128 elements of a row.
    pub scale_out: Out<'a, f32>,
    /// Added to the mean of squares, rounded to f32. 0 means 1e-6, too; a number that f32 rounds to
    /// 0, as `f64::from_bits(1)`, means that nothing is added.
    pub epsilon: f64,
    /// Added to each weight.
    pub weight_offset: f32,
}

impl<'a, T: Element, W: Element> RmsNorm<'a, T, W> {
    /// Weights as long as a row, no residual and no results.
    pub fn new(weight: &'a dyn Source<Element = W>) -> Self {
        Self {
            weight,
            residual_in: None,
            residual_out: None,
            residual: None,
            norm_out: None,
            quant_out: None,
            scale_in: None,
            scale_out: None,
            epsilon: 1e-6,
            weight_offset: 0.0,
        }
    }
}

/// Refuses a library that has another `fused.h`, of which it says the version `found`.
fn require_fused(found: u32) -> Result<()> {
    if found >> 16 == sys::SYMM_FUSED_VERSION_MAJOR {
        return Ok(());
    }
    let dotted = |version: u32| format!("{}.{}", version >> 16, version & 0xffff);
    let own = dotted(sys::SYMM_FUSED_VERSION);
    Err(Error::from_parts(
        Status::Unsupported,
        format!(
            "the library has version {} of fused.h, and these bindings call {own}",
            dotted(found)
        ),
    ))
}

impl Group {
    /// Sums `send` of all ranks, rows as long as the weight, adds a residual and normalises the
    /// rows by RMSNorm, in one kernel. `fused.h` may change with the library: a library with
    /// another major version of it is refused with [`Status::Unsupported`].
    pub fn allreduce_rmsnorm<S, W>(&self, send: &S, norm: RmsNorm<'_, S::Element, W>) -> Result<()>
    where
        S: Source + ?Sized,
        W: Element,
    {
        let (send, rows, hidden, norm) = self.normed(send, norm)?;
        // SAFETY: operands are as long as the call takes them to be.
        self.issue(0, |api, o| unsafe {
            api.symm_allreduce_rmsnorm(
                self.as_raw(),
                send.pointer(),
                rows,
                hidden,
                S::Element::DTYPE,
                &norm,
                o,
                self.stream.as_raw(),
            )
        })
    }

    /// The operand, the rows, the length of a row and the C struct of
    /// [`allreduce_rmsnorm`](Self::allreduce_rmsnorm), checked.
    pub(super) fn normed<S, W>(
        &self,
        send: &S,
        norm: RmsNorm<'_, S::Element, W>,
    ) -> Result<(Operand<S::Element>, usize, usize, symm_rmsnorm_call_t)>
    where
        S: Source + ?Sized,
        W: Element,
    {
        // SAFETY: the function has no preconditions.
        require_fused(unsafe { sys::api()?.symm_fused_version() }?)?;
        let send = send.operand().on(&self.shared, &self.stream)?;
        let weight = norm.weight.operand().on(&self.shared, &self.stream)?;
        let all = send.len();
        let hidden = weight.len();
        let rows = all.checked_div(hidden).unwrap_or(0);
        if rows * hidden != all || hidden == 0 {
            return Err(Error::argument(format!(
                "send has {all} elements, which are not rows of {hidden}"
            )));
        }

        let norm = self.norm_to_c(norm, weight, rows, all)?;
        Ok((send, rows, hidden, norm))
    }

    /// The C struct of a call whose rows have `all` elements together.
    fn norm_to_c<T: Element, W: Element>(
        &self,
        norm: RmsNorm<'_, T, W>,
        weight: Operand<W>,
        rows: usize,
        all: usize,
    ) -> Result<symm_rmsnorm_call_t> {
        let residual = norm.residual.map(|to| to.operand_mut());
        let residual = self.pointer_of("residual", residual, all)?;
        let mut residual_in =
            self.pointer_of("residual_in", norm.residual_in.map(Source::operand), all)?;
        let residual_out = norm.residual_out.map(|to| to.operand_mut());
        let mut residual_out = self.pointer_of("residual_out", residual_out, all)?;
        if !residual.is_null() {
            residual_in = residual;
            residual_out = residual;
        }

        let scale_out = norm.scale_out.map(|to| to.operand_mut());
        let (scale_kind, scales) = match scale_out {
            None => (sys::SYMM_QUANT_SCALE_TENSOR, rows),
            Some(scales) if scales.len() == rows => (sys::SYMM_QUANT_SCALE_TOKEN, rows),
            Some(_) => (sys::SYMM_QUANT_SCALE_GROUP, all / 128),
        };

        let norm_out = norm.norm_out.map(|to| to.operand_mut());
        let quant_out = norm.quant_out.map(|to| to.operand_mut());
        Ok(symm_rmsnorm_call_t {
            residual_in,
            residual_out,
            norm_out: self.pointer_of("norm_out", norm_out, all)?,
            weight: weight.pointer(),
            weight_dtype: W::DTYPE,
            epsilon: norm.epsilon,
            weight_offset: f64::from(norm.weight_offset),
            scale_kind,
            quant_out: self.pointer_of("quant_out", quant_out, all)?,
            scale_in: self.pointer_of("scale_in", norm.scale_in.map(Source::operand), 1)?,
            scale_out: self.pointer_of("scale_out", scale_out, scales)?,
            ..Default::default()
        })
    }

    /// The address of an operand that must have `needed` elements; NULL if there is none.
    fn pointer_of<T: Element>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_fused_is_refused() {
        let own = sys::SYMM_FUSED_VERSION;
        assert!(require_fused(own).is_ok());
        assert!(require_fused(own + 1).is_ok(), "it has more");
        for other in [own + (1 << 16), 0] {
            let error = require_fused(other).expect_err("another major version");
            assert_eq!(error.status, Status::Unsupported);
            let found = format!("version {}.0 of fused.h", other >> 16);
            assert!(error.to_string().contains(&found), "{error}");
        }
    }
}
