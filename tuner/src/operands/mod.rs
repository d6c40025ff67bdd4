//! The numbers that kernels are checked and timed on: real weights where the user gives them, else random data shaped
//! like a transformer's.

/// The seed of the operands a run tunes with: the same for every run, so that equal declarations meet equal data.
pub const SEED: u64 = 1;

mod random;
mod weights;

pub use random::{activation, adversarial_activation, weight};
pub use weights::{Stack, WeightFile};
