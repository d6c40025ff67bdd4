//! The CPU backend: the default that works on every machine.
//!
//! `families` declares the parameter spaces and their rules (no_std: dispatch evaluates them); everything else is the
//! implementation, behind the feature `std`:
//!
//! * `pack`: weight layouts; `activation`: row tiles of A; `output`: the epilogue;
//! * `kernel`: micro-kernels per numeric path, which decode weights in registers;
//! * `gemm` binds a config to a problem, `nest` runs the loops, `team` is the threads;
//! * `detect` describes the machine, `session` runs and times configs behind [`crate::backend::Backend`].

#[cfg(feature = "std")]
mod activation;
#[cfg(feature = "std")]
mod buffer;
#[cfg(feature = "std")]
mod detect;
#[cfg(feature = "std")]
mod evict;
mod families;
#[cfg(feature = "std")]
mod gemm;
#[cfg(feature = "std")]
mod kernel;
#[cfg(feature = "std")]
mod nest;
#[cfg(feature = "std")]
mod output;
#[cfg(feature = "std")]
mod pack;
mod prior;
mod redundant;
#[cfg(all(feature = "std", debug_assertions))]
#[doc(hidden)]
pub mod sabotage;
#[cfg(feature = "std")]
mod scratch;
#[cfg(feature = "std")]
mod session;
#[cfg(feature = "std")]
mod snap;
#[cfg(feature = "std")]
mod tables;
#[cfg(feature = "std")]
mod team;

#[cfg(feature = "std")]
pub use activation::Activation;
#[cfg(feature = "std")]
pub use detect::Cpu;
pub use families::{FAMILIES, PANEL, Path, SKINNY_MAX_M, Tiling};
#[cfg(feature = "std")]
pub use gemm::{Gemm, max_workspace_bytes};
#[cfg(feature = "std")]
pub use output::Output;
#[cfg(feature = "std")]
pub use pack::PackedWeight;
