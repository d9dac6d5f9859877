//! The macros that the lists of `generated.rs` are written for.

/// Each integer type with an enum of values becomes
/// the type, its constants, and an enum of Rust.
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

        #[cfg(test)]
        pub fn lines_of_enums() -> Vec<String> {
            let mut lines = Vec::new();
            $(
                let (size, signed) = (size_of::<$type>(), u8::from($type::MIN < 0));
                let name = stringify!($type);
                lines.push(format!("typedef {name} size {size} signed {signed}"));
                $(
                    lines.push(format!("enumerator {} {}", stringify!($constant), $constant));
                )*
            )*
            lines
        }
    };
}

/// Constants that are no values of an integer type: flags and macros.
macro_rules! constants {
    ($($(#[$doc:meta])* pub const $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $type = $value;)*

        #[cfg(test)]
        pub fn constants() -> Vec<(&'static str, i128)> {
            vec![$((stringify!($name), i128::from($name))),*]
        }
    };
}

/// Implements `Default` for a struct that begins with `struct_size`, of which these are the fields.
macro_rules! default_of {
    ($name:ident struct_size $($field:ident)*) => {
        /// Zero in every field but `struct_size`, which is what NULL means, too.
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: all zeros is a value of a struct of numbers, arrays of numbers, raw
                // pointers and optional functions.
                let mut made: Self = unsafe { core::mem::zeroed() };
                made.struct_size = size_of::<Self>();
                made
            }
        }
    };
    ($name:ident $($field:ident)*) => {};
}

/// Structs as they are.
macro_rules! structs {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Debug, Copy, Clone)]
            pub struct $name { $($(#[$doc])* $vis $field: $type,)* }
            default_of!($name $($field)*);
        )*

        #[cfg(test)]
        pub fn lines_of_structs() -> Vec<String> {
            let mut lines = Vec::new();
            $(
                let name = stringify!($name);
                let size = size_of::<$name>();
                let align = align_of::<$name>();
                lines.push(if size == 0 {
                    format!("handle {name}_t")
                } else {
                    format!("struct {name} size {size} align {align}")
                });
                $(
                    let field = stringify!($field);
                    let offset = core::mem::offset_of!($name, $field);
                    let size = size_of::<$type>();
                    lines.push(format!("field {name}.{field} offset {offset} size {size}"));
                )*
            )*
            lines
        }
    };
}

/// Functions become the methods of `Api`, a table of
/// addresses that the loader or the linker has found.
macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        /// The functions of one loaded library. A function that the library does not
        /// have is an error when it is called.
        pub struct Api {
            /// What `symm_version()` of the library says, 0 before it was asked.
            pub(crate) version: u32,
            $($name: Option<unsafe extern "C" fn($($type),*) $(-> $result)?>,)*
        }

        impl Api {
            /// The names of all functions of the header that these bindings were made from.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The functions that the loaded library does not have.
            pub fn missing(&self) -> impl Iterator<Item = &'static str> {
                let there = [$(self.$name.is_some()),*];
                Self::NAMES
                    .iter()
                    .copied()
                    .zip(there)
                    .filter_map(|(name, there)| (!there).then_some(name))
            }

            /// # Safety
            /// `find` returns the address of the C function of that name and `symm.h`'s type, or
            /// `None`.
            pub(crate) unsafe fn resolve(
                find: impl Fn(&'static str) -> Option<*const core::ffi::c_void>,
            ) -> Self {
                type Address = *const core::ffi::c_void;
                Self {
                    version: 0,
                    // SAFETY: by the contract of this function, the
                    // addresses are of functions of these types.
                    $($name: find(stringify!($name)).map(|address| unsafe {
                        core::mem::transmute::<
                            Address,
                            unsafe extern "C" fn($($type),*) $(-> $result)?,
                        >(address)
                    }),)*
                }
            }

            /// The functions that the linker found.
            #[cfg(feature = "link")]
            pub(crate) fn linked() -> Self {
                Self { version: 0, $($name: Some(linked::$name),)* }
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The contract of the C function: pointers are valid for what it does with them,
                /// and handles are those of this library.
                #[inline]
                pub unsafe fn $name(
                    &self,
                    $($argument: $type),*
                ) -> Result<($($result)?), MissingSymbol> {
                    match self.$name {
                        // SAFETY: the caller keeps the contract of the C function.
                        Some(function) => Ok(unsafe { function($($argument),*) }),
                        None => Err(MissingSymbol {
                            name: stringify!($name),
                            version: self.version,
                        }),
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
    use std::collections::BTreeSet;

    /// The lines of layout.txt and fused.txt in tests/abi, but for functions, in the form of those
    /// that the macros of this file write: without the name of an enumerator's enum.
    fn golden(text: &str) -> BTreeSet<String> {
        text.lines()
            .filter(|line| !line.starts_with("function ") && !line.starts_with("callback "))
            .map(|line| match line.strip_prefix("enumerator ") {
                Some(rest) => {
                    let (_, name_and_value) = rest.split_once(' ').expect(line);
                    format!("enumerator {name_and_value}")
                }
                None => line.to_owned(),
            })
            .collect()
    }

    /// The values that are no values of an integer type: C's macros.
    fn lines_of_constants() -> Vec<String> {
        generated::constants()
            .into_iter()
            .filter(|(name, _)| !name.starts_with("SYMM_VERSION"))
            .filter(|(name, _)| !name.starts_with("SYMM_FUSED_VERSION") || name.ends_with("MAJOR"))
            .map(|(name, value)| format!("macro {name} {value:#x}"))
            .collect()
    }

    #[test]
    fn a_value_of_a_newer_library_stays_a_value() {
        assert_eq!(generated::Status::from_raw(-6), generated::Status::Timeout);
        assert_eq!(
            generated::Status::from_raw(-99),
            generated::Status::Unknown(-99)
        );
        assert_eq!(generated::Status::Unknown(-99).as_raw(), -99);
    }

    #[test]
    fn a_default_struct_is_zero_but_for_its_size() {
        let failure = core::ptr::dangling_mut();
        let options = generated::symm_call_options_t {
            failure,
            ..Default::default()
        };
        assert_eq!(
            options.struct_size,
            size_of::<generated::symm_call_options_t>()
        );
        assert_eq!(options.timeout_ms, 0);
        assert_eq!(options.failure, failure);

        let all = format!("{:?}", generated::symm_adopt_options_t::default());
        let size = size_of::<generated::symm_adopt_options_t>();
        let zeroed = format!(
            "symm_adopt_options_t {{ struct_size: {size}, flags: 0, offset: 0, fd: 0, \
             name: 0x0, failure: 0x0 }}"
        );
        assert_eq!(all, zeroed);
    }

    #[test]
    fn sizes_offsets_and_values_are_those_of_c() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/abi/");
        let read = |name| std::fs::read_to_string(format!("{folder}{name}"));
        let (Ok(promised), Ok(fused)) = (read("layout.txt"), read("fused.txt")) else {
            return eprintln!("skipped: {folder} is in the repository only");
        };
        let golden = golden(&(promised + &fused));

        let lists = [
            generated::lines_of_enums(),
            generated::lines_of_structs(),
            lines_of_constants(),
        ];
        let here: BTreeSet<String> = lists
            .concat()
            .into_iter()
            .filter(|line| !line.contains("._unused "))
            .collect();

        let missing = golden.difference(&here);
        let more = here.difference(&golden);
        assert!(
            here == golden,
            "only in C: {:#?}\nonly here: {:#?}",
            missing.collect::<Vec<_>>(),
            more.collect::<Vec<_>>()
        );
    }
}
