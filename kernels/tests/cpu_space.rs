//! The CPU families' spaces: narrowing loses nothing, priors are sane, identities are unique.

use std::collections::HashSet;

use tilewright_kernels::backend::Backend;
use tilewright_kernels::cpu::{Cpu, FAMILIES};
use tilewright_kernels::space::enumerate;
use tilewright_kernels::{Caps, Config, Family, Format, Problem, is_launchable};

/// Every config of a small family that the predicate and the family want, without narrowing.
fn by_force(family: &'static Family, problem: &Problem, cpu: &Cpu) -> Vec<Config> {
    let mut all = vec![Vec::new()];
    for param in family.params {
        all = all
            .into_iter()
            .flat_map(|positions: Vec<u8>| {
                (0..param.domain.len() as u8).map(move |p| [positions.as_slice(), &[p]].concat())
            })
            .collect();
    }
    all.into_iter()
        .map(|positions| Config::at(family, &positions))
        .filter(|c| {
            is_launchable(c, problem, cpu.device()).is_ok() && !(family.redundant)(c, problem, cpu.device())
        })
        .collect()
}

#[test]
fn narrowing_a_skinny_space_loses_no_config() {
    for cpu in [Cpu::detect(), Cpu::with_caps(Caps::NONE)] {
        for family in FAMILIES.iter().filter(|family| family.name.contains("skinny")) {
            for (m, n, k) in [(1, 50, 32), (9, 33, 576), (33, 64, 64)] {
                let problem = Problem::new(m, n, k, family.formats[0]);
                let found = enumerate(family, &problem, cpu.device());
                assert!(found == by_force(family, &problem, &cpu), "{} on {problem}", family.name);
                assert_eq!(found.is_empty(), m > 32, "{} on {problem}", family.name);
            }
        }
    }
}

#[test]
fn narrowing_never_stops_a_value_of_a_tiled_config_that_is_wanted() {
    let cpu = Cpu::detect();
    for family in FAMILIES.iter().filter(|family| family.name.contains("tiled")) {
        for (m, n, k) in [(1, 50, 32), (40, 70, 576), (300, 2000, 4096)] {
            let problem = Problem::new(m, n, k, family.formats[0]);
            let mut seed = 1u64;
            for _ in 0..20_000 {
                let mut random = |bound: usize| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    ((seed >> 33) % bound as u64) as u8
                };
                let positions: Vec<u8> = family.params.iter().map(|p| random(p.domain.len())).collect();
                let config = Config::at(family, &positions);
                if is_launchable(&config, &problem, cpu.device()).is_err()
                    || (family.redundant)(&config, &problem, cpu.device())
                {
                    continue;
                }
                for (param, value) in config.values().iter().enumerate() {
                    assert!(
                        (family.narrow)(param, *value, &problem, cpu.device()),
                        "{config}: {} on {problem}",
                        family.params[param].name
                    );
                }
            }
        }
    }
}

#[test]
fn priors_are_positive_and_finite_and_identities_unique() {
    let cpu = Cpu::detect();
    let mut ids = HashSet::new();
    for family in FAMILIES {
        for m in [1, 20] {
            let problem = Problem::new(m, 960, 576, family.formats[0]);
            for config in enumerate(family, &problem, cpu.device()) {
                let prior = (family.prior)(&config, &problem, cpu.device());
                assert!(prior.is_finite() && prior > 0.0, "{config}: {prior}");
                ids.insert(config.to_string());
            }
        }
    }
    let hashes: HashSet<_> = ids.iter().map(|text| Config::parse(text).expect("canonical").id()).collect();
    assert_eq!(hashes.len(), ids.len());
}

#[test]
fn the_prior_prefers_wide_arithmetic_panels_and_fitting_tiles() {
    let cpu = Cpu::detect();
    let problem = Problem::new(8, 4096, 4096, Format::Fp8E4m3);
    let config = |text: &str| Config::parse(&format!("cpu.skinny_fp8@1({text})")).expect("canonical text");
    let prior = |text: &str| (config(text).family().prior)(&config(text), &problem, cpu.device());
    let base = prior("layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=8,tile_n=32");
    for worse in [
        "layout=panel16x2,path=portable,prefetch=4096,split_k=1,threads=1,tile_m=4,tile_n=32",
        "layout=row_major,path=avx512,prefetch=0,split_k=1,threads=1,tile_m=8,tile_n=32",
        "layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=1,tile_n=32",
        "layout=panel16x2,path=avx512,prefetch=4096,split_k=1,threads=1,tile_m=5,tile_n=32",
    ] {
        assert!(prior(worse) > base, "{worse}");
    }
}
