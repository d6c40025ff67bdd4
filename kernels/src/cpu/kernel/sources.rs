//! AVX-512 decoding: packed blocks to pair vectors of bf16, in registers.
//!
//! A group's register holds `[16 columns][4 k]` codes. Byte permutes look up the low and the high byte of each bf16
//! value; the even bytes of both make the pair (k, k+2), the odd bytes (k+1, k+3). `vpermb` ignores the top two bits of
//! an index, so 6-bit codes need no mask.
//!
//! Everything here is inlined into a kernel that enables AVX-512 F, BW, VL, DQ and VBMI, and must only be called there.

use core::arch::x86_64::*;

use super::{DECODED, SCALES};
use crate::cpu::pack::{COLUMNS, block_bytes};
use crate::cpu::tables::Tables;
use crate::format::Format;

/// How a kernel reads one kind of block.
pub(super) trait Registers {
    /// Bytes of a block.
    const BYTES: usize;
    /// Whether a block ends with the scales of its columns.
    const SCALED: bool;
    /// Look-up tables held in registers.
    type Luts: Copy;
    /// What half a block's load leaves for its four groups to share.
    type Half: Copy;

    /// # Safety
    /// The processor has AVX-512 VBMI.
    unsafe fn luts(tables: &'static Tables) -> Self::Luts;

    /// # Safety
    /// As `luts`; `block` points at [`Registers::BYTES`] readable bytes and `half` is 0 or 1.
    unsafe fn half(block: *const u8, half: usize) -> Self::Half;

    /// The two pair vectors of group `half`·4 + `group`.
    ///
    /// # Safety
    /// As `half`.
    unsafe fn pairs(
        luts: &Self::Luts,
        block: *const u8,
        shared: &Self::Half,
        half: usize,
        group: usize,
    ) -> [__m512i; 2];

    /// # Safety
    /// As `half`, and only where `SCALED`.
    unsafe fn scales(block: *const u8) -> __m512;
}

/// A format of codes that are looked up.
pub(super) trait Coded: Registers {
    /// The two pair vectors of a group's codes, `[16 columns][4 k]`.
    ///
    /// # Safety
    /// The processor has AVX-512 VBMI.
    unsafe fn look_up(luts: &Self::Luts, codes: __m512i) -> [__m512i; 2];
}

/// Sixteen E8M0 codes as f32: 0 is a subnormal, 255 a NaN.
#[inline(always)]
pub(super) unsafe fn widen_scales(codes: *const u8) -> __m512 {
    // SAFETY: the caller has AVX-512, and 16 bytes at `codes`.
    unsafe {
        let codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.cast()));
        // The shifted code of 0 is below the subnormal 2^-127; that of 255 is infinity, a NaN with one more bit.
        let quiet = _mm512_set1_epi32(0x0040_0000);
        let bits = _mm512_max_epu32(_mm512_slli_epi32::<23>(codes), quiet);
        let nan = _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(255));
        _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, nan, bits, quiet))
    }
}

/// Pair vectors from the low and high bytes of a group's values.
#[inline(always)]
unsafe fn merge(low: __m512i, high: __m512i) -> [__m512i; 2] {
    // SAFETY: the caller has AVX-512.
    unsafe {
        // Bit select: low byte of a word from the second operand, high byte from the third.
        const SELECT: i32 = 0xca;
        let low_bytes = _mm512_set1_epi16(0x00ff);
        [
            _mm512_ternarylogic_epi32::<SELECT>(low_bytes, low, _mm512_slli_epi16::<8>(high)),
            _mm512_ternarylogic_epi32::<SELECT>(low_bytes, _mm512_srli_epi16::<8>(low), high),
        ]
    }
}

/// Decoded blocks: pair vectors as they are.
pub(super) struct Ready<const SCALED: bool>;

impl<const SCALE: bool> Registers for Ready<SCALE> {
    const BYTES: usize = DECODED + if SCALE { SCALES } else { 0 };
    const SCALED: bool = SCALE;
    type Luts = ();
    type Half = ();

    #[inline(always)]
    unsafe fn luts(_: &'static Tables) {}

    #[inline(always)]
    unsafe fn half(_: *const u8, _: usize) {}

    #[inline(always)]
    unsafe fn pairs(_: &(), block: *const u8, (): &(), half: usize, group: usize) -> [__m512i; 2] {
        // SAFETY: group 4·half + group starts at 128 bytes times its number.
        unsafe {
            let pairs = block.add((half * 4 + group) * 128);
            [_mm512_loadu_si512(pairs.cast()), _mm512_loadu_si512(pairs.add(64).cast())]
        }
    }

    #[inline(always)]
    unsafe fn scales(block: *const u8) -> __m512 {
        // SAFETY: scaled blocks end with 16 f32.
        unsafe { _mm512_loadu_ps(block.add(DECODED).cast()) }
    }
}

/// 8-bit codes with a sign bit: two 128-entry tables, then the sign.
pub(super) struct Bits8<const MX: bool, const FNUZ: bool>;

impl<const MX: bool, const FNUZ: bool> Registers for Bits8<MX, FNUZ> {
    const BYTES: usize = block_bytes(if MX { Format::MxFp8 } else { Format::Fp8E4m3 });
    const SCALED: bool = MX;
    /// Low bytes, then high bytes, of the values of codes 0 to 63 and 64 to 127.
    type Luts = [__m512i; 4];
    type Half = ();

    #[inline(always)]
    unsafe fn luts(tables: &'static Tables) -> [__m512i; 4] {
        // SAFETY: both tables have 128 bytes.
        unsafe {
            let (low, high) = (tables.low.as_ptr(), tables.high.as_ptr());
            [
                _mm512_loadu_si512(low.cast()),
                _mm512_loadu_si512(low.add(64).cast()),
                _mm512_loadu_si512(high.cast()),
                _mm512_loadu_si512(high.add(64).cast()),
            ]
        }
    }

    #[inline(always)]
    unsafe fn half(_: *const u8, _: usize) {}

    #[inline(always)]
    unsafe fn pairs(
        luts: &[__m512i; 4],
        block: *const u8,
        (): &(),
        half: usize,
        group: usize,
    ) -> [__m512i; 2] {
        // SAFETY: the caller has the features and a block of 8 groups of 64 bytes.
        unsafe { Self::look_up(luts, _mm512_loadu_si512(block.add((half * 4 + group) * 64).cast())) }
    }

    #[inline(always)]
    unsafe fn scales(block: *const u8) -> __m512 {
        // SAFETY: MX blocks end with 16 scale codes.
        unsafe { widen_scales(block.add(Self::BYTES - COLUMNS)) }
    }
}

impl<const MX: bool, const FNUZ: bool> Coded for Bits8<MX, FNUZ> {
    #[inline(always)]
    unsafe fn look_up(luts: &[__m512i; 4], codes: __m512i) -> [__m512i; 2] {
        // SAFETY: the caller has the features.
        unsafe {
            let mut low = _mm512_permutex2var_epi8(luts[0], codes, luts[1]);
            let high = _mm512_permutex2var_epi8(luts[2], codes, luts[3]);
            let sign = _mm512_set1_epi8(i8::MIN);
            // high | (codes & sign)
            let mut high = _mm512_ternarylogic_epi32::<0xf8>(high, codes, sign);
            if FNUZ {
                let nan = _mm512_cmpeq_epi8_mask(codes, sign);
                low = _mm512_mask_mov_epi8(low, nan, _mm512_set1_epi8(0xc0u8 as i8));
                high = _mm512_mask_mov_epi8(high, nan, _mm512_set1_epi8(0x7f));
            }
            merge(low, high)
        }
    }
}

/// The codes of four groups from three vectors: see `cpu::pack`. The top two bits of each byte are not cleared.
#[inline(always)]
pub(super) unsafe fn bits6_groups(block: *const u8, half: usize) -> [__m512i; 4] {
    // SAFETY: the caller has AVX-512 and a block of 384 code bytes.
    unsafe {
        const SELECT: i32 = 0xca;
        let start = block.add(half * 3 * 64);
        let v0 = _mm512_loadu_si512(start.cast());
        let v1 = _mm512_loadu_si512(start.add(64).cast());
        let v2 = _mm512_loadu_si512(start.add(128).cast());
        let two = _mm512_ternarylogic_epi32::<SELECT>(
            _mm512_set1_epi8(3),
            _mm512_srli_epi16::<6>(v0),
            _mm512_srli_epi16::<4>(v1),
        );
        let last = _mm512_ternarylogic_epi32::<SELECT>(_mm512_set1_epi8(15), two, _mm512_srli_epi16::<2>(v2));
        [v0, v1, v2, last]
    }
}

/// 6-bit codes: two 64-entry tables.
pub(super) struct Bits6;

impl Registers for Bits6 {
    const BYTES: usize = block_bytes(Format::MxFp6E2m3);
    const SCALED: bool = true;
    type Luts = [__m512i; 2];
    type Half = [__m512i; 4];

    #[inline(always)]
    unsafe fn luts(tables: &'static Tables) -> [__m512i; 2] {
        // SAFETY: both tables have at least 64 bytes.
        unsafe {
            [_mm512_loadu_si512(tables.low.as_ptr().cast()), _mm512_loadu_si512(tables.high.as_ptr().cast())]
        }
    }

    #[inline(always)]
    unsafe fn half(block: *const u8, half: usize) -> [__m512i; 4] {
        // SAFETY: as the caller guarantees.
        unsafe { bits6_groups(block, half) }
    }

    #[inline(always)]
    unsafe fn pairs(
        luts: &[__m512i; 2],
        _: *const u8,
        groups: &[__m512i; 4],
        _: usize,
        group: usize,
    ) -> [__m512i; 2] {
        // SAFETY: the caller has VBMI.
        unsafe { Self::look_up(luts, groups[group]) }
    }

    #[inline(always)]
    unsafe fn scales(block: *const u8) -> __m512 {
        // SAFETY: blocks end with 16 scale codes.
        unsafe { widen_scales(block.add(Self::BYTES - COLUMNS)) }
    }
}

impl Coded for Bits6 {
    #[inline(always)]
    unsafe fn look_up(luts: &[__m512i; 2], codes: __m512i) -> [__m512i; 2] {
        // SAFETY: the caller has VBMI.
        unsafe { merge(_mm512_permutexvar_epi8(codes, luts[0]), _mm512_permutexvar_epi8(codes, luts[1])) }
    }
}

/// 4-bit codes: two 16-entry tables in every lane.
pub(super) struct Bits4;

impl Registers for Bits4 {
    const BYTES: usize = block_bytes(Format::MxFp4);
    const SCALED: bool = true;
    type Luts = [__m512i; 2];
    type Half = ();

    #[inline(always)]
    unsafe fn luts(tables: &'static Tables) -> [__m512i; 2] {
        // SAFETY: both tables have at least 16 bytes.
        unsafe {
            [
                _mm512_broadcast_i32x4(_mm_loadu_si128(tables.low.as_ptr().cast())),
                _mm512_broadcast_i32x4(_mm_loadu_si128(tables.high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    unsafe fn half(_: *const u8, _: usize) {}

    #[inline(always)]
    unsafe fn pairs(
        luts: &[__m512i; 2],
        block: *const u8,
        (): &(),
        half: usize,
        group: usize,
    ) -> [__m512i; 2] {
        // SAFETY: the caller has the features and a block of four vectors of 64 bytes.
        unsafe {
            let both = _mm512_loadu_si512(block.add((half * 2 + group / 2) * 64).cast());
            let shifted = if group % 2 == 1 { _mm512_srli_epi16::<4>(both) } else { both };
            Self::look_up(luts, shifted)
        }
    }

    #[inline(always)]
    unsafe fn scales(block: *const u8) -> __m512 {
        // SAFETY: blocks end with 16 scale codes.
        unsafe { widen_scales(block.add(Self::BYTES - COLUMNS)) }
    }
}

impl Coded for Bits4 {
    #[inline(always)]
    unsafe fn look_up(luts: &[__m512i; 2], codes: __m512i) -> [__m512i; 2] {
        // SAFETY: the caller has AVX-512 BW.
        unsafe {
            let codes = _mm512_and_si512(codes, _mm512_set1_epi8(15));
            merge(_mm512_shuffle_epi8(luts[0], codes), _mm512_shuffle_epi8(luts[1], codes))
        }
    }
}
