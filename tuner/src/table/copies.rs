//! Weights that are stored twice: small M read one copy, large M the other.
//!
//! Few rows are bound by the bytes of the weight and many by arithmetic, so one weight may be best in a narrow format below
//! some M and in a wide one above it. The copies meet at one M, `from`: the rows below it are the first copy's, the others
//! the second's, and every row's kernels read its own copy. The declaration bounds what the copies may take together.

use tilewright_dispatch::Key;
use tilewright_kernels::{Format, Layout, Scaling};

use super::decisions::Weight;
use crate::shapes::weight_bytes;

/// The second copy of a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct SecondCopy {
    /// The first M it serves.
    pub from: u32,
    /// Format the activation is multiplied in.
    pub activation: Format,
    /// Format it is stored in.
    pub format: Format,
    /// Granularity of its scales.
    pub scaling: Scaling,
    /// Layout it is stored in.
    pub layout: Layout,
    /// The format's relative error on this weight, where it was measured.
    pub error: Option<f64>,
    /// Most MiB that both copies of one weight may take together.
    pub memory_budget_mib: u64,
}

impl Weight {
    /// What its rows are found by; those of the first copy, if there are two.
    pub fn key(&self) -> Key {
        Key {
            n: self.n,
            k: self.k,
            a: self.activation,
            b: self.format,
            scaling: self.scaling,
            layout: self.layout,
            out: self.out,
            epilogue: self.epilogue,
        }
    }

    /// What its second copy's rows are found by.
    pub fn second_key(&self) -> Option<Key> {
        let SecondCopy { activation, format, scaling, layout, .. } = *self.second.as_ref()?;
        Some(Key { a: activation, b: format, scaling, layout, ..self.key() })
    }

    /// What the row for `m` is found by.
    pub fn key_at(&self, m: u32) -> Key {
        let second = self.second.as_ref().filter(|second| m >= second.from);
        second.and_then(|_| self.second_key()).unwrap_or_else(|| self.key())
    }

    /// The formats it is stored in, one or two.
    pub fn formats(&self) -> Vec<Format> {
        let second = self.second.as_ref().map(|second| second.format);
        [self.format].into_iter().chain(second.filter(|format| *format != self.format)).collect()
    }

    /// Bytes of one weight, all copies together, without what layouts pad.
    pub fn bytes(&self) -> u128 {
        let second = self.second.as_ref().map_or(0, |second| weight_bytes(self.n, self.k, second.format));
        weight_bytes(self.n, self.k, self.format) + second
    }
}

/// What is wrong with a weight's second copy: field, message, help.
pub(super) fn faults(weight: &Weight) -> Vec<(&'static str, String, &'static str)> {
    let Some(second) = &weight.second else { return Vec::new() };
    let mut faults = Vec::new();
    if weight.second_key() == Some(weight.key()) {
        let message = "is the first copy again: same formats and layout".to_owned();
        faults.push(("second", message, "leave it out: one copy does the same"));
    }
    if let Some(fault) = weight.second_key().and_then(|key| key.problem(1).fault()) {
        faults.push(("second", fault.to_owned(), "see the format's rules and correct k or scaling"));
    }
    let limit = u128::from(second.memory_budget_mib) << 20;
    if weight.bytes() > limit {
        let message =
            format!("both copies take {} bytes, over memory_budget_mib = {}", weight.bytes(), limit >> 20);
        faults.push((
            "second.memory_budget_mib",
            message,
            "leave the second copy out, or allow more in the declaration",
        ));
    }
    let split = weight.rows.partition_point(|row| row.m < second.from);
    if split == 0 || split == weight.rows.len() {
        let message = format!(
            "from = {} leaves one of the copies without a row: it would never be right to load it",
            second.from
        );
        faults.push(("second.from", message, "choose an M between two rows, or leave the second copy out"));
    }
    for (field, value) in [("second.error", second.error)] {
        if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
            faults.push((field, "is no relative error".to_owned(), "a finite number of at least 0"));
        }
    }
    if let (Some(error), Some(limit)) = (second.error, weight.max_error)
        && error > limit
    {
        let message = format!("{} has an error of {error}, over max_error = {limit}", second.format);
        faults.push(("second.format", message, "choose another format, or allow more in the declaration"));
    }
    faults
}
