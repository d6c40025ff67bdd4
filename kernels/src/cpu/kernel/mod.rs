//! Micro-kernels: one register tile of `MR` rows × `NP` panels over a run of blocks along K.
//!
//! All kernels share [`Tile`] and one order of accumulation per element (blocks along K, pair vectors within a block),
//! so a config's result does not depend on tile size, cache blocking or threads. Within a block of an MX format the
//! products are summed first and the block's scale is applied to the sum in f32, never to the elements.
//!
//! [`Source`] says what the weight pointer points at; [`kernel`] finds the function for a path, a source and a tile.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod decode;
#[cfg(target_arch = "x86_64")]
pub(super) mod decode512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sources;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod widen;

use crate::cpu::families::Path;
use crate::cpu::pack::{BLOCK, COLUMNS, block_bytes};
use crate::cpu::tables::Tables;
use crate::format::Format;

/// What a kernel reads its weights from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Packed blocks of this format, decoded on the way.
    Packed(Format),
    /// Decoded blocks without scales.
    Decoded,
    /// Decoded blocks, each followed by the 16 f32 scales of its columns.
    DecodedScaled,
}

/// Bytes of a decoded block: 16 pair vectors of `[16 columns][2]` bf16 in native words, first k in the low half.
pub(super) const DECODED: usize = BLOCK * COLUMNS * 2;
/// Bytes of a block decoded for `vpdpbusd`: 8 groups of `[16 columns][4]` biased bytes.
pub(super) const BIASED: usize = BLOCK * COLUMNS;
/// Bytes of a decoded block's scales.
pub(super) const SCALES: usize = COLUMNS * 4;

impl Source {
    /// Bytes from one block of a panel to its next, where panels are not interleaved.
    pub(super) fn block_bytes(self, path: Path) -> usize {
        let elements = if path == Path::Avx512Vnni { BIASED } else { DECODED };
        match self {
            Source::Packed(format) => block_bytes(format),
            Source::Decoded => elements,
            Source::DecodedScaled => elements + SCALES,
        }
    }
}

/// How a path's activation block lies: for one row tile of `MR` rows, `[slot][MR]` words, then per-block words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    /// 16 words of two bf16, in the order of pair vectors.
    Pairs,
    /// 32 f32, in the order of pair vectors.
    Singles,
    /// 8 words of four signed bytes (value · 8), then −60 times their sum.
    Bytes,
}

impl Slots {
    pub(super) const fn of(path: Path) -> Self {
        match path {
            Path::Avx512Bf16 => Slots::Pairs,
            Path::Avx512Vnni => Slots::Bytes,
            Path::Portable | Path::Avx2 | Path::Avx512 => Slots::Singles,
        }
    }

    /// 4-byte words of one row of a block. A block-scaled activation has two factors more: see [`Tile::scaled_a`].
    pub(super) const fn words(self, scaled: bool) -> usize {
        let elements = match self {
            Slots::Pairs => BLOCK / 2,
            Slots::Singles => BLOCK,
            Slots::Bytes => BLOCK / 4 + 1,
        };
        elements + if scaled { 2 } else { 0 }
    }
}

/// The arguments of a micro-kernel.
///
/// A caller guarantees that the processor has the kernel's features, that `weight` points at `NP` panels of `blocks`
/// blocks with these strides, `a` at `blocks` packed activation blocks of `MR` rows, and `acc` at `MR` rows of `16·NP`
/// f32, `ld` apart, that nobody else touches.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// First block of the first panel.
    pub(super) weight: *const u8,
    /// Bytes from a panel to the next.
    pub(super) panel_stride: usize,
    /// Bytes from a block to the next of the same panel.
    pub(super) block_stride: usize,
    /// Blocks along K.
    pub(super) blocks: usize,
    /// The row tile's activation.
    pub(super) a: *const u8,
    /// The tile's accumulators.
    pub(super) acc: *mut f32,
    /// f32 from a row of accumulators to the next.
    pub(super) ld: usize,
    /// Start from zero instead of from `acc`.
    pub(super) fresh: bool,
    /// Bytes ahead to prefetch weights; 0: none.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "portable code cannot prefetch"))]
    pub(super) prefetch: usize,
    /// Whether activation blocks end with two factors per row whose product is the block's scale. Two, because the
    /// product of an activation's and a weight's scale need not be an f32: sum · first · weight scale · second neither
    /// over- nor underflows where the result does not. (`[MR]` first factors, then `[MR]` second.)
    pub(super) scaled_a: bool,
    /// The weight format's tables.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "portable code computes instead"))]
    pub(super) tables: &'static Tables,
}

/// A micro-kernel for one path, source, number of rows and number of panels.
pub(super) type Kernel = unsafe fn(&Tile);

/// Rows for which kernels exist, ascending: the domain of `tile_m`.
pub(super) const ROWS: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12];

/// The kernel, or `None` where the path has no such tile or the source is not one it reads.
pub(super) fn kernel(path: Path, source: Source, rows: usize, panels: usize) -> Option<Kernel> {
    match path {
        Path::Portable => portable::kernel(source, rows, panels),
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => avx2::kernel(source, rows, panels),
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 => avx512::kernel_f32(source, rows, panels),
        #[cfg(target_arch = "x86_64")]
        Path::Avx512Bf16 => avx512::kernel_bf16(source, rows, panels),
        #[cfg(target_arch = "x86_64")]
        Path::Avx512Vnni => vnni::kernel(source, rows, panels),
        #[cfg(not(target_arch = "x86_64"))]
        _ => None,
    }
}

/// Picks `$f::<$source, rows, panels>` among the listed tiles.
macro_rules! pick {
    ($f:ident, [$source:ty], $rows:expr, $panels:expr, { $($np:literal: [$($mr:literal),+]),+ $(,)? }) => {
        match ($panels, $rows) {
            $($(($np, $mr) => Some($f::<$source, $mr, $np> as $crate::cpu::kernel::Kernel),)+)+
            _ => None,
        }
    };
}
pub(super) use pick;
