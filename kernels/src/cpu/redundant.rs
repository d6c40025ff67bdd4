//! Configs of a problem that do the work of another one, step for step: a search that kept both would measure everything
//! twice, and which of the two it names would be chance.
//!
//! What is merged is what `gemm` and `nest` make the same plan of: a tile of more rows than the problem has and the smallest
//! that covers them; a block that is not smaller than what it divides and no block; row blocks where a column block is a
//! single register tile, for then they change no order; a prefetch of weights that are gathered or read by portable code;
//! a path and the wider one of the same arithmetic; and a tiled config of one register tile a unit and its skinny twin,
//! which is kept. Left out as well, though nothing does quite the same: column blocks as wide as the whole weight, which
//! leave threads nothing to share. Redundant configs stay launchable: tables may name them.

use crate::config::Config;
use crate::cpu::families::{PANEL, Path, SKINNY_MAX_M, TILE_M, Tiling};
use crate::device::{Caps, Device};
use crate::family::Domain;
use crate::layout::Layout;
use crate::problem::Problem;

/// Elements of K in a block; `kc` counts whole ones.
const BLOCK: u32 = 32;
/// Rows of a unit of work that keeps sums between passes along K, at most (as `gemm` has it).
const PARTIAL_ROWS: u32 = 512;

/// Whether a launchable config does the same work as one that is not redundant.
pub(super) fn redundant(config: &Config, problem: &Problem, device: &Device) -> bool {
    let t = Tiling::of(config);
    !path_differs(t.path, device)
        || !tile_m_differs(t.tile_m, problem)
        || (t.prefetch != 0 && (t.layout == Layout::RowMajor || t.path == Path::Portable))
        || (!t.skinny && tiled_redundant(&t, problem))
}

fn tiled_redundant(t: &Tiling, problem: &Problem) -> bool {
    let one_tile = t.nc <= t.tile_n;
    let is_skinny = one_tile && !t.scratch && t.kc == 0 && problem.m <= t.tile_m && problem.m <= SKINNY_MAX_M;
    is_skinny
        || !nc_differs(t.nc, problem)
        || (t.kc != 0 && t.kc / BLOCK >= part_blocks(t, problem))
        || (t.mc != 0 && (one_tile || t.mc.next_multiple_of(t.tile_m) >= unit_rows(t, problem)))
}

/// Blocks along K of the largest part.
fn part_blocks(t: &Tiling, problem: &Problem) -> u32 {
    problem.k.div_ceil(BLOCK).div_ceil(t.split_k)
}

/// Rows of a unit of work.
fn unit_rows(t: &Tiling, problem: &Problem) -> u32 {
    let columns = problem.n.div_ceil(PANEL).div_ceil((t.nc / PANEL).max(t.tile_n / PANEL));
    let units = t.threads.div_ceil(columns.saturating_mul(t.split_k));
    let rows = problem.m.div_ceil(units).next_multiple_of(t.tile_m);
    let in_passes = t.kc != 0 && t.kc / BLOCK < part_blocks(t, problem);
    if in_passes { rows.min(PARTIAL_ROWS.next_multiple_of(t.tile_m)) } else { rows }
}

/// Portable, AVX2 and AVX-512 all multiply and add in f32, the wider ones more at a time.
pub(super) fn path_differs(path: Path, device: &Device) -> bool {
    let has = |caps: Caps| device.caps.contains(caps);
    match path {
        Path::Portable => !has(Path::Avx2.caps()) && !has(Path::Avx512.caps()),
        Path::Avx2 => !has(Path::Avx512.caps()),
        Path::Avx512 | Path::Avx512Bf16 | Path::Avx512Vnni => true,
    }
}

pub(super) fn tile_m_differs(tile_m: u32, problem: &Problem) -> bool {
    let Domain::Numbers(tiles) = TILE_M.domain else { return true };
    !tiles.iter().any(|smaller| *smaller < tile_m && *smaller >= problem.m)
}

/// Whatever the other parameters are.
pub(super) fn kc_differs(kc: u32, problem: &Problem) -> bool {
    kc < problem.k
}

/// Whatever the other parameters are.
pub(super) fn mc_differs(mc: u32, problem: &Problem) -> bool {
    mc < problem.m
}

pub(super) fn nc_differs(nc: u32, problem: &Problem) -> bool {
    nc <= 64 || nc / 64 < problem.n.div_ceil(64)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::collections::HashSet;

    use crate::backend::Backend;
    use crate::cpu::families::Tiling;
    use crate::cpu::gemm::Plan;
    use crate::cpu::{Cpu, FAMILIES, PANEL};
    use crate::family::is_launchable;
    use crate::layout::Layout;
    use crate::space::enumerate;
    use crate::{Config, Domain, Epilogue, Format, OutType, Problem, Scaling};

    /// All that `nest` does, in the order in which it does it.
    fn work(config: &Config, problem: &Problem) -> String {
        let t = Tiling::of(config);
        let plan = Plan::new(&t, problem).expect("this build has every register tile");
        let one_tile = plan.nc * PANEL as usize <= t.tile_n as usize;
        // Counted in row tiles: where there is one, it is no matter how many rows it could have.
        let unit = plan.unit_rows / plan.tile_m();
        let row_blocks = if one_tile { unit } else { unit.min(plan.mc / plan.tile_m()) };
        let reads_weights = t.layout != Layout::RowMajor && !t.scratch;
        let prefetch = if reads_weights && t.path != super::Path::Portable { t.prefetch } else { 0 };
        format!(
            "{:?} {:?} {} {} {} {} {} {} {} {} {:?}",
            plan.source,
            t.layout,
            plan.kc,
            plan.nc,
            row_blocks,
            unit,
            plan.parts,
            t.threads,
            t.tile_n,
            prefetch,
            // With several row tiles, or decoding, a skinny kernel's passes depend on sizes of the first-level cache.
            (t.path, plan.last_rows, plan.tile_rows(0), t.skinny && (plan.row_tiles() > 1 || plan.decodes())),
        )
    }

    #[test]
    fn what_is_merged_does_the_work_of_something_that_is_kept() {
        let device = *Cpu::detect().device();
        for (m, n, k) in [(1, 576, 576), (5, 96, 256), (100, 576, 1536)] {
            let problem = Problem {
                m,
                n,
                k,
                a: Format::Bf16,
                b: Format::MxFp6E2m3,
                scaling: Scaling::usual(Format::MxFp6E2m3),
                out: OutType::Bf16,
                epilogue: Epilogue::None,
            };
            let (mut kept, mut merged) = (HashSet::new(), Vec::new());
            for family in FAMILIES.iter().filter(|family| family.formats.contains(&problem.b)) {
                let known: HashSet<Config> = enumerate(family, &problem, &device).into_iter().collect();
                for config in &known {
                    assert!(kept.insert(work(config, &problem)), "{config} for {problem:?} is kept twice");
                }
                for config in every(family).into_iter().step_by(7) {
                    let t = Tiling::of(&config);
                    let is_merged =
                        is_launchable(&config, &problem, &device).is_ok() && !known.contains(&config);
                    let has_twin = super::path_differs(t.path, &device)
                        && (t.skinny || super::nc_differs(t.nc, &problem));
                    if is_merged && has_twin {
                        merged.push(config);
                    }
                }
            }
            for config in &merged {
                assert!(kept.contains(&work(config, &problem)), "{config} for {problem:?} is lost");
            }
            assert!(merged.len() > 100, "{} merged", merged.len());
        }
    }

    /// Every combination of two threads at most.
    fn every(family: &'static crate::Family) -> Vec<Config> {
        let mut all: Vec<Vec<u32>> = vec![Vec::new()];
        for param in family.params {
            let Domain::Numbers(_) = param.domain else {
                let count = param.domain.len();
                all = extended(&all, &(0..count).map(|p| param.domain.value(p)).collect::<Vec<_>>());
                continue;
            };
            let values: Vec<u32> = (0..param.domain.len()).map(|p| param.domain.value(p)).collect();
            let most = if param.name == "threads" { 2 } else { values.len() };
            let step = if param.name == "prefetch" { 5 } else { 1 };
            all = extended(&all, &values.into_iter().take(most).step_by(step).collect::<Vec<_>>());
        }
        all.into_iter().map(|values| Config::from_values(family, &values)).collect()
    }

    fn extended(all: &[Vec<u32>], values: &[u32]) -> Vec<Vec<u32>> {
        all.iter().flat_map(|one| values.iter().map(|value| [&one[..], &[*value]].concat())).collect()
    }
}
