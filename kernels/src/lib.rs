//! The vocabulary of tilewright and its kernels.
//!
//! A [`Problem`] is one GEMM, `D[M,N] = epilogue(A[M,K] · B[N,K]ᵀ)`. A [`Family`] is a kernel implementation with a
//! parameter space, a [`Config`] one point of it, and [`is_launchable`] the one predicate that says whether a config
//! can run a problem on a [`Device`]. Tuner, table compiler and runtime all call that same function.
//!
//! The crate has two halves. The vocabulary is `no_std` and allocates nothing; it is what the dispatch core links.
//! The feature `std` (default) adds what computes: format codecs, the float64 reference and the backends.
//!
//! Invariants:
//! * this crate knows no tables, no statistics and no clock but the one a backend times a launch with;
//! * the identity of a kernel is its canonical text ([`Config`]'s `Display`) and the hash of that text, never an index;
//! * all `unsafe` of a backend lives in that backend's module.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
pub mod backend;
pub mod config;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod family;
pub mod format;
pub mod hip;
pub mod layout;
pub mod problem;
#[cfg(feature = "std")]
pub mod reference;
#[cfg(feature = "std")]
pub mod space;

pub use config::{Config, ConfigError, ConfigId};
pub use device::{Caps, Device};
pub use family::{BackendKind, Domain, Family, Param, Reject, families, family, is_launchable};
pub use format::Format;
pub use layout::Layout;
pub use problem::{Epilogue, OutType, Problem, Scaling};
