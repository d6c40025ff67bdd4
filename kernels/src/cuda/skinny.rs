//! The skinny families: M ≤ 64, limited by reading the weight. Parameters, rules and launch geometry of
//! `kernels/cuda/skinny.cu`, whose head has the picture of the tiles.
//!
//! The kernel multiplies in bf16, in which every element of every weight and activation format here is exact, so one
//! kernel takes any pair of them. A quantised activation is snapped by `kernels/cuda/quantise.cu` first.

use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Domain, Family, Param, Reject};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::Problem;

/// The most rows a skinny kernel takes.
pub const SKINNY_MAX_M: u32 = 64;
/// Rows of a panel of layout `mma64`.
pub const PANEL_ROWS: u32 = 16;
/// Rows of a slab of layout `mma64`, to which N is padded.
pub const SLAB_ROWS: u32 = 64;
/// K of a supertile of layout `mma64`, to which K is padded.
pub const SUPER_K: u32 = 128;

const PARAMS: &[Param] = &[
    Param {
        name: "ctas_per_sm",
        doc: "CTAs of one multiprocessor that registers and shared memory are kept free for",
        domain: Domain::Numbers(&[1, 2, 3, 4]),
    },
    Param { name: "layout", doc: "weight layout", domain: Domain::Names(&["mma64"]) },
    Param {
        name: "overlap",
        doc: "1: may fetch its first weights while the kernel before it still runs (programmatic dependent launch)",
        domain: Domain::Numbers(&[0, 1]),
    },
    Param {
        name: "row_panels",
        doc: "panels of 16 weight rows a warp multiplies with the same activations",
        domain: Domain::Numbers(&[1, 2, 4]),
    },
    Param {
        name: "split_k",
        doc: "parts of K on different CTAs; 0: stream-K, an even share of all work for each CTA that fits the device",
        domain: Domain::Numbers(&[0, 1, 2, 3, 4, 6, 8, 12, 16]),
    },
    Param {
        name: "stages",
        doc: "tiles in flight to shared memory",
        domain: Domain::Numbers(&[2, 3, 4, 6, 8, 12]),
    },
    Param { name: "tile_k", doc: "K of a tile", domain: Domain::Numbers(&[128, 256, 512, 1024]) },
    Param {
        name: "tile_m",
        doc: "tokens of a tile, at least M",
        domain: Domain::Numbers(&[8, 16, 24, 32, 48, 64]),
    },
    Param { name: "tile_n", doc: "weight rows of a tile", domain: Domain::Numbers(&[32, 64, 128]) },
    Param {
        name: "warps",
        doc: "warps that multiply; one more fetches",
        domain: Domain::Numbers(&[2, 4, 8]),
    },
];

/// Position of `tile_m` in [`PARAMS`].
const TILE_M: usize = 7;

/// Weight formats the kernel decodes, by its macro `WEIGHT`.
const WEIGHTS: &[Format] = &[Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3, Format::MxFp6E3m2];

/// A config of a skinny family on one problem: tile sizes, and all that a launch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skinny {
    /// CTAs a multiprocessor is to hold.
    pub ctas_per_sm: u32,
    /// Whether it may start while the kernel before it runs.
    pub overlap: bool,
    /// Panels of a warp.
    pub row_panels: u32,
    /// Parts of K; 0 is stream-K.
    pub split_k: u32,
    /// Stages of the ring.
    pub stages: u32,
    /// K of a tile.
    pub tile_k: u32,
    /// Tokens of a tile.
    pub tile_m: u32,
    /// Weight rows of a tile.
    pub tile_n: u32,
    /// Warps that multiply.
    pub warps: u32,
    /// The kernel's macro `WEIGHT`: the weight format's number.
    pub weight: u32,
}

impl Skinny {
    /// Reads a config of a skinny family, for a weight format that [`is_weight`] has.
    pub fn of(config: &Config, weight: Format) -> Self {
        let v = config.values();
        Skinny {
            ctas_per_sm: v[0],
            overlap: v[2] == 1,
            row_panels: v[3],
            split_k: v[4],
            stages: v[5],
            tile_k: v[6],
            tile_m: v[TILE_M],
            tile_n: v[8],
            warps: v[9],
            weight: WEIGHTS.iter().position(|f| *f == weight).unwrap_or(0) as u32,
        }
    }

    /// Bytes of 16 weight rows × 128 in layout `mma64`, scales included.
    pub const fn super_bytes(&self) -> u32 {
        match self.weight {
            0 => 4096,
            1 => 2048,
            _ => 1600,
        }
    }

    /// Warps side by side along N; 0 if a warp's panels exceed the tile.
    pub const fn warps_n(&self) -> u32 {
        self.tile_n / PANEL_ROWS / self.row_panels
    }

    /// Bytes of one stage: a tile of the activation and one of the weight.
    pub const fn stage_bytes(&self) -> u32 {
        let weight = self.tile_n / PANEL_ROWS * (self.tile_k / SUPER_K) * self.super_bytes();
        (self.tile_m * self.tile_k * 2 + weight).next_multiple_of(1024)
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub const fn shared_bytes(&self) -> u32 {
        let warps_k = self.warps / self.warps_n();
        self.stages * (self.stage_bytes() + 16) + 16 + (warps_k - 1) * self.tile_n * self.tile_m * 4
    }

    /// Registers a thread needs, an upper bound (held against the compiler's report by `ci/check_cuda.sh`).
    pub const fn registers(&self) -> u32 {
        let encoded = match self.weight {
            0 => 32,
            1 => 16,
            _ => 14,
        };
        let tokens = self.tile_m / 8;
        self.row_panels * (tokens * 4 + encoded) + tokens * 4 + 48
    }

    /// Threads of a CTA: the multiplying warps and the producer.
    pub const fn threads(&self) -> u32 {
        (self.warps + 1) * 32
    }

    /// Tiles along N.
    pub const fn tiles(&self, n: u32) -> u32 {
        n.div_ceil(self.tile_n)
    }

    /// Tiles along K.
    pub const fn chunks(&self, k: u32) -> u32 {
        k.div_ceil(self.tile_k)
    }

    /// CTAs of a launch.
    pub const fn grid(&self, problem: &Problem, device: &Device) -> u32 {
        let (tiles, chunks) = (self.tiles(problem.n) as u64, self.chunks(problem.k) as u64);
        let ctas = match self.split_k {
            0 => (device.units * self.ctas_per_sm) as u64,
            parts => tiles * parts as u64,
        };
        if ctas < tiles * chunks { ctas as u32 } else { (tiles * chunks) as u32 }
    }

    /// f32 values of workspace for tiles that several CTAs share; 0 where none is shared.
    pub const fn partial_floats(&self, problem: &Problem, device: &Device) -> usize {
        match self.split_k {
            1 => 0,
            _ => self.grid(problem, device) as usize * 2 * (self.tile_n * self.tile_m) as usize,
        }
    }

    fn rules(&self, problem: &Problem, device: &Device) -> Result<(), Reject> {
        if self.tile_m < problem.m {
            return Err(Reject::param("tile_m", "smaller than M"));
        }
        let warps_n = self.warps_n();
        if warps_n == 0 || !self.warps.is_multiple_of(warps_n) {
            return Err(Reject::param("row_panels", "the warps' panels do not make up the tile"));
        }
        if !(self.tile_k / SUPER_K).is_multiple_of(self.warps / warps_n) {
            return Err(Reject::param("warps", "more warps than the tile has steps along K"));
        }
        // A CTA takes 1 KiB of its own.
        if self.shared_bytes() + 1024 > device.l1_kib * 1024 / self.ctas_per_sm {
            return Err(Reject::param("stages", "the stages do not fit into shared memory"));
        }
        let available = (65536 / (self.threads() * self.ctas_per_sm) / 8 * 8).min(255);
        if self.registers() > available {
            return Err(Reject::param("ctas_per_sm", "the accumulators do not fit into registers"));
        }
        if self.split_k > self.chunks(problem.k) {
            return Err(Reject::param("split_k", "more parts than tiles along K"));
        }
        Ok(())
    }
}

/// Whether a skinny kernel decodes this weight format.
pub fn is_weight(format: Format) -> bool {
    WEIGHTS.contains(&format)
}

fn rules(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    if !device.caps.contains(Caps::SM_90A) {
        return Err(Reject::problem("the device is not a Hopper GPU (sm_90a)"));
    }
    if problem.m > SKINNY_MAX_M {
        return Err(Reject::problem("skinny kernels take at most 64 rows"));
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
    Skinny::of(config, problem.b).rules(problem, device)
}

/// A wider tile than M needs repeats the work of the narrowest that holds M; without stream-K, `ctas_per_sm` changes
/// nothing but the compiler's register limit.
fn redundant(config: &Config, problem: &Problem) -> bool {
    let s = Skinny::of(config, problem.b);
    let Domain::Numbers(widths) = PARAMS[TILE_M].domain else { return false };
    widths.iter().any(|w| *w < s.tile_m && *w >= problem.m)
        || (s.split_k != 0 && s.ctas_per_sm != 1)
        || (s.tile_n >= 2 * problem.n.next_multiple_of(PANEL_ROWS))
}

/// Parts of a shared tile are added in the order of K, whoever arrives last.
fn deterministic(_: &Config) -> bool {
    true
}

fn fallback(_: &Problem, _: Layout, _: &Device) -> Option<Config> {
    None
}

/// The busiest multiprocessor's bytes over its share of the memory's rate, which needs about 40 KB in flight, and the
/// latencies that do not overlap: launch, first bytes, and the reduction of shared tiles.
fn prior(config: &Config, problem: &Problem, device: &Device) -> f64 {
    let s = Skinny::of(config, problem.b);
    let units = f64::from(s.tiles(problem.n)) * f64::from(s.chunks(problem.k));
    let grid = f64::from(s.grid(problem, device));
    let fit = (f64::from(device.l1_kib) * 1024.0 / f64::from(s.shared_bytes() + 1024)) as u32;
    let resident = if s.split_k == 0 { s.ctas_per_sm } else { fit.clamp(1, 8) };
    let waves = ceil(grid / f64::from(device.units * resident)) * f64::from(resident);
    let busiest = (waves * units / grid).max(units / f64::from(device.units));
    let tile = f64::from(s.stage_bytes());
    let in_flight = tile * f64::from(s.stages * resident);
    let rate = 4.35e12 / f64::from(device.units) * (in_flight / 40e3).min(1.0);
    let shared = s.split_k != 1 && s.partial_floats(problem, device) > 0;
    busiest * tile / rate + if s.overlap { 1e-6 } else { 3e-6 } + if shared { 1e-6 } else { 0.0 }
}

fn ceil(v: f64) -> f64 {
    let whole = v as u64 as f64;
    if whole < v { whole + 1.0 } else { whole }
}

/// The skinny family of that name over these weight formats.
pub(super) const fn family(name: &'static str, summary: &'static str, formats: &'static [Format]) -> Family {
    Family {
        name,
        revision: 1,
        backend: BackendKind::Cuda,
        summary,
        formats,
        params: PARAMS,
        launchable: rules,
        fallback,
        redundant,
        deterministic,
        prior,
    }
}
