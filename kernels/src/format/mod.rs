//! Number formats: how the elements of an operand are encoded.
//!
//! Sources: OCP 8-bit Floating Point Specification 1.0 (E4M3, E5M2), OCP Microscaling Formats Specification 1.0 (MX:
//! blocks of 32 along K sharing one E8M0 scale), and the FNUZ variant of gfx942 (bias 8, no infinities, NaN is 0x80).

pub mod aiter;
pub mod e8m0;
#[cfg(feature = "std")]
pub(crate) mod encode;
pub mod hadamard;
pub mod minifloat;
pub mod pack;
#[cfg(feature = "std")]
pub mod quantize;

use crate::problem::named_enum;
use minifloat::{Minifloat, Overflow, Special};

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
        /// MX with 8-bit integers, two's complement, in steps of 1/64: largest 127/64, no NaN. For activations only.
        MxInt8 = "mxint8",
    }
}

/// Elements along K that share one E8M0 scale in an MX format.
pub const MX_BLOCK: usize = 32;

impl Format {
    /// The formats that a weight can be stored in.
    pub const WEIGHTS: &'static [Format] = Format::ALL.split_at(Format::MxInt8 as usize).0;

    /// The codec of one element, without its block's scale.
    pub const fn codec(self) -> Minifloat {
        match self {
            Format::Bf16 => {
                Minifloat { overflow: Overflow::Infinity, ..Minifloat::new(8, 7, 127, Special::Ieee) }
            }
            Format::Fp8E4m3 | Format::MxFp8 => Minifloat::new(4, 3, 7, Special::AllOnes),
            Format::Fp8E4m3Fnuz => Minifloat::new(4, 3, 8, Special::NegativeZero),
            Format::Fp8E5m2 => Minifloat::new(5, 2, 15, Special::Ieee),
            Format::MxFp6E2m3 => Minifloat::new(2, 3, 1, Special::None),
            Format::MxFp6E3m2 => Minifloat::new(3, 2, 3, Special::None),
            Format::MxFp4 => Minifloat::new(2, 1, 1, Special::None),
            // Without an exponent all codes are subnormal: whole steps of 2^(1 - bias - mantissa bits).
            Format::MxInt8 => Minifloat::new(0, 7, 0, Special::Integer),
        }
    }

    /// The exact value of an element's code. Bits above the format's width are ignored.
    #[inline]
    pub const fn decode(self, code: u16) -> f32 {
        self.codec().decode(code)
    }

    /// The code of the element nearest to a value, ties to even.
    ///
    /// * Values beyond the largest element, infinity included, saturate to it; so they do in E5M2, although it has
    ///   infinities. Only bf16, which is never scaled, rounds as IEEE 754 does and keeps infinity.
    /// * NaN becomes a NaN of the same sign. FNUZ has but one, 0x80. FP6, FP4 and INT8 have none: NaN becomes the largest
    ///   positive element there, as in CUDA's conversions, so a quantiser must mark it elsewhere (MX: in the scale).
    /// * Zero keeps its sign, except in FNUZ and INT8, which have no negative zero.
    #[inline]
    pub const fn encode(self, value: f32) -> u16 {
        self.codec().encode(value)
    }

    /// The largest finite element.
    pub const fn max(self) -> f32 {
        self.decode(self.codec().max_code())
    }

    /// The exponent of the largest finite element: ⌊log2 max⌋.
    pub const fn emax(self) -> i32 {
        e8m0::floor_log2(self.max().to_bits())
    }

    /// The values of all codes of a format of at most 8 bits, for look-up by a whole byte: in narrower formats the
    /// entries repeat, so that the bits above need no masking. `None` for bf16, which is the top half of an f32.
    pub const fn table(self) -> Option<&'static [f32; 256]> {
        const fn build(format: Format) -> [f32; 256] {
            let mut table = [0.0; 256];
            let mut code = 0;
            while code < 256 {
                table[code] = format.decode(code as u16);
                code += 1;
            }
            table
        }
        static E4M3: [f32; 256] = build(Format::Fp8E4m3);
        static E4M3_FNUZ: [f32; 256] = build(Format::Fp8E4m3Fnuz);
        static E5M2: [f32; 256] = build(Format::Fp8E5m2);
        static E2M3: [f32; 256] = build(Format::MxFp6E2m3);
        static E3M2: [f32; 256] = build(Format::MxFp6E3m2);
        static E2M1: [f32; 256] = build(Format::MxFp4);
        static INT8: [f32; 256] = build(Format::MxInt8);
        match self {
            Format::Bf16 => None,
            Format::Fp8E4m3 | Format::MxFp8 => Some(&E4M3),
            Format::Fp8E4m3Fnuz => Some(&E4M3_FNUZ),
            Format::Fp8E5m2 => Some(&E5M2),
            Format::MxFp6E2m3 => Some(&E2M3),
            Format::MxFp6E3m2 => Some(&E3M2),
            Format::MxFp4 => Some(&E2M1),
            Format::MxInt8 => Some(&INT8),
        }
    }

    /// Bits of one element, without scales.
    pub const fn bits(self) -> usize {
        match self {
            Format::Bf16 => 16,
            Format::Fp8E4m3 | Format::Fp8E4m3Fnuz | Format::Fp8E5m2 | Format::MxFp8 | Format::MxInt8 => 8,
            Format::MxFp6E2m3 | Format::MxFp6E3m2 => 6,
            Format::MxFp4 => 4,
        }
    }

    /// Whether elements share an E8M0 scale per [`MX_BLOCK`].
    pub const fn is_mx(self) -> bool {
        use Format::{MxFp4, MxFp6E2m3, MxFp6E3m2, MxFp8, MxInt8};
        matches!(self, MxFp8 | MxFp6E2m3 | MxFp6E3m2 | MxFp4 | MxInt8)
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
