//! The numbers that kernels are checked and timed on: real weights where the user gives them, else random data shaped
//! like a transformer's.

mod random;
mod weights;

pub use random::{activation, adversarial_activation, weight};
pub use weights::{Stack, WeightFile};
