//! VOP3P: two 16-bit values in a register, or two f32 in a pair, at once.

use super::types::*;
use super::vop2::fma16;
use super::{Run, Special};
use crate::exec::float::{max32, min32};

/// The rows, by opcode.
pub(crate) const VOP3P: &[Row] = &[
    row!(0x00, "v_pk_mad_i16", PI16 <- (a: PI16, b: PI16, c: PI16) {
        std::array::from_fn(|i| a[i].wrapping_mul(b[i]).wrapping_add(c[i]))
    }),
    row!(0x01, "v_pk_mul_lo_u16", PU16 <- (a: PU16, b: PU16) std::array::from_fn(|i| a[i].wrapping_mul(b[i]))),
    row!(0x02, "v_pk_add_i16", PI16 <- (a: PI16, b: PI16) std::array::from_fn(|i| a[i].wrapping_add(b[i]))),
    row!(0x03, "v_pk_sub_i16", PI16 <- (a: PI16, b: PI16) std::array::from_fn(|i| a[i].wrapping_sub(b[i]))),
    row!(0x04, "v_pk_lshlrev_b16", PU16 <- (a: PU16, b: PU16) std::array::from_fn(|i| b[i] << (a[i] & 15))),
    row!(0x05, "v_pk_lshrrev_b16", PU16 <- (a: PU16, b: PU16) std::array::from_fn(|i| b[i] >> (a[i] & 15))),
    row!(0x06, "v_pk_ashrrev_i16", PI16 <- (a: PU16, b: PI16) std::array::from_fn(|i| b[i] >> (a[i] & 15))),
    row!(0x07, "v_pk_max_i16", PI16 <- (a: PI16, b: PI16) std::array::from_fn(|i| a[i].max(b[i]))),
    row!(0x08, "v_pk_min_i16", PI16 <- (a: PI16, b: PI16) std::array::from_fn(|i| a[i].min(b[i]))),
    row!(0x09, "v_pk_mad_u16", PU16 <- (a: PU16, b: PU16, c: PU16) {
        std::array::from_fn(|i| a[i].wrapping_mul(b[i]).wrapping_add(c[i]))
    }),
    row!(0x0a, "v_pk_add_u16", PU16 <- (a: PU16, b: PU16) std::array::from_fn(|i| a[i].wrapping_add(b[i]))),
    row!(0x0b, "v_pk_sub_u16", PU16 <- (a: PU16, b: PU16) std::array::from_fn(|i| a[i].wrapping_sub(b[i]))),
    row!(0x0c, "v_pk_max_u16", PU16 <- (a: PU16, b: PU16) std::array::from_fn(|i| a[i].max(b[i]))),
    row!(0x0d, "v_pk_min_u16", PU16 <- (a: PU16, b: PU16) std::array::from_fn(|i| a[i].min(b[i]))),
    row!(0x0e, "v_pk_fma_f16", PF16 <- (a: PF16, b: PF16, c: PF16) std::array::from_fn(|i| fma16(a[i], b[i], c[i]))),
    row!(0x0f, "v_pk_add_f16", PF16 <- (a: PF16, b: PF16) [a[0] + b[0], a[1] + b[1]]),
    row!(0x10, "v_pk_mul_f16", PF16 <- (a: PF16, b: PF16) [a[0] * b[0], a[1] * b[1]]),
    row!(0x11, "v_pk_min_f16", PF16 <- (a: PF16, b: PF16) [min32(a[0], b[0]), min32(a[1], b[1])]),
    row!(0x12, "v_pk_max_f16", PF16 <- (a: PF16, b: PF16) [max32(a[0], b[0]), max32(a[1], b[1])]),
    row!(0x1a, "v_dot2_f32_bf16", F32 <- (a: PBF16, b: PBF16, c: F32) a[0] * b[0] + a[1] * b[1] + c),
    special!(0x20, "v_fma_mix_f32", F32 <- (B32, B32, B32) Special::MadMix { half: None }),
    special!(0x21, "v_fma_mixlo_f16", HalfF16 <- (B32, B32, B32) Special::MadMix { half: Some(0) }),
    special!(0x22, "v_fma_mixhi_f16", HalfF16 <- (B32, B32, B32) Special::MadMix { half: Some(1) }),
    row!(0x23, "v_dot2_f32_f16", F32 <- (a: PF16, b: PF16, c: F32) a[0] * b[0] + a[1] * b[1] + c),
    row!(0x26, "v_dot2_i32_i16", I32 <- (a: PI16, b: PI16, c: I32) {
        c.wrapping_add(i32::from(a[0]) * i32::from(b[0])).wrapping_add(i32::from(a[1]) * i32::from(b[1]))
    }),
    row!(0x27, "v_dot2_u32_u16", U32 <- (a: PU16, b: PU16, c: U32) {
        c.wrapping_add(u32::from(a[0]) * u32::from(b[0])).wrapping_add(u32::from(a[1]) * u32::from(b[1]))
    }),
    row!(0x28, "v_dot4_i32_i8", I32 <- (a: U32, b: U32, c: I32) super::vop3::dot4_signed(a, b, c)),
    row!(0x29, "v_dot4_u32_u8", U32 <- (a: U32, b: U32, c: U32) {
        let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
        (0..4).fold(c, |sum, i| sum.wrapping_add(u32::from(a[i]) * u32::from(b[i])))
    }),
    wide!(0x30, "v_pk_fma_f32", PF32 <- (a: PF32, b: PF32, c: PF32) {
        [a[0].mul_add(b[0], c[0]), a[1].mul_add(b[1], c[1])]
    }),
    wide!(0x31, "v_pk_mul_f32", PF32 <- (a: PF32, b: PF32) [a[0] * b[0], a[1] * b[1]]),
    wide!(0x32, "v_pk_add_f32", PF32 <- (a: PF32, b: PF32) [a[0] + b[0], a[1] + b[1]]),
    special!(0x33, "v_pk_mov_b32", B64 <- (B64, B64) Special::PackedMove),
    row!(0x58, "v_accvgpr_read_b32", U32 <- (a: U32) a),
    row!(0x59, "v_accvgpr_write_b32", U32 <- (a: U32) a),
];
