//! What a lookup takes unasked: a family's launchable M are one interval, and a proven segment's kernel runs all of it.

mod table_fixture;

#[path = "fixtures/tables/generated/fixture.rs"]
#[allow(unreachable_pub, reason = "a generated module does not know where it is mounted")]
mod generated;

use table_fixture::{decisions, device};
use tilewright_dispatch::{Request, Table};
use tilewright_kernels::{BackendKind, Caps, Config, Device, Problem, families, is_launchable};

/// The devices whose rules are asked about: the fixture's, and one where much is refused.
fn devices(backend: BackendKind) -> [Device; 2] {
    [Device { backend, ..device() }, Device { backend, units: 2, caps: Caps::AVX2, ..device() }]
}

/// Positions in the domains of a family's parameters, the same on every host.
fn configs(family: &'static tilewright_kernels::Family, count: usize) -> impl Iterator<Item = Config> {
    let mut state = 1u64;
    (0..count).map(move |_| {
        let positions: Vec<u8> = family
            .params
            .iter()
            .map(|param| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                ((state >> 33) as usize % param.domain.len()) as u8
            })
            .collect();
        Config::at(family, &positions)
    })
}

#[test]
fn the_m_at_which_a_config_is_launchable_are_one_interval() {
    let mut launchable = 0;
    for &family in families() {
        for (index, config) in configs(family, 256).enumerate() {
            let b = family.formats[index % family.formats.len()];
            let problem = Problem::new(1, 960, [576, 4096, 16384][index % 3], b);
            for device in devices(family.backend) {
                let runs = |m| is_launchable(&config, &problem.with_m(m), &device).is_ok();
                let near = (1..=2100).chain((2100..=70_000).step_by(53)).chain([1 << 20, u32::MAX]);
                let mut changes = 0;
                let mut last = false;
                for m in near {
                    changes += usize::from(runs(m) != last);
                    last = runs(m);
                }
                launchable += usize::from(changes > 0);
                assert!(changes <= 2, "{config} starts and stops {changes} times on {device:?}");
            }
        }
    }
    assert!(launchable > 50, "of the configs tried, only {launchable} are launchable at all");
}

#[test]
fn every_answer_on_every_device_is_launchable_and_the_row_s_first_that_is() {
    let decisions = decisions();
    for device in devices(BackendKind::Cpu) {
        let table = Table::bind(&generated::TABLE, &device);
        for weight in &decisions.weights {
            let layout = weight.layout;
            for m in (1..=2100).chain((2100..=70_000).step_by(53)).chain([u32::MAX]) {
                let problem = weight.key().problem(m);
                let choice = table.lookup(&Request::new(problem, layout)).unwrap();
                assert_eq!(is_launchable(&choice.config, &problem, &device), Ok(()), "{problem}");
                let Some(row) = choice.row else { continue };
                let kernel = table.row(row).unwrap().kernel.map(|kernel| Config::parse(kernel.text).unwrap());
                let winner_runs =
                    kernel.is_some_and(|kernel| is_launchable(&kernel, &problem, &device).is_ok());
                let measured = format!("{}", choice.provenance);
                if !measured.starts_with("nearest") {
                    assert_eq!(choice.rank == 0, winner_runs, "{problem}");
                }
            }
        }
    }
}
