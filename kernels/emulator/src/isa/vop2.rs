//! VOP2: two sources, the second a VGPR.

use super::types::*;
use super::{Arith, Run, Special};
use crate::exec::float;
use crate::exec::simd;

const fn carry(kind: Arith, carry_in: bool) -> Special {
    Special::Carry { kind, carry_in }
}

/// Multiply-adds whose addend is the destination: the decoder gives them the destination as third source.
pub(crate) const ACCUMULATING: &[u16] = &[0x04, 0x16, 0x23, 0x37, 0x38, 0x39, 0x3b, 0x3c];
/// `fmamk`: the literal is the multiplier. `fmaak`: the literal is the addend.
pub(crate) const FMAMK: [u16; 2] = [0x17, 0x24];
/// See [`FMAMK`].
pub(crate) const FMAAK: [u16; 2] = [0x18, 0x25];
/// Opcodes of VOP2 that only gfx950 has.
pub(crate) const VOP2_GFX950: [u16; 1] = [0x16];

/// `v_fma_f32` and its short forms.
pub(crate) const fn fma_row(opcode: u16, name: &'static str) -> Row {
    Row { opcode, name, ty: Signature::new(T::F32, [T::F32, T::F32, T::F32]), run: Run::A3(simd::fma32) }
}

/// The rows, by opcode.
pub(crate) const VOP2: &[Row] = &[
    special!(0x00, "v_cndmask_b32", B32 <- (B32, B32, Mask) Special::Cndmask),
    row!(0x01, "v_add_f32", F32 <- (a: F32, b: F32) a + b),
    row!(0x02, "v_sub_f32", F32 <- (a: F32, b: F32) a - b),
    row!(0x03, "v_subrev_f32", F32 <- (a: F32, b: F32) b - a),
    wide!(0x04, "v_fmac_f64", F64 <- (a: F64, b: F64, c: F64) a.mul_add(b, c)),
    row!(0x05, "v_mul_f32", F32 <- (a: F32, b: F32) a * b),
    row!(0x06, "v_mul_i32_i24", I32 <- (a: I32, b: I32) i24(a).wrapping_mul(i24(b))),
    row!(0x07, "v_mul_hi_i32_i24", I32 <- (a: I32, b: I32) ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as i32),
    row!(0x08, "v_mul_u32_u24", U32 <- (a: U32, b: U32) u24(a).wrapping_mul(u24(b))),
    row!(0x09, "v_mul_hi_u32_u24", U32 <- (a: U32, b: U32) ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32),
    row!(0x0a, "v_min_f32", F32 <- (a: F32, b: F32) float::min32(a, b)),
    row!(0x0b, "v_max_f32", F32 <- (a: F32, b: F32) float::max32(a, b)),
    row!(0x0c, "v_min_i32", I32 <- (a: I32, b: I32) a.min(b)),
    row!(0x0d, "v_max_i32", I32 <- (a: I32, b: I32) a.max(b)),
    row!(0x0e, "v_min_u32", U32 <- (a: U32, b: U32) a.min(b)),
    row!(0x0f, "v_max_u32", U32 <- (a: U32, b: U32) a.max(b)),
    row!(0x10, "v_lshrrev_b32", U32 <- (a: U32, b: U32) b >> (a & 31)),
    row!(0x11, "v_ashrrev_i32", I32 <- (a: U32, b: I32) b >> (a & 31)),
    row!(0x12, "v_lshlrev_b32", U32 <- (a: U32, b: U32) b << (a & 31)),
    row!(0x13, "v_and_b32", U32 <- (a: U32, b: U32) a & b),
    row!(0x14, "v_or_b32", U32 <- (a: U32, b: U32) a | b),
    row!(0x15, "v_xor_b32", U32 <- (a: U32, b: U32) a ^ b),
    row!(0x16, "v_dot2c_f32_bf16", F32 <- (a: PBF16, b: PBF16, c: F32) c + a[0] * b[0] + a[1] * b[1]),
    fma_row(0x17, "v_fmamk_f32"),
    fma_row(0x18, "v_fmaak_f32"),
    special!(0x19, "v_add_co_u32", B32 <- (B32, B32) carry(Arith::Add, false)),
    special!(0x1a, "v_sub_co_u32", B32 <- (B32, B32) carry(Arith::Sub, false)),
    special!(0x1b, "v_subrev_co_u32", B32 <- (B32, B32) carry(Arith::SubRev, false)),
    special!(0x1c, "v_addc_co_u32", B32 <- (B32, B32, Mask) carry(Arith::Add, true)),
    special!(0x1d, "v_subb_co_u32", B32 <- (B32, B32, Mask) carry(Arith::Sub, true)),
    special!(0x1e, "v_subbrev_co_u32", B32 <- (B32, B32, Mask) carry(Arith::SubRev, true)),
    row!(0x1f, "v_add_f16", F16 <- (a: F16, b: F16) a + b),
    row!(0x20, "v_sub_f16", F16 <- (a: F16, b: F16) a - b),
    row!(0x21, "v_subrev_f16", F16 <- (a: F16, b: F16) b - a),
    row!(0x22, "v_mul_f16", F16 <- (a: F16, b: F16) a * b),
    row!(0x26, "v_add_u16", U16 <- (a: U16, b: U16) a.wrapping_add(b)),
    row!(0x27, "v_sub_u16", U16 <- (a: U16, b: U16) a.wrapping_sub(b)),
    row!(0x28, "v_subrev_u16", U16 <- (a: U16, b: U16) b.wrapping_sub(a)),
    row!(0x29, "v_mul_lo_u16", U16 <- (a: U16, b: U16) a.wrapping_mul(b)),
    row!(0x2a, "v_lshlrev_b16", U16 <- (a: U16, b: U16) b << (a & 15)),
    row!(0x2b, "v_lshrrev_b16", U16 <- (a: U16, b: U16) b >> (a & 15)),
    row!(0x2c, "v_ashrrev_i16", I16 <- (a: U16, b: I16) b >> (a & 15)),
    row!(0x2d, "v_max_f16", F16 <- (a: F16, b: F16) float::max32(a, b)),
    row!(0x2e, "v_min_f16", F16 <- (a: F16, b: F16) float::min32(a, b)),
    row!(0x2f, "v_max_u16", U16 <- (a: U16, b: U16) a.max(b)),
    row!(0x30, "v_max_i16", I16 <- (a: I16, b: I16) a.max(b)),
    row!(0x31, "v_min_u16", U16 <- (a: U16, b: U16) a.min(b)),
    row!(0x32, "v_min_i16", I16 <- (a: I16, b: I16) a.min(b)),
    row!(0x33, "v_ldexp_f16", F16 <- (a: F16, b: I16) float::ldexp32(a, i32::from(b))),
    row!(0x34, "v_add_u32", U32 <- (a: U32, b: U32) a.wrapping_add(b)),
    row!(0x35, "v_sub_u32", U32 <- (a: U32, b: U32) a.wrapping_sub(b)),
    row!(0x36, "v_subrev_u32", U32 <- (a: U32, b: U32) b.wrapping_sub(a)),
    row!(0x37, "v_dot2c_f32_f16", F32 <- (a: PF16, b: PF16, c: F32) c + a[0] * b[0] + a[1] * b[1]),
    row!(0x38, "v_dot2c_i32_i16", I32 <- (a: PI16, b: PI16, c: I32) {
        c.wrapping_add(i32::from(a[0]) * i32::from(b[0])).wrapping_add(i32::from(a[1]) * i32::from(b[1]))
    }),
    row!(0x39, "v_dot4c_i32_i8", I32 <- (a: U32, b: U32, c: I32) dot4(a, b, c)),
    fma_row(0x3b, "v_fmac_f32"),
    row!(0x3c, "v_pk_fmac_f16", PF16 <- (a: PF16, b: PF16, c: PF16) [fma16(a[0], b[0], c[0]), fma16(a[1], b[1], c[1])]),
    row!(0x3d, "v_xnor_b32", U32 <- (a: U32, b: U32) !(a ^ b)),
];

/// What integer instructions compute with the clamp bit, by mnemonic: they saturate.
pub(crate) const SATURATING: &[Row] = &[
    row!(0, "v_add_u32", U32 <- (a: U32, b: U32) a.saturating_add(b)),
    row!(0, "v_sub_u32", U32 <- (a: U32, b: U32) a.saturating_sub(b)),
    row!(0, "v_subrev_u32", U32 <- (a: U32, b: U32) b.saturating_sub(a)),
    row!(0, "v_add_u16", U16 <- (a: U16, b: U16) a.saturating_add(b)),
    row!(0, "v_sub_u16", U16 <- (a: U16, b: U16) a.saturating_sub(b)),
    row!(0, "v_subrev_u16", U16 <- (a: U16, b: U16) b.saturating_sub(a)),
    row!(0, "v_add_i32", I32 <- (a: I32, b: I32) a.saturating_add(b)),
    row!(0, "v_sub_i32", I32 <- (a: I32, b: I32) a.saturating_sub(b)),
    row!(0, "v_add_i16", HI16 <- (a: I16, b: I16) a.saturating_add(b)),
    row!(0, "v_sub_i16", HI16 <- (a: I16, b: I16) a.saturating_sub(b)),
];

/// The low 24 bits, sign-extended.
pub(crate) fn i24(x: i32) -> i32 {
    x << 8 >> 8
}

/// The low 24 bits.
pub(crate) fn u24(x: u32) -> u32 {
    x & 0xff_ffff
}

/// Four signed byte products added to `c`.
pub(crate) fn dot4(a: u32, b: u32, c: i32) -> i32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    (0..4).fold(c, |sum, i| sum.wrapping_add(i32::from(a[i] as i8) * i32::from(b[i] as i8)))
}

/// A half-precision multiply-add: product and sum in f64, where the product is exact.
pub(crate) fn fma16(a: f32, b: f32, c: f32) -> f32 {
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = p + c;
    // Round to odd where f64 could not hold the sum, so that the final rounding to half is the only one that shows.
    let error = if p.abs() >= c.abs() { c - (sum - p) } else { p - (sum - c) };
    let odd = if error != 0.0 && sum.is_finite() && sum.to_bits() & 1 == 0 {
        let up = (error > 0.0) == (sum > 0.0);
        f64::from_bits(if up { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
    } else {
        sum
    };
    crate::small_float::from_f16(crate::small_float::F16.encode(odd, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_multiply_add_rounds_once() {
        assert_eq!(fma16(1.5, 2.0, 0.25), 3.25);
        // 1 + 2^-11 is a tie and would go down to even; the tiny addend decides it upwards.
        assert_eq!(fma16(2f32.powi(-24), 2f32.powi(-14), 1.0 + 2f32.powi(-10)), 1.0 + 2f32.powi(-10));
        assert_eq!(fma16(1.0, 2f32.powi(-11), 1.0), 1.0);
        assert!(fma16(f32::INFINITY, 0.0, 1.0).is_nan());
    }

    #[test]
    fn twenty_four_bit_operands_drop_the_high_byte() {
        assert_eq!(i24(0x7f80_0000u32 as i32), -0x80_0000);
        assert_eq!(u24(0xff00_0001), 1);
        assert_eq!(dot4(0x0102_ff04, 0x0101_0101, 10), 10 + 4 - 1 + 2 + 1);
    }
}
