//! Skinny GEMMs: every form and path on both architectures, shapes with tails everywhere, and mutants.

use crate::harness::{Case, ORDERS, Rig};
use tilewright_emulator::{Dma, Options, Order};
use tilewright_kernels::hip::skinny::{self, Shape};
use tilewright_kernels::{Config, Epilogue, Family, Format, Layout, OutType, Problem, hip, is_launchable};

/// Values of a config by name; the rest is the family's first legal value of each.
pub(crate) fn config(family: &'static Family, values: &[(&str, u32)]) -> Config {
    let mut all: Vec<u32> = family.params.iter().map(|p| p.domain.value(0)).collect();
    for (name, value) in values {
        all[family.param_index(name).expect("a parameter")] = *value;
    }
    Config::from_values(family, &all)
}

const SPARSE8: u32 = 0;
const SPARSE8_K128: u32 = 1;
const DENSE16: u32 = 2;
const DENSE32: u32 = 3;

pub(crate) fn family(weight: Format) -> &'static Family {
    match weight {
        Format::Bf16 => &skinny::BF16,
        Format::Fp8E4m3 | Format::Fp8E4m3Fnuz => &skinny::FP8,
        _ => &skinny::MXFP6,
    }
}

fn problem([m, n, k]: [u32; 3], a: Format, b: Format) -> Problem {
    Problem { a, ..Problem::new(m, n, k, b) }
}

/// Operands; the plans pack the activation themselves or take it as it lies.
fn case(problem: &Problem) -> Case {
    Case { packed_activation: Vec::new(), ..Case::new(problem, Layout::Mfma16, 5) }
}

/// As the rig's `prove_case`, and gives D of each order. A queue hands data on by flags, which the watch for races does
/// not know: there the orders alone judge.
fn prove(rig: &Rig, config: &Config, problem: &Problem, orders: &[(Dma, Order)]) -> Vec<Vec<f32>> {
    is_launchable(config, problem, &rig.device).unwrap_or_else(|e| panic!("{config}, {problem}: {e}"));
    let case = case(problem);
    let plan = hip::plan(config, problem, &rig.device).expect("a HIP family");
    let races = Shape::of(config, problem).producers == 0;
    let run = |(seed, &(dma, order)): (usize, &(Dma, Order))| {
        let options = Options { dma, order, seed: seed as u64, races, limit: 1 << 22, ..Options::default() };
        let at = format!("{config} on {} with {problem}, {dma:?} {order:?}", rig.arch);
        let outcome = rig.run(&plan, &case, &options).unwrap_or_else(|e| panic!("{at}: {e}"));
        case.reference.check(&outcome.d, problem.out).unwrap_or_else(|e| panic!("{at}: {e}"));
        outcome.d
    };
    orders.iter().enumerate().map(run).collect()
}

/// Whether a change of the kernel's text is found out in one of the orders: a fault, a hang, a wrong D. Races do not
/// count here.
fn catches(rig: &Rig, config: &Config, problem: &Problem, [from, to]: [&str; 2]) -> bool {
    let case = case(problem);
    let mut plan = hip::plan(config, problem, &rig.device).expect("a HIP family");
    let source = &mut plan.steps.iter_mut().find(|step| step.source.entry == "skinny").unwrap().source;
    assert_eq!(source.text.matches(from).count(), 1, "{from:?} must be there, once");
    // A mutant lives as long as the test run, as a built-in source does.
    source.text = Box::leak(source.text.replace(from, to).into_boxed_str());
    ORDERS.iter().enumerate().any(|(seed, &(dma, order))| {
        let options = Options { dma, order, seed: seed as u64, limit: 1 << 18, ..Options::default() };
        match rig.run(&plan, &case, &options) {
            Err(_) => true,
            Ok(outcome) => case.reference.check(&outcome.d, problem.out).is_err(),
        }
    })
}

/// The forms that a format has on an architecture.
pub(crate) fn forms(arch: &str, weight: Format) -> &'static [u32] {
    match (weight, arch) {
        (Format::Fp8E4m3, _) => &[SPARSE8, SPARSE8_K128, DENSE16, DENSE32],
        (Format::Fp8E4m3Fnuz, _) => &[SPARSE8, DENSE16, DENSE32],
        _ => &[DENSE16, DENSE32],
    }
}

/// Pairs of activation and weight formats.
pub(crate) fn formats(arch: &str) -> Vec<(Format, Format)> {
    use Format::*;
    match arch {
        "gfx942" => vec![(Bf16, Bf16), (Fp8E4m3Fnuz, Fp8E4m3Fnuz)],
        _ => vec![
            (Bf16, Bf16),
            (Fp8E4m3, Fp8E4m3),
            (MxFp6E2m3, MxFp6E2m3),
            (MxFp6E3m2, MxFp6E3m2),
            (MxFp8, MxFp6E2m3),
            (MxFp4, MxFp6E3m2),
        ],
    }
}

#[test]
fn every_form_streams_right_on_both_architectures() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        for (a, b) in formats(rig.arch) {
            for &form in forms(rig.arch, b) {
                let m = [7, 8, 13, 29][form as usize];
                let config = config(
                    family(b),
                    &[("form", form), ("depth", 2), ("panels", 2), ("waves", 3), ("split_k", 2)],
                );
                // Tails: N ends in the tile's second panel, K in a step's second block.
                prove(&rig, &config, &problem([m, 116, 1312], a, b), &ORDERS[..3]);
            }
        }
    }
}

#[test]
fn every_form_takes_from_a_queue_right_on_both_architectures() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        for (a, b) in formats(rig.arch) {
            for &form in forms(rig.arch, b) {
                let m = [8, 3, 16, 32][form as usize];
                // 64 KiB of LDS hold two slots of one step of bf16.
                let steps = if (rig.arch, b) == ("gfx942", Format::Bf16) { 1 } else { 2 };
                let values = [
                    ("form", form),
                    ("depth", 2),
                    ("panels", 2),
                    ("waves", 2),
                    ("producers", 2),
                    ("steps", steps),
                ];
                prove(&rig, &config(family(b), &values), &problem([m, 50, 1312], a, b), &ORDERS);
            }
        }
    }
}

#[test]
fn parts_of_k_come_together_however_they_are_added() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        let fp8 = if rig.arch == "gfx942" { Format::Fp8E4m3Fnuz } else { Format::Fp8E4m3 };
        for reduce in 0..3 {
            let values = [("form", DENSE16), ("reduce", reduce), ("split_k", 4), ("waves", 2)];
            let config = config(family(fp8), &values);
            let problem =
                Problem { out: OutType::Bf16, epilogue: Epilogue::Bias, ..problem([5, 70, 1000], fp8, fp8) };
            let d = prove(&rig, &config, &problem, &ORDERS[..3]);
            if (config.family().deterministic)(&config) {
                assert!(d.iter().all(|other| other == &d[0]), "{config} gives the same bits every time");
            }
        }
    }
}

#[test]
fn any_m_n_and_k_is_right() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        for (a, b) in formats(rig.arch) {
            let block = if b.is_mx() { 32 } else { 1 };
            // bf16 rows that cannot be read where they lie; one element; a single block; more parts of K than waves.
            for ([m, n, k], split) in
                [([3, 17, 131 * block], 2), ([1, 1, block], 1), ([16, 65, 8 * block], 1)]
            {
                let wide = [("form", DENSE32), ("panels", 4), ("waves", 4), ("split_k", split), ("depth", 3)];
                let narrow =
                    [("form", DENSE16), ("split_k", split), ("depth", 2), ("waves", 2), ("reduce", 1)];
                for values in [&wide[..], &narrow] {
                    prove(&rig, &config(family(b), values), &problem([m, n, k], a, b), &ORDERS[..2]);
                }
            }
        }
    }
}

#[test]
fn changed_kernels_are_found_out() {
    let queue = [("depth", 2), ("panels", 2), ("waves", 2), ("producers", 2), ("form", SPARSE8)];
    let stream = [("depth", 2), ("panels", 2), ("waves", 3), ("split_k", 2), ("form", SPARSE8)];
    let both = [
        ("0xeeeeeeee : 0x44444444", "0x44444444 : 0xeeeeeeee", "swapped sparse indices"),
        ("steps = (k + STEP_K - 1) / STEP_K, begin", "steps = k / STEP_K, begin", "a K tail left out"),
        ("TILE_M * PITCH, sums);\n  sync();", "TILE_M * PITCH, sums);", "a missing barrier"),
        ("sums[b][0] + sums[b][1]", "sums[b][0]", "half of a row"),
    ];
    let queues = [
        ("    await(ready + index, item + 1);", "", "a consumer that does not wait"),
        ("// The sums take the queue's place.\n  sync();", "", "sums over a queue still in use"),
    ];
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        let fp8 = if rig.arch == "gfx942" { Format::Fp8E4m3Fnuz } else { Format::Fp8E4m3 };
        let problem = problem([8, 40, 1650], fp8, fp8);
        for (from, to, what) in both {
            assert!(
                catches(&rig, &config(&skinny::FP8, &stream), &problem, [from, to]),
                "{what} on {}",
                rig.arch
            );
        }
        let mut changes = queues.to_vec();
        if rig.arch == "gfx950" {
            changes.push((
                "#ifdef __gfx950__\n    await(freed + index, item >= DEPTH ? item - DEPTH + 1 : 0);",
                "#ifdef __gfx950__",
                "a producer that does not wait",
            ));
        }
        for (from, to, what) in changes {
            assert!(
                catches(&rig, &config(&skinny::FP8, &queue), &problem, [from, to]),
                "{what} on {}",
                rig.arch
            );
        }
    }
}
