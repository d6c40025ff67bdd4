//! MXFP6 E2M3 weights by E2M3 or INT8 activations with `vpdpbusd`: exact integer sums of a block's 32 products.
//!
//! Every E2M3 value times 8 is an integer of magnitude at most 60, every INT8 value times 64 one of at most 127. Weights
//! are looked up as value · 8 + 60, the unsigned operand; activations are the signed one; and a block's sum starts from −60 times the sum of its
//! activations, which takes the bias out again. Block scales are applied to the converted sum in f32.

use core::arch::x86_64::*;

use super::sources::{bits6_groups, widen_scales};
use super::{BIASED, Kernel, Source, Tile, pick};
use crate::cpu::pack::{COLUMNS, block_bytes};
use crate::cpu::tables::Tables;
use crate::format::Format;

pub(super) fn kernel(source: Source, rows: usize, panels: usize) -> Option<Kernel> {
    macro_rules! tiles {
        ($registers:ty) => {
            pick!(tile, [$registers], rows, panels, {
                1: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12],
                2: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12],
                4: [1, 2, 3, 4, 5, 6],
            })
        };
    }
    match source {
        Source::Packed(Format::MxFp6E2m3) => tiles!(Fused),
        Source::DecodedScaled => tiles!(Ready),
        _ => None,
    }
}

trait Bytes {
    const SIZE: usize;
    type Lut: Copy;
    unsafe fn lut(tables: &'static Tables) -> Self::Lut;
    /// The biased bytes of four groups.
    unsafe fn half(lut: Self::Lut, block: *const u8, half: usize) -> [__m512i; 4];
    unsafe fn scales(block: *const u8) -> __m512;
}

/// Packed blocks.
struct Fused;

impl Bytes for Fused {
    const SIZE: usize = block_bytes(Format::MxFp6E2m3);
    type Lut = __m512i;

    #[inline(always)]
    unsafe fn lut(tables: &'static Tables) -> __m512i {
        // SAFETY: the table has 64 bytes.
        unsafe { _mm512_loadu_si512(tables.biased.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn half(lut: __m512i, block: *const u8, half: usize) -> [__m512i; 4] {
        // SAFETY: as the kernel's caller guarantees.
        unsafe {
            let mut groups = bits6_groups(block, half);
            for group in &mut groups {
                *group = _mm512_permutexvar_epi8(*group, lut);
            }
            groups
        }
    }

    #[inline(always)]
    unsafe fn scales(block: *const u8) -> __m512 {
        // SAFETY: blocks end with 16 scale codes.
        unsafe { widen_scales(block.add(Self::SIZE - COLUMNS)) }
    }
}

/// Scratch.
struct Ready;

impl Bytes for Ready {
    const SIZE: usize = BIASED + super::SCALES;
    type Lut = ();

    #[inline(always)]
    unsafe fn lut(_: &'static Tables) {}

    #[inline(always)]
    unsafe fn half((): (), block: *const u8, half: usize) -> [__m512i; 4] {
        // SAFETY: a scratch block has 8 groups of 64 bytes.
        unsafe {
            let mut groups = [_mm512_setzero_si512(); 4];
            for (index, group) in groups.iter_mut().enumerate() {
                *group = _mm512_loadu_si512(block.add((half * 4 + index) * 64).cast());
            }
            groups
        }
    }

    #[inline(always)]
    unsafe fn scales(block: *const u8) -> __m512 {
        // SAFETY: 16 f32 follow the groups.
        unsafe { _mm512_loadu_ps(block.add(BIASED).cast()) }
    }
}

/// # Safety
/// As [`Tile`] says; the processor has these features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
unsafe fn tile<S: Bytes, const MR: usize, const NP: usize>(t: &Tile) {
    // SAFETY: the caller guarantees the features and what `Tile` asks for; offsets stay inside those ranges, and a
    // prefetch may name any address.
    unsafe {
        let lut = S::lut(t.tables);
        let mut totals = [[_mm512_setzero_ps(); NP]; MR];
        if !t.fresh {
            for m in 0..MR {
                for p in 0..NP {
                    totals[m][p] = _mm512_loadu_ps(t.acc.add(m * t.ld + p * COLUMNS));
                }
            }
        }
        // Eight words of bytes, the start, and the two factors of the scale.
        let a_words = MR * 11;
        let (mut w, mut a) = (t.weight, t.a.cast::<i32>());
        for _ in 0..t.blocks {
            if t.prefetch != 0 {
                for p in 0..NP {
                    let ahead = w.wrapping_add(p * t.panel_stride + t.prefetch);
                    for line in 0..S::SIZE.div_ceil(64) {
                        _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line * 64).cast());
                    }
                }
            }
            let mut sums = [[_mm512_setzero_si512(); NP]; MR];
            for m in 0..MR {
                sums[m] = [_mm512_set1_epi32(a.add(8 * MR + m).read()); NP];
            }
            for half in 0..2 {
                let mut groups = [S::half(lut, w, half); NP];
                for p in 1..NP {
                    groups[p] = S::half(lut, w.add(p * t.panel_stride), half);
                }
                for group in 0..4 {
                    for m in 0..MR {
                        let row = _mm512_set1_epi32(a.add((half * 4 + group) * MR + m).read());
                        for p in 0..NP {
                            sums[m][p] = _mm512_dpbusd_epi32(sums[m][p], groups[p][group], row);
                        }
                    }
                }
            }
            let (first, second) = (a.add(9 * MR).cast::<f32>(), a.add(10 * MR).cast::<f32>());
            for p in 0..NP {
                let scale = S::scales(w.add(p * t.panel_stride));
                for m in 0..MR {
                    let sum = _mm512_cvtepi32_ps(sums[m][p]);
                    let scaled =
                        _mm512_mul_ps(_mm512_mul_ps(sum, _mm512_set1_ps(first.add(m).read())), scale);
                    totals[m][p] =
                        _mm512_fmadd_ps(scaled, _mm512_set1_ps(second.add(m).read()), totals[m][p]);
                }
            }
            w = w.wrapping_add(t.block_stride);
            a = a.wrapping_add(a_words);
        }
        for m in 0..MR {
            for p in 0..NP {
                _mm512_storeu_ps(t.acc.add(m * t.ld + p * COLUMNS), totals[m][p]);
            }
        }
    }
}
