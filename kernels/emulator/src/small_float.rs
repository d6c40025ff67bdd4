//! Floats of 16 bits and fewer: what the bits mean, and how an f32 becomes one.
//!
//! gfx942 has the FNUZ forms of the 8-bit floats (exponent bias one higher, no infinity, no negative zero, NaN is 0x80);
//! gfx950 has the OCP forms (E4M3: no infinity, NaN is S.1111.111; E5M2: like IEEE). The 6-bit and 4-bit floats exist
//! on gfx950 only and have neither infinity nor NaN: what is too large saturates, and NaN becomes the largest value.
//!
//! Sources: OCP 8-bit floating point specification; OCP microscaling formats (MX) specification; the bias and NaN of
//! the FNUZ forms from the CDNA3 instruction set document. Everything rounds to nearest, ties to even, with subnormals.

/// A binary float of at most 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallFloat {
    /// Exponent bits.
    pub exponent_bits: u32,
    /// Mantissa bits that are stored.
    pub mantissa_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// What the top of the range encodes.
    pub special: Special,
}

/// What a format has besides finite numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// All-ones exponent is infinity or NaN.
    Ieee,
    /// Only the all-ones pattern (either sign) is NaN; there is no infinity.
    NanOnly,
    /// Negative zero's pattern is NaN; there is no infinity and no negative zero.
    Fnuz,
    /// Finite numbers only.
    Finite,
}

/// IEEE half precision.
pub const F16: SmallFloat = SmallFloat::new(5, 10, 15, Special::Ieee);
/// bfloat16.
pub const BF16: SmallFloat = SmallFloat::new(8, 7, 127, Special::Ieee);
/// OCP E4M3 (gfx950).
pub const E4M3: SmallFloat = SmallFloat::new(4, 3, 7, Special::NanOnly);
/// OCP E5M2 (gfx950).
pub const E5M2: SmallFloat = SmallFloat::new(5, 2, 15, Special::Ieee);
/// E4M3 FNUZ (gfx942).
pub const E4M3_FNUZ: SmallFloat = SmallFloat::new(4, 3, 8, Special::Fnuz);
/// E5M2 FNUZ (gfx942).
pub const E5M2_FNUZ: SmallFloat = SmallFloat::new(5, 2, 16, Special::Fnuz);
/// E2M3, the FP6 of the MX formats.
pub const E2M3: SmallFloat = SmallFloat::new(2, 3, 1, Special::Finite);
/// E3M2, the BF6 of the MX formats.
pub const E3M2: SmallFloat = SmallFloat::new(3, 2, 3, Special::Finite);
/// E2M1, the FP4 of the MX formats.
pub const E2M1: SmallFloat = SmallFloat::new(2, 1, 1, Special::Finite);

impl SmallFloat {
    const fn new(exponent_bits: u32, mantissa_bits: u32, bias: i32, special: Special) -> Self {
        Self { exponent_bits, mantissa_bits, bias, special }
    }

    /// Bits of one value.
    pub const fn bits(&self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    /// The pattern of the largest finite value, without sign.
    pub const fn max_pattern(&self) -> u32 {
        let all = (1 << (self.exponent_bits + self.mantissa_bits)) - 1;
        match self.special {
            Special::Ieee => all - (1 << self.mantissa_bits),
            Special::NanOnly => all - 1,
            Special::Fnuz | Special::Finite => all,
        }
    }

    /// The value of a pattern, exact in f32 for every format here.
    pub fn decode(&self, pattern: u32) -> f32 {
        let sign = pattern >> (self.bits() - 1) & 1;
        let magnitude = pattern & ((1 << (self.bits() - 1)) - 1);
        let negate = |x: f32| if sign == 1 { -x } else { x };
        match self.special {
            Special::Fnuz if sign == 1 && magnitude == 0 => return f32::NAN,
            Special::NanOnly if magnitude > self.max_pattern() => return negate(f32::NAN),
            Special::Ieee if magnitude == self.max_pattern() + 1 => return negate(f32::INFINITY),
            Special::Ieee if magnitude > self.max_pattern() => return negate(f32::NAN),
            _ => {}
        }
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let fraction = (magnitude & ((1 << self.mantissa_bits) - 1)) as f64;
        let unit = 2f64.powi(-(self.mantissa_bits as i32));
        let value = if exponent == 0 {
            fraction * unit * 2f64.powi(1 - self.bias)
        } else {
            (1.0 + fraction * unit) * 2f64.powi(exponent - self.bias)
        };
        negate(value as f32)
    }

    /// The pattern nearest to `x`, ties to even. What is too large becomes infinity or NaN, as the format has it, or
    /// the largest value if `saturate` is set (then also for infinities; NaN stays NaN where the format has one).
    pub fn encode(&self, x: f64, saturate: bool) -> u32 {
        let sign_bit = u32::from(x.is_sign_negative()) << (self.bits() - 1);
        let nan = match self.special {
            Special::Ieee => self.max_pattern() + 1 + (1 << (self.mantissa_bits - 1)),
            Special::NanOnly => self.max_pattern() + 1,
            Special::Fnuz => 1 << (self.bits() - 1),
            Special::Finite => self.max_pattern(),
        };
        if x.is_nan() {
            return match self.special {
                Special::Fnuz => nan,
                _ => sign_bit | nan,
            };
        }
        let magnitude = self.round_magnitude(x.abs());
        if magnitude > self.max_pattern() {
            return match self.special {
                _ if saturate => sign_bit | self.max_pattern(),
                Special::Ieee => sign_bit | (self.max_pattern() + 1),
                Special::Finite => sign_bit | self.max_pattern(),
                Special::Fnuz => nan,
                Special::NanOnly => sign_bit | nan,
            };
        }
        if magnitude == 0 && self.special == Special::Fnuz { 0 } else { sign_bit | magnitude }
    }

    /// The magnitude's pattern as if the exponent had no upper end.
    fn round_magnitude(&self, x: f64) -> u32 {
        if x == 0.0 {
            return 0;
        }
        if x.is_infinite() {
            return u32::MAX;
        }
        let exponent = ((x.to_bits() >> 52) as i32 - 1023).max(1 - self.bias);
        if exponent > 1024 - 2 || exponent - self.bias > 300 {
            return u32::MAX;
        }
        // In units of the last place, rounded by f64's own ties-to-even; a carry moves to the next exponent by itself.
        let units = (x * 2f64.powi(self.mantissa_bits as i32 - exponent)).round_ties_even() as u64;
        let base = ((exponent + self.bias - 1) as u64) << self.mantissa_bits;
        u32::try_from(base + units).unwrap_or(u32::MAX)
    }

    /// Stochastic rounding: adds `random`'s top bits below the last kept bit of the f32 mantissa, then truncates.
    pub fn encode_stochastic(&self, x: f32, random: u32, saturate: bool) -> u32 {
        if !x.is_finite() {
            return self.encode(f64::from(x), saturate);
        }
        let exponent = ((x.to_bits() >> 23 & 0xff) as i32 - 127).max(1 - self.bias);
        let unit = 2f64.powi(exponent - self.mantissa_bits as i32);
        let dither = f64::from(random) / 2f64.powi(32);
        let truncated = (f64::from(x.abs()) / unit + dither).floor() * unit;
        self.encode(truncated.copysign(f64::from(x)), saturate)
    }
}

/// An E8M0 scale: a power of two, 255 is NaN.
pub fn e8m0(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        e => f32::from_bits(u32::from(e) << 23),
    }
}

/// f32 to bfloat16, to nearest even.
pub(crate) fn to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    if x.is_nan() { bits >> 16 | 0x40 } else { (bits + 0x7fff + (bits >> 16 & 1)) >> 16 }
}

/// f32 to half, to nearest even.
pub(crate) fn to_f16(x: f32) -> u32 {
    u32::from(half::f16::from_f32(x).to_bits())
}

/// Half to f32, without branches so that loops over lanes become vector code.
#[inline(always)]
pub(crate) fn from_f16(bits: u32) -> f32 {
    // Moving the fields up leaves the exponent 112 too low, also for subnormals, which the multiplication normalises.
    let finite = (f32::from_bits((bits & 0x7fff) << 13) * 2f32.powi(112)).to_bits();
    let special = 0x7f80_0000 | (bits & 0x3ff) << 13;
    let magnitude = if bits & 0x7c00 == 0x7c00 { special } else { finite };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SmallFloat; 9] = [F16, BF16, E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ, E2M3, E3M2, E2M1];

    #[test]
    fn every_pattern_survives_decode_and_encode() {
        for format in ALL {
            for pattern in 0..1u32 << format.bits() {
                let value = format.decode(pattern);
                if value.is_nan() {
                    assert!(format.decode(format.encode(f64::NAN, false)).is_nan());
                } else {
                    assert_eq!(
                        format.encode(f64::from(value), false),
                        pattern,
                        "{format:?} {pattern:#x} {value}"
                    );
                }
            }
        }
    }

    #[test]
    fn encoding_is_the_nearest_pattern_with_ties_to_even() {
        for format in ALL {
            let step = if format.bits() == 16 { 37 } else { 1 };
            for pattern in (0..format.max_pattern()).step_by(step) {
                let (low, high) = (f64::from(format.decode(pattern)), f64::from(format.decode(pattern + 1)));
                let middle = (low + high) / 2.0;
                let even = pattern + (pattern & 1);
                assert_eq!(format.encode(middle, false), even, "{format:?} {middle}");
                assert_eq!(format.encode(middle * (1.0 - 1e-9), false), pattern);
                assert_eq!(format.encode(middle * (1.0 + 1e-9), false), pattern + 1);
            }
        }
    }

    #[test]
    fn known_limits_of_the_formats_hold() {
        let max = |f: SmallFloat| f.decode(f.max_pattern());
        assert_eq!([E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ].map(max), [448.0, 57344.0, 240.0, 57344.0]);
        assert_eq!([E2M3, E3M2, E2M1].map(max), [7.5, 28.0, 6.0]);
        assert!(E4M3.decode(0x7f).is_nan() && E4M3.decode(0xff).is_nan() && E4M3_FNUZ.decode(0x80).is_nan());
        assert_eq!(E4M3_FNUZ.encode(-0.0, false), 0);
        assert_eq!(E4M3_FNUZ.encode(1000.0, false), 0x80);
        assert_eq!(E4M3_FNUZ.encode(-1000.0, true), 0xff);
        assert_eq!(E4M3.encode(464.0, false), 0x7e);
        assert_eq!(E4M3.encode(465.0, false), 0x7f);
        assert_eq!(E5M2.encode(1e30, false), 0x7c);
        assert_eq!(E2M1.encode(f64::INFINITY, false), 7);
    }

    #[test]
    fn sixteen_bit_conversions_agree_with_the_general_encoder() {
        for step in 0..200_000u32 {
            let x = f32::from_bits(step.wrapping_mul(2_654_435_761));
            if !x.is_nan() {
                assert_eq!(to_bf16(x), BF16.encode(f64::from(x), false), "{x}");
                assert_eq!(to_f16(x), F16.encode(f64::from(x), false), "{x}");
            }
        }
    }

    #[test]
    fn halves_decode_as_the_general_decoder_says() {
        for bits in 0..=0xffffu32 {
            let (fast, general) = (from_f16(bits), F16.decode(bits));
            assert!(fast == general || (fast.is_nan() && general.is_nan()), "{bits:#x}");
        }
    }

    #[test]
    fn e8m0_is_a_power_of_two_or_nan() {
        assert_eq!([e8m0(127), e8m0(0), e8m0(254)], [1.0, 2f32.powi(-127), 2f32.powi(127)]);
        assert!(e8m0(255).is_nan());
    }

    #[test]
    fn stochastic_rounding_goes_up_only_as_far_as_the_random_bits_say() {
        // 1.0625 lies half way between the E4M3 neighbours 1.0 and 1.125.
        assert_eq!(E4M3.decode(E4M3.encode_stochastic(1.0625, 0, false)), 1.0);
        assert_eq!(E4M3.decode(E4M3.encode_stochastic(1.0625, 0x7fff_ffff, false)), 1.0);
        assert_eq!(E4M3.decode(E4M3.encode_stochastic(1.0625, 0x8000_0000, false)), 1.125);
    }
}
