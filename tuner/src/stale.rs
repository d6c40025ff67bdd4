//! Which rows of a table no longer say what they said.
//!
//! A row is as good as the kernel it measured. It is stale where its kernel, or the default it was raced against, has been
//! revised or removed (its canonical text is none of this build's), and where the tools that make that backend's kernels
//! are others than in the run before. Exactly those rows are tuned first and never kept; all others stand. A change of the
//! device itself is none of this: another fingerprint is another table.

use std::collections::BTreeMap;
use std::fmt;

use tilewright_kernels::Config;

use crate::table::decisions::Row;
use crate::table::{Decisions, Finalist};

/// One stale row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Name of its weight.
    pub weight: String,
    /// Rows of the activation.
    pub m: u32,
    /// What has changed: `kernel`, `default kernel`, or the name of a tool.
    pub field: String,
    /// What it was, and what it is or why it is none any more.
    pub change: String,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stale { weight, m, field, change } = self;
        write!(f, "{weight} M={m} is stale and tuned again: {field}: {change}")
    }
}

/// The stale rows of a table, in its order. `tools` are name and version of what makes the device's kernels: in the run
/// before, if that is known, and now.
pub fn stale_rows(
    decisions: &Decisions,
    before: Option<&BTreeMap<String, String>>,
    now: &BTreeMap<String, String>,
) -> Vec<Stale> {
    let tool = before.and_then(|before| {
        now.iter().find_map(|(name, version)| {
            let was = before.get(name).filter(|was| *was != version)?;
            Some((name.clone(), format!("was {was}, is {version}")))
        })
    });
    let rows = decisions.weights.iter().flat_map(|weight| weight.rows.iter().map(move |row| (weight, row)));
    let stale = rows.filter_map(|(weight, row)| {
        let (field, change) = unknown(row).or_else(|| tool.clone())?;
        Some(Stale { weight: weight.name.clone(), m: row.m, field, change })
    });
    stale.collect()
}

fn unknown(row: &Row) -> Option<(String, String)> {
    let fault = |field: &str, text: &str| {
        let error = Config::parse(text).err()?;
        Some((field.to_string(), format!("{text}: {error}")))
    };
    fault("kernel", &row.config).or_else(|| fault("default kernel", &row.default))
}

/// Takes the stale rows out, and from the others the names of kernels that are none any more.
pub fn take_out(decisions: &mut Decisions, evidence: &mut Vec<Finalist>, stale: &[Stale]) {
    let is_stale = |name: &str, m: u32| stale.iter().any(|stale| stale.weight == name && stale.m == m);
    let is_known = |text: &String| Config::parse(text).is_ok();
    for weight in &mut decisions.weights {
        weight.rows.retain(|row| !is_stale(&weight.name, row.m));
        for row in &mut weight.rows {
            row.runner_ups.retain(is_known);
            row.tie_set.retain(|tie| is_known(&tie.config));
        }
    }
    decisions.weights.retain(|weight| !weight.rows.is_empty());
    evidence.retain(|finalist| !is_stale(&finalist.weight, finalist.m));
}
