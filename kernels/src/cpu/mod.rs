//! The CPU backend: the default that works on every machine.
//!
//! `families` declares the parameter spaces and their rules (no_std: dispatch evaluates them); everything else is the
//! implementation, behind the feature `std`.

mod families;

pub use families::{FAMILIES, PANEL, Path, SKINNY_MAX_M, Tiling};
