//! VOP3: what exists only with three sources or with modifiers. VOP1, VOP2 and VOPC opcodes also appear here at offsets
//! 0x140, 0x100 and 0; the decoder takes those from their own tables.

use super::types::*;
use super::vop2::{ACCUMULATING, dot4, fma_row, fma16, i24, u24};
use super::{Run, Special};
use crate::exec::convert::{Convert, Scaled, Small, Wider};
use crate::exec::crosslane;
use crate::exec::float;

const fn scaled(small: Small, wide: Wider, count: u8, down: bool) -> Special {
    Special::Convert(Convert::Scaled(Scaled {
        small,
        wide,
        count,
        down,
        stochastic: false,
        interleaved: false,
    }))
}

const fn stochastic(small: Small, wide: Wider, count: u8) -> Special {
    Special::Convert(Convert::Scaled(Scaled {
        small,
        wide,
        count,
        down: true,
        stochastic: true,
        interleaved: false,
    }))
}

const fn interleaved(small: Small) -> Special {
    Special::Convert(Convert::Scaled(Scaled {
        small,
        wide: Wider::F32,
        count: 32,
        down: true,
        stochastic: false,
        interleaved: true,
    }))
}

/// Opcodes of VOP3 that only gfx950 has.
pub(crate) fn only_gfx950(opcode: u16) -> bool {
    matches!(opcode, 0x233..=0x26a | 0x2a6..=0x2a9)
}

/// Whether a VOP2 opcode in VOP3 form reads its destination.
pub(crate) fn accumulates(vop2: u16) -> bool {
    ACCUMULATING.contains(&vop2)
}

/// The rows, by opcode.
pub(crate) const VOP3: &[Row] = &[
    row!(0x1c2, "v_mad_i32_i24", I32 <- (a: I32, b: I32, c: I32) i24(a).wrapping_mul(i24(b)).wrapping_add(c)),
    row!(0x1c3, "v_mad_u32_u24", U32 <- (a: U32, b: U32, c: U32) u24(a).wrapping_mul(u24(b)).wrapping_add(c)),
    row!(0x1c8, "v_bfe_u32", U32 <- (a: U32, b: U32, c: U32) {
        let (offset, width) = (b & 31, c & 31);
        a >> offset & ((1u32 << width) - 1)
    }),
    row!(0x1c9, "v_bfe_i32", I32 <- (a: I32, b: U32, c: U32) {
        let (offset, width) = (b & 31, c & 31);
        if width == 0 { 0 } else { ((i64::from(a >> offset)) << (64 - width) >> (64 - width)) as i32 }
    }),
    row!(0x1ca, "v_bfi_b32", U32 <- (a: U32, b: U32, c: U32) a & b | !a & c),
    fma_row(0x1cb, "v_fma_f32"),
    wide!(0x1cc, "v_fma_f64", F64 <- (a: F64, b: F64, c: F64) a.mul_add(b, c)),
    row!(0x1cd, "v_lerp_u8", U32 <- (a: U32, b: U32, c: U32) {
        let byte = |s: u32| ((a >> s & 0xff) + (b >> s & 0xff) + (c >> s & 1)) >> 1;
        byte(0) | byte(8) << 8 | byte(16) << 16 | byte(24) << 24
    }),
    row!(0x1ce, "v_alignbit_b32", U32 <- (a: U32, b: U32, c: U32) {
        ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
    }),
    row!(0x1cf, "v_alignbyte_b32", U32 <- (a: U32, b: U32, c: U32) {
        ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
    }),
    row!(0x1d0, "v_min3_f32", F32 <- (a: F32, b: F32, c: F32) float::min32(float::min32(a, b), c)),
    row!(0x1d1, "v_min3_i32", I32 <- (a: I32, b: I32, c: I32) a.min(b).min(c)),
    row!(0x1d2, "v_min3_u32", U32 <- (a: U32, b: U32, c: U32) a.min(b).min(c)),
    row!(0x1d3, "v_max3_f32", F32 <- (a: F32, b: F32, c: F32) float::max32(float::max32(a, b), c)),
    row!(0x1d4, "v_max3_i32", I32 <- (a: I32, b: I32, c: I32) a.max(b).max(c)),
    row!(0x1d5, "v_max3_u32", U32 <- (a: U32, b: U32, c: U32) a.max(b).max(c)),
    row!(0x1d6, "v_med3_f32", F32 <- (a: F32, b: F32, c: F32) float::med3(a, b, c)),
    row!(0x1d7, "v_med3_i32", I32 <- (a: I32, b: I32, c: I32) a.min(b).max(a.max(b).min(c))),
    row!(0x1d8, "v_med3_u32", U32 <- (a: U32, b: U32, c: U32) a.min(b).max(a.max(b).min(c))),
    row!(0x1d9, "v_sad_u8", U32 <- (a: U32, b: U32, c: U32) sad8(a, b).wrapping_add(c)),
    row!(0x1da, "v_sad_hi_u8", U32 <- (a: U32, b: U32, c: U32) (sad8(a, b) << 16).wrapping_add(c)),
    row!(0x1db, "v_sad_u16", U32 <- (a: PU16, b: PU16, c: U32) {
        c.wrapping_add(u32::from(a[0].abs_diff(b[0]))).wrapping_add(u32::from(a[1].abs_diff(b[1])))
    }),
    row!(0x1dc, "v_sad_u32", U32 <- (a: U32, b: U32, c: U32) a.abs_diff(b).wrapping_add(c)),
    row!(0x1dd, "v_cvt_pk_u8_f32", U32 <- (a: F32, b: U32, c: U32) {
        let shift = 8 * (b & 3);
        c & !(0xff << shift) | u32::from(a as u8) << shift
    }),
    row!(0x1de, "v_div_fixup_f32", F32 <- (a: F32, b: F32, c: F32) {
        float::div_fixup(f64::from(a), f64::from(b), f64::from(c), float::FIXUP32) as f32
    }),
    wide!(0x1df, "v_div_fixup_f64", F64 <- (a: F64, b: F64, c: F64) float::div_fixup(a, b, c, float::FIXUP64)),
    special!(0x1e0, "v_div_scale_f32", F32 <- (F32, F32, F32) Special::DivScale32),
    special!(0x1e1, "v_div_scale_f64", F64 <- (F64, F64, F64) Special::DivScale64),
    special!(0x1e2, "v_div_fmas_f32", F32 <- (F32, F32, F32) Special::DivFmas32),
    special!(0x1e3, "v_div_fmas_f64", F64 <- (F64, F64, F64) Special::DivFmas64),
    special!(0x1e8, "v_mad_u64_u32", B64 <- (B32, B32, B64) Special::MadWide { signed: false }),
    special!(0x1e9, "v_mad_i64_i32", B64 <- (B32, B32, B64) Special::MadWide { signed: true }),
    row!(0x1eb, "v_mad_legacy_u16", U16 <- (a: U16, b: U16, c: U16) a.wrapping_mul(b).wrapping_add(c)),
    row!(0x1ec, "v_mad_legacy_i16", I16 <- (a: I16, b: I16, c: I16) a.wrapping_mul(b).wrapping_add(c)),
    row!(0x1ed, "v_perm_b32", U32 <- (a: U32, b: U32, c: U32) crosslane::permute_bytes(a, b, c)),
    row!(0x1f1, "v_mad_u32_u16", U32 <- (a: U16, b: U16, c: U32) (u32::from(a) * u32::from(b)).wrapping_add(c)),
    row!(0x1f2, "v_mad_i32_i16", I32 <- (a: I16, b: I16, c: I32) (i32::from(a) * i32::from(b)).wrapping_add(c)),
    row!(0x1f3, "v_xad_u32", U32 <- (a: U32, b: U32, c: U32) (a ^ b).wrapping_add(c)),
    row!(0x1f4, "v_min3_f16", HF16 <- (a: F16, b: F16, c: F16) float::min32(float::min32(a, b), c)),
    row!(0x1f5, "v_min3_i16", HI16 <- (a: I16, b: I16, c: I16) a.min(b).min(c)),
    row!(0x1f6, "v_min3_u16", HU16 <- (a: U16, b: U16, c: U16) a.min(b).min(c)),
    row!(0x1f7, "v_max3_f16", HF16 <- (a: F16, b: F16, c: F16) float::max32(float::max32(a, b), c)),
    row!(0x1f8, "v_max3_i16", HI16 <- (a: I16, b: I16, c: I16) a.max(b).max(c)),
    row!(0x1f9, "v_max3_u16", HU16 <- (a: U16, b: U16, c: U16) a.max(b).max(c)),
    row!(0x1fa, "v_med3_f16", HF16 <- (a: F16, b: F16, c: F16) float::med3(a, b, c)),
    row!(0x1fb, "v_med3_i16", HI16 <- (a: I16, b: I16, c: I16) a.min(b).max(a.max(b).min(c))),
    row!(0x1fc, "v_med3_u16", HU16 <- (a: U16, b: U16, c: U16) a.min(b).max(a.max(b).min(c))),
    row!(0x1fd, "v_lshl_add_u32", U32 <- (a: U32, b: U32, c: U32) (a << (b & 31)).wrapping_add(c)),
    row!(0x1fe, "v_add_lshl_u32", U32 <- (a: U32, b: U32, c: U32) a.wrapping_add(b) << (c & 31)),
    row!(0x1ff, "v_add3_u32", U32 <- (a: U32, b: U32, c: U32) a.wrapping_add(b).wrapping_add(c)),
    row!(0x200, "v_lshl_or_b32", U32 <- (a: U32, b: U32, c: U32) a << (b & 31) | c),
    row!(0x201, "v_and_or_b32", U32 <- (a: U32, b: U32, c: U32) a & b | c),
    row!(0x202, "v_or3_b32", U32 <- (a: U32, b: U32, c: U32) a | b | c),
    row!(0x204, "v_mad_u16", HU16 <- (a: U16, b: U16, c: U16) a.wrapping_mul(b).wrapping_add(c)),
    row!(0x205, "v_mad_i16", HI16 <- (a: I16, b: I16, c: I16) a.wrapping_mul(b).wrapping_add(c)),
    row!(0x206, "v_fma_f16", HF16 <- (a: F16, b: F16, c: F16) fma16(a, b, c)),
    row!(0x207, "v_div_fixup_f16", HF16 <- (a: F16, b: F16, c: F16) {
        float::div_fixup(f64::from(a), f64::from(b), f64::from(c), float::FIXUP16) as f32
    }),
    wide!(0x208, "v_lshl_add_u64", U64 <- (a: U64, b: U32, c: U64) (a << (b & 7)).wrapping_add(c)),
    special!(0x233, "v_bitop3_b16", Half <- (B16, B16, B16) Special::BitOp3 { half: true }),
    special!(0x234, "v_bitop3_b32", B32 <- (B32, B32, B32) Special::BitOp3 { half: false }),
    special!(0x235, "v_cvt_scalef32_pk_fp8_f32", B16 <- (F32, F32, F32) scaled(Small::Fp8, Wider::F32, 2, true)),
    special!(0x236, "v_cvt_scalef32_pk_bf8_f32", B16 <- (F32, F32, F32) scaled(Small::Bf8, Wider::F32, 2, true)),
    special!(0x237, "v_cvt_scalef32_sr_fp8_f32", B16 <- (F32, B32, F32) stochastic(Small::Fp8, Wider::F32, 1)),
    special!(0x238, "v_cvt_scalef32_sr_bf8_f32", B16 <- (F32, B32, F32) stochastic(Small::Bf8, Wider::F32, 1)),
    special!(0x239, "v_cvt_scalef32_pk_f32_fp8", B64 <- (B32, F32) scaled(Small::Fp8, Wider::F32, 2, false)),
    special!(0x23a, "v_cvt_scalef32_pk_f32_bf8", B64 <- (B32, F32) scaled(Small::Bf8, Wider::F32, 2, false)),
    special!(0x23b, "v_cvt_scalef32_f32_fp8", B32 <- (B32, F32) scaled(Small::Fp8, Wider::F32, 1, false)),
    special!(0x23c, "v_cvt_scalef32_f32_bf8", B32 <- (B32, F32) scaled(Small::Bf8, Wider::F32, 1, false)),
    special!(0x23d, "v_cvt_scalef32_pk_fp4_f32", B16 <- (F32, F32, F32) scaled(Small::Fp4, Wider::F32, 2, true)),
    special!(0x23e, "v_cvt_scalef32_sr_pk_fp4_f32", B16 <- (B64, B32, F32) stochastic(Small::Fp4, Wider::F32, 2)),
    special!(0x23f, "v_cvt_scalef32_pk_f32_fp4", B64 <- (B32, F32) scaled(Small::Fp4, Wider::F32, 2, false)),
    special!(0x240, "v_cvt_scalef32_pk_fp8_f16", B16 <- (B32, F32) scaled(Small::Fp8, Wider::F16, 2, true)),
    special!(0x241, "v_cvt_scalef32_pk_bf8_f16", B16 <- (B32, F32) scaled(Small::Bf8, Wider::F16, 2, true)),
    special!(0x242, "v_cvt_scalef32_sr_fp8_f16", B16 <- (B32, B32, F32) stochastic(Small::Fp8, Wider::F16, 1)),
    special!(0x243, "v_cvt_scalef32_sr_bf8_f16", B16 <- (B32, B32, F32) stochastic(Small::Bf8, Wider::F16, 1)),
    special!(0x244, "v_cvt_scalef32_pk_fp8_bf16", B16 <- (B32, F32) scaled(Small::Fp8, Wider::Bf16, 2, true)),
    special!(0x245, "v_cvt_scalef32_pk_bf8_bf16", B16 <- (B32, F32) scaled(Small::Bf8, Wider::Bf16, 2, true)),
    special!(0x246, "v_cvt_scalef32_sr_fp8_bf16", B16 <- (B32, B32, F32) stochastic(Small::Fp8, Wider::Bf16, 1)),
    special!(0x247, "v_cvt_scalef32_sr_bf8_bf16", B16 <- (B32, B32, F32) stochastic(Small::Bf8, Wider::Bf16, 1)),
    special!(0x248, "v_cvt_scalef32_pk_f16_fp8", B32 <- (B32, F32) scaled(Small::Fp8, Wider::F16, 2, false)),
    special!(0x249, "v_cvt_scalef32_pk_f16_bf8", B32 <- (B32, F32) scaled(Small::Bf8, Wider::F16, 2, false)),
    special!(0x24a, "v_cvt_scalef32_f16_fp8", B16 <- (B32, F32) scaled(Small::Fp8, Wider::F16, 1, false)),
    special!(0x24b, "v_cvt_scalef32_f16_bf8", B16 <- (B32, F32) scaled(Small::Bf8, Wider::F16, 1, false)),
    special!(0x24c, "v_cvt_scalef32_pk_fp4_f16", B16 <- (B32, F32) scaled(Small::Fp4, Wider::F16, 2, true)),
    special!(0x24d, "v_cvt_scalef32_pk_fp4_bf16", B16 <- (B32, F32) scaled(Small::Fp4, Wider::Bf16, 2, true)),
    special!(0x24e, "v_cvt_scalef32_sr_pk_fp4_f16", B16 <- (B32, B32, F32) stochastic(Small::Fp4, Wider::F16, 2)),
    special!(0x24f, "v_cvt_scalef32_sr_pk_fp4_bf16", B16 <- (B32, B32, F32) stochastic(Small::Fp4, Wider::Bf16, 2)),
    special!(0x250, "v_cvt_scalef32_pk_f16_fp4", B32 <- (B32, F32) scaled(Small::Fp4, Wider::F16, 2, false)),
    special!(0x251, "v_cvt_scalef32_pk_bf16_fp4", B32 <- (B32, F32) scaled(Small::Fp4, Wider::Bf16, 2, false)),
    special!(0x252, "v_cvt_scalef32_2xpk16_fp6_f32", B64 <- (B64, B64, F32) interleaved(Small::Fp6)),
    special!(0x253, "v_cvt_scalef32_2xpk16_bf6_f32", B64 <- (B64, B64, F32) interleaved(Small::Bf6)),
    special!(0x254, "v_cvt_scalef32_sr_pk32_fp6_f32", B64 <- (B64, B32, F32) stochastic(Small::Fp6, Wider::F32, 32)),
    special!(0x255, "v_cvt_scalef32_sr_pk32_bf6_f32", B64 <- (B64, B32, F32) stochastic(Small::Bf6, Wider::F32, 32)),
    special!(0x256, "v_cvt_scalef32_pk32_f32_fp6", B64 <- (B64, F32) scaled(Small::Fp6, Wider::F32, 32, false)),
    special!(0x257, "v_cvt_scalef32_pk32_f32_bf6", B64 <- (B64, F32) scaled(Small::Bf6, Wider::F32, 32, false)),
    special!(0x258, "v_cvt_scalef32_pk32_fp6_f16", B64 <- (B64, F32) scaled(Small::Fp6, Wider::F16, 32, true)),
    special!(0x259, "v_cvt_scalef32_pk32_fp6_bf16", B64 <- (B64, F32) scaled(Small::Fp6, Wider::Bf16, 32, true)),
    special!(0x25a, "v_cvt_scalef32_pk32_bf6_f16", B64 <- (B64, F32) scaled(Small::Bf6, Wider::F16, 32, true)),
    special!(0x25b, "v_cvt_scalef32_pk32_bf6_bf16", B64 <- (B64, F32) scaled(Small::Bf6, Wider::Bf16, 32, true)),
    special!(0x25c, "v_cvt_scalef32_sr_pk32_fp6_f16", B64 <- (B64, B32, F32) stochastic(Small::Fp6, Wider::F16, 32)),
    special!(0x25d, "v_cvt_scalef32_sr_pk32_fp6_bf16", B64 <- (B64, B32, F32) stochastic(Small::Fp6, Wider::Bf16, 32)),
    special!(0x25e, "v_cvt_scalef32_sr_pk32_bf6_f16", B64 <- (B64, B32, F32) stochastic(Small::Bf6, Wider::F16, 32)),
    special!(0x25f, "v_cvt_scalef32_sr_pk32_bf6_bf16", B64 <- (B64, B32, F32) stochastic(Small::Bf6, Wider::Bf16, 32)),
    special!(0x260, "v_cvt_scalef32_pk32_f16_fp6", B64 <- (B64, F32) scaled(Small::Fp6, Wider::F16, 32, false)),
    special!(0x261, "v_cvt_scalef32_pk32_bf16_fp6", B64 <- (B64, F32) scaled(Small::Fp6, Wider::Bf16, 32, false)),
    special!(0x262, "v_cvt_scalef32_pk32_f16_bf6", B64 <- (B64, F32) scaled(Small::Bf6, Wider::F16, 32, false)),
    special!(0x263, "v_cvt_scalef32_pk32_bf16_bf6", B64 <- (B64, F32) scaled(Small::Bf6, Wider::Bf16, 32, false)),
    row!(0x265, "v_ashr_pk_i8_i32", Bits16 <- (a: I32, b: I32, c: U32) {
        let byte = |x: i32| (x >> (c & 31)).clamp(-128, 127) as u32 & 0xff;
        byte(a) | byte(b) << 8
    }),
    row!(0x266, "v_ashr_pk_u8_i32", Bits16 <- (a: I32, b: I32, c: U32) {
        let byte = |x: i32| (x >> (c & 31)).clamp(0, 255) as u32;
        byte(a) | byte(b) << 8
    }),
    row!(0x267, "v_cvt_pk_f16_f32", PF16 <- (a: F32, b: F32) [a, b]),
    row!(0x268, "v_cvt_pk_bf16_f32", PBF16 <- (a: F32, b: F32) [a, b]),
    special!(0x269, "v_cvt_scalef32_pk_bf16_fp8", B32 <- (B32, F32) scaled(Small::Fp8, Wider::Bf16, 2, false)),
    special!(0x26a, "v_cvt_scalef32_pk_bf16_bf8", B32 <- (B32, F32) scaled(Small::Bf8, Wider::Bf16, 2, false)),
    wide!(0x280, "v_add_f64", F64 <- (a: F64, b: F64) a + b),
    wide!(0x281, "v_mul_f64", F64 <- (a: F64, b: F64) a * b),
    wide!(0x282, "v_min_f64", F64 <- (a: F64, b: F64) float::min64(a, b)),
    wide!(0x283, "v_max_f64", F64 <- (a: F64, b: F64) float::max64(a, b)),
    wide!(0x284, "v_ldexp_f64", F64 <- (a: F64, b: I32) float::ldexp64(a, b)),
    row!(0x285, "v_mul_lo_u32", U32 <- (a: U32, b: U32) a.wrapping_mul(b)),
    row!(0x286, "v_mul_hi_u32", U32 <- (a: U32, b: U32) ((u64::from(a) * u64::from(b)) >> 32) as u32),
    row!(0x287, "v_mul_hi_i32", I32 <- (a: I32, b: I32) ((i64::from(a) * i64::from(b)) >> 32) as i32),
    row!(0x288, "v_ldexp_f32", F32 <- (a: F32, b: I32) float::ldexp32(a, b)),
    special!(0x289, "v_readlane_b32", Mask <- (B32, B32) Special::ReadLane),
    special!(0x28a, "v_writelane_b32", B32 <- (B32, B32) Special::WriteLane),
    row!(0x28b, "v_bcnt_u32_b32", U32 <- (a: U32, b: U32) a.count_ones().wrapping_add(b)),
    Row {
        opcode: 0x28c,
        name: "v_mbcnt_lo_u32_b32",
        ty: Signature::new(T::B32, [T::B32, T::B32, T::None]),
        run: Run::A2(crosslane::count_below_low),
    },
    Row {
        opcode: 0x28d,
        name: "v_mbcnt_hi_u32_b32",
        ty: Signature::new(T::B32, [T::B32, T::B32, T::None]),
        run: Run::A2(crosslane::count_below_high),
    },
    wide!(0x28f, "v_lshlrev_b64", U64 <- (a: U32, b: U64) b << (a & 63)),
    wide!(0x290, "v_lshrrev_b64", U64 <- (a: U32, b: U64) b >> (a & 63)),
    wide!(0x291, "v_ashrrev_i64", I64 <- (a: U32, b: I64) b >> (a & 63)),
    row!(0x293, "v_bfm_b32", U32 <- (a: U32, b: U32) ((1u32 << (a & 31)) - 1) << (b & 31)),
    row!(0x296, "v_cvt_pkrtz_f16_f32", U32 <- (a: F32, b: F32) truncate_f16(a) | truncate_f16(b) << 16),
    row!(0x297, "v_cvt_pk_u16_u32", PU16 <- (a: U32, b: U32) [a.min(0xffff) as u16, b.min(0xffff) as u16]),
    row!(0x298, "v_cvt_pk_i16_i32", PI16 <- (a: I32, b: I32) {
        [a.clamp(-0x8000, 0x7fff) as i16, b.clamp(-0x8000, 0x7fff) as i16]
    }),
    row!(0x29c, "v_add_i32", I32 <- (a: I32, b: I32) a.wrapping_add(b)),
    row!(0x29d, "v_sub_i32", I32 <- (a: I32, b: I32) a.wrapping_sub(b)),
    row!(0x29e, "v_add_i16", HI16 <- (a: I16, b: I16) a.wrapping_add(b)),
    row!(0x29f, "v_sub_i16", HI16 <- (a: I16, b: I16) a.wrapping_sub(b)),
    row!(0x2a0, "v_pack_b32_f16", PU16 <- (a: U16, b: U16) [a, b]),
    special!(0x2a2, "v_cvt_pk_fp8_f32", B16 <- (F32, F32) Special::Convert(Convert::PackF8 { bf8: false })),
    special!(0x2a3, "v_cvt_pk_bf8_f32", B16 <- (F32, F32) Special::Convert(Convert::PackF8 { bf8: true })),
    special!(0x2a4, "v_cvt_sr_fp8_f32", B16 <- (F32, B32) Special::Convert(Convert::StochasticF8 { bf8: false })),
    special!(0x2a5, "v_cvt_sr_bf8_f32", B16 <- (F32, B32) Special::Convert(Convert::StochasticF8 { bf8: true })),
    special!(0x2a6, "v_cvt_sr_f16_f32", B16 <- (F32, B32) Special::Convert(Convert::StochasticHalf { bf16: false })),
    special!(0x2a7, "v_cvt_sr_bf16_f32", B16 <- (F32, B32) Special::Convert(Convert::StochasticHalf { bf16: true })),
    row!(0x2a8, "v_minimum3_f32", F32 <- (a: F32, b: F32, c: F32) minimum(minimum(a, b), c)),
    row!(0x2a9, "v_maximum3_f32", F32 <- (a: F32, b: F32, c: F32) -minimum(minimum(-a, -b), -c)),
];

/// Sum of the absolute differences of four bytes.
fn sad8(a: u32, b: u32) -> u32 {
    a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(x, y)| u32::from(x.abs_diff(y))).sum()
}

/// IEEE 754-2019 minimum: NaN wins.
fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { float::min32(a, b) }
}

/// f32 to half, towards zero.
fn truncate_f16(x: f32) -> u32 {
    let nearest = crate::small_float::to_f16(x);
    let back = crate::small_float::from_f16(nearest);
    if x.is_finite() && back.abs() > x.abs() { nearest - 1 } else { nearest }
}

/// `v_dot4_i32_i8` for VOP3P.
pub(crate) fn dot4_signed(a: u32, b: u32, c: i32) -> i32 {
    dot4(a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_towards_zero_never_grows() {
        assert_eq!(truncate_f16(1.0 + 2f32.powi(-11) + 2f32.powi(-12)), 0x3c00);
        assert_eq!(truncate_f16(-65535.0), 0xfbff);
        assert_eq!(truncate_f16(f32::INFINITY), 0x7c00);
        assert_eq!(truncate_f16(1e-8), 0);
    }

    #[test]
    fn tables_are_in_order_and_without_duplicates() {
        for table in [super::super::vop1::VOP1, super::super::vop2::VOP2, VOP3, super::super::vop3p::VOP3P] {
            assert!(table.windows(2).all(|w| w[0].opcode < w[1].opcode));
        }
    }
}
