//! The HIP backend: kernels of our own for MI300X (gfx942) and MI355X (gfx950), compiled at run time.
//!
//! The families and their rules are built always (`no_std`: dispatch evaluates them). What a launch needs is a
//! [`launch::Plan`] (feature `std`, no GPU), which the host and the emulator's tests both carry out, so that what is
//! proven in CI is what an owner of the hardware runs.

pub mod c0c1;
#[cfg(feature = "std")]
pub mod compile;
pub mod gemm;
#[cfg(feature = "hip")]
mod host;
#[cfg(feature = "std")]
pub mod launch;
pub mod mfma16;
pub mod naive;
#[cfg(feature = "std")]
pub mod objects;
#[cfg(feature = "std")]
pub mod quantise;
pub mod skinny;

use crate::family::Family;
#[cfg(feature = "std")]
use crate::{
    config::Config, device::Device, family::Reject, format::quantize::Quantized, layout::Layout,
    problem::Problem,
};
#[cfg(feature = "hip")]
pub use host::{Conditions, DeviceMemory, DeviceWeight, Hip, HipSession, Launchable, toolchain};

/// The HIP families, by name.
pub static FAMILIES: &[&Family] = &[
    &gemm::BF16,
    &gemm::FP8,
    &gemm::MXFP4,
    &gemm::MXFP6,
    &gemm::MXFP8,
    &naive::NAIVE,
    &skinny::BF16,
    &skinny::FP8,
    &skinny::MXFP6,
];

/// What a launch of a config needs, or `None` for a family of another backend.
#[cfg(feature = "std")]
pub fn plan(config: &Config, problem: &Problem, device: &Device) -> Option<launch::Plan> {
    match config.family().name {
        "hip.naive" => Some(naive::plan(config, problem)),
        _ if gemm::is_gemm(config.family()) => Some(gemm::plan::plan(config, problem, device)),
        _ if skinny::is_skinny(config.family()) => Some(skinny::plan::plan(config, problem)),
        _ => None,
    }
}

/// The parts of a weight in a layout that HIP kernels read.
///
/// # Errors
/// If no HIP kernel reads this format in this layout.
#[cfg(feature = "std")]
pub fn pack(weight: &Quantized, layout: Layout) -> Result<Vec<Vec<u8>>, Reject> {
    match layout {
        Layout::RowMajor => naive::pack(weight),
        Layout::Mfma16 => mfma16::pack(weight).map(|packed| vec![packed.codes, packed.scales]),
        Layout::C0c1 => c0c1::pack(weight).map(|packed| vec![packed.codes, packed.scales]),
        _ => Err(Reject::problem("no HIP kernel reads this layout")),
    }
}
