//! Verdicts: who is eliminated, who ties, who wins; drift; reproducibility.

mod race_bench;

use race_bench::{Noise, Synthetic, autocorrelated, bimodal, gaussian, heavy_tails, normal, slow_drift};
use tilewright::race::{Entrant, Preference, RaceOptions, RaceOutcome, Status, Verdict, race};

const US: f64 = 1000.0;
/// Five identical, then 2, 5 and 20 % slower: the field of the published A/A table.
const FIELD: [f64; 8] =
    [50.0 * US, 50.0 * US, 50.0 * US, 50.0 * US, 50.0 * US, 51.0 * US, 52.5 * US, 60.0 * US];

fn options() -> RaceOptions {
    RaceOptions { warmup_ns: 0.0, ..RaceOptions::default() }
}

fn run(truth: &[f64], noise: Noise, seed: u64, options: &RaceOptions) -> RaceOutcome {
    let entrants: Vec<Entrant> = (0..truth.len()).map(|point| Entrant::new(point, point as u32)).collect();
    let mut bench = Synthetic::new(truth, noise, seed);
    race(&mut bench, &entrants, &RaceOptions { seed, ..options.clone() }, &mut ()).unwrap()
}

fn is_eliminated(outcome: &RaceOutcome, point: usize) -> bool {
    matches!(outcome.entrant(point).unwrap().status, Status::Eliminated { .. })
}

/// Of `races`, in how many any of the first five was eliminated, and the 2 % slower one was.
fn rates(make: fn() -> Noise, races: u64) -> (u64, u64) {
    let mut wrong = 0;
    let mut right = 0;
    for seed in 0..races {
        let outcome = run(&FIELD, make(), seed, &options());
        wrong += u64::from((0..5).any(|point| is_eliminated(&outcome, point)));
        right += u64::from(is_eliminated(&outcome, 5));
    }
    (wrong, right)
}

#[test]
fn identical_candidates_stay_and_slower_ones_leave_under_every_kind_of_noise() {
    type Make = fn() -> Noise;
    let kinds: [(&str, Make); 5] = [
        ("gaussian", || gaussian(0.005)),
        ("heavy tails", heavy_tails),
        ("bimodal clock", bimodal),
        ("autocorrelation 0.6", || autocorrelated(0.6)),
        ("slow drift", slow_drift),
    ];
    for (name, make) in kinds {
        let races = 100;
        let (wrong, right) = rates(make, races);
        assert!(wrong <= 5, "{name}: an identical one eliminated in {wrong} of {races}");
        // A bimodal clock of ±2.5 % needs more than 40 blocks for 2 %; the others do not.
        let least = if name == "bimodal clock" { 40 } else { 95 };
        assert!(right >= least, "{name}: the 2 % slower one eliminated in {right} of {races}");
    }
}

#[test]
fn a_clear_winner_is_decided_at_the_first_look() {
    let outcome = run(&[55.0 * US, 50.0 * US, 52.0 * US], gaussian(0.002), 1, &options());
    assert_eq!((outcome.winner, outcome.leader), (Some(1), Some(1)));
    assert_eq!(outcome.verdict, Verdict::Decided);
    assert_eq!(outcome.blocks, 6);
    assert_eq!(outcome.entrant(2).unwrap().status, Status::Eliminated { look: 1, blocks: 6 });
    let rival = outcome.entrant(0).unwrap();
    let expected = (55.0f64 / 50.0).ln();
    assert!(rival.interval.unwrap().contains(expected), "{rival:?}");
    assert!((rival.trimmed_mean_ns.unwrap() / (55.0 * US) - 1.0).abs() < 0.01);
}

#[test]
fn a_hopeless_rival_does_not_wait_for_the_first_look() {
    let outcome = run(&[50.0 * US, 80.0 * US], gaussian(0.005), 1, &options());
    assert_eq!(outcome.entrant(1).unwrap().status, Status::Eliminated { look: 0, blocks: 4 });
    assert_eq!(outcome.entrant(1).unwrap().samples.len(), 4);
}

#[test]
fn what_differs_by_less_than_delta_ties_and_the_preferred_one_wins() {
    let entrants: Vec<Entrant> = [(0, true, 0), (1, false, 1), (2, false, 2)]
        .map(|(point, splits_k, rank)| Entrant {
            preference: Preference { splits_k, rank, ..Preference::default() },
            ..Entrant::new(point, rank)
        })
        .to_vec();
    let mut bench = Synthetic::new(&[50.0 * US, 50.05 * US, 50.0 * US], gaussian(0.01), 7);
    let outcome = race(&mut bench, &entrants, &options(), &mut ()).unwrap();
    assert_eq!(outcome.verdict, Verdict::Tied(3));
    assert_eq!(outcome.tie_set, [1, 2, 0], "no split first, then canonical order");
    assert_eq!(outcome.winner, Some(1));
}

#[test]
fn a_tie_is_not_won_by_name_alone() {
    // Point 0 comes first in the canonical order, but is slower by nearly δ.
    let mut refused = 0;
    for seed in 0..40 {
        let outcome = run(&[50.85 * US, 50.0 * US], gaussian(0.03), seed, &options());
        let estimate = outcome.entrant(0).unwrap().log_ratio.unwrap();
        if outcome.leader == Some(1) && outcome.tie_set.len() == 2 {
            assert_eq!(outcome.winner, Some(usize::from(estimate > 0.01)), "{outcome:?}");
            refused += u32::from(estimate > 0.01);
        }
    }
    assert!(refused > 5, "{refused}");
}

fn with_incumbent(slower: f64, seed: u64) -> RaceOutcome {
    let entrants =
        [Entrant { incumbent: true, ..Entrant::new(0, 9) }, Entrant::new(1, 1), Entrant::new(2, 2)];
    let mut bench = Synthetic::new(&[50.0 * US * slower, 50.0 * US, 52.0 * US], gaussian(0.001), seed);
    race(&mut bench, &entrants, &RaceOptions { delta: 0.01, seed, ..options() }, &mut ()).unwrap()
}

#[test]
fn an_incumbent_leaves_only_for_an_improvement_that_is_worth_it() {
    for seed in 0..20 {
        let kept = with_incumbent(1.006, seed);
        assert_eq!((kept.winner, kept.leader), (Some(0), Some(1)), "0.6 % is under the margin of 1 %");
        assert_eq!(kept.verdict, Verdict::Tied(2));
        let replaced = with_incumbent(1.02, seed);
        assert_eq!(
            (replaced.winner, replaced.verdict.clone()),
            (Some(1), Verdict::Decided),
            "2 % is over it"
        );
        assert!(is_eliminated(&replaced, 0));
    }
}

#[test]
fn a_pinned_baseline_is_measured_to_the_end() {
    let entrants = [Entrant { pinned: true, ..Entrant::new(0, 9) }, Entrant::new(1, 1), Entrant::new(2, 2)];
    let mut bench = Synthetic::new(&[90.0 * US, 50.0 * US, 50.1 * US], gaussian(0.02), 3);
    let outcome = race(&mut bench, &entrants, &RaceOptions { delta: 0.005, ..options() }, &mut ()).unwrap();
    let baseline = outcome.entrant(0).unwrap();
    assert!(is_eliminated(&outcome, 0) && !outcome.tie_set.contains(&0));
    assert!(outcome.blocks > 6);
    assert_eq!(baseline.samples.len(), outcome.blocks);
    assert!(baseline.interval.unwrap().contains((90.0f64 / 50.05).ln()));
}

#[test]
fn who_arrives_first_does_not_matter() {
    let truth = [50.0 * US, 50.2 * US, 50.1 * US, 49.9 * US, 51.0 * US];
    let forward: Vec<Entrant> = (0..5).map(|point| Entrant::new(point, 10 - point as u32)).collect();
    let reference = {
        let mut bench = Synthetic::new(&truth, gaussian(0.01), 3);
        race(&mut bench, &forward, &options(), &mut ()).unwrap()
    };
    for turn in 1..5 {
        let mut turned = forward.clone();
        turned.rotate_left(turn);
        turned.swap(0, 3);
        let mut bench = Synthetic::new(&truth, gaussian(0.01), 3);
        assert_eq!(race(&mut bench, &turned, &options(), &mut ()).unwrap(), reference);
    }
}

#[test]
fn the_same_trace_and_seed_give_the_same_outcome() {
    let first = run(&FIELD, heavy_tails(), 42, &options());
    assert_eq!(first, run(&FIELD, heavy_tails(), 42, &options()));
    assert_ne!(first, run(&FIELD, heavy_tails(), 43, &options()));
}

#[test]
fn a_machine_too_noisy_for_delta_is_ambiguous() {
    let outcome = run(&[50.0 * US, 50.0 * US], gaussian(0.2), 2, &options());
    let Verdict::Ambiguous(reason) = &outcome.verdict else { panic!("±20 % cannot tell 2 %: {outcome:?}") };
    assert!(reason.contains("the sentinel is known to ±"), "{reason}");
    assert_eq!(outcome.blocks, 40);
}

#[test]
fn a_sentinel_that_differs_from_itself_is_ambiguous() {
    // The second of two launches of one point in a row is 5 % slower: a bench whose second id is not like its first.
    let mut count = 0usize;
    let noise: Noise = Box::new(move |rng, _| {
        count += 1;
        0.001 * normal(rng) + if count.is_multiple_of(3) { 0.05 } else { 0.0 }
    });
    let mut outcome = run(&[50.0 * US, 56.0 * US], noise, 2, &options());
    // By chance of order the two halves may be hit alike; what matters is that an interval without 0 is not decided on.
    if !outcome.sentinel_interval.take().unwrap().contains(0.0) {
        assert!(matches!(outcome.verdict, Verdict::Ambiguous(_)));
    }
}

#[test]
fn a_passing_slowdown_costs_its_blocks_only() {
    // Twelve launches, four blocks, are 30 % slower, all points alike; the warm-up after the alarm outlasts them.
    let noise: Noise =
        Box::new(|rng, launch| 0.004 * normal(rng) + if (75..87).contains(&launch) { 0.3 } else { 0.0 });
    let options = RaceOptions { delta: 0.0015, warmup_ns: 600.0 * US, ..options() };
    let outcome = run(&[50.0 * US, 50.0 * US], noise, 2, &options);
    assert_eq!((outcome.drift.len(), outcome.restarts), (1, 0), "{:?}", outcome.drift);
    let event = outcome.drift[0];
    assert!(!event.restarted && (event.shift - 0.3).abs() < 0.02, "{event:?}");
    assert!((1..=4).contains(&outcome.discarded_blocks), "{}", outcome.discarded_blocks);
    assert_eq!(event.found + 1 - event.since, outcome.discarded_blocks);
    let slowest = outcome.entrants.iter().flat_map(|e| &e.samples).copied().fold(0.0, f64::max);
    assert!(slowest < 55.0 * US, "the slow blocks are gone: {slowest}");
}

#[test]
fn a_lasting_change_starts_the_race_again() {
    let noise: Noise = Box::new(|rng, launch| 0.004 * normal(rng) + if launch >= 60 { 0.1 } else { 0.0 });
    let options = RaceOptions { delta: 0.0015, ..options() };
    let outcome = run(&[50.0 * US, 50.1 * US], noise, 2, &options);
    assert_eq!(outcome.restarts, 1);
    assert!(outcome.drift[0].restarted);
    assert!(outcome.discarded_blocks >= 20);
    assert!(outcome.entrants.iter().flat_map(|e| &e.samples).all(|ns| *ns > 53.0 * US));
}

#[test]
fn a_machine_that_keeps_changing_is_ambiguous() {
    let noise: Noise = Box::new(|rng, launch| 0.002 * normal(rng) + 0.1 * (launch / 45) as f64);
    let options = RaceOptions { delta: 0.0012, max_blocks: 400, ..options() };
    let outcome = run(&[50.0 * US, 50.1 * US], noise, 2, &options);
    let Verdict::Ambiguous(reason) = &outcome.verdict else { panic!("{outcome:?}") };
    assert!(reason.starts_with("the machine's speed moved 3 times"), "{reason}");
    assert_eq!(outcome.restarts, 2);
}

#[test]
fn ties_are_relative_to_the_leader_and_never_chained() {
    // Each of these ties with its neighbour, and the first does not tie with the last.
    let truth: Vec<f64> = (0..6).map(|step| 50.0 * US * 1.006f64.powi(step)).collect();
    let outcome = run(&truth, gaussian(0.005), 11, &RaceOptions { delta: 0.01, ..options() });
    assert_eq!(outcome.leader, Some(0));
    assert!(is_eliminated(&outcome, 5));
    for point in outcome.tie_set.iter().filter(|point| **point != 0) {
        let interval = outcome.entrant(*point).unwrap().interval.unwrap();
        assert!(interval.low < 0.01, "point {point}: {interval:?}");
    }
}
