//! AVX-512 kernels: weights are decoded in registers on the way into the dot.
//!
//! One body serves `vdpbf16ps` (pairs of bf16 products summed in f32) and f32 FMA (each pair vector widened to its two
//! k). A 16-column panel is one register wide, so a tile is `MR`·`NP` accumulators. For MX formats a block's sums take
//! as many registers again, and the compiler keeps the totals on the stack between blocks.
//!
//! No closures in what is inlined here: a closure has no target features of its own, and intrinsics called in one are
//! not inlined.

use core::arch::x86_64::*;

use super::sources::{Bits4, Bits6, Bits8, Ready, Registers};
use super::{Kernel, Source, Tile, pick};
use crate::cpu::pack::{BLOCK, COLUMNS};
use crate::format::Format;

macro_rules! by_source {
    ($tile:ident, $source:expr, $rows:expr, $panels:expr) => {{
        macro_rules! tiles {
            ($registers:ty) => {
                pick!($tile, [$registers], $rows, $panels, {
                    1: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12],
                    2: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12],
                    4: [1, 2, 3, 4, 5, 6],
                })
            };
        }
        match $source {
            Source::Decoded | Source::Packed(Format::Bf16) => tiles!(Ready<false>),
            Source::DecodedScaled => tiles!(Ready<true>),
            Source::Packed(Format::Fp8E4m3 | Format::Fp8E5m2) => tiles!(Bits8<false, false>),
            Source::Packed(Format::Fp8E4m3Fnuz) => tiles!(Bits8<false, true>),
            Source::Packed(Format::MxFp8) => tiles!(Bits8<true, false>),
            Source::Packed(Format::MxFp6E2m3 | Format::MxFp6E3m2) => tiles!(Bits6),
            Source::Packed(Format::MxFp4) => tiles!(Bits4),
            Source::Packed(Format::MxInt8) => None,
        }
    }};
}

pub(super) fn kernel_bf16(source: Source, rows: usize, panels: usize) -> Option<Kernel> {
    by_source!(tile_bf16, source, rows, panels)
}

pub(super) fn kernel_f32(source: Source, rows: usize, panels: usize) -> Option<Kernel> {
    by_source!(tile_f32, source, rows, panels)
}

/// # Safety
/// As [`Tile`] says; the processor has these features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512bf16")]
unsafe fn tile_bf16<S: Registers, const MR: usize, const NP: usize>(t: &Tile) {
    // SAFETY: as the caller guarantees.
    unsafe { tile::<S, PairDot, MR, NP>(t) }
}

/// # Safety
/// As [`Tile`] says; the processor has these features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
unsafe fn tile_f32<S: Registers, const MR: usize, const NP: usize>(t: &Tile) {
    // SAFETY: as the caller guarantees.
    unsafe { tile::<S, SingleDot, MR, NP>(t) }
}

/// The arithmetic of one pair vector.
trait Dot {
    /// Activation words of one row of a block.
    const WORDS: usize;

    /// Adds the products of pair vector `pair` of each panel with every row's two activations.
    ///
    /// # Safety
    /// The processor has the features; `a` points at a packed activation block of `MR` rows.
    unsafe fn add<const MR: usize, const NP: usize>(
        sums: &mut [[__m512; NP]; MR],
        weights: &[__m512i; NP],
        a: *const f32,
        pair: usize,
    );
}

/// `vdpbf16ps`.
struct PairDot;

impl Dot for PairDot {
    const WORDS: usize = BLOCK / 2;

    #[inline(always)]
    unsafe fn add<const MR: usize, const NP: usize>(
        sums: &mut [[__m512; NP]; MR],
        weights: &[__m512i; NP],
        a: *const f32,
        pair: usize,
    ) {
        for m in 0..MR {
            // SAFETY: as the caller guarantees; both types are 64 plain bytes.
            unsafe {
                let row = _mm512_set1_epi32(a.cast::<i32>().add(pair * MR + m).read());
                for p in 0..NP {
                    let (w, row) = (
                        core::mem::transmute::<__m512i, __m512bh>(weights[p]),
                        core::mem::transmute::<__m512i, __m512bh>(row),
                    );
                    sums[m][p] = _mm512_dpbf16_ps(sums[m][p], w, row);
                }
            }
        }
    }
}

/// Two f32 FMAs.
struct SingleDot;

impl Dot for SingleDot {
    const WORDS: usize = BLOCK;

    #[inline(always)]
    unsafe fn add<const MR: usize, const NP: usize>(
        sums: &mut [[__m512; NP]; MR],
        weights: &[__m512i; NP],
        a: *const f32,
        pair: usize,
    ) {
        // SAFETY: as the caller guarantees.
        unsafe {
            let high = _mm512_set1_epi32(0xffff_0000u32 as i32);
            let (mut first, mut second) = ([_mm512_setzero_ps(); NP], [_mm512_setzero_ps(); NP]);
            for p in 0..NP {
                first[p] = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(weights[p]));
                second[p] = _mm512_castsi512_ps(_mm512_and_si512(weights[p], high));
            }
            for m in 0..MR {
                let row = _mm512_set1_ps(a.add(2 * pair * MR + m).read());
                for p in 0..NP {
                    sums[m][p] = _mm512_fmadd_ps(first[p], row, sums[m][p]);
                }
            }
            for m in 0..MR {
                let row = _mm512_set1_ps(a.add((2 * pair + 1) * MR + m).read());
                for p in 0..NP {
                    sums[m][p] = _mm512_fmadd_ps(second[p], row, sums[m][p]);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Registers, D: Dot, const MR: usize, const NP: usize>(t: &Tile) {
    // SAFETY: the caller guarantees the features and what `Tile` asks for; offsets stay inside those ranges, and a
    // prefetch may name any address.
    unsafe {
        let luts = S::luts(t.tables);
        let mut totals = [[_mm512_setzero_ps(); NP]; MR];
        if !t.fresh {
            for m in 0..MR {
                for p in 0..NP {
                    totals[m][p] = _mm512_loadu_ps(t.acc.add(m * t.ld + p * COLUMNS));
                }
            }
        }
        let a_words = MR * (D::WORDS + if t.scaled_a { 2 } else { 0 });
        let (mut w, mut a) = (t.weight, t.a.cast::<f32>());
        for _ in 0..t.blocks {
            if t.prefetch != 0 {
                for p in 0..NP {
                    let ahead = w.wrapping_add(p * t.panel_stride + t.prefetch);
                    for line in 0..S::BYTES.div_ceil(64) {
                        _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line * 64).cast());
                    }
                }
            }
            if S::SCALED {
                let mut sums = [[_mm512_setzero_ps(); NP]; MR];
                add_block::<S, D, MR, NP>(&mut sums, &luts, w, t.panel_stride, a);
                let (first, second) = (a.add(MR * D::WORDS), a.add(MR * (D::WORDS + 1)));
                for p in 0..NP {
                    let scale = S::scales(w.add(p * t.panel_stride));
                    for m in 0..MR {
                        totals[m][p] = if t.scaled_a {
                            let scaled = _mm512_mul_ps(sums[m][p], _mm512_set1_ps(first.add(m).read()));
                            let scaled = _mm512_mul_ps(scaled, scale);
                            _mm512_fmadd_ps(scaled, _mm512_set1_ps(second.add(m).read()), totals[m][p])
                        } else {
                            _mm512_fmadd_ps(sums[m][p], scale, totals[m][p])
                        };
                    }
                }
            } else {
                add_block::<S, D, MR, NP>(&mut totals, &luts, w, t.panel_stride, a);
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

#[inline(always)]
unsafe fn add_block<S: Registers, D: Dot, const MR: usize, const NP: usize>(
    sums: &mut [[__m512; NP]; MR],
    luts: &S::Luts,
    w: *const u8,
    panel_stride: usize,
    a: *const f32,
) {
    // SAFETY: as in `tile`.
    unsafe {
        for half in 0..2 {
            let mut shared = [S::half(w, half); NP];
            for p in 1..NP {
                shared[p] = S::half(w.add(p * panel_stride), half);
            }
            for group in 0..4 {
                let (mut first, mut second) = ([_mm512_setzero_si512(); NP], [_mm512_setzero_si512(); NP]);
                for p in 0..NP {
                    [first[p], second[p]] = S::pairs(luts, w.add(p * panel_stride), &shared[p], half, group);
                }
                let pair = (half * 4 + group) * 2;
                D::add(sums, &first, a, pair);
                D::add(sums, &second, a, pair + 1);
            }
        }
    }
}
