//! Types of the elements of blocks.

use std::convert::identity;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use symm_sys as sys;

mod sealed {
    pub trait Sealed {}
}

/// A type that the elements of symmetric memory and of operands of collectives can have.
///
/// Every bit pattern of an element is a value, so whatever another rank writes is at worst a wrong
/// number. The trait is sealed: its types are those of the library.
///
/// # Safety
/// `DTYPE` describes the type, and every bit pattern is a value of it.
pub unsafe trait Element:
    sealed::Sealed + Copy + Default + Send + Sync + std::fmt::Debug + 'static
{
    /// The `SYMM_DTYPE_*` of the type.
    const DTYPE: i32;

    /// An atomic load, for memory that others write; of a type of two parts, of each.
    ///
    /// # Safety
    /// `from` is valid for reads and aligned.
    #[doc(hidden)]
    unsafe fn load(from: *const Self, order: Ordering) -> Self;

    /// An atomic store, for memory that others read; of a type of two parts, of each.
    ///
    /// # Safety
    /// `to` is valid for writes and aligned.
    #[doc(hidden)]
    unsafe fn store(to: *mut Self, value: Self, order: Ordering);
}

/// An element of 32 bits, for [`Memory::fill`](crate::Memory::fill) and
/// [`Memory::write_value`](crate::Memory::write_value).
pub trait Word: Element {
    /// The bits.
    fn bits(self) -> u32;
}

/// A boolean in a byte: 0 is false and all else true, because another rank may write any byte.
/// Results of collectives are 0 or 1.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bool(u8);

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.0 != 0
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        bool::from(*self) == bool::from(*other)
    }
}

impl Eq for Bool {}

impl std::fmt::Debug for Bool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        bool::from(*self).fmt(f)
    }
}

// Floating point in eight bits, for storage only: the library does the arithmetic.
macro_rules! fp8 {
    (
        $(#[$meta:meta])* $name:ident,
        exponent $exponent:literal,
        mantissa $mantissa:literal,
        bias $bias:literal,
        finite $finite:literal
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The number with these bits.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits. Two numbers are `==` when their bits are equal, so zeros of both signs
            /// differ and a NaN equals itself.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The number, exactly.
            pub fn to_f32(self) -> f32 {
                let sign = if self.0 >> 7 == 1 { -1.0 } else { 1.0 };
                let exponent = i32::from(self.0 >> $mantissa & ((1 << $exponent) - 1));
                let mantissa = self.0 & ((1 << $mantissa) - 1);

                let top = (1 << $exponent) - 1;
                if exponent == top && !$finite && mantissa == 0 {
                    return sign * f32::INFINITY;
                }
                if exponent == top && (!$finite || mantissa == (1 << $mantissa) - 1) {
                    return f32::NAN;
                }

                let fraction = f32::from(mantissa) / f32::from(1u8 << $mantissa);
                let value = if exponent == 0 {
                    fraction * 2f32.powi(1 - $bias)
                } else {
                    (1.0 + fraction) * 2f32.powi(exponent - $bias)
                };
                sign * value
            }
        }
    };
}

fp8! {
    /// 1 sign, 4 exponent and 3 mantissa bits, no infinity (`float8_e4m3fn`). Finite
    /// results of reductions saturate at 448.
    F8E4M3, exponent 4, mantissa 3, bias 7, finite true
}
fp8! {
    /// 1 sign, 5 exponent and 2 mantissa bits. Finite results of reductions saturate at 57344.
    F8E5M2, exponent 5, mantissa 2, bias 15, finite false
}

/// A complex number, with the layout of `num_complex::Complex`. The library does the arithmetic:
/// [`Op::Sum`](crate::Op::Sum), [`Op::Avg`](crate::Op::Avg) and [`Op::Prod`](crate::Op::Prod).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

/// A value and its index, for [`Op::Minloc`](crate::Op::Minloc) and
/// [`Op::Maxloc`](crate::Op::Maxloc): of equal values the one with the lowest index is found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
pub struct Pair<V, I> {
    /// What is compared.
    pub value: V,
    /// What it comes with, for instance where it lies.
    pub index: I,
}

/// An element type whose reductions can give elements of type `To`: its own type, or for floats
/// narrower than `f32` also `f32`, in which results are left unrounded, and for `f32` also these,
/// to which results are rounded.
pub trait Reduces<To: Element>: Element {}

impl<T: Element> Reduces<T> for T {}
impl Reduces<f32> for F8E4M3 {}
impl Reduces<f32> for F8E5M2 {}
impl Reduces<F8E4M3> for f32 {}
impl Reduces<F8E5M2> for f32 {}
#[cfg(feature = "half")]
impl Reduces<f32> for half::f16 {}
#[cfg(feature = "half")]
impl Reduces<f32> for half::bf16 {}
#[cfg(feature = "half")]
impl Reduces<half::f16> for f32 {}
#[cfg(feature = "half")]
impl Reduces<half::bf16> for f32 {}

/// Implements [`Element`]. Each line is a type, the library's name of it, the atomic type of its
/// size, and the conversions to and from the integer of that atomic type.
macro_rules! elements {
    ($($type:ty, $dtype:ident, $atomic:ty, $to:expr, $from:expr;)*) => {$(
            impl sealed::Sealed for $type {}
            // SAFETY: the library's type of this name has this
            // layout, and all of its bit patterns are values.
            unsafe impl Element for $type {
                const DTYPE: i32 = sys::$dtype;

                #[inline]
                unsafe fn load(from: *const Self, order: Ordering) -> Self {
                    // SAFETY: valid and aligned by contract; the atomic type has the size
                    // and alignment of the element.
                    let bits = unsafe { <$atomic>::from_ptr(from.cast_mut().cast()) }.load(order);
                    ($from)(bits)
                }

                #[inline]
                unsafe fn store(to: *mut Self, value: Self, order: Ordering) {
                    // SAFETY: valid and aligned by contract; the atomic type has the size
                    // and alignment of the element.
                    unsafe { <$atomic>::from_ptr(to.cast()) }.store(($to)(value), order);
                }
            }
            const _: () = assert!(
                size_of::<$type>() == size_of::<$atomic>()
                    && align_of::<$type>() == align_of::<$atomic>()
            );
    )*};
}

elements! {
    i8, SYMM_DTYPE_I8, AtomicU8, |value: i8| value as u8, |bits: u8| bits as i8;
    i16, SYMM_DTYPE_I16, AtomicU16, |value: i16| value as u16, |bits: u16| bits as i16;
    i32, SYMM_DTYPE_I32, AtomicU32, |value: i32| value as u32, |bits: u32| bits as i32;
    i64, SYMM_DTYPE_I64, AtomicU64, |value: i64| value as u64, |bits: u64| bits as i64;
    u8, SYMM_DTYPE_U8, AtomicU8, identity, identity;
    u16, SYMM_DTYPE_U16, AtomicU16, identity, identity;
    u32, SYMM_DTYPE_U32, AtomicU32, identity, identity;
    u64, SYMM_DTYPE_U64, AtomicU64, identity, identity;
    Bool, SYMM_DTYPE_BOOL, AtomicU8, |value: Bool| value.0, Bool;
    f32, SYMM_DTYPE_F32, AtomicU32, f32::to_bits, f32::from_bits;
    f64, SYMM_DTYPE_F64, AtomicU64, f64::to_bits, f64::from_bits;
    F8E4M3, SYMM_DTYPE_F8E4M3, AtomicU8, F8E4M3::to_bits, F8E4M3::from_bits;
    F8E5M2, SYMM_DTYPE_F8E5M2, AtomicU8, F8E5M2::to_bits, F8E5M2::from_bits;
}

/// Implements [`Element`] for types of two parts, of which each is loaded and stored by itself: no
/// atomic type is as wide as both.
macro_rules! two_parts {
    ($($type:ty, $dtype:ident, $first:ident: $one:ty, $second:ident: $other:ty;)*) => {$(
            impl sealed::Sealed for $type {}
            // SAFETY: the library's type of this name has this
            // layout, and all of its bit patterns are values.
            unsafe impl Element for $type {
                const DTYPE: i32 = sys::$dtype;

                #[inline]
                unsafe fn load(from: *const Self, order: Ordering) -> Self {
                    // SAFETY: both parts are valid and aligned where the element is.
                    unsafe {
                        Self {
                            $first: <$one>::load(&raw const (*from).$first, order),
                            $second: <$other>::load(&raw const (*from).$second, order),
                        }
                    }
                }

                #[inline]
                unsafe fn store(to: *mut Self, value: Self, order: Ordering) {
                    // SAFETY: both parts are valid and aligned where the element is.
                    unsafe {
                        <$one>::store(&raw mut (*to).$first, value.$first, order);
                        <$other>::store(&raw mut (*to).$second, value.$second, order);
                    }
                }
            }
            const _: () = assert!(size_of::<$type>() == 2 * size_of::<$one>());
    )*};
}

two_parts! {
    Complex<f32>, SYMM_DTYPE_C64, re: f32, im: f32;
    Complex<f64>, SYMM_DTYPE_C128, re: f64, im: f64;
    Pair<i32, i32>, SYMM_DTYPE_I32_I32, value: i32, index: i32;
    Pair<i64, i64>, SYMM_DTYPE_I64_I64, value: i64, index: i64;
    Pair<f32, i32>, SYMM_DTYPE_F32_I32, value: f32, index: i32;
    Pair<f64, i64>, SYMM_DTYPE_F64_I64, value: f64, index: i64;
}

#[cfg(feature = "half")]
elements! {
    half::f16, SYMM_DTYPE_F16, AtomicU16, half::f16::to_bits, half::f16::from_bits;
    half::bf16, SYMM_DTYPE_BF16, AtomicU16, half::bf16::to_bits, half::bf16::from_bits;
}

macro_rules! words {
    ($($type:ty),*) => {
        $(impl Word for $type {
            fn bits(self) -> u32 {
                u32::from_ne_bytes(self.to_ne_bytes())
            }
        })*
    };
}
words!(u32, i32, f32);

#[cfg(test)]
mod tests {
    use super::{F8E4M3, F8E5M2};

    #[test]
    fn values_of_the_formats() {
        assert_eq!(F8E4M3::from_bits(0x38).to_f32(), 1.0);
        assert_eq!(F8E4M3::from_bits(0x7e).to_f32(), 448.0);
        assert_eq!(F8E4M3::from_bits(0x01).to_f32(), 2f32.powi(-9));
        assert!(F8E4M3::from_bits(0xff).to_f32().is_nan());
        assert_eq!(F8E5M2::from_bits(0xbc).to_f32(), -1.0);
        assert_eq!(F8E5M2::from_bits(0x7b).to_f32(), 57344.0);
        assert_eq!(F8E5M2::from_bits(0x7c).to_f32(), f32::INFINITY);
        assert!(F8E5M2::from_bits(0x7d).to_f32().is_nan());
    }
}
