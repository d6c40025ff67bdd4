//! The HIP backend's kernels, compiled by clang and executed instruction by instruction.
//!
//! A plan is carried out as the host carries it out, with data on its way to LDS landing early, late and at random, in three
//! orders of waves, into poisoned outputs, and compared with the float64 reference. Where `TILEWRIGHT_HIP_CLANG` does
//! not name a compiler (see `ci/hip-clang.sh`) the tests say that they were skipped.

mod assembly;
mod gemm;
mod gemm_compiled;
mod harness;
mod layout;
mod naive;
mod quantise;
mod skinny;
mod skinny_compiled;
