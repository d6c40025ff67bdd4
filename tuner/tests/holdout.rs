//! Holding out every other M of a table and comparing what the rest chooses there.

mod table_fixture;

use table_fixture::{decisions, row, skinny, threads, weight};
use tilewright::check::{HeldOut, hold_out, regrets};
use tilewright::table::{Decisions, Weight};
use tilewright_kernels::{Config, Format, Layout};

/// One weight: the skinny kernel up to M = 16, the tiled one above.
fn table(points: &[u32]) -> Decisions {
    let mut table = decisions();
    let mut one = weight("w", 576, 1536, Format::MxFp6E2m3, Layout::Panel16, &[1]);
    let problem = one.key().problem(1);
    let (small, large) = (skinny(&problem, Layout::Panel16, 2), threads(&problem, Layout::Panel16, 4));
    one.rows.clear();
    for &m in points {
        one.rows.push(row(&one, m, if m <= 16 { &small } else { &large }, &[], &[]));
    }
    table.weights = vec![one];
    table
}

/// Times of kernels of which one is the best and the others lose `loss`.
fn times(kernels: &[Config], own: usize, loss: f64) -> Vec<Vec<f64>> {
    let time = |kernel: usize| if kernel == own { 1000.0 } else { 1000.0 * (1.0 + loss) };
    // The machine gets slower from block to block: only pairs within a block tell anything.
    (0..kernels.len()).map(|kernel| (1..=12).map(|block| time(kernel) * f64::from(block)).collect()).collect()
}

#[test]
fn every_other_m_is_held_out_and_raced_where_the_choice_differs() {
    let table = table(&[1, 4, 16, 20, 64, 256, 1024]);
    let mut raced = Vec::new();
    let found = hold_out(&table, |_: &Weight, m, kernels| {
        raced.push(m);
        Ok(times(kernels, 0, 0.2))
    })
    .unwrap();
    // 4, 20 and 256 are held out. Between 16 and 64 the boundary is 32, so 20 gets the kernel of 16; rounded up it is 64's.
    assert_eq!(found.iter().map(|held| held.m).collect::<Vec<_>>(), [4, 20, 256]);
    assert_eq!(raced, [20]);
    let ratios: Vec<[f64; 2]> = found.iter().map(|held| held.ratios).collect();
    assert_eq!(ratios[0], [1.0, 1.0]);
    assert!((ratios[1][0] - 1.2).abs() < 1e-9 && ratios[1][1] == 1.0, "{ratios:?}");
    let [intervals, rounding] = regrets(&found).unwrap();
    assert!((intervals.geomean - (1.2f64.powf(1.0 / 3.0) - 1.0)).abs() < 1e-9);
    assert!((intervals.p95 - 0.2).abs() < 1e-9 && intervals.differs == 1, "{intervals:?}");
    assert_eq!((rounding.geomean, rounding.worst, rounding.differs), (0.0, 0.0, 0));
}

#[test]
fn two_rows_leave_nothing_to_hold_out_and_a_failing_race_is_an_error() {
    let found = hold_out(&table(&[1, 256]), |_: &Weight, _, _| panic!("nothing to race")).unwrap();
    assert_eq!((found.len(), regrets(&found)), (0, None));
    let failed = hold_out(&table(&[1, 4, 16, 20, 64]), |_: &Weight, _, _| anyhow::bail!("no device"));
    assert_eq!(failed.unwrap_err().to_string(), "no device");
    let empty =
        hold_out(&table(&[1, 4, 16, 20, 64]), |_: &Weight, _, kernels| Ok(vec![vec![]; kernels.len()]));
    assert!(empty.unwrap_err().to_string().contains("w m=20: too few times"), "no time is no ratio");
}

#[test]
fn the_95th_percentile_is_by_nearest_rank() {
    let kernel = threads(&decisions().weights[0].key().problem(1), Layout::Panel16, 2);
    let held = |ratio: f64| HeldOut {
        weight: "w".into(),
        m: 1,
        own: kernel,
        interval: kernel,
        rounded: kernel,
        ratios: [ratio, 1.0],
    };
    let found: Vec<HeldOut> = (0..20).map(|i| held(1.0 + f64::from(i) / 100.0)).collect();
    let regret = regrets(&found).unwrap()[0];
    assert!((regret.p95 - 0.18).abs() < 1e-9 && (regret.worst - 0.19).abs() < 1e-9, "{regret:?}");
}
