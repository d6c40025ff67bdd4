//! Tuning one weight: quality, search at every M, plan, search within the plan, finals at every M.

use std::cell::RefCell;
use std::collections::HashMap;

use tilewright_kernels::{Device, Format};

use super::copies::{Allowed, Stored, store};
use super::crossover::Ground;
use super::explore::{explore, refine, seed_of};
use super::finals::{Bracket, by_search, finals};
use super::observe::Shared;
use super::plan::{Searched, choose, ranked};
use super::progress::Progress;
use super::quality::Quality;
use super::rig::Recorder;
use super::run::Settings;
use super::seeds::Sources;
use super::trial::plan_costs;
use super::work::Work;
use crate::journal::{ContestKey, PlanRecord, Record, Resume, Verdict};
use crate::race::RaceOptions;
use crate::stats::Looks;
use crate::units::time;

/// By when, as parts of a weight's time, its phases end: search of all plans, trials of plans, search within the plan,
/// finals; what is left is for the Ms between.
const EXPLORED_BY: f64 = 0.35;
const TRIED_BY: f64 = 0.45;
const REFINED_BY: f64 = 0.65;
const RACED_BY: f64 = 0.9;
/// Blocks at which finals are looked at: further than the race's own default, because a sentinel on a shared processor
/// often needs more than 40 to be known to δ.
const LOOKS: [usize; 7] = [6, 10, 16, 24, 40, 64, 100];
/// Blocks of one final, discarded ones included.
const MAX_BLOCKS: usize = 160;

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
    /// What the tables say now: how the weight is stored, and at each M the winner's canonical text.
    pub(super) incumbent: Option<(Stored, HashMap<u32, String>)>,
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
    let name = keys.iter().map(|key| key.0.as_str()).collect::<Vec<_>>().join("; ");

    // A weight that an interrupted run had finished is taken over whole; what it could not decide is measured again.
    let decided = |key| context.resume.verdicts.get(key).filter(|v| !v.verdict.starts_with("ambiguous"));
    let mut finished: Vec<Verdict> = keys.iter().filter_map(|key| decided(key).cloned()).collect();
    if let Some(plan) = context.resume.plans.get(&name).filter(|_| finished.len() == keys.len()) {
        let between =
            context.resume.verdicts.values().filter(|v| {
                !keys.contains(&v.key) && v.key == work.key(v.m, pairs) && decided(&v.key).is_some()
            });
        finished.extend(between.cloned());
        finished.sort_by_key(|verdict| verdict.m);
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
    for (index, key) in keys.iter().enumerate() {
        let time_ns = part(recorder.now_ns, EXPLORED_BY, keys.len() - index);
        progress.contest(&work.name, work.points[index].m, "search");
        match explore(work, index, key, pairs, time_ns, context, sources, recorder, progress)? {
            Some(found) => searched.push(found),
            None => break,
        }
        if recorder.stopped {
            break;
        }
    }
    if searched.is_empty() {
        return Ok(None);
    }

    let incumbent = context.incumbent.as_ref().map(|(stored, _)| *stored);
    let time_ns = part(recorder.now_ns, TRIED_BY, searched.len());
    let allowed = work.two_copies_mib.map(|mib| Allowed { n: work.n, k: work.k, mib });
    let costs = plan_costs(&searched, allowed, time_ns, context, recorder, progress);
    let single = incumbent.filter(|stored| stored.second.is_none()).map(|stored| stored.first);
    let by_cost = ranked(&costs);
    let Some(single) = choose(&by_cost, pairs, single) else { return Ok(None) };
    let ms: Vec<u32> = searched.iter().map(|at| at.m).collect();
    let (stored, cost) = store(&costs, &ms, single, allowed, incumbent);
    let record = quality.record(name, &stored, cost, &by_cost);
    recorder.record(&Record::Plan(record.clone()));

    let mut refined: Vec<Searched> = Vec::new();
    let mut left = searched.into_iter().peekable();
    while let Some(at) = left.next() {
        let index = refined.len();
        let time_ns = part(recorder.now_ns, REFINED_BY, keys.len() - index);
        progress.contest(&work.name, at.m, "search in plan");
        let neighbours: Vec<&Searched> = refined.last().into_iter().chain(left.peek()).collect();
        let plan = stored.at(at.m);
        let found = refine(at, &keys[index], plan, &neighbours, time_ns, context, recorder, progress);
        refined.push(found);
    }
    let mut searched = refined;

    let earlier = sources.history.verdicts(sources.fingerprint);
    let mut verdicts: Vec<Verdict> = Vec::new();
    for (index, (at, key)) in searched.iter().zip(&keys).enumerate() {
        progress.contest(&work.name, at.m, "finals");
        let plan = stored.at(at.m);
        let neighbours: Vec<String> = verdicts.iter().filter_map(winner_config).collect();
        let incumbent = context.incumbent.as_ref().and_then(|(_, rows)| {
            let point = at.field.find(&format!("{} {}", plan.formats, rows.get(&at.m)?))?;
            (at.field.candidates[point].plan() == plan).then_some(point)
        });
        let earlier = earlier.get(key).copied();
        let bracket = Bracket { plan, incumbent, earlier, neighbours: &neighbours };
        let verdict = if recorder.stopped {
            by_search(at, key, &bracket, "stopped before the finals")
        } else {
            let options = RaceOptions {
                seed: seed_of(context.settings.seed, key, 2),
                delta: context.settings.delta,
                warmup_ns: context.settings.warm_up_again_ns(),
                buffers: context.settings.buffers,
                max_time_ns: part(recorder.now_ns, RACED_BY, searched.len() - index),
                looks: Looks::new(LOOKS.to_vec(), 0.05).expect("the looks ascend"),
                max_blocks: MAX_BLOCKS,
                ..RaceOptions::default()
            };
            let shared = Shared { recorder: RefCell::new(recorder), resolution_ns: context.resolution_ns };
            finals(&shared, at, key, &bracket, &options, progress)
        };
        recorder.record(&Record::Verdict(verdict.clone()));
        recorder.sync();
        let confirmed = if earlier == Some(&verdict) { " (confirmed)" } else { "" };
        progress.decided(&format!("{}{confirmed}", line(&work.name, &verdict)));
        sources.this_run.push(verdict.clone());
        verdicts.push(verdict);
    }
    let ends_ns = context.time_ns.map(|ns| began + ns);
    let ground = Ground { work, pairs, stored: &stored, context, ends_ns };
    ground.remeasure_dominated(&mut searched, &mut verdicts, recorder, progress);
    let between = ground.locate_changes(&verdicts, recorder, progress);
    verdicts.extend(between);
    verdicts.sort_by_key(|verdict| verdict.m);
    Ok(Some(WeightResult { work: index, plan: record, verdicts }))
}

/// The winner's config, without its formats.
fn winner_config(verdict: &Verdict) -> Option<String> {
    verdict.finalists.first()?.candidate.split_once(' ').map(|(_, config)| config.to_string())
}

pub(super) fn line(name: &str, verdict: &Verdict) -> String {
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
