//! The library itself.

use crate::convert::from_static;
use crate::error::Result;
use std::fmt;

/// Version of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes when the interface breaks.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
    /// Changes when something is mended.
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Version of the loaded library.
///
/// # Errors
/// `Unavailable` if there is no library; the message says where it was sought. See [`symm_sys`] for the places.
pub fn version() -> Result<Version> {
    // SAFETY: the function has no preconditions.
    let encoded = unsafe { symm_sys::api()?.symm_version() }?;
    Ok(Version { major: encoded >> 16, minor: encoded >> 8 & 0xff, patch: encoded & 0xff })
}

/// A JSON object: version, git revision, compiler, back ends, CUDA architectures, SIMD targets.
pub fn build_info() -> Result<&'static str> {
    // SAFETY: the function has no preconditions, and its string is static.
    Ok(unsafe { from_static(symm_sys::api()?.symm_build_info()?) })
}
