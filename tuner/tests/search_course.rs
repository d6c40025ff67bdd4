//! The course of a search: seeds, gate, elimination, budgets, what is known, every strategy.

mod race_bench;

use std::collections::HashMap;

use race_bench::{Synthetic, gaussian};
use tilewright::bench::{Bench, BenchFault, Sample};
use tilewright::search::{
    Ended, Evaluation, STRATEGIES, SearchError, SearchObserver, SearchOptions, SearchOutcome, Space,
    SpaceError, Strategy, View, search, strategy,
};
use tilewright::stats::Rng;

/// Five parameters of four levels, a quarter of the points illegal; the time has main effects and an interaction.
fn space() -> (Space, Vec<f64>) {
    let mut positions = Vec::new();
    let mut times = Vec::new();
    for code in 0..1024u16 {
        let position: Vec<u16> = (0..5).map(|digit| (code >> (2 * digit)) & 3).collect();
        if (position[0] + position[1]) % 4 == 3 {
            continue;
        }
        let at = |index: usize| f64::from(position[index]);
        let log = 0.2 * (at(0) - 2.0).abs()
            + 0.15 * (at(1) - 2.0).abs()
            + 0.1 * (at(2) - at(3) - 1.0).powi(2)
            + 0.05 * at(4);
        times.push(50_000.0 * log.exp());
        positions.push(position);
    }
    let points = positions.len();
    (Space::new(vec![0; points], positions, vec![0.0; points]).unwrap(), times)
}

fn options(seed: u64) -> SearchOptions {
    SearchOptions { seed, warmup_ns: 0.0, ..SearchOptions::default() }
}

fn run(name: &str, seeds: &[usize], options: &SearchOptions, noise: f64) -> (SearchOutcome, Synthetic) {
    let (space, times) = space();
    let mut bench = Synthetic::new(&times, gaussian(noise), options.seed);
    let mut strategy = strategy(name).unwrap();
    let outcome =
        search(&space, seeds, 0, &mut bench, strategy.as_mut(), options, &mut (), &HashMap::new()).unwrap();
    (outcome, bench)
}

#[test]
fn neighbours_differ_in_one_parameter_of_the_same_group() {
    let positions = vec![vec![0, 0], vec![0, 1], vec![1, 1], vec![2, 1], vec![0, 1], vec![0]];
    let space = Space::new(vec![3, 3, 3, 3, 5, 1], positions, vec![0.0; 6]).unwrap();
    assert_eq!(space.neighbours(1), [2, 3, 0]);
    assert_eq!(space.neighbours(0), [1]);
    assert_eq!(space.neighbours(4), [0usize; 0], "another group");
    assert_eq!(space.groups().collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(space.levels_of(3), [vec![0, 1, 2], vec![0, 1]]);
    assert_eq!(space.find(3, &[2, 1]), Some(3));
    assert_eq!(space.find(3, &[2, 0]), None);
}

#[test]
fn points_that_make_no_space_are_refused() {
    let refuse = |groups: Vec<u16>, positions: Vec<Vec<u16>>, prior: Vec<f64>| {
        Space::new(groups, positions, prior).unwrap_err()
    };
    assert_eq!(refuse(vec![], vec![], vec![]), SpaceError::Empty);
    assert_eq!(
        refuse(vec![0, 0], vec![vec![1]], vec![0.0]),
        SpaceError::Lengths { groups: 2, positions: 1, prior: 1 }
    );
    assert_eq!(refuse(vec![0, 0], vec![vec![1], vec![1]], vec![0.0; 2]), SpaceError::Duplicate(0, 1));
    assert_eq!(refuse(vec![0, 0], vec![vec![1], vec![1, 2]], vec![0.0; 2]), SpaceError::Parameters(1));
    assert_eq!(refuse(vec![0], vec![vec![1]], vec![f64::NAN]), SpaceError::Prior(0));
}

#[test]
fn seeds_come_first_and_are_measured_again() {
    for name in STRATEGIES {
        let seeds = [700, 3, 700, 0, 41];
        let (outcome, bench) = run(name, &seeds, &SearchOptions { max_evaluations: 20, ..options(1) }, 0.001);
        assert_eq!(outcome.trail[..4], [0, 700, 3, 41], "{name}: sentinel, then seeds, each once");
        assert_eq!(outcome.evaluations, 20, "{name}");
        assert_eq!(outcome.ended, Ended::OutOfEvaluations);
        assert_eq!(outcome.measurements, bench.asked.len());
        for point in &outcome.trail {
            assert!(bench.asked.iter().any(|(asked, _)| asked == point));
        }
        let mut once = outcome.trail.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), 20, "{name}: no point twice");
    }
}

#[test]
fn guided_strategies_find_the_optimum_long_before_random_would() {
    let (_, times) = space();
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    for name in ["guided", "ils"] {
        let found = (0..6)
            .filter(|seed| {
                let (outcome, _) =
                    run(name, &[], &SearchOptions { max_evaluations: 130, ..options(*seed) }, 0.002);
                times[outcome.ranked[0].0] <= 1.01 * best
            })
            .count();
        // Random search sees 130 of 768 points, and three lie within 1 %.
        assert!(found >= 5, "{name}: {found} of 6");
    }
}

#[test]
fn a_strategy_with_a_model_corrects_the_luckiest_and_others_believe_what_was_measured() {
    let options = SearchOptions { max_evaluations: 60, ..options(3) };
    let (outcome, _) = run("guided", &[], &options, 0.15);
    assert_eq!(outcome.believed.len(), outcome.ranked.len());
    assert!(outcome.believed.is_sorted_by(|a, b| a.1 <= b.1));
    let (luckiest, found) = outcome.ranked[0];
    let corrected = outcome.believed.iter().find(|(point, _)| *point == luckiest).unwrap().1;
    assert!(corrected > found.ratio, "{corrected} after {}", found.ratio);
    let (outcome, _) = run("ils", &[], &options, 0.15);
    let measured: Vec<_> = outcome.ranked.iter().map(|(point, found)| (*point, found.ratio)).collect();
    assert_eq!(outcome.believed, measured);
}

#[test]
fn exhaustive_search_sees_all_points_and_ends() {
    let (_, times) = space();
    let (outcome, _) = run(
        "exhaustive",
        &[],
        &SearchOptions { max_evaluations: usize::MAX, patience: usize::MAX, ..options(1) },
        0.0,
    );
    assert_eq!(outcome.ended, Ended::Exhausted);
    assert_eq!(outcome.evaluations, times.len());
    let mut ranked: Vec<f64> = outcome.ranked.iter().map(|(point, _)| times[*point]).collect();
    assert_eq!(ranked.len(), times.len());
    ranked.truncate(50);
    assert!(ranked.windows(2).all(|pair| pair[0] <= pair[1]), "the best are in order");
    for name in ["guided", "ils", "random"] {
        let all = SearchOptions { max_evaluations: usize::MAX, patience: usize::MAX, ..options(1) };
        let (space, times) = small();
        let mut bench = Synthetic::new(&times, gaussian(0.0), 1);
        let mut strategy = strategy(name).unwrap();
        let outcome =
            search(&space, &[], 0, &mut bench, strategy.as_mut(), &all, &mut (), &HashMap::new()).unwrap();
        assert_eq!(outcome.ended, Ended::Exhausted, "{name}");
        assert_eq!(outcome.evaluations, times.len(), "{name} reaches other groups and lonely points too");
    }
}

/// Two groups with different parameters, and a point without neighbours.
fn small() -> (Space, Vec<f64>) {
    let positions: Vec<Vec<u16>> =
        vec![vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1], vec![5, 5], vec![0], vec![1], vec![2]];
    let times = (1..=8).map(|t| 10_000.0 * f64::from(t)).collect();
    (Space::new(vec![0, 0, 0, 0, 0, 1, 1, 1], positions, vec![0.0; 8]).unwrap(), times)
}

#[test]
fn a_prior_orders_and_does_not_exclude() {
    let (space, times) = small();
    let positions = (0..8).map(|point| space.position(point).to_vec()).collect();
    let groups = (0..8).map(|point| space.group(point)).collect();
    let prior = vec![8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
    let space = Space::new(groups, positions, prior).unwrap();
    let mut bench = Synthetic::new(&times, gaussian(0.0), 1);
    let mut exhaustive = strategy("exhaustive").unwrap();
    let outcome =
        search(&space, &[], 0, &mut bench, exhaustive.as_mut(), &options(1), &mut (), &HashMap::new())
            .unwrap();
    assert_eq!(outcome.trail, [0, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(outcome.ranked[0].0, 0, "the worst by prior is the best");
}

struct Gate {
    admitted: Vec<usize>,
    launched: Vec<usize>,
}

impl SearchObserver for Gate {
    fn admit(&mut self, point: usize) -> Result<(), String> {
        self.admitted.push(point);
        if point % 3 == 1 { Err("max error 0.7".to_owned()) } else { Ok(()) }
    }
    fn sample(&mut self, point: usize, _sample: &Sample) {
        assert!(self.admitted.contains(&point), "point {point} was launched before it was admitted");
        self.launched.push(point);
    }
}

#[test]
fn no_point_is_timed_before_it_was_found_correct() {
    for name in STRATEGIES {
        let (space, times) = space();
        let mut bench = Synthetic::new(&times, gaussian(0.001), 1);
        let mut gate = Gate { admitted: Vec::new(), launched: Vec::new() };
        let mut strategy = strategy(name).unwrap();
        let options = SearchOptions { max_evaluations: 60, ..options(1) };
        let outcome =
            search(&space, &[4, 5], 0, &mut bench, strategy.as_mut(), &options, &mut gate, &HashMap::new())
                .unwrap();
        assert!(gate.launched.iter().all(|point| point % 3 != 1));
        assert!(outcome.rejected.contains(&(4, "max error 0.7".to_owned())));
        assert!(outcome.ranked.iter().all(|(point, _)| point % 3 != 1));
        let mut once = gate.admitted.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), gate.admitted.len(), "the gate is asked once a point");
    }
}

#[test]
fn a_point_far_off_the_best_is_launched_once() {
    let (outcome, bench) = run("random", &[], &SearchOptions { max_evaluations: 60, ..options(2) }, 0.0);
    let launches = |point: usize| bench.asked.iter().filter(|(asked, _)| *asked == point).count();
    let mut eliminated = 0;
    for (point, evaluation) in &outcome.ranked {
        if *point != 0 {
            assert_eq!(launches(*point), evaluation.launches);
            assert!(evaluation.launches == 3 || evaluation.launches == 1);
            eliminated += usize::from(evaluation.launches == 1);
        }
    }
    assert_eq!(outcome.ranked[0].1.launches, 3);
    assert!(eliminated > 20, "{eliminated}");
}

#[test]
fn the_sentinel_runs_at_least_once_in_nine_launches_and_ratios_follow_it() {
    let (space, times) = space();
    // The clock slows down by 0.1 % a launch: ratios stay, times do not.
    let noise: race_bench::Noise = Box::new(|_, launch| 0.001 * launch as f64);
    let mut bench = Synthetic::new(&times, noise, 1);
    let mut random = strategy("random").unwrap();
    let outcome =
        search(&space, &[], 0, &mut bench, random.as_mut(), &options(1), &mut (), &HashMap::new()).unwrap();
    let gaps: Vec<usize> = {
        let at: Vec<usize> = (0..bench.asked.len()).filter(|index| bench.asked[*index].0 == 0).collect();
        at.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    assert!(gaps.iter().all(|gap| *gap <= 9), "{gaps:?}");
    for (point, evaluation) in &outcome.ranked {
        let expected = times[*point] / times[0];
        assert!((evaluation.ratio / expected - 1.0).abs() < 0.03, "{evaluation:?} {expected}");
    }
}

#[test]
fn budgets_end_a_search_each_with_its_own_reason() {
    let (outcome, _) = run("random", &[], &SearchOptions { patience: 10, ..options(3) }, 0.001);
    assert_eq!(outcome.ended, Ended::OutOfPatience);
    let (outcome, bench) = run("random", &[], &SearchOptions { max_time_ns: Some(5e6), ..options(3) }, 0.001);
    assert_eq!(outcome.ended, Ended::OutOfTime);
    assert!(bench.now_ns < 5.5e6);
    for (fault, expected) in
        [(BenchFault::Stopped, Ended::Stopped), (BenchFault::TraceExhausted, Ended::TraceExhausted)]
    {
        let (space, times) = space();
        let mut bench = Synthetic::new(&times, gaussian(0.001), 1);
        bench.fault = Box::new(move |launch, _| (launch == 40).then(|| fault.clone()));
        let mut ils = strategy("ils").unwrap();
        let outcome =
            search(&space, &[], 0, &mut bench, ils.as_mut(), &options(1), &mut (), &HashMap::new()).unwrap();
        assert_eq!(outcome.ended, expected);
        assert!(!outcome.ranked.is_empty(), "what is known stands");
    }
}

#[test]
fn candidates_that_fail_are_listed_and_a_sentinel_that_fails_ends_it() {
    let (space, times) = space();
    let mut bench = Synthetic::new(&times, gaussian(0.001), 1);
    bench.fault =
        Box::new(|_, point| (point % 2 == 1).then(|| BenchFault::Candidate("launch failed".to_owned())));
    let mut guided = strategy("guided").unwrap();
    let outcome =
        search(&space, &[1], 0, &mut bench, guided.as_mut(), &options(1), &mut (), &HashMap::new()).unwrap();
    assert!(outcome.rejected.contains(&(1, "launch failed".to_owned())));
    assert!(outcome.ranked.len() > 20);
    let outcome =
        search(&space, &[], 1, &mut bench, guided.as_mut(), &options(1), &mut (), &HashMap::new()).unwrap();
    assert_eq!(outcome.ended, Ended::SentinelFailed("launch failed".to_owned()));
    assert_eq!(outcome.evaluations, 0);
}

#[test]
fn what_is_known_is_not_measured_again_and_counted_as_saved() {
    for name in ["guided", "ils"] {
        let (space, times) = space();
        let mut bench = Synthetic::new(&times, gaussian(0.0), 1);
        let mut fresh = strategy(name).unwrap();
        let options = SearchOptions { max_evaluations: 60, patience: 1000, ..options(1) };
        let first =
            search(&space, &[9], 0, &mut bench, fresh.as_mut(), &options, &mut (), &HashMap::new()).unwrap();
        let known: HashMap<usize, Evaluation> = first.ranked.iter().copied().collect();
        let mut bench = Synthetic::new(&times, gaussian(0.0), 1);
        let mut again = strategy(name).unwrap();
        let options = SearchOptions { max_evaluations: 10, ..options };
        let second = search(&space, &[9], 0, &mut bench, again.as_mut(), &options, &mut (), &known).unwrap();
        assert!(second.saved >= 55, "{name}: {}", second.saved);
        assert_eq!(second.evaluations, 10, "{name}");
        let fresh_points: Vec<usize> = second.trail.iter().copied().filter(|point| *point != 0).collect();
        assert!(fresh_points.iter().all(|point| !known.contains_key(point)));
        assert!(second.ranked[0].1.ratio <= first.ranked[0].1.ratio);
    }
}

#[test]
fn the_same_seed_and_trace_give_the_same_search() {
    for name in STRATEGIES {
        let limit = SearchOptions { max_evaluations: 50, ..options(5) };
        assert_eq!(run(name, &[7], &limit, 0.01).0, run(name, &[7], &limit, 0.01).0, "{name}");
    }
}

#[test]
fn points_outside_the_space_are_refused() {
    let (space, times) = small();
    let mut bench = Synthetic::new(&times, gaussian(0.0), 1);
    let mut ils = strategy("ils").unwrap();
    let mut run = |seeds: &[usize], sentinel: usize| {
        search(&space, seeds, sentinel, &mut bench, ils.as_mut(), &options(1), &mut (), &HashMap::new())
            .unwrap_err()
    };
    assert_eq!(run(&[8], 0), SearchError::NoSuchPoint { point: 8, len: 8 });
    assert_eq!(run(&[0], 9), SearchError::NoSuchPoint { point: 9, len: 8 });
    assert!(strategy("simulated annealing").is_none());
}

/// Proposes points that it must not.
struct Careless;

impl Strategy for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }
    fn propose(&mut self, view: &View<'_>, _rng: &mut Rng, _most: usize) -> Vec<usize> {
        let next = view.tried().len();
        vec![0, next, next, 10_000]
    }
}

#[test]
fn a_strategy_cannot_make_a_point_count_twice() {
    let (space, times) = small();
    let mut bench = Synthetic::new(&times, gaussian(0.0), 1);
    assert_eq!(bench.resolution_ns(), 20.0);
    let outcome =
        search(&space, &[], 0, &mut bench, &mut Careless, &options(1), &mut (), &HashMap::new()).unwrap();
    assert_eq!(outcome.trail, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(outcome.ended, Ended::Exhausted);
}
