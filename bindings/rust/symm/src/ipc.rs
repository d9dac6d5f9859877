//! Sharing memory with any process of this user on this machine, outside of any group.
//!
//! The owner makes a [`Token`], plain bytes that may travel by any means; whoever
//! [imports](import) it gets the same physical memory. Memory lives as long as anybody
//! maps it: releasing a block ends its tokens, but not what was imported before.
//!
//! ```no_run
//! # let group = symm::Group::from_env()?;
//! let mut buffer = group.alloc::<f32>(1024)?;
//! buffer.as_mut_slice()?[0] = 1.5;
//! let shared = buffer.share();
//! let token = shared.span(..)?.export()?;
//!
//! // In another process:
//! let import = symm::ipc::import::<f32>(&token)?;
//! assert_eq!(import.view()?.load(0), 1.5);
//! # Ok::<(), symm::Error>(())
//! ```
//!
//! What other processes can map cannot be borrowed in safe code, as with
//! [`Memory`](crate::Memory): [`Buffer::share`](crate::Buffer::share)
//! gives the buffer up, and [`Shared::withdraw`] gives it back when it
//! is certain that nobody else holds it.

use crate::buffer::on_host;
use crate::convert::{filled, index, to_c};
use crate::error::{Error, Result, call};
use crate::{Backend, Buffer, Element, Span, Status, Stream, Timeout, View};
use std::fmt;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::time::Duration;
use symm_sys::{self as sys, symm_ipc};
pub use symm_sys::{
    symm_ipc_holders_t as Holders, symm_ipc_report_t as Report, symm_ipc_stats_t as Stats,
};

/// What an import and a shared block have in common: elements that others may touch.
/// `parts()` gives address, length and back end.
macro_rules! elements_in_other_hands {
    ($type:ident, $read:literal, $written:literal) => {
        impl<T: Element> $type<T> {
            /// The elements, one by one.
            pub fn view(&self) -> Result<View<'_, T>> {
                let (pointer, len, backend) = self.parts();
                on_host(backend)?;
                // SAFETY: the memory is mapped as long as
                // this value lives, aligned, and as long.
                Ok(unsafe { View::new(pointer, len) })
            }
        }

        slices!(
            $type,
            "A part of them, as an operand or to be [exported](crate::Span::export). On a device, use that of an import on its stream.",
            $read,
            $written
        );
    };
}

/// Names a piece of memory of a process of this user on this machine.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Vec<u8>);

impl Token {
    /// The bytes, at most `SYMM_IPC_TOKEN_MAX_SIZE`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Token {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// From bytes that were a token elsewhere. Whether
/// they are one is found out when it is imported.
impl From<Vec<u8>> for Token {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<Token> for Vec<u8> {
    fn from(token: Token) -> Self {
        token.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Who has the bytes has the memory, so they do not go to logs.
        write!(f, "Token({} bytes)", self.0.len())
    }
}

/// A block of this process of which tokens may be made: [`Buffer::share`].
///
/// ```compile_fail,E0505
/// # let group = symm::Group::from_env()?;
/// let shared = group.alloc::<f32>(1024)?.share();
/// let view = shared.view()?;
/// let buffer = shared.withdraw(symm::Timeout::Never); // takes what `view` looks at
/// println!("{}", view.load(0));
/// # Ok::<(), symm::Error>(())
/// ```
#[derive(Debug)]
pub struct Shared<T: Element>(Buffer<T>);

impl<T: Element> Buffer<T> {
    /// Gives up the certainty that nobody else has the
    /// block mapped, so that tokens can be made of it.
    pub fn share(self) -> Shared<T> {
        Shared(self)
    }
}

elements_in_other_hands!(
    Shared,
    "During the borrow nobody writes to them: not a process that imported a piece of the block.",
    "During the borrow nobody touches them: not a process that imported a piece of the block."
);

impl<T: Element> Shared<T> {
    fn parts(&self) -> (*mut T, usize, Backend) {
        (self.0.as_ptr(), self.0.len(), self.0.group.backend)
    }

    /// Ends all tokens of the block and waits until nobody holds a lease on
    /// it: then it is a buffer of one's own again. [`Timeout::Group`] is
    /// `$SYMM_TIMEOUT_MS`, else 60 seconds. Errors: `Timeout` (names a holder;
    /// the tokens have ended all the same), `PeerFailed` (a holder is gone,
    /// but may still write: release the block). The error holds the block.
    pub fn withdraw(
        self,
        timeout: impl Into<Timeout>,
    ) -> std::result::Result<Buffer<T>, WithdrawError<T>> {
        match self.span(..).and_then(|all| withdraw(&all, timeout)) {
            Ok(()) => Ok(self.0),
            Err(error) => Err(WithdrawError {
                error: Box::new(error),
                shared: self,
            }),
        }
    }
}

/// The block could not be had back, and why.
#[derive(Debug)]
pub struct WithdrawError<T: Element> {
    /// Why not.
    pub error: Box<Error>,
    /// The block.
    pub shared: Shared<T>,
}

impl<T: Element> fmt::Display for WithdrawError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: Element> std::error::Error for WithdrawError<T> {}

impl<T: Element> From<WithdrawError<T>> for Error {
    fn from(error: WithdrawError<T>) -> Self {
        *error.error
    }
}

builder! {
    /// How to export.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # let shared = symm::Group::from_env()?.alloc::<f32>(1024)?.share();
    /// // One consumer may still come within five seconds after this process has released the block.
    /// let token = symm::ipc::ExportOptions::new().hold(Duration::from_secs(5)).hold_imports(1).export(&shared.span(..512)?)?;
    /// # Ok::<(), symm::Error>(())
    /// ```
    #[derive(Debug, Clone)]
    #[must_use = "options do nothing until export() is called"]
    pub struct ExportOptions {
        /// Keeps the memory for this token, though its owner releases it, for as long
        /// from now. Otherwise `$SYMM_IPC_HOLD_MS`, if that is set.
        hold(time: Duration): u64 = Timeout::from(time).as_millis();
        /// Or until so many imports of this token were made.
        hold_imports(imports: u64): u64 = imports;
        /// On CUDA: what was issued on this stream before is there after an import.
        stream(stream: Stream): Stream = stream;
    }
}

impl ExportOptions {
    /// Makes a token for a piece of memory. A local call. Errors: `InvalidArgument`
    /// (not memory that can be exported), `Unsupported` (a hold of an import, which
    /// only its owner can hold), `OutOfMemory`, `System`, `Unavailable` (the directory
    /// of the sockets is not private), `PeerFailed`, `Cuda`.
    pub fn export<T: Element>(&self, piece: &Span<'_, T>) -> Result<Token> {
        let options = sized!(symm_ipc_export_options_t: hold_ms = self.hold, hold_imports = self.hold_imports);
        let mut token = vec![0; sys::SYMM_IPC_TOKEN_MAX_SIZE as usize];
        let (at, size) = (
            piece.as_ptr().cast_const().cast(),
            size_of::<T>() * piece.len(),
        );
        let (mut len, stream) = (0, self.stream.as_raw());
        // SAFETY: the struct says its size, and the token holds
        // as many bytes as is said. The piece lies in a block
        // that lives, and that safe code does not borrow.
        call(|api| unsafe {
            api.symm_ipc_export(
                at,
                size,
                &options,
                token.as_mut_ptr().cast(),
                token.len(),
                &mut len,
                stream,
            )
        })?;
        token.truncate(len);
        Ok(Token(token))
    }
}

impl<T: Element> Span<'_, T> {
    /// Makes a token for these elements, by which any
    /// process of this user maps them. A local call.
    pub fn export(&self) -> Result<Token> {
        ExportOptions::new().export(self)
    }
}

/// Ends the tokens made so far for any part of a piece of memory, and waits
/// until nobody holds a lease on any part of it. [`Timeout::Group`] is
/// `$SYMM_TIMEOUT_MS`, else 60 seconds. To have a whole [`Shared`] block
/// back, use its own [`withdraw`](Shared::withdraw). Errors: `Timeout`
/// (names a holder; the tokens have ended all the same), `PeerFailed` (a
/// holder is gone, but may still write), `InvalidArgument`.
pub fn withdraw<T: Element>(piece: &Span<'_, T>, timeout: impl Into<Timeout>) -> Result<()> {
    let (at, size) = (
        piece.as_ptr().cast_const().cast(),
        size_of::<T>() * piece.len(),
    );
    // SAFETY: the address is only looked up.
    call(|api| unsafe { api.symm_ipc_withdraw(at, size, timeout.into().as_millis()) })
}

/// Who holds leases on any part of a piece of memory, without ending
/// its tokens. Never waits; looks at all leases. Errors:
/// `InvalidArgument` for memory of which this process makes no tokens.
pub fn holders<T: Element>(piece: &Span<'_, T>) -> Result<Holders> {
    let (at, size) = (
        piece.as_ptr().cast_const().cast(),
        size_of::<T>() * piece.len(),
    );
    // SAFETY: the address is only looked up; a struct
    // of symm.h, and the function that fills it.
    unsafe { filled(|api, out| api.symm_ipc_holders(at, size, out)) }
}

builder! {
    /// How to import.
    #[derive(Debug, Clone)]
    #[must_use = "options do nothing until import() is called"]
    pub struct ImportOptions {
        /// Deadline of the exporter's answer. Otherwise `$SYMM_TIMEOUT_MS`, else 60 seconds.
        timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// Where the exporter's `$SYMM_IPC_DIRECTORY`
        /// is seen here. Otherwise under the same path.
        directory(directory: impl Into<PathBuf>): Option<PathBuf> = Some(directory.into());
        /// The CUDA device for which to map. Otherwise the one that has the memory.
        device(device: usize): Option<usize> = Some(device);
        /// On CUDA: the stream on which the memory is used. The
        /// lease ends when what was issued on it is over; where
        /// none was named, when all that the device had to do is.
        stream(stream: Stream): Stream = stream;
    }
}

impl ImportOptions {
    /// Maps the memory that a token names, as elements of a
    /// type; a rest that is no whole element is out of reach.
    ///
    /// # Errors `InvalidArgument` (not a token, cut short, damaged, forged; or the
    /// piece does not begin where an element could), `Unsupported` (made by a newer
    /// library), `Unavailable` (another machine or user; GPU or directory not visible),
    /// `InvalidHandle` (the memory was released or withdrawn), `PeerFailed` (the
    /// exporter is gone), `Timeout`, `OutOfMemory`, `System`, `Cuda`.
    pub fn import<T: Element>(&self, token: &Token) -> Result<Import<T>> {
        let text = |path: &PathBuf| {
            to_c(
                "directory",
                path.to_str()
                    .ok_or_else(|| Error::argument("directory is not UTF-8"))?,
            )
        };
        let directory = self.directory.as_ref().map(text).transpose()?;
        let options = sized!(symm_ipc_import_options_t: timeout_ms = self.timeout.as_millis(),
            directory = directory.as_ref().map_or(ptr::null(), |text| text.as_ptr()),
            device = self.device.map_or(sys::SYMM_DEVICE_AUTO, index));
        let (bytes, stream, mut out) = (token.as_bytes(), self.stream.as_raw(), ptr::null_mut());
        // SAFETY: the struct says its size, its string lives until the end of this
        // function, and the token is as long as is said.
        call(|api| unsafe {
            api.symm_ipc_import(
                bytes.as_ptr().cast(),
                bytes.len(),
                &options,
                &mut out,
                stream,
            )
        })?;
        let raw = NonNull::new(out).ok_or_else(|| {
            Error::from_parts(Status::Internal, "the library gave NULL for an import")
        })?;
        let (stream, nothing) = (self.stream.clone(), ptr::dangling_mut::<T>());
        let mut import = Import {
            raw,
            stream,
            pointer: nothing,
            len: 0,
            backend: Backend::Auto,
        };
        let info = import.info()?;
        let pointer = on!(import.symm_ipc_pointer() -> ptr::null_mut())?;
        import.pointer = if pointer.is_null() {
            nothing
        } else {
            pointer.cast()
        };
        if !import.pointer.is_aligned() {
            let (name, offset) = (std::any::type_name::<T>(), info.offset);
            let text = format!(
                "the token names memory from byte {offset} of a block on, where no {name} can be"
            );
            return Err(Error::argument(text));
        }
        import.len = usize::try_from(info.bytes).unwrap_or(usize::MAX) / size_of::<T>();
        import.backend = info.backend;
        Ok(import)
    }
}

/// Maps the memory that a token names. As `ImportOptions::new().import(token)`.
pub fn import<T: Element>(token: &Token) -> Result<Import<T>> {
    ImportOptions::new().import(token)
}

/// Memory of another process, or of this one, mapped by a token. Dropping it ends the
/// lease; the memory stays valid until then, even if the exporter dies.
pub struct Import<T: Element> {
    /// The library's handle. Its release is ordered on the stream; without one, on all.
    raw: NonNull<symm_ipc>,
    stream: Stream,
    pointer: *mut T,
    len: usize,
    backend: Backend,
}

// SAFETY: symm.h: all functions may be called from any thread; the address is used
// through View, Span and local() only.
unsafe impl<T: Element> Send for Import<T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Import<T> {}

impl<T: Element> Drop for Import<T> {
    fn drop(&mut self) {
        if let Ok(api) = sys::api() {
            let stream = if self.stream.as_raw().is_null() {
                Stream::all()
            } else {
                self.stream.as_raw()
            };
            // SAFETY: this is the one import that the library gave; the stream lives,
            // since it is held here. Without the function the lease stays, which is all
            // that can be done: Drop does not fail.
            let _ = unsafe { api.symm_ipc_release(self.raw.as_ptr(), stream) };
        }
    }
}

known! {
    /// What is known of an import.
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

elements_in_other_hands!(
    Import,
    "During the borrow nobody writes to them: not the exporter, nor anybody else who has the memory.",
    "During the borrow nobody touches them: not the exporter, nor anybody else who has the memory."
);

impl<T: Element> Import<T> {
    fn parts(&self) -> (*mut T, usize, Backend) {
        (self.pointer, self.len, self.backend)
    }

    /// What is issued on `stream` next runs after what the exporter had issued before
    /// the export. Errors: `InvalidArgument` for a stream under capture, `Cuda`.
    pub fn order(&self, stream: &Stream) -> Result<()> {
        on!(self.symm_ipc_stream_wait(stream.as_raw()))
    }

    /// Says that what was issued on `stream` so far uses the
    /// memory: the lease does not end before that is over.
    pub fn record_use(&self, stream: &Stream) -> Result<()> {
        on!(self.symm_ipc_record_use(stream.as_raw()))
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
        self.raw.as_ptr()
    }
}

described!(Import);

/// Frees what is provably free. Never waits. Exports and allocations do as much of it
/// as they need. Says what all collections of the process have done.
pub fn collect() -> Result<Report> {
    // SAFETY: a struct of symm.h, and the function that fills it.
    unsafe { filled(|api, out| api.symm_ipc_collect(out)) }
}

/// The state of sharing in this process.
pub fn stats() -> Result<Stats> {
    // SAFETY: a struct of symm.h, and the function that fills it.
    unsafe { filled(|api, out| api.symm_ipc_stats(out)) }
}
