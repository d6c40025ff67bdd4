//! Tuning one weight: quality, search at every M, plan, finals at every M.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use tilewright_kernels::{Device, Format};

use super::candidates::{Field, FormatPair, Plan};
use super::finals::{Bracket, by_search, finals};
use super::observe::{FieldBench, RaceLog, SearchLog, Shared};
use super::plan::{CONTENTION, MOST_CONTENDERS, Searched, choose, estimates, ranked};
use super::progress::Progress;
use super::rig::Recorder;
use super::run::Settings;
use super::seeds::{Sources, Start, start};
use super::work::Work;
use crate::journal::{AlternativeRecord, ContestKey, Evaluated, PlanRecord, Record, Resume, Verdict};
use crate::race::{Entrant, RaceOptions, race};
use crate::search::{Evaluation, Ils, SearchOptions, search};
use crate::stats::{Looks, median};
use crate::units::time;

/// A plan trial measures this many blocks: it compares a handful of configs that are known to be good.
const TRIAL_BLOCKS: usize = 10;
/// The part of a weight's time that its searches may take; the rest is for trials of plans and finals.
const SEARCH_SHARE: f64 = 0.5;
/// The part that trials of plans may take.
const TRIAL_SHARE: f64 = 0.15;
/// Evaluations without improvement that end the search of a contest that was decided before.
const WARM_PATIENCE: usize = 6;
/// Blocks at which finals are looked at: further than the race's own default, because a sentinel on a shared processor
/// often needs more than 40 to be known to δ.
const LOOKS: [usize; 7] = [6, 10, 16, 24, 40, 64, 100];
/// Blocks of one final, discarded ones included.
const MAX_BLOCKS: usize = 160;
/// Warm-up of later contests, nanoseconds: the device is busy already, only the code path is new.
const WARM_UP_AGAIN_NS: f64 = 10e6;

/// What was decided about one weight.
pub struct WeightResult {
    /// Position in the list of works.
    pub work: usize,
    /// How it is stored and multiplied.
    pub plan: PlanRecord,
    /// One per M that was measured, ascending.
    pub verdicts: Vec<Verdict>,
}

/// What tuning a weight depends on besides the weight.
pub(super) struct Context<'a> {
    pub(super) device: &'a Device,
    pub(super) settings: &'a Settings,
    pub(super) resume: &'a Resume,
    pub(super) resolution_ns: f64,
    /// Time this weight may take, nanoseconds.
    pub(super) time_ns: Option<f64>,
    /// What the tables say now: the plan of the weight, and at each M the winner's canonical text.
    pub(super) incumbent: Option<(Plan, HashMap<u32, String>)>,
}

/// Tunes one weight. `None` if measuring was stopped before there was a plan.
///
/// # Errors
/// If quality excludes every format, no kernel runs the shape, or the operands do not fit.
pub(super) fn tune_weight(
    index: usize,
    work: &Work<'_>,
    context: &Context<'_>,
    sources: &mut Sources<'_>,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> anyhow::Result<Option<WeightResult>> {
    let quality = Quality::measure(work, context, recorder)?;
    if quality.pairs.is_empty() {
        anyhow::bail!(
            "{}: no format has an error under max_error = {}: {}; raise it or allow bf16",
            work.name,
            work.max_error.unwrap_or(0.0),
            quality
                .excluded
                .iter()
                .map(|(pair, error)| format!("{pair} {error:.4}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    let pairs = &quality.pairs;
    let keys: Vec<ContestKey> = work.points.iter().map(|point| work.key(point.m, pairs)).collect();
    let name = keys.iter().map(|key| key.0.as_str()).collect::<Vec<_>>().join("; "); // A weight that an interrupted run had finished is taken over whole; what it could not decide is measured again.
    let decided = |key| context.resume.verdicts.get(key).filter(|v| !v.verdict.starts_with("ambiguous"));
    let finished: Vec<Verdict> = keys.iter().filter_map(|key| decided(key).cloned()).collect();
    if let Some(plan) = context.resume.plans.get(&name).filter(|_| finished.len() == keys.len()) {
        for verdict in &finished {
            progress.decided(&format!(
                "{:<22} M={:<6} taken over from the interrupted run",
                work.name, verdict.m
            ));
        }
        sources.this_run.extend(finished.iter().cloned());
        recorder.record(&Record::Plan(plan.clone()));
        finished.iter().for_each(|verdict| recorder.record(&Record::Verdict(verdict.clone())));
        return Ok(Some(WeightResult { work: index, plan: plan.clone(), verdicts: finished }));
    }

    let mut formats: Vec<Format> = pairs.iter().map(|pair| pair.weight).collect();
    formats.dedup();
    recorder.open(work, &formats)?;
    let began = recorder.now_ns;
    // What each of the `phases` left may take, so that a share of the weight's time is spent by then.
    let part = |now_ns: f64, share: f64, phases: usize| {
        context.time_ns.map(|ns| ((began + ns * share - now_ns) / phases as f64).max(0.0))
    };
    let mut searched = Vec::new();
    for (index, (point, key)) in work.points.iter().zip(&keys).enumerate() {
        let time_ns = part(recorder.now_ns, SEARCH_SHARE, keys.len() - index);
        progress.contest(&work.name, point.m, "search");
        let field = Field::new(&work.base(point.m), pairs, context.device).ok_or_else(|| {
            anyhow::anyhow!("{}: no kernel of this device runs n={} k={}", work.name, work.n, work.k)
        })?;
        let found = search_point(
            field,
            key,
            point.weight / f64::from(point.m),
            pairs,
            time_ns,
            context,
            sources,
            recorder,
            progress,
        );
        let Some(found) = found else { break };
        searched.push(found);
        if recorder.stopped {
            break;
        }
    }
    if searched.is_empty() {
        return Ok(None);
    }

    let incumbent = context.incumbent.as_ref().map(|(plan, _)| *plan);
    let time_ns = part(recorder.now_ns, SEARCH_SHARE + TRIAL_SHARE, searched.len());
    let costs = plan_costs(&searched, time_ns, context, recorder, progress);
    let Some(plan) = choose(&costs, pairs, incumbent) else { return Ok(None) };
    let record = quality.record(name, plan, &costs);
    recorder.record(&Record::Plan(record.clone()));

    let mut verdicts: Vec<Verdict> = Vec::new();
    for (index, (at, key)) in searched.iter().zip(&keys).enumerate() {
        progress.contest(&work.name, at.m, "finals");
        let neighbours: Vec<String> = verdicts.iter().filter_map(winner_config).collect();
        let incumbent = context.incumbent.as_ref().and_then(|(_, rows)| {
            let point = at.field.find(&format!("{} {}", plan.formats, rows.get(&at.m)?))?;
            (at.field.candidates[point].plan() == plan).then_some(point)
        });
        let bracket = Bracket { plan, incumbent, neighbours: &neighbours };
        let verdict = if recorder.stopped {
            by_search(at, key, &bracket, "stopped before the finals")
        } else {
            let options = RaceOptions {
                seed: seed_of(context.settings.seed, key, 2),
                delta: context.settings.delta,
                warmup_ns: WARM_UP_AGAIN_NS,
                buffers: context.settings.buffers,
                max_time_ns: part(recorder.now_ns, 1.0, searched.len() - index),
                looks: Looks::new(LOOKS.to_vec(), 0.05).expect("the looks ascend"),
                max_blocks: MAX_BLOCKS,
                ..RaceOptions::default()
            };
            let shared = Shared { recorder: RefCell::new(recorder), resolution_ns: context.resolution_ns };
            finals(&shared, at, key, &bracket, &options, progress)
        };
        recorder.record(&Record::Verdict(verdict.clone()));
        recorder.sync();
        progress.decided(&line(&work.name, &verdict));
        sources.this_run.push(verdict.clone());
        verdicts.push(verdict);
    }
    Ok(Some(WeightResult { work: index, plan: record, verdicts }))
}

/// Format pairs by their error.
struct Quality {
    /// Those within bounds, most wanted first.
    pairs: Vec<FormatPair>,
    /// Their errors.
    errors: HashMap<FormatPair, f64>,
    /// Those over the bound, with their errors.
    excluded: Vec<(FormatPair, f64)>,
}

impl Quality {
    fn measure(work: &Work<'_>, context: &Context<'_>, recorder: &mut Recorder<'_>) -> anyhow::Result<Self> {
        let mut quality = Quality { pairs: vec![], errors: HashMap::new(), excluded: vec![] };
        for pair in &work.pairs {
            let known = context.resume.quality.get(&(work.name.clone(), pair.to_string()));
            let error = match known {
                Some(error) => *error,
                None => recorder.quality(work, *pair)?,
            };
            quality.errors.insert(*pair, error);
            // An error that is no number is over every bound.
            if work.max_error.is_none_or(|bound| error <= bound) && !error.is_nan() {
                quality.pairs.push(*pair);
            } else {
                quality.excluded.push((*pair, error));
            }
        }
        Ok(quality)
    }

    fn record(&self, work: String, plan: Plan, costs: &[(Plan, f64)]) -> PlanRecord {
        let error_of = |plan: &Plan| self.errors.get(&plan.formats).copied().unwrap_or(0.0);
        let chosen = costs.iter().find(|(other, _)| *other == plan).map_or(1.0, |(_, ratio)| *ratio);
        let mut alternatives: Vec<AlternativeRecord> = costs
            .iter()
            .filter(|(other, _)| *other != plan)
            .map(|(other, ratio)| AlternativeRecord {
                plan: other.to_string(),
                ratio: Some(ratio / chosen),
                error: error_of(other),
                reason: if ratio / chosen > 1.0 { "slower" } else { "within the margin" }.into(),
            })
            .collect();
        alternatives.extend(self.excluded.iter().map(|(pair, error)| AlternativeRecord {
            plan: pair.to_string(),
            ratio: None,
            error: *error,
            reason: "over max_error".into(),
        }));
        PlanRecord { work, plan: plan.to_string(), error: error_of(&plan), alternatives }
    }
}

fn search_point(
    field: Field,
    key: &ContestKey,
    weight: f64,
    pairs: &[FormatPair],
    time_ns: Option<f64>,
    context: &Context<'_>,
    sources: &Sources<'_>,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> Option<Searched> {
    recorder.record(&Record::Contest { key: key.clone(), candidates: field.candidates.len() });
    let first = recorder.measurements == 0;
    let known = known(&field, context.resume.evaluations.get(key));
    let Start { seeds, warm } = start(sources, &field, key, pairs, context.device);
    let options = SearchOptions {
        max_evaluations: context.settings.max_evaluations,
        patience: if warm { WARM_PATIENCE } else { context.settings.patience },
        max_time_ns: time_ns,
        seed: seed_of(context.settings.seed, key, 1),
        warmup_ns: if first { context.settings.warmup_ns } else { WARM_UP_AGAIN_NS },
        ..SearchOptions::default()
    };
    let shared = Shared { recorder: RefCell::new(recorder), resolution_ns: context.resolution_ns };
    let mut log = SearchLog { shared: &shared, field: &field, key, progress, sentinel_ns: vec![] };
    let mut bench = FieldBench { shared: &shared, field: &field };
    let mut strategy = Ils::default();
    let outcome =
        search(&field.space, &seeds, field.sentinel, &mut bench, &mut strategy, &options, &mut log, &known)
            .expect("seeds and sentinel are points of the field");
    let sentinel_ns = median(&log.sentinel_ns)?;
    let ranked = outcome.ranked.iter().map(|(point, e)| (*point, e.ratio, e.launches)).collect();
    let m = field.candidates[field.sentinel].problem.m;
    Some(Searched { m, weight, field, ranked, sentinel_ns })
}

/// Evaluations of the interrupted run that are still candidates.
fn known(field: &Field, evaluations: Option<&HashMap<String, Evaluated>>) -> HashMap<usize, Evaluation> {
    let evaluations = evaluations.into_iter().flatten();
    evaluations
        .filter_map(|(text, evaluated)| {
            let evaluation = Evaluation { ratio: evaluated.ratio?, launches: evaluated.launches as usize };
            Some((field.find(text)?, evaluation))
        })
        .collect()
}

/// Costs of the plans: by interleaved trials of those in contention, by the search's estimates of the others.
fn plan_costs(
    searched: &[Searched],
    time_ns: Option<f64>,
    context: &Context<'_>,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> Vec<(Plan, f64)> {
    let estimates = estimates(searched);
    let contenders: Vec<Plan> = estimates
        .iter()
        .filter(|(_, ratio)| *ratio <= CONTENTION)
        .map(|(plan, _)| *plan)
        .take(MOST_CONTENDERS)
        .collect();
    if contenders.len() < 2 || recorder.stopped {
        return estimates;
    }
    let mut costs: BTreeMap<Plan, f64> = contenders.iter().map(|plan| (*plan, 0.0)).collect();
    for at in searched {
        let entrants: Vec<Entrant> = contenders
            .iter()
            .enumerate()
            .filter_map(|(rank, plan)| {
                Some(Entrant { pinned: true, ..Entrant::new(at.best_of(*plan)?.0, rank as u32) })
            })
            .collect();
        let options = RaceOptions {
            looks: Looks::new(vec![TRIAL_BLOCKS], 0.05).expect("one look is legal"),
            max_blocks: TRIAL_BLOCKS,
            seed: context.settings.seed,
            delta: context.settings.delta,
            warmup_ns: WARM_UP_AGAIN_NS,
            buffers: context.settings.buffers,
            max_time_ns: time_ns,
            sentinel: None,
            ..RaceOptions::default()
        };
        let shared = Shared { recorder: RefCell::new(recorder), resolution_ns: context.resolution_ns };
        let mut bench = FieldBench { shared: &shared, field: &at.field };
        let mut log = RaceLog { progress, sentinel: at.field.sentinel, sentinel_ns: vec![] };
        let outcome = race(&mut bench, &entrants, &options, &mut log).expect("contenders are distinct");
        let leader_ns = outcome.leader.and_then(|point| outcome.entrant(point)?.trimmed_mean_ns);
        for plan in &contenders {
            let measured = at.best_of(*plan).and_then(|(point, _)| outcome.entrant(point)?.log_ratio);
            match (costs.get_mut(plan), measured, leader_ns) {
                (Some(cost), Some(log_ratio), Some(ns)) => *cost += at.weight * ns * log_ratio.exp(),
                // Without a trial of every contender at every M the estimates are all there is.
                _ => return estimates,
            }
        }
    }
    // The others keep their estimated distance to the best of the estimates.
    let mut costs = ranked(costs);
    costs.extend(estimates.into_iter().filter(|(plan, _)| !contenders.contains(plan)));
    costs
}

/// The winner's config, without its formats.
fn winner_config(verdict: &Verdict) -> Option<String> {
    verdict.finalists.first()?.candidate.split_once(' ').map(|(_, config)| config.to_string())
}

/// A seed of its own for each contest and phase, so that resuming at any of them gives the same orders.
fn seed_of(seed: u64, key: &ContestKey, phase: u64) -> u64 {
    seed ^ tilewright_kernels::config::fnv1a(key.0.as_bytes()).wrapping_mul(2 * phase + 1)
}

fn line(name: &str, verdict: &Verdict) -> String {
    let Some(winner) = verdict.finalists.first() else {
        return format!("{name:<22} M={:<6} {}", verdict.m, verdict.verdict);
    };
    let default = verdict.finalists.iter().find(|row| row.default);
    let gain = default.map_or(String::new(), |row| format!("{:5.2}x default", row.ratio[0]));
    format!(
        "{name:<22} M={:<6} {:>9}  {gain}  {:<10} {}",
        verdict.m,
        time(winner.ns),
        verdict.verdict,
        winner.candidate
    )
}
