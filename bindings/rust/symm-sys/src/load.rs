//! Finds and loads the library, once, with the errors that can occur before it is loaded.

use crate::{Api, SYMM_VERSION_MAJOR, Status};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The library of this process, loaded on the first call. Every later call gives the result of the
/// first. Errors: [`LoadError`], when there is no usable library. The
/// [crate's page](crate#how-the-library-is-found) lists the places where the library is looked for.
#[inline]
pub fn api() -> Result<&'static Api, &'static LoadError> {
    static API: OnceLock<Result<Api, LoadError>> = OnceLock::new();
    API.get_or_init(find).as_ref()
}

#[cfg(feature = "link")]
fn find() -> Result<Api, LoadError> {
    check(Api::linked(), Path::new("the linked libsymm"))
}

#[cfg(not(feature = "link"))]
fn find() -> Result<Api, LoadError> {
    if let Some(path) = named_by_the_user() {
        // SAFETY: the user who set SYMM_LIB vouches for that library, as with LD_PRELOAD.
        return unsafe { Api::open(&path) };
    }

    let beside = beside_executable().into_iter().find(|path| path.is_file());
    // SAFETY: a library of this name beside the program, or among the system's libraries, is
    // trusted like those that the program was linked with.
    unsafe { Api::open(&beside.unwrap_or_else(|| PathBuf::from("libsymm.so.0"))) }
}

/// What SYMM_LIB says. It counts as unset in a program with privileges that its caller lacks, as in
/// the library itself.
#[cfg(not(feature = "link"))]
fn named_by_the_user() -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr, c_char};
    use std::os::unix::ffi::OsStrExt;

    unsafe extern "C" {
        fn secure_getenv(name: *const c_char) -> *const c_char;
    }

    // SAFETY: the name is a C string.
    let value = unsafe { secure_getenv(c"SYMM_LIB".as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a value that is there is a C string. Nobody changes the environment meanwhile, which
    // every caller of std::env::set_var() has to see to.
    let value = unsafe { CStr::from_ptr(value) };
    (!value.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(value.to_bytes())))
}

#[cfg(not(feature = "link"))]
fn beside_executable() -> Vec<PathBuf> {
    let Ok(executable) = std::env::current_exe() else {
        return Vec::new();
    };
    let Some(here) = executable.parent() else {
        return Vec::new();
    };
    [here.to_owned(), here.join("../lib")]
        .into_iter()
        .flat_map(|directory| ["libsymm.so.0", "libsymm.so"].map(|name| directory.join(name)))
        .collect()
}

impl Api {
    /// Loads one particular library, which [`api()`] does not use. It is never unloaded. Errors:
    /// [`LoadError`], if the loader refuses it, or it is not a libsymm of the major version of
    /// these bindings.
    ///
    /// # Safety
    /// Loading a library runs its initialisers, and functions with the names of `symm.h` must have
    /// the signatures of `symm.h`.
    pub unsafe fn open(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: the caller vouches for the library's initialisers.
        let library =
            unsafe { libloading::Library::new(path) }.map_err(|cause| LoadError::Open {
                path: path.to_owned(),
                cause,
            })?;
        let find = |name: &str| {
            // SAFETY: the address is not used as anything but an address here.
            let symbol = unsafe { library.get::<*const core::ffi::c_void>(name.as_bytes()) };
            symbol.ok().map(|symbol| *symbol)
        };

        // SAFETY: the caller vouches for the signatures; the
        // library stays loaded, since it is forgotten below.
        let api = unsafe { Self::resolve(find) };
        std::mem::forget(library);
        check(api, path)
    }
}

/// Refuses a library of another major version. An older minor version is accepted: a function that
/// it lacks is an error when the function is called.
fn check(mut api: Api, path: &Path) -> Result<Api, LoadError> {
    // SAFETY: symm_version() has no preconditions.
    let found = match unsafe { api.symm_version() } {
        Ok(found) => found,
        Err(missing) => {
            return Err(LoadError::NotSymm {
                path: PathBuf::from(path),
                missing,
            });
        }
    };
    if found >> 24 == SYMM_VERSION_MAJOR {
        api.version = found;
        return Ok(api);
    }
    Err(LoadError::Version {
        path: path.to_owned(),
        found,
    })
}

/// The loaded library has no such function: it is older than these bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingSymbol {
    /// Name of the function.
    pub name: &'static str,
    /// Version of the library, encoded like `SYMM_VERSION`; 0 if it does not even tell that.
    pub version: u32,
}

/// Why there is no library to call.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The loader refused the file, or found none.
    Open {
        /// The place that was tried last: the value of `SYMM_LIB`, a file beside the executable,
        /// or a bare name.
        path: PathBuf,
        /// The loader's error.
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
fn dotted(version: u32) -> String {
    format!(
        "{}.{}.{}",
        version >> 24,
        (version >> 12) & 0xfff,
        version & 0xfff
    )
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
        let name = self.name;
        let found = dotted(self.version);
        let own = dotted(crate::SYMM_VERSION);
        write!(
            f,
            "the loaded libsymm {found} has no function {name}, which these bindings ({own}) call"
        )
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = dotted(crate::SYMM_VERSION);
        let (Self::Open { path, .. } | Self::NotSymm { path, .. } | Self::Version { path, .. }) =
            self;
        let path = path.display();

        match self {
            Self::Open { cause, .. } => {
                // The text of the loader itself is the source of libloading's error.
                let reason = cause
                    .source()
                    .map_or_else(|| cause.to_string(), ToString::to_string);
                write!(
                    f,
                    "cannot load libsymm from {path}: {reason} (SYMM_LIB names the file to load)"
                )
            }
            Self::NotSymm { missing, .. } => write!(
                f,
                "{path} is not libsymm: it has no function {}",
                missing.name
            ),
            Self::Version { found, .. } => {
                write!(
                    f,
                    "{path} is libsymm {}, which these bindings ({own}) do not fit",
                    dotted(*found)
                )
            }
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
