//! Model-guided search: a Gaussian process says where to look next.
//!
//! After a few points drawn by prior, each step predicts time and uncertainty of the points around the best ones and of
//! some anywhere, and proposes the one with the largest expected improvement (Jones, Schonlau & Welch, "Efficient global
//! optimization of expensive black-box functions", 1998). Kernel parameters are few-valued and mostly powers of two, so that
//! the process works on positions ([`super::surrogate`]). Replayed on recorded GEMM spaces it needs about half of the
//! evaluations of iterated local search.

use std::collections::HashMap;

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use super::surrogate::Surrogate;
use super::{Ils, Strategy, View};
use crate::stats::Rng;

/// Points drawn before there is a model, and at least this many in each group.
const INITIAL: usize = 12;
const INITIAL_PER_GROUP: usize = 3;
/// Targets are cut off this far above the best, as a log-ratio: how slow a slow point is says little about which is the
/// fastest, and would set the scale of everything.
const CAP: f64 = 0.5;
/// Points two steps around this many of the best are candidates, and this many drawn anywhere.
const CENTRES: usize = 5;
const ANYWHERE: usize = 300;
/// The kernel is fitted again after the results have grown by a tenth and four.
const REFIT_GROWTH: f64 = 1.1;
const REFIT_STEP: f64 = 4.0;
/// Results of a group after which the model costs more than it saves: the local search goes on from there.
const MOST_RESULTS: usize = 400;
/// Results that a model was fitted to before its means are believed.
const FEWEST_BELIEVED: usize = 16;
/// Levels in which a prior enters the model as one parameter more.
const PRIOR_LEVELS: usize = 16;

/// Bayesian optimisation over the positions of each group.
#[derive(Debug, Default)]
pub struct Guided {
    models: HashMap<u16, Model>,
    /// Inputs of all points: positions, and the level of the prior where it says something.
    inputs: Vec<Vec<u16>>,
    local: Ils,
}

/// The model of one group.
#[derive(Debug)]
struct Model {
    surrogate: Surrogate,
    /// The evaluated points of the group, in the order in which the model saw them.
    points: Vec<usize>,
    fitted: usize,
}

impl Strategy for Guided {
    fn name(&self) -> &'static str {
        "guided"
    }

    fn propose(&mut self, view: &View<'_>, rng: &mut Rng, most: usize) -> Vec<usize> {
        if let Some(point) = initial(view, rng) {
            return vec![point];
        }
        let Some((_, best)) = view.best() else { return view.draw(rng).into_iter().collect() };
        if self.inputs.is_empty() {
            self.inputs = inputs(view);
        }
        let groups: Vec<u16> = view.space.groups().collect();
        for group in &groups {
            self.learn(*group, best, view);
        }
        if self.models.values().any(|model| model.points.len() > MOST_RESULTS) {
            return self.local.propose(view, rng, most);
        }
        let mut chosen: Option<(usize, f64)> = None;
        let candidates = candidates(view, rng);
        for group in groups {
            let Some(model) = self.models.get(&group) else { continue };
            let points: Vec<usize> =
                candidates.iter().copied().filter(|point| view.space.group(*point) == group).collect();
            let inputs: Vec<&[u16]> = points.iter().map(|point| self.inputs[*point].as_slice()).collect();
            for (point, (mean, deviation)) in points.iter().zip(model.surrogate.predict(&inputs)) {
                let promise = log_expected_improvement(best, mean, deviation);
                if chosen.is_none_or(|(_, most)| promise > most) {
                    chosen = Some((*point, promise));
                }
            }
        }
        chosen.map(|(point, _)| point).or_else(|| view.draw(rng)).into_iter().collect()
    }

    /// The model's means at what it learnt from, which are nearer to the neighbours' the noisier it found the results.
    fn believed(&mut self, view: &View<'_>) -> Vec<(usize, f64)> {
        let Some((_, best)) = view.best() else { return Vec::new() };
        if self.inputs.is_empty() {
            return Vec::new();
        }
        let mut believed = Vec::new();
        for group in view.space.groups() {
            self.learn(group, best, view);
            let Some(model) = self.models.get(&group).filter(|model| model.fitted >= FEWEST_BELIEVED) else {
                continue;
            };
            let inputs: Vec<&[u16]> =
                model.points.iter().map(|point| self.inputs[*point].as_slice()).collect();
            let means = model.surrogate.predict(&inputs).into_iter().map(|(mean, _)| mean);
            // What was cut off for the model is known by its measurement alone.
            let whole = |point: usize| view.log_ratio(point).is_some_and(|log| log < best + CAP);
            believed.extend(model.points.iter().copied().zip(means).filter(|(point, _)| whole(*point)));
        }
        believed
    }
}

impl Guided {
    /// Brings a group's model up to date.
    fn learn(&mut self, group: u16, best: f64, view: &View<'_>) {
        let known = |point: &usize| view.space.group(*point) == group && view.log_ratio(*point).is_some();
        let points: Vec<usize> = view.tried().iter().copied().filter(known).collect();
        if points.is_empty() || points.len() > MOST_RESULTS + 1 {
            return;
        }
        let parameters = self.inputs[points[0]].len();
        let model = self.models.entry(group).or_insert_with(|| Model {
            surrogate: Surrogate::new(parameters),
            points: Vec::new(),
            fitted: 0,
        });
        // Points that were only guessed at, in a batch, may be gone or come in another order.
        let same = model.points.iter().zip(&points).take_while(|(old, new)| old == new).count();
        model.surrogate.keep(same);
        model.points = points;
        let inputs: Vec<&[u16]> = model.points.iter().map(|point| self.inputs[*point].as_slice()).collect();
        let targets: Vec<f64> = model
            .points
            .iter()
            .filter_map(|point| view.log_ratio(*point))
            .map(|t| t.min(best + CAP))
            .collect();
        model.surrogate.learn(&inputs, &targets);
        if targets.len() as f64 >= model.fitted as f64 * REFIT_GROWTH + REFIT_STEP {
            model.surrogate.fit();
            model.fitted = targets.len();
        }
    }
}

/// The next point of the initial design, if it is not complete: of a group that has had too few, or of any.
fn initial(view: &View<'_>, rng: &mut Rng) -> Option<usize> {
    if view.tried().len() < INITIAL {
        return view.draw(rng);
    }
    let short = view.space.groups().find(|group| {
        let points = view.space.points_of(*group);
        let tried = view.tried().iter().filter(|point| view.space.group(**point) == *group).count();
        tried < INITIAL_PER_GROUP.min(points.len())
    })?;
    view.draw_of(short, rng)
}

/// Untried points near the best ones, and some from anywhere, in order.
fn candidates(view: &View<'_>, rng: &mut Rng) -> Vec<usize> {
    let value = |point: &usize| view.log_ratio(*point).unwrap_or(f64::INFINITY);
    let mut centres: Vec<usize> = view.tried().to_vec();
    centres.sort_by(|a, b| value(a).total_cmp(&value(b)).then(a.cmp(b)));
    let mut found = Vec::new();
    for centre in centres.into_iter().take(CENTRES) {
        let near = view.space.neighbours(centre);
        found.extend(near.iter().flat_map(|point| view.space.neighbours(*point)));
        found.extend(near);
    }
    found.extend((0..ANYWHERE).map(|_| rng.below(view.space.len())));
    found.sort_unstable();
    found.dedup();
    found.retain(|point| !view.was_tried(*point));
    found
}

/// What the model sees of each point. A prior enters as the sixteenth of its group that a point is in, so that its scale
/// does not matter and the model finds out how far to trust it.
fn inputs(view: &View<'_>) -> Vec<Vec<u16>> {
    let space = view.space;
    let mut inputs: Vec<Vec<u16>> = (0..space.len()).map(|point| space.position(point).to_vec()).collect();
    for group in space.groups() {
        let mut points = space.points_of(group).to_vec();
        if points.iter().all(|point| space.prior(*point) == space.prior(points[0])) {
            continue;
        }
        points.sort_by(|a, b| space.prior(*a).total_cmp(&space.prior(*b)).then(a.cmp(b)));
        let members = points.len();
        for (rank, point) in points.into_iter().enumerate() {
            inputs[point].push((rank * PRIOR_LEVELS / members) as u16);
        }
    }
    inputs
}

/// The log of E[max(best − t, 0)] for t of this mean and deviation; where it underflows, something that still prefers the
/// smaller mean.
fn log_expected_improvement(best: f64, mean: f64, deviation: f64) -> f64 {
    let z = (best - mean) / deviation;
    let normal = Normal::standard();
    let expected = deviation * (z * normal.cdf(z) + normal.pdf(z));
    if expected > 1e-300 { expected.ln() } else { -1e6 - mean }
}
