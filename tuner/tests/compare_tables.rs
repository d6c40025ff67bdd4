//! `tilewright compare`: what changed between two tables, and what is within noise.

mod table_fixture;

use std::fs;
use std::process::Command;

use table_fixture::decisions;
use tilewright::compare::{Change, compare, output};
use tilewright::table::Decisions;

/// Times of a row, and its interval, by a factor.
fn scale(decisions: &mut Decisions, weight: usize, row: usize, factor: f64) {
    let row = &mut decisions.weights[weight].rows[row];
    row.time_ns *= factor;
    row.interval_ns = row.interval_ns.map(|end| end * factor);
}

#[test]
fn a_table_is_within_noise_of_itself() {
    let comparison = compare(&decisions(), &decisions());
    assert!(comparison.pairs.iter().all(|pair| pair.change == Change::WithinNoise && pair.ratio == 1.0));
    assert_eq!((comparison.drift, comparison.devices), (Some(1.0), None));
    assert_eq!(comparison.total_ns[0], comparison.total_ns[1]);
    assert!(comparison.pairs.iter().all(|pair| pair.kernels.is_none() && pair.plans.is_none()));
}

#[test]
fn intervals_that_overlap_are_noise_and_what_costs_most_comes_first() {
    let (before, mut after) = (decisions(), decisions());
    // Intervals of the fixture are one per cent to each side.
    scale(&mut after, 0, 0, 1.01);
    scale(&mut after, 0, 1, 1.10);
    scale(&mut after, 0, 5, 0.50);
    let comparison = compare(&before, &after);
    assert_eq!(output::counts(&comparison)[..2], [1, 1]);
    let [first, second, third] = &comparison.pairs[..3] else { panic!("fewer than three pairs") };
    let rows = &before.weights[0].rows;
    assert_eq!((first.m, first.change), (rows[5].m, Change::Faster));
    assert_eq!((second.m, second.change), (rows[1].m, Change::Slower));
    assert_eq!((third.m, third.change), (rows[0].m, Change::WithinNoise));
    assert!(first.cost_ns < 0.0 && second.cost_ns > 0.0 && -first.cost_ns > second.cost_ns);
    let saved = comparison.total_ns[1] - comparison.total_ns[0];
    let sum: f64 = comparison.pairs.iter().map(|pair| pair.cost_ns).sum();
    assert!((saved - sum).abs() < 1e-6 * comparison.total_ns[0]);
}

#[test]
fn drift_of_the_machine_is_read_from_the_default_kernels() {
    let (before, mut after) = (decisions(), decisions());
    for weight in 0..after.weights.len() {
        for row in 0..after.weights[weight].rows.len() {
            scale(&mut after, weight, row, 1.2);
            after.weights[weight].rows[row].default_ns *= 1.2;
        }
    }
    let comparison = compare(&before, &after);
    assert!((comparison.drift.unwrap() - 1.2).abs() < 1e-9);
    assert!(comparison.pairs.iter().all(|pair| pair.change == Change::Slower));
    assert!(output::text(&comparison, false).contains("the default kernels took +20.0 % (median)"));
}

#[test]
fn rows_of_one_table_only_other_kernels_and_other_devices_are_named() {
    let (before, mut after) = (decisions(), decisions());
    let gone = after.weights[1].rows.remove(0);
    let kernel = after.weights[0].rows[0].runner_ups[0].clone();
    after.weights[0].rows[0].config.clone_from(&kernel);
    after.device.fingerprint = after.device.fingerprint.replace("Fixture", "Other");
    let comparison = compare(&before, &after);
    assert_eq!(comparison.only, [vec![format!("{} at M = {}", before.weights[1].name, gone.m)], vec![]]);
    let changed: Vec<_> = comparison.pairs.iter().filter_map(|pair| pair.kernels.as_ref()).collect();
    assert_eq!(changed, [&[before.weights[0].rows[0].config.clone(), kernel.clone()]]);
    let text = output::text(&comparison, false);
    let family = kernel.split('(').next().unwrap();
    assert!(text.contains("devices differ") && text.contains(&format!("-> {family}")), "{text}");
}

#[test]
fn the_command_prints_text_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut after = decisions();
    scale(&mut after, 0, 1, 1.5);
    fs::create_dir_all(folder.path().join("after")).unwrap();
    fs::write(folder.path().join("fixture.toml"), decisions().to_toml()).unwrap();
    fs::write(folder.path().join("after/fixture.toml"), after.to_toml()).unwrap();
    let run = |more: &[&str]| {
        let arguments = [&["compare", "fixture.toml", "after/fixture.toml"], more].concat();
        let command = Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .current_dir(folder.path())
            .args(arguments)
            .output();
        let output = command.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[]);
    assert!(text.contains("1 row slower, 0 faster") && text.contains("1.500x  slower"), "{text}");
    assert!(run(&["--all"]).lines().count() > text.lines().count());
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!((&json["counts"]["slower"], &json["pairs"][0]["change"]), (&1.into(), &"slower".into()));
}
