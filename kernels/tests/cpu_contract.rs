//! The contract of `Gemm` and the CPU session: every bad input is an error, never undefined.

mod common;

use common::{Case, Random, random_config};
use tilewright_kernels::backend::{Backend, Operands, Regime, RunFault};
use tilewright_kernels::cpu::{Activation, Cpu, FAMILIES, Gemm, Output, PackedWeight, max_workspace_bytes};
use tilewright_kernels::family::fallback;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Epilogue, Format, Layout, OutType, Problem, Scaling};

const M: usize = 3;
const N: usize = 20;
const K: usize = 64;

struct Setup {
    gemm: Gemm,
    weight: PackedWeight,
    activation: Vec<f32>,
    workspace: Vec<u8>,
}

fn quantized(n: usize, k: usize, format: Format) -> Quantized {
    let values = Random(21).normals(n * k);
    Quantized::quantize(&values, n, k, format, Scaling::usual(format), &QuantizeOptions::default())
        .expect("legal")
}

fn setup(problem: Problem) -> Setup {
    let cpu = Cpu::detect();
    let config = fallback(&problem, Layout::Panel16, cpu.device()).expect("panels have a fallback");
    let gemm = Gemm::new(&config, &problem, cpu.device()).expect("fallbacks are launchable");
    let weight = PackedWeight::pack(&quantized(N, K, problem.b), Layout::Panel16).expect("legal");
    let workspace = vec![0; gemm.workspace_bytes()];
    Setup { gemm, weight, activation: Random(22).normals(M * K), workspace }
}

fn problem() -> Problem {
    Problem::new(M as u32, N as u32, K as u32, Format::Fp8E4m3)
}

#[test]
fn a_wrong_length_is_an_error_and_leaves_the_output_alone() {
    let Setup { gemm, weight, activation, mut workspace } = setup(problem());
    let mut output = vec![7f32; M * N];
    let a = Activation::F32(&activation);
    let short = Activation::F32(&activation[1..]);
    assert!(gemm.run(&weight, short, None, Output::F32(&mut output), &mut workspace).is_err());
    assert!(gemm.run(&weight, a, None, Output::F32(&mut output[1..]), &mut workspace).is_err());
    assert!(gemm.run(&weight, a, None, Output::Bf16(&mut [0; M * N]), &mut workspace).is_err());
    assert!(gemm.run(&weight, a, Some(&[0.0; N]), Output::F32(&mut output), &mut workspace).is_err());
    let small = workspace.len() - 1;
    assert!(gemm.run(&weight, a, None, Output::F32(&mut output), &mut workspace[..small]).is_err());
    assert!(output.iter().all(|value| *value == 7.0));
    assert!(gemm.run(&weight, a, None, Output::F32(&mut output), &mut workspace).is_ok());
    assert!(output.iter().all(|value| *value != 7.0));
}

#[test]
fn a_bias_must_be_given_exactly_if_the_problem_has_one() {
    let with_bias = Problem { epilogue: Epilogue::Bias, out: OutType::Bf16, ..problem() };
    let Setup { gemm, weight, activation, mut workspace } = setup(with_bias);
    let mut output = vec![0u16; M * N];
    let a = Activation::F32(&activation);
    assert!(gemm.run(&weight, a, None, Output::Bf16(&mut output), &mut workspace).is_err());
    assert!(gemm.run(&weight, a, Some(&[1.0; N - 1]), Output::Bf16(&mut output), &mut workspace).is_err());
    assert!(gemm.run(&weight, a, Some(&[1.0; N]), Output::Bf16(&mut output), &mut workspace).is_ok());
}

#[test]
fn a_weight_of_another_shape_format_or_layout_is_an_error() {
    let Setup { gemm, activation, mut workspace, .. } = setup(problem());
    let mut output = vec![0f32; M * N];
    let others = [
        (quantized(N, K, Format::Fp8E4m3), Layout::Panel16x2),
        (quantized(N, K, Format::Fp8E5m2), Layout::Panel16),
        (quantized(N + 1, K, Format::Fp8E4m3), Layout::Panel16),
        (quantized(N, K + 1, Format::Fp8E4m3), Layout::Panel16),
    ];
    for (weight, layout) in others {
        let weight = PackedWeight::pack(&weight, layout).expect("legal on its own");
        let a = Activation::F32(&activation);
        assert!(gemm.run(&weight, a, None, Output::F32(&mut output), &mut workspace).is_err());
    }
}

#[test]
fn a_weight_that_lies_about_its_lengths_is_not_packed() {
    let good = quantized(N, K, Format::MxFp6E2m3);
    for layout in Layout::ALL.iter().filter(|l| l.is_cpu()) {
        assert!(PackedWeight::pack(&good, *layout).is_ok());
        let mut short = good.clone();
        short.codes.pop();
        assert!(PackedWeight::pack(&short, *layout).is_err());
        let mut short = good.clone();
        short.block_scales.pop();
        assert!(PackedWeight::pack(&short, *layout).is_err());
        assert!(PackedWeight::pack(&Quantized { rows: 0, ..good.clone() }, *layout).is_err());
        assert!(
            PackedWeight::pack(&Quantized { scaling: Scaling::Tensor, ..good.clone() }, *layout).is_err()
        );
    }
    let rotated = QuantizeOptions { hadamard: true, ..QuantizeOptions::default() };
    assert!(PackedWeight::pack(&Quantized { options: rotated, ..good }, Layout::Panel16).is_err());
}

#[test]
fn both_activation_types_give_the_same_bits() {
    let Setup { gemm, weight, activation, mut workspace } = setup(problem());
    let mut outputs = [vec![0f32; M * N], vec![0f32; M * N]];
    let narrow: Vec<u16> = activation.iter().map(|value| Format::Bf16.encode(*value)).collect();
    let [first, second] = &mut outputs;
    gemm.run(&weight, Activation::F32(&activation), None, Output::F32(first), &mut workspace).expect("legal");
    gemm.run(&weight, Activation::Bf16(&narrow), None, Output::F32(second), &mut workspace[..])
        .expect("legal");
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn a_workspace_may_start_at_any_address() {
    let Setup { gemm, weight, activation, .. } = setup(problem());
    let mut outputs = Vec::new();
    for skip in 0..9 {
        let mut workspace = vec![0xa5; gemm.workspace_bytes() + skip];
        let mut output = vec![0f32; M * N];
        let a = Activation::F32(&activation);
        gemm.run(&weight, a, None, Output::F32(&mut output), &mut workspace[skip..]).expect("legal");
        outputs.push(output);
    }
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn the_largest_workspace_covers_every_smaller_m() {
    let cpu = Cpu::detect();
    let mut random = Random(25);
    for family in FAMILIES {
        let max_m = if family.name.contains("skinny") { 32 } else { 600 };
        let problem = Problem::new(max_m, 150, 1056, family.formats[0]);
        for _ in 0..20 {
            let config = random_config(family, &problem, cpu.device(), &mut random, &[]).expect("legal");
            let most = max_workspace_bytes(&config, &problem, cpu.device(), max_m).expect("launchable");
            for m in 1..=max_m {
                let gemm = Gemm::new(&config, &problem.with_m(m), cpu.device()).expect("launchable");
                assert!(gemm.workspace_bytes() <= most, "{config} m={m}");
            }
        }
    }
}

#[test]
fn a_config_that_is_not_launchable_is_refused() {
    let cpu = Cpu::detect();
    let text =
        "cpu.skinny_fp8@1(layout=panel16,path=portable,prefetch=0,split_k=1,threads=1,tile_m=4,tile_n=16)";
    let config = Config::parse(text).expect("canonical text");
    assert!(Gemm::new(&config, &problem(), cpu.device()).is_ok());
    assert!(Gemm::new(&config, &problem().with_m(33), cpu.device()).is_err());
}

#[test]
fn a_session_refuses_operands_that_do_not_fit() {
    let cpu = Cpu::detect();
    let good = Case::random(problem(), &mut Random(23)).operands();
    let fails = |operands: Operands| matches!(cpu.open(operands, Regime::Hot), Err(RunFault::Failed(_)));
    assert!(!fails(good.clone()));
    assert!(fails(Operands { m: M + 1, ..good.clone() }));
    assert!(fails(Operands { n: N + 1, ..good.clone() }));
    assert!(fails(Operands { m: 0, activation: [].into(), ..good.clone() }));
    assert!(fails(Operands { bias: Some([0.0; N + 1].into()), ..good }));
}

#[test]
fn a_session_times_in_both_regimes_and_survives_retain() {
    let case = Case::random(problem(), &mut Random(24));
    let cpu = Cpu::detect();
    let configs: Vec<Config> =
        Layout::ALL.iter().filter_map(|layout| fallback(&case.problem, *layout, cpu.device())).collect();
    assert_eq!(configs.len(), Layout::ALL.iter().filter(|layout| layout.is_cpu()).count());
    for regime in [Regime::Cold, Regime::Hot] {
        let mut session = cpu.open(case.operands(), regime).expect("legal");
        for slot in 0..7 {
            for config in &configs {
                assert!(session.time(&case.problem, config, slot).is_ok());
            }
            session.retain(&configs[..1]);
        }
        let other = Problem { b: Format::Bf16, scaling: Scaling::None, ..case.problem };
        let config = fallback(&other, Layout::Panel16, cpu.device()).expect("bf16 has a fallback");
        assert!(matches!(session.time(&other, &config, 0), Err(RunFault::Failed(_))));
    }
}
