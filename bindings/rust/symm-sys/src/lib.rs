// SPDX-License-Identifier: Apache-2.0
//! Raw bindings to `libsymm`, symmetric memory for any language. The safe layer is the crate `symm`.
//!
//! Types, constants and functions are generated from `symm.h` and called as there. Integers of which the header lists the values are
//! also enums, such as [`Status`], in which a value of a newer library stays a value. The functions are methods of [`Api`], the table
//! of one loaded library:
//!
//! ```no_run
//! match symm_sys::api() {
//!     // SAFETY: symm_version() has no preconditions.
//!     Ok(api) => println!("version {:#x}", unsafe { api.symm_version() }?),
//!     Err(why) => println!("no libsymm: {why}"),
//! }
//! # Ok::<(), symm_sys::MissingSymbol>(())
//! ```
//!
//! # How the library is found
//!
//! [`api()`] loads it once for the process, when it is first called:
//!
//! 1. If the environment variable `SYMM_LIB` is set and not empty, the file that it names, and nothing else.
//! 2. `libsymm.so.0`, then `libsymm.so`, in the directory of the executable and in `../lib` beside it.
//! 3. `libsymm.so.0` as the system's loader finds it (`LD_LIBRARY_PATH`, the run path, `ldconfig`'s cache).
//!
//! A library that is not there, or cannot be used, is a [`LoadError`]; a function that it does not have, because it is
//! older than these bindings, is a [`MissingSymbol`] from the call of that function. Nothing here panics. The library's
//! symbols stay local (`RTLD_LOCAL`), and it is never unloaded.
//!
//! With feature `linked`, the linker finds `-lsymm` instead (`SYMM_LIB_DIR` or pkg-config at build time), the functions are
//! also in a module `linked`, and [`api()`] always succeeds unless the library's major version is another one.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

#[macro_use]
mod header;
mod error;
mod load;

/// What bindgen and `bindings/rust/generate` wrote.
#[rustfmt::skip]
#[allow(missing_docs, reason = "fields and constants that explain themselves in the header")]
#[allow(non_camel_case_types, reason = "called as in C")]
#[allow(clippy::too_many_arguments, clippy::doc_lazy_continuation, unused_parens, reason = "generated")]
mod generated;

pub use error::{LoadError, MissingSymbol};
pub use generated::*;
pub use load::api;
