//! Macros for the methods and structs that several types of this crate have alike.

/// `len()`, `is_empty()` and `Debug` of a type with fields `pointer` and `len`.
macro_rules! elements_at {
    ($name:ident $(<$life:lifetime>)?) => {
        impl<T: $crate::Element> $name<$($life,)? T> {
            /// Number of elements.
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }
        }

        described!($name $(<$life>)?);
    };
}

/// Implements [`Source`](crate::Source) and [`Target`](crate::Target) by a function that gives
/// the operand. Each use of this macro says why that operand is valid.
macro_rules! operand {
    ($type:ty, $at:expr) => {
        // SAFETY: the use of this macro says why the operand is valid.
        unsafe impl<T: $crate::Element> $crate::Source for $type {
            type Element = T;
            #[inline]
            fn operand(&self) -> $crate::Operand<T> {
                let at: fn(&Self) -> $crate::Operand<T> = $at;
                at(self)
            }
        }

        // SAFETY: the operand of Source is valid for writes too, since the borrow is exclusive.
        unsafe impl<T: $crate::Element> $crate::Target for $type {
            #[inline]
            fn operand_mut(&mut self) -> $crate::Operand<T> {
                $crate::Source::operand(self)
            }
        }
    };
}

/// `len()`, `span()`, `local()` and `local_mut()` of a type whose elements other ranks or
/// processes may touch. The type has a method `parts()`: address, length and back end. The
/// literals are the documentation of `span()` and the safety contracts of `local()` and
/// `local_mut()`.
macro_rules! slices {
    ($name:ident, $span:literal, $read:literal, $written:literal) => {
        impl<T: $crate::Element> $name<T> {
            /// Number of elements; of each block, where every rank has one.
            pub fn len(&self) -> usize {
                self.parts().1
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            #[doc = $span]
            /// Errors: `InvalidArgument` if the range is not within the elements.
            pub fn span(
                &self,
                range: impl std::ops::RangeBounds<usize>,
            ) -> $crate::Result<$crate::Span<'_, T>> {
                let (pointer, len, backend) = self.parts();
                $crate::Span::within(pointer, len, backend, range)
            }

            /// The elements, borrowed for reading. Errors: `Unsupported` for memory of a device.
            ///
            /// # Safety
            #[doc = $read]
            pub unsafe fn local(&self) -> $crate::Result<&[T]> {
                let (pointer, len, backend) = self.parts();
                $crate::buffer::on_host(backend)?;
                // SAFETY: mapped as long as this value lives, initialised and aligned;
                // that it does not change is the caller's promise.
                Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
            }

            /// The elements, borrowed for writing. Errors: `Unsupported` for memory of a device.
            ///
            /// # Safety
            #[doc = $written]
            pub unsafe fn local_mut(&mut self) -> $crate::Result<&mut [T]> {
                let (pointer, len, backend) = self.parts();
                $crate::buffer::on_host(backend)?;
                // SAFETY: mapped as long as this value lives, initialised and aligned;
                // that nobody else touches it is the caller's promise.
                Ok(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
            }
        }
    };
}

/// `Debug` of a type with `len` and `pointer`.
macro_rules! described {
    ($name:ident $(<$life:lifetime>)?) => {
        impl<T: $crate::Element> std::fmt::Debug for $name<$($life,)? T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let name = stringify!($name);
                let element = std::any::type_name::<T>();
                let Self { len, pointer, .. } = self;
                write!(f, "{name}<{element}>({len} elements at {pointer:p})")
            }
        }
    };
}

/// A builder whose fields have defaults. Each line is a setter: its name, which is the field's
/// as well, its arguments, the type of the field, and the value that the field becomes.
macro_rules! builder {
    ($(#[$meta:meta])* pub struct $builder:ident {
        $($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*): $field:ty = $value:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Default)]
        pub struct $builder {
            $(pub(crate) $name: $field,)*
        }

        impl $builder {
            /// All defaults; a setter changes one.
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

/// A struct of information, made from the struct of C that the library fills. Each field is made
/// from the field of C with its name, or the name after `of`; a [`Feature`](crate::Feature) also
/// from the field of C that holds the reason why the feature is not there.
macro_rules! known {
    ($($(#[$meta:meta])* pub struct $name:ident of $c:ident {
        $(pub $field:ident $(of $source:ident)?: $type:ty $(, or $reason:ident)? = $doc:literal;)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $name {
            $(
                #[doc = $doc]
                pub $field: $type,
            )*
        }

        impl From<symm_sys::$c> for $name {
            fn from(c: symm_sys::$c) -> Self {
                Self { $($field: known!(@made c, $field $(of $source)? $(or $reason)?),)* }
            }
        }
    )*};
    (@made $c:ident, $field:ident) => {
        $crate::convert::FromC::from_c($c.$field)
    };
    (@made $c:ident, $field:ident of $source:ident) => {
        $crate::convert::FromC::from_c($c.$source)
    };
    (@made $c:ident, $field:ident or $reason:ident) => {
        $crate::convert::FromC::from_c(($c.$field, $c.$reason))
    };
}

/// `on!(self.symm_x(...))` calls `symm_x(handle, ...)` of the library. The other arguments are
/// numbers, streams and operands that live, references, lists with their lengths, and addresses
/// that are only looked up.
///
/// * `-> start` gives the value that the call writes, which is `start` before.
/// * `=> Handle` gives the reference that the call makes.
/// * `=> Type` gives that type, made from the struct that the call fills.
///
/// A function that has options is called with `, options: value` behind that: the arguments name
/// the place of the options by the word before the colon.
macro_rules! on {
    ($of:ident.$function:ident($($argument:expr),*)) => {
        // SAFETY: the handle is alive, and so is what the arguments refer to.
        $crate::error::call(|api| unsafe { api.$function($of.as_raw(), $($argument),*) })
    };
    ($of:ident.$function:ident($($argument:expr),*) -> $start:expr) => {
        // SAFETY: the handle is alive, and so is what the arguments refer to.
        $crate::convert::given($start, |api, out| unsafe {
            api.$function($of.as_raw(), $($argument,)* out)
        })
    };
    (
        $of:ident.$function:ident($($argument:expr),*) => Handle
        $(, $options:ident: $value:expr)?
    ) => {
        on!($of.$function($($argument),*) -> std::ptr::null_mut() $(, $options: $value)?)
            // SAFETY: a successful call gives one reference.
            .and_then(|out| unsafe { $crate::convert::Handle::new(out) })
    };
    ($of:ident.$function:ident($($argument:expr),*) => $type:ident) => {
        $crate::convert::filled(|out| {
            // SAFETY: the handle is alive, and so is what the arguments refer to; the struct
            // says its size.
            $crate::error::call(|api| unsafe { api.$function($of.as_raw(), $($argument,)* out) })
        })
        .map($type::from)
    };
    ($of:ident.$function:ident($($argument:expr),*), $options:ident: $value:expr) => {
        // SAFETY: the handle is alive, and so is what the arguments refer to.
        $crate::error::acting($value, |api, $options| unsafe {
            api.$function($of.as_raw(), $($argument),*)
        })
    };
    (
        $of:ident.$function:ident($($argument:expr),*) -> $start:expr,
        $options:ident: $value:expr
    ) => {{
        let mut out = $start;
        // SAFETY: the handle is alive, and so is what the arguments refer to.
        $crate::error::acting($value, |api, $options| unsafe {
            api.$function($of.as_raw(), $($argument,)* &mut out)
        })
        .map(|()| out)
    }};
    (
        $of:ident.$function:ident($($argument:expr),*) => $type:ident,
        $options:ident: $value:expr
    ) => {
        $crate::convert::filled(|out| {
            // SAFETY: the handle is alive, and so is what the arguments refer to; the struct
            // says its size.
            $crate::error::acting($value, |api, $options| unsafe {
                api.$function($of.as_raw(), $($argument,)* out)
            })
        })
        .map($type::from)
    };
}
