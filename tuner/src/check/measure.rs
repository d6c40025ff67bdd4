//! Timing a table's winners beside the default config, in interleaved blocks.

use std::time::Instant;

use tilewright_kernels::backend::{Backend, Session};
use tilewright_kernels::{Config, Format, Problem, Scaling};

use super::Values;
use crate::bench::{Bench, BenchFault, Sample};
use crate::race::{Entrant, RaceOptions, race};
use crate::stats::Looks;
use crate::table::{Decisions, Finalist, Row, Weight};

/// A row, measured again.
#[derive(Debug)]
pub struct Measured {
    /// The weight's name.
    pub weight: String,
    /// Times it is used per forward pass.
    pub count: u64,
    /// Rows.
    pub m: u32,
    /// Trimmed mean of the table's kernel, nanoseconds.
    pub tuned_ns: f64,
    /// Trimmed mean of the default, nanoseconds.
    pub default_ns: f64,
    /// Default over tuned with its 95 % interval: estimate, low, high. Above 1 the table's kernel is faster.
    pub gain: [f64; 3],
    /// What the table says the tuned kernel takes, nanoseconds.
    pub table_ns: f64,
}

/// Measures every row. `blocks` launches each; `report` hears of each row.
///
/// # Errors
/// If operands cannot be had or a kernel fails.
pub fn measure(
    backend: &dyn Backend,
    decisions: &Decisions,
    evidence: &[Finalist],
    values: &Values,
    blocks: usize,
    seed: u64,
    report: &mut dyn FnMut(&Measured),
) -> anyhow::Result<Vec<Measured>> {
    let mut all = Vec::new();
    for weight in &decisions.weights {
        let most = weight.rows.iter().map(|row| row.m).max().unwrap_or(1);
        let pairs: Vec<(Format, Format)> =
            weight.rows.iter().map(|row| baseline_formats(evidence, weight, row)).collect();
        let mut formats: Vec<Format> =
            pairs.iter().map(|(_, format)| *format).chain(weight.formats()).collect();
        formats.sort_unstable();
        formats.dedup();
        let mut session = backend.open(values.operands(weight, &formats, most)?, decisions.regime)?;
        for (row, formats) in weight.rows.iter().zip(pairs) {
            let measured = measure_row(backend, session.as_mut(), weight, row, formats, blocks, seed)?;
            report(&measured);
            all.push(measured);
        }
    }
    Ok(all)
}

/// The formats the default was measured in: the evidence says, or they are the weight's own.
fn baseline_formats(evidence: &[Finalist], weight: &Weight, row: &Row) -> (Format, Format) {
    let line = evidence.iter().find(|f| f.baseline && f.weight == weight.name && f.m == row.m);
    let pair = line.and_then(|f| Some((Format::from_name(&f.activation)?, Format::from_name(&f.format)?)));
    pair.unwrap_or_else(|| {
        let key = weight.key_at(row.m);
        (key.a, key.b)
    })
}

fn measure_row(
    backend: &dyn Backend,
    session: &mut dyn Session,
    weight: &Weight,
    row: &Row,
    (a, b): (Format, Format),
    blocks: usize,
    seed: u64,
) -> anyhow::Result<Measured> {
    let problem = weight.key_at(row.m).problem(row.m);
    let default_problem = Problem { a, b, scaling: Scaling::usual(b), ..problem };
    // Point 0 is the table's kernel, point 1 the default.
    let candidates =
        vec![(problem, Config::parse(&row.config)?), (default_problem, Config::parse(&row.default)?)];
    let options = RaceOptions {
        looks: Looks::new(vec![blocks], 0.05)?,
        max_blocks: blocks,
        seed,
        warmup_ns: 20e6,
        buffers: 5,
        sentinel: Some(1),
        ..RaceOptions::default()
    };
    let entrants: Vec<Entrant> =
        [0, 1].map(|point| Entrant { pinned: true, ..Entrant::new(point, point as u32) }).to_vec();
    let mut bench = ListBench::new(session, candidates, backend);
    let outcome = race(&mut bench, &entrants, &options, &mut ())?;
    let of =
        |point: usize| outcome.entrant(point).and_then(|e| Some((e.samples.clone(), e.trimmed_mean_ns?)));
    let (Some((tuned, tuned_ns)), Some((default, default_ns))) = (of(0), of(1)) else {
        anyhow::bail!("{} m={}: cannot be measured: {:?}", weight.name, row.m, outcome.verdict);
    };
    let logs: Vec<f64> = tuned.iter().zip(&default).map(|(tuned, default)| (default / tuned).ln()).collect();
    let gain = crate::stats::yuen(&logs, crate::stats::TRIM).map_or([default_ns / tuned_ns; 3], |yuen| {
        let interval = yuen.interval(0.95);
        [yuen.mean, interval.low, interval.high].map(f64::exp)
    });
    let (name, count) = (weight.name.clone(), weight.count);
    Ok(Measured { weight: name, count, m: row.m, tuned_ns, default_ns, gain, table_ns: row.time_ns })
}

/// The points are problems with their kernels, in an open session.
pub(super) struct ListBench<'s> {
    session: &'s mut dyn Session,
    candidates: Vec<(Problem, Config)>,
    resolution_ns: f64,
    began: Instant,
}

impl<'s> ListBench<'s> {
    pub(super) fn new(
        session: &'s mut dyn Session,
        candidates: Vec<(Problem, Config)>,
        backend: &dyn Backend,
    ) -> Self {
        let resolution_ns = backend.timer_resolution().as_nanos() as f64;
        ListBench { session, candidates, resolution_ns, began: Instant::now() }
    }
}

impl Bench for ListBench<'_> {
    fn resolution_ns(&self) -> f64 {
        self.resolution_ns
    }

    fn measure(&mut self, point: usize, slot: usize) -> Result<Sample, BenchFault> {
        let (problem, config) = &self.candidates[point];
        let time = self.session.time(problem, config, slot);
        let time = time.map_err(|fault| BenchFault::Candidate(fault.to_string()))?;
        Ok(Sample { ns: time.as_nanos() as f64, at_ns: self.began.elapsed().as_nanos() as f64 })
    }
}
