//! What live engines were asked for, as a declaration to tune.
//!
//! Problem: a declaration's values of M and their weights are guesses until an engine has run. Method: an engine records every
//! request with its number of calls (`tilewright_dispatch::record`); [`read()`] takes the records of all ranks, and [`declare()`]
//! adds them up: a GEMM's count is its calls, over what all counts have in common; an M's weight is the share of the rows that
//! passed at it. Neighbouring M are put together where there are more than a tuner should look at.
//!
//! Invariants: every recorded call is in the declaration, in some M; nothing is taken from the answers but what is reported.

mod declare;
mod read;

use std::collections::BTreeMap;

pub use declare::{Options, declare};
pub use read::{Request, is_record, parse, read};

/// Calls by the rung that answered, the most first.
pub fn rungs(requests: &[Request]) -> Vec<(String, u64)> {
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for request in requests {
        *calls.entry(&request.rung).or_default() += request.calls;
    }
    let mut calls: Vec<(String, u64)> = calls.into_iter().map(|(rung, n)| (rung.to_owned(), n)).collect();
    calls.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    calls
}
