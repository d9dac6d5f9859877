#![doc = include_str!("../README.md")]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

#[macro_use]
mod header;
mod load;

/// The types, constants and functions of `symm.h`, written by `bindings/rust/generate`.
#[rustfmt::skip]
#[allow(missing_docs, reason = "fields and constants that explain themselves in the header")]
#[allow(non_camel_case_types, reason = "called as in C")]
#[allow(
    clippy::too_many_arguments,
    clippy::doc_lazy_continuation,
    unused_parens,
    reason = "generated"
)]
mod generated;

pub use generated::*;
pub use load::{LoadError, MissingSymbol, api};
