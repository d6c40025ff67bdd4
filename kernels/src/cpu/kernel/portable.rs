//! Plain Rust, f32 arithmetic: works everywhere, and what the other paths are compared with.

use super::decode::{self, Pairs};
use super::{DECODED, Kernel, SCALES, Source, Tile, pick};
use crate::cpu::pack::{BLOCK, COLUMNS, block_bytes};
use crate::format::Format;

pub(super) fn kernel(source: Source, rows: usize, panels: usize) -> Option<Kernel> {
    macro_rules! tiles {
        ($source:ty) => {
            pick!(tile, [$source], rows, panels, {
                1: [1, 2, 3, 4, 5, 6, 7, 8],
                2: [1, 2, 3, 4],
                4: [1, 2],
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

/// Where a block's pair vectors and scales come from.
pub(super) trait Blocks {
    /// Whether blocks have scales.
    const SCALED: bool;
    /// Bytes of a block.
    const BYTES: usize;

    /// Gives the pair vectors of a block, decoded into `space` if need be, and writes its scales if it has any.
    ///
    /// # Safety
    /// `block` points at a block of this kind.
    unsafe fn load<'a>(block: *const u8, space: &'a mut Pairs, scales: &mut [f32; COLUMNS]) -> &'a Pairs;
}

/// Scratch: nothing to decode.
pub(super) struct Ready<const SCALED: bool>;

impl<const SCALED: bool> Blocks for Ready<SCALED> {
    const SCALED: bool = SCALED;
    const BYTES: usize = DECODED + if SCALED { SCALES } else { 0 };

    #[inline(always)]
    unsafe fn load<'a>(block: *const u8, _: &'a mut Pairs, scales: &mut [f32; COLUMNS]) -> &'a Pairs {
        // SAFETY: scratch blocks are aligned to 64 bytes and hold DECODED bytes of pairs, then their scales. Nothing
        // writes them while a kernel runs.
        unsafe {
            if SCALED {
                *scales = block.add(DECODED).cast::<[f32; COLUMNS]>().read();
            }
            &*block.cast::<Pairs>()
        }
    }
}

const _: () = assert!(size_of::<Pairs>() == DECODED && size_of::<[f32; COLUMNS]>() == SCALES);

/// Packed blocks of a format, decoded on the way.
pub(super) struct Fused<F: Element>(core::marker::PhantomData<F>);

/// A format as a type.
pub(super) trait Element {
    const FORMAT: Format;
}

macro_rules! elements {
    ($($name:ident),+) => {$(
        pub(super) struct $name;
        impl Element for $name {
            const FORMAT: Format = Format::$name;
        }
    )+};
}
elements!(Bf16, Fp8E4m3, Fp8E4m3Fnuz, Fp8E5m2, MxFp8, MxFp6E2m3, MxFp6E3m2, MxFp4);

impl<F: Element> Blocks for Fused<F> {
    const SCALED: bool = F::FORMAT.is_mx();
    const BYTES: usize = block_bytes(F::FORMAT);

    #[inline(always)]
    unsafe fn load<'a>(block: *const u8, space: &'a mut Pairs, scales: &mut [f32; COLUMNS]) -> &'a Pairs {
        // SAFETY: `block` points at a packed block of this format.
        let block = unsafe { core::slice::from_raw_parts(block, Self::BYTES) };
        decode::packed_block(F::FORMAT, block, space);
        if Self::SCALED {
            decode::scales(&block[Self::BYTES - COLUMNS..], scales);
        }
        space
    }
}

/// # Safety
/// As [`Tile`] says; needs no features.
unsafe fn tile<S: Blocks, const MR: usize, const NP: usize>(t: &Tile) {
    let mut acc = [[[0f32; COLUMNS]; NP]; MR];
    // SAFETY: the caller guarantees what `Tile` asks for; every offset below stays inside those ranges.
    unsafe {
        if !t.fresh {
            for m in 0..MR {
                for p in 0..NP {
                    acc[m][p] = t.acc.add(m * t.ld + p * COLUMNS).cast::<[f32; COLUMNS]>().read_unaligned();
                }
            }
        }
        let mut space = [[[0u32; COLUMNS]; BLOCK / 2]; NP];
        let a_words = MR * (BLOCK + if t.scaled_a { 2 } else { 0 });
        for block in 0..t.blocks {
            let a = t.a.cast::<f32>().add(block * a_words);
            for (p, space) in space.iter_mut().enumerate() {
                let w = t.weight.add(p * t.panel_stride + block * t.block_stride);
                let mut scales = [0.0; COLUMNS];
                let pairs = S::load(w, space, &mut scales);
                for m in 0..MR {
                    let mut sum = if S::SCALED { [0f32; COLUMNS] } else { acc[m][p] };
                    for (pair, words) in pairs.iter().enumerate() {
                        let first = *a.add(2 * pair * MR + m);
                        let second = *a.add((2 * pair + 1) * MR + m);
                        for c in 0..COLUMNS {
                            sum[c] += f32::from_bits(words[c] << 16) * first;
                            sum[c] += f32::from_bits(words[c] & 0xffff_0000) * second;
                        }
                    }
                    if !S::SCALED {
                        acc[m][p] = sum;
                    } else if t.scaled_a {
                        let (first, second) = (*a.add(BLOCK * MR + m), *a.add((BLOCK + 1) * MR + m));
                        for c in 0..COLUMNS {
                            acc[m][p][c] += sum[c] * first * scales[c] * second;
                        }
                    } else {
                        for c in 0..COLUMNS {
                            acc[m][p][c] += sum[c] * scales[c];
                        }
                    }
                }
            }
        }
        for m in 0..MR {
            for p in 0..NP {
                t.acc.add(m * t.ld + p * COLUMNS).cast::<[f32; COLUMNS]>().write_unaligned(acc[m][p]);
            }
        }
    }
}
