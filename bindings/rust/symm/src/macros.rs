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

/// A [`Source`](crate::Source) that is a [`Target`](crate::Target) as well, at the
/// operand that a function of it gives. Why that is valid is said where this is used.
macro_rules! operand {
    ($type:ty, $at:expr) => {
        // SAFETY: as said there.
        unsafe impl<T: $crate::Element> $crate::Source for $type {
            type Element = T;
            #[inline]
            fn operand(&self) -> $crate::Operand<T> {
                let at: fn(&Self) -> $crate::Operand<T> = $at;
                at(self)
            }
        }
        // SAFETY: as said there; the borrow is exclusive.
        unsafe impl<T: $crate::Element> $crate::Target for $type {
            #[inline]
            fn operand_mut(&mut self) -> $crate::Operand<T> {
                $crate::Source::operand(self)
            }
        }
    };
}

/// The number, the operand and the slices of elements that others may touch, at
/// `parts()`: address, length and back end. What is said of each: the operand, and what
/// the caller of `local()` and of `local_mut()` promises.
macro_rules! slices {
    ($name:ident, $span:literal, $read:literal, $written:literal) => {
        impl<T: $crate::Element> $name<T> {
            /// Number of elements; of each block, where every rank has one.
            pub fn len(&self) -> usize {
                self.parts().1
            }

            /// Whether there are none.
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

            /// This rank's or process's elements.
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

            /// The same, to be written.
            ///
            /// # Safety
            #[doc = $written]
            pub unsafe fn local_mut(&mut self) -> $crate::Result<&mut [T]> {
                let (pointer, len, backend) = self.parts();
                $crate::buffer::on_host(backend)?;
                // SAFETY: as in local(); that nobody else touches it is the caller's promise.
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
                let (name, ty) = (stringify!($name), std::any::type_name::<T>());
                write!(f, "{name}<{ty}>({} elements at {:p})", self.len, self.pointer)
            }
        }
    };
}

/// A builder, whose fields have defaults: what each setter
/// takes, and what the field of its name is and becomes.
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

/// A struct of what is known of something, made of the struct of C
/// that the library fills: each field of the one of its name; a
/// [`Feature`](crate::Feature) also of the reason why it is not there.
macro_rules! known {
    ($($(#[$meta:meta])* pub struct $name:ident of $c:ident {
        $(pub $field:ident: $type:ty $(, or $reason:ident)? = $doc:literal;)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $name {
            $(#[doc = $doc] pub $field: $type,)*
        }

        impl From<symm_sys::$c> for $name {
            fn from(c: symm_sys::$c) -> Self {
                Self { $($field: known!(@made of c.$field $(, c.$reason)?),)* }
            }
        }
    )*};
    (@made of $value:expr) => { $crate::convert::FromC::from_c($value) };
    (@made of $value:expr, $reason:expr) => { $crate::convert::FromC::from_c(($value, $reason)) };
}

/// A struct of C that begins with its size, and is
/// all zeros but for what is said: the defaults.
macro_rules! sized {
    ($name:ident: $($field:ident = $value:expr),*) => {{
        // SAFETY: all zeros is a value of a struct of
        // numbers, raw pointers and optional functions.
        let mut made: symm_sys::$name = unsafe { std::mem::zeroed() };
        made.struct_size = size_of::<symm_sys::$name>();
        $(made.$field = $value;)*
        made
    }};
}

/// `on!(self.symm_x(...))`: a call of `symm_x(handle, ...)`, whose other
/// arguments are numbers, streams and operands that live, references, lists
/// with their lengths, and addresses to be looked up. With `-> start` it
/// gives what the call writes where `start` stands; with `=> Handle` the
/// reference, with `=> Type` that, made of the struct that it fills.
macro_rules! on {
    ($of:ident.$function:ident($($argument:expr),*)) => {
        // SAFETY: the handle is alive, and so is what is referred to.
        $crate::error::call(|api| unsafe { api.$function($of.as_raw(), $($argument),*) })
    };
    ($of:ident.$function:ident($($argument:expr),*) -> $start:expr) => {
        // SAFETY: as above.
        $crate::convert::given($start, |api, out| unsafe { api.$function($of.as_raw(), $($argument,)* out) })
    };
    ($of:ident.$function:ident($($argument:expr),*) => Handle) => {
        // SAFETY: a successful call gives one reference.
        on!($of.$function($($argument),*) -> std::ptr::null_mut()).and_then(|out| unsafe { $crate::convert::Handle::new(out) })
    };
    ($of:ident.$function:ident($($argument:expr),*) => $type:ident) => {
        // SAFETY: as above; a struct of symm.h, and the function that fills it.
        unsafe { $crate::convert::filled(|api, out| api.$function($of.as_raw(), $($argument,)* out)) }.map($type::from)
    };
}
