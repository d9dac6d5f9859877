//! Finding the library, once.

use crate::{Api, LoadError, SYMM_VERSION_MAJOR};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The library of this process, loaded on the first call. What it answered then, it answers always.
///
/// # Errors
/// [`LoadError`], when there is no usable library. See the [crate's page](crate#how-the-library-is-found) for where it is sought.
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
    if let Some(path) = std::env::var_os("SYMM_LIB").filter(|value| !value.is_empty()) {
        // SAFETY: whoever set SYMM_LIB vouches for that library, as with LD_PRELOAD.
        return unsafe { Api::open(Path::new(&path)) };
    }
    let beside = beside_executable().into_iter().find(|path| path.is_file());
    // SAFETY: a library of this name beside the program, or where the system keeps its libraries, is trusted like
    // those that the program was linked with.
    unsafe { Api::open(&beside.unwrap_or_else(|| PathBuf::from("libsymm.so.0"))) }
}

#[cfg(not(feature = "link"))]
fn beside_executable() -> Vec<PathBuf> {
    let Ok(executable) = std::env::current_exe() else { return Vec::new() };
    let Some(here) = executable.parent() else { return Vec::new() };
    let directories = [here.to_owned(), here.join("../lib")].into_iter();
    directories.flat_map(|directory| ["libsymm.so.0", "libsymm.so"].map(|name| directory.join(name))).collect()
}

impl Api {
    /// Loads one particular library, beside whatever [`api()`] uses. It is never unloaded.
    ///
    /// # Errors
    /// [`LoadError`], if the loader refuses it, or it is not a libsymm of the major version of these bindings.
    ///
    /// # Safety
    /// Loading a library runs its initialisers, and functions that have the names of `symm.h` must have its signatures.
    pub unsafe fn open(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: the caller vouches for the library's initialisers.
        let library =
            unsafe { libloading::Library::new(path) }.map_err(|cause| LoadError::Open { path: path.to_owned(), cause })?;
        let find = |name: &str| {
            // SAFETY: the address is not used as anything but an address here.
            let symbol = unsafe { library.get::<*const core::ffi::c_void>(name.as_bytes()) };
            symbol.ok().map(|symbol| *symbol)
        };
        // SAFETY: the caller vouches for the signatures; the library stays loaded, since it is forgotten below.
        let api = unsafe { Self::resolve(find) };
        std::mem::forget(library);
        check(api, path)
    }
}

/// The same major version. An older minor version is welcome: what it lacks is an error when it is called.
fn check(api: Api, path: &Path) -> Result<Api, LoadError> {
    // SAFETY: symm_version() has no preconditions.
    let found = match unsafe { api.symm_version() } {
        Ok(found) => found,
        Err(missing) => return Err(LoadError::NotSymm { path: PathBuf::from(path), missing }),
    };
    if found >> 16 == SYMM_VERSION_MAJOR {
        return Ok(api);
    }
    Err(LoadError::Version { path: path.to_owned(), found })
}
