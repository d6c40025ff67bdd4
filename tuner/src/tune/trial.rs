//! Trying plans against each other.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::candidates::Plan;
use super::copies::{Allowed, contenders};
use super::observe::{FieldBench, RaceLog, Shared};
use super::plan::{PlanCost, Searched, estimates};
use super::progress::Progress;
use super::rig::Recorder;
use super::weight::Context;
use crate::race::{Entrant, RaceOptions, race};
use crate::stats::Looks;

/// A trial measures this many blocks: it compares a handful of configs that are known to be good.
const TRIAL_BLOCKS: usize = 10;

/// Costs of the plans at each M: by interleaved trials of those in contention, by the search's estimates of the others.
pub(super) fn plan_costs(
    searched: &[Searched],
    allowed: Option<Allowed>,
    time_ns: Option<f64>,
    context: &Context<'_>,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> Vec<PlanCost> {
    let estimates = estimates(searched);
    let ms: Vec<u32> = searched.iter().map(|at| at.m).collect();
    let contenders = contenders(&estimates, &ms, allowed);
    if contenders.len() < 2 || recorder.stopped {
        return estimates;
    }
    let mut costs: BTreeMap<Plan, Vec<f64>> = contenders.iter().map(|plan| (*plan, Vec::new())).collect();
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
            warmup_ns: context.settings.warm_up_again_ns(),
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
                (Some(cost), Some(log_ratio), Some(ns)) => cost.push(at.weight * ns * log_ratio.exp()),
                // Without a trial of every contender at every M the estimates are all there is.
                _ => return estimates,
            }
        }
    }
    // The others keep their estimated distance to the best of the estimates.
    let mut costs: Vec<PlanCost> = costs.into_iter().map(|(plan, at)| PlanCost { plan, at }).collect();
    let least = |costs: &[PlanCost]| costs.iter().map(PlanCost::total).fold(f64::INFINITY, f64::min);
    let scale = least(&costs) / least(&estimates);
    for estimate in estimates.into_iter().filter(|estimate| !contenders.contains(&estimate.plan)) {
        let at = estimate.at.iter().map(|cost| cost * scale).collect();
        costs.push(PlanCost { at, ..estimate });
    }
    costs
}
