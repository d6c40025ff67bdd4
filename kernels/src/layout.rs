//! How a weight lies in memory. The tag is part of a kernel's identity: a kernel reads the layout it was built for,
//! and a weight is stored in one layout, so all rows of a table for that weight share it.

use crate::problem::named_enum;

named_enum! {
    /// A weight layout.
    Layout {
        /// N rows of K dense elements, scales in a separate N × K/32 array.
        RowMajor = "row_major",
        /// 16-column panels in blocks of 32 along K, version 1 of the CPU's pre-packed layout; see `cpu::pack`.
        Panel16 = "panel16",
        /// As `panel16`, two neighbouring panels interleaved block by block.
        Panel16x2 = "panel16x2",
        /// As `panel16`, four neighbouring panels interleaved block by block.
        Panel16x4 = "panel16x4",
        /// Slabs of 64 rows in steps of 128 along K, each lane's `mma` fragments together, version 1 of the CUDA
        /// kernels' layout; see `cuda::pack`.
        Mma64 = "mma64",
        /// Slabs of 64 rows in steps of 128 along K, each lane's MFMA operand in 16-byte vectors, version 1 of the HIP
        /// kernels' layout; see `hip::mfma16`.
        Mfma16 = "mfma16",
        /// Panels of 256 rows in steps of 128 along K, rotated: what ROCm's AITER packs for its MXFP6 kernels
        /// (`mxfp6_c0c1_256_padk2`); see `hip::c0c1`.
        C0c1 = "c0c1",
    }
}

impl Layout {
    /// Whether the CPU's kernels read it.
    pub const fn is_cpu(self) -> bool {
        matches!(self, Layout::RowMajor | Layout::Panel16 | Layout::Panel16x2 | Layout::Panel16x4)
    }

    /// Panels interleaved block by block, or `None` where there are none of the CPU's panels.
    pub const fn interleave(self) -> Option<u32> {
        match self {
            Layout::RowMajor | Layout::Mma64 | Layout::Mfma16 | Layout::C0c1 => None,
            Layout::Panel16 => Some(1),
            Layout::Panel16x2 => Some(2),
            Layout::Panel16x4 => Some(4),
        }
    }
}
