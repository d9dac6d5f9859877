//! Constants, numbers and elements of the table.

use crate::{RANKS, Verb, collectives};
use half::{bf16, f16};
use std::fmt::Debug;
use std::num::ParseIntError;
use symm::{Bool, Complex, Element, F8E4M3, F8E5M2, Op, Pair, symm_sys as sys};

pub fn number(text: &str) -> Result<i64, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    }
}

/// The constant `INVALID_ARGUMENT` is the value whose `Debug` text is `InvalidArgument`.
pub fn named<T: Debug>(name: &str, from_raw: fn(i32) -> T) -> T {
    if let Ok(value) = number(name) {
        return from_raw(value as i32);
    }
    let plain = name.replace('_', "");
    (-16..16)
        .map(from_raw)
        .find(|value| format!("{value:?}").to_uppercase() == plain)
        .unwrap_or_else(|| panic!("no constant is called {name}"))
}

macro_rules! flags {
    ($($name:ident)*) => {
        &[$((stringify!($name), sys::$name)),*]
    };
}

/// Names and values of the flags of groups.
const FLAGS: &[(&str, u64)] = flags!(
    SYMM_GROUP_OVERLAPPING_DEVICES SYMM_GROUP_SHARED_SCRATCH SYMM_GROUP_SAME_OFFSETS
    SYMM_GROUP_CHECK SYMM_GROUP_ANY_ORDER SYMM_GROUP_MULTICAST
    SYMM_GROUP_NO_CHECK SYMM_GROUP_RANK_ORDER SYMM_GROUP_NO_MULTICAST SYMM_GROUP_TREE_ORDER
);

/// The flag of a group that the table calls `CHECK`.
pub fn group_flag(name: &str) -> u64 {
    let found = FLAGS
        .iter()
        .find(|(known, _)| known.strip_prefix("SYMM_GROUP_") == Some(name));
    found
        .unwrap_or_else(|| panic!("no flag is called {name}"))
        .1
}

macro_rules! types {
    ($($type:ty)*) => {
        &[$((stringify!($type), <$type>::DTYPE, collectives::run::<$type>)),*]
    };
}

/// Complex numbers and pairs by the names of the table.
type C64 = Complex<f32>;
type C128 = Complex<f64>;
#[allow(non_camel_case_types)]
type I32_I32 = Pair<i32, i32>;
#[allow(non_camel_case_types)]
type I64_I64 = Pair<i64, i64>;
#[allow(non_camel_case_types)]
type F32_I32 = Pair<f32, i32>;
#[allow(non_camel_case_types)]
type F64_I64 = Pair<f64, i64>;

/// Name, value, and collectives of each data type.
const TYPES: &[(&str, i32, Verb)] = types!(
    i8 i16 i32 i64 u8 u16 u32 u64 Bool f16 bf16 f32 f64 F8E4M3 F8E5M2
    C64 C128 I32_I32 I64_I64 F32_I32 F64_I64
);

/// The value of a data type, and the collectives on its elements if it is a type of the library.
pub fn dtype(name: &str) -> (i32, Option<Verb>) {
    let found = TYPES
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(name));
    match found {
        Some((_, dtype, run)) => (*dtype, Some(*run)),
        None => (number(name).expect("a data type") as i32, None),
    }
}

/// Bytes of an element.
pub fn size(dtype: i32) -> usize {
    (dtype & 0xff) as usize / 8
}

/// The bytes of a value. Each type has exactly the values that the table names. Of two parts the
/// second is the value with the other sign.
pub fn encode(dtype: i32, value: i64) -> Vec<u8> {
    let number = value as f64;
    let bits_of = |to_f32: fn(u8) -> f32| {
        (0..=u8::MAX)
            .find(|bits| f64::from(to_f32(*bits)) == number)
            .into_iter()
            .collect()
    };

    let both = |first: i32, second: i32| [encode(first, value), encode(second, -value)].concat();

    match dtype {
        C64::DTYPE => both(f32::DTYPE, f32::DTYPE),
        C128::DTYPE => both(f64::DTYPE, f64::DTYPE),
        I32_I32::DTYPE => both(i32::DTYPE, i32::DTYPE),
        I64_I64::DTYPE => both(i64::DTYPE, i64::DTYPE),
        F32_I32::DTYPE => both(f32::DTYPE, i32::DTYPE),
        F64_I64::DTYPE => both(f64::DTYPE, i64::DTYPE),
        f16::DTYPE => f16::from_f64(number).to_le_bytes().to_vec(),
        bf16::DTYPE => bf16::from_f64(number).to_le_bytes().to_vec(),
        f32::DTYPE => (number as f32).to_le_bytes().to_vec(),
        f64::DTYPE => number.to_le_bytes().to_vec(),
        F8E4M3::DTYPE => bits_of(|bits| F8E4M3::from_bits(bits).to_f32()),
        F8E5M2::DTYPE => bits_of(|bits| F8E5M2::from_bits(bits).to_f32()),
        _ => value.to_le_bytes()[..size(dtype)].to_owned(),
    }
}

/// The reduction of the values of all ranks, in exact integers.
pub fn combine(op: Op, value: impl Fn(i64) -> i64) -> i64 {
    let all = (0..RANKS as i64).map(value);
    match op {
        Op::Sum => all.sum(),
        Op::Avg => all.sum::<i64>() / RANKS as i64,
        Op::Min | Op::Minloc => all.min().unwrap_or(0),
        Op::Max | Op::Maxloc => all.max().unwrap_or(0),
        Op::Band => all.fold(-1, |a, b| a & b),
        Op::Bor => all.fold(0, |a, b| a | b),
        Op::Bxor => all.fold(0, |a, b| a ^ b),
        _ => all.product(),
    }
}
