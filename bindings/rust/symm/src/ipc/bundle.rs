//! Bundles, which are many named pieces of memory by one token, and versions, which are tokens by
//! a name and a number.

use super::{ExportOptions, Import, ImportInfo, ImportOptions, Token};
use crate::buffer::on_host;
use crate::convert::{filled, to_c};
use crate::error::{Error, Result, acting};
use crate::{Backend, Compare, Element, Span, Status, Timeout, View};
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr;
use symm_sys::{self as sys, symm_ipc_piece_t};

/// A piece of memory that a bundle is to have.
#[derive(Debug, Clone)]
#[must_use = "a piece does nothing until it is exported"]
pub struct NamedPiece<'a> {
    name: CString,
    pointer: *mut std::ffi::c_void,
    bytes: usize,
    about: Vec<u8>,
    _block: PhantomData<&'a ()>,
}

impl<'a> NamedPiece<'a> {
    /// The elements of a span under a name, which is one line of text.
    pub fn new<T: Element>(name: &str, elements: &Span<'a, T>) -> Result<Self> {
        Ok(Self {
            name: to_c("name", name)?,
            pointer: elements.as_ptr().cast(),
            bytes: size_of::<T>() * elements.len(),
            about: Vec::new(),
            _block: PhantomData,
        })
    }

    /// What the piece is, for those who import it, such as `f32[3,4]`, which Python and Julia
    /// write and read.
    pub fn about(mut self, about: impl Into<Vec<u8>>) -> Self {
        self.about = about.into();
        self
    }
}

impl ExportOptions {
    /// Makes one token for many named pieces, which may lie in any number of blocks of one device.
    /// A local call.
    ///
    /// # Errors
    ///
    /// * `InvalidArgument`: a name is that of two pieces, or is not one line; no piece has bytes;
    ///   or the memory cannot be exported. The message has the number of the piece.
    /// * `Unavailable`, `OutOfMemory`, `System`, `Cuda`.
    pub fn export_bundle(&self, pieces: &[NamedPiece<'_>]) -> Result<Token> {
        let list: Vec<symm_ipc_piece_t> = pieces
            .iter()
            .map(|piece| symm_ipc_piece_t {
                pointer: piece.pointer,
                bytes: piece.bytes as u64,
                name: piece.name.as_ptr(),
                about: piece.about.as_ptr().cast(),
                about_bytes: piece.about.len() as u64,
                ..Default::default()
            })
            .collect();
        let mut token = vec![0; sys::SYMM_IPC_TOKEN_MAX_BYTES as usize];
        let mut len = 0;

        // SAFETY: the structs say their sizes, the texts of `pieces` live until the end of this
        // function, and the token holds `token.len()` bytes.
        acting(self.to_c(), |api, options| unsafe {
            api.symm_ipc_export_bundle(
                list.as_ptr(),
                list.len(),
                options,
                token.as_mut_ptr().cast(),
                token.len(),
                &mut len,
                self.stream.as_raw(),
            )
        })?;
        token.truncate(len);
        Ok(Token::from(token))
    }
}

/// The pieces of a bundle, mapped for reading only. Dropping it ends the lease on all of them.
///
/// ```no_run
/// # let token = symm::ipc::Token::from(vec![]);
/// let model = symm::ipc::import_bundle(&token)?;
/// let bias = model.get::<f32>("layer.bias")?;
/// println!("{} elements, the first is {}", bias.len(), bias.load(0));
/// # Ok::<(), symm::Error>(())
/// ```
#[derive(Debug)]
pub struct Bundle {
    import: Import<u8>,
    len: usize,
}

impl ImportOptions {
    /// Maps the pieces of a bundle for reading only. Errors: those of
    /// [`import`](ImportOptions::import), and `InvalidArgument` for a token of one piece.
    pub fn import_bundle(&self, token: &Token) -> Result<Bundle> {
        let import = self.import_as::<u8>(token, sys::SYMM_IPC_READ_ONLY)?;
        let len = on!(import.symm_ipc_bundle_size() -> 0)?;
        Ok(Bundle { import, len })
    }

    /// Maps the memory that a token names for reading only, as elements of a type. Errors: those of
    /// [`import`](ImportOptions::import).
    pub fn import_for_reading<T: Element>(&self, token: &Token) -> Result<ReadOnly<T>> {
        self.import_as::<T>(token, sys::SYMM_IPC_READ_ONLY)
            .map(ReadOnly)
    }
}

/// Maps the pieces of a bundle for reading only. Short for `ImportOptions::new().import_bundle()`.
pub fn import_bundle(token: &Token) -> Result<Bundle> {
    ImportOptions::new().import_bundle(token)
}

impl Bundle {
    pub(super) fn import(&self) -> &Import<u8> {
        &self.import
    }

    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no pieces, which no bundle says.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Describes the import: its `bytes` are those of all pieces.
    pub fn info(&self) -> Result<ImportInfo> {
        self.import.info()
    }

    /// The place of the piece that has a name, at the same cost for any number of pieces.
    pub fn find(&self, name: &str) -> Result<Option<usize>> {
        let name = to_c("name", name)?;
        let import = &self.import;
        match on!(import.symm_ipc_bundle_find(name.as_ptr()) -> 0) {
            Ok(index) => Ok(Some(index)),
            Err(error) if error.status == Status::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The piece that has a name, as elements of a type. Errors: `NotFound`, and those of
    /// [`at`](Bundle::at).
    pub fn get<T: Element>(&self, name: &str) -> Result<Reader<'_, T>> {
        let index = self.find(name)?.ok_or_else(|| {
            Error::from_parts(Status::NotFound, format!("name: no piece is called {name}"))
        })?;
        self.at(index)
    }

    /// The piece at a place in the exporter's order, as elements of a type. Errors:
    /// `InvalidArgument` if there is none, or it does not begin where an element could.
    pub fn at<T: Element>(&self, index: usize) -> Result<Reader<'_, T>> {
        let import = &self.import;
        let piece: symm_ipc_piece_t = filled(|out| on!(import.symm_ipc_bundle_piece(index, out)))?;
        let pointer: *mut T = if piece.pointer.is_null() {
            ptr::dangling_mut()
        } else {
            piece.pointer.cast()
        };
        if !pointer.is_aligned() {
            let name = std::any::type_name::<T>();
            return Err(Error::argument(format!(
                "piece {index} lies where no {name} can be"
            )));
        }

        // SAFETY: the texts are the library's, and live as long as the import.
        let (name, about) = unsafe {
            (
                (!piece.name.is_null()).then(|| CStr::from_ptr(piece.name)),
                bytes_at(piece.about.cast(), piece.about_bytes),
            )
        };
        Ok(Reader {
            pointer,
            len: usize::try_from(piece.bytes).unwrap_or(usize::MAX) / size_of::<T>(),
            backend: self.import.backend,
            name: name.and_then(|name| name.to_str().ok()),
            about,
        })
    }
}

/// # Safety
///
/// There are so many bytes at `pointer` for as long as the result lives; or none, and it is NULL.
unsafe fn bytes_at<'a>(pointer: *const u8, bytes: u64) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { std::slice::from_raw_parts(pointer, usize::try_from(bytes).unwrap_or(0)) }
}

/// Memory of another process that was mapped for reading only. Dropping it ends its lease.
#[derive(Debug)]
pub struct ReadOnly<T: Element>(Import<T>);

impl<T: Element> ReadOnly<T> {
    pub(super) fn import(&self) -> &Import<T> {
        &self.0
    }

    /// The elements.
    pub fn reader(&self) -> Reader<'_, T> {
        Reader {
            pointer: self.0.as_ptr(),
            len: self.0.len(),
            backend: self.0.backend,
            name: None,
            about: &[],
        }
    }

    /// Describes the import.
    pub fn info(&self) -> Result<ImportInfo> {
        self.0.info()
    }
}

/// Elements that may be read, and that their owner may write meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a, T: Element> {
    pointer: *mut T,
    len: usize,
    backend: Backend,
    name: Option<&'a str>,
    about: &'a [u8],
}

impl<'a, T: Element> Reader<'a, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The name in the bundle, if it has one.
    pub fn name(&self) -> Option<&'a str> {
        self.name
    }

    /// What the exporter says that the piece is.
    pub fn about(&self) -> &'a [u8] {
        self.about
    }

    /// The address of the first element; of device memory if the memory is on a device.
    pub fn as_ptr(&self) -> *const T {
        self.pointer.cast_const()
    }

    /// An element. Panics if it is beyond the end, or in memory of a device.
    pub fn load(&self, index: usize) -> T {
        on_host(self.backend).expect("the elements are on a device");
        // SAFETY: the memory is mapped as long as the borrow, aligned, and has `len` elements.
        // Nothing is stored by this view.
        let view: View<'_, T> = unsafe { View::new(self.pointer, self.len) };
        view.load(index)
    }

    /// The elements as a slice. Errors: `InvalidArgument` for memory of a device.
    ///
    /// # Safety
    ///
    /// During the borrow nobody writes to the elements: as with a version that was published, which
    /// is withdrawn before its memory is written anew.
    pub unsafe fn local(&self) -> Result<&'a [T]> {
        on_host(self.backend)?;
        // SAFETY: the memory is mapped as long as the borrow, aligned, and has `len` elements; that
        // nobody writes them is promised by the caller.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer, self.len) })
    }
}

/// Publishes a token of this process under a name and the number of a version. With `keep`, so many
/// versions of the name stay published, with this one, and the tokens of those with the lowest
/// numbers end; with 0 all stay.
///
/// # Errors
///
/// * `InvalidArgument`: the name is empty or not one line; this process has published the version,
///   or the memory as another version of the name; or the token is another process's.
/// * `InvalidHandle`: the memory was released or withdrawn.
/// * `System`.
pub fn publish(name: &str, version: u64, token: &Token, keep: u64) -> Result<()> {
    let name = to_c("name", name)?;
    let bytes = token.as_bytes();
    let options = sys::symm_ipc_publish_options_t {
        keep,
        ..Default::default()
    };
    // SAFETY: the struct says its size, and the token has `bytes.len()` bytes.
    acting(options, |api, options| unsafe {
        let at = bytes.as_ptr().cast();
        api.symm_ipc_publish(name.as_ptr(), version, at, bytes.len(), options)
    })
}

/// The newest published version of a name that compares with a number, and its token. Waits for one
/// until the deadline; [`Timeout::Group`] is `$SYMM_TIMEOUT_MS`, else 60 seconds. The version is on
/// the left: [`Compare::Gt`] finds the newest that is newer than `version`. Errors: `Timeout` (the
/// message tells which versions there are), `InvalidArgument`, `Unavailable`, `System`.
pub fn lookup(
    name: &str,
    compare: Compare,
    version: u64,
    timeout: impl Into<Timeout>,
) -> Result<(u64, Token)> {
    let name = to_c("name", name)?;
    let options = sys::symm_ipc_lookup_options_t {
        timeout_ms: timeout.into().as_millis(),
        ..Default::default()
    };
    let mut token = vec![0; sys::SYMM_IPC_TOKEN_MAX_BYTES as usize];
    let mut len = 0;
    let mut found = 0;
    // SAFETY: the struct says its size, and the token holds `token.len()` bytes.
    acting(options, |api, options| unsafe {
        api.symm_ipc_lookup(
            name.as_ptr(),
            compare.as_raw(),
            version,
            options,
            token.as_mut_ptr().cast(),
            token.len(),
            &mut len,
            &mut found,
        )
    })?;
    token.truncate(len);
    Ok((found, Token::from(token)))
}

/// Ends the token of a version of this process, and waits until nobody holds it. Errors:
/// `InvalidArgument` (this process has not published it), `Timeout` (the message names a holder;
/// the same call waits on), `PeerFailed` (a holder is gone, but may still write).
pub fn withdraw_version(name: &str, version: u64, timeout: impl Into<Timeout>) -> Result<()> {
    let name = to_c("name", name)?;
    // SAFETY: the struct says its size.
    acting(timeout.into().options(), |api, options| unsafe {
        api.symm_ipc_withdraw_version(name.as_ptr(), version, options)
    })
}
