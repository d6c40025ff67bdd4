//! Table files: written and read back, byte for byte.

mod table_fixture;

use std::path::Path;

use proptest::prelude::*;
use table_fixture::decisions;
use tilewright::table::{self, Located, Verdict, compile, compile_located, evidence, write_all};
use tilewright_kernels::Format;

#[test]
fn decisions_read_back_as_written() {
    let decisions = decisions();
    let text = decisions.to_toml();
    let read = Located::parse(Path::new("fixture.toml"), &text).unwrap().decisions;
    assert_eq!(read, decisions);
    assert_eq!(read.to_toml(), text);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_and_number_reads_back_as_written(
        texts in prop::collection::vec(any::<String>(), 8),
        numbers in prop::collection::vec(any::<f64>().prop_filter("NaN equals nothing", |x| !x.is_nan()), 6),
        seed in any::<u64>(),
        declaration in any::<u64>(),
        n in any::<u32>(),
    ) {
        let mut decisions = decisions();
        decisions.model = texts[0].clone();
        decisions.generator = texts[1].clone();
        decisions.device.fingerprint = texts[2].clone();
        decisions.seed = seed;
        decisions.declaration = declaration;
        let weight = &mut decisions.weights[0];
        weight.n = n;
        weight.name = texts[3].clone();
        weight.error = Some(numbers[0]);
        weight.alternatives[0].reason = texts[4].clone();
        weight.alternatives[0].ratio = Some(numbers[1]);
        let row = &mut weight.rows[1];
        row.verdict = Verdict::Ambiguous(texts[5].clone());
        row.runner_ups = vec![texts[6].clone(), texts[7].clone()];
        row.time_ns = numbers[2];
        row.interval_ns = [numbers[3], numbers[4]];
        row.tie_set[0].ratio = numbers[5];
        let text = decisions.to_toml();
        let read = Located::parse(Path::new("x.toml"), &text).unwrap().decisions;
        prop_assert_eq!(&read, &decisions);
        prop_assert_eq!(read.to_toml(), text);
        // Nonsense is refused, never a panic.
        prop_assert!(compile(&decisions).is_err());
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z\\[\\]=\"#.{}\n 0-9-]{0,200}") {
        let _ = Located::parse(Path::new("x.toml"), &text);
    }
}

#[test]
fn a_newer_schema_is_refused_by_name_and_line() {
    let text = decisions().to_toml().replace("schema = 1", "schema = 999\nsomething_new = 3");
    let bad = Located::parse(Path::new("fixture.toml"), &text).unwrap_err();
    assert_eq!(bad.0.len(), 1, "nothing else of a newer file is judged: {bad}");
    assert_eq!(bad.0[0].line, Some(3));
    assert!(bad.0[0].message.contains("schema 999 is newer than 2"), "{bad}");
}

#[test]
fn compiling_decisions_or_their_file_gives_the_same_module() {
    let decisions = decisions();
    let located = Located::parse(Path::new("fixture.toml"), &decisions.to_toml()).unwrap();
    assert_eq!(compile(&decisions).unwrap(), compile_located(&located).unwrap());
}

#[test]
fn the_set_cover_takes_tied_kernels_and_reports_their_cost() {
    let compiled = compile(&decisions()).unwrap();
    // Nothing is saved where the winner serves all rows of the tie.
    assert_eq!(compiled.kernels, compiled.winners);
    assert_eq!(compiled.cost, 1.0);
    // The winner at M = 1 is tied everywhere with a kernel that wins at M = 4 and is needed anyway.
    let mut shared = decisions();
    for weight in shared.weights.iter_mut().filter(|weight| weight.format == Format::MxFp6E2m3) {
        let rival = weight.rows[1].config.clone();
        weight.rows[0].tie_set = vec![table::Tie { ratio: 1.015, config: rival }];
    }
    let compiled = compile(&shared).unwrap();
    assert_eq!(compiled.kernels, compiled.winners - 1);
    assert!(compiled.cost > 1.0 && compiled.cost < 1.015, "{}", compiled.cost);
}

#[test]
fn write_all_leaves_three_files_and_none_if_there_are_faults() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    let mut decisions = decisions();
    decisions.weights[0].rows[0].time_ns = 0.0;
    let error = write_all(&device, &decisions, &[]).unwrap_err();
    assert!(error.is::<tilewright::diag::BadInput>(), "{error}");
    assert!(!device.exists());

    decisions.weights[0].rows[0].time_ns = decisions.weights[0].rows[0].interval_ns[0];
    write_all(&device, &decisions, &[]).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(&device).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["fixture.csv", "fixture.rs", "fixture.toml"]);
    assert_eq!(table::read(&device.join("fixture.toml")).unwrap(), decisions);
    assert_eq!(evidence::read(&device.join("fixture.csv")).unwrap(), []);
}
