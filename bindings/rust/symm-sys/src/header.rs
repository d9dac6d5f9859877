//! What the lists of `generated.rs` become.

/// Each integer type with an enum of values becomes the type, its constants, and an enum of Rust.
macro_rules! enums {
    ($($(#[$meta:meta])* pub enum $name:ident: $type:ident {
        $($(#[$doc:meta])* $variant:ident = $constant:ident = $value:literal,)*
    })*) => {
        $(
            $(#[$meta])*
            pub type $type = i32;
            $($(#[$doc])* pub const $constant: $type = $value;)*

            $(#[$meta])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
            #[non_exhaustive]
            pub enum $name {
                $(
                    #[doc = concat!("`", stringify!($constant), "`")]
                    ///
                    $(#[$doc])*
                    $variant,
                )*
                /// A value of a newer library.
                Unknown(i32),
            }

            impl $name {
                /// From the value in C.
                pub const fn from_raw(value: i32) -> Self {
                    match value {
                        $($constant => Self::$variant,)*
                        other => Self::Unknown(other),
                    }
                }

                /// The value in C.
                pub const fn as_raw(self) -> i32 {
                    match self {
                        $(Self::$variant => $constant,)*
                        Self::Unknown(other) => other,
                    }
                }
            }
        )*
    };
}

/// Objects of the library, which are seen behind pointers only.
macro_rules! handles {
    ($($name:ident = $type:ident,)*) => {
        $(
            #[repr(C)]
            #[derive(Debug, Copy, Clone)]
            pub struct $name {
                _unused: [u8; 0],
            }
            pub type $type = $name;
        )*
    };
}

/// Structs as they are.
macro_rules! structs {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Debug, Copy, Clone)]
            pub struct $name { $($(#[$doc])* pub $field: $type,)* }
        )*

        /// As in tests/abi/layout.txt.
        #[cfg(test)]
        pub fn layouts() -> Vec<String> {
            vec![$({
                let fields = [$((stringify!($field), core::mem::offset_of!($name, $field), size_of::<$type>())),*];
                let fields = fields.map(|(field, offset, size)| format!("; {field} offset {offset} size {size}")).concat();
                format!("struct {} size {} align {}{fields}", stringify!($name), size_of::<$name>(), align_of::<$name>())
            }),*]
        }
    };
}

/// Functions become the methods of `Api`, a table of addresses that the loader or the linker has found.
macro_rules! functions {
    ($($(#[$doc:meta])* pub fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of one loaded library. A function that the library does not have is an error when it is called.
        pub struct Api { $($name: Option<unsafe extern "C" fn($($type),*) $(-> $result)?>,)* }

        impl Api {
            /// The names of all functions of the header that these bindings were made from.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The functions that the loaded library does not have.
            pub fn missing(&self) -> impl Iterator<Item = &'static str> {
                let there = [$(self.$name.is_some()),*];
                Self::NAMES.iter().copied().zip(there).filter_map(|(name, there)| (!there).then_some(name))
            }

            /// # Safety
            /// `find` returns the address of the C function of that name and `symm.h`'s type, or `None`.
            pub(crate) unsafe fn resolve(find: impl Fn(&'static str) -> Option<*const core::ffi::c_void>) -> Self {
                type Address = *const core::ffi::c_void;
                Self {
                    // SAFETY: by the contract of this function, the addresses are of functions of these types.
                    $($name: find(stringify!($name)).map(|address| unsafe {
                        core::mem::transmute::<Address, unsafe extern "C" fn($($type),*) $(-> $result)?>(address)
                    }),)*
                }
            }

            /// The functions that the linker found.
            #[cfg(feature = "link")]
            pub(crate) fn linked() -> Self {
                Self { $($name: Some(linked::$name),)* }
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// As the C function: pointers are valid for what it does with them, handles are its own.
                #[inline]
                pub unsafe fn $name(&self, $($argument: $type),*) -> Result<($($result)?), MissingSymbol> {
                    match self.$name {
                        // SAFETY: the caller keeps the contract of the C function.
                        Some(function) => Ok(unsafe { function($($argument),*) }),
                        None => Err(MissingSymbol { name: stringify!($name) }),
                    }
                }
            )*
        }

        /// The functions, for the linker.
        #[cfg(feature = "link")]
        pub mod linked {
            use super::*;
            unsafe extern "C" {
                $(
                    #[doc = concat!("See [`Api::", stringify!($name), "`].")]
                    pub fn $name($($argument: $type),*) $(-> $result)?;
                )*
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::generated;

    #[test]
    fn a_value_of_a_newer_library_stays_a_value() {
        assert_eq!(generated::Status::from_raw(-6), generated::Status::Timeout);
        assert_eq!(generated::Status::from_raw(-99), generated::Status::Unknown(-99));
        assert_eq!(generated::Status::Unknown(-99).as_raw(), -99);
    }

    #[test]
    fn sizes_and_offsets_are_those_of_c() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/abi/layout.txt");
        let Ok(text) = std::fs::read_to_string(path) else {
            return eprintln!("skipped: {path} is in the repository only");
        };
        let text = text.replace("\n  ", "; ");
        assert_eq!(generated::layouts(), text.lines().filter(|line| line.starts_with("struct ")).collect::<Vec<_>>());
    }
}
