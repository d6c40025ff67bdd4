//! One side of a comparison: the rows of a table, or the last verdicts of a journal.

use std::collections::BTreeMap;

use crate::journal::{ContestKey, History, Record, Verdict};
use crate::report::session::Shape;
use crate::table::Decisions;

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Fingerprint of the device.
    pub device: String,
    /// The rows.
    pub rows: Vec<SideRow>,
}

/// A weight at one M.
#[derive(Clone, Debug, PartialEq)]
pub struct SideRow {
    /// The weight's name; in a journal without a table beside it, what its contests are called.
    pub weight: String,
    /// Rows of the activation.
    pub m: u32,
    /// What the row weighs: count times relative frequency, or 1 where that is not known.
    pub launches: f64,
    /// The winner's time, in nanoseconds.
    pub time_ns: f64,
    /// Its interval.
    pub interval_ns: [f64; 2],
    /// The winner.
    pub config: String,
    /// Formats and layout.
    pub plan: String,
    /// The default config.
    pub default: String,
    /// Its time, in nanoseconds.
    pub default_ns: f64,
}

impl From<&Decisions> for Side {
    fn from(decisions: &Decisions) -> Self {
        let weights = decisions.weights.iter();
        let rows = weights.flat_map(|weight| {
            weight.rows.iter().map(move |row| SideRow {
                weight: weight.name.clone(),
                m: row.m,
                launches: weight.count as f64 * row.weight,
                time_ns: row.time_ns,
                interval_ns: row.interval_ns,
                config: row.config.clone(),
                plan: format!("{} x {} in {}", weight.activation, weight.format, weight.layout),
                default: row.default.clone(),
                default_ns: row.default_ns,
            })
        });
        Side { device: decisions.device.fingerprint.clone(), rows: rows.collect() }
    }
}

impl Side {
    /// The last verdict of each contest. `names` is the journal's table, if there is one: it has the weights' names and counts,
    /// which a journal has not; without it all rows weigh the same.
    pub fn of_journal(history: &History, names: Option<&Decisions>) -> Self {
        let mut latest: BTreeMap<(String, u32), (ContestKey, &Verdict)> = BTreeMap::new();
        for record in history.segments.iter().flat_map(|segment| &segment.records) {
            if let Record::Verdict(verdict) = record {
                let shape = Shape::of(&verdict.key);
                latest.insert((shape.weight, shape.m), (verdict.key.clone(), verdict));
            }
        }
        let rows = latest.into_values().filter_map(|(key, verdict)| row(&key, verdict, names));
        let device = history.segments.last().map_or_else(String::new, |run| run.header.fingerprint.clone());
        Side { device, rows: rows.collect() }
    }
}

/// `None` if nobody won.
fn row(key: &ContestKey, verdict: &Verdict, names: Option<&Decisions>) -> Option<SideRow> {
    let winner = verdict.finalists.first().filter(|row| row.status == "winner")?;
    let default = verdict.finalists.iter().find(|row| row.default)?;
    let shape = Shape::of(key);
    let weight = shape.find(names);
    let launches = weight
        .and_then(|weight| {
            Some(weight.count as f64 * weight.rows.iter().find(|row| row.m == verdict.m)?.weight)
        })
        .unwrap_or(1.0);
    // `activation/weight config`
    let (formats, config) = winner.candidate.split_once(' ')?;
    let (activation, format) = formats.split_once('/')?;
    let layout = config.split(['(', ',', ')']).find_map(|part| part.strip_prefix("layout=")).unwrap_or("?");
    let default_config = default.candidate.split_once(' ').map_or("", |(_, config)| config);
    Some(SideRow {
        weight: weight.map_or_else(|| shape.weight.clone(), |weight| weight.name.clone()),
        m: verdict.m,
        launches,
        time_ns: winner.ns,
        interval_ns: winner.interval_ns,
        config: config.to_owned(),
        plan: format!("{activation} x {format} in {layout}"),
        default: default_config.to_owned(),
        default_ns: default.ns,
    })
}
