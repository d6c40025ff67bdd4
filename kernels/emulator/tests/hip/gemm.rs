//! Tiled GEMMs: every pair of formats and both instructions on both architectures, shapes with tails everywhere, every
//! parameter, and mutants.

use crate::harness::{Case, ORDERS, Rig};
use tilewright_kernels::format::e8m0::ScaleRule;
use tilewright_kernels::format::quantize::QuantizeOptions;
use tilewright_kernels::{Config, Epilogue, Family, Format, Layout, OutType, Problem, hip, is_launchable};

/// The family of a weight format.
fn family(weight: Format) -> &'static Family {
    let is = |f: &&&Family| hip::gemm::is_gemm(f) && f.formats.contains(&weight);
    hip::FAMILIES.iter().find(is).expect("a family for every format")
}

/// The smallest tile, with some values changed.
fn config(rig: &Rig, weight: Format, values: &[(&str, u32)]) -> Config {
    let family = family(weight);
    let k = if weight == Format::Bf16 { 64 } else { 128 };
    let base = [("group_m", 1), ("groups_per_cu", 1), ("mfma", 16), ("tile_k", k), ("tile_m", 64)];
    let stages = if rig.arch == "gfx942" { 1 } else { 2 };
    let rest = [("tile_n", 64), ("waves_m", 2), ("waves_n", 2), ("stages", stages)];
    let mut all: Vec<u32> = family.params.iter().map(|p| p.domain.value(0)).collect();
    for (name, value) in base.iter().chain(&rest).chain(values) {
        all[family.param_index(name).expect("a parameter")] = *value;
    }
    Config::from_values(family, &all)
}

fn problem([m, n, k]: [u32; 3], a: Format, b: Format) -> Problem {
    Problem { a, ..Problem::new(m, n, k, b) }
}

/// Pairs of activation and weight formats.
fn formats(rig: &Rig) -> Vec<(Format, Format)> {
    use Format::*;
    match rig.arch {
        "gfx942" => vec![(Bf16, Bf16), (Fp8E4m3Fnuz, Fp8E4m3Fnuz)],
        _ => vec![
            (Bf16, Bf16),
            (Fp8E4m3, Fp8E4m3),
            (Fp8E4m3, Fp8E5m2),
            (MxFp6E2m3, MxFp6E2m3),
            (MxFp6E3m2, MxFp6E3m2),
            (MxFp8, MxFp6E2m3),
            (MxFp6E2m3, MxFp4),
            (MxFp4, MxFp4),
            (MxFp8, MxFp8),
        ],
    }
}

fn rigs() -> impl Iterator<Item = Rig> {
    ["gfx942", "gfx950"].into_iter().filter_map(Rig::new)
}

#[test]
fn every_pair_of_formats_is_multiplied_right_by_both_instructions() {
    for rig in rigs() {
        for (a, b) in formats(&rig) {
            for mfma in [16, 32] {
                // M ends in a tile's first panel, N in its second; K in a step's third block.
                // One column of waves: pieces of 6 and 8 bits together are no multiple of four.
                let config = config(&rig, b, &[("mfma", mfma), ("waves_n", 1)]);
                rig.prove_in(&config, &problem([67, 84, 352], a, b), &ORDERS[..3]);
            }
        }
    }
}

/// The families' own formats, one each.
fn main_formats(rig: &Rig) -> Vec<Format> {
    use Format::*;
    if rig.arch == "gfx942" { vec![Bf16, Fp8E4m3Fnuz] } else { vec![MxFp6E2m3, Fp8E4m3, Bf16] }
}

#[test]
fn pipelines_of_every_depth_agree_however_data_lands_and_waves_run() {
    for rig in rigs() {
        for b in main_formats(&rig) {
            let depths: &[u32] = if rig.arch == "gfx942" { &[1, 2] } else { &[2, 3, 6] };
            for &stages in depths {
                // Fewer stages along K than LDS holds, and more.
                for k in [64, 960] {
                    rig.prove(&config(&rig, b, &[("stages", stages)]), &problem([33, 65, k], b, b));
                }
            }
        }
    }
}

#[test]
fn every_parameter_leaves_d_right() {
    let variants: &[&[(&str, u32)]] = &[
        &[("fragments", 1)],
        &[("fragments", 1), ("mfma", 32), ("tile_m", 128)],
        &[("tile_m", 128), ("tile_n", 128), ("waves_m", 1), ("order", 1), ("group_m", 4)],
        &[("tile_m", 128), ("tile_n", 64), ("waves_n", 1), ("store", 1), ("priority", 1)],
        &[("tile_m", 256), ("tile_n", 128), ("waves_m", 4), ("waves_n", 2)],
        &[("tile_m", 64), ("tile_n", 256), ("waves_m", 1), ("waves_n", 4), ("mfma", 32)],
        &[("waves_m", 4), ("waves_n", 1), ("groups_per_cu", 2)],
        &[("tile_k", 256)],
    ];
    for rig in rigs() {
        for b in main_formats(&rig).into_iter().take(1) {
            for values in variants {
                let config = config(&rig, b, values);
                // K of an odd number of steps of 128, and a last step of one block.
                let problem = problem([130, 70, 544], b, b);
                // Not every tile fits every format and device.
                if is_launchable(&config, &problem, &rig.device).is_ok() {
                    rig.prove_in(&config, &problem, &ORDERS[..2]);
                }
            }
        }
    }
}

#[test]
fn persistent_workgroups_multiply_tile_after_tile() {
    for mut rig in rigs() {
        rig.device.units = 3;
        for b in main_formats(&rig) {
            let config = config(&rig, b, &[("persistent", 1), ("order", 1), ("group_m", 4)]);
            let problem = problem([140, 190, 288], b, b);
            let reports = rig.prove_in(&config, &problem, &ORDERS[..3]);
            assert_eq!(reports.len(), 2);
        }
    }
}

#[test]
fn outputs_and_epilogues_are_right_for_any_n() {
    for rig in rigs() {
        for b in main_formats(&rig) {
            for (n, out) in [(63, OutType::Bf16), (64, OutType::F32), (5, OutType::F32), (72, OutType::Bf16)]
            {
                let problem = Problem { out, epilogue: Epilogue::Bias, ..problem([17, n, 128], b, b) };
                let mfma = if n > 63 { 32 } else { 16 };
                rig.prove_in(&config(&rig, b, &[("mfma", mfma)]), &problem, &ORDERS[..1]);
            }
        }
    }
}

#[test]
fn one_scale_for_the_whole_weight_is_a_factor_of_every_row() {
    for rig in rigs() {
        let b = if rig.arch == "gfx942" { Format::Fp8E4m3Fnuz } else { Format::Fp8E4m3 };
        let problem =
            Problem { scaling: tilewright_kernels::Scaling::Tensor, ..problem([20, 80, 200], b, b) };
        rig.prove_in(&config(&rig, b, &[]), &problem, &ORDERS[..1]);
    }
}

/// Rotated operands by AITER's rule.
fn rotated(problem: &Problem) -> Case {
    let options = QuantizeOptions { rule: ScaleRule::Aiter, hadamard: true };
    Case::with(problem, Layout::C0c1, 4, &options)
}

#[test]
fn weights_that_aiter_packed_are_multiplied_with_activations_rotated_as_it_does() {
    let Some(rig) = Rig::new("gfx950") else { return };
    let b = Format::MxFp6E2m3;
    for (mfma, tile, shape) in [(16, 64, [300, 84, 352]), (32, 128, [130, 320, 256])] {
        let config = config(
            &rig,
            b,
            &[("layout", 1), ("mfma", mfma), ("tile_m", tile), ("tile_n", tile), ("stages", 3)],
        );
        let case = rotated(&problem(shape, b, b));
        rig.prove_case(&config, &case, &ORDERS[..3]);
    }
}

#[test]
fn mutants_are_caught() {
    let Some(rig) = Rig::new("gfx950") else { return };
    let b = Format::MxFp6E2m3;
    let mutants = [
        (
            "one vmcnt too many",
            ["wait_for_all_but<(STAGES - 2) * UNITS>", "wait_for_all_but<(STAGES - 2) * UNITS + 1>"],
        ),
        (
            "rotated op_sel",
            ["select_a = BLOCK_A * MFMA / 16 % 4,", "select_a = (BLOCK_A + 1) * MFMA / 16 % 4,"],
        ),
        ("a missing barrier", ["      barrier();\n      copy.issue", "      copy.issue"]),
        ("a K tail off by one", ["stages = (k + TILE_K - 1) / TILE_K", "stages = k / TILE_K"]),
        (
            "a neighbouring block's scale",
            [
                "r.scale = scales_at + slab * STEPS * SCALE_STEP + element * 4",
                "r.scale = scales_at + slab * STEPS * SCALE_STEP + (element ^ 16) * 4",
            ],
        ),
        (
            "a stage too few in flight",
            ["copy.issue(lds, free, stage + STAGES - 1)", "copy.issue(lds, free, stage + STAGES)"],
        ),
        ("rows beyond M", ["rows = m - first < TILE_M ? m - first : TILE_M", "rows = TILE_M"]),
    ];
    let config = config(&rig, b, &[("stages", 3)]);
    let case = Case::new(&problem([65, 64, 416], b, b), Layout::Mfma16, 2);
    for (what, change) in mutants {
        assert!(rig.catches(&config, &case, "gemm", change), "{what} was not caught");
    }
}
