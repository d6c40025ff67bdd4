//! Tables joined, conflicts decided by evidence.
//!
//! Of two rows for the same weight and M stands, in this order: the one that is decided, then tied, then ambiguous; the one
//! whose time is known more closely (width of the interval over the time); the lower canonical text, so that the choice
//! is the same everywhere. A weight is stored one way, so where two tables store it differently one of them gives
//! all its rows: the one with more rows that are not ambiguous, then the one with more rows, then the more closely known.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::diag::Fault;
use crate::shapes::Declaration;
use crate::table::decisions::{Row, Verdict, Weight};
use crate::table::{Decisions, Finalist};

/// One table to merge.
pub struct Input {
    /// Its file.
    pub path: PathBuf,
    /// What it says.
    pub decisions: Decisions,
    /// Why.
    pub evidence: Vec<Finalist>,
}

/// The joined table with its evidence, and a note for each conflict.
///
/// # Errors
/// The first input that does not belong to the others.
pub fn merge_tables(
    mut inputs: Vec<Input>,
    whole: Option<&Declaration>,
) -> Result<(Decisions, Vec<Finalist>, Vec<String>), Fault> {
    inputs.sort_by_cached_key(|input| input.decisions.to_toml());
    let first = &inputs[0].decisions;
    for input in &inputs {
        let Decisions { tensor_parallel, regime, device, declaration, .. } = &input.decisions;
        let differs = if *device != first.device {
            "device"
        } else if *tensor_parallel != first.tensor_parallel {
            "tensor_parallel"
        } else if *regime != first.regime {
            "regime"
        } else if whole.is_none() && *declaration != first.declaration {
            "declaration"
        } else {
            continue;
        };
        return Err(Fault {
            field: differs.into(),
            ..Fault::of_file(
                &input.path,
                format!("another {differs} than {} has", inputs[0].path.display()),
                "merge tables of one model on one device; name the declaration with --shapes if they are its shards",
            )
        });
    }
    let mut notes = Vec::new();
    let mut evidence = Vec::new();
    let mut weights: Vec<Weight> = Vec::new();
    let names: BTreeMap<&str, Vec<(&Input, &Weight)>> = inputs
        .iter()
        .flat_map(|input| input.decisions.weights.iter().map(move |weight| (input, weight)))
        .fold(BTreeMap::new(), |mut names, (input, weight)| {
            names.entry(weight.name.as_str()).or_insert_with(Vec::new).push((input, weight));
            names
        });
    for (name, candidates) in names {
        let (input, best) = *candidates
            .iter()
            .max_by(|(_, x), (_, y)| weight_rank(x).partial_cmp(&weight_rank(y)).expect("no rank is NaN"))
            .expect("a name comes with a weight");
        let mut rows: BTreeMap<u32, (&Input, &Row)> = BTreeMap::new();
        for (other, weight) in &candidates {
            if stored(weight) != stored(best) {
                notes.push(format!(
                    "{name}: {} stores it as {}, taken is {} of {}: more or better evidence",
                    other.path.display(),
                    storage(weight),
                    storage(best),
                    input.path.display()
                ));
                continue;
            }
            for row in &weight.rows {
                let Some((before, known)) = rows.get(&row.m).copied() else {
                    rows.insert(row.m, (other, row));
                    continue;
                };
                let (kept, lost) = if row_rank(row) > row_rank(known) {
                    ((*other, row), (before, known))
                } else {
                    ((before, known), (*other, row))
                };
                if known.config != row.config {
                    notes.push(format!(
                        "{name} M={}: {} of {} ({}, ±{:.1} %), not {} of {} ({}, ±{:.1} %)",
                        row.m,
                        kept.1.config,
                        kept.0.path.display(),
                        kept.1.verdict,
                        50.0 * width(kept.1),
                        lost.1.config,
                        lost.0.path.display(),
                        lost.1.verdict,
                        50.0 * width(lost.1),
                    ));
                }
                rows.insert(row.m, kept);
            }
        }
        for (from, row) in rows.values() {
            evidence.extend(from.evidence.iter().filter(|f| f.weight == name && f.m == row.m).cloned());
        }
        let rows = rows.into_values().map(|(_, row)| row.clone()).collect();
        weights.push(Weight { rows, ..best.clone() });
    }
    let order = |name: &str| -> (usize, usize) {
        let declared = whole.and_then(|whole| whole.gemms.iter().position(|gemm| gemm.name == name));
        let mut places =
            inputs.iter().filter_map(|i| i.decisions.weights.iter().position(|w| w.name == name));
        (declared.unwrap_or(usize::MAX), places.next().unwrap_or(usize::MAX))
    };
    weights.sort_by_key(|weight| order(&weight.name));
    evidence
        .sort_by_key(|finalist: &Finalist| weights.iter().position(|weight| weight.name == finalist.weight));
    let mut decisions = Decisions { weights, ..first.clone() };
    if let Some(whole) = whole {
        decisions.model.clone_from(&whole.model);
        decisions.declaration = whole.hash;
    }
    Ok((decisions, evidence, notes))
}

/// What rows of one weight have to share.
fn stored(weight: &Weight) -> impl PartialEq {
    let Weight { n, k, activation, format, scaling, layout, out, epilogue, deterministic, .. } = weight;
    (*n, *k, *activation, *format, *scaling, *layout, *out, *epilogue, *deterministic)
}

fn storage(weight: &Weight) -> String {
    format!("{}/{}/{}", weight.activation, weight.format, weight.layout)
}

/// Higher is better.
fn weight_rank(weight: &Weight) -> (usize, usize, f64) {
    let sure = weight.rows.iter().filter(|row| !matches!(row.verdict, Verdict::Ambiguous(_))).count();
    let width: f64 = weight.rows.iter().map(width).sum();
    (sure, weight.rows.len(), -width)
}

/// Higher is better.
fn row_rank(row: &Row) -> (u8, f64, std::cmp::Reverse<&str>) {
    let verdict = match row.verdict {
        Verdict::Decided => 2,
        Verdict::Tied(_) => 1,
        Verdict::Ambiguous(_) => 0,
    };
    (verdict, -width(row), std::cmp::Reverse(&row.config))
}

/// Width of the interval over the time; infinite where it says nothing.
fn width(row: &Row) -> f64 {
    let width = (row.interval_ns[1] - row.interval_ns[0]) / row.time_ns;
    if width.is_finite() && width > 0.0 { width } else { f64::MAX }
}
