//! The course of a race: blocks, order, faults, budgets, what observers see.

mod race_bench;

use std::collections::HashMap;

use race_bench::{Synthetic, gaussian};
use tilewright::bench::{BenchFault, Sample};
use tilewright::race::{Entrant, Preference, RaceError, RaceObserver, RaceOptions, Status, Verdict, race};

const US: f64 = 1000.0;

fn field(points: &[usize]) -> Vec<Entrant> {
    points.iter().map(|point| Entrant::new(*point, *point as u32)).collect()
}

fn options() -> RaceOptions {
    RaceOptions { warmup_ns: 0.0, ..RaceOptions::default() }
}

/// Keeps points by block.
#[derive(Default)]
struct Recorder {
    blocks: HashMap<usize, Vec<usize>>,
    warm: usize,
}

impl RaceObserver for Recorder {
    fn sample(&mut self, block: Option<usize>, point: usize, _sample: &Sample) {
        match block {
            Some(block) => self.blocks.entry(block).or_default().push(point),
            None => self.warm += 1,
        }
    }
}

#[test]
fn blocks_are_complete_in_random_order_and_run_the_sentinel_twice() {
    let mut bench = Synthetic::new(&[50.0 * US; 5], gaussian(0.02), 1);
    let mut seen = Recorder::default();
    let outcome =
        race(&mut bench, &field(&[1, 2, 3, 4]), &RaceOptions { sentinel: Some(0), ..options() }, &mut seen)
            .unwrap();
    assert!(outcome.blocks >= 6);
    let mut firsts = Vec::new();
    for block in 0..6 {
        let mut points = seen.blocks[&block].clone();
        firsts.push(points.clone());
        points.sort_unstable();
        assert_eq!(points, [0, 0, 1, 2, 3, 4], "block {block}");
    }
    firsts.sort();
    firsts.dedup();
    assert!(firsts.len() >= 5, "six blocks ran in the orders {firsts:?}");
}

#[test]
fn a_sentinel_that_takes_part_runs_once_more_than_the_others() {
    let mut bench = Synthetic::new(&[50.0 * US; 3], gaussian(0.01), 1);
    let mut entrants = field(&[0, 1, 2]);
    entrants[1].pinned = true;
    let mut seen = Recorder::default();
    let outcome = race(&mut bench, &entrants, &options(), &mut seen).unwrap();
    let mut points = seen.blocks[&0].clone();
    points.sort_unstable();
    assert_eq!(points, [0, 1, 1, 2]);
    assert!(outcome.sentinel_interval.unwrap().contains(0.0));
}

#[test]
fn every_entrant_meets_every_buffer() {
    let mut bench = Synthetic::new(&[50.0 * US; 4], gaussian(0.05), 9);
    // Five launches a block and ten buffers: without a gap an entrant would see half of them only by chance of order.
    let options = RaceOptions { buffers: 10, delta: 0.001, ..options() };
    assert_eq!(options.slot_gap(5), 2);
    assert_eq!(options.slot_gap(7), 0);
    race(&mut bench, &field(&[0, 1, 2, 3]), &options, &mut ()).unwrap();
    let slots: Vec<usize> = bench.asked.iter().map(|(_, slot)| *slot).collect();
    assert!(slots.windows(2).all(|pair| pair[1] > pair[0] && pair[1] - pair[0] <= 10), "slots count upwards");
    for point in 0..4 {
        let mut seen = [0usize; 10];
        for (_, slot) in bench.asked.iter().filter(|(p, _)| *p == point) {
            seen[slot % 10] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0), "point {point}: {seen:?}");
    }
}

#[test]
fn warm_up_runs_for_its_time_and_does_not_count() {
    let mut bench = Synthetic::new(&[US * 1000.0, US * 1000.0], gaussian(0.001), 2);
    let mut seen = Recorder::default();
    let options = RaceOptions { warmup_ns: 30e6, ..options() };
    let outcome = race(&mut bench, &field(&[0, 1]), &options, &mut seen).unwrap();
    assert!((30..=36).contains(&seen.warm), "{} launches of a millisecond in 30 ms", seen.warm);
    assert_eq!(outcome.warmup_measurements, seen.warm);
    assert_eq!(outcome.measurements, bench.asked.len());
    assert_eq!(outcome.entrants[0].samples.len(), outcome.blocks);
}

#[test]
fn a_time_of_zero_is_refused_and_does_not_win() {
    let mut bench = Synthetic::new(&[0.0, 50.0 * US, 60.0 * US], gaussian(0.001), 3);
    let outcome = race(&mut bench, &field(&[0, 1, 2]), &options(), &mut ()).unwrap();
    assert_eq!(outcome.winner, Some(1));
    let Status::Failed(reason) = &outcome.entrant(0).unwrap().status else { panic!("it cannot be timed") };
    assert!(reason.contains("0 ns is no measurement"), "{reason}");
}

#[test]
fn a_time_under_twice_the_resolution_is_refused() {
    let mut bench = Synthetic::new(&[39.0, 50.0 * US], gaussian(0.0), 3);
    let outcome = race(&mut bench, &field(&[0, 1]), &options(), &mut ()).unwrap();
    assert!(matches!(outcome.entrant(0).unwrap().status, Status::Failed(_)));
    let mut bench = Synthetic::new(&[41.0, 50.0 * US], gaussian(0.0), 3);
    let outcome = race(&mut bench, &field(&[0, 1]), &options(), &mut ()).unwrap();
    assert_eq!(outcome.winner, Some(0));
}

#[test]
fn a_candidate_that_fails_leaves_with_its_reason_and_the_others_go_on() {
    let mut bench = Synthetic::new(&[40.0 * US, 50.0 * US, 60.0 * US], gaussian(0.001), 4);
    bench.fault = Box::new(|launch, point| {
        (point == 1 && launch > 6).then(|| BenchFault::Candidate("out of registers".to_owned()))
    });
    let outcome = race(&mut bench, &field(&[0, 1, 2]), &options(), &mut ()).unwrap();
    assert_eq!(outcome.entrant(1).unwrap().status, Status::Failed("out of registers".to_owned()));
    assert_eq!((outcome.winner, outcome.verdict), (Some(0), Verdict::Decided));
}

#[test]
fn those_that_lost_to_a_candidate_that_failed_later_race_again() {
    // Point 0 leads at the first look, and then breaks down.
    let mut bench = Synthetic::new(&[49.0 * US, 50.0 * US, 50.4 * US, 55.0 * US], gaussian(0.02), 4);
    bench.fault = Box::new(|launch, point| {
        (point == 0 && launch > 33).then(|| BenchFault::Candidate("hung".to_owned()))
    });
    let mut entrants = field(&[0, 1, 2, 3]);
    entrants[1].pinned = true;
    let options = RaceOptions { delta: 0.005, ..options() };
    let outcome = race(&mut bench, &entrants, &options, &mut ()).unwrap();
    assert_eq!(outcome.entrant(0).unwrap().status, Status::Failed("hung".to_owned()));
    assert!(outcome.discarded_blocks >= 6, "{outcome:?}");
    assert!(outcome.winner == Some(1) || outcome.winner == Some(2));
    assert!(matches!(outcome.entrant(3).unwrap().status, Status::Eliminated { .. }));
}

#[test]
fn when_all_fail_there_is_no_winner_but_an_outcome() {
    let mut bench = Synthetic::new(&[US, US], gaussian(0.0), 4);
    bench.fault = Box::new(|_, _| Some(BenchFault::Candidate("no device".to_owned())));
    let outcome = race(&mut bench, &field(&[0, 1]), &options(), &mut ()).unwrap();
    assert_eq!((outcome.winner, outcome.leader), (None, None));
    assert_eq!(outcome.verdict, Verdict::Ambiguous("every entrant failed".to_owned()));
}

#[test]
fn a_sentinel_that_fails_is_replaced() {
    let mut bench = Synthetic::new(&[40.0 * US, 50.0 * US, 60.0 * US], gaussian(0.001), 4);
    bench.fault = Box::new(|_, point| (point == 2).then(|| BenchFault::Candidate("no".to_owned())));
    let outcome =
        race(&mut bench, &field(&[0, 1]), &RaceOptions { sentinel: Some(2), ..options() }, &mut ()).unwrap();
    assert_eq!((outcome.winner, outcome.verdict), (Some(0), Verdict::Decided));
    assert!(outcome.sentinel_interval.is_some());
}

#[test]
fn a_stop_ends_in_an_outcome_with_what_is_known() {
    for stop_at in [0, 3, 40, 90] {
        let mut bench = Synthetic::new(&[40.0 * US, 40.8 * US, 50.1 * US], gaussian(0.02), 4);
        bench.fault = Box::new(move |launch, _| (launch == stop_at).then_some(BenchFault::Stopped));
        let options = RaceOptions { delta: 0.001, ..options() };
        let outcome = race(&mut bench, &field(&[0, 1, 2]), &options, &mut ()).unwrap();
        assert_eq!(outcome.verdict, Verdict::Ambiguous("stopped".to_owned()));
        assert_eq!(outcome.winner, (stop_at >= 4).then_some(0), "stopped at launch {stop_at}");
    }
}

#[test]
fn a_trace_that_ends_and_a_budget_that_ends_are_told_apart() {
    let mut bench = Synthetic::new(&[40.0 * US, 50.0 * US], gaussian(0.001), 4);
    bench.fault = Box::new(|launch, _| (launch == 5).then_some(BenchFault::TraceExhausted));
    let outcome = race(&mut bench, &field(&[0, 1]), &options(), &mut ()).unwrap();
    assert_eq!(outcome.verdict, Verdict::Ambiguous("the recorded trace ended".to_owned()));

    let mut bench = Synthetic::new(&[40.0 * US, 50.0 * US], gaussian(0.001), 4);
    let short = RaceOptions { max_time_ns: Some(300.0 * US), ..options() };
    let outcome = race(&mut bench, &field(&[0, 1]), &short, &mut ()).unwrap();
    let Verdict::Ambiguous(reason) = outcome.verdict else { panic!("two blocks decide nothing") };
    assert!(reason.starts_with("time ran out after"), "{reason}");
}

#[test]
fn impossible_fields_are_refused() {
    let mut bench = Synthetic::new(&[US, US], gaussian(0.0), 4);
    let mut run = |entrants: &[Entrant]| race(&mut bench, entrants, &options(), &mut ()).unwrap_err();
    assert_eq!(run(&[]), RaceError::NoEntrants);
    assert_eq!(run(&[Entrant::new(1, 0), Entrant::new(1, 1)]), RaceError::Duplicate(1));
    assert_eq!(run(&[Entrant::new(0, 5), Entrant::new(1, 5)]), RaceError::SameRank(0, 1));
    let mut both = field(&[0, 1]);
    both.iter_mut().for_each(|entrant| entrant.incumbent = true);
    assert_eq!(run(&both), RaceError::TwoIncumbents(0, 1));
}

#[test]
fn preferences_sort_by_split_workspace_neighbours_and_order() {
    let plain = Preference { rank: 9, ..Preference::default() };
    let splits = Preference { splits_k: true, ..Preference::default() };
    let hungry = Preference { workspace_bytes: 1, ..Preference::default() };
    let lonely = Preference { new_to_neighbours: true, ..Preference::default() };
    let mut sorted = [splits, hungry, lonely, plain];
    sorted.sort();
    assert_eq!(sorted, [plain, lonely, hungry, splits]);
}
