//! VOP1: one vector source.

use super::types::*;
use super::{Run, Special};
use crate::exec::convert::Convert;
use crate::exec::float;

/// The rows, by opcode.
pub(crate) const VOP1: &[Row] = &[
    special!(0x00, "v_nop", None <- () Special::Nop),
    row!(0x01, "v_mov_b32", U32 <- (a: U32) a),
    special!(0x02, "v_readfirstlane_b32", Mask <- (B32) Special::ReadFirstLane),
    wide!(0x03, "v_cvt_i32_f64", I32 <- (a: F64) a as i32),
    wide!(0x04, "v_cvt_f64_i32", F64 <- (a: I32) f64::from(a)),
    row!(0x05, "v_cvt_f32_i32", F32 <- (a: I32) a as f32),
    row!(0x06, "v_cvt_f32_u32", F32 <- (a: U32) a as f32),
    row!(0x07, "v_cvt_u32_f32", U32 <- (a: F32) a as u32),
    row!(0x08, "v_cvt_i32_f32", I32 <- (a: F32) a as i32),
    row!(0x0a, "v_cvt_f16_f32", F16 <- (a: F32) a),
    row!(0x0b, "v_cvt_f32_f16", F32 <- (a: F16) a),
    row!(0x0c, "v_cvt_rpi_i32_f32", I32 <- (a: F32) (f64::from(a) + 0.5).floor() as i32),
    row!(0x0d, "v_cvt_flr_i32_f32", I32 <- (a: F32) a.floor() as i32),
    wide!(0x0f, "v_cvt_f32_f64", F32 <- (a: F64) a as f32),
    wide!(0x10, "v_cvt_f64_f32", F64 <- (a: F32) f64::from(a)),
    row!(0x11, "v_cvt_f32_ubyte0", F32 <- (a: U32) (a & 0xff) as f32),
    row!(0x12, "v_cvt_f32_ubyte1", F32 <- (a: U32) (a >> 8 & 0xff) as f32),
    row!(0x13, "v_cvt_f32_ubyte2", F32 <- (a: U32) (a >> 16 & 0xff) as f32),
    row!(0x14, "v_cvt_f32_ubyte3", F32 <- (a: U32) (a >> 24) as f32),
    wide!(0x15, "v_cvt_u32_f64", U32 <- (a: F64) a as u32),
    wide!(0x16, "v_cvt_f64_u32", F64 <- (a: U32) f64::from(a)),
    wide!(0x17, "v_trunc_f64", F64 <- (a: F64) a.trunc()),
    wide!(0x18, "v_ceil_f64", F64 <- (a: F64) a.ceil()),
    wide!(0x19, "v_rndne_f64", F64 <- (a: F64) a.round_ties_even()),
    wide!(0x1a, "v_floor_f64", F64 <- (a: F64) a.floor()),
    row!(0x1b, "v_fract_f32", F32 <- (a: F32) float::fract32(a)),
    row!(0x1c, "v_trunc_f32", F32 <- (a: F32) a.trunc()),
    row!(0x1d, "v_ceil_f32", F32 <- (a: F32) a.ceil()),
    row!(0x1e, "v_rndne_f32", F32 <- (a: F32) a.round_ties_even()),
    row!(0x1f, "v_floor_f32", F32 <- (a: F32) a.floor()),
    row!(0x20, "v_exp_f32", F32 <- (a: F32) float::exp2(a)),
    row!(0x21, "v_log_f32", F32 <- (a: F32) float::log2(a)),
    row!(0x22, "v_rcp_f32", F32 <- (a: F32) float::rcp(a)),
    row!(0x23, "v_rcp_iflag_f32", F32 <- (a: F32) float::rcp(a)),
    row!(0x24, "v_rsq_f32", F32 <- (a: F32) float::rsq(a)),
    wide!(0x25, "v_rcp_f64", F64 <- (a: F64) 1.0 / a),
    wide!(0x26, "v_rsq_f64", F64 <- (a: F64) 1.0 / a.sqrt()),
    row!(0x27, "v_sqrt_f32", F32 <- (a: F32) a.sqrt()),
    wide!(0x28, "v_sqrt_f64", F64 <- (a: F64) a.sqrt()),
    row!(0x29, "v_sin_f32", F32 <- (a: F32) float::sin(a)),
    row!(0x2a, "v_cos_f32", F32 <- (a: F32) float::cos(a)),
    row!(0x2b, "v_not_b32", U32 <- (a: U32) !a),
    row!(0x2c, "v_bfrev_b32", U32 <- (a: U32) a.reverse_bits()),
    row!(0x2d, "v_ffbh_u32", U32 <- (a: U32) if a == 0 { u32::MAX } else { a.leading_zeros() }),
    row!(0x2e, "v_ffbl_b32", U32 <- (a: U32) if a == 0 { u32::MAX } else { a.trailing_zeros() }),
    row!(0x2f, "v_ffbh_i32", U32 <- (a: I32) sign_change(a)),
    wide!(0x30, "v_frexp_exp_i32_f64", I32 <- (a: F64) float::frexp(a).map_or(0, |(e, _)| e)),
    wide!(0x31, "v_frexp_mant_f64", F64 <- (a: F64) float::frexp(a).map_or(a, |(_, m)| m)),
    wide!(0x32, "v_fract_f64", F64 <- (a: F64) float::fract64(a)),
    row!(0x33, "v_frexp_exp_i32_f32", I32 <- (a: F32) float::frexp(f64::from(a)).map_or(0, |(e, _)| e)),
    row!(0x34, "v_frexp_mant_f32", F32 <- (a: F32) float::frexp(f64::from(a)).map_or(a, |(_, m)| m as f32)),
    wide!(0x38, "v_mov_b64", U64 <- (a: U64) a),
    row!(0x39, "v_cvt_f16_u16", F16 <- (a: U16) f32::from(a)),
    row!(0x3a, "v_cvt_f16_i16", F16 <- (a: I16) f32::from(a)),
    row!(0x3b, "v_cvt_u16_f16", U16 <- (a: F16) a as u16),
    row!(0x3c, "v_cvt_i16_f16", I16 <- (a: F16) a as i16),
    row!(0x3d, "v_rcp_f16", F16 <- (a: F16) float::rcp(a)),
    row!(0x3e, "v_sqrt_f16", F16 <- (a: F16) a.sqrt()),
    row!(0x3f, "v_rsq_f16", F16 <- (a: F16) float::rsq(a)),
    row!(0x40, "v_log_f16", F16 <- (a: F16) float::log2(a)),
    row!(0x41, "v_exp_f16", F16 <- (a: F16) float::exp2(a)),
    row!(0x42, "v_frexp_mant_f16", F16 <- (a: F16) float::frexp(f64::from(a)).map_or(a, |(_, m)| m as f32)),
    row!(0x43, "v_frexp_exp_i16_f16", I16 <- (a: F16) float::frexp(f64::from(a)).map_or(0, |(e, _)| e as i16)),
    row!(0x44, "v_floor_f16", F16 <- (a: F16) a.floor()),
    row!(0x45, "v_ceil_f16", F16 <- (a: F16) a.ceil()),
    row!(0x46, "v_trunc_f16", F16 <- (a: F16) a.trunc()),
    row!(0x47, "v_rndne_f16", F16 <- (a: F16) a.round_ties_even()),
    row!(0x48, "v_fract_f16", F16 <- (a: F16) float::min32(a - a.floor(), f32::from_bits(0x3f7f_e000))),
    row!(0x4f, "v_sat_pk_u8_i16", Bits16 <- (a: PI16) {
        let byte = |x: i16| x.clamp(0, 255) as u32;
        byte(a[0]) | byte(a[1]) << 8
    }),
    special!(0x51, "v_swap_b32", B32 <- (B32) Special::Swap),
    row!(0x52, "v_accvgpr_mov_b32", U32 <- (a: U32) a),
    special!(0x54, "v_cvt_f32_fp8", F32 <- (B32) Special::Convert(Convert::FromF8 { bf8: false, pair: false })),
    special!(0x55, "v_cvt_f32_bf8", F32 <- (B32) Special::Convert(Convert::FromF8 { bf8: true, pair: false })),
    special!(0x56, "v_cvt_pk_f32_fp8", PkF32 <- (B32) Special::Convert(Convert::FromF8 { bf8: false, pair: true })),
    special!(0x57, "v_cvt_pk_f32_bf8", PkF32 <- (B32) Special::Convert(Convert::FromF8 { bf8: true, pair: true })),
    row!(0x58, "v_prng_b32", U32 <- (a: U32) prng(a)),
    special!(0x59, "v_permlane16_swap_b32", B32 <- (B32) Special::PermlaneSwap { row: 16 }),
    special!(0x5a, "v_permlane32_swap_b32", B32 <- (B32) Special::PermlaneSwap { row: 32 }),
    row!(0x5b, "v_cvt_f32_bf16", F32 <- (a: Bits16) f32::from_bits(a << 16)),
];

/// Opcodes of VOP1 that only gfx950 has.
pub(crate) const VOP1_GFX950: std::ops::RangeInclusive<u16> = 0x58..=0x5b;

/// One step of the shift register behind stochastic rounding.
pub(crate) fn prng(x: u32) -> u32 {
    x << 1 ^ if x >> 31 == 1 { 197 } else { 0 }
}

/// Leading bits that equal the sign, or -1 if all do.
fn sign_change(a: i32) -> u32 {
    let bits = if a < 0 { !a } else { a };
    if bits == 0 { u32::MAX } else { bits.leading_zeros() }
}
