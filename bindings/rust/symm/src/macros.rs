//! What several types say of themselves in the same words.

/// Elements at `pointer`, `len` of them.
macro_rules! elements_at {
    ($name:ident $(<$life:lifetime>)?) => {
        impl<T: $crate::Element> $name<$($life,)? T> {
            /// Number of elements.
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }
        }

        described!($name $(<$life>)?);
    };
}

/// `Debug` of a type with `len` and `pointer`.
macro_rules! described {
    ($name:ident $(<$life:lifetime>)?) => {
        impl<T: $crate::Element> std::fmt::Debug for $name<$($life,)? T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let (name, ty) = (stringify!($name), std::any::type_name::<T>());
                write!(f, "{name}<{ty}>({} elements at {:p})", self.len, self.pointer)
            }
        }
    };
}

/// The beginning of a builder, whose fields have defaults: what each setter takes, and what becomes of the field of its name.
macro_rules! setters {
    ($builder:ident: $($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $value:expr;)*) => {
        impl $builder {
            /// Nothing said: what a setter does not change is left to its default.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$doc])*
                pub fn $name(mut self, $($argument: $type),*) -> Self {
                    self.$name = $value;
                    self
                }
            )*
        }
    };
}

/// A struct of what is known of something, made of the struct of C that the library fills: each field of the one of its name; a
/// [`Feature`](crate::Feature) also of the reason why it is not there.
macro_rules! known {
    ($(#[$meta:meta])* pub struct $name:ident of $c:ident {
        $(pub $field:ident: $type:ty $(, or $reason:ident)? = $doc:literal;)*
    }) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub struct $name {
            $(#[doc = $doc] pub $field: $type,)*
        }

        impl From<symm_sys::$c> for $name {
            fn from(c: symm_sys::$c) -> Self {
                Self { $($field: known!(@made of c.$field $(, c.$reason)?),)* }
            }
        }
    };
    (@made of $value:expr) => { $crate::convert::FromC::from_c($value) };
    (@made of $value:expr, $reason:expr) => { $crate::convert::FromC::from_c(($value, $reason)) };
}

/// A struct of C that begins with its size, and is all zeros but for what is said: the defaults.
macro_rules! sized {
    ($name:ident: $($field:ident = $value:expr),*) => {{
        // SAFETY: all zeros is a value of a struct of numbers, raw pointers and optional functions.
        let mut made: symm_sys::$name = unsafe { std::mem::zeroed() };
        made.struct_size = size_of::<symm_sys::$name>();
        $(made.$field = $value;)*
        made
    }};
}
