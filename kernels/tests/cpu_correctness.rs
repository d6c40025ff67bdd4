//! Every CPU kernel against the float64 reference, over ragged shapes and the whole legal space.

mod common;

use common::{Case, LAYOUTS, PATHS, Random, families_of, random_config};
use tilewright_kernels::backend::Backend;
use tilewright_kernels::cpu::Cpu;
use tilewright_kernels::{Epilogue, Format, OutType, Problem, Scaling};

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
    for &format in Format::ALL {
        for family in families_of(format) {
            for path in PATHS {
                for layout in LAYOUTS {
                    let mut tried = 0;
                    for _ in 0..12 {
                        let mut problem = random_problem(format, &mut random);
                        if path == "avx512_vnni" {
                            problem.a = Format::MxFp6E2m3;
                        }
                        let fixed = [("path", path), ("layout", layout)];
                        let found = random_config(family, &problem, cpu.device(), &mut random, &fixed);
                        if let Some(config) = found.filter(|c| c.to_string().contains(path)) {
                            Case::random(problem, &mut random).check(&cpu, &config);
                            tried += 1;
                        }
                    }
                    let _ = tried;
                }
            }
        }
    }
}
