//! What must hold to the last bit: results do not depend on threads, blocking, tiles or the moment, paths agree where
//! arithmetic is exact, and special values come out as the formats define them.

mod common;

use std::thread;

use common::{Case, Random, bf16, families_of, paths_for, random_config};
use tilewright_kernels::backend::Backend;
use tilewright_kernels::cpu::{Cpu, FAMILIES};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Format, Problem, Scaling};

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A few configs of every family of a format on one path, with one number of parts of K.
fn some_configs(cpu: &Cpu, problem: &Problem, path: &str, split_k: &str, random: &mut Random) -> Vec<Config> {
    let fixed = [("path", path), ("split_k", split_k)];
    families_of(problem.b)
        .flat_map(|family| {
            (0..8)
                .filter_map(|_| random_config(family, problem, cpu.device(), random, &fixed))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn no_tile_block_layout_or_thread_changes_a_bit() {
    let cpu = Cpu::detect();
    let mut random = Random(11);
    for &b in Format::WEIGHTS {
        for (path, a) in paths_for(&cpu, b) {
            let problem = Problem { a, ..Problem::new(19, 150, 1056, b) };
            let case = Case::random(problem, &mut random);
            let mut first: Option<(Config, Vec<u32>)> = None;
            for config in some_configs(&cpu, &problem, path, "1", &mut random) {
                let output = bits(&case.run(&cpu, &config));
                assert_eq!(output, bits(&case.run(&cpu, &config)), "{config} differs between runs");
                match &first {
                    None => first = Some((config, output)),
                    Some((other, expected)) => assert!(output == *expected, "{config} differs from {other}"),
                }
            }
        }
    }
}

#[test]
fn every_path_agrees_with_portable_where_sums_are_exact() {
    let cpu = Cpu::detect();
    let mut random = Random(12);
    for &b in Format::WEIGHTS {
        for (path, a) in paths_for(&cpu, b) {
            let problem = Problem { a, ..Problem::new(11, 70, 512, b) };
            let (m, n, k) = (11, 70, 512);
            // Small integers, exact in every format, whose sums stay far below 2^24; the largest fixes the scales.
            let mut small = |count: usize| -> Vec<f32> {
                let value = |i: usize, v: f32| if i.is_multiple_of(32) { 4.0 } else { v };
                (0..count).map(|i| value(i, random.pick(&[-2.0, -1.0, 0.0, 1.0, 2.0, 4.0]))).collect()
            };
            let (activation, weight) = (small(m * k), small(n * k));
            let mut weight =
                Quantized::quantize(&weight, n, k, b, Scaling::usual(b), &QuantizeOptions::default())
                    .expect("the operands are legal");
            // A power of two, so that the epilogue is exact too.
            weight.scales.fill(0.5);
            let case = Case::new(problem, activation, weight, None);
            let portable = Problem { a: Format::Bf16, ..problem };
            let portable = some_configs(&cpu, &portable, "portable", "1", &mut random)[0];
            let expected = bits(&case.check(&cpu, &portable));
            for split_k in ["1", "2"] {
                for config in some_configs(&cpu, &problem, path, split_k, &mut random) {
                    assert!(bits(&case.check(&cpu, &config)) == expected, "{config} differs from {portable}");
                }
            }
        }
    }
}

/// Every code of a format, cut into rows of K, with the given E8M0 scales in turn.
fn all_codes(format: Format, k: usize, scales: &[u8]) -> Quantized {
    let codes = 1usize << format.bits();
    let rows = (codes / k).max(1) * scales.len().max(1);
    let mut weight = Quantized::quantize(
        &vec![0.0; rows * k],
        rows,
        k,
        format,
        Scaling::usual(format),
        &Default::default(),
    )
    .expect("zeros are legal");
    for row in 0..rows {
        for column in 0..k {
            let code = (row * k + column) % codes;
            let row_codes = &mut weight.codes[row * format.row_bytes(k)..(row + 1) * format.row_bytes(k)];
            tilewright_kernels::format::pack::set(row_codes, format, column, code as u16);
        }
    }
    let blocks = k / 32;
    for (index, scale) in weight.block_scales.iter_mut().enumerate() {
        *scale = scales[index / blocks % scales.len()];
    }
    weight
}

#[test]
fn every_code_multiplies_as_its_format_says() {
    let cpu = Cpu::detect();
    let mut random = Random(13);
    for &b in Format::WEIGHTS.iter().filter(|b| b.bits() <= 8) {
        // K = 1 shows every code alone (NaN, infinity, subnormals); K = 32 in company.
        let depths: &[usize] = if b.is_mx() { &[32] } else { &[1, 32] };
        for &k in depths {
            let scales: &[u8] = if b.is_mx() { &[127, 100, 140] } else { &[] };
            let weight = all_codes(b, k, scales);
            for (path, a) in paths_for(&cpu, b) {
                let problem = Problem { a, ..Problem::new(3, weight.rows as u32, k as u32, b) };
                let activation = random.normals(3 * k).into_iter().map(bf16).collect();
                let case = Case::new(problem, activation, weight.clone(), None);
                for config in some_configs(&cpu, &problem, path, "1", &mut random) {
                    case.check(&cpu, &config);
                }
            }
        }
    }
}

#[test]
fn extreme_block_scales_neither_overflow_nor_vanish() {
    let cpu = Cpu::detect();
    let mut random = Random(14);
    for &b in Format::WEIGHTS.iter().filter(|b| b.is_mx()) {
        // Weight scales at both ends, and activations that bring the product back to the middle.
        for (scales, magnitude) in
            [([0u8, 1, 2], 120), ([254, 253, 252], -120), ([0, 1, 254], 0), ([255, 127, 0], 4)]
        {
            let weight = all_codes(b, 64, &scales);
            for (path, fixed) in paths_for(&cpu, b) {
                for a in [Format::Bf16, b].into_iter().filter(|a| fixed == Format::Bf16 || *a == fixed) {
                    let problem = Problem { a, ..Problem::new(2, weight.rows as u32, 64, b) };
                    let factor = 2f64.powi(magnitude);
                    let activation: Vec<f32> = random
                        .normals(128)
                        .into_iter()
                        .map(|v| bf16((f64::from(v) * factor) as f32))
                        .collect();
                    if scales.contains(&254) && magnitude == 0 {
                        continue;
                    }
                    let case = Case::new(problem, activation, weight.clone(), None);
                    for config in some_configs(&cpu, &problem, path, "1", &mut random) {
                        case.check(&cpu, &config);
                    }
                }
            }
        }
    }
}

#[test]
fn faults_and_outliers_in_the_activation_stay_in_their_row() {
    let cpu = Cpu::detect();
    let mut random = Random(15);
    for &b in Format::WEIGHTS {
        for (path, fixed) in paths_for(&cpu, b) {
            let formats = [Format::Bf16, Format::Fp8E4m3, b];
            for a in formats.into_iter().filter(|a| fixed == Format::Bf16 || *a == fixed) {
                let problem = Problem { a, ..Problem::new(6, 33, 96, b) };
                let mut activation: Vec<f32> = random.normals(6 * 96).into_iter().map(bf16).collect();
                activation[96 + 5] = f32::NAN;
                activation[2 * 96 + 40] = 1e30;
                activation[3 * 96..4 * 96].fill(0.0);
                activation[4 * 96] = 1e-40;
                // One huge channel in every row that is not special.
                activation[7] = 3000.0;
                activation[5 * 96 + 7] = -3000.0;
                let weight = random.normals(33 * 96);
                let weight = Quantized::quantize(&weight, 33, 96, b, Scaling::usual(b), &Default::default())
                    .expect("the operands are legal");
                let case = Case::new(problem, activation, weight, None);
                for config in some_configs(&cpu, &problem, path, "1", &mut random) {
                    let output = case.check(&cpu, &config);
                    assert!(output[33..66].iter().all(|value| value.is_nan()), "{config}");
                    assert!(output[99..132].iter().all(|value| *value == 0.0), "{config}");
                }
            }
        }
    }
}

#[test]
fn concurrent_callers_get_the_same_bits() {
    let cpu = Cpu::detect();
    let mut random = Random(16);
    let threads = cpu.device().units.min(2).to_string();
    let cases: Vec<(Case, Config, Vec<u32>)> = FAMILIES
        .iter()
        .map(|family| {
            let problem = Problem::new(9, 200, 512, family.formats[0]);
            let case = Case::random(problem, &mut random);
            let fixed = [("threads", threads.as_str())];
            let config = random_config(family, &problem, cpu.device(), &mut random, &fixed).expect("legal");
            let expected = bits(&case.check(&cpu, &config));
            (case, config, expected)
        })
        .collect();
    thread::scope(|scope| {
        for first in 0..4 {
            let (cases, cpu) = (&cases, &cpu);
            scope.spawn(move || {
                for turn in 0..40 {
                    let (case, config, expected) = &cases[(first + turn) % cases.len()];
                    assert!(bits(&case.run(cpu, config)) == *expected, "{config}");
                }
            });
        }
    });
}
