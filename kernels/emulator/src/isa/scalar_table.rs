//! The scalar instructions: SOP1, SOP2, SOPC, SOPK, SOPP.

use super::Src;

/// Result and new SCC (`None`: unchanged) from two operands and the old SCC. 32-bit operands come zero-extended.
pub(crate) type Two = fn(u64, u64, bool) -> (u64, Option<bool>);
/// As [`Two`], from one operand.
pub(crate) type One = fn(u64) -> (u64, Option<bool>);

/// A scalar instruction with its operands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScalarOp {
    /// `wide`: whether destination, a and b have 64 bits.
    Two {
        run: Two,
        wide: [bool; 3],
        dst: u8,
        a: Src,
        b: Src,
    },
    /// `wide`: destination and a.
    One {
        run: One,
        wide: [bool; 2],
        dst: u8,
        a: Src,
    },
    /// Writes SCC only.
    Compare {
        run: fn(u64, u64) -> bool,
        wide: [bool; 2],
        a: Src,
        b: Src,
    },
    /// Moves if SCC is set.
    Cmov {
        wide: bool,
        dst: u8,
        a: Src,
    },
    /// dst = EXEC; EXEC = run(source, EXEC). With `write_result` dst gets the new EXEC.
    Exec {
        run: fn(u64, u64) -> u64,
        dst: u8,
        a: Src,
        write_result: bool,
    },
    /// Sets one bit of the destination.
    BitSet {
        wide: bool,
        value: bool,
        dst: u8,
        a: Src,
    },
    GetPc {
        dst: u8,
    },
    SetPc {
        a: Src,
    },
    SwapPc {
        dst: u8,
        a: Src,
    },
    /// Byte offset of the target in the text section.
    Branch {
        when: Condition,
        target: i64,
    },
    Call {
        dst: u8,
        target: i64,
    },
    EndProgram,
    Barrier,
    /// Only vector memory is ever outstanding here, so the other counters do not matter.
    WaitCount {
        vm: u8,
    },
    /// Gives the other waves a turn.
    Sleep,
    Nop,
    GetReg {
        id: u8,
        offset: u8,
        size: u8,
        dst: u8,
    },
    SetReg {
        id: u8,
        offset: u8,
        size: u8,
        value: Src,
    },
    Trap {
        id: u8,
    },
    /// Vector registers of the operands in `mode` (bits: src0, src1, src2, dst) are counted from M0's low byte on.
    IndexOn {
        a: Src,
        mode: u8,
    },
    IndexOff,
}

impl ScalarOp {
    /// The scalar register written, for traces.
    pub(crate) fn destination(&self) -> Option<u8> {
        match *self {
            Self::Two { dst, .. }
            | Self::One { dst, .. }
            | Self::Cmov { dst, .. }
            | Self::Exec { dst, .. }
            | Self::BitSet { dst, .. }
            | Self::GetPc { dst }
            | Self::SwapPc { dst, .. }
            | Self::Call { dst, .. }
            | Self::GetReg { dst, .. } => Some(dst),
            _ => None,
        }
    }
}

/// When a branch is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    Scc(bool),
    VccZero(bool),
    ExecZero(bool),
}

/// A row of SOP2: opcode, mnemonic, operand widths (destination and a; b), meaning.
pub(crate) struct Row2 {
    pub(crate) opcode: u16,
    pub(crate) name: &'static str,
    pub(crate) wide: bool,
    pub(crate) wide_b: bool,
    pub(crate) run: Two,
}

/// A row of SOP1.
pub(crate) struct Row1 {
    pub(crate) opcode: u16,
    pub(crate) name: &'static str,
    /// Width of the source and of the destination.
    pub(crate) wide: (bool, bool),
    pub(crate) run: One,
}

const fn r2(opcode: u16, name: &'static str, wide: bool, wide_b: bool, run: Two) -> Row2 {
    Row2 { opcode, name, wide, wide_b, run }
}

const fn r1(opcode: u16, name: &'static str, wide_src: bool, wide_dst: bool, run: One) -> Row1 {
    Row1 { opcode, name, wide: (wide_src, wide_dst), run }
}

/// A 32-bit logical result and SCC = nonzero.
fn nz32(x: u64) -> (u64, Option<bool>) {
    let x = x & 0xffff_ffff;
    (x, Some(x != 0))
}

fn nz64(x: u64) -> (u64, Option<bool>) {
    (x, Some(x != 0))
}

fn s(x: u64) -> i32 {
    x as i32
}

fn u(x: u64) -> u32 {
    x as u32
}

/// 32-bit signed result, SCC = overflow.
fn signed(x: (i32, bool)) -> (u64, Option<bool>) {
    (u64::from(x.0 as u32), Some(x.1))
}

fn pick(a: u64, b: u64, first: bool) -> (u64, Option<bool>) {
    (if first { a } else { b }, Some(first))
}

fn shift_add(a: u64, b: u64, n: u32) -> (u64, Option<bool>) {
    let sum = (a << n) + b;
    (sum & 0xffff_ffff, Some(sum >> 32 != 0))
}

fn bfe(a: u64, b: u64, bits: u32, sign: bool) -> (u64, Option<bool>) {
    let (offset, width) = (b as u32 & (bits - 1), (b >> 16) as u32 & 0x7f);
    let width = width.min(bits);
    if width == 0 {
        return (0, Some(false));
    }
    let value = if sign {
        let a = if bits == 32 { i64::from(a as i32) } else { a as i64 };
        ((a >> offset) << (64 - width) >> (64 - width)) as u64
    } else {
        a >> offset & (u64::MAX >> (64 - width))
    };
    let value = if bits == 32 { value & 0xffff_ffff } else { value };
    (value, Some(value != 0))
}

/// SOP2, by opcode.
pub(crate) const SOP2: &[Row2] = &[
    r2(0x00, "s_add_u32", false, false, |a, b, _| (u64::from(u(a + b)), Some((a + b) >> 32 != 0))),
    r2(0x01, "s_sub_u32", false, false, |a, b, _| (u64::from(u(a.wrapping_sub(b))), Some(b > a))),
    r2(0x02, "s_add_i32", false, false, |a, b, _| signed(s(a).overflowing_add(s(b)))),
    r2(0x03, "s_sub_i32", false, false, |a, b, _| signed(s(a).overflowing_sub(s(b)))),
    r2(0x04, "s_addc_u32", false, false, |a, b, c| {
        let sum = a + b + u64::from(c);
        (u64::from(u(sum)), Some(sum >> 32 != 0))
    }),
    r2(0x05, "s_subb_u32", false, false, |a, b, c| {
        let b = b + u64::from(c);
        (u64::from(u(a.wrapping_sub(b))), Some(b > a))
    }),
    r2(0x06, "s_min_i32", false, false, |a, b, _| pick(a, b, s(a) < s(b))),
    r2(0x07, "s_min_u32", false, false, |a, b, _| pick(a, b, a < b)),
    r2(0x08, "s_max_i32", false, false, |a, b, _| pick(a, b, s(a) > s(b))),
    r2(0x09, "s_max_u32", false, false, |a, b, _| pick(a, b, a > b)),
    r2(0x0a, "s_cselect_b32", false, false, |a, b, c| (if c { a } else { b }, None)),
    r2(0x0b, "s_cselect_b64", true, true, |a, b, c| (if c { a } else { b }, None)),
    r2(0x0c, "s_and_b32", false, false, |a, b, _| nz32(a & b)),
    r2(0x0d, "s_and_b64", true, true, |a, b, _| nz64(a & b)),
    r2(0x0e, "s_or_b32", false, false, |a, b, _| nz32(a | b)),
    r2(0x0f, "s_or_b64", true, true, |a, b, _| nz64(a | b)),
    r2(0x10, "s_xor_b32", false, false, |a, b, _| nz32(a ^ b)),
    r2(0x11, "s_xor_b64", true, true, |a, b, _| nz64(a ^ b)),
    r2(0x12, "s_andn2_b32", false, false, |a, b, _| nz32(a & !b)),
    r2(0x13, "s_andn2_b64", true, true, |a, b, _| nz64(a & !b)),
    r2(0x14, "s_orn2_b32", false, false, |a, b, _| nz32(a | !b)),
    r2(0x15, "s_orn2_b64", true, true, |a, b, _| nz64(a | !b)),
    r2(0x16, "s_nand_b32", false, false, |a, b, _| nz32(!(a & b))),
    r2(0x17, "s_nand_b64", true, true, |a, b, _| nz64(!(a & b))),
    r2(0x18, "s_nor_b32", false, false, |a, b, _| nz32(!(a | b))),
    r2(0x19, "s_nor_b64", true, true, |a, b, _| nz64(!(a | b))),
    r2(0x1a, "s_xnor_b32", false, false, |a, b, _| nz32(!(a ^ b))),
    r2(0x1b, "s_xnor_b64", true, true, |a, b, _| nz64(!(a ^ b))),
    r2(0x1c, "s_lshl_b32", false, false, |a, b, _| nz32(a << (b & 31))),
    r2(0x1d, "s_lshl_b64", true, false, |a, b, _| nz64(a << (b & 63))),
    r2(0x1e, "s_lshr_b32", false, false, |a, b, _| nz32(a >> (b & 31))),
    r2(0x1f, "s_lshr_b64", true, false, |a, b, _| nz64(a >> (b & 63))),
    r2(0x20, "s_ashr_i32", false, false, |a, b, _| nz32((s(a) >> (b & 31)) as u64)),
    r2(0x21, "s_ashr_i64", true, false, |a, b, _| nz64((a as i64 >> (b & 63)) as u64)),
    r2(0x22, "s_bfm_b32", false, false, |a, b, _| (((1u64 << (a & 31)) - 1) << (b & 31) & 0xffff_ffff, None)),
    r2(0x23, "s_bfm_b64", true, false, |a, b, _| (((1u64 << (a & 63)) - 1) << (b & 63), None)),
    r2(0x24, "s_mul_i32", false, false, |a, b, _| (u64::from(u(a).wrapping_mul(u(b))), None)),
    r2(0x25, "s_bfe_u32", false, false, |a, b, _| bfe(a, b, 32, false)),
    r2(0x26, "s_bfe_i32", false, false, |a, b, _| bfe(a, b, 32, true)),
    r2(0x27, "s_bfe_u64", true, false, |a, b, _| bfe(a, b, 64, false)),
    r2(0x28, "s_bfe_i64", true, false, |a, b, _| bfe(a, b, 64, true)),
    r2(0x2a, "s_absdiff_i32", false, false, |a, b, _| {
        nz32(u64::from(s(a).wrapping_sub(s(b)).unsigned_abs()))
    }),
    r2(0x2c, "s_mul_hi_u32", false, false, |a, b, _| ((a * b) >> 32, None)),
    r2(0x2d, "s_mul_hi_i32", false, false, |a, b, _| {
        (u64::from(((i64::from(s(a)) * i64::from(s(b))) >> 32) as u32), None)
    }),
    r2(0x2e, "s_lshl1_add_u32", false, false, |a, b, _| shift_add(a, b, 1)),
    r2(0x2f, "s_lshl2_add_u32", false, false, |a, b, _| shift_add(a, b, 2)),
    r2(0x30, "s_lshl3_add_u32", false, false, |a, b, _| shift_add(a, b, 3)),
    r2(0x31, "s_lshl4_add_u32", false, false, |a, b, _| shift_add(a, b, 4)),
    r2(0x32, "s_pack_ll_b32_b16", false, false, |a, b, _| (a & 0xffff | (b & 0xffff) << 16, None)),
    r2(0x33, "s_pack_lh_b32_b16", false, false, |a, b, _| (a & 0xffff | b & 0xffff_0000, None)),
    r2(0x34, "s_pack_hh_b32_b16", false, false, |a, b, _| (a >> 16 & 0xffff | b & 0xffff_0000, None)),
];

fn count_leading_sign(x: i64, bits: u32) -> u64 {
    let x = if x < 0 { !x } else { x };
    if x == 0 { 0xffff_ffff } else { u64::from(x.leading_zeros() - (64 - bits)) }
}

fn first(x: u64, position: impl Fn(u64) -> u32) -> u64 {
    if x == 0 { 0xffff_ffff } else { u64::from(position(x)) }
}

/// SOP1 without the program counter, EXEC and conditional moves, by opcode.
pub(crate) const SOP1: &[Row1] = &[
    r1(0x00, "s_mov_b32", false, false, |a| (a, None)),
    r1(0x01, "s_mov_b64", true, true, |a| (a, None)),
    r1(0x04, "s_not_b32", false, false, |a| nz32(!a)),
    r1(0x05, "s_not_b64", true, true, |a| nz64(!a)),
    r1(0x08, "s_brev_b32", false, false, |a| (u64::from(u(a).reverse_bits()), None)),
    r1(0x09, "s_brev_b64", true, true, |a| (a.reverse_bits(), None)),
    r1(0x0a, "s_bcnt0_i32_b32", false, false, |a| nz32(u64::from(u(a).count_zeros()))),
    r1(0x0b, "s_bcnt0_i32_b64", true, false, |a| nz32(u64::from(a.count_zeros()))),
    r1(0x0c, "s_bcnt1_i32_b32", false, false, |a| nz32(u64::from(u(a).count_ones()))),
    r1(0x0d, "s_bcnt1_i32_b64", true, false, |a| nz32(u64::from(a.count_ones()))),
    r1(0x0e, "s_ff0_i32_b32", false, false, |a| (first(u64::from(!u(a)), u64::trailing_zeros), None)),
    r1(0x0f, "s_ff0_i32_b64", true, false, |a| (first(!a, u64::trailing_zeros), None)),
    r1(0x10, "s_ff1_i32_b32", false, false, |a| (first(a, u64::trailing_zeros), None)),
    r1(0x11, "s_ff1_i32_b64", true, false, |a| (first(a, u64::trailing_zeros), None)),
    r1(0x12, "s_flbit_i32_b32", false, false, |a| (first(a, |x| u(x).leading_zeros()), None)),
    r1(0x13, "s_flbit_i32_b64", true, false, |a| (first(a, u64::leading_zeros), None)),
    r1(0x14, "s_flbit_i32", false, false, |a| (count_leading_sign(i64::from(s(a)), 32), None)),
    r1(0x15, "s_flbit_i32_i64", true, false, |a| (count_leading_sign(a as i64, 64), None)),
    r1(0x16, "s_sext_i32_i8", false, false, |a| (u64::from(i32::from(a as i8) as u32), None)),
    r1(0x17, "s_sext_i32_i16", false, false, |a| (u64::from(i32::from(a as i16) as u32), None)),
    r1(0x30, "s_abs_i32", false, false, |a| nz32(u64::from(s(a).unsigned_abs()))),
    r1(0x37, "s_bitreplicate_b64_b32", false, true, |a| {
        ((0..32).fold(0, |x, i| x | ((a >> i & 1) * 3) << (2 * i)), None)
    }),
];

/// A row of [`EXEC_OPS`].
pub(crate) type ExecRow = (u16, &'static str, fn(u64, u64) -> u64, bool);

/// EXEC from the source and the old EXEC, by SOP1 opcode; true if the destination gets the result.
pub(crate) const EXEC_OPS: &[ExecRow] = &[
    (0x20, "s_and_saveexec_b64", |a, e| a & e, false),
    (0x21, "s_or_saveexec_b64", |a, e| a | e, false),
    (0x22, "s_xor_saveexec_b64", |a, e| a ^ e, false),
    (0x23, "s_andn2_saveexec_b64", |a, e| a & !e, false),
    (0x24, "s_orn2_saveexec_b64", |a, e| a | !e, false),
    (0x25, "s_nand_saveexec_b64", |a, e| !(a & e), false),
    (0x26, "s_nor_saveexec_b64", |a, e| !(a | e), false),
    (0x27, "s_xnor_saveexec_b64", |a, e| !(a ^ e), false),
    (0x33, "s_andn1_saveexec_b64", |a, e| !a & e, false),
    (0x34, "s_orn1_saveexec_b64", |a, e| !a | e, false),
    (0x35, "s_andn1_wrexec_b64", |a, e| !a & e, true),
    (0x36, "s_andn2_wrexec_b64", |a, e| a & !e, true),
];

/// A row of SOPC: opcode, mnemonic, whether a and b have 64 bits, meaning.
pub(crate) type CompareRow = (u16, &'static str, [bool; 2], fn(u64, u64) -> bool);

/// SOPC, by opcode. SOPK's comparisons are rows 0 to 11 with a constant.
pub(crate) const SOPC: &[CompareRow] = &[
    (0x00, "s_cmp_eq_i32", [false; 2], |a, b| a == b),
    (0x01, "s_cmp_lg_i32", [false; 2], |a, b| a != b),
    (0x02, "s_cmp_gt_i32", [false; 2], |a, b| s(a) > s(b)),
    (0x03, "s_cmp_ge_i32", [false; 2], |a, b| s(a) >= s(b)),
    (0x04, "s_cmp_lt_i32", [false; 2], |a, b| s(a) < s(b)),
    (0x05, "s_cmp_le_i32", [false; 2], |a, b| s(a) <= s(b)),
    (0x06, "s_cmp_eq_u32", [false; 2], |a, b| a == b),
    (0x07, "s_cmp_lg_u32", [false; 2], |a, b| a != b),
    (0x08, "s_cmp_gt_u32", [false; 2], |a, b| a > b),
    (0x09, "s_cmp_ge_u32", [false; 2], |a, b| a >= b),
    (0x0a, "s_cmp_lt_u32", [false; 2], |a, b| a < b),
    (0x0b, "s_cmp_le_u32", [false; 2], |a, b| a <= b),
    (0x0c, "s_bitcmp0_b32", [false; 2], |a, b| a >> (b & 31) & 1 == 0),
    (0x0d, "s_bitcmp1_b32", [false; 2], |a, b| a >> (b & 31) & 1 == 1),
    (0x0e, "s_bitcmp0_b64", [true, false], |a, b| a >> (b & 63) & 1 == 0),
    (0x0f, "s_bitcmp1_b64", [true, false], |a, b| a >> (b & 63) & 1 == 1),
    (0x12, "s_cmp_eq_u64", [true; 2], |a, b| a == b),
    (0x13, "s_cmp_lg_u64", [true; 2], |a, b| a != b),
];

/// Mnemonics of SOPK's comparisons, by opcode less 2.
pub(crate) const SOPK_COMPARE: [&str; 12] = [
    "s_cmpk_eq_i32",
    "s_cmpk_lg_i32",
    "s_cmpk_gt_i32",
    "s_cmpk_ge_i32",
    "s_cmpk_lt_i32",
    "s_cmpk_le_i32",
    "s_cmpk_eq_u32",
    "s_cmpk_lg_u32",
    "s_cmpk_gt_u32",
    "s_cmpk_ge_u32",
    "s_cmpk_lt_u32",
    "s_cmpk_le_u32",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn two(name: &str, a: u64, b: u64, scc: bool) -> (u64, Option<bool>) {
        (SOP2.iter().find(|r| r.name == name).expect(name).run)(a, b, scc)
    }

    fn one(name: &str, a: u64) -> (u64, Option<bool>) {
        (SOP1.iter().find(|r| r.name == name).expect(name).run)(a)
    }

    #[test]
    fn carries_and_overflows_reach_scc() {
        assert_eq!(two("s_add_u32", 0xffff_ffff, 1, false), (0, Some(true)));
        assert_eq!(two("s_addc_u32", 0xffff_ffff, 0, true), (0, Some(true)));
        assert_eq!(two("s_sub_u32", 1, 2, false), (0xffff_ffff, Some(true)));
        assert_eq!(two("s_subb_u32", 5, 5, true), (0xffff_ffff, Some(true)));
        assert_eq!(two("s_add_i32", 0x7fff_ffff, 1, false), (0x8000_0000, Some(true)));
        assert_eq!(two("s_sub_i32", 3, 5, false), (0xffff_fffe, Some(false)));
        assert_eq!(two("s_lshl3_add_u32", 0x2000_0000, 5, false), (5, Some(true)));
    }

    #[test]
    fn fields_are_extracted_with_and_without_sign() {
        assert_eq!(two("s_bfe_u32", 0xabcd_1234, 8 | 8 << 16, false), (0x12, Some(true)));
        assert_eq!(two("s_bfe_i32", 0x0000_f000, 12 | 4 << 16, false), (0xffff_ffff, Some(true)));
        assert_eq!(two("s_bfe_u64", 0xff00_0000_0000_0000, 56 | 8 << 16, false), (0xff, Some(true)));
        assert_eq!(two("s_bfm_b32", 4, 8, false), (0xf00, None));
        assert_eq!(two("s_ashr_i32", 0x8000_0000, 4, false), (0xf800_0000, Some(true)));
        assert_eq!(two("s_mul_hi_i32", 0xffff_ffff, 2, false), (0xffff_ffff, None));
    }

    #[test]
    fn bit_searches_say_minus_one_when_nothing_is_found() {
        assert_eq!(one("s_ff1_i32_b32", 0), (0xffff_ffff, None));
        assert_eq!(one("s_ff0_i32_b32", 0xffff_ffff), (0xffff_ffff, None));
        assert_eq!(one("s_ff1_i32_b64", 1 << 40), (40, None));
        assert_eq!(one("s_flbit_i32_b32", 1), (31, None));
        assert_eq!(one("s_flbit_i32", 0xffff_fff0), (28, None));
        assert_eq!(one("s_abs_i32", 0x8000_0000), (0x8000_0000, Some(true)));
        assert_eq!(one("s_bitreplicate_b64_b32", 0x8000_0001), (0xc000_0000_0000_0003, None));
    }
}
