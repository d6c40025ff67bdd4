//! Parameter spaces and validity rules of the CPU families.
//!
//! Two shapes of loop nest over the same micro-kernels:
//! * **tiled**: any M. Blocks of `nc` columns, `kc` deep; the weight block is decoded on the way into the dot
//!   (`decode=fused`) or once into a scratch panel that all rows share (`decode=scratch`).
//! * **skinny**: M ≤ 32. Every weight is read once, decoded on the way; all rows ride along.

use crate::config::Config;
use crate::cpu::prior;
use crate::cpu::redundant::{kc_differs, mc_differs, nc_differs, path_differs, redundant, tile_m_differs};
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Domain, Family, Param, Reject};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::{Problem, named_enum};

/// Columns of one panel: the f32 lanes of a 512-bit register.
pub const PANEL: u32 = 16;
/// The most rows a skinny kernel takes.
pub const SKINNY_MAX_M: u32 = 32;

named_enum! {
    /// Numeric path: instruction set and arithmetic of the inner loop.
    Path {
        /// Plain Rust in f32, for any processor.
        Portable = "portable",
        /// 256-bit f32 FMA.
        Avx2 = "avx2",
        /// 512-bit f32 FMA.
        Avx512 = "avx512",
        /// `vdpbf16ps`: pairs of bf16 products accumulated in f32. Flushes bf16 subnormals to zero.
        Avx512Bf16 = "avx512_bf16",
        /// `vpdpbusd` on MXFP6 E2M3 codes widened to int8: exact products, for E2M3 activations and weights only.
        Avx512Vnni = "avx512_vnni",
    }
}

impl Path {
    /// Features the device must have.
    pub const fn caps(self) -> Caps {
        match self {
            Path::Portable => Caps::NONE,
            Path::Avx2 => Caps::AVX2,
            Path::Avx512 => Caps::AVX512.with(Caps::AVX512_VBMI),
            Path::Avx512Bf16 => Path::Avx512.caps().with(Caps::AVX512_BF16),
            Path::Avx512Vnni => Path::Avx512.caps().with(Caps::AVX512_VNNI),
        }
    }

    /// The path of general use that is probably the fastest a device has.
    pub const fn best(caps: Caps) -> Self {
        if caps.contains(Path::Avx512Bf16.caps().with(Caps::FULL_RATE_BF16)) {
            Path::Avx512Bf16
        } else if caps.contains(Path::Avx512.caps()) {
            Path::Avx512
        } else if caps.contains(Path::Avx2.caps()) {
            Path::Avx2
        } else {
            Path::Portable
        }
    }
}

const LAYOUTS: Param = Param {
    name: "layout",
    doc: "weight layout",
    domain: Domain::Names(&["row_major", "panel16", "panel16x2", "panel16x4"]),
};
const PATHS: Param = Param {
    name: "path",
    doc: "instruction set and arithmetic of the inner loop",
    domain: Domain::Names(&["portable", "avx2", "avx512", "avx512_bf16", "avx512_vnni"]),
};
const PREFETCH: Param = Param {
    name: "prefetch",
    doc: "software prefetch distance in bytes of weight; 0: none",
    domain: Domain::Numbers(&[0, 1024, 2048, 4096, 8192, 16384]),
};
const SPLIT_K: Param = Param {
    name: "split_k",
    doc: "parts of K computed independently and added in order",
    domain: Domain::Numbers(&[1, 2, 4, 8]),
};
const THREADS: Param = Param {
    name: "threads",
    doc: "threads",
    domain: Domain::Numbers(&[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]),
};
pub(super) const TILE_M: Param = Param {
    name: "tile_m",
    doc: "rows of the register tile",
    domain: Domain::Numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 10, 12]),
};
const TILE_N: Param =
    Param { name: "tile_n", doc: "columns of the register tile", domain: Domain::Numbers(&[16, 32, 64]) };

const TILED_PARAMS: &[Param] = &[
    Param {
        name: "decode",
        doc: "decode weights in the dot, or once into scratch",
        domain: Domain::Names(&["fused", "scratch"]),
    },
    Param {
        name: "kc",
        doc: "depth of a block along K; 0: all of K",
        domain: Domain::Numbers(&[0, 256, 512, 1024, 2048]),
    },
    LAYOUTS,
    Param { name: "mc", doc: "rows of a block; 0: all of M", domain: Domain::Numbers(&[0, 32, 96, 240]) },
    Param { name: "nc", doc: "columns of a block", domain: Domain::Numbers(&[64, 256, 1024]) },
    PATHS,
    PREFETCH,
    SPLIT_K,
    THREADS,
    TILE_M,
    TILE_N,
];

const SKINNY_PARAMS: &[Param] = &[LAYOUTS, PATHS, PREFETCH, SPLIT_K, THREADS, TILE_M, TILE_N];

/// A config's parameters as the CPU code reads them, for both shapes of loop nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Whether it is a config of a skinny family.
    pub skinny: bool,
    /// Whether weights are decoded into scratch before the dot.
    pub scratch: bool,
    /// Depth of a block along K; 0 means all of it.
    pub kc: u32,
    /// Weight layout.
    pub layout: Layout,
    /// Rows of a block; 0 means all of them.
    pub mc: u32,
    /// Columns of a block.
    pub nc: u32,
    /// Numeric path.
    pub path: Path,
    /// Software prefetch distance in bytes of weight; 0 means none.
    pub prefetch: u32,
    /// Parts of K.
    pub split_k: u32,
    /// Threads.
    pub threads: u32,
    /// Rows of the register tile.
    pub tile_m: u32,
    /// Columns of the register tile.
    pub tile_n: u32,
}

impl Tiling {
    /// Reads a config of a CPU family.
    pub fn of(config: &Config) -> Self {
        let v = config.values();
        let path = |stored: u32| Path::ALL[stored as usize];
        let layout = |stored: u32| Layout::ALL[stored as usize];
        if v.len() == SKINNY_PARAMS.len() {
            Tiling {
                skinny: true,
                scratch: false,
                kc: 0,
                layout: layout(v[0]),
                mc: 0,
                nc: v[6],
                path: path(v[1]),
                prefetch: v[2],
                split_k: v[3],
                threads: v[4],
                tile_m: v[5],
                tile_n: v[6],
            }
        } else {
            Tiling {
                skinny: false,
                scratch: v[0] == 1,
                kc: v[1],
                layout: layout(v[2]),
                mc: v[3],
                nc: v[4],
                path: path(v[5]),
                prefetch: v[6],
                split_k: v[7],
                threads: v[8],
                tile_m: v[9],
                tile_n: v[10],
            }
        }
    }
}

fn path_rules(path: Path, problem: &Problem, device: &Device) -> Result<(), Reject> {
    if !device.caps.contains(path.caps()) {
        return Err(Reject::param("path", "the processor lacks its instructions"));
    }
    let integers = matches!(problem.a, Format::MxFp6E2m3 | Format::MxInt8) && problem.b == Format::MxFp6E2m3;
    if path == Path::Avx512Vnni && !integers {
        return Err(Reject::param(
            "path",
            "the int8 dot is exact for E2M3 weights by E2M3 or INT8 activations only",
        ));
    }
    Ok(())
}

fn split_k_rules(split_k: u32, problem: &Problem) -> Result<(), Reject> {
    if split_k > 1 && problem.k / 32 < 4 * split_k {
        return Err(Reject::param("split_k", "fewer than four blocks of K in a part"));
    }
    Ok(())
}

fn common_rules(t: &Tiling, problem: &Problem, device: &Device) -> Result<(), Reject> {
    path_rules(t.path, problem, device)?;
    split_k_rules(t.split_k, problem)?;
    if problem.a.is_mx() && !problem.b.is_mx() {
        return Err(Reject::problem("block-scaled activations need block-scaled weights"));
    }
    if t.threads > device.units {
        return Err(Reject::param("threads", "more than the device has cores"));
    }
    if t.split_k > t.threads {
        return Err(Reject::param("split_k", "more parts than threads gains nothing"));
    }
    let accumulators = t.tile_m * t.tile_n / if t.path == Path::Avx2 { 8 } else { PANEL };
    let registers = match t.path {
        Path::Portable => 8,
        Path::Avx2 => 12,
        _ => 24,
    };
    if accumulators > registers {
        return Err(Reject::param("tile_m", "the register tile does not fit the registers"));
    }
    match t.layout.interleave() {
        Some(panels) if panels > 1 && t.tile_n != panels * PANEL => {
            Err(Reject::param("tile_n", "interleaved panels are read together"))
        }
        _ => Ok(()),
    }
}

fn tiled_rules(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    let t = Tiling::of(config);
    common_rules(&t, problem, device)?;
    if t.layout == Layout::RowMajor && !t.scratch {
        return Err(Reject::param("decode", "row-major weights are gathered into scratch"));
    }
    if t.layout != Layout::RowMajor && problem.b == Format::Bf16 && t.scratch {
        return Err(Reject::param("decode", "packed bf16 has nothing to decode"));
    }
    if t.scratch && t.prefetch != 0 {
        return Err(Reject::param("prefetch", "scratch is in cache"));
    }
    Ok(())
}

/// The rules over one parameter alone, of both families.
fn narrow(name: &str, value: u32, problem: &Problem, device: &Device) -> bool {
    match name {
        "kc" => kc_differs(value, problem),
        "mc" => mc_differs(value, problem),
        "nc" => nc_differs(value, problem),
        "path" => {
            let path = Path::ALL[value as usize];
            path_rules(path, problem, device).is_ok() && path_differs(path, device)
        }
        "split_k" => value <= device.units && split_k_rules(value, problem).is_ok(),
        "threads" => value <= device.units,
        "tile_m" => tile_m_differs(value, problem),
        _ => true,
    }
}

fn tiled_narrow(param: usize, value: u32, problem: &Problem, device: &Device) -> bool {
    narrow(TILED_PARAMS[param].name, value, problem, device)
}

fn skinny_narrow(param: usize, value: u32, problem: &Problem, device: &Device) -> bool {
    problem.m <= SKINNY_MAX_M && narrow(SKINNY_PARAMS[param].name, value, problem, device)
}

/// Every CPU kernel adds in an order that depends on its config alone, not on threads or timing.
fn deterministic(_: &Config) -> bool {
    true
}

fn skinny_rules(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    let t = Tiling::of(config);
    if problem.m > SKINNY_MAX_M {
        return Err(Reject::problem("skinny kernels take at most 32 rows"));
    }
    common_rules(&t, problem, device)
}

fn tiled_fallback(problem: &Problem, layout: Layout, device: &Device) -> Option<Config> {
    LAYOUTS.domain.position(layout as u32)?; // another backend's layouts come after the CPU's
    let family =
        FAMILIES.iter().find(|f| f.params.len() == TILED_PARAMS.len() && f.formats.contains(&problem.b))?;
    let path = Path::best(device.caps);
    let Domain::Numbers(threads) = THREADS.domain else { return None };
    let threads = threads.iter().copied().filter(|t| *t <= device.units).max().unwrap_or(1);
    let row_major = layout == Layout::RowMajor;
    let tile_n = layout.interleave().map_or(PANEL, |panels| panels * PANEL);
    let registers = match path {
        Path::Portable => 8,
        Path::Avx2 => 6,
        _ => 16,
    };
    let tile_m = (registers / (tile_n / PANEL)).clamp(1, 8).min(problem.m);
    let kc = if row_major && problem.k > 1024 { 1024 } else { 0 };
    let values = [row_major as u32, kc, layout as u32, 0, 64, path as u32, 0, 1, threads, tile_m, tile_n];
    Some(Config::from_values(family, &values))
}

fn no_fallback(_: &Problem, _: Layout, _: &Device) -> Option<Config> {
    None
}

const fn tiled(name: &'static str, summary: &'static str, formats: &'static [Format]) -> Family {
    Family {
        name,
        revision: 1,
        backend: BackendKind::Cpu,
        summary,
        formats,
        params: TILED_PARAMS,
        launchable: tiled_rules,
        fallback: tiled_fallback,
        redundant,
        narrow: tiled_narrow,
        deterministic,
        prior: prior::seconds,
    }
}

const fn skinny(name: &'static str, summary: &'static str, formats: &'static [Format]) -> Family {
    Family {
        params: SKINNY_PARAMS,
        launchable: skinny_rules,
        fallback: no_fallback,
        narrow: skinny_narrow,
        ..tiled(name, summary, formats)
    }
}

const FP8: &[Format] = &[Format::Fp8E4m3, Format::Fp8E4m3Fnuz, Format::Fp8E5m2];
const MXFP6: &[Format] = &[Format::MxFp6E2m3, Format::MxFp6E3m2];
const MXFP4: &[Format] = &[Format::MxFp4];
const MXFP8: &[Format] = &[Format::MxFp8];

/// The CPU families, by name.
pub static FAMILIES: &[&Family] = &[
    &skinny("cpu.skinny_bf16", "M ≤ 32 over bf16 weights", &[Format::Bf16]),
    &skinny("cpu.skinny_fp8", "M ≤ 32 over FP8 weights", FP8),
    &skinny("cpu.skinny_mxfp4", "M ≤ 32 over MXFP4 weights", MXFP4),
    &skinny("cpu.skinny_mxfp6", "M ≤ 32 over MXFP6 weights", MXFP6),
    &skinny("cpu.skinny_mxfp8", "M ≤ 32 over MXFP8 weights", MXFP8),
    &tiled("cpu.tiled_bf16", "any M over bf16 weights", &[Format::Bf16]),
    &tiled("cpu.tiled_fp8", "any M over FP8 weights", FP8),
    &tiled("cpu.tiled_mxfp4", "any M over MXFP4 weights", MXFP4),
    &tiled("cpu.tiled_mxfp6", "any M over MXFP6 weights", MXFP6),
    &tiled("cpu.tiled_mxfp8", "any M over MXFP8 weights", MXFP8),
];
