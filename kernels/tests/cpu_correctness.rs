//! Every CPU kernel against the float64 reference, over ragged shapes and the whole legal space.

mod common;

use common::{Case, LAYOUTS, Random, families_of, paths_for, random_config};
use proptest::prelude::*;
use tilewright_kernels::backend::Backend;
use tilewright_kernels::cpu::{Cpu, FAMILIES, Gemm};
use tilewright_kernels::family::fallback;
use tilewright_kernels::{Caps, Domain, Epilogue, Format, Layout, OutType, Problem, Scaling};

const MS: [u32; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33];
const NS: [u32; 6] = [1, 15, 16, 17, 33, 50];
const KS: [u32; 6] = [1, 31, 33, 64, 96, 160];

fn random_problem(b: Format, random: &mut Random) -> Problem {
    let mut problem = Problem::new(random.pick(&MS), random.pick(&NS), random.pick(&KS), b);
    if b.is_mx() {
        problem.k = problem.k.next_multiple_of(32);
    } else if b != Format::Bf16 && random.below(3) == 0 {
        problem.scaling = Scaling::Tensor;
    }
    if random.below(3) == 0 {
        problem.out = OutType::Bf16;
    }
    if random.below(3) == 0 {
        problem.epilogue = Epilogue::Bias;
    }
    problem
}

#[test]
fn every_family_path_and_layout_agrees_with_the_reference() {
    let cpu = Cpu::detect();
    let mut random = Random(1);
    for &format in Format::WEIGHTS {
        for family in families_of(format) {
            for (path, a) in paths_for(&cpu, format) {
                for layout in LAYOUTS {
                    for _ in 0..8 {
                        let mut problem = Problem { a, ..random_problem(format, &mut random) };
                        if family.name.contains("skinny") {
                            problem.m = problem.m.min(32);
                        }
                        let fixed = [("path", path), ("layout", layout)];
                        let config = random_config(family, &problem, cpu.device(), &mut random, &fixed);
                        let config = config.unwrap_or_else(|| panic!("{} {fixed:?} {problem}", family.name));
                        Case::random(problem, &mut random).check(&cpu, &config);
                    }
                }
            }
        }
    }
}

#[test]
fn every_activation_format_agrees_with_the_reference() {
    let cpu = Cpu::detect();
    let mut random = Random(2);
    for &b in Format::WEIGHTS {
        for &a in Format::ALL.iter().filter(|a| !a.is_mx() || b.is_mx()) {
            for family in families_of(b) {
                for (path, fixed_a) in paths_for(&cpu, b) {
                    if fixed_a != Format::Bf16 && fixed_a != a {
                        continue;
                    }
                    let mut problem = Problem { a, ..random_problem(b, &mut random) };
                    problem.m = problem.m.min(32);
                    if a.is_mx() {
                        problem.k = problem.k.next_multiple_of(32);
                    }
                    let config =
                        random_config(family, &problem, cpu.device(), &mut random, &[("path", path)]);
                    let config = config.unwrap_or_else(|| panic!("{} {path} {problem}", family.name));
                    Case::random(problem, &mut random).check(&cpu, &config);
                }
            }
        }
    }
}

#[test]
fn a_block_scaled_activation_needs_a_block_scaled_weight() {
    let cpu = Cpu::detect();
    let problem = Problem { a: Format::MxFp8, ..Problem::new(4, 32, 64, Format::Fp8E4m3) };
    let launchable = Problem { a: Format::Bf16, ..problem };
    let config =
        fallback(&launchable, Layout::Panel16, cpu.device()).expect("a plain problem has a fallback");
    assert!(Gemm::new(&config, &launchable, cpu.device()).is_ok());
    assert!(Gemm::new(&config, &problem, cpu.device()).is_err());
}

#[test]
fn blocking_that_divides_nothing_evenly_agrees_with_the_reference() {
    let cpu = Cpu::detect();
    let mut random = Random(3);
    for &format in Format::WEIGHTS {
        let problem = Problem::new(37, 150, 1056, format);
        let case = Case::random(problem, &mut random);
        for family in families_of(format).filter(|family| family.name.contains("tiled")) {
            for kc in ["0", "256", "512"] {
                for mc in ["0", "32"] {
                    let fixed = [("kc", kc), ("mc", mc)];
                    let config = random_config(family, &problem, cpu.device(), &mut random, &fixed);
                    case.check(&cpu, &config.expect("a large problem has a config"));
                }
            }
        }
    }
}

#[test]
fn every_legal_register_tile_has_a_kernel() {
    let cpu = Cpu::detect();
    let mut random = Random(4);
    for family in FAMILIES {
        let b = family.formats[0];
        for (path, a) in paths_for(&cpu, b) {
            let problem = Problem { a, ..Problem::new(32, 64, 256, b) };
            for tile_m in [1, 2, 3, 4, 5, 6, 7, 8, 10, 12] {
                for tile_n in [16, 32, 64] {
                    let (tile_m, tile_n) = (tile_m.to_string(), tile_n.to_string());
                    let fixed = [("path", path), ("tile_m", tile_m.as_str()), ("tile_n", tile_n.as_str())];
                    if let Some(config) = random_config(family, &problem, cpu.device(), &mut random, &fixed) {
                        for m in 1..=13 {
                            let bound = Gemm::new(&config, &problem.with_m(m), cpu.device());
                            assert!(bound.is_ok(), "{config} at m={m}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_fallback_runs_every_m_on_every_restricted_device() {
    let mut random = Random(5);
    let sets = [
        Caps::NONE,
        Caps::AVX2,
        Caps::AVX2.with(Caps::AVX512).with(Caps::AVX512_VBMI),
        Cpu::detect().device().caps,
    ];
    for caps in sets {
        let cpu = Cpu::with_caps(caps);
        for &format in Format::WEIGHTS {
            for &layout in Layout::ALL.iter().filter(|l| l.is_cpu()) {
                for m in [1, 3, 13, 65] {
                    let problem = Problem::new(m, 40, 96, format);
                    let config = fallback(&problem, layout, cpu.device());
                    let config = config.unwrap_or_else(|| panic!("no fallback for {problem} in {layout}"));
                    assert_eq!(config.layout(), layout);
                    Case::random(problem, &mut random).check(&cpu, &config);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_problems_agree_with_the_reference(
        family in 0..FAMILIES.len(),
        format in 0..3usize,
        (m, n, k) in (1u32..80, 1u32..140, 1u32..400),
        seed in any::<u64>(),
    ) {
        let cpu = Cpu::detect();
        let family = FAMILIES[family];
        let b = family.formats[format % family.formats.len()];
        let k = if b.is_mx() { k.next_multiple_of(32) } else { k };
        let m = if family.name.contains("skinny") { m.min(32) } else { m };
        let mut random = Random(seed);
        let problem = Problem::new(m, n, k, b);
        let config = random_config(family, &problem, cpu.device(), &mut random, &[]);
        Case::random(problem, &mut random).check(&cpu, &config.expect("the problem is legal"));
    }
}

#[test]
fn domains_of_numbers_are_ascending() {
    for family in FAMILIES {
        for param in family.params {
            if let Domain::Numbers(values) = param.domain {
                assert!(values.is_sorted(), "{}: {}", family.name, param.name);
            }
        }
        assert!(family.params.is_sorted_by_key(|param| param.name), "{}", family.name);
    }
    assert!(FAMILIES.is_sorted_by_key(|family| family.name));
}
