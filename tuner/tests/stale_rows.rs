//! Rows whose kernel was revised are named, tuned first, and replaced; the others stay.

mod tune_fixture;

use std::collections::BTreeMap;
use std::fs;

use tilewright::stale::stale_rows;
use tilewright::table;
use tilewright_kernels::ConfigId;
use tune_fixture::{Fixture, records, text};

#[test]
fn a_revised_kernel_touches_its_rows_alone_and_they_are_tuned_first() {
    let fixture = Fixture::new();
    assert!(fixture.tune_faulty("synthetic@", &["--quiet"]).status.success());
    let mut decisions = table::read(&fixture.file("toml")).unwrap();
    // The second weight's row at M=1 was measured with a kernel that has been revised since.
    let row = &mut decisions.weights[1].rows[0];
    row.config = row.config.replacen("@1(", "@0(", 1);
    row.id = ConfigId::of_text(&row.config);
    fs::write(fixture.file("toml"), decisions.to_toml()).unwrap();
    let before = records(&fixture.file("journal"), "contest").len();
    let output = fixture.tune_faulty("synthetic@", &["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert_eq!(said.matches("is stale").count(), 1, "{said}");
    assert!(said.contains("mlp.down M=1 is stale and tuned again: kernel: cpu."), "{said}");
    assert!(said.contains("another revision"), "{said}");
    let contests = records(&fixture.file("journal"), "contest");
    assert!(contests[before]["key"].as_str().unwrap().contains("n=20 "), "{}", contests[before]);
    let again = table::read(&fixture.file("toml")).unwrap();
    assert!(again.weights.iter().flat_map(|weight| &weight.rows).all(|row| !row.config.contains("@0(")));
    assert_eq!(again.weights.len(), 2);
}

#[test]
fn another_compiler_touches_every_row_and_is_named() {
    let fixture = Fixture::new();
    assert!(fixture.tune_faulty("synthetic@", &["--quiet"]).status.success());
    let decisions = table::read(&fixture.file("toml")).unwrap();
    let tools = |version: &str| BTreeMap::from([("compiler".to_string(), version.to_string())]);
    assert!(stale_rows(&decisions, Some(&tools("clang 20")), &tools("clang 20")).is_empty());
    assert!(stale_rows(&decisions, None, &tools("clang 20")).is_empty());
    let stale = stale_rows(&decisions, Some(&tools("clang 20")), &tools("clang 21"));
    assert_eq!(stale.len(), decisions.weights.iter().map(|weight| weight.rows.len()).sum::<usize>());
    assert!(stale[0].to_string().ends_with("compiler: was clang 20, is clang 21"), "{}", stale[0]);
}
