//! Imports that are suspended: they have their addresses and no memory.

use super::bundle::{Bundle, ReadOnly};
use super::{Import, ImportInfo, ImportOptions, Token, path_to_c};
use crate::Element;
use crate::error::{Error, Result, acting};
use crate::group::{as_pointer, number};
use crate::stream::no_wait;
use std::ptr;
use symm_sys::{self as sys, symm_ipc};

mod sealed {
    use super::symm_ipc;
    use crate::Stream;

    /// What a suspension needs of an import.
    pub trait AsImport {
        fn as_raw(&self) -> *mut symm_ipc;
        fn stream(&self) -> &Stream;
    }
}

/// An import that can be suspended: [`Import`], [`ReadOnly`], [`Bundle`].
///
/// Whoever has borrowed of an import, such as a [`Reader`](super::Reader), keeps it from being
/// suspended:
///
/// ```compile_fail,E0505
/// use symm::ipc::Sleeper;
/// # let token = symm::ipc::Token::from(vec![]);
/// let model = symm::ipc::import_bundle(&token)?;
/// let bias = model.get::<f32>("layer.bias")?;
/// let asleep = model.suspend(); // takes what `bias` reads
/// println!("{}", bias.load(0));
/// # Ok::<(), symm::Error>(())
/// ```
pub trait Sleeper: sealed::AsImport + Sized {
    /// Gives the memory up when what was issued on the stream of the import is over, and keeps the
    /// addresses. The lease ends. Graphs that were captured with the addresses are right again when
    /// the import is [resumed](Asleep::resume).
    ///
    /// # Errors
    /// The import comes back with the error: `InvalidArgument` if another import, a token or a
    /// group of this process uses the memory; `Unsupported` if it is this process's own, and was
    /// imported for reading.
    fn suspend(self) -> std::result::Result<Asleep<Self>, Box<(Self, Error)>> {
        let stream = self.stream().as_raw();
        let import = &self;
        match on!(import.symm_ipc_suspend(options, stream), options: no_wait()) {
            Ok(()) => Ok(Asleep(self)),
            Err(error) => Err(Box::new((self, error))),
        }
    }
}

/// An import that has its addresses and no memory: [`Sleeper::suspend`].
#[derive(Debug)]
pub struct Asleep<I: Sleeper>(I);

impl<I: Sleeper> Asleep<I> {
    /// Maps again what was there. Errors: those of [`ImportOptions::resume`].
    pub fn resume(self) -> std::result::Result<I, Box<(Self, Error)>> {
        ImportOptions::new().resume(self, None)
    }

    /// Maps what another token names, such as the same model in another version. Errors: those of
    /// [`ImportOptions::resume`].
    pub fn resume_with(self, token: &Token) -> std::result::Result<I, Box<(Self, Error)>> {
        ImportOptions::new().resume(self, Some(token))
    }

    /// Describes the import: its flags have `SYMM_IPC_SUSPENDED`.
    pub fn info(&self) -> Result<ImportInfo> {
        let import = &self.0;
        on!(import.symm_ipc_info() => ImportInfo)
    }
}

impl ImportOptions {
    /// Maps memory at the addresses of a suspended import: what the token names, or without one
    /// what was there. Device, access and stream stay those of the import, so no device may be
    /// given.
    ///
    /// # Errors
    ///
    /// The import stays suspended, and comes back with the error.
    ///
    /// * `InvalidArgument`: what the token names lies otherwise than what was imported, or is
    ///   memory of this process.
    /// * Those of [`import`](ImportOptions::import).
    pub fn resume<I: Sleeper>(
        &self,
        asleep: Asleep<I>,
        token: Option<&Token>,
    ) -> std::result::Result<I, Box<(Asleep<I>, Error)>> {
        match self.try_resume(&asleep.0, token) {
            Ok(()) => Ok(asleep.0),
            Err(error) => Err(Box::new((asleep, error))),
        }
    }

    fn try_resume<I: Sleeper>(&self, import: &I, token: Option<&Token>) -> Result<()> {
        let directory = self.directory.as_deref().map(path_to_c).transpose()?;
        let given = sys::symm_ipc_import_options_t {
            timeout_ms: self.timeout.as_millis(),
            directory: as_pointer(directory.as_deref()),
            device: number("device", self.device.unwrap_or(0))?,
            ..Default::default()
        };
        let (at, len) = token.map_or((ptr::null(), 0), |token| {
            (token.as_bytes().as_ptr(), token.as_bytes().len())
        });
        // SAFETY: the struct says its size, its string lives until the end of this function, and
        // there are `len` bytes of the token.
        acting(given, |api, options| unsafe {
            api.symm_ipc_resume(
                import.as_raw(),
                at.cast(),
                len,
                options,
                import.stream().as_raw(),
            )
        })
    }
}

/// Says how an import of a kind is reached.
macro_rules! sleeper {
    ($type:ty, $import:expr $(, $element:ident)?) => {
        impl$(<$element: Element>)? sealed::AsImport for $type {
            fn as_raw(&self) -> *mut symm_ipc {
                let import: fn(&Self) -> &Import<_> = $import;
                import(self).as_raw()
            }
            fn stream(&self) -> &crate::Stream {
                let import: fn(&Self) -> &Import<_> = $import;
                &import(self).stream
            }
        }
        impl$(<$element: Element>)? Sleeper for $type {}
    };
}

sleeper!(Import<T>, |import| import, T);
sleeper!(ReadOnly<T>, |read_only| read_only.import(), T);
sleeper!(Bundle, |bundle| bundle.import());
