// SPDX-License-Identifier: Apache-2.0
//! Integers as elements of a data type, bit by bit, without any arithmetic of that type.

use symm::symm_sys as sys;

pub fn size(dtype: i32) -> usize {
    (dtype & 0xff) as usize / 8
}

/// Bits of the mantissa, and bias; none for integers.
fn format(dtype: i32) -> Option<(u32, u64)> {
    match dtype {
        sys::SYMM_DTYPE_F16 => Some((10, 15)),
        sys::SYMM_DTYPE_F32 => Some((23, 127)),
        sys::SYMM_DTYPE_F64 => Some((52, 1023)),
        sys::SYMM_DTYPE_BF16 => Some((7, 127)),
        sys::SYMM_DTYPE_F8E4M3 => Some((3, 7)),
        sys::SYMM_DTYPE_F8E5M2 => Some((2, 15)),
        _ => None,
    }
}

/// The bits of `value`, little endian.
pub fn encode(dtype: i32, value: i64) -> Result<Vec<u8>, String> {
    let bytes = size(dtype);
    let bits = match format(dtype) {
        None => value as u64,
        Some(_) if value == 0 => 0,
        Some((mantissa, bias)) => {
            let magnitude = value.unsigned_abs();
            let k = magnitude.ilog2();
            let rest = magnitude ^ (1 << k);
            if k > mantissa && rest & ((1 << (k - mantissa)) - 1) != 0 {
                return Err("the table expects an inexact value".into());
            }
            let fraction = if k > mantissa { rest >> (k - mantissa) } else { rest << (mantissa - k) };
            let sign = u64::from(value < 0) << (8 * bytes - 1);
            sign | (u64::from(k) + bias) << mantissa | fraction
        }
    };
    Ok(bits.to_le_bytes()[..bytes].to_owned())
}
