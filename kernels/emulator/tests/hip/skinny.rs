//! Skinny GEMMs: every form and path on both architectures, shapes with tails everywhere, and mutants.

use crate::harness::{Case, ORDERS, Random, Rig};
use tilewright_emulator::{Dma, Options, Order, Report};
use tilewright_kernels::hip::skinny::{self, Shape};
use tilewright_kernels::hip::{self};
use tilewright_kernels::{
    Config, Domain, Epilogue, Family, Format, Layout, OutType, Problem, is_launchable,
};

/// Values of a config by name; the rest is the family's first legal value of each.
fn config(family: &'static Family, values: &[(&str, u32)]) -> Config {
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

fn family(weight: Format) -> &'static Family {
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

/// As the rig's `prove_case`. A queue hands data on by flags, which the watch for races does not know: there the orders
/// alone judge.
fn prove(rig: &Rig, config: &Config, problem: &Problem, orders: &[(Dma, Order)]) -> Vec<Report> {
    is_launchable(config, problem, &rig.device).unwrap_or_else(|e| panic!("{config}, {problem}: {e}"));
    let case = case(problem);
    let plan = hip::plan(config, problem, &rig.device).expect("a HIP family");
    let races = Shape::of(config, problem).producers == 0;
    let mut first = None;
    for (seed, &(dma, order)) in orders.iter().enumerate() {
        let options = Options { dma, order, seed: seed as u64, races, limit: 1 << 22, ..Options::default() };
        let at = format!("{config} on {} with {problem}, {dma:?} {order:?}", rig.arch);
        let outcome = rig.run(&plan, &case, &options).unwrap_or_else(|e| panic!("{at}: {e}"));
        case.reference.check(&outcome.d, problem.out).unwrap_or_else(|e| panic!("{at}: {e}"));
        first.get_or_insert(outcome.reports);
    }
    first.unwrap_or_default()
}

/// The forms that a format has on an architecture.
fn forms(arch: &str, weight: Format) -> &'static [u32] {
    match (weight, arch) {
        (Format::Fp8E4m3, _) => &[SPARSE8, SPARSE8_K128, DENSE16, DENSE32],
        (Format::Fp8E4m3Fnuz, _) => &[SPARSE8, DENSE16, DENSE32],
        _ => &[DENSE16, DENSE32],
    }
}

/// Pairs of activation and weight formats.
fn formats(arch: &str) -> Vec<(Format, Format)> {
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
