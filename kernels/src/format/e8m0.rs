//! E8M0: the power-of-two scale shared by a block of an MX format, and the rules that choose it.
//!
//! A code c stands for 2^(c − 127), c = 255 for NaN; there is no zero and no sign (OCP Microscaling Formats (MX)
//! Specification 1.0, section 5.4.1). Code 0 is 2^-127, a subnormal f32.

use crate::format::{Format, aiter};
use crate::problem::named_enum;

/// The code of 1.
pub const ONE: u8 = 127;

/// The code of NaN: a block with this scale is NaN throughout.
pub const NAN: u8 = 255;

/// The value of a scale.
pub const fn decode(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        NAN => f32::NAN,
        _ => f32::from_bits((code as u32) << 23),
    }
}

/// The value of a scale in f64, where every scale is a normal number.
pub const fn decode_f64(code: u8) -> f64 {
    match code {
        NAN => f64::NAN,
        _ => f64::from_bits((code as u64 + 1023 - 127) << 52),
    }
}

/// What a scaled element has to be multiplied with: the reciprocal of a scale that is not NaN.
pub const fn reciprocal(code: u8) -> f32 {
    decode(254 - code)
}

named_enum! {
    /// How the shared scale of an MX block is chosen, and how its elements are rounded.
    ///
    /// Under every rule a block of zeros has scale 1 ([`ONE`]), and a block that holds an infinity or NaN has scale
    /// [`NAN`], so that a fault stays visible in every format, also in those that have no NaN of their own.
    ScaleRule {
        /// 2^(⌊log2 amax⌋ − emax), elements to nearest even and saturating: OCP MX Specification 1.0, section 6.3.
        /// Values between the largest element and 2^(emax + 1), under that scale, saturate.
        Ocp = "ocp",
        /// What ROCm's AITER packs for its A6W6 kernels, defined for MXFP6 E2M3 only; see [`aiter`].
        Aiter = "aiter",
    }
}

#[expect(clippy::derivable_impls, reason = "the macro that makes the enum cannot mark a variant")]
impl Default for ScaleRule {
    fn default() -> Self {
        ScaleRule::Ocp
    }
}

impl ScaleRule {
    /// Whether the rule is defined for a format.
    pub const fn fits(self, format: Format) -> bool {
        match self {
            ScaleRule::Ocp => true,
            ScaleRule::Aiter => matches!(format, Format::MxFp6E2m3),
        }
    }

    /// The scale of a block whose largest magnitude is `amax`.
    pub const fn scale(self, amax: f32, format: Format) -> u8 {
        let bits = amax.to_bits() & 0x7fff_ffff;
        if bits >= 0x7f80_0000 {
            return NAN;
        }
        if bits == 0 {
            return ONE;
        }
        let exponent = match self {
            ScaleRule::Ocp => floor_log2(bits),
            ScaleRule::Aiter => aiter::clamped_log2(floor_log2(bits)),
        };
        let code = exponent - format.emax() + 127;
        // 254 is out of reach: the largest f32 has exponent 127, and every element format's emax is at least 2.
        if code < 0 { 0 } else { code as u8 }
    }
}

/// ⌊log2⌋ of a positive finite f32, from its bits.
pub(crate) const fn floor_log2(bits: u32) -> i32 {
    let field = (bits >> 23) as i32;
    if field > 0 { field - 127 } else { 31 - bits.leading_zeros() as i32 - 149 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_logarithm_is_exact_for_subnormals_too() {
        for exponent in -149..=127 {
            let power = 2.0_f64.powi(exponent) as f32;
            assert_eq!(floor_log2(power.to_bits()), exponent);
            if exponent > -149 {
                assert_eq!(floor_log2(power.next_down().to_bits()), exponent - 1);
            }
        }
    }
}
