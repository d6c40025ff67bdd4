//! One codec for every floating-point format of at most 16 bits.
//!
//! A format is four numbers and a rule for its special values: sign, `exponent_bits` and `mantissa_bits` from the top,
//! a bias, subnormals at exponent field 0. Encoding works on the bits of the f32 and never calls a maths library, so
//! that it can run at compile time and without `std`, and so that it gives the same code on every machine.
//!
//! Sources: OCP 8-bit Floating Point Specification (OFP8) 1.0, section 5; OCP Microscaling Formats (MX) Specification
//! 1.0, section 5.3; bfloat16 as in IEEE 754 with 8 exponent and 7 mantissa bits.
//!
//! Invariants: `encode(decode(c)) == c` for every code that is neither NaN nor, in a saturating format, infinity;
//! encoding is monotonic; ties go to the even code.

/// Which codes of a format are not finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// As IEEE 754: the top exponent holds infinity (mantissa 0) and NaNs.
    Ieee,
    /// Only the code with all exponent and mantissa bits set is NaN; no infinities (OCP E4M3).
    AllOnes,
    /// The code of negative zero is the one NaN; no infinities, no negative zero (FNUZ).
    NegativeZero,
    /// Every code is a finite number (FP6, FP4).
    None,
    /// Codes are two's complement integers of steps (MX INT8); there is no exponent. The most negative one, which has no
    /// counterpart, is read but never made.
    Integer,
}

/// What a finite value beyond the largest code, or infinity, becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The largest finite number of that sign.
    Saturate,
    /// Infinity, as IEEE 754 rounds.
    Infinity,
}

/// A binary floating-point format of at most 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minifloat {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the mantissa field.
    pub mantissa_bits: u32,
    /// What is subtracted from the exponent field.
    pub bias: i32,
    /// Which codes are not finite.
    pub special: Special,
    /// What too large a value becomes.
    pub overflow: Overflow,
}

impl Minifloat {
    /// A saturating format.
    pub const fn new(exponent_bits: u32, mantissa_bits: u32, bias: i32, special: Special) -> Self {
        Minifloat { exponent_bits, mantissa_bits, bias, special, overflow: Overflow::Saturate }
    }

    /// The position of the sign bit, which is also the number of magnitude codes.
    const fn sign_bit(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The code of infinity in an IEEE-like format: the exponent field all ones.
    const fn infinity(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    /// The code of the largest finite number.
    pub const fn max_code(self) -> u16 {
        let code = match self.special {
            Special::Ieee => self.infinity() - 1,
            Special::AllOnes => self.sign_bit() - 2,
            Special::NegativeZero | Special::None | Special::Integer => self.sign_bit() - 1,
        };
        code as u16
    }

    /// Bits after the binary point of the smallest element: every element is a whole number of 2^-this.
    pub const fn fraction_bits(self) -> i32 {
        self.bias - 1 + self.mantissa_bits as i32
    }

    /// The exact value of a code. Bits above the format's width are ignored.
    pub const fn decode(self, code: u16) -> f32 {
        let code = code as u32;
        let negative = code & self.sign_bit() != 0;
        let sign = (negative as u32) << 31;
        let magnitude = match self.special {
            Special::Integer if negative => self.sign_bit() - (code & (self.sign_bit() - 1)),
            _ => code & (self.sign_bit() - 1),
        };
        let to_f32 = 23 - self.mantissa_bits;
        let nan = match self.special {
            Special::Ieee if magnitude >= self.infinity() => {
                return f32::from_bits(sign | 0x7f80_0000 | (magnitude - self.infinity()) << to_f32);
            }
            Special::AllOnes => magnitude == self.sign_bit() - 1,
            Special::NegativeZero => magnitude == 0 && sign != 0,
            Special::Ieee | Special::None | Special::Integer => false,
        };
        if nan {
            return f32::from_bits(sign | 0x7fc0_0000);
        }
        let exponent = match self.special {
            Special::Integer => 0,
            _ => magnitude >> self.mantissa_bits,
        };
        let bits = if exponent > 0 || self.bias == 127 {
            // The exponent field moves over unchanged but for the bias; with f32's own bias subnormals do too.
            (magnitude << to_f32) + (((127 - self.bias) as u32) << 23)
        } else if magnitude == 0 {
            0
        } else {
            // A subnormal, magnitude · 2^(1 − bias − mantissa_bits), is a normal f32.
            let top = 31 - magnitude.leading_zeros();
            let exponent = top as i32 + 1 - self.bias - self.mantissa_bits as i32;
            (((exponent + 127) as u32) << 23) | ((magnitude << (23 - top)) & 0x007f_ffff)
        };
        f32::from_bits(sign | bits)
    }

    /// The code nearest to a value, ties to even. See [`crate::Format::encode`] for what is not a number.
    #[inline]
    pub const fn encode(self, value: f32) -> u16 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        let sign = if bits >> 31 != 0 { self.sign_bit() } else { 0 };
        if magnitude > 0x7f80_0000 {
            return self.nan(sign);
        }
        let code = self.round(magnitude);
        let code = if code > self.max_code() as u32 {
            match self.overflow {
                Overflow::Saturate => self.max_code() as u32,
                Overflow::Infinity => self.infinity(),
            }
        } else {
            code
        };
        match self.special {
            Special::NegativeZero if code == 0 => 0,
            Special::Integer if sign != 0 => {
                ((2 * self.sign_bit() - code) & (2 * self.sign_bit() - 1)) as u16
            }
            _ => (code | sign) as u16,
        }
    }

    const fn nan(self, sign: u32) -> u16 {
        let code = match self.special {
            Special::Ieee => sign | self.infinity() | 1 << (self.mantissa_bits - 1),
            Special::AllOnes => sign | (self.sign_bit() - 1),
            Special::NegativeZero => self.sign_bit(),
            Special::None | Special::Integer => self.sign_bit() - 1,
        };
        code as u16
    }

    /// The magnitude code nearest to a non-negative f32 that is not NaN, as if there were no largest exponent.
    #[inline]
    const fn round(self, magnitude: u32) -> u32 {
        let field = (magnitude >> 23) as i32;
        // A subnormal f32 has the exponent of field 1 and no hidden bit.
        let (exponent, hidden) = if field == 0 { (-126, 0) } else { (field - 127, 1 << 23) };
        let significand = (magnitude & 0x007f_ffff) | hidden;
        let smallest = 1 - self.bias;
        let below = if exponent < smallest { smallest - exponent } else { 0 };
        let steps = if exponent > smallest { (exponent - smallest) as u32 } else { 0 };
        // With 25 bits shifted out even the largest significand is under half a step.
        let shift = 23 - self.mantissa_bits as i32 + below;
        let shift = if shift > 25 { 25 } else { shift as u32 };
        let odd = (significand >> shift) & 1;
        let rounded = (significand + (1 << (shift - 1)) - 1 + odd) >> shift;
        // A carry out of the mantissa lands in the exponent field, which is where it belongs.
        (steps << self.mantissa_bits) + rounded
    }
}
