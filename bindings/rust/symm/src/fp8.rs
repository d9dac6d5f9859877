//! Floating point in eight bits: storage only, the library does the arithmetic.

macro_rules! fp8 {
    ($(#[$meta:meta])* $name:ident, exponent $exponent:literal, mantissa $mantissa:literal, bias $bias:literal, finite $finite:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The number with these bits.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits. Two numbers are `==` when these are equal, so zeros of both signs differ and a NaN equals itself.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The number, exactly.
            pub fn to_f32(self) -> f32 {
                let sign = if self.0 >> 7 == 1 { -1.0 } else { 1.0 };
                let exponent = i32::from(self.0 >> $mantissa & ((1 << $exponent) - 1));
                let mantissa = self.0 & ((1 << $mantissa) - 1);
                let top = (1 << $exponent) - 1;
                if exponent == top && (!$finite || mantissa == (1 << $mantissa) - 1) {
                    return if !$finite && mantissa == 0 { sign * f32::INFINITY } else { f32::NAN };
                }
                let fraction = f32::from(mantissa) / f32::from(1u8 << $mantissa);
                let value = if exponent == 0 { fraction * 2f32.powi(1 - $bias) } else { (1.0 + fraction) * 2f32.powi(exponent - $bias) };
                sign * value
            }
        }
    };
}

fp8! {
    /// 1 sign, 4 exponent and 3 mantissa bits, no infinity (`float8_e4m3fn`). Results of reductions saturate at 448.
    F8E4M3, exponent 4, mantissa 3, bias 7, finite true
}
fp8! {
    /// 1 sign, 5 exponent and 2 mantissa bits. Results of reductions saturate at 57344.
    F8E5M2, exponent 5, mantissa 2, bias 15, finite false
}

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
