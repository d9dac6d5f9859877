//! Mapping what a token names.

use super::Token;
use super::imported::{Import, Lease};
use crate::convert::{index, to_c};
use crate::error::{Error, Result, call};
use crate::{Element, Status, Stream, Timeout};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use symm_sys as sys;

/// How to import.
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until import() is called"]
pub struct ImportOptions {
    timeout: Timeout,
    directory: Option<PathBuf>,
    device: Option<usize>,
    stream: Stream,
}

setters! { ImportOptions:
    /// Deadline of the exporter's answer. Otherwise `$SYMM_TIMEOUT_MS`, else 60 seconds.
    timeout(timeout: impl Into<Timeout>) = timeout.into();
    /// Where the exporter's `$SYMM_IPC_DIRECTORY` is seen here. Otherwise under the same path.
    directory(directory: impl Into<PathBuf>) = Some(directory.into());
    /// The CUDA device for which to map. Otherwise the one that has the memory.
    device(device: usize) = Some(device);
    /// On CUDA: the stream on which the memory is used. The lease ends when what was issued on it is over; where none was named,
    /// when all that the device had to do is.
    stream(stream: Stream) = stream;
}

impl ImportOptions {
    /// Maps the memory that a token names, as elements of a type; a rest that is no whole element is out of reach.
    ///
    /// # Errors
    /// `InvalidArgument` (not a token, cut short, damaged, forged; or the piece does not begin where an element could), `Unsupported`
    /// (made by a newer library), `Unavailable` (another machine or user; GPU or directory not visible), `InvalidHandle` (the memory
    /// was released or withdrawn), `PeerFailed` (the exporter is gone), `Timeout`, `OutOfMemory`, `System`, `Cuda`.
    pub fn import<T: Element>(&self, token: &Token) -> Result<Import<T>> {
        let directory = match &self.directory {
            Some(path) => {
                let text = path.to_str().ok_or_else(|| Error::argument("directory is not UTF-8"))?;
                Some(to_c("directory", text)?)
            }
            None => None,
        };
        let options = sized!(symm_ipc_import_options_t: timeout_ms = self.timeout.as_millis(),
            directory = directory.as_ref().map_or(ptr::null(), |text| text.as_ptr()),
            device = self.device.map_or(sys::SYMM_DEVICE_AUTO, index));
        let (bytes, stream, mut out) = (token.as_bytes(), self.stream.as_raw(), ptr::null_mut());
        // SAFETY: the struct says its size, its string lives until the end of this function, and the token is as long as is said.
        call(|api| unsafe { api.symm_ipc_import(bytes.as_ptr().cast(), bytes.len(), &options, &mut out, stream) })?;
        let raw = NonNull::new(out).ok_or_else(|| Error::from_parts(Status::Internal, "the library gave NULL for an import"))?;
        Import::adopt(Lease { raw, stream: self.stream.clone() })
    }
}

/// Maps the memory that a token names. As `ImportOptions::new().import(token)`.
pub fn import<T: Element>(token: &Token) -> Result<Import<T>> {
    ImportOptions::new().import(token)
}
