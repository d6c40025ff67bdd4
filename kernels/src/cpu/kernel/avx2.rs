//! AVX2 kernels in f32. A 16-column panel is two registers wide.
//!
//! Blocks are decoded, by vectorised arithmetic, into a small buffer in the first-level cache; the arithmetic then widens
//! each pair vector by a shift and a mask.

use core::arch::x86_64::*;

use super::decode::Pairs;
use super::portable::{
    Bf16, Blocks, Fp8E4m3, Fp8E4m3Fnuz, Fp8E5m2, Fused, MxFp4, MxFp6E2m3, MxFp6E3m2, MxFp8, Ready,
};
use super::{Kernel, Source, Tile, pick};
use crate::cpu::pack::{BLOCK, COLUMNS};
use crate::format::Format;

pub(super) fn kernel(source: Source, rows: usize, panels: usize) -> Option<Kernel> {
    macro_rules! tiles {
        ($source:ty) => {
            pick!(tile, [$source], rows, panels, {
                1: [1, 2, 3, 4, 5, 6],
                2: [1, 2, 3],
                4: [1],
            })
        };
    }
    match source {
        Source::Decoded => tiles!(Ready<false>),
        Source::DecodedScaled => tiles!(Ready<true>),
        Source::Packed(Format::Bf16) => tiles!(Fused<Bf16>),
        Source::Packed(Format::Fp8E4m3) => tiles!(Fused<Fp8E4m3>),
        Source::Packed(Format::Fp8E4m3Fnuz) => tiles!(Fused<Fp8E4m3Fnuz>),
        Source::Packed(Format::Fp8E5m2) => tiles!(Fused<Fp8E5m2>),
        Source::Packed(Format::MxFp8) => tiles!(Fused<MxFp8>),
        Source::Packed(Format::MxFp6E2m3) => tiles!(Fused<MxFp6E2m3>),
        Source::Packed(Format::MxFp6E3m2) => tiles!(Fused<MxFp6E3m2>),
        Source::Packed(Format::MxFp4) => tiles!(Fused<MxFp4>),
        Source::Packed(Format::MxInt8) => None,
    }
}

/// Registers of a panel.
const HALVES: usize = 2;
const LANES: usize = 8;

/// # Safety
/// As [`Tile`] says; the processor has these features.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<S: Blocks, const MR: usize, const NP: usize>(t: &Tile) {
    // SAFETY: the caller guarantees the features and what `Tile` asks for; offsets stay inside those ranges, and a
    // prefetch may name any address.
    unsafe {
        let mut totals = [[[_mm256_setzero_ps(); HALVES]; NP]; MR];
        if !t.fresh {
            for m in 0..MR {
                for p in 0..NP {
                    for h in 0..HALVES {
                        totals[m][p][h] = _mm256_loadu_ps(t.acc.add(m * t.ld + p * COLUMNS + h * LANES));
                    }
                }
            }
        }
        let mut space = [[[0u32; COLUMNS]; BLOCK / 2]; NP];
        let a_words = MR * (BLOCK + if t.scaled_a { 2 } else { 0 });
        for block in 0..t.blocks {
            let a = t.a.cast::<f32>().add(block * a_words);
            let w = t.weight.add(block * t.block_stride);
            if t.prefetch != 0 {
                for p in 0..NP {
                    for line in 0..S::BYTES.div_ceil(64) {
                        let ahead = w.wrapping_add(p * t.panel_stride + t.prefetch + line * 64);
                        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                    }
                }
            }
            let mut scales = [[0f32; COLUMNS]; NP];
            let mut pairs = [core::ptr::null::<Pairs>(); NP];
            for p in 0..NP {
                pairs[p] = S::load(w.add(p * t.panel_stride), &mut space[p], &mut scales[p]);
            }
            if !S::SCALED {
                add_block(&mut totals, &pairs, a);
                continue;
            }
            let mut sums = [[[_mm256_setzero_ps(); HALVES]; NP]; MR];
            add_block(&mut sums, &pairs, a);
            for p in 0..NP {
                for h in 0..HALVES {
                    let scale = _mm256_loadu_ps(scales[p].as_ptr().add(h * LANES));
                    for m in 0..MR {
                        let mut sum = sums[m][p][h];
                        let mut factor = scale;
                        if t.scaled_a {
                            let (first, second) = (a.add(BLOCK * MR + m), a.add((BLOCK + 1) * MR + m));
                            sum = _mm256_mul_ps(_mm256_mul_ps(sum, _mm256_set1_ps(first.read())), scale);
                            factor = _mm256_set1_ps(second.read());
                        }
                        totals[m][p][h] = _mm256_fmadd_ps(sum, factor, totals[m][p][h]);
                    }
                }
            }
        }
        for m in 0..MR {
            for p in 0..NP {
                for h in 0..HALVES {
                    _mm256_storeu_ps(t.acc.add(m * t.ld + p * COLUMNS + h * LANES), totals[m][p][h]);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn add_block<const MR: usize, const NP: usize>(
    sums: &mut [[[__m256; HALVES]; NP]; MR],
    blocks: &[*const Pairs; NP],
    a: *const f32,
) {
    // SAFETY: as in `tile`.
    unsafe {
        let high = _mm256_set1_epi32(0xffff_0000u32 as i32);
        for pair in 0..BLOCK / 2 {
            for p in 0..NP {
                for h in 0..HALVES {
                    let words = _mm256_loadu_si256((*blocks[p])[pair].as_ptr().add(h * LANES).cast());
                    let first = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words));
                    let second = _mm256_castsi256_ps(_mm256_and_si256(words, high));
                    for m in 0..MR {
                        let (x, y) = (a.add(2 * pair * MR + m), a.add((2 * pair + 1) * MR + m));
                        let sum = _mm256_fmadd_ps(first, _mm256_broadcast_ss(&*x), sums[m][p][h]);
                        sums[m][p][h] = _mm256_fmadd_ps(second, _mm256_broadcast_ss(&*y), sum);
                    }
                }
            }
        }
    }
}
