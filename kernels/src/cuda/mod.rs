//! The CUDA backend: kernels of our own for Hopper (sm_90a), compiled at run time, and cuBLASLt as a family beside them.
//!
//! The families, their rules and launch geometry are built always (`no_std`: dispatch evaluates them). [`pack`] and
//! [`source`] need the feature `std` and no GPU, so that layouts and kernels are checked on machines without one. The
//! host (driver, NVRTC, sessions) is behind the feature `cuda` and loads its libraries when first used.

#[cfg(feature = "std")]
pub mod archive;
pub mod families;
#[cfg(feature = "cuda")]
mod host;
pub mod library;
#[cfg(feature = "std")]
pub mod pack;
#[cfg(feature = "std")]
pub mod source;
mod tiling;

use crate::family::Family;
use crate::format::Format;
#[cfg(feature = "cuda")]
pub use host::{Cuda, CudaSession, DeviceBuffer, DeviceGemm, DeviceOperands, DeviceWeight, compile_archive};

const MXFP6: &[Format] = &[Format::MxFp6E2m3, Format::MxFp6E3m2];

/// The CUDA families, by name.
pub static FAMILIES: &[&Family] = &[
    &library::FAMILY,
    &families::skinny("cuda.skinny_bf16", "M ≤ 64 over bf16 weights", &[Format::Bf16]),
    &families::skinny("cuda.skinny_fp8", "M ≤ 64 over FP8 E4M3 weights", &[Format::Fp8E4m3]),
    &families::skinny("cuda.skinny_mxfp6", "M ≤ 64 over MXFP6 weights", MXFP6),
    &families::tiled("cuda.tiled_bf16", "any M over bf16 weights", &[Format::Bf16]),
    &families::tiled("cuda.tiled_fp8", "any M over FP8 E4M3 weights", &[Format::Fp8E4m3]),
    &families::tiled("cuda.tiled_mxfp6", "any M over MXFP6 weights", MXFP6),
];
