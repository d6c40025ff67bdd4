//! Readying an activation: `kernels/hip/quantise.hip` quantises row-major bf16 and packs it into layout
//! [`mfma16`], or rotated into AITER's `c0c1`, in one launch that a GEMM's plan begins with.
//!
//! Invariants: codes and scales have the bits that [`mfma16::pack`] gives for what
//! [`snap_activation`](crate::reference::snap_activation) makes of the same rows; only the panels that hold a row below M are written, so
//! that a decode step with one token does not zero 63 rows that no kernel reads.

use super::launch::{Arg, Scratch, Source, Step};
use super::mfma16;
use crate::format::Format;

const THREADS: u32 = 256;

/// The kernel's text.
const TEXT: &str = concat!(
    include_str!("../../../hip/prelude.hip"),
    "#line 1 \"quantise.hip\"\n",
    include_str!("../../../hip/quantise.hip")
);

/// A format's number in the kernels' macros, or `None` for one that no matrix instruction takes.
pub(super) const fn number(format: Format) -> Option<u32> {
    match format {
        Format::Bf16 => Some(0),
        Format::Fp8E4m3 | Format::Fp8E4m3Fnuz => Some(1),
        Format::MxFp8 => Some(2),
        Format::MxFp6E2m3 => Some(3),
        Format::MxFp6E3m2 => Some(4),
        Format::MxFp4 => Some(5),
        Format::Fp8E5m2 | Format::MxInt8 => None,
    }
}

/// Buffers of an activation of M rows in a format: codes, then scales (none in bf16).
pub fn scratch(format: Format, m: u32, k: u32) -> Vec<Scratch> {
    let [m, k] = [m, k].map(|d| d as usize);
    buffers([mfma16::code_bytes(format, m, k), mfma16::scale_bytes(format, m, k)])
}

/// Buffers of an activation in layout `c0c1`: panels of 256 rows, each with two steps of 128 along K more than K has.
pub fn c0c1_scratch(m: u32, k: u32) -> Vec<Scratch> {
    let tiles = m.div_ceil(256) as usize * (mfma16::steps(k as usize) + 2);
    buffers([tiles * 4 * mfma16::step_bytes(Format::MxFp6E2m3), tiles * 1024])
}

fn buffers(bytes: [usize; 2]) -> Vec<Scratch> {
    bytes.into_iter().filter(|&bytes| bytes > 0).map(|bytes| Scratch { bytes, zeroed: false }).collect()
}

/// The step that packs M rows into the buffers of [`scratch`], which begin at position `first` of the plan's.
///
/// # Panics
/// For a format that no HIP kernel multiplies activations in. FP8 is the architecture's own: [`Format::Fp8E4m3Fnuz`] on
/// gfx942, [`Format::Fp8E4m3`] on gfx950.
pub fn step(format: Format, m: u32, k: u32, first: usize) -> Step {
    launch(format, false, [m, k], first)
}

/// The step that rotates M rows, quantises them to MXFP6 E2M3 as AITER does, and packs them into the buffers of
/// [`c0c1_scratch`], which begin at position `first` of the plan's.
pub fn c0c1_step(m: u32, k: u32, first: usize) -> Step {
    launch(Format::MxFp6E2m3, true, [m, k], first)
}

fn launch(format: Format, c0c1: bool, [m, k]: [u32; 2], first: usize) -> Step {
    let number = number(format).unwrap_or_else(|| panic!("no HIP kernel packs activations in {format}"));
    let panels = m.div_ceil(mfma16::PANEL_ROWS as u32);
    let steps = k.div_ceil(mfma16::STEP_K as u32);
    let waves = THREADS / 64;
    let grid = match number {
        0 => [(4 * steps).div_ceil(waves), panels],
        1 => [panels * mfma16::PANEL_ROWS as u32, 1],
        _ => [steps.div_ceil(waves), panels],
    };
    // bf16 has no scales; the kernel does not touch its pointer.
    let scales = if format == Format::Bf16 { first } else { first + 1 };
    Step {
        source: Source {
            file: "quantise.hip",
            text: TEXT,
            entry: "quantise",
            defines: vec![format!("FORMAT={number}"), format!("C0C1={}", u32::from(c0c1))],
        },
        grid,
        threads: THREADS,
        lds_bytes: 0,
        args: vec![Arg::Activation, Arg::Scratch(first), Arg::Scratch(scales), Arg::U32(m), Arg::U32(k)],
        packs_activation: true,
    }
}
