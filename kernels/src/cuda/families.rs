//! Parameters, rules and launch geometry of `kernels/cuda/gemm.cu`, whose head has the picture of the tiles.
//!
//! * **skinny**: M ≤ 64, one tile along M. Limited by reading the weight.
//! * **tiled**: any M. Tiles of up to 256 tokens, multiplied by warpgroups.
//!
//! The kernel multiplies in bf16, in which every element of every weight and activation format here is exact, so one
//! kernel takes any pair of them. A quantised activation is snapped by `kernels/cuda/quantise.cu` first.

pub use super::tiling::{PANEL_ROWS, SLAB_ROWS, SUPER_K, Tiling, is_weight};
use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Domain, Family, Param, Reject};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::Problem;

/// The most rows a skinny kernel takes.
pub const SKINNY_MAX_M: u32 = 64;
const CTAS_PER_SM: Param = Param {
    name: "ctas_per_sm",
    doc: "CTAs of one multiprocessor that registers and shared memory are kept free for",
    domain: Domain::Numbers(&[1, 2, 3, 4]),
};
const LAYOUT: Param = Param { name: "layout", doc: "weight layout", domain: Domain::Names(&["mma64"]) };
const MMA: Param = Param {
    name: "mma",
    doc: "tensor-core instructions: mma.sync of a warp, or wgmma of four",
    domain: Domain::Names(&["warp", "warpgroup"]),
};
const OVERLAP: Param = Param {
    name: "overlap",
    doc: "1: may fetch its first weights while the kernel before it still runs (programmatic dependent launch)",
    domain: Domain::Numbers(&[0, 1]),
};
const ROW_PANELS: Param = Param {
    name: "row_panels",
    doc: "panels of 16 weight rows a warp multiplies with the same activations",
    domain: Domain::Numbers(&[1, 2, 4]),
};
const SPLIT_K: Param = Param {
    name: "split_k",
    doc: "parts of K on different CTAs; 0: stream-K, an even share of all work for each CTA that fits the device",
    domain: Domain::Numbers(&[0, 1, 2, 3, 4, 6, 8, 12, 16]),
};
const STAGES: Param = Param {
    name: "stages",
    doc: "tiles in flight to shared memory",
    domain: Domain::Numbers(&[2, 3, 4, 6, 8]),
};
const TILE_K: Param =
    Param { name: "tile_k", doc: "K of a tile", domain: Domain::Numbers(&[128, 256, 512, 1024]) };

const SKINNY: &[Param] = &[
    CTAS_PER_SM,
    LAYOUT,
    MMA,
    OVERLAP,
    ROW_PANELS,
    SPLIT_K,
    STAGES,
    TILE_K,
    Param {
        name: "tile_m",
        doc: "tokens of a tile, at least M",
        domain: Domain::Numbers(&[8, 16, 24, 32, 48, 64]),
    },
    Param { name: "tile_n", doc: "weight rows of a tile", domain: Domain::Numbers(&[32, 64, 128, 256]) },
    Param {
        name: "warps",
        doc: "warps that multiply; one more fetches",
        domain: Domain::Numbers(&[4, 8, 16]),
    },
];

const TILED: &[Param] = &[
    Param { domain: Domain::Numbers(&[1, 2]), ..CTAS_PER_SM },
    LAYOUT,
    MMA,
    OVERLAP,
    Param { domain: Domain::Numbers(&[1, 2]), ..ROW_PANELS },
    Param { domain: Domain::Numbers(&[0, 1, 2, 4]), ..SPLIT_K },
    Param { domain: Domain::Numbers(&[2, 3, 4, 6]), ..STAGES },
    Param { domain: Domain::Numbers(&[128, 256]), ..TILE_K },
    Param { name: "tile_m", doc: "tokens of a tile", domain: Domain::Numbers(&[32, 64, 128, 192, 256]) },
    Param { name: "tile_n", doc: "weight rows of a tile", domain: Domain::Numbers(&[64, 128, 256]) },
    Param {
        name: "warps",
        doc: "warps that multiply; one more fetches",
        domain: Domain::Numbers(&[4, 8, 16]),
    },
];

/// Position of `tile_m` in both lists.
pub(super) const TILE_M: usize = 8;

/// Whether a family is one of `gemm.cu`.
pub fn is_gemm(family: &Family) -> bool {
    family.name.starts_with("cuda.skinny_") || family.name.starts_with("cuda.tiled_")
}

fn tiled_rules(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    if !device.caps.contains(Caps::SM_90A) {
        return Err(Reject::problem("the device is not a Hopper GPU (sm_90a)"));
    }
    if !problem.k.is_multiple_of(8) {
        return Err(Reject::problem(
            "K must be a multiple of 8: rows of the activation begin at multiples of 16 bytes",
        ));
    }
    let exact = [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3, Format::MxFp6E3m2];
    if !exact.contains(&problem.a) {
        return Err(Reject::problem("the activation's format is not one of bf16, fp8_e4m3 and mxfp6"));
    }
    Tiling::of(config, problem.b).rules(problem, device)
}

fn skinny_rules(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    if problem.m > SKINNY_MAX_M {
        return Err(Reject::problem("skinny kernels take at most 64 rows"));
    }
    if Tiling::of(config, problem.b).tile_m < problem.m {
        return Err(Reject::param("tile_m", "smaller than M"));
    }
    tiled_rules(config, problem, device)
}

/// A quantised activation is multiplied in bf16 all the same, so that quantising it only adds to the time. Without
/// stream-K, `ctas_per_sm` changes nothing but the compiler's register limit. A tile twice as wide or as long as the
/// problem is mostly padding.
fn redundant(config: &Config, problem: &Problem) -> bool {
    let s = Tiling::of(config, problem.b);
    problem.a != Format::Bf16
        || (s.split_k != 0 && s.ctas_per_sm != 1)
        || s.tile_n >= 2 * problem.n.next_multiple_of(SLAB_ROWS)
        || (s.tile_k > SUPER_K && s.tile_k >= 2 * problem.k.next_multiple_of(SUPER_K))
}

/// A wider tile than M needs repeats the work of the narrowest that holds M.
fn skinny_tile_differs(tile_m: u32, problem: &Problem) -> bool {
    let Domain::Numbers(widths) = SKINNY[TILE_M].domain else { return true };
    !widths.iter().any(|w| *w < tile_m && *w >= problem.m)
}

/// A tile twice as long as M is mostly padding.
fn tiled_tile_differs(tile_m: u32, problem: &Problem) -> bool {
    tile_m <= 32 || tile_m < 2 * problem.m.next_multiple_of(16)
}

fn skinny_redundant(config: &Config, problem: &Problem, _: &Device) -> bool {
    !skinny_tile_differs(config.value(TILE_M), problem) || redundant(config, problem)
}

fn tiled_redundant(config: &Config, problem: &Problem, _: &Device) -> bool {
    !tiled_tile_differs(config.value(TILE_M), problem) || redundant(config, problem)
}

fn skinny_narrow(param: usize, value: u32, problem: &Problem, device: &Device) -> bool {
    problem.a == Format::Bf16
        && device.caps.contains(Caps::SM_90A)
        && problem.m <= SKINNY_MAX_M
        && (param != TILE_M || (value >= problem.m && skinny_tile_differs(value, problem)))
}

fn tiled_narrow(param: usize, value: u32, problem: &Problem, device: &Device) -> bool {
    problem.a == Format::Bf16
        && device.caps.contains(Caps::SM_90A)
        && (param != TILE_M || tiled_tile_differs(value, problem))
}

/// Parts of a shared tile are added in the order of K, whoever arrives last.
fn deterministic(_: &Config) -> bool {
    true
}

fn no_fallback(_: &Problem, _: Layout, _: &Device) -> Option<Config> {
    None
}

/// Small enough for every weight format's registers and shared memory, at any M.
fn tiled_fallback(problem: &Problem, layout: Layout, _: &Device) -> Option<Config> {
    if layout != Layout::Mma64 {
        return None;
    }
    let family = super::FAMILIES
        .iter()
        .find(|f| f.name.starts_with("cuda.tiled_") && f.formats.contains(&problem.b))?;
    let tile_m = if problem.m <= 32 {
        32
    } else if problem.m <= 64 {
        64
    } else {
        128
    };
    Some(Config::from_values(family, &[1, 0, 1, 0, 1, 1, 3, 128, tile_m, 64, 4]))
}

/// The longest of three times on the busiest multiprocessor, and the latencies that do not overlap (launch, first
/// bytes, the reduction of shared tiles):
/// * memory: its tiles over its share of the rate, which needs about 40 KB in flight;
/// * issue: instructions that decode and multiply, issued at a rate that grows with the warps of a scheduler;
/// * tensor cores: multiply-adds at the instruction's rate.
fn prior(config: &Config, problem: &Problem, device: &Device) -> f64 {
    const CLOCK: f64 = 1.75e9;
    let s = Tiling::of(config, problem.b);
    let sms = f64::from(device.units);
    let units = f64::from(s.tiles(problem)) * f64::from(s.chunks(problem.k));
    let grid = f64::from(s.grid(problem, device));
    let per_sm = ceil(grid / sms);
    let fit = (device.l1_kib * 1024 / (s.shared_bytes() + 1024)).min(2048 / s.threads()).clamp(1, 8);
    let resident = per_sm.min(f64::from(if s.split_k == 0 { s.ctas_per_sm } else { fit }));
    let busiest = per_sm * units / grid;
    let tile = f64::from(s.stage_bytes());
    let in_flight = tile * f64::from(s.stages) * resident;
    let memory = busiest * tile / (4.35e12 / sms * (in_flight / 40e3).min(1.0));
    let fragments = f64::from(s.tile_n / 16 * (s.tile_k / 32));
    let decode = [4.0, 32.0, 50.0, 54.0][s.weight as usize];
    let tokens = f64::from(s.tile_m / 8);
    let multiply = if s.warpgroup { 8.0 } else { 2.0 * tokens + tokens / f64::from(s.row_panels) };
    let warps = resident * f64::from(s.warps) / 4.0;
    let issue = busiest * fragments * (decode + multiply + 4.0) / 4.0 / (0.27 * warps).min(0.85) / CLOCK;
    let rate = if s.warpgroup { 1900.0 } else { 1100.0 };
    let tensor = busiest * fragments * (16.0 * 32.0 * 8.0) * tokens / rate / CLOCK;
    let shared = s.split_k != 1 && s.partial_floats(problem, device) > 0;
    let latency = if s.overlap { 2e-6 } else { 3.5e-6 } + if shared { 1e-6 } else { 0.0 };
    memory.max(issue).max(tensor) + latency
}

fn ceil(v: f64) -> f64 {
    let whole = v as u64 as f64;
    if whole < v { whole + 1.0 } else { whole }
}

/// The tiled family of that name over these weight formats.
pub(super) const fn tiled(name: &'static str, summary: &'static str, formats: &'static [Format]) -> Family {
    Family {
        name,
        revision: 1,
        backend: BackendKind::Cuda,
        summary,
        formats,
        params: TILED,
        launchable: tiled_rules,
        fallback: tiled_fallback,
        redundant: tiled_redundant,
        narrow: tiled_narrow,
        deterministic,
        prior,
    }
}

/// The skinny family of that name over these weight formats.
pub(super) const fn skinny(name: &'static str, summary: &'static str, formats: &'static [Format]) -> Family {
    Family {
        params: SKINNY,
        launchable: skinny_rules,
        fallback: no_fallback,
        redundant: skinny_redundant,
        narrow: skinny_narrow,
        ..tiled(name, summary, formats)
    }
}
