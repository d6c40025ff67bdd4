//! Number formats: how the elements of an operand are encoded.
//!
//! Sources: OCP 8-bit Floating Point Specification 1.0 (E4M3, E5M2), OCP Microscaling Formats Specification 1.0 (MX:
//! blocks of 32 along K sharing one E8M0 scale), and the FNUZ variant of gfx942 (bias 8, no infinities, NaN is 0x80).

#[cfg(feature = "std")]
pub mod quantize;

use crate::problem::named_enum;

named_enum! {
    /// An element format with its block structure.
    Format {
        /// bfloat16.
        Bf16 = "bf16",
        /// OCP FP8 E4M3: bias 7, largest 448, NaN 0x7f/0xff, no infinities.
        Fp8E4m3 = "fp8_e4m3",
        /// FP8 E4M3 of gfx942: bias 8, largest 240, one NaN (0x80), no negative zero.
        Fp8E4m3Fnuz = "fp8_e4m3fnuz",
        /// OCP FP8 E5M2: bias 15, largest 57344, infinities and NaNs.
        Fp8E5m2 = "fp8_e5m2",
        /// MX with E4M3 elements.
        MxFp8 = "mxfp8",
        /// MX with 6-bit E2M3 elements: largest 7.5, no NaN.
        MxFp6E2m3 = "mxfp6_e2m3",
        /// MX with 6-bit E3M2 elements: largest 28, no NaN.
        MxFp6E3m2 = "mxfp6_e3m2",
        /// MX with 4-bit E2M1 elements: largest 6, no NaN.
        MxFp4 = "mxfp4",
    }
}

/// Elements along K that share one E8M0 scale in an MX format.
pub const MX_BLOCK: usize = 32;

impl Format {
    /// Bits of one element, without scales.
    pub const fn bits(self) -> usize {
        match self {
            Format::Bf16 => 16,
            Format::Fp8E4m3 | Format::Fp8E4m3Fnuz | Format::Fp8E5m2 | Format::MxFp8 => 8,
            Format::MxFp6E2m3 | Format::MxFp6E3m2 => 6,
            Format::MxFp4 => 4,
        }
    }

    /// Whether elements share an E8M0 scale per [`MX_BLOCK`].
    pub const fn is_mx(self) -> bool {
        matches!(self, Format::MxFp8 | Format::MxFp6E2m3 | Format::MxFp6E3m2 | Format::MxFp4)
    }

    /// Whether a row of K elements is legal: MX formats need whole blocks.
    pub const fn allows_k(self, k: u32) -> bool {
        !self.is_mx() || k.is_multiple_of(MX_BLOCK as u32)
    }

    /// Bytes of one dense row of K elements, without scales: codes are packed little-endian, first element in the
    /// lowest bits.
    pub const fn row_bytes(self, k: usize) -> usize {
        (k * self.bits()).div_ceil(8)
    }
}
