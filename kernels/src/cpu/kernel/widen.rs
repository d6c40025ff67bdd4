//! From codes to bf16 by arithmetic alone, so that compilers turn a loop over columns into vector code on any
//! processor: no table look-up, no branch.

use super::decode::{Codes, Pairs};
use crate::cpu::pack::COLUMNS;
use crate::format::Format;
use crate::format::minifloat::Special;

/// What the arithmetic needs to know of a format of at most 8 bits.
#[derive(Clone, Copy)]
struct Widening {
    sign: u32,
    /// From the mantissa's place to bf16's.
    shift: u32,
    /// The difference of the biases, in bf16's exponent field.
    rebias: u32,
    /// The smallest magnitude code that is normal.
    normal: u32,
    /// The value of magnitude code 1.
    step: f32,
    /// The smallest magnitude code that is infinity or NaN.
    special: u32,
    /// The one code that is NaN whatever its magnitude says.
    nan: u32,
}

impl Widening {
    const fn of(format: Format) -> Self {
        let codec = format.codec();
        let sign = 1 << (codec.exponent_bits + codec.mantissa_bits);
        let never = u32::MAX;
        let special = match codec.special {
            Special::Ieee | Special::AllOnes => codec.max_code() as u32 + 1,
            Special::NegativeZero | Special::None | Special::Integer => never,
        };
        Widening {
            sign,
            shift: 7 - codec.mantissa_bits,
            rebias: ((127 - codec.bias) as u32) << 7,
            normal: 1 << codec.mantissa_bits,
            step: format.decode(1),
            special,
            nan: if matches!(codec.special, Special::NegativeZero) { sign } else { never },
        }
    }

    /// The bf16 bits of a code.
    #[inline(always)]
    fn bf16(self, code: u32) -> u32 {
        let magnitude = code & (self.sign - 1);
        let normal = (magnitude << self.shift) + self.rebias;
        // A subnormal is a small whole number of steps, and a normal bf16.
        let subnormal = (magnitude as i32 as f32 * self.step).to_bits() >> 16;
        let finite = if magnitude < self.normal { subnormal } else { normal };
        // The mantissa stays and tells infinity from NaN.
        let all = finite | if magnitude >= self.special { 0x7f80 } else { 0 };
        let all = if code == self.nan { 0x7fc0 } else { all };
        all | if code & self.sign != 0 { 0x8000 } else { 0 }
    }
}

/// Widens a block's codes, in group order, to pair vectors.
#[inline(always)]
pub(super) fn widen(format: Format, codes: &Codes, out: &mut Pairs) {
    let w = Widening::of(format);
    for (group, codes) in codes.chunks_exact(COLUMNS * 4).enumerate() {
        let mut columns = [0u32; COLUMNS];
        for (four, bytes) in columns.iter_mut().zip(codes.chunks_exact(4)) {
            *four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for (word, four) in out[2 * group].iter_mut().zip(columns) {
            *word = w.bf16(four & 0xff) | w.bf16(four >> 16 & 0xff) << 16;
        }
        for (word, four) in out[2 * group + 1].iter_mut().zip(columns) {
            *word = w.bf16(four >> 8 & 0xff) | w.bf16(four >> 24) << 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_gives_the_value_of_every_code() {
        for &format in Format::WEIGHTS.iter().filter(|format| format.bits() <= 8) {
            for code in 0..1u32 << format.bits() {
                let widened = f32::from_bits(Widening::of(format).bf16(code) << 16);
                let value = format.decode(code as u16);
                let same = widened.to_bits() == value.to_bits() || (widened.is_nan() && value.is_nan());
                assert!(same, "{format} {code:#x}: {widened} is not {value}");
            }
        }
    }
}
