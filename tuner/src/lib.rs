//! The tuner: from a model declaration to a compiled dispatch table.

pub mod bench;
pub mod check;
pub mod cli;
#[cfg(feature = "cuda")]
pub mod code;
pub mod compare;
pub mod devices;
pub mod diag;
pub mod files;
pub mod gate;
pub mod import;
pub mod journal;
pub mod lint;
pub mod operands;
pub mod race;
pub mod replay;
pub mod search;
pub mod shapes;
pub mod stats;
pub mod table;
pub mod tune;
pub mod units;
