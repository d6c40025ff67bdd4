//! The CPU executor against the float64 reference: planned and unplanned weights, failed launches, bad lengths.

mod table_fixture;

#[path = "fixtures/tables/generated/fixture.rs"]
#[allow(unreachable_pub, reason = "a generated module does not know where it is mounted")]
mod generated;

use proptest::prelude::*;
use tilewright_dispatch::exec::{Engine, LoadError, RunError, Weight};
use tilewright_dispatch::table::{Kernel, TableData};
use tilewright_dispatch::{Choice, NoKernel, Provenance, Request};
use tilewright_kernels::cpu::{Activation, Cpu, Gemm, Output};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::{Config, ConfigId, Epilogue, Format, Layout, OutType, Problem, is_launchable};

/// Values in [-1, 1), the same on every host.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // As an engine has it: activations are bf16 values.
        f32::from_bits(((state >> 41) as f32 / (1 << 22) as f32 - 1.0).to_bits() & 0xffff_0000)
    };
    (0..count).map(step).collect()
}

/// Runs a weight and checks all of the output.
fn checked<'e>(
    engine: &'e Engine,
    weight: &Weight,
    source: &[f32],
    m: u32,
    bias: bool,
    out: OutType,
) -> Choice<'e> {
    let key = *weight.key();
    let epilogue = if bias { Epilogue::Bias } else { Epilogue::None };
    let problem = Problem { out, epilogue, ..key.problem(m) };
    let activation = values((m * key.k) as usize, 2);
    let bias = bias.then(|| values(key.n as usize, 3));
    let mut workspace = vec![0xa5; engine.workspace_bytes(weight, m).unwrap()];
    let mut output = vec![f32::NAN; (m * key.n) as usize];
    let choice = match out {
        OutType::F32 => {
            let output = Output::F32(&mut output);
            engine.run(weight, Activation::F32(&activation), m, bias.as_deref(), output, &mut workspace)
        }
        OutType::Bf16 => {
            let mut bits = vec![0x7fc0; output.len()];
            let narrow: Vec<u16> = activation.iter().map(|value| (value.to_bits() >> 16) as u16).collect();
            let result = engine.run(
                weight,
                Activation::Bf16(&narrow),
                m,
                bias.as_deref(),
                Output::Bf16(&mut bits),
                &mut workspace,
            );
            for (wide, bits) in output.iter_mut().zip(&bits) {
                *wide = f32::from_bits(u32::from(*bits) << 16);
            }
            result
        }
    };
    let choice = choice.unwrap_or_else(|error| panic!("{problem}: {error}"));
    let quantized = Quantized::quantize(
        source,
        key.n as usize,
        key.k as usize,
        key.b,
        key.scaling,
        &QuantizeOptions::default(),
    );
    let reference = Reference::compute(
        &problem,
        &activation,
        &quantized.unwrap(),
        bias.as_deref(),
        Sample::spread(key.n as usize, 64),
    );
    if let Err(mismatch) = reference.check(&output, out) {
        panic!("{problem} by {}: {mismatch}", choice.config);
    }
    choice
}

#[test]
fn planned_weights_agree_with_the_reference_on_every_rung_and_epilogue() {
    let engine = Engine::new(&generated::TABLE);
    assert!(!engine.is_tuned_here(), "the fixture's device exists only in tests");
    for name in ["attn.qkv", "mlp.gate_up", "mlp.down"] {
        let plan = engine.table().weight(name).unwrap();
        let key = engine.table().data().groups[plan.group as usize].key;
        let source = values((key.n * key.k) as usize, 1);
        let weight = engine.load(name, &source).unwrap();
        assert_eq!((weight.key(), weight.deterministic()), (&key, plan.deterministic));
        for (m, bias, out) in [
            (1, false, OutType::F32),
            (3, true, OutType::Bf16),
            (32, false, OutType::Bf16),
            (33, true, OutType::F32),
            (70, false, OutType::F32),
        ] {
            let choice = checked(&engine, &weight, &source, m, bias, out);
            let planned = !bias && out == OutType::F32;
            match choice.provenance {
                Provenance::Exact | Provenance::Interval { .. } => assert!(planned, "{choice:?}"),
                Provenance::Nearest { distance } => assert!(!planned && distance < 1.25, "{choice:?}"),
                other => panic!("{other}"),
            }
        }
    }
}

/// The layouts that the CPU's kernels read.
const CPU_LAYOUTS: [Layout; 4] = [Layout::RowMajor, Layout::Panel16, Layout::Panel16x2, Layout::Panel16x4];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_weight_in_any_format_and_layout_runs_right(
        m in 1u32..70,
        n in 1u32..90,
        blocks in 1u32..6,
        tail in 0u32..32,
        format in 0..Format::WEIGHTS.len(),
        layout in 0..4usize,
        bias in any::<bool>(),
        bf16 in any::<bool>(),
        tuned in any::<bool>(),
    ) {
        let (format, layout) = (Format::WEIGHTS[format], CPU_LAYOUTS[layout]);
        let k = 32 * blocks - if format.is_mx() { 0 } else { tail };
        let engine = Engine::new(if tuned { &generated::TABLE } else { &TableData::EMPTY });
        let source = values((n * k) as usize, 4);
        let weight = engine.load_unplanned(n, k, format, layout, &source).unwrap();
        let out = if bf16 { OutType::Bf16 } else { OutType::F32 };
        let choice = checked(&engine, &weight, &source, m, bias, out);
        prop_assert!(is_launchable(&choice.config, &weight.key().problem(m), engine.table().device()).is_ok());
    }
}

#[test]
fn a_failed_launch_falls_to_the_runner_up_once_and_is_counted() {
    // The winner adds in parts, for which it needs workspace; its runner-up does not.
    let problem = Problem::new(64, 576, 1536, Format::MxFp6E2m3);
    let cpu = Cpu::detect();
    let plain =
        tilewright_kernels::family::fallback(&problem, Layout::Panel16, tilewright_device(&cpu)).unwrap();
    let roomy = plain.with("tile_m", plain.get("tile_m").unwrap().max(2) / 2).with("decode", 1);
    let needs =
        |config: &Config| Gemm::new(config, &problem, tilewright_device(&cpu)).unwrap().workspace_bytes();
    assert!(needs(&roomy) > needs(&plain), "{} {}", needs(&roomy), needs(&plain));
    let texts: Vec<String> = generated::TABLE
        .kernels
        .iter()
        .map(|kernel| {
            let winner = kernel.text.starts_with("cpu.tiled_mxfp6") && kernel.text.contains("threads=4");
            let runner_up = kernel.text.starts_with("cpu.tiled_mxfp6") && kernel.text.contains("threads=2");
            match (winner, runner_up) {
                (true, _) => roomy.to_string(),
                (_, true) => plain.to_string(),
                _ => kernel.text.to_owned(),
            }
        })
        .collect();
    let texts: &'static [String] = texts.leak();
    let kernels: Vec<Kernel<'static>> =
        texts.iter().map(|text| Kernel { id: ConfigId::of_text(text).0, text }).collect();
    let engine = Engine::new(&TableData { kernels: kernels.leak(), ..generated::TABLE });
    assert_eq!(engine.table().faults(), []);
    let source = values(576 * 1536, 1);
    let weight = engine.load("mlp.down", &source).unwrap();
    let activation = values(64 * 1536, 2);
    let mut output = vec![0.0; 64 * 576];
    let mut run = |bytes: usize| {
        let mut workspace = vec![0; bytes];
        engine.run(&weight, Activation::F32(&activation), 64, None, Output::F32(&mut output), &mut workspace)
    };
    let first = run(needs(&roomy)).unwrap();
    assert_eq!((*first.config, first.rank), (roomy, 0));
    let second = run(needs(&plain)).unwrap();
    assert_eq!((*second.config, second.rank), (plain, 1));
    assert_eq!(engine.table().counters().read().launch_failures, 1);
    assert!(matches!(run(0), Err(RunError::Launch(_))));
    assert_eq!(engine.table().counters().read().launch_failures, 3);
    assert_eq!(engine.table().counters().read().exact, 3);
}

fn tilewright_device(cpu: &Cpu) -> &tilewright_kernels::Device {
    use tilewright_kernels::backend::Backend as _;
    cpu.device()
}

#[test]
fn wrong_lengths_and_names_are_typed_errors_and_touch_nothing() {
    let engine = Engine::new(&generated::TABLE);
    assert!(matches!(engine.load("mlp.up", &[]), Err(LoadError::UnknownWeight)));
    let short = engine.load("attn.o", &[0.0; 5]);
    assert!(matches!(short, Err(LoadError::Length { found: 5, n: 576, k: 576 })));
    let odd = engine.load_unplanned(4, 33, Format::MxFp6E2m3, Layout::Panel16, &[0.0; 132]);
    assert!(matches!(odd, Err(LoadError::Illegal(_))));
    let weight = engine.load_unplanned(4, 64, Format::MxFp6E2m3, Layout::Panel16, &[0.0; 256]).unwrap();
    let mut workspace = vec![0; engine.workspace_bytes(&weight, 2).unwrap()];
    let mut output = [7.0; 8];
    let mut run = |activation: &[f32], m: u32, bias: Option<&[f32]>| {
        engine.run(&weight, Activation::F32(activation), m, bias, Output::F32(&mut output), &mut workspace)
    };
    let length = |operand, found, expected| Err(RunError::Length { operand, found, expected });
    assert_eq!(run(&[0.0; 127], 2, None), length("activation", 127, 128));
    assert_eq!(run(&[0.0; 128], 2, Some(&[0.0; 3])), length("bias", 3, 4));
    assert_eq!(run(&[0.0; 64], 1, None), length("output", 8, 4));
    assert_eq!(run(&[], 0, None), length("output", 8, 0));
    assert_eq!(output, [7.0; 8]);
    let none = engine.run(&weight, Activation::F32(&[]), 0, None, Output::F32(&mut []), &mut []);
    assert!(matches!(none, Err(RunError::NoKernel(NoKernel::Illegal(_)))));
}

#[test]
fn threads_share_an_engine_and_get_the_same_answer() {
    let engine = Engine::new(&generated::TABLE);
    let source = values(576 * 576, 1);
    let weight = engine.load("attn.o", &source).unwrap();
    let bytes = engine.workspace_bytes(&weight, 16).unwrap();
    let activation = values(16 * 576, 2);
    let results: Vec<(Choice<'_>, Vec<f32>)> = std::thread::scope(|scope| {
        let run = || {
            let (mut output, mut workspace) = (vec![0.0; 16 * 576], vec![0; bytes]);
            let choice = engine
                .run(
                    &weight,
                    Activation::F32(&activation),
                    16,
                    None,
                    Output::F32(&mut output),
                    &mut workspace,
                )
                .unwrap();
            (choice, output)
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    let request = Request::new(weight.key().problem(16), weight.key().layout);
    assert_eq!(engine.table().lookup(&request), Ok(results[0].0));
}
