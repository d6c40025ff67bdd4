//! Tiled GEMM, any M: the families of `kernels/hip/gemm.hip`, whose head has the picture.
//!
//! One kernel text multiplies every pair of formats that a matrix instruction takes; a family is a group of weight
//! formats. Operands lie in layout [`mfma16`](super::mfma16), which the skinny kernels share, so that a weight stored once
//! serves every M; the activation is packed by `kernels/hip/quantise.hip` first.
//!
//! | family | gfx942 | gfx950 |
//! |---|---|---|
//! | `hip.gemm_bf16` | 16x16x16, 32x32x8 | 16x16x32, 32x32x16 |
//! | `hip.gemm_fp8` | FNUZ 16x16x32, 32x32x16 | OCP 16x16x128, 32x32x64 |
//! | `hip.gemm_mxfp4`, `_mxfp6`, `_mxfp8` | | scaled 16x16x128, 32x32x64, any MX activation |
//!
//! `hip.gemm_mxfp6` reads AITER's layout [`c0c1`](super::c0c1) too, for engines that have such weights; a search leaves it
//! out, because its operands are not rotated.
//!
//! * [`tile`]: one config's tile, registers and LDS, and whether a device has them;
//! * [`plan`]: buffers and launches;
//! * [`prior`]: the estimate that orders candidates.
//!
//! Invariant: an element of D is one f32 chain over K in ascending order for a given instruction, so tile, stages,
//! order and persistence do not change its bits.

#[cfg(feature = "std")]
pub mod plan;
pub mod prior;
pub mod tile;

pub use tile::Tile;

use crate::config::Config;
use crate::device::Device;
use crate::family::{BackendKind, Domain, Family, Param};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::Problem;

const LAYOUT: Param = Param { name: "layout", doc: "weight layout", domain: Domain::Names(&["mfma16"]) };

const fn params(layout: Param) -> [Param; 15] {
    [
        Param {
            name: "fragments",
            doc: "operands read from LDS: all of a step first, or A's one block ahead of the products",
            domain: Domain::Names(&["all", "streamed"]),
        },
        Param {
            name: "group_m",
            doc: "tiles along M that are worked on before the next along N",
            domain: Domain::Numbers(&[1, 4, 8, 32]),
        },
        Param {
            name: "groups_per_cu",
            doc: "workgroups of one compute unit that registers and LDS are kept free for",
            domain: Domain::Numbers(&[1, 2]),
        },
        layout,
        Param { name: "mfma", doc: "rows of the matrix instruction", domain: Domain::Numbers(&[16, 32]) },
        Param {
            name: "order",
            doc: "which tiles an XCD works on: every eighth, or neighbours",
            domain: Domain::Names(&["linear", "xcd"]),
        },
        Param {
            name: "persistent",
            doc: "1: as many workgroups as the device holds, each multiplying tile after tile",
            domain: Domain::Numbers(&[0, 1]),
        },
        Param {
            name: "priority",
            doc: "1: a wave that multiplies goes before one that fetches",
            domain: Domain::Numbers(&[0, 1]),
        },
        Param { name: "stages", doc: "tiles along K in LDS", domain: Domain::Numbers(&[1, 2, 3, 4, 5, 6]) },
        Param {
            name: "store",
            doc: "how D is stored: as usual, or not to be kept in caches (nt)",
            domain: Domain::Names(&["cached", "nt"]),
        },
        Param { name: "tile_k", doc: "K of a stage", domain: Domain::Numbers(&[32, 64, 128, 256]) },
        Param { name: "tile_m", doc: "tokens of a tile", domain: Domain::Numbers(&[64, 128, 256, 512]) },
        Param { name: "tile_n", doc: "weight rows of a tile", domain: Domain::Numbers(&[64, 128, 256, 512]) },
        Param { name: "waves_m", doc: "waves along M", domain: Domain::Numbers(&[1, 2, 4]) },
        Param { name: "waves_n", doc: "waves along N", domain: Domain::Numbers(&[1, 2, 4]) },
    ]
}

static PARAMS: [Param; 15] = params(LAYOUT);
static PARAMS_MXFP6: [Param; 15] = params(Param { domain: Domain::Names(&["mfma16", "c0c1"]), ..LAYOUT });

/// Position of `layout` in the parameters.
const LAYOUT_AT: usize = 3;

/// Whether a family is one of these.
pub fn is_gemm(family: &Family) -> bool {
    family.name.starts_with("hip.gemm_")
}

/// A config only repeats another's work if its layout holds what a search has no operands for (AITER's is rotated), its tile is mostly padding, or if a parameter has nothing to act on.
fn redundant(config: &Config, problem: &Problem, device: &Device) -> bool {
    let t = Tile::of(config, problem);
    let tiles_m = problem.m.div_ceil(t.tile_m);
    let tiles = t.tiles(problem);
    t.c0c1
        || !fits(t.tile_m, problem.m)
        || !fits(t.tile_n, problem.n)
        || (t.stages > 2 && (t.stages - 1) * t.tile_k >= 2 * problem.k)
        || (t.group_m > 1 && t.group_m >= 2 * tiles_m)
        || (t.persistent && tiles <= device.units * t.groups_per_cu)
        || (t.xcd && tiles <= tile::XCDS)
        || (t.streamed && t.tile_m / t.waves_m <= t.mfma)
}

/// Whether a tile is not mostly padding.
fn fits(tile: u32, rows: u32) -> bool {
    tile < 2 * rows.next_multiple_of(super::mfma16::SLAB_ROWS as u32)
}

fn narrow(param: usize, value: u32, problem: &Problem, device: &Device) -> bool {
    if tile::takes(problem, device).is_err() {
        return false;
    }
    match PARAMS[param].name {
        "layout" => value == 0,
        "tile_m" => fits(value, problem.m),
        "tile_n" => fits(value, problem.n),
        "tile_k" => tile::tile_k_rules(value, problem, device).is_ok(),
        "stages" => tile::stage_rules(value, device).is_ok(),
        "group_m" => value == 1 || value < 2 * problem.m.div_ceil(64),
        _ => true,
    }
}

/// The smallest tile, which every device has the registers and LDS for.
fn fallback(problem: &Problem, layout: Layout, device: &Device) -> Option<Config> {
    let family = super::FAMILIES.iter().find(|f| is_gemm(f) && f.formats.contains(&problem.b))?;
    let Domain::Names(layouts) = family.params[LAYOUT_AT].domain else { return None };
    let layout = layouts.iter().position(|name| *name == layout.name())? as u32;
    let large = problem.m > 64 && problem.n > 64;
    // Of a small tile of mixed formats four waves would copy different numbers of pieces.
    let (tile_m, tile_n, waves_n) = if large { (128, 128, 2) } else { (64, 64, 1) };
    let tile_k = if problem.a == Format::Bf16 { 64 } else { 128 };
    let direct = device.caps.contains(crate::device::Caps::GFX950);
    let values =
        [0, 4, 1, layout, 16, 1, 0, 1, if direct { 3 } else { 1 }, 0, tile_k, tile_m, tile_n, 2, waves_n];
    Some(Config::from_values(family, &values))
}

const fn family(name: &'static str, summary: &'static str, formats: &'static [Format]) -> Family {
    Family {
        name,
        revision: 1,
        backend: BackendKind::Hip,
        summary,
        formats,
        params: &PARAMS,
        launchable: tile::launchable,
        fallback,
        redundant,
        narrow,
        deterministic: |_| true,
        prior: prior::seconds,
    }
}

/// `hip.gemm_bf16`.
pub static BF16: Family = family("hip.gemm_bf16", "any M over bf16 weights", &[Format::Bf16]);
/// `hip.gemm_fp8`: OCP on gfx950, FNUZ on gfx942; a factor per token, and per channel or tensor.
pub static FP8: Family = family(
    "hip.gemm_fp8",
    "any M over FP8 weights",
    &[Format::Fp8E4m3, Format::Fp8E4m3Fnuz, Format::Fp8E5m2],
);
/// `hip.gemm_mxfp4`: gfx950.
pub static MXFP4: Family =
    family("hip.gemm_mxfp4", "any M over MXFP4 weights, block-scaled instructions", &[Format::MxFp4]);
/// `hip.gemm_mxfp6`: gfx950; also over E2M3 weights that ROCm's AITER packed.
pub static MXFP6: Family = Family {
    params: &PARAMS_MXFP6,
    ..family(
        "hip.gemm_mxfp6",
        "any M over MXFP6 weights, block-scaled instructions",
        &[Format::MxFp6E2m3, Format::MxFp6E3m2],
    )
};
/// `hip.gemm_mxfp8`: gfx950.
pub static MXFP8: Family =
    family("hip.gemm_mxfp8", "any M over MXFP8 weights, block-scaled instructions", &[Format::MxFp8]);
