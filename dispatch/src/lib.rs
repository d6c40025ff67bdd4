//! What an inference engine links: table types, lookup ladder and launch.
//!
//! A generated module holds a [`TableData`]; [`Table::bind`] resolves its kernels once against a device; after that
//! [`Table::lookup`] answers, for any problem, which kernel to run and how that is known ([`Provenance`]):
//!
//! 1. exact: this (N, K, formats, layout, …) was measured at this M;
//! 2. interval: it was measured at a neighbouring M;
//! 3. nearest: another weight of the same formats and layout, within a bounded log distance, was measured;
//! 4. analytic: the table's kernel with the least estimated time;
//! 5. default: the family's fallback, launchable for every M.
//!
//! Every answer is one that [`tilewright_kernels::is_launchable`] allows for the real problem. The feature `cpu` (default)
//! adds the executor, which quantises, lays out and runs weights on the CPU; `hip` that for AMD GPUs; `std`, which both
//! imply, the recorder of misses.
//!
//! Invariants:
//! * this crate knows no tuner and reads no clock;
//! * the core is `no_std`; binding allocates, a lookup does not;
//! * a lookup is a pure function of table, device and request: counting is separate ([`Table::choose`]);
//! * no table, however damaged, makes a lookup panic: what does not resolve is a [`BindFault`] and is passed over.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod bind;
pub mod counters;
#[cfg(feature = "cpu")]
pub mod exec;
#[cfg(feature = "hip")]
pub mod hip;
pub mod key;
pub mod lookup;
#[cfg(feature = "std")]
pub mod misses;
mod nearest;
mod proven;
#[cfg(feature = "std")]
pub mod record;
pub mod table;

pub use bind::{BindFault, KernelFault, Table};
pub use counters::{Counters, Counts, Tally};
pub use key::Key;
pub use lookup::{Choice, Chosen, NoKernel, Provenance, Request, Row, RowRef};
#[cfg(feature = "std")]
pub use misses::{Miss, Misses};
pub use table::TableData;
/// The vocabulary and the kernels, so that an engine names this crate alone.
pub use tilewright_kernels as kernels;
