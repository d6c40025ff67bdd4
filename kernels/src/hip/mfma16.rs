//! The operand layout `mfma16`, version 1: every lane's matrix-instruction operand in 16-byte vectors, in the order in
//! which a wave reads them. Weights and packed activations, tiled and skinny kernels, gfx942 and gfx950 share it.
//!
//! Rows are padded to slabs of [`SLAB_ROWS`] = 64 and K to [`STEP_K`] = 128, both with zero codes. The unit is a *step*:
//! 64 rows × 128 along K, the steps of a slab one after another, slab after slab. In a step, row `16j + i` (`j` the
//! panel, `i` < 16) belongs to lanes `16g + i`, g = 0 … 3, and each lane owns 32 of the 128 elements:
//!
//! | bits | planes of a step | lane 16g + i of plane p holds | bytes a step |
//! |---|---|---|---|
//! | 16 | 4 of 16 bytes a lane | k = 32p + 8g … + 7 | 16384 |
//! | 8 | 2 of 16 bytes a lane | k = 64p + 16g … + 15 | 8192 |
//! | 6 | 16 bytes, then 8 bytes a lane | k = 32g … + 31 as one little-endian stream of 24 bytes | 6144 |
//! | 4 | 1 of 16 bytes a lane | k = 32g … + 31, low nibble first | 4096 |
//!
//! Plane `p` begins at byte 4096p; in it panel `j` at 1024j and lane `l` at 16l (in the 8-byte plane of 6-bit formats
//! 512j and 8l). So one wave moves a panel of a plane with a single 16-byte load a lane, and reads it back from LDS
//! without bank conflicts. The elements of a lane are those of
//!
//! * gfx950 `v_mfma_scale_f32_16x16x128_f8f6f4`: a lane's planes one after another, for 4, 6 and 8 bits;
//! * gfx950 `v_mfma_f32_16x16x32_bf16`: one plane each;
//! * gfx942 `v_mfma_f32_16x16x32_fp8_fp8` and `16x16x16_bf16`: half a vector each, with K permuted within 64 or 32, the
//!   same in both operands;
//! * `v_smfmac_f32_16x16x64_fp8_fp8`: one plane of the dense operand;
//! * the 32-row forms: rows of two neighbouring panels, the instruction's lane `32h + r` taking lane `16g + r % 16` of
//!   panel `2q + r / 16`, with g = 2s + h for its s-th half of a plane's (6, 4 bits: the step's) K.
//!
//! Scales are a part of their own. MX: 256 bytes a step, the byte of row `16j + i` and block `g` (k = 32g … + 31) at
//! `4·(16g + i) + j`, so that lane `16g + i` finds the scales of its four panels in one dword and `op_sel` chooses the
//! panel. FP8: one f32 for each padded row, the weight's or token's factor. bf16: none. Scales of padding are 1.

#[cfg(feature = "std")]
use crate::family::Reject;
use crate::format::Format;
#[cfg(feature = "std")]
use crate::format::{e8m0, quantize::Quantized};
#[cfg(feature = "std")]
use crate::problem::Scaling;

/// Rows of a slab, to which rows are padded.
pub const SLAB_ROWS: usize = 64;
/// K of a step, to which K is padded.
pub const STEP_K: usize = 128;
/// Rows of a panel: one operand of a 16-row matrix instruction.
pub const PANEL_ROWS: usize = 16;
/// Bytes of a step's E8M0 scales.
pub const STEP_SCALE_BYTES: usize = 256;

/// Slabs that hold so many rows.
pub const fn slabs(rows: usize) -> usize {
    rows.div_ceil(SLAB_ROWS)
}

/// Steps along K.
pub const fn steps(k: usize) -> usize {
    k.div_ceil(STEP_K)
}

/// Bytes of codes of one step: 64 rows × 128.
pub const fn step_bytes(format: Format) -> usize {
    SLAB_ROWS * STEP_K / 8 * format.bits()
}

/// Bytes of codes of a whole operand.
pub const fn code_bytes(format: Format, rows: usize, k: usize) -> usize {
    slabs(rows) * steps(k) * step_bytes(format)
}

/// Bytes of scales of a whole operand; 0 for bf16.
pub const fn scale_bytes(format: Format, rows: usize, k: usize) -> usize {
    match format {
        Format::Bf16 => 0,
        _ if format.is_mx() => slabs(rows) * steps(k) * STEP_SCALE_BYTES,
        _ => slabs(rows) * SLAB_ROWS * 4,
    }
}

/// Where, in a step's codes, byte `at` of row `row`'s dense 128 elements lies (row < 64).
pub const fn place(format: Format, row: usize, at: usize) -> usize {
    let (panel, i) = (row / PANEL_ROWS, row % PANEL_ROWS);
    if format.bits() == 6 {
        let (lane, byte) = (16 * (at / 24) + i, at % 24);
        return if byte < 16 {
            1024 * panel + 16 * lane + byte
        } else {
            4096 + 512 * panel + 8 * lane + byte - 16
        };
    }
    let (vector, byte) = (at / 16, at % 16);
    4096 * (vector / 4) + 1024 * panel + 16 * (16 * (vector % 4) + i) + byte
}

/// An operand in layout `mfma16`.
#[cfg(feature = "std")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Codes, [`code_bytes`] of them.
    pub codes: Vec<u8>,
    /// Scales, [`scale_bytes`] of them.
    pub scales: Vec<u8>,
}

/// Packs an operand, a weight or an activation.
///
/// # Errors
/// If the operand is rotated: kernels that read this layout do not rotate activations.
#[cfg(feature = "std")]
pub fn pack(operand: &Quantized) -> Result<Packed, Reject> {
    if operand.options.hadamard {
        return Err(Reject::problem("layout mfma16 does not hold rotated operands"));
    }
    let Quantized { format, rows, k, .. } = *operand;
    let (steps, step_bytes, row_bytes) = (steps(k), step_bytes(format), format.row_bytes(STEP_K));
    let mut codes = vec![0; code_bytes(format, rows, k)];
    // Every format's codes lie dense in whole vectors but for 6 bits, whose streams of 24 bytes are 16 and 8.
    let run = if format.bits() == 6 { 8 } else { 16 };
    for row in 0..rows {
        let first = row / SLAB_ROWS * steps * step_bytes;
        for (step, dense) in operand.row_codes(row).chunks(row_bytes).enumerate() {
            for (v, bytes) in dense.chunks(run).enumerate() {
                let to = first + step * step_bytes + place(format, row % SLAB_ROWS, v * run);
                codes[to..to + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
    Ok(Packed { codes, scales: pack_scales(operand) })
}

#[cfg(feature = "std")]
fn pack_scales(operand: &Quantized) -> Vec<u8> {
    let Quantized { format, rows, k, .. } = *operand;
    if format == Format::Bf16 {
        return Vec::new();
    }
    if !format.is_mx() {
        let factor = |row: usize| match operand.scaling {
            _ if row >= rows => 1.0,
            Scaling::Tensor => operand.scales[0],
            _ => operand.scales[row],
        };
        return (0..slabs(rows) * SLAB_ROWS).flat_map(|row| f32::to_le_bytes(factor(row))).collect();
    }
    let mut scales = vec![e8m0::ONE; scale_bytes(format, rows, k)];
    let blocks = k / crate::format::MX_BLOCK;
    for row in 0..rows {
        let (slab, panel, i) = (row / SLAB_ROWS, row % SLAB_ROWS / PANEL_ROWS, row % PANEL_ROWS);
        for (block, &scale) in operand.block_scales[row * blocks..][..blocks].iter().enumerate() {
            let step = slab * steps(k) + block / 4;
            scales[step * STEP_SCALE_BYTES + 4 * (16 * (block % 4) + i) + panel] = scale;
        }
    }
    scales
}
