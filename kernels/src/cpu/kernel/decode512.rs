//! Filling scratch with AVX-512: what `decode` does, 64 codes at a time.
//!
//! Row-major weights are gathered: one gather of 32 bits from each of a panel's 16 rows brings 4 codes of 8 bits in
//! group order, or the bits that a multishift spreads into 4 codes of fewer bits.

use core::arch::x86_64::*;

use super::sources::{Bits4, Bits6, Bits8, Coded, Ready, Registers, bits6_groups};
use crate::cpu::pack::{BLOCK, COLUMNS, PackedWeight};
use crate::cpu::tables::Tables;
use crate::format::Format;

/// Decodes a packed block into the form of [`super::DECODED`].
///
/// # Safety
/// The processor has AVX-512 F, BW, VL, DQ and VBMI; `block` is a packed block of the format and `out` has room.
pub(in crate::cpu) unsafe fn packed_block(
    format: Format,
    tables: &'static Tables,
    block: *const u8,
    out: *mut u8,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match format {
            Format::Bf16 => packed::<Ready<false>>(tables, block, out),
            Format::Fp8E4m3 | Format::Fp8E5m2 | Format::MxFp8 => {
                packed::<Bits8<false, false>>(tables, block, out);
            }
            Format::Fp8E4m3Fnuz => packed::<Bits8<false, true>>(tables, block, out),
            Format::MxFp6E2m3 | Format::MxFp6E3m2 => packed::<Bits6>(tables, block, out),
            Format::MxFp4 => packed::<Bits4>(tables, block, out),
            Format::MxInt8 => unreachable!("no weight is packed in it"),
        }
    }
}

/// Decodes a packed MXFP6 block into the form of [`super::BIASED`].
///
/// # Safety
/// As [`packed_block`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
pub(in crate::cpu) unsafe fn packed_biased(tables: &'static Tables, block: *const u8, out: *mut u8) {
    // SAFETY: as the caller guarantees.
    unsafe {
        let lut = _mm512_loadu_si512(tables.biased.as_ptr().cast());
        for half in 0..2 {
            for (group, codes) in bits6_groups(block, half).into_iter().enumerate() {
                let bytes = _mm512_permutexvar_epi8(codes, lut);
                _mm512_storeu_si512(out.add((half * 4 + group) * 64).cast(), bytes);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
unsafe fn packed<S: Registers>(tables: &'static Tables, block: *const u8, out: *mut u8) {
    // SAFETY: as in `packed_block`.
    unsafe {
        let luts = S::luts(tables);
        for half in 0..2 {
            let shared = S::half(block, half);
            for group in 0..4 {
                store(S::pairs(&luts, block, &shared, half, group), out, half * 4 + group);
            }
        }
    }
}

#[inline(always)]
unsafe fn store(pairs: [__m512i; 2], out: *mut u8, group: usize) {
    // SAFETY: a decoded block has 8 groups of 128 bytes.
    unsafe {
        _mm512_storeu_si512(out.add(group * 128).cast(), pairs[0]);
        _mm512_storeu_si512(out.add(group * 128 + 64).cast(), pairs[1]);
    }
}

/// Where a panel's rows lie, for gathers.
#[derive(Clone, Copy)]
struct Rows {
    start: *const u8,
    /// Bytes from a row to the next.
    stride: i32,
    /// Rows that exist.
    mask: __mmask16,
}

/// Gathers a whole block of a row-major weight into the form of [`super::DECODED`], or of [`super::BIASED`] if
/// `biased`. Gives `false`, having done nothing, for a block that is cut short by K or rows too far apart.
///
/// # Safety
/// As [`packed_block`]; the block and panel exist.
pub(in crate::cpu) unsafe fn row_major_block(
    weight: &PackedWeight,
    tables: &'static Tables,
    (panel, block): (usize, usize),
    biased: bool,
    out: *mut u8,
) -> bool {
    let format = weight.format();
    let row_bytes = format.row_bytes(weight.k());
    if (block + 1) * BLOCK > weight.k() || row_bytes > 1 << 26 {
        return false;
    }
    let first = panel * COLUMNS;
    let rows = COLUMNS.min(weight.n() - first);
    let start = first * row_bytes + block * format.row_bytes(BLOCK);
    let rows = Rows {
        start: weight.bytes()[start..].as_ptr(),
        stride: row_bytes as i32,
        mask: ((1u32 << rows) - 1) as __mmask16,
    };
    // SAFETY: as the caller guarantees. A gather of 32 bits may pass the last code by up to 3 bytes, which a weight's
    // buffer has room for.
    unsafe {
        match format {
            Format::Bf16 => gather_bf16(rows, out),
            Format::Fp8E4m3 | Format::Fp8E5m2 | Format::MxFp8 => {
                gather::<Bits8<false, false>, 8>(rows, tables, out);
            }
            Format::Fp8E4m3Fnuz => gather::<Bits8<false, true>, 8>(rows, tables, out),
            Format::MxFp6E2m3 if biased => gather_biased(rows, tables, out),
            Format::MxFp6E2m3 | Format::MxFp6E3m2 => gather::<Bits6, 6>(rows, tables, out),
            Format::MxFp4 => gather::<Bits4, 4>(rows, tables, out),
            Format::MxInt8 => unreachable!("no weight is packed in it"),
        }
    }
    true
}

/// 32 bits of each row at a byte offset; 0 for rows that do not exist.
#[inline(always)]
unsafe fn words(rows: Rows, offset: usize) -> __m512i {
    // SAFETY: as in `row_major_block`.
    unsafe {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let offsets = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(rows.stride));
        let start = rows.start.add(offset).cast::<i32>();
        _mm512_mask_i32gather_epi32::<1>(_mm512_setzero_si512(), rows.mask, offsets, start)
    }
}

/// The codes of a group in order, with anything in the bits above them.
#[inline(always)]
unsafe fn codes<const BITS: usize>(rows: Rows, group: usize) -> __m512i {
    // SAFETY: as in `row_major_block`.
    unsafe {
        let words = words(rows, group * BITS / 2);
        match BITS {
            8 => words,
            // Byte i of each 32 bits from bit BITS·i on.
            6 => _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x322c_2620_120c_0600), words),
            _ => _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x2c28_2420_0c08_0400), words),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
unsafe fn gather<S: Coded, const BITS: usize>(rows: Rows, tables: &'static Tables, out: *mut u8) {
    // SAFETY: as in `row_major_block`.
    unsafe {
        let luts = S::luts(tables);
        for group in 0..BLOCK / 4 {
            store(S::look_up(&luts, codes::<BITS>(rows, group)), out, group);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
unsafe fn gather_biased(rows: Rows, tables: &'static Tables, out: *mut u8) {
    // SAFETY: as in `row_major_block`.
    unsafe {
        let lut = _mm512_loadu_si512(tables.biased.as_ptr().cast());
        for group in 0..BLOCK / 4 {
            let bytes = _mm512_permutexvar_epi8(codes::<6>(rows, group), lut);
            _mm512_storeu_si512(out.add(group * 64).cast(), bytes);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
unsafe fn gather_bf16(rows: Rows, out: *mut u8) {
    // SAFETY: as in `row_major_block`.
    unsafe {
        // Bit select: low half of a word from the second operand, high half from the third.
        const SELECT: i32 = 0xca;
        let low_halves = _mm512_set1_epi32(0xffff);
        for group in 0..BLOCK / 4 {
            let (front, back) = (words(rows, group * 8), words(rows, group * 8 + 4));
            let even = _mm512_ternarylogic_epi32::<SELECT>(low_halves, front, _mm512_slli_epi32::<16>(back));
            let odd = _mm512_ternarylogic_epi32::<SELECT>(low_halves, _mm512_srli_epi32::<16>(front), back);
            store([even, odd], out, group);
        }
    }
}
