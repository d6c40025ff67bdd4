//! Look-up tables of the element formats, all made from [`Format::decode`].
//!
//! Every element of up to 8 bits is exactly a bf16 number, so one table of bf16 bits serves all arithmetic: `vdpbf16ps`
//! takes it as it is, and the f32 paths widen it by a shift.

use std::sync::OnceLock;

use crate::format::Format;

/// Tables of one format. Codes of fewer than 8 bits use the first entries.
#[repr(C, align(64))]
pub(super) struct Tables {
    /// Low byte of the bf16 value, by the low seven bits of the code.
    pub(super) low: [u8; 128],
    /// High byte of the bf16 value, by the low seven bits of the code.
    pub(super) high: [u8; 128],
    /// E2M3 only: value · 8 + 60, the unsigned operand of `vpdpbusd`.
    pub(super) biased: [u8; 64],
}

/// What is added to value · 8 in [`Tables::biased`]: the largest E2M3 value times 8.
pub(super) const BIAS: i32 = 60;

/// The tables of a format of at most 8 bits; bf16 needs none and gets MXFP8's.
pub(super) fn tables(format: Format) -> &'static Tables {
    static ALL: [OnceLock<Tables>; Format::ALL.len()] = [const { OnceLock::new() }; Format::ALL.len()];
    let format = if format == Format::Bf16 { Format::MxFp8 } else { format };
    ALL[format as usize].get_or_init(|| build(format))
}

fn build(format: Format) -> Tables {
    let mut tables = Tables { low: [0; 128], high: [0; 128], biased: [0; 64] };
    for code in 0..1u16 << format.bits() {
        let value = format.decode(code);
        let bits = to_bf16(value);
        debug_assert!(value.is_nan() || from_bf16(bits) == value, "{format} {code:#x} is no bf16 number");
        if code < 128 {
            tables.low[code as usize] = bits as u8;
            tables.high[code as usize] = (bits >> 8) as u8;
        }
        if format == Format::MxFp6E2m3 {
            tables.biased[code as usize] = ((value * 8.0) as i32 + BIAS) as u8;
        }
    }
    tables
}

/// Rounds to bf16, to nearest even; a NaN stays one.
pub(super) const fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Widens bf16 bits.
pub(super) const fn from_bf16(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The f32 of an E8M0 code: 2^(code − 127), which for 0 is a subnormal, and NaN for 255.
pub(super) const fn scale(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits((code as u32) << 23),
    }
}
