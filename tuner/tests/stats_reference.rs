//! Statistics against values computed independently by ci/statistics_reference.py (scipy 1.17).

use statrs::distribution::{ContinuousCDF, StudentsT};
use tilewright::stats::{
    Cusum, Looks, LooksError, PageHinkley, Rng, TRIM, hodges_lehmann, median, quantile, scaled_mad,
    trimmed_mean, winsorised_variance, yuen,
};

const SIX: [f64; 6] = [0.011, 0.009, 0.013, 0.008, 0.012, 0.74];
const DANA: [f64; 19] = [
    77.0, 87.0, 88.0, 114.0, 151.0, 210.0, 219.0, 246.0, 253.0, 262.0, 296.0, 299.0, 306.0, 376.0, 428.0,
    515.0, 666.0, 1310.0, 2611.0,
];
const TEN: [f64; 10] = [-0.4, 1.9, 0.3, 0.8, -1.1, 0.2, 5.0, 0.6, 0.1, -7.0];

#[track_caller]
fn assert_close(actual: f64, expected: f64) {
    let tolerance = 1e-9 * expected.abs().max(1e-3);
    assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
}

/// Sample, trimmed mean, Winsorised variance, error, degrees of freedom, 95 % interval, bound at 0.05/35,
/// Hodges–Lehmann, MAD.
const TABLE: [(&[f64], [f64; 9]); 3] = [
    (
        &SIX,
        [
            0.01125,
            3.36666666667e-06,
            0.0011843892003,
            3.0,
            0.0074807449655,
            0.0150192550345,
            0.000541215184641,
            0.0115,
            0.002,
        ],
    ),
    (
        &DANA,
        [
            282.692307692,
            21551.4269006,
            49.8668537599,
            12.0,
            174.041766945,
            391.34284844,
            96.5288848011,
            291.25,
            114.0,
        ],
    ),
    (
        &TEN,
        [
            0.266666666667,
            0.258222222222,
            0.278328343269,
            5.0,
            -0.448799116882,
            0.982132450216,
            -1.24643031884,
            0.25,
            0.6,
        ],
    ),
];

#[test]
fn trimmed_statistics_agree_with_scipy() {
    for (values, [mean, variance, error, df, low, high, bound, centre, mad]) in TABLE {
        let yuen = yuen(values, TRIM).expect("enough values");
        assert_close(trimmed_mean(values, TRIM).unwrap(), mean);
        assert_close(yuen.mean, mean);
        assert_close(winsorised_variance(values, TRIM).unwrap(), variance);
        assert_close(yuen.standard_error, error);
        assert_eq!(yuen.degrees_of_freedom, df);
        assert_close(yuen.interval(0.95).low, low);
        assert_close(yuen.interval(0.95).high, high);
        assert_close(yuen.lower_bound(0.05 / 35.0), bound);
        assert_close(yuen.upper_bound(0.05 / 35.0) - yuen.mean, yuen.mean - bound);
        assert_close(hodges_lehmann(values).unwrap(), centre);
        assert_close(scaled_mad(values).unwrap(), 1.4826 * mad);
    }
}

#[test]
fn squared_errors_add_up_to_the_two_sample_test_of_yuen() {
    let halved: Vec<f64> = DANA[..10].iter().map(|value| 0.5 * value).collect();
    let (first, second) = (yuen(&TEN, TRIM).unwrap(), yuen(&halved, TRIM).unwrap());
    let t = (first.mean - second.mean) / first.standard_error.hypot(second.standard_error);
    assert_close(t, -4.40975795703);
}

#[test]
fn quantiles_of_students_t_agree_with_scipy() {
    let table = [
        (1.0, [6.313751515, 12.70620474, 222.8154243]),
        (3.0, [2.353363435, 3.182446305, 9.041609644]),
        (5.0, [2.015048373, 2.570581836, 5.43637406]),
        (23.0, [1.713871528, 2.06865761, 3.337868552]),
    ];
    for (df, expected) in table {
        let t = StudentsT::new(0.0, 1.0, df).unwrap();
        for (p, expected) in [0.95, 0.975, 1.0 - 0.05 / 35.0].into_iter().zip(expected) {
            assert!((t.inverse_cdf(p) / expected - 1.0).abs() < 1e-7, "df {df}, p {p}: {}", t.inverse_cdf(p));
        }
    }
}

#[test]
fn no_trimming_gives_students_t() {
    // Student's "sleep" data, the paired differences of 1908: mean 1.58, standard error 0.389, 95 % 0.70 to 2.46.
    let sleep = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
    let yuen = yuen(&sleep, 0.0).unwrap();
    assert_close(yuen.mean, 1.58);
    assert!((yuen.standard_error - 0.3889587).abs() < 1e-6);
    assert!((yuen.interval(0.95).low - 0.7001142).abs() < 1e-6);
    assert!((yuen.interval(0.95).high - 2.4598858).abs() < 1e-6);
}

#[test]
fn too_few_values_have_no_location_or_no_error() {
    assert_eq!(trimmed_mean(&[], TRIM), None);
    assert_eq!(median(&[]), None);
    assert_eq!(hodges_lehmann(&[]), None);
    assert_eq!(quantile(&[], 0.5), None);
    assert_eq!(trimmed_mean(&[3.0], TRIM), Some(3.0));
    assert_eq!(yuen(&[3.0], TRIM), None);
    assert_eq!(winsorised_variance(&[3.0], TRIM), None);
    // However much is trimmed, one value stays.
    assert_eq!(trimmed_mean(&[1.0, 2.0, 9.0], 0.5), Some(2.0));
}

#[test]
fn an_error_floor_widens_but_never_narrows() {
    let quiet = yuen(&[0.01; 10], TRIM).unwrap();
    assert!(quiet.standard_error < 1e-15);
    assert_eq!(quiet.with_error_floor(0.5).standard_error, 0.5);
    let loud = yuen(&TEN, TRIM).unwrap();
    assert_eq!(loud.with_error_floor(1e-9), loud);
}

#[test]
fn quantiles_are_those_of_numpy() {
    let values = [4.0, 1.0, 3.0, 2.0];
    assert_eq!(quantile(&values, 0.0), Some(1.0));
    assert_eq!(quantile(&values, 0.5), Some(2.5));
    assert_eq!(quantile(&values, 0.9), Some(3.7));
    assert_eq!(quantile(&values, 1.0), Some(4.0));
}

#[test]
fn looks_share_one_error_probability() {
    let looks = Looks::default();
    assert_eq!(looks.at(), [6, 10, 16, 24, 40]);
    assert_eq!(looks.level(7), 0.05 / 35.0);
    assert_eq!(looks.level(0), looks.level(1));
    assert_eq!((looks.due(6), looks.due(7), looks.due(40)), (Some(1), None, Some(5)));
    assert_eq!(looks.last(), 40);
}

#[test]
fn looks_that_cannot_work_are_refused() {
    assert_eq!(Looks::new(vec![], 0.05), Err(LooksError::None));
    assert_eq!(Looks::new(vec![2, 6], 0.05), Err(LooksError::TooEarly(2)));
    assert_eq!(Looks::new(vec![6, 6], 0.05), Err(LooksError::NotRising(6, 6)));
    assert_eq!(Looks::new(vec![6], 0.0), Err(LooksError::Alpha(0.0)));
    assert!(matches!(Looks::new(vec![6], f64::NAN), Err(LooksError::Alpha(_))));
}

#[test]
fn the_generator_is_the_published_one() {
    // The first outputs for seed 0, from a Python transcription of the authors' C code.
    let mut rng = Rng::new(0);
    let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
    assert_eq!(first, XOSHIRO_SEED_0);
}

const XOSHIRO_SEED_0: [u64; 4] =
    [11091344671253066420, 13793997310169335082, 1900383378846508768, 7684712102626143532];

#[test]
fn draws_below_a_bound_are_even_and_shuffles_are_permutations() {
    let mut rng = Rng::new(7);
    let mut counts = [0u32; 7];
    for _ in 0..70_000 {
        counts[rng.below(7)] += 1;
    }
    // Six degrees of freedom: 22.5 is exceeded once in a thousand seeds.
    let chi: f64 = counts.iter().map(|count| (f64::from(*count) - 10_000.0).powi(2) / 10_000.0).sum();
    assert!(chi < 22.5, "{counts:?}");
    let mut items: Vec<u32> = (0..50).collect();
    rng.shuffle(&mut items);
    assert_ne!(items, (0..50).collect::<Vec<_>>());
    items.sort_unstable();
    assert_eq!(items, (0..50).collect::<Vec<_>>());
    assert!((0..1000).map(|_| rng.unit()).all(|unit| (0.0..1.0).contains(&unit)));
}

#[test]
fn detectors_find_a_step_and_say_since_when() {
    let step = |index: usize| if index < 20 { 1.0 } else { 1.05 };
    let mut cusum = Cusum::new(1.0, 0.01, 0.05);
    let mut page = PageHinkley::new(0.01, 0.05);
    let cusum = (0..40).find_map(|index| cusum.push(step(index)).map(|shift| (index, shift)));
    let page = (0..40).find_map(|index| page.push(step(index)).map(|shift| (index, shift)));
    for (found, shift) in [cusum.expect("a step"), page.expect("a step")] {
        assert_eq!(shift.since, 20);
        assert!(shift.up);
        assert!((21..25).contains(&found), "found after {found}");
    }
    let mut down = Cusum::new(1.0, 0.01, 0.05);
    let shift = (0..40).find_map(|index| down.push(2.0 - step(index))).expect("a step");
    assert!(!shift.up && shift.since == 20);
}

#[test]
fn a_cusum_rings_in_vain_about_as_seldom_as_tabulated() {
    // Slack σ/2, threshold 5σ: two-sided average run length 465 on standard normal values (Montgomery, table 9.3 for
    // k = 0.5, h = 5).
    let mut rng = Rng::new(11);
    let mut total = 0usize;
    let runs = 400;
    for _ in 0..runs {
        let mut cusum = Cusum::new(0.0, 0.5, 5.0);
        loop {
            total += 1;
            // Twelve uniforms less six: the classical stand-in for a normal value.
            let value: f64 = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
            if cusum.push(value).is_some() {
                break;
            }
        }
    }
    let mean = total as f64 / f64::from(runs);
    assert!((380.0..580.0).contains(&mean), "average run length {mean}");
}
