//! Sharing memory with any process of this user on this machine, outside of any group.
//!
//! The owner makes a [`Token`], plain bytes that may travel by any means. A process that
//! [imports](import) the token maps the owner's physical memory, which lives as long as anybody
//! maps it: releasing a block ends its tokens, but not earlier imports.
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
//! Memory that other processes can map cannot be borrowed in safe code, as with
//! [`Memory`](crate::Memory): [`Buffer::share`](crate::Buffer::share) gives the buffer up, and
//! [`Shared::withdraw`] gives it back when it is certain that nobody else holds it.

mod asleep;
mod bundle;
mod pads;

pub use self::asleep::{Asleep, Sleeper};
pub use self::bundle::{
    Bundle, NamedPiece, ReadOnly, Reader, import_bundle, lookup, publish, withdraw_version,
};
pub use self::pads::{fence, wait_value};
use crate::buffer::on_host;
use crate::convert::{filled, index, to_c};
use crate::error::{Error, Result, acting, call};
use crate::group::{as_pointer, number};
use crate::stream::no_wait;
use crate::{Backend, Buffer, Element, Span, Status, Stream, Timeout, View};
use std::ffi::{CString, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::time::Duration;
use symm_sys::{self as sys, symm_ipc};
pub use symm_sys::{
    symm_ipc_collect_stats_t as CollectStats, symm_ipc_holders_t as Holders,
    symm_ipc_stats_t as Stats,
};

/// The methods that an import and a shared block have alike: both have elements that other
/// processes may touch. `parts()` gives address, length and back end.
macro_rules! shared_elements {
    ($type:ident, $read:literal, $written:literal) => {
        impl<T: Element> $type<T> {
            /// Access to single elements.
            pub fn view(&self) -> Result<View<'_, T>> {
                let (pointer, len, backend) = self.parts();
                on_host(backend)?;
                // SAFETY: the memory is mapped as long as this value lives, aligned, and has
                // `len` elements.
                Ok(unsafe { View::new(pointer, len) })
            }
        }

        slices!(
            $type,
            "A part of the elements, as an operand or to be [exported](crate::Span::export). On a
device, use a part of an import on the stream of the import.",
            $read,
            $written
        );
    };
}

/// The name of a piece of memory of a process of this user on this machine.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Vec<u8>);

impl Token {
    /// The bytes, at most `SYMM_IPC_TOKEN_MAX_BYTES`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Token {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Makes a token from the bytes of a token of another process. The bytes are checked when the token
/// is imported.
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
        // The bytes give access to the memory, so they do not go to logs.
        write!(f, "Token({} bytes)", self.0.len())
    }
}

/// A block of this process that tokens may be made for: made by [`Buffer::share`].
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
    /// Gives up the certainty that nobody else has the block mapped, so that tokens can be made for
    /// it.
    pub fn share(self) -> Shared<T> {
        Shared(self)
    }
}

shared_elements!(
    Shared,
    "During the borrow nobody writes to the elements, and so no process that imported a piece of the
block does.",
    "During the borrow nobody touches the elements, and so no process that imported a piece of the
block does."
);

impl<T: Element> Shared<T> {
    fn parts(&self) -> (*mut T, usize, Backend) {
        (self.0.as_ptr(), self.0.len(), self.0.group.backend)
    }

    /// Ends all tokens of the block and waits until nobody holds a lease on it; then the block is a
    /// private buffer again. [`Timeout::Group`] is `$SYMM_TIMEOUT_MS`, else 60 seconds. Errors:
    /// `Timeout` (the message names a holder; the tokens have ended nevertheless), `PeerFailed` (a
    /// holder is gone, but may still write: release the block). The error holds the block.
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

/// The error of [`Shared::withdraw`], with the block, which stays shared.
#[derive(Debug)]
pub struct WithdrawError<T: Element> {
    /// Why the call failed.
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
    /// // One consumer may still come within five seconds, though this process releases the block.
    /// let token = symm::ipc::ExportOptions::new()
    ///     .hold(Duration::from_secs(5))
    ///     .hold_imports(1)
    ///     .export(&shared.span(..512)?)?;
    /// # Ok::<(), symm::Error>(())
    /// ```
    #[derive(Debug, Clone)]
    #[must_use = "options do nothing until export() is called"]
    pub struct ExportOptions {
        /// Keeps the memory for this token for a time from now on, though its owner releases it;
        /// for no time, whatever `$SYMM_IPC_HOLD_MS` says, if the time is zero. Otherwise as long
        /// as `$SYMM_IPC_HOLD_MS` says, if that is set.
        hold(time: Duration): Option<Duration> = Some(time);
        /// Ends the hold early, once this token was imported that many times.
        hold_imports(imports: u64): u64 = imports;
        /// Gives the token words by which those who import it [signal](Import::signal_value) this
        /// process, which [waits](wait_value) for them. Memory of the host that this process made;
        /// it is not held.
        channels(channels: usize): usize = channels;
        /// The bytes of a part of the piece that [`fence`] can close by itself. Otherwise a fence
        /// closes the whole piece.
        fence_bytes(bytes: u64): u64 = bytes;
        /// On CUDA: an importer sees the results of work that was issued on this stream before.
        stream(stream: Stream): Stream = stream;
    }
}

impl ExportOptions {
    /// Makes a token for a piece of memory. A local call. Errors: `InvalidArgument`
    /// (not memory that can be exported), `Unsupported` (a hold of an import, which
    /// only its owner can hold; channels for an import, or for memory of a GPU),
    /// `OutOfMemory`, `System`, `Unavailable` (the directory of the sockets is not
    /// private), `PeerFailed`, `Cuda`.
    pub fn export<T: Element>(&self, piece: &Span<'_, T>) -> Result<Token> {
        let given = self.to_c();
        let (at, bytes) = address_and_bytes(piece);
        let mut token = vec![0; sys::SYMM_IPC_TOKEN_MAX_BYTES as usize];
        let mut len = 0;

        // SAFETY: the struct says its size, and the token holds `token.len()` bytes. The piece lies
        // in a block that lives, and that safe code does not borrow.
        acting(given, |api, options| unsafe {
            api.symm_ipc_export(
                at,
                bytes,
                options,
                token.as_mut_ptr().cast(),
                token.len(),
                &mut len,
                self.stream.as_raw(),
            )
        })?;
        token.truncate(len);
        Ok(Token(token))
    }

    /// The options of `symm.h`.
    fn to_c(&self) -> sys::symm_ipc_export_options_t {
        let mut given = sys::symm_ipc_export_options_t {
            hold_imports: self.hold_imports,
            channels: index(self.channels),
            fence_bytes: self.fence_bytes,
            ..Default::default()
        };
        match self.hold {
            None => {}
            Some(Duration::ZERO) => given.flags = sys::SYMM_IPC_NO_HOLD,
            Some(time) => given.hold_ms = Timeout::After(time).as_millis(),
        }
        given
    }
}

/// Address and size in bytes of a piece of memory.
fn address_and_bytes<T: Element>(piece: &Span<'_, T>) -> (*const c_void, usize) {
    let address = piece.as_ptr().cast_const().cast();
    (address, size_of::<T>() * piece.len())
}

impl<T: Element> Span<'_, T> {
    /// Makes a token for these elements, by which any process of this user maps them. A local call.
    pub fn export(&self) -> Result<Token> {
        ExportOptions::new().export(self)
    }
}

/// Ends the tokens made so far for any part of a piece of memory, and waits until nobody holds a
/// lease on any part of it. [`Timeout::Group`] is `$SYMM_TIMEOUT_MS`, else 60 seconds. To get back
/// a whole [`Shared`] block, use its own [`withdraw`](Shared::withdraw). Errors: `Timeout` (the
/// message names a holder; the tokens have ended nevertheless), `PeerFailed` (a holder is gone, but
/// may still write), `InvalidArgument`.
pub fn withdraw<T: Element>(piece: &Span<'_, T>, timeout: impl Into<Timeout>) -> Result<()> {
    let (at, bytes) = address_and_bytes(piece);
    // SAFETY: the address is only looked up.
    acting(timeout.into().options(), |api, options| unsafe {
        api.symm_ipc_withdraw(at, bytes, options)
    })
}

/// The holders of leases on any part of a piece of memory. Its tokens do not end. Never waits;
/// looks at all leases. Errors: `InvalidArgument` for memory that this process makes no tokens
/// for.
pub fn holders<T: Element>(piece: &Span<'_, T>) -> Result<Holders> {
    let (at, bytes) = address_and_bytes(piece);
    filled(|out| {
        // SAFETY: the address is only looked up; the struct says its size.
        acting(no_wait(), |api, options| unsafe {
            api.symm_ipc_holders(at, bytes, options, out)
        })
    })
}

builder! {
    /// How to import.
    #[derive(Debug, Clone)]
    #[must_use = "options do nothing until import() is called"]
    pub struct ImportOptions {
        /// Deadline of the exporter's answer. Otherwise `$SYMM_TIMEOUT_MS`, else 60 seconds.
        timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// The path of the exporter's `$SYMM_IPC_DIRECTORY` in this process. Otherwise the
        /// exporter's path.
        directory(directory: impl Into<PathBuf>): Option<PathBuf> = Some(directory.into());
        /// The CUDA device for which to map. Otherwise the one that has the memory.
        device(device: usize): Option<usize> = Some(device);
        /// On CUDA: the stream on which the memory is used. The lease ends when the work that was
        /// issued on this stream is done; without a stream, when all work of the device is done.
        stream(stream: Stream): Stream = stream;
    }
}

impl ImportOptions {
    /// Maps the memory that a token names, as elements of a type. Bytes at the end that make no
    /// whole element are out of reach.
    ///
    /// # Errors
    ///
    /// * `InvalidArgument`: not a token, cut short, damaged or forged; or the piece does not begin
    ///   where an element could.
    /// * `Unsupported`: made by a newer library.
    /// * `Unavailable`: another machine or user; GPU or directory not visible.
    /// * `InvalidHandle`: the memory was released or withdrawn.
    /// * `PeerFailed`: the exporter is gone.
    /// * `Timeout`, `OutOfMemory`, `System`, `Cuda`.
    pub fn import<T: Element>(&self, token: &Token) -> Result<Import<T>> {
        self.import_as(token, 0)
    }

    fn import_as<T: Element>(&self, token: &Token, flags: u64) -> Result<Import<T>> {
        let directory = self.directory.as_deref().map(path_to_c).transpose()?;
        let given = sys::symm_ipc_import_options_t {
            flags: flags | (u64::from(self.device.is_some()) * sys::SYMM_IPC_ON_DEVICE),
            timeout_ms: self.timeout.as_millis(),
            directory: as_pointer(directory.as_deref()),
            device: number("device", self.device.unwrap_or(0))?,
            ..Default::default()
        };

        let bytes = token.as_bytes();
        let stream = self.stream.as_raw();
        let mut out = ptr::null_mut();
        // SAFETY: the struct says its size, its string lives until the end of this function, and
        // the token has `bytes.len()` bytes.
        acting(given, |api, options| unsafe {
            let at = bytes.as_ptr().cast();
            api.symm_ipc_import(at, bytes.len(), options, &mut out, stream)
        })?;
        let raw = NonNull::new(out).ok_or_else(|| {
            Error::from_parts(Status::Internal, "the library gave NULL for an import")
        })?;

        // From here on, dropping the import releases it.
        let mut import = Import {
            raw,
            stream: self.stream.clone(),
            pointer: ptr::dangling_mut::<T>(),
            len: 0,
            backend: Backend::Auto,
        };
        let info = import.info()?;
        let pointer = on!(import.symm_ipc_pointer() -> ptr::null_mut())?;
        // Nothing, or a bundle, whose pieces are elsewhere.
        if pointer.is_null() {
            import.backend = info.backend;
            return Ok(import);
        }
        import.pointer = pointer.cast();
        if !import.pointer.is_aligned() {
            return Err(misaligned::<T>(info.offset));
        }
        import.len = usize::try_from(info.bytes).unwrap_or(usize::MAX) / size_of::<T>();
        import.backend = info.backend;
        Ok(import)
    }
}

fn path_to_c(path: &Path) -> Result<CString> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::argument("directory is not UTF-8"))?;
    to_c("directory", text)
}

fn misaligned<T: Element>(offset: u64) -> Error {
    let name = std::any::type_name::<T>();
    Error::argument(format!(
        "the token names memory from byte {offset} of a block on, where no {name} can be"
    ))
}

/// Maps the memory that a token names. Short for `ImportOptions::new().import(token)`.
pub fn import<T: Element>(token: &Token) -> Result<Import<T>> {
    ImportOptions::new().import(token)
}

/// Memory of another process, or of this one, mapped by a token. Dropping the import ends its
/// lease; the memory stays valid until then, even if the exporter dies.
pub struct Import<T: Element> {
    /// The library's handle. Its release is ordered on the stream; without a stream, on all
    /// streams.
    raw: NonNull<symm_ipc>,
    stream: Stream,
    pointer: *mut T,
    len: usize,
    backend: Backend,
}

// SAFETY: symm.h says that all functions may be called from any thread; only View, Span and local()
// access the memory behind the address.
unsafe impl<T: Element> Send for Import<T> {}
// SAFETY: a shared reference allows only calls, which any thread may make, and gives the address.
unsafe impl<T: Element> Sync for Import<T> {}

impl<T: Element> Drop for Import<T> {
    fn drop(&mut self) {
        if let Ok(api) = sys::api() {
            let stream = if self.stream.as_raw().is_null() {
                Stream::all()
            } else {
                self.stream.as_raw()
            };
            // SAFETY: this is the one import that the library gave; the stream lives, because it
            // is held here. Without the function the lease stays, because Drop cannot fail.
            let _ = unsafe { api.symm_ipc_release(self.raw.as_ptr(), stream) };
        }
    }
}

known! {
    /// Information about an import.
    pub struct ImportInfo of symm_ipc_info_t {
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "The device for which the memory is mapped here; 0 on the host.";
        pub bytes: u64 = "Bytes of the piece.";
        pub offset: u64 = "Offset of the piece in the exporter's block.";
        pub block_bytes: u64 = "Bytes of the exporter's block.";
        pub exporter_pid: i64 = "The exporter's process id in its own namespace.";
        pub exporter_alive: bool = "Whether neither its death nor its departure was noticed.";
        pub host_memory: bool =
            "Whether the host may touch the memory, though it may be mapped for a device.";
        pub flags: u64 =
            "`SYMM_IPC_READ_ONLY` if it is mapped for reading only, `SYMM_IPC_RELEASED`,
`SYMM_IPC_SUSPENDED` and `SYMM_IPC_DIES_WITH_MAKER`; or 0.";
    }
}

shared_elements!(
    Import,
    "During the borrow nobody writes to the elements: neither the exporter, nor any other process
that has the memory.",
    "During the borrow nobody touches the elements: neither the exporter, nor any other process that
has the memory."
);

impl<T: Element> Import<T> {
    fn parts(&self) -> (*mut T, usize, Backend) {
        (self.pointer, self.len, self.backend)
    }

    /// Orders work that is issued on `stream` from now on after the work that the exporter had
    /// issued before the export. Errors: `InvalidArgument` for a stream under capture, `Cuda`.
    pub fn order(&self, stream: &Stream) -> Result<()> {
        on!(
            self.symm_ipc_stream_wait(options, stream.as_raw()),
            options: no_wait()
        )
    }

    /// Records that the work that was issued on `stream` so far uses the memory: the lease does not
    /// end before that work is done.
    pub fn record_use(&self, stream: &Stream) -> Result<()> {
        on!(
            self.symm_ipc_record_use(options, stream.as_raw()),
            options: no_wait()
        )
    }

    /// Describes the import.
    pub fn info(&self) -> Result<ImportInfo> {
        on!(self.symm_ipc_info() => ImportInfo)
    }

    /// The address of the first element. An address of device memory if the memory is
    /// [on a device](ImportInfo::backend).
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value lives.
    pub fn as_raw(&self) -> *mut symm_ipc {
        self.raw.as_ptr()
    }
}

described!(Import);

/// Frees memory that is provably unused. Never waits. Exports and allocations collect as much as
/// they need. Returns counts of what all collections of the process have done.
pub fn collect() -> Result<CollectStats> {
    filled(|out| {
        // SAFETY: the struct says its size.
        acting(no_wait(), |api, options| unsafe {
            api.symm_ipc_collect(options, out)
        })
    })
}

/// The state of sharing in this process.
pub fn stats() -> Result<Stats> {
    filled(|out| {
        // SAFETY: the struct says its size.
        call(|api| unsafe { api.symm_ipc_stats(out) })
    })
}
