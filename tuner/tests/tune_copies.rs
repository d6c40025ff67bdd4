//! Weights that may be stored twice, from the declaration through tuning, table and explanation to the engine.

mod model_rig;
mod table_fixture;

use std::sync::LazyLock;

use model_rig::{ModelRig, Tuned, config_factor, replay, run};
use tempfile::TempDir;
use tilewright::table::{self, Located, explain};
use tilewright::tune::{Candidate, summary};
use tilewright_dispatch::exec::Engine;
use tilewright_dispatch::{Provenance, Request, Table};
use tilewright_kernels::Format;
use tilewright_kernels::cpu::{Activation, Output};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};

/// 1024 x 1024 take 2 MiB in bf16 and 0.8 MiB in six bits.
fn shapes(copies: &str) -> String {
    format!(
        "[model]\nname = \"twice\"\n[[gemm]]\nname = \"w\"\nn = 1024\nk = 1024\nm = [1, 8, 64, 256]\n\
         formats = [\"mxfp6_e2m3\", \"bf16\"]\n{copies}"
    )
}

/// Six bits are loaded faster and multiplied slower: they win below M = 20.
fn time_ns(candidate: &Candidate) -> f64 {
    let problem = &candidate.problem;
    let elements = f64::from(problem.n) * f64::from(problem.k);
    let per_row = if problem.b == Format::Bf16 { 0.001 } else { 0.004 };
    let bytes = elements * problem.b.bits() as f64 / 8.0;
    (bytes * 0.05 + f64::from(problem.m) * elements * per_row) * config_factor(candidate)
}

const TWICE: &str = "copies = 2\nmemory_budget_mib = 3";

/// A run that may store the weight twice, with its journal.
static TUNED: LazyLock<(Tuned, TempDir)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("twice.journal");
    (run(&shapes(TWICE), Box::new(ModelRig::new(time_ns)), Some(&journal), None), folder)
});

#[test]
fn two_copies_are_chosen_where_they_pay_and_one_without_leave_or_room() {
    let tuned = |copies: &str| run(&shapes(copies), Box::new(ModelRig::new(time_ns)), None, None).decisions;
    for copies in ["", "copies = 2\nmemory_budget_mib = 2"] {
        let decisions = tuned(copies);
        assert_eq!(decisions.weights[0].second, None, "{copies:?}");
        assert!(
            decisions.to_toml().contains("schema = 1\n"),
            "what older versions read, they may go on reading"
        );
    }
    let weight = &TUNED.0.decisions.weights[0];
    let second = weight.second.as_ref().expect("three MiB hold both");
    assert_eq!((weight.format, second.format), (Format::MxFp6E2m3, Format::Bf16));
    assert_eq!((second.from, second.memory_budget_mib), (23, 3), "between M = 8 and 64");
    let alternatives: Vec<(Format, bool)> =
        weight.alternatives.iter().map(|other| (other.format, other.ratio > Some(1.02))).collect();
    assert!(alternatives.contains(&(Format::MxFp6E2m3, true)), "one copy alone is slower: {alternatives:?}");
}

#[test]
fn a_replay_of_two_copies_gives_the_same_files() {
    let (first, folder) = &*TUNED;
    assert_eq!(replay(&shapes(TWICE), &folder.path().join("twice.journal"), None).files, first.files);
}

#[test]
fn a_table_with_two_copies_is_kept_until_the_declaration_forbids_it() {
    let table = &TUNED.0.decisions;
    let again =
        |copies: &str| run(&shapes(copies), Box::new(ModelRig::new(time_ns)), None, Some(table)).decisions;
    let kept = again(TWICE);
    assert_eq!(kept.weights[0].second, table.weights[0].second);
    assert_eq!(kept.weights[0].key(), table.weights[0].key());
    assert_eq!(again("").weights[0].second, None);
}

#[test]
fn table_explanation_and_engine_know_both_copies() {
    let folder = tempfile::tempdir().unwrap();
    let tuned = &TUNED.0;
    let compiled = table::write_all(folder.path(), &tuned.decisions, &tuned.evidence).unwrap();
    assert!(compiled.rs.contains("second: Some(SecondCopy { from: 23, group: "), "{}", compiled.rs);
    let said = summary(&tuned.decisions, &compiled, &tuned.outcome);
    assert!(said.contains("from M=23 a second copy: bf16 weights in "), "{said}");
    assert!(said.contains("both take 2.78 MiB of at most 3"), "{said}");

    let file = folder.path().join("twice.toml");
    let question = |m| explain::Question { n: 1024, k: 1024, m, format: None };
    for (m, format) in [(8, "b=mxfp6_e2m3"), (22, "b=mxfp6_e2m3"), (23, "b=bf16"), (300, "b=bf16")] {
        let text = explain::explain(&Located::read(&file).unwrap(), &question(m)).unwrap();
        assert!(text.lines().next().unwrap().contains(format), "m={m}\n{text}");
        assert!(text.contains("and      from m=23 a second copy: bf16/bf16 in "), "{text}");
    }

    let data = table::load(&file).unwrap();
    let table = Table::bind(data, &table_fixture::device());
    let plan = table.weight("w").unwrap();
    for m in 1..=256 {
        let key = data.groups[plan.group_at(m) as usize].key;
        assert_eq!(key.b == Format::Bf16, m >= 23);
        let choice = table.lookup(&Request::new(key.problem(m), key.layout)).unwrap();
        let expected = if [1, 8, 64, 256].contains(&m) {
            Provenance::Exact
        } else {
            Provenance::Interval { extrapolated: false }
        };
        assert_eq!(choice.provenance, expected, "m={m}");
    }
    runs_right(&Engine::new(data));
}

/// Both copies are loaded, and each M runs on its own.
fn runs_right(engine: &Engine) {
    let values = |count: usize, seed: u64| -> Vec<f32> {
        let mut state = seed;
        let step = |_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            f32::from_bits(((state >> 41) as f32 / (1 << 22) as f32 - 1.0).to_bits() & 0xffff_0000)
        };
        (0..count).map(step).collect()
    };
    let source = values(1024 * 1024, 1);
    let weight = engine.load("w", &source).unwrap();
    assert_eq!(weight.second_from(), Some(23));
    assert!((2 << 20..3 << 20).contains(&weight.bytes()), "{}", weight.bytes());
    let mut workspace = vec![0; engine.workspace_bytes(&weight, 24).unwrap()];
    for m in [1u32, 22, 23, 24] {
        let key = *weight.key_at(m);
        assert_eq!((weight.packed_at(m).format(), weight.packed_at(m).layout()), (key.b, key.layout));
        let x = values(m as usize * 1024, 2);
        let mut y = vec![f32::NAN; m as usize * 1024];
        engine.run(&weight, Activation::F32(&x), m, None, Output::F32(&mut y), &mut workspace).unwrap();
        let quantized =
            Quantized::quantize(&source, 1024, 1024, key.b, key.scaling, &QuantizeOptions::default())
                .unwrap();
        let reference = Reference::compute(&key.problem(m), &x, &quantized, None, Sample::spread(1024, 64));
        assert!(reference.check(&y, key.out).is_ok(), "m={m}");
    }
}
