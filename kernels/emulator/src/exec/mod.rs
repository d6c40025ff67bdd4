//! The units that carry out decoded instructions on a wave.

pub(crate) mod convert;
pub(crate) mod crosslane;
pub(crate) mod float;
pub(crate) mod lds;
pub(crate) mod matrix;
mod operands;
pub(crate) mod scalar;
pub(crate) mod simd;
pub(crate) mod smem;
mod special;
pub(crate) mod vector;
pub(crate) mod vmem;
pub(crate) mod wave;
