//! Sharing memory with any process of this user on this machine, outside of any group.
//!
//! The owner makes a [`Token`], plain bytes that may travel by any means; whoever [imports](import) it gets the same physical
//! memory. Memory lives as long as anybody maps it: releasing a block ends its tokens, but not what was imported before.
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
//! What other processes can map cannot be borrowed in safe code, as with [`Memory`](crate::Memory): [`Buffer::share`](crate::Buffer::share)
//! gives the buffer up, and [`Shared::withdraw`] gives it back when it is certain that nobody else holds it.

/// What an import and a shared block have in common: elements that others may touch. `parts()` gives address, length and back end.
macro_rules! elements_in_other_hands {
    ($type:ident, $read:literal, $written:literal) => {
        impl<T: Element> $type<T> {
            /// Number of elements.
            pub fn len(&self) -> usize {
                self.parts().1
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The elements, one by one.
            ///
            /// # Errors
            /// `Unsupported` if they are in device memory.
            pub fn view(&self) -> Result<View<'_, T>> {
                let (pointer, len, backend) = self.parts();
                on_host(backend)?;
                // SAFETY: the memory is mapped as long as this value lives, aligned, and as long.
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

mod export;
mod import;
mod imported;
mod shared;
mod state;

pub use export::{ExportOptions, holders, withdraw};
pub use import::{ImportOptions, import};
pub use imported::{Import, ImportInfo};
pub use shared::{Shared, WithdrawError};
pub use state::{Holders, Report, Stats, collect, stats};

use std::fmt;

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

/// From bytes that were a token elsewhere. Whether they are one is found out when it is imported.
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
