//! How much the sentinel has to know: as much as the decision needs, and no more than nothing where it only confirms.

mod race_bench;

use race_bench::{Noise, Synthetic, autocorrelated, bimodal, gaussian, heavy_tails};
use tilewright::race::{Entrant, RaceOptions, RaceOutcome, Verdict, race};

const US: f64 = 1000.0;

fn options(seed: u64) -> RaceOptions {
    RaceOptions { warmup_ns: 0.0, seed, ..RaceOptions::default() }
}

fn run(truth: &[f64], noise: Noise, incumbent: Option<usize>, options: &RaceOptions) -> RaceOutcome {
    let entrants: Vec<Entrant> = (0..truth.len())
        .map(|point| Entrant { incumbent: Some(point) == incumbent, ..Entrant::new(point, point as u32) })
        .collect();
    let mut bench = Synthetic::new(truth, noise, options.seed);
    race(&mut bench, &entrants, options, &mut ()).unwrap()
}

#[test]
fn a_wide_margin_is_decided_before_the_sentinel_is_known_to_delta() {
    let mut early = 0;
    for seed in 0..20 {
        let outcome = run(&[50.0 * US, 65.0 * US], gaussian(0.06), None, &options(seed));
        assert_eq!((outcome.winner, &outcome.verdict), (Some(0), &Verdict::Decided), "{outcome:?}");
        let sentinel = outcome.sentinel_interval.unwrap();
        assert!(sentinel.is_within((65.0f64 / 50.0).ln() + 0.1), "{sentinel:?}");
        early += u32::from(sentinel.half_width() > 0.02 && outcome.blocks < 40);
    }
    assert!(early >= 18, "{early} of 20 ended while the sentinel was known to worse than δ");
}

#[test]
fn decisions_on_a_wide_sentinel_are_as_right_as_others() {
    type Make = fn() -> Noise;
    let kinds: [(&str, Make); 4] = [
        ("gaussian 3 %", || gaussian(0.03)),
        ("heavy tails", heavy_tails),
        ("bimodal clock", bimodal),
        ("autocorrelation 0.6", || autocorrelated(0.6)),
    ];
    let truth = [50.0, 52.5, 53.0, 55.0, 60.0, 75.0].map(|us| us * US);
    for (name, make) in kinds {
        let (mut wrong, mut decided) = (0, 0);
        for seed in 0..100 {
            let outcome = run(&truth, make(), None, &options(seed));
            if matches!(outcome.verdict, Verdict::Ambiguous(_)) {
                continue;
            }
            decided += 1;
            wrong += u32::from(outcome.winner != Some(0));
        }
        assert!(wrong <= 5 && decided >= 60, "{name}: {wrong} wrong of {decided}");
    }
}

fn confirming(seed: u64) -> RaceOptions {
    RaceOptions { confirms: true, ..options(seed) }
}

#[test]
fn an_unchanged_incumbent_is_confirmed_in_a_few_blocks() {
    let truth = [50.0 * US, 50.2 * US, 52.0 * US, 80.0 * US];
    let (mut confirmed, mut blocks) = (0, 0);
    for seed in 0..100 {
        let outcome = run(&truth, gaussian(0.05), Some(0), &confirming(seed));
        assert_eq!(outcome.winner, Some(0), "{outcome:?}");
        confirmed += u32::from(outcome.confirmed);
        blocks += outcome.blocks;
    }
    assert!(confirmed >= 95, "{confirmed} of 100");
    assert!(blocks <= 1000, "{blocks} blocks for 100 races; without an earlier verdict each takes 40");
}

#[test]
fn an_incumbent_that_became_slower_is_not_confirmed() {
    let truth = [60.0 * US, 50.0 * US, 52.0 * US];
    let mut kept = 0;
    for seed in 0..100 {
        let outcome = run(&truth, gaussian(0.05), Some(0), &confirming(seed));
        kept += u32::from(outcome.winner == Some(0));
        assert!(!outcome.confirmed || outcome.winner == Some(0));
    }
    assert!(kept <= 5, "a rival 20 % faster was passed over in {kept} of 100");
}

#[test]
fn nothing_is_confirmed_without_an_incumbent_or_by_a_sentinel_that_differs_from_itself() {
    let outcome = run(&[50.0 * US, 50.0 * US], gaussian(0.05), None, &confirming(1));
    assert!(!outcome.confirmed && outcome.blocks == 40);
    let asked = run(&[50.0 * US, 50.0 * US], gaussian(0.05), Some(0), &options(1));
    assert!(!asked.confirmed, "it was not asked to confirm");
}
