//! What can go wrong before the library itself can say so.

use crate::Status;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// The loaded library has no such function: it is older than these bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingSymbol {
    /// Name of the function.
    pub name: &'static str,
}

/// Why there is no library to call.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The loader refused the file, or found none.
    Open {
        /// What was tried last: the value of `SYMM_LIB`, a file beside the executable, or a bare name.
        path: PathBuf,
        /// What the loader said.
        cause: libloading::Error,
    },
    /// The file is a library, but not libsymm.
    NotSymm {
        /// The file.
        path: PathBuf,
        /// The function that it lacks.
        missing: MissingSymbol,
    },
    /// The library has another major version.
    Version {
        /// The file.
        path: PathBuf,
        /// Version of the library, encoded like `SYMM_VERSION`.
        found: u32,
    },
}

/// `major.minor.patch` of an encoded version.
struct Version(u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0 >> 16, (self.0 >> 8) & 0xff, self.0 & 0xff)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Ok => "ok",
            Self::InvalidArgument => "invalid argument",
            Self::InvalidHandle => "invalid handle",
            Self::OutOfMemory => "out of memory",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
            Self::Timeout => "timeout",
            Self::Aborted => "aborted",
            Self::PeerFailed => "peer failed",
            Self::Mismatch => "mismatch",
            Self::System => "system call failed",
            Self::Cuda => "CUDA driver call failed",
            Self::Internal => "internal error",
            Self::NotFound => "not found",
            Self::Unknown(value) => return write!(f, "unknown status {value}"),
        };
        f.write_str(name)
    }
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, own) = (self.name, Version(crate::SYMM_VERSION));
        write!(f, "the loaded libsymm has no function {name}: it is older than these bindings ({own})")
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = Version(crate::SYMM_VERSION);
        let (Self::Open { path, .. } | Self::NotSymm { path, .. } | Self::Version { path, .. }) = self;
        let path = path.display();
        match self {
            Self::Open { cause, .. } => {
                write!(f, "cannot load libsymm from {path}: {} (SYMM_LIB names the file to load)", Reason(cause))
            }
            Self::NotSymm { missing, .. } => write!(f, "{path} is not libsymm: it has no function {}", missing.name),
            Self::Version { found, .. } => {
                write!(f, "{path} is libsymm {}, which these bindings ({own}) do not fit", Version(*found))
            }
        }
    }
}

/// The loader's words, where there are some.
struct Reason<'a>(&'a libloading::Error);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.source() {
            Some(source) => write!(f, "{source}"),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Error for MissingSymbol {}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Open { cause, .. } => Some(cause),
            Self::NotSymm { missing, .. } => Some(missing),
            Self::Version { .. } => None,
        }
    }
}
