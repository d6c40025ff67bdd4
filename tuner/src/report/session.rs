//! What a journal tells of its runs: where launches went, how steady the machine was, what a warm start saved.
//!
//! Method: a journal is one sequence. A launch belongs to the search that goes on, to the contest
//! whose verdict comes next, or, where a plan comes next, to the trials between plans. The sentinel is
//! the default config, which search and race time beside everything else; its launches in one stretch of one contest are
//! divided by their own median, so that contests of different sizes make one curve. Only a drift within contests shows in it.

use std::collections::{BTreeMap, HashSet};

use tilewright_kernels::Epilogue;
use tilewright_kernels::config::fnv1a;

use crate::journal::{ContestKey, History, Record, RunHeader, Segment};
use crate::table::{Decisions, Weight};

/// Most points of the drift curve.
const BINS: usize = 120;

/// One run of a journal.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// What it was.
    pub(super) header: RunHeader,
    /// Whether it ended by itself.
    pub(super) ended: bool,
    /// Timed launches.
    pub(super) launches: u64,
    /// Candidates evaluated.
    pub(super) evaluated: u64,
    /// Launches of trials between plans, which belong to all contests of a weight.
    pub(super) trials: u64,
    /// Candidates that the correctness gate or a launch refused, by reason.
    pub(super) refused: BTreeMap<String, usize>,
    /// Seconds by its own clock.
    pub(super) seconds: f64,
    /// Its contests, in their order.
    pub(super) contests: Vec<Spend>,
    /// The sentinel over time.
    pub(super) drift: Vec<DriftBin>,
}

/// What one contest took.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spend {
    /// The weight's name, or its shape where no table names it.
    pub(super) weight: String,
    /// Rows.
    pub(super) m: u32,
    /// Legal candidates.
    pub(super) candidates: usize,
    /// Those evaluated.
    pub(super) evaluated: usize,
    /// Launches of the search, its sentinel included.
    pub(super) search: u64,
    /// Launches of the finals.
    pub(super) finals: u64,
    /// The verdict, if one was reached.
    pub(super) verdict: String,
}

/// The sentinel in one stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DriftBin {
    /// Middle of the stretch, seconds since the run began.
    pub(super) at_s: f64,
    /// Median of its times relative to the contest's.
    pub(super) median: f64,
    /// Lower and upper quartile.
    pub(super) quartiles: [f64; 2],
    /// Launches.
    pub(super) launches: usize,
}

/// The runs of a journal; `table` names the weights.
pub(super) fn runs(history: &History, table: Option<&Decisions>) -> Vec<Run> {
    history.segments.iter().map(|segment| run(segment, table)).collect()
}

fn run(segment: &Segment, table: Option<&Decisions>) -> Run {
    let sentinels = sentinels(segment);
    let mut walk = Walk { table, ..Walk::default() };
    let mut run = Run {
        header: segment.header.clone(),
        ended: segment.ended(),
        launches: 0,
        evaluated: 0,
        trials: 0,
        refused: BTreeMap::new(),
        seconds: 0.0,
        contests: Vec::new(),
        drift: Vec::new(),
    };
    for record in &segment.records {
        match record {
            Record::Sample { id, ns, at } => {
                run.launches += 1;
                run.seconds = at / 1e9;
                walk.pending += 1;
                if sentinels.contains(id) {
                    walk.sentinel.push([*at, *ns]);
                }
            }
            Record::Contest { key, candidates } => {
                walk.leave();
                walk.stretch();
                let index = walk.index(key);
                walk.contests[index].candidates = *candidates;
                walk.searched = Some(index);
            }
            Record::Evaluated(evaluated) => {
                let index = walk.index(&evaluated.key);
                walk.searched = Some(index);
                walk.leave();
                if evaluated.ratio.is_some() {
                    walk.contests[index].evaluated += 1;
                    run.evaluated += 1;
                }
            }
            Record::Gate { reason: Some(reason), .. } | Record::Failed { reason, .. } => {
                *run.refused.entry(reason.clone()).or_default() += 1;
            }
            Record::Verdict(verdict) => {
                let pending = std::mem::take(&mut walk.pending);
                let index = walk.index(&verdict.key);
                walk.contests[index].finals += pending;
                walk.contests[index].verdict.clone_from(&verdict.verdict);
                walk.searched = None;
                walk.stretch();
            }
            Record::Plan(_) => {
                run.trials += std::mem::take(&mut walk.pending);
                walk.stretch();
            }
            Record::Stopped { at } => run.seconds = run.seconds.max(at / 1e9),
            _ => {}
        }
    }
    walk.leave();
    walk.stretch();
    run.contests = walk.contests;
    run.drift = bins(walk.relative);
    run
}

/// Hashes of the candidates that are some contest's default.
fn sentinels(segment: &Segment) -> HashSet<String> {
    let verdicts = segment.records.iter().filter_map(|record| match record {
        Record::Verdict(verdict) => Some(verdict),
        _ => None,
    });
    let defaults = verdicts.flat_map(|verdict| verdict.finalists.iter().filter(|row| row.default));
    defaults.map(|row| format!("{:016x}", fnv1a(row.candidate.as_bytes()))).collect()
}

/// What is known on the way through a run.
#[derive(Default)]
struct Walk<'t> {
    table: Option<&'t Decisions>,
    contests: Vec<Spend>,
    /// The contest whose search goes on, as a position.
    searched: Option<usize>,
    /// Launches since the last record that names a contest.
    pending: u64,
    /// Time and duration of the sentinel's launches in this stretch.
    sentinel: Vec<[f64; 2]>,
    /// Time and relative duration.
    relative: Vec<[f64; 2]>,
}

impl Walk<'_> {
    /// The position of a contest, which is there afterwards.
    fn index(&mut self, key: &ContestKey) -> usize {
        let shape = Shape::of(key);
        let weight = shape.find(self.table);
        let name = weight.map_or_else(|| format!("{}x{}", shape.n, shape.k), |weight| weight.name.clone());
        let found = self.contests.iter().position(|spend| spend.m == shape.m && spend.weight == name);
        found.unwrap_or_else(|| {
            self.contests.push(Spend { weight: name, m: shape.m, ..Spend::default() });
            self.contests.len() - 1
        })
    }

    /// Gives what was launched to the search that goes on, if there is one.
    fn leave(&mut self) {
        if let Some(index) = self.searched {
            self.contests[index].search += std::mem::take(&mut self.pending);
        }
    }

    fn stretch(&mut self) {
        let stretch = std::mem::take(&mut self.sentinel);
        let middle = quantile(stretch.iter().map(|[_, ns]| *ns).collect(), 0.5);
        if middle > 0.0 {
            self.relative.extend(stretch.iter().map(|[at, ns]| [*at, ns / middle]));
        }
    }
}

fn bins(relative: Vec<[f64; 2]>) -> Vec<DriftBin> {
    let size = relative.len().div_ceil(BINS).max(8);
    relative
        .chunks(size)
        .filter(|chunk| chunk.len() >= size.min(4))
        .map(|chunk| {
            let at = |q| quantile(chunk.iter().map(|[_, ratio]| *ratio).collect(), q);
            DriftBin {
                at_s: (chunk[0][0] + chunk[chunk.len() - 1][0]) / 2e9,
                median: at(0.5),
                quartiles: [at(0.25), at(0.75)],
                launches: chunk.len(),
            }
        })
        .collect()
}

/// A quantile of values; 0 of none.
fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(((values.len().saturating_sub(1)) as f64 * q).round() as usize).copied().unwrap_or(0.0)
}

/// What a contest's key says.
pub(crate) struct Shape<'k> {
    /// Rows.
    pub(crate) m: u32,
    /// Output features.
    pub(crate) n: u32,
    /// Input features.
    pub(crate) k: u32,
    /// Key without rows and formats: `n=960 k=576 out=bf16 bias=false deterministic=false`.
    pub(crate) weight: String,
    fields: Vec<(&'k str, &'k str)>,
}

impl<'k> Shape<'k> {
    /// Reads a key.
    pub(crate) fn of(key: &'k ContestKey) -> Self {
        let fields: Vec<(&str, &str)> = key.0.split(' ').filter_map(|part| part.split_once('=')).collect();
        let number = |name: &str| {
            fields.iter().find(|(field, _)| *field == name).and_then(|(_, value)| value.parse().ok())
        };
        let weight: Vec<String> = fields
            .iter()
            .filter(|(field, _)| *field != "m")
            .map(|(field, value)| format!("{field}={value}"))
            .collect();
        Shape {
            m: number("m").unwrap_or(0),
            n: number("n").unwrap_or(0),
            k: number("k").unwrap_or(0),
            weight: weight.join(" "),
            fields,
        }
    }

    /// The first weight of a table that asks this.
    pub(crate) fn find<'t>(&self, table: Option<&'t Decisions>) -> Option<&'t Weight> {
        let field =
            |name: &str| self.fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value);
        table?.weights.iter().find(|weight| {
            let bias = weight.epilogue == Epilogue::Bias;
            (weight.n, weight.k) == (self.n, self.k)
                && weight.out.name() == field("out")
                && bias.to_string() == field("bias")
                && weight.deterministic.to_string() == field("deterministic")
        })
    }
}
