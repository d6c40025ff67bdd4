//! `hip.naive`: every pair of formats, shapes of every remainder, biases and outputs.

use tilewright_kernels::family::fallback;
use tilewright_kernels::{Config, Epilogue, Format, Layout, OutType, Problem, Scaling, family};

use crate::harness::{Case, ORDERS, Rig};

fn config(rows: u32, waves: u32) -> Config {
    Config::from_values(family("hip.naive").expect("it is built in"), &[0, rows, waves])
}

fn problem(m: u32, n: u32, k: u32, a: Format, b: Format) -> Problem {
    Problem { a, ..Problem::new(m, n, k, b) }
}

#[test]
fn every_weight_format_is_multiplied_by_a_plain_and_by_a_quantised_activation() {
    for arch in ["gfx942", "gfx950"] {
        let Some(rig) = Rig::new(arch) else { return };
        for &b in Format::WEIGHTS {
            for a in [Format::Bf16, b] {
                rig.prove_in(&config(2, 2), &problem(3, 5, 96, a, b), &ORDERS[..2]);
            }
        }
    }
}

#[test]
fn formats_may_be_mixed() {
    let Some(rig) = Rig::new("gfx950") else { return };
    for (a, b) in [
        (Format::Fp8E4m3, Format::MxFp4),
        (Format::MxFp8, Format::MxFp6E3m2),
        (Format::Fp8E5m2, Format::Bf16),
        (Format::MxFp4, Format::Fp8E4m3Fnuz),
    ] {
        rig.prove_in(&config(1, 4), &problem(2, 6, 64, a, b), &ORDERS[..1]);
    }
}

#[test]
fn no_shape_is_left_out() {
    let Some(rig) = Rig::new("gfx942") else { return };
    for (m, n, k) in [(1, 1, 1), (1, 2, 63), (17, 3, 65), (5, 9, 200), (16, 4, 131)] {
        for rows in [1, 4, 16] {
            let problem = problem(m, n, k, Format::Bf16, Format::Fp8E4m3Fnuz);
            rig.prove_in(&config(rows, 8), &problem, &ORDERS[..1]);
        }
    }
}

#[test]
fn scales_of_a_tensor_a_bias_and_bf16_output_are_heeded() {
    let Some(rig) = Rig::new("gfx950") else { return };
    let plain = problem(4, 7, 128, Format::Fp8E4m3, Format::Fp8E4m3);
    for scaling in [Scaling::Tensor, Scaling::Channel] {
        let problem = Problem { scaling, out: OutType::Bf16, epilogue: Epilogue::Bias, ..plain };
        rig.prove_in(&config(4, 1), &problem, &ORDERS[..1]);
    }
}

#[test]
fn values_that_are_no_numbers_stay_visible() {
    let Some(rig) = Rig::new("gfx950") else { return };
    for format in [Format::Fp8E4m3, Format::Fp8E5m2, Format::MxFp6E2m3, Format::Bf16] {
        let problem = problem(3, 4, 64, format, format);
        let mut case = Case::new(&problem, Layout::RowMajor, 3);
        case.set_activation(&[(5, f32::NAN), (70, f32::INFINITY)]);
        rig.prove_case(&config(1, 1), &case, &ORDERS[..1]);
    }
}

#[test]
fn the_fallback_answers_on_both_architectures() {
    for device in [crate::harness::MI300X, crate::harness::MI355X] {
        for &b in Format::WEIGHTS {
            for m in [1, 3, 100_000] {
                let found = fallback(&problem(m, 31, 64, Format::Bf16, b), Layout::RowMajor, &device);
                assert_eq!(found.expect("row-major is always answered").family().name, "hip.naive");
            }
        }
    }
}
