//! The operand layout `c0c1`: ROCm AITER's `mxfp6_c0c1_256_padk2`, so that weights packed for its MXFP6 kernels run here.
//!
//! Rows are padded to panels of 256 and K to steps of 128, and each panel ends in two guard steps. Of a panel's step the
//! codes are 24576 bytes: with `b = 64·(row / 16) + 16·(k / 32) + row % 16` (row in the panel, k in the step), the first
//! 16 bytes of a lane's stream of 32 codes lie at `16b` and the last 8 at `16384 + 8b`. The scales are 1024 bytes, the
//! byte of row `r` and block `g` at `512·(r / 128) + 128g + 8·(r % 16) + r % 128 / 16`. Padding is zero codes and scale 1.
//!
//! Both operands are E2M3 by AITER's rule and rotated (see [`crate::format::aiter`] and [`crate::format::hadamard`]):
//! that is part of the layout. Source: `aiter/ops/gemm_op_a6w6.py` of github.com/ROCm/aiter at 08481f1b, `pack_big` and
//! `pack_scale`. The kernels multiply such operands by 16x16x128 instructions in ascending order of K without splitting it, as
//! far as is known AITER's order too; nothing here was compared with AITER's own results on hardware.

#[cfg(feature = "std")]
use crate::family::Reject;
#[cfg(feature = "std")]
use crate::format::{Format, MX_BLOCK, e8m0, e8m0::ScaleRule, quantize::Quantized};
use crate::hip::mfma16;
#[cfg(feature = "std")]
use crate::hip::mfma16::Packed;

/// Rows of a panel, to which rows are padded.
pub const PANEL_ROWS: usize = 256;
/// Steps behind each panel that hold nothing.
pub const GUARD_STEPS: usize = 2;
/// Bytes of codes of a panel's step.
pub const STEP_BYTES: usize = 24576;
/// Bytes of scales of a panel's step.
pub const STEP_SCALE_BYTES: usize = 1024;

/// Steps of all panels, guards included.
const fn stored_steps(rows: usize, k: usize) -> usize {
    rows.div_ceil(PANEL_ROWS) * (mfma16::steps(k) + GUARD_STEPS)
}

/// Bytes of codes of a whole operand.
pub const fn code_bytes(rows: usize, k: usize) -> usize {
    stored_steps(rows, k) * STEP_BYTES
}

/// Bytes of scales of a whole operand.
pub const fn scale_bytes(rows: usize, k: usize) -> usize {
    stored_steps(rows, k) * STEP_SCALE_BYTES
}

/// Packs an operand, a weight or an activation.
///
/// # Errors
/// If it is not MXFP6 E2M3, rotated, with scales by AITER's rule.
#[cfg(feature = "std")]
pub fn pack(operand: &Quantized) -> Result<Packed, Reject> {
    let Quantized { format, rows, k, options, .. } = *operand;
    if format != Format::MxFp6E2m3 || !options.hadamard || options.rule != ScaleRule::Aiter {
        return Err(Reject::problem("layout c0c1 holds rotated MXFP6 E2M3 with scales by AITER's rule"));
    }
    let mut codes = vec![0; code_bytes(rows, k)];
    let mut scales = vec![e8m0::ONE; scale_bytes(rows, k)];
    let (blocks, stored) = (k / MX_BLOCK, mfma16::steps(k) + GUARD_STEPS);
    for row in 0..rows {
        let (panel, r) = (row / PANEL_ROWS, row % PANEL_ROWS);
        for (block, stream) in operand.row_codes(row).chunks_exact(24).enumerate() {
            let (step, g) = (panel * stored + block / 4, block % 4);
            let to = &mut codes[step * STEP_BYTES..][..STEP_BYTES];
            let b = 64 * (r / 16) + 16 * g + r % 16;
            to[16 * b..][..16].copy_from_slice(&stream[..16]);
            to[16384 + 8 * b..][..8].copy_from_slice(&stream[16..]);
            let at = step * STEP_SCALE_BYTES + 512 * (r / 128) + 128 * g + 8 * (r % 16) + r % 128 / 16;
            scales[at] = operand.block_scales[row * blocks + block];
        }
    }
    Ok(Packed { codes, scales })
}
