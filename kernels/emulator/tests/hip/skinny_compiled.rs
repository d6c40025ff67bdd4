//! Skinny kernels as the compiler makes them: the predicate's registers and LDS are bounds, nothing spills, and the
//! assembly holds the loads and waits that the kernels are written for.
//!
//! A few configs of each family's space are drawn; `TILEWRIGHT_HIP_SAMPLE` says how many on each architecture.

use crate::harness::{Random, Rig};
use crate::skinny::{config, family, formats, forms};
use tilewright_kernels::hip::skinny::{self, Shape};
use tilewright_kernels::{Config, Family, Format, Problem, hip, is_launchable};

/// Random launchable configs of all families, with a problem each.
fn sample(rig: &Rig, count: usize) -> Vec<(Config, Problem)> {
    let mut random = Random(11);
    let mut below = |n: usize| (random.next() % n as u64) as usize;
    let pairs: &[(&Family, Format)] = match rig.arch {
        "gfx942" => &[(&skinny::BF16, Format::Bf16), (&skinny::FP8, Format::Fp8E4m3Fnuz)],
        _ => &[
            (&skinny::BF16, Format::Bf16),
            (&skinny::FP8, Format::Fp8E4m3),
            (&skinny::MXFP6, Format::MxFp6E2m3),
        ],
    };
    let mut found = Vec::new();
    while found.len() < count {
        let (family, format) = pairs[found.len() % pairs.len()];
        let family = hip::FAMILIES.iter().find(|f| **f == family).expect("it is built in");
        let positions: Vec<u8> = family.params.iter().map(|p| below(p.domain.len()) as u8).collect();
        let config = Config::at(family, &positions);
        let problem = Problem { a: format, ..Problem::new([1, 8, 16, 32][below(4)], 2304, 16384, format) };
        let redundant = || (family.redundant)(&config, &problem, &rig.device);
        if is_launchable(&config, &problem, &rig.device).is_ok() && !redundant() {
            found.push((config, problem));
        }
    }
    found
}

#[test]
fn the_predicate_bounds_what_the_compiler_takes() {
    let count = std::env::var("TILEWRIGHT_HIP_SAMPLE").map_or(6, |n| n.parse().expect("a number"));
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        let mut wrong = Vec::new();
        for (config, problem) in sample(&rig, count) {
            let plan = hip::plan(&config, &problem, &rig.device).unwrap();
            let source = &plan.steps.iter().find(|s| s.source.entry == "skinny").unwrap().source;
            let compiled = rig.compile(source);
            let kernel = compiled.code.kernel("skinny").unwrap();
            let metadata = kernel.metadata.as_ref().unwrap();
            let s = Shape::of(&config, &problem);
            let [bound, lds] = [s.registers(&rig.device), s.lds_bytes()];
            let [vgprs, agprs, _] = metadata.registers;
            let group = kernel.descriptor.group_segment;
            // The flags, where the compiler needs none.
            let slack = 4 * (2 * s.depth + 1);
            if metadata.spills != [0, 0] || vgprs > bound || !(lds - slack..=lds).contains(&group) {
                wrong.push(format!(
                    "{config}: {vgprs} registers ({agprs} AGPRs) of {bound}, {group} bytes of LDS of {lds}, {:?} spills",
                    metadata.spills
                ));
            } else if std::env::var_os("TILEWRIGHT_HIP_SAMPLE").is_some() {
                println!("{} {vgprs} of {bound} {config}", rig.arch);
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", rig.arch, wrong.join("\n"));
    }
}

/// Of a stream's loop, what lies between the first and the last product: the products of all four steps of the ring, and
/// the loads that refill three of them.
fn between_products(assembly: &str) -> Vec<&str> {
    let lines: Vec<&str> = assembly.lines().map(str::trim).collect();
    let is_product = |line: &&str| line.starts_with("v_mfma") || line.starts_with("v_smfmac");
    let first = lines.iter().position(is_product).expect("it multiplies");
    let last = lines.iter().rposition(is_product).expect("it multiplies");
    lines[first..=last].to_vec()
}

#[test]
fn a_stream_waits_for_its_oldest_step_alone() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        for (a, b) in formats(rig.arch) {
            for &form in forms(rig.arch, b) {
                let config = config(family(b), &[("form", form), ("depth", 4), ("panels", 2), ("waves", 4)]);
                let problem = Problem { a, ..Problem::new(8, 2304, 16384, b) };
                is_launchable(&config, &problem, &rig.device).unwrap_or_else(|e| panic!("{config}: {e}"));
                let plan = hip::plan(&config, &problem, &rig.device).unwrap();
                let compiled = rig.compile(&plan.steps.last().unwrap().source);
                let body = between_products(&compiled.assembly);
                let loads = body.iter().filter(|line| line.starts_with("buffer_load_dword")).count();
                let waits = body.iter().filter_map(|line| {
                    let count = line.strip_prefix("s_waitcnt vmcnt(")?.split(')').next()?;
                    count.parse::<usize>().ok()
                });
                // Three steps' loads are still under way whenever it waits for the fourth's.
                assert_eq!(waits.min(), Some(loads), "{config} on {} with {a}", rig.arch);
                assert!(body.iter().all(|line| !line.starts_with("v_mov_b32") && !line.contains("accvgpr")));
            }
        }
    }
}
