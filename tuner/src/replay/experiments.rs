//! The experiments: how soon a search comes near the optimum, how often a race picks the best.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use super::{RecordedBench, Recording};
use crate::race::{Entrant, RaceOptions, race};
use crate::search::{SearchOptions, Space, Strategy, View, search, strategy};
use crate::stats::{Looks, Rng, TRIM, median, quantile, trimmed_mean};

/// Times are recorded in milliseconds with four digits.
const RESOLUTION_NS: f64 = 100.0;
/// Distances to the optimum that are counted to, in the order of reports.
const WITHIN: [f64; 3] = [0.10, 0.05, 0.01];

/// What to replay.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the strategy.
    pub strategy: String,
    /// Runs, with the seeds `first_seed`, `first_seed` + 1, ….
    pub seeds: usize,
    /// The first seed.
    pub first_seed: u64,
    /// Evaluations after which a search is given up.
    pub max_evaluations: usize,
    /// First samples of each config that are skipped.
    pub skip: usize,
    /// How many of another device's best are seeds.
    pub warm: usize,
}

/// How soon searches came near the optimum. Counts are evaluations, the first one included; `None` where more than the
/// quantile's share of the runs was given up before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchSummary {
    /// The recording.
    pub space: String,
    /// Its number of configs.
    pub configs: usize,
    /// Configs within 10, 5 and 1 % of the optimum.
    pub within: [usize; 3],
    /// The strategy.
    pub strategy: String,
    /// The recording whose best were the seeds.
    pub warm_from: Option<String>,
    /// Median number of evaluations to within 10, 5 and 1 %.
    pub median: [Option<usize>; 3],
    /// 90th percentile of the same.
    pub p90: [Option<usize>; 3],
    /// Launches per evaluated config, sentinels and warm-up included.
    pub launches_per_config: f64,
}

/// How well races picked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RaceSummary {
    /// The recording.
    pub space: String,
    /// Entrants of each race, and out of how many of the best they were drawn.
    pub entrants: usize,
    /// The same.
    pub drawn_from: usize,
    /// Samples per entrant, the sentinel's second half and what was discarded included, warm-up not.
    pub samples_per_entrant: f64,
    /// Mean regret of the winner, as a share of the best entrant's true time.
    pub regret_mean: f64,
    /// 95th percentile of it.
    pub regret_p95: f64,
    /// The worst.
    pub regret_max: f64,
    /// Mean regret of the leader, before ties are broken by preference.
    pub leader_regret_mean: f64,
    /// Mean size of the tie set.
    pub tie_set_mean: f64,
    /// Share of races that ended ambiguous.
    pub ambiguous: f64,
}

/// How search and race do together, as the tuner runs them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TuningSummary {
    /// The recording.
    pub space: String,
    /// Mean number of configs evaluated.
    pub evaluations: f64,
    /// Launches per evaluated config, of search and race together, all of them counted.
    pub launches_per_config: f64,
    /// Mean regret of the winner, as a share of the true time of the best config that was evaluated.
    pub regret_mean: f64,
    /// 95th percentile of it.
    pub regret_p95: f64,
    /// The worst.
    pub regret_max: f64,
    /// Median distance of the winner to the optimum, as a share of it.
    pub to_optimum_median: f64,
}

/// Tunes a recording once a seed: a search with the default budget, then a race of its best eight and the sentinel.
pub fn replay_tuning(recording: &Recording, race_options: &RaceOptions, plan: &Plan) -> TuningSummary {
    const FINALISTS: usize = 8;
    let truth = true_times(recording, plan.skip);
    let optimum = truth.iter().copied().fold(f64::INFINITY, f64::min);
    let traces = served(recording, plan.skip);
    let space = recording.space();
    let run = |seed: u64| {
        let sentinel = Rng::new(seed ^ 0x5eed).below(space.len());
        let mut bench = RecordedBench::new(&traces, RESOLUTION_NS, seed);
        let mut strategy = strategy(&plan.strategy).expect("the command line checked the name");
        let options = SearchOptions { seed, ..SearchOptions::default() };
        let found =
            search(&space, &[], sentinel, &mut bench, strategy.as_mut(), &options, &mut (), &HashMap::new())
                .expect("the sentinel is a point of the space");
        let mut field: Vec<usize> = found.believed.iter().take(FINALISTS).map(|(point, _)| *point).collect();
        if !field.contains(&sentinel) {
            field.push(sentinel);
        }
        let entrants: Vec<Entrant> = field
            .iter()
            .map(|point| Entrant { pinned: *point == sentinel, ..Entrant::new(*point, *point as u32) })
            .collect();
        let options = RaceOptions { seed, sentinel: Some(sentinel), ..race_options.clone() };
        let outcome = race(&mut bench, &entrants, &options, &mut ()).expect("distinct entrants");
        let winner = truth[outcome.winner.expect("a recording does not fail")];
        let best = found.ranked.iter().map(|(point, _)| truth[*point]).fold(f64::INFINITY, f64::min);
        let launches = found.measurements + outcome.measurements;
        (winner / best - 1.0, winner / optimum - 1.0, found.evaluations as f64, launches as f64)
    };
    let runs = in_parallel(plan.seeds, |index| run(plan.first_seed + index as u64));
    let regrets: Vec<f64> = runs.iter().map(|run| run.0).collect();
    let distances: Vec<f64> = runs.iter().map(|run| run.1).collect();
    let evaluations: f64 = runs.iter().map(|run| run.2).sum();
    let launches: f64 = runs.iter().map(|run| run.3).sum();
    TuningSummary {
        space: recording.name.clone(),
        evaluations: evaluations / runs.len().max(1) as f64,
        launches_per_config: launches / evaluations.max(1.0),
        regret_mean: regrets.iter().sum::<f64>() / runs.len().max(1) as f64,
        regret_p95: quantile(&regrets, 0.95).unwrap_or(f64::NAN),
        regret_max: regrets.iter().copied().fold(0.0, f64::max),
        to_optimum_median: median(&distances).unwrap_or(f64::NAN),
    }
}

/// Searches a recording once a seed.
pub fn replay_search(recording: &Recording, warm_from: Option<&Recording>, plan: &Plan) -> SearchSummary {
    let truth = steady_medians(recording, plan.skip);
    let optimum = truth.iter().copied().fold(f64::INFINITY, f64::min);
    let traces = served(recording, plan.skip);
    let space = recording.space();
    let seeds = warm_from
        .map(|other| recording.seeds_from(other, &steady_medians(other, plan.skip), plan.warm))
        .unwrap_or_default();
    let run = |seed: u64| one_search(&space, &traces, &truth, optimum, &seeds, plan, seed);
    let runs = in_parallel(plan.seeds, |index| run(plan.first_seed + index as u64));
    let count = |within: usize, q: f64| {
        let counts: Vec<f64> =
            runs.iter().map(|run| run.reached[within].map_or(f64::INFINITY, |count| count as f64)).collect();
        let mut sorted = counts;
        sorted.sort_by(f64::total_cmp);
        let at = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
        sorted.get(at).filter(|count| count.is_finite()).map(|count| *count as usize)
    };
    let launches: usize = runs.iter().map(|run| run.launches).sum();
    let evaluations: usize = runs.iter().map(|run| run.evaluations).sum();
    SearchSummary {
        space: recording.name.clone(),
        configs: truth.len(),
        within: WITHIN.map(|share| truth.iter().filter(|time| **time <= optimum * (1.0 + share)).count()),
        strategy: plan.strategy.clone(),
        warm_from: warm_from.map(|other| other.name.clone()),
        median: [0, 1, 2].map(|within| count(within, 0.5)),
        p90: [0, 1, 2].map(|within| count(within, 0.9)),
        launches_per_config: launches as f64 / evaluations.max(1) as f64,
    }
}

struct Run {
    reached: [Option<usize>; 3],
    launches: usize,
    evaluations: usize,
}

fn one_search(
    space: &Space,
    traces: &[Vec<f64>],
    truth: &[f64],
    optimum: f64,
    seeds: &[usize],
    plan: &Plan,
    seed: u64,
) -> Run {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut bench = RecordedBench::new(traces, RESOLUTION_NS, seed);
    // A recording has no default config: the first seed serves, or where there is none a random one.
    let sentinel = seeds.first().copied().unwrap_or_else(|| rng.below(space.len()));
    let inner = strategy(&plan.strategy).expect("the command line checked the name");
    let mut strategy = UntilGood { inner, truth, goal: optimum * (1.0 + WITHIN[2]) };
    let options = SearchOptions {
        max_evaluations: plan.max_evaluations,
        patience: usize::MAX,
        seed,
        ..SearchOptions::default()
    };
    let outcome =
        search(space, seeds, sentinel, &mut bench, &mut strategy, &options, &mut (), &HashMap::new())
            .expect("seeds are points of the space");
    let first = |share: f64| {
        outcome.trail.iter().position(|point| truth[*point] <= optimum * (1.0 + share)).map(|index| index + 1)
    };
    Run { reached: WITHIN.map(first), launches: outcome.measurements, evaluations: outcome.evaluations }
}

/// Ends a search once it has what the experiment counts to; the strategy does not see the truth.
struct UntilGood<'a> {
    inner: Box<dyn Strategy>,
    truth: &'a [f64],
    goal: f64,
}

impl Strategy for UntilGood<'_> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn propose(&mut self, view: &View<'_>, rng: &mut Rng, most: usize) -> Vec<usize> {
        if view.tried().iter().any(|point| self.truth[*point] <= self.goal) {
            return Vec::new();
        }
        self.inner.propose(view, rng, most)
    }
}

/// Races `entrants` configs drawn from the `drawn_from` best of a recording, once a seed.
pub fn replay_race(
    recording: &Recording,
    entrants: usize,
    drawn_from: usize,
    options: &RaceOptions,
    plan: &Plan,
) -> RaceSummary {
    let traces = served(recording, plan.skip);
    let truth: Vec<f64> = steady(recording, plan.skip)
        .map(|steady| {
            trimmed_mean(&every_second(steady, 1), TRIM).or(median(steady)).expect("a config has samples")
        })
        .collect();
    let mut ranked: Vec<usize> = (0..truth.len()).collect();
    let all = steady_medians(recording, plan.skip);
    ranked.sort_by(|a, b| all[*a].total_cmp(&all[*b]).then(a.cmp(b)));
    ranked.truncate(drawn_from);
    let run = |seed: u64| {
        let mut rng = Rng::new(seed);
        let mut field = ranked.clone();
        rng.shuffle(&mut field);
        field.truncate(entrants);
        let best = field.iter().map(|point| truth[*point]).fold(f64::INFINITY, f64::min);
        // Rank is the canonical order, which knows nothing of speed.
        let entrants: Vec<Entrant> = field.iter().map(|point| Entrant::new(*point, *point as u32)).collect();
        let mut bench = RecordedBench::new(&traces, RESOLUTION_NS, seed);
        let options = RaceOptions { seed, ..options.clone() };
        let outcome = race(&mut bench, &entrants, &options, &mut ()).expect("distinct entrants");
        let regret = |point: Option<usize>| point.map_or(f64::INFINITY, |point| truth[point] / best - 1.0);
        (regret(outcome.winner), regret(outcome.leader), outcome)
    };
    let runs = in_parallel(plan.seeds, |index| run(plan.first_seed + index as u64));
    let regrets: Vec<f64> = runs.iter().map(|(regret, _, _)| *regret).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / runs.len().max(1) as f64;
    RaceSummary {
        space: recording.name.clone(),
        entrants,
        drawn_from: ranked.len(),
        samples_per_entrant: mean(
            &mut runs
                .iter()
                .map(|(_, _, o)| (o.measurements - o.warmup_measurements) as f64 / o.entrants.len() as f64),
        ),
        regret_mean: mean(&mut regrets.iter().copied()),
        regret_p95: quantile(&regrets, 0.95).unwrap_or(f64::NAN),
        regret_max: regrets.iter().copied().fold(0.0, f64::max),
        leader_regret_mean: mean(&mut runs.iter().map(|(_, leader, _)| *leader)),
        tie_set_mean: mean(&mut runs.iter().map(|(_, _, o)| o.tie_set.len() as f64)),
        ambiguous: mean(
            &mut runs.iter().map(|(_, _, o)| {
                f64::from(u8::from(matches!(o.verdict, crate::race::Verdict::Ambiguous(_))))
            }),
        ),
    }
}

/// Options for a race on a device of its own: δ of 1 %, early looks as well.
pub fn device_race() -> RaceOptions {
    RaceOptions {
        looks: Looks::new(vec![3, 4, 6, 10, 16, 24, 40], 0.05).expect("they rise"),
        delta: 0.01,
        ..RaceOptions::default()
    }
}

/// The samples after the first `skip`, by point; all of them where that would leave none to serve.
fn steady(recording: &Recording, skip: usize) -> impl Iterator<Item = &[f64]> {
    recording
        .samples
        .iter()
        .map(move |samples| if samples.len() > skip + 1 { &samples[skip..] } else { samples })
}

fn steady_medians(recording: &Recording, skip: usize) -> Vec<f64> {
    steady(recording, skip).map(|steady| median(steady).expect("a config has samples")).collect()
}

fn true_times(recording: &Recording, skip: usize) -> Vec<f64> {
    steady(recording, skip).map(|steady| trimmed_mean(steady, TRIM).expect("a config has samples")).collect()
}

fn served(recording: &Recording, skip: usize) -> Vec<Vec<f64>> {
    steady(recording, skip).map(|steady| every_second(steady, 0)).collect()
}

fn every_second(samples: &[f64], from: usize) -> Vec<f64> {
    samples.iter().skip(from).step_by(2).copied().collect()
}

/// Runs jobs 0..`count` on all cores; results in order.
fn in_parallel<T: Send>(count: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, job(index)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a replay does not panic")).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}
