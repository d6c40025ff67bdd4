//! Plain Rust, f32 arithmetic: works everywhere, and what the other paths are compared with.

use super::{DECODED, Kernel, SCALES, Source, Tile, decode, pick};
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
        Source::Packed(Format::Fp8E4m3 | Format::Fp8E4m3Fnuz | Format::Fp8E5m2) => tiles!(Fused<Fp8>),
        Source::Packed(Format::MxFp8) => tiles!(Fused<MxFp8>),
        Source::Packed(Format::MxFp6E2m3 | Format::MxFp6E3m2) => tiles!(Fused<MxFp6>),
        Source::Packed(Format::MxFp4) => tiles!(Fused<MxFp4>),
    }
}

/// Where a block's pair vectors and scales come from.
pub(super) trait Blocks {
    /// Whether blocks have scales.
    const SCALED: bool;
    /// Bytes of a block.
    const BYTES: usize;

    /// Gives the pair vectors of the block at `block`, decoding into `space` if need be, and its scales.
    ///
    /// # Safety
    /// `block` points at a block of this kind.
    unsafe fn load<'a>(block: *const u8, tile: &Tile, space: &'a mut decode::Pairs) -> Block<'a>;
}

/// One block, decoded.
pub(super) struct Block<'a> {
    pub(super) pairs: &'a decode::Pairs,
    pub(super) scales: [f32; COLUMNS],
}

/// Scratch: nothing to decode.
pub(super) struct Ready<const SCALED: bool>;

impl<const SCALED: bool> Blocks for Ready<SCALED> {
    const SCALED: bool = SCALED;
    const BYTES: usize = DECODED + if SCALED { SCALES } else { 0 };

    #[inline(always)]
    unsafe fn load<'a>(block: *const u8, _: &Tile, _: &'a mut decode::Pairs) -> Block<'a> {
        // SAFETY: scratch blocks are aligned to 64 bytes and hold DECODED bytes of pairs, then their scales.
        unsafe {
            let pairs = &*block.cast::<decode::Pairs>();
            let scales =
                if SCALED { block.add(DECODED).cast::<[f32; COLUMNS]>().read() } else { [1.0; COLUMNS] };
            Block { pairs, scales }
        }
    }
}

const _: () = assert!(size_of::<decode::Pairs>() == DECODED && size_of::<[f32; COLUMNS]>() == SCALES);

/// Packed blocks of the bit width of `F`. Formats of one width differ only in their tables.
pub(super) struct Fused<F: Width>(core::marker::PhantomData<F>);

/// A format that stands for all of its bit width and scaling.
pub(super) trait Width {
    const FORMAT: Format;
}

macro_rules! widths {
    ($($name:ident = $format:ident),+) => {$(
        pub(super) struct $name;
        impl Width for $name {
            const FORMAT: Format = Format::$format;
        }
    )+};
}
widths!(Bf16 = Bf16, Fp8 = Fp8E4m3, MxFp8 = MxFp8, MxFp6 = MxFp6E2m3, MxFp4 = MxFp4);

impl<F: Width> Blocks for Fused<F> {
    const SCALED: bool = F::FORMAT.is_mx();
    const BYTES: usize = block_bytes(F::FORMAT);

    #[inline(always)]
    unsafe fn load<'a>(block: *const u8, tile: &Tile, space: &'a mut decode::Pairs) -> Block<'a> {
        // SAFETY: `block` points at a packed block of this width.
        let block = unsafe { core::slice::from_raw_parts(block, Self::BYTES) };
        decode::packed_block(F::FORMAT, tile.tables, block, space);
        let mut scales = [1.0; COLUMNS];
        if Self::SCALED {
            decode::scales(&block[Self::BYTES - COLUMNS..], &mut scales);
        }
        Block { pairs: space, scales }
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
                let Block { pairs, scales } = S::load(w, t, space);
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
