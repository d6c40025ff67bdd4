//! The error rates that the statistics promise, by simulation with fixed seeds.

mod race_bench;

use race_bench::{Noise, autocorrelated, bimodal, gaussian, heavy_tails, slow_drift};
use tilewright::stats::{Rng, TRIM, Yuen, yuen};

/// Log-ratios of two identical candidates over `blocks` blocks, run in random order within each block.
fn paired(noise: &mut Noise, rng: &mut Rng, blocks: usize, shift: f64) -> Vec<f64> {
    let ratio = |block: usize| {
        let first = noise(rng, 2 * block);
        let second = noise(rng, 2 * block + 1);
        shift + if rng.unit() < 0.5 { first - second } else { second - first }
    };
    (0..blocks).map(ratio).collect()
}

/// Share of samples whose 95 % interval leaves out the truth.
fn miss_rate(mut noise: Noise, blocks: usize, seed: u64) -> f64 {
    let mut rng = Rng::new(seed);
    let trials = 2000;
    let misses = (0..trials)
        .filter(|_| {
            let ratios = paired(&mut noise, &mut rng, blocks, 0.0);
            !yuen(&ratios, TRIM).expect("enough blocks").interval(0.95).contains(0.0)
        })
        .count();
    misses as f64 / f64::from(trials)
}

#[test]
fn intervals_cover_identical_candidates_under_every_kind_of_noise() {
    type Make = fn() -> Noise;
    let kinds: [(&str, Make); 5] = [
        ("gaussian", || gaussian(0.01)),
        ("heavy tails", heavy_tails),
        ("bimodal clock", bimodal),
        ("autocorrelation 0.6", || autocorrelated(0.6)),
        ("slow drift", slow_drift),
    ];
    for (name, make) in kinds {
        for blocks in [6, 16, 40] {
            let rate = miss_rate(make(), blocks, 3);
            // 5 % is nominal; 2,000 trials put it at 4 to 6 %. Heavy tails make trimming conservative, never bold.
            assert!(rate < 0.068, "{name}, {blocks} blocks: {rate}");
        }
    }
}

#[test]
fn normal_noise_is_covered_exactly_as_promised() {
    let rate = miss_rate(gaussian(0.01), 10, 5);
    assert!((0.035..0.065).contains(&rate), "{rate}");
}

#[test]
fn two_percent_are_found_under_preemption_where_the_plain_mean_fails() {
    let mut rng = Rng::new(17);
    let mut noise = heavy_tails();
    let (mut trimmed, mut plain) = (0, 0);
    for _ in 0..200 {
        let ratios = paired(&mut noise, &mut rng, 40, 0.02);
        let found =
            |yuen: Option<Yuen>| usize::from(yuen.expect("enough blocks").lower_bound(0.05 / 35.0) > 0.0);
        trimmed += found(yuen(&ratios, TRIM));
        plain += found(yuen(&ratios, 0.0));
    }
    assert!(trimmed >= 195, "trimmed: {trimmed} of 200");
    assert!(plain <= 40, "plain: {plain} of 200");
}
