//! Where a search starts: what was good before, nearby or elsewhere, and a default of every plan.
//!
//! Seeds are always measured, never copied, and always a list, never one winner: a single transferred winner costs up
//! to half the speed, a list of ten almost nothing (measured on the brute-forced spaces of `tilewright replay`).

use tilewright_kernels::{Device, Layout, family};

use super::candidates::{Candidate, Field, FormatPair};
use crate::journal::{ContestKey, History, Verdict};
use crate::table::Decisions;

/// Seeds beyond the defaults, at most.
const MOST: usize = 24;
/// Finalists taken from one earlier verdict.
const OF_ONE_VERDICT: usize = 6;

/// Everything earlier that seeds come from.
pub(super) struct Sources<'a> {
    /// The device's fingerprint.
    pub(super) fingerprint: &'a str,
    /// Runs recorded in the journal.
    pub(super) history: &'a History,
    /// Tables beside this one: of this device and of others.
    pub(super) tables: &'a [Decisions],
    /// Verdicts of this run so far.
    pub(super) this_run: Vec<Verdict>,
}

/// Where one search starts.
pub(super) struct Start {
    /// Points: one of every plan, then the best guesses.
    pub(super) seeds: Vec<usize>,
    /// Whether this very contest was decided on this device before: then little searching is left to do.
    pub(super) warm: bool,
}

/// The start of one contest's search.
pub(super) fn start(
    sources: &Sources<'_>,
    field: &Field,
    key: &ContestKey,
    pairs: &[FormatPair],
    device: &Device,
) -> Start {
    let base = field.candidates[field.sentinel].problem;
    let mut texts: Vec<String> = Vec::new();

    // The finalists of this very contest, if it was decided before; else those of the nearest contests.
    let earlier = sources.history.verdicts(sources.fingerprint);
    if let Some(verdict) = earlier.get(key) {
        let seeds: Vec<usize> = verdict
            .finalists
            .iter()
            .filter_map(|row| field.find(&row.candidate))
            .filter(|point| *point != field.sentinel)
            .collect();
        if !seeds.is_empty() {
            return Start { seeds, warm: true };
        }
    }
    let mut near: Vec<(f64, &Verdict)> = sources
        .this_run
        .iter()
        .chain(earlier.values().copied())
        .filter(|verdict| verdict.key != *key)
        .filter_map(|verdict| Some((distance(shape(&verdict.key)?, [base.m, base.n, base.k]), verdict)))
        .collect();
    near.sort_by(|x, y| x.0.total_cmp(&y.0));
    texts.extend(near.iter().take(3).flat_map(|(_, verdict)| finalists(verdict)));

    // Tables: the same device's first, whose rows include decisions that no journal is left of.
    let mut tables: Vec<&Decisions> = sources.tables.iter().collect();
    tables.sort_by_key(|table| table.device.fingerprint != sources.fingerprint);
    for table in tables {
        let mut rows: Vec<(f64, String)> = Vec::new();
        for weight in &table.weights {
            for row in &weight.rows {
                let key = weight.key_at(row.m);
                let formats = FormatPair { activation: key.a, weight: key.b };
                let distance = distance([row.m, weight.n, weight.k], [base.m, base.n, base.k]);
                let ties = row.tie_set.iter().map(|tie| &tie.config);
                let configs = [&row.config].into_iter().chain(ties).chain(&row.runner_ups);
                rows.extend(configs.map(|config| (distance, format!("{formats} {config}"))));
            }
        }
        rows.sort_by(|x, y| x.0.total_cmp(&y.0));
        texts.extend(rows.into_iter().take(10).map(|(_, text)| text));
    }

    let known = texts.iter().filter_map(|text| field.find(text)).take(MOST);
    let mut seeds: Vec<usize> = Vec::new();
    for point in defaults(field, pairs, device).chain(known) {
        if point != field.sentinel && !seeds.contains(&point) {
            seeds.push(point);
        }
    }
    Start { seeds, warm: false }
}

/// One config of every plan, so that each plan is measured at least once at every M.
fn defaults<'a>(
    field: &'a Field,
    pairs: &'a [FormatPair],
    device: &'a Device,
) -> impl Iterator<Item = usize> + 'a {
    let base = field.candidates[field.sentinel].problem;
    pairs.iter().flat_map(move |pair| {
        let problem = pair.apply(&base);
        Layout::ALL.iter().filter_map(move |layout| {
            let config = family::fallback(&problem, *layout, device)?;
            field.find(&Candidate { problem, config }.to_string())
        })
    })
}

fn finalists(verdict: &Verdict) -> impl Iterator<Item = String> {
    verdict.finalists.iter().take(OF_ONE_VERDICT).map(|row| row.candidate.clone())
}

/// M, N and K of a contest.
fn shape(key: &ContestKey) -> Option<[u32; 3]> {
    let field = |name: &str| key.0.split(' ').find_map(|part| part.strip_prefix(name)?.parse().ok());
    Some([field("m=")?, field("n=")?, field("k=")?])
}

/// Euclidean distance of the logarithms.
fn distance(x: [u32; 3], y: [u32; 3]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (f64::from(*x) / f64::from(y)).ln().powi(2)).sum::<f64>().sqrt()
}
