//! Memory of another process.

use crate::buffer::on_host;
use crate::error::{Error, Result};
use crate::{Backend, Element, Stream, View};
use std::ptr::{self, NonNull};
use symm_sys::{self as sys, symm_ipc};

/// Memory of another process, or of this one, mapped by a token. Dropping it ends the lease; the memory stays valid until then, even if the
/// exporter dies.
///
/// ```compile_fail,E0505
/// # let token = symm::ipc::Token::from(vec![]);
/// let import = symm::ipc::import::<f32>(&token)?;
/// let view = import.view()?;
/// drop(import);
/// println!("{}", view.load(0));
/// # Ok::<(), symm::Error>(())
/// ```
pub struct Import<T: Element> {
    lease: Lease,
    pointer: *mut T,
    len: usize,
    backend: Backend,
}

/// The library's handle. Its release is ordered on the stream of the import; without one, on all.
pub(super) struct Lease {
    pub(super) raw: NonNull<symm_ipc>,
    pub(super) stream: Stream,
}

// SAFETY: symm.h: all functions may be called from any thread; the address is used through View, Span and local() only.
unsafe impl<T: Element> Send for Import<T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Import<T> {}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Ok(api) = sys::api() {
            let stream = if self.stream.as_raw().is_null() { Stream::all() } else { self.stream.as_raw() };
            // SAFETY: this is the one import that the library gave; the stream lives, since it is held here. Without the function the
            // lease stays, which is all that can be done: Drop does not fail.
            let _ = unsafe { api.symm_ipc_release(self.raw.as_ptr(), stream) };
        }
    }
}

known! {
    /// What is known of an import.
    #[derive(Debug, Clone)]
    pub struct ImportInfo of symm_ipc_info_t {
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "The device for which it is mapped here; 0 on the host.";
        pub bytes: u64 = "Bytes of the piece.";
        pub offset: u64 = "Of the piece in the exporter's block.";
        pub block_bytes: u64 = "Bytes of that block.";
        pub exporter_pid: i64 = "The exporter's process id, as it knows itself.";
        pub exporter_alive: bool = "Whether its death or departure was not noticed yet.";
        pub host_memory: bool = "Whether the host may touch it, though it may be mapped for a device.";
    }
}

impl Lease {
    fn as_raw(&self) -> *mut symm_ipc {
        self.raw.as_ptr()
    }
}

elements_in_other_hands!(
    Import,
    "During the borrow nobody writes to them: not the exporter, nor anybody else who has the memory.",
    "During the borrow nobody touches them: not the exporter, nor anybody else who has the memory."
);

impl<T: Element> Import<T> {
    fn parts(&self) -> (*mut T, usize, Backend) {
        (self.pointer, self.len, self.backend)
    }

    /// What is issued on `stream` next runs after what the exporter had issued before the export.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream under capture, `Cuda`.
    pub fn order(&self, stream: &Stream) -> Result<()> {
        on!(self.symm_ipc_stream_wait(stream.as_raw()))
    }

    /// Says that what was issued on `stream` so far uses the memory: the lease does not end before that is over.
    pub fn record_use(&self, stream: &Stream) -> Result<()> {
        on!(self.symm_ipc_record_use(stream.as_raw()))
    }

    pub(super) fn adopt(lease: Lease) -> Result<Self> {
        let info = on!(lease.symm_ipc_info() => ImportInfo)?;
        let pointer = on!(lease.symm_ipc_pointer() -> ptr::null_mut())?;
        let pointer: *mut T = if pointer.is_null() { ptr::dangling_mut() } else { pointer.cast() }; // of nothing
        if !pointer.is_aligned() {
            let name = std::any::type_name::<T>();
            return Err(Error::argument(format!(
                "the token names memory from byte {} of a block on, where no {name} can be",
                info.offset
            )));
        }
        let len = usize::try_from(info.bytes).unwrap_or(usize::MAX) / size_of::<T>();
        Ok(Self { lease, pointer, len, backend: info.backend })
    }

    /// What is known of it.
    pub fn info(&self) -> Result<ImportInfo> {
        on!(self.symm_ipc_info() => ImportInfo)
    }

    /// Its address. Of device memory if it is [on a device](ImportInfo::backend).
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value lives.
    pub fn as_raw(&self) -> *mut symm_ipc {
        self.lease.as_raw()
    }
}

described!(Import);
