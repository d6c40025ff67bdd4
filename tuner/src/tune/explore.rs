//! Searching the candidates of one weight: broadly at each M to find the plans worth having, then within the chosen plan,
//! where each M starts from what is good at its neighbours.

use std::cell::RefCell;
use std::collections::HashMap;

use super::candidates::{Candidate, Field, Plan};
use super::observe::{FieldBench, SearchLog, Shared};
use super::plan::Searched;
use super::progress::Progress;
use super::rig::Recorder;
use super::seeds::{Sources, Start, start};
use super::weight::Context;
use super::work::Work;
use crate::journal::{ContestKey, Evaluated, Record};
use crate::search::{Batched, Evaluation, Guided, SearchOptions, search};
use crate::stats::median;

/// Evaluations without improvement that end the search of a contest that was decided before.
const WARM_PATIENCE: usize = 6;
/// Configs of a neighbouring M that a search within the plan starts from.
const OF_A_NEIGHBOUR: usize = 4;

/// Searches all plans at one M. `None` if not even the sentinel was measured.
///
/// # Errors
/// If no kernel of the device runs the shape.
pub(super) fn explore(
    work: &Work<'_>,
    index: usize,
    key: &ContestKey,
    pairs: &[super::FormatPair],
    time_ns: Option<f64>,
    context: &Context<'_>,
    sources: &Sources<'_>,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> anyhow::Result<Option<Searched>> {
    let point = &work.points[index];
    let base = work.base(point.m);
    let suggested = recorder.suggest(&base, pairs);
    let field = Field::new(&base, pairs, &suggested, context.device).ok_or_else(|| {
        anyhow::anyhow!("{}: no kernel of this device runs n={} k={}", work.name, work.n, work.k)
    })?;
    recorder.record(&Record::Contest { key: key.clone(), candidates: field.candidates.len() });
    let Start { seeds, warm } = start(sources, &field, key, pairs, context.device);
    let limits = Limits {
        time_ns,
        patience: if warm { WARM_PATIENCE } else { context.settings.patience },
        warmup_ns: match recorder.measurements {
            0 => context.settings.warmup_ns,
            _ => context.settings.warm_up_again_ns(),
        },
        phase: 1,
    };
    let known = known(&field, context.resume.evaluations.get(key));
    let weight = point.weight / f64::from(point.m);
    let found = run(field, key, weight, &seeds, &known, &limits, context, recorder, progress);
    Ok(found.map(|found| Searched { warm, ..found }))
}

/// Searches the plan's candidates at one M further. `neighbours` are what is known at the Ms beside it.
pub(super) fn refine(
    at: Searched,
    key: &ContestKey,
    plan: Plan,
    neighbours: &[&Searched],
    time_ns: Option<f64>,
    context: &Context<'_>,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> Searched {
    // A contest that was decided before has been refined before.
    if at.warm || recorder.stopped {
        return at;
    }
    let Some(field) = at.field.within(plan, context.device) else { return at };
    let mut known = known(&field, context.resume.evaluations.get(key));
    for (point, ratio, launches) in &at.ranked {
        if let Some(here) = field.point(&at.field.candidates[*point]) {
            known.insert(here, Evaluation { ratio: *ratio, launches: *launches });
        }
    }
    let base = field.candidates[field.sentinel].problem;
    let mut seeds: Vec<usize> =
        at.in_plan(plan).filter_map(|(point, ..)| field.point(&at.field.candidates[point])).collect();
    for beside in neighbours {
        let best =
            beside.in_plan(plan).take(OF_A_NEIGHBOUR).map(|(point, ..)| beside.field.candidates[point]);
        let here = best.map(|there| Candidate { problem: plan.formats.apply(&base), config: there.config });
        seeds.extend(here.filter_map(|candidate| field.point(&candidate)));
    }
    let limits = Limits {
        time_ns,
        patience: context.settings.patience,
        warmup_ns: context.settings.warm_up_again_ns(),
        phase: 3,
    };
    match run(field, key, at.weight, &seeds, &known, &limits, context, recorder, progress) {
        Some(found) if found.best_of(plan).is_some() => found,
        _ => at,
    }
}

/// What one search may spend.
struct Limits {
    time_ns: Option<f64>,
    patience: usize,
    warmup_ns: f64,
    phase: u64,
}

fn run(
    field: Field,
    key: &ContestKey,
    weight: f64,
    seeds: &[usize],
    known: &HashMap<usize, Evaluation>,
    limits: &Limits,
    context: &Context<'_>,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> Option<Searched> {
    let options = SearchOptions {
        max_evaluations: context.settings.max_evaluations,
        patience: limits.patience,
        max_time_ns: limits.time_ns,
        seed: seed_of(context.settings.seed, key, limits.phase),
        warmup_ns: limits.warmup_ns,
        batch: context.settings.batch,
        ..SearchOptions::default()
    };
    let shared = Shared { recorder: RefCell::new(recorder), resolution_ns: context.resolution_ns };
    let mut log = SearchLog { shared: &shared, field: &field, key, progress, sentinel_ns: vec![] };
    let mut bench = FieldBench { shared: &shared, field: &field };
    let mut strategy = Batched::new(Guided::default(), context.settings.batch);
    let outcome =
        search(&field.space, seeds, field.sentinel, &mut bench, &mut strategy, &options, &mut log, known)
            .expect("seeds and sentinel are points of the field");
    let sentinel_ns = median(&log.sentinel_ns)?;
    let launches: HashMap<usize, usize> =
        outcome.ranked.iter().map(|(point, found)| (*point, found.launches)).collect();
    let ranked = outcome.believed.iter().map(|(point, ratio)| (*point, *ratio, launches[point])).collect();
    let m = field.candidates[field.sentinel].problem.m;
    Some(Searched { m, weight, field, ranked, sentinel_ns, warm: false })
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

/// A seed of its own for each contest and phase, so that resuming at any of them gives the same orders.
pub(super) fn seed_of(seed: u64, key: &ContestKey, phase: u64) -> u64 {
    seed ^ tilewright_kernels::config::fnv1a(key.0.as_bytes()).wrapping_mul(2 * phase + 1)
}
