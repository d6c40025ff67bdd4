//! Source operands, modifiers, SDWA and DPP fields.

use super::types::T;

/// A source operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Src {
    /// VGPR 0..256, AGPR 256..512.
    Vgpr(u16),
    /// SGPR, VCC, M0, EXEC and the trap registers by their numbers.
    Sgpr(u8),
    /// A constant, encoded for the operand's type.
    Const(u64),
    Vccz,
    Execz,
    Scc,
}

/// Modifiers of VOP3 and VOP3P (and the float modifiers of SDWA and DPP), one bit an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mods {
    pub(crate) neg: u8,
    pub(crate) abs: u8,
    /// Bit 3 is the destination's half in VOP3.
    pub(crate) op_sel: u8,
    pub(crate) op_sel_hi: u8,
    pub(crate) neg_hi: u8,
    pub(crate) clamp: bool,
    /// 1: × 2, 2: × 4, 3: ÷ 2.
    pub(crate) omod: u8,
}

/// Sub-dword addressing: which byte or word of each operand is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sdwa {
    /// 0..=3 byte, 4..=5 word, 6 dword.
    pub(crate) dst_sel: u8,
    /// 0 pad with zeros, 1 sign-extend, 2 preserve.
    pub(crate) dst_unused: u8,
    pub(crate) src_sel: [u8; 2],
    pub(crate) sext: [bool; 2],
}

/// Data-parallel primitives: which lane's src0 is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dpp {
    pub(crate) control: u16,
    pub(crate) bound_control: bool,
    pub(crate) bank_mask: u8,
    pub(crate) row_mask: u8,
}

/// High words of the 64-bit addresses at which LDS and scratch appear to flat instructions.
pub(crate) const SHARED_APERTURE: u32 = 0x0100_0000;
/// See [`SHARED_APERTURE`].
pub(crate) const PRIVATE_APERTURE: u32 = 0x0200_0000;

pub(crate) const VCC: u8 = 106;
pub(crate) const M0: u8 = 124;
pub(crate) const EXEC: u8 = 126;
/// The code that says a literal follows.
pub(crate) const LITERAL: u32 = 255;

/// Decodes a 9-bit source field for an operand of type `ty`; `literal` is the word that follows.
pub(crate) fn source(code: u32, ty: T, literal: Option<u32>) -> Result<Src, String> {
    Ok(match code {
        0..=101 | 106..=124 | 126 | 127 => Src::Sgpr(code as u8),
        128..=192 => Src::Const(u64::from(code - 128)),
        193..=208 => Src::Const(-i64::from(code - 192) as u64),
        235 | 236 => aperture(SHARED_APERTURE, code == 236, ty),
        237 | 238 => aperture(PRIVATE_APERTURE, code == 238, ty),
        240..=248 => Src::Const(inline_float(code, ty)),
        251 => Src::Vccz,
        252 => Src::Execz,
        253 => Src::Scc,
        LITERAL => {
            let word = literal.ok_or("a literal where the encoding has none")?;
            Src::Const(if ty == T::F64 { u64::from(word) << 32 } else { u64::from(word) })
        }
        256..=511 => Src::Vgpr((code - 256) as u16),
        _ => return Err(format!("source operand code {code} is not modelled")),
    })
}

fn aperture(high: u32, limit: bool, ty: T) -> Src {
    let base = u64::from(high) << 32 | if limit { 0xffff_ffff } else { 0 };
    Src::Const(if ty.is_wide() { base } else { base >> 32 })
}

/// ±0.5, ±1, ±2, ±4 and 1/2π in the operand's own format.
fn inline_float(code: u32, ty: T) -> u64 {
    let value = match code {
        248 => 0.159_154_943_091_895_32,
        _ => [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0][(code - 240) as usize],
    };
    match ty {
        T::F64 => f64::to_bits(value),
        T::B64 => f64::to_bits(value),
        T::F16 | T::B16 | T::Half | T::HalfF16 | T::PkF16 | T::PkB16 => {
            u64::from(crate::small_float::F16.encode(value, false))
        }
        T::PkBf16 => u64::from(crate::small_float::BF16.encode(value, false)),
        T::PkF32 => u64::from((value as f32).to_bits()) * 0x1_0000_0001,
        _ => u64::from((value as f32).to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_constants_are_encoded_for_the_operand() {
        assert_eq!(source(193, T::B32, None), Ok(Src::Const(u64::MAX)));
        assert_eq!(source(192, T::B32, None), Ok(Src::Const(64)));
        assert_eq!(source(242, T::F32, None), Ok(Src::Const(0x3f80_0000)));
        assert_eq!(source(242, T::F16, None), Ok(Src::Const(0x3c00)));
        assert_eq!(source(242, T::F64, None), Ok(Src::Const(0x3ff0_0000_0000_0000)));
        assert_eq!(source(248, T::F32, None), Ok(Src::Const(0x3e22_f983)));
        assert_eq!(source(LITERAL, T::F64, Some(0x4000_0000)), Ok(Src::Const(0x4000_0000 << 32)));
        assert!(source(LITERAL, T::B32, None).is_err());
        assert!(source(209, T::B32, None).is_err());
    }
}
