//! The course of a search: sentinel, seeds, then the strategy until a budget ends it.

use std::collections::HashMap;

use super::measure::{Meter, SENTINEL_EVERY};
use super::{
    Ended, Evaluation, SearchError, SearchObserver, SearchOptions, SearchOutcome, Space, Strategy, View,
};
use crate::bench::Bench;
use crate::stats::Rng;

/// An improvement under this, as a ratio, does not renew the patience: it may be noise.
const IMPROVEMENT: f64 = 0.998;

/// Searches the space.
///
/// `sentinel` is what all ratios are to, the default config; it counts as evaluated, with ratio 1. `known` are evaluations
/// of an earlier run with the same sentinel: where the search asks for one of them, it is taken as it is and counted as
/// saved.
///
/// # Errors
/// If a seed or the sentinel is no point of the space. Whatever goes wrong while measuring is part of the outcome.
pub fn search(
    space: &Space,
    seeds: &[usize],
    sentinel: usize,
    bench: &mut dyn Bench,
    strategy: &mut dyn Strategy,
    options: &SearchOptions,
    observer: &mut dyn SearchObserver,
    known: &HashMap<usize, Evaluation>,
) -> Result<SearchOutcome, SearchError> {
    if let Some(point) = seeds.iter().chain([&sentinel]).find(|point| **point >= space.len()) {
        return Err(SearchError::NoSuchPoint { point: *point, len: space.len() });
    }
    let mut search = Search {
        space,
        options,
        known,
        results: vec![None; space.len()],
        order: Vec::new(),
        best: None,
        rejected: Vec::new(),
        trail: Vec::new(),
        since_improvement: 0,
        saved: 0,
    };
    let mut meter = Meter::new(bench, observer, options, sentinel);
    let ended = search.run(seeds, sentinel, strategy, &mut meter);
    let measurements = meter.measurements;
    let view = View { space, results: &search.results, order: &search.order, best: search.best };
    let believed = strategy.believed(&view);
    Ok(search.outcome(measurements, ended, &believed))
}

struct Search<'a> {
    space: &'a Space,
    options: &'a SearchOptions,
    known: &'a HashMap<usize, Evaluation>,
    results: Vec<Option<Result<Evaluation, ()>>>,
    order: Vec<usize>,
    best: Option<(usize, f64)>,
    rejected: Vec<(usize, String)>,
    trail: Vec<usize>,
    since_improvement: usize,
    saved: usize,
}

impl Search<'_> {
    fn run(
        &mut self,
        seeds: &[usize],
        sentinel: usize,
        strategy: &mut dyn Strategy,
        meter: &mut Meter<'_>,
    ) -> Ended {
        let mut rng = Rng::new(self.options.seed);
        if let Err(reason) = meter.observer.admit(sentinel) {
            meter.observer.rejected(sentinel, &reason);
            return Ended::SentinelFailed(reason);
        }
        if let Err(ended) = meter.warm_up() {
            return ended;
        }
        let itself = Evaluation { ratio: 1.0, launches: meter.measurements };
        meter.observer.evaluated(sentinel, &itself);
        self.trail.push(sentinel);
        self.book(sentinel, Ok(itself));
        let mut fresh: Vec<usize> = Vec::new();
        for seed in seeds {
            if *seed != sentinel && !fresh.contains(seed) {
                fresh.push(*seed);
            }
        }
        for group in fresh.chunks(self.options.batch.max(SENTINEL_EVERY)) {
            // The first seeds are measured however little time there is: among them is one of every plan.
            meter.in_any_case = self.trail.len() <= 1;
            if let Some(ended) = self.take(group, meter, &mut rng) {
                return ended;
            }
            meter.in_any_case = false;
        }
        self.since_improvement = 0;
        loop {
            let left = self.options.max_evaluations.saturating_sub(self.trail.len());
            if left == 0 {
                return Ended::OutOfEvaluations;
            }
            if self.since_improvement >= self.options.patience {
                return Ended::OutOfPatience;
            }
            let view =
                View { space: self.space, results: &self.results, order: &self.order, best: self.best };
            let mut group: Vec<usize> = Vec::new();
            for point in strategy.propose(&view, &mut rng, left.min(self.options.batch.max(SENTINEL_EVERY))) {
                if point < self.space.len() && !view.was_tried(point) && !group.contains(&point) {
                    group.push(point);
                }
            }
            if group.is_empty() {
                return Ended::Exhausted;
            }
            if let Some(ended) = self.take(&group, meter, &mut rng) {
                return ended;
            }
        }
    }

    /// Evaluates a group, from what is known where it is.
    fn take(&mut self, group: &[usize], meter: &mut Meter<'_>, rng: &mut Rng) -> Option<Ended> {
        let mut admitted = Vec::new();
        let fresh: Vec<usize> =
            group.iter().copied().filter(|point| !self.known.contains_key(point)).collect();
        meter.observer.group(&fresh);
        for point in group {
            if let Some(evaluation) = self.known.get(point) {
                self.saved += 1;
                self.book(*point, Ok(*evaluation));
                continue;
            }
            if self.trail.len() + admitted.len() >= self.options.max_evaluations {
                break;
            }
            match meter.observer.admit(*point) {
                Ok(()) => admitted.push(*point),
                Err(reason) => self.reject(*point, reason, meter),
            }
        }
        let best = self.best.map(|(_, log_ratio)| log_ratio.exp());
        let (results, ended) = meter.group(&admitted, best, rng);
        for (point, measured) in results {
            match measured {
                Ok(evaluation) => {
                    meter.observer.evaluated(point, &evaluation);
                    self.trail.push(point);
                    self.book(point, Ok(evaluation));
                }
                Err(reason) => self.reject(point, reason, meter),
            }
        }
        ended
    }

    fn reject(&mut self, point: usize, reason: String, meter: &mut Meter<'_>) {
        meter.observer.rejected(point, &reason);
        self.trail.push(point);
        self.rejected.push((point, reason));
        self.book(point, Err(()));
    }

    fn book(&mut self, point: usize, result: Result<Evaluation, ()>) {
        self.results[point] = Some(result);
        self.order.push(point);
        self.since_improvement += 1;
        let Ok(evaluation) = result else { return };
        let found = evaluation.ratio.ln();
        if self.best.is_none_or(|(_, best)| found < best) {
            if self.best.is_none_or(|(_, best)| found < best + IMPROVEMENT.ln()) {
                self.since_improvement = 0;
            }
            self.best = Some((point, found));
        }
    }

    fn outcome(self, measurements: usize, ended: Ended, beliefs: &[(usize, f64)]) -> SearchOutcome {
        let mut ranked: Vec<(usize, Evaluation)> = self
            .order
            .iter()
            .filter_map(|point| self.results[*point]?.ok().map(|evaluation| (*point, evaluation)))
            .collect();
        ranked.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio).then(a.0.cmp(&b.0)));
        let beliefs: HashMap<usize, f64> = beliefs.iter().copied().collect();
        let mut believed: Vec<(usize, f64)> = ranked
            .iter()
            .map(|(point, found)| (*point, beliefs.get(point).map_or(found.ratio, |log| log.exp())))
            .collect();
        believed.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        SearchOutcome {
            ranked,
            believed,
            rejected: self.rejected,
            evaluations: self.trail.len(),
            trail: self.trail,
            measurements,
            saved: self.saved,
            ended,
        }
    }
}
