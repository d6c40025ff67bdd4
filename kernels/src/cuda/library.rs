//! cuBLASLt as a family: its algorithms are candidates like any kernel.
//!
//! A config is the library's own full description of an algorithm, number by number as `cublasLtMatmulAlgoConfigSet`
//! takes it, so that it means the same in every process; an index into what a heuristic returned would not. The library
//! is not asked by the predicate: an algorithm that the installed version refuses fails when it is launched, and the
//! caller takes the next. `choice=heuristic` leaves the algorithm to the library, at run time: what one gets from it
//! without tuning.
//!
//! The weight is row-major, codes and f32 scales as quantised: bf16 on bf16, or FP8 E4M3 on FP8 E4M3 with a scale for the
//! whole weight or for each channel, and one for each token. Reductions that add in the order of arrival are left out,
//! so every config repeats its bits.

use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Domain, Family, Param, Reject};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::{Epilogue, Problem};

/// Position of `choice` in the parameters. The others but the layout are numbers of the library.
pub const CHOICE: usize = 1;
/// The value of `choice` that leaves everything to the library.
pub const HEURISTIC: u32 = 0;
/// The value of `choice` with which the other parameters say which algorithm.
pub const FIXED: u32 = 1;

const fn upto<const N: usize>() -> [u32; N] {
    let mut numbers = [0; N];
    let mut i = 0;
    while i < N {
        numbers[i] = i as u32;
        i += 1;
    }
    numbers
}
static SMALL: [u32; 128] = upto();
static LARGE: [u32; 1024] = upto();

const fn number(name: &'static str, doc: &'static str, numbers: &'static [u32]) -> Param {
    Param { name, doc, domain: Domain::Numbers(numbers) }
}

static PARAMS: [Param; 11] = [
    number("algo", "the library's number of the algorithm (CUBLASLT_ALGO_CONFIG_ID)", &LARGE),
    Param {
        name: "choice",
        doc: "fixed: the algorithm described; heuristic: the library's own choice at run time",
        domain: Domain::Names(&["heuristic", "fixed"]),
    },
    number("cluster", "shape of the cluster (CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)", &SMALL),
    number("custom", "option of the algorithm (CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION)", &LARGE),
    number("inner", "shape of the instruction (CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID)", &SMALL),
    Param { name: "layout", doc: "weight layout", domain: Domain::Names(&["row_major"]) },
    number("reduction", "how parts of K are added (CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)", &[0, 2, 4]),
    number("split_k", "parts of K (CUBLASLT_ALGO_CONFIG_SPLITK_NUM)", &SMALL),
    number("stages", "stages of the pipeline (CUBLASLT_ALGO_CONFIG_STAGES_ID)", &SMALL),
    number("swizzle", "order of the tiles (CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING)", &SMALL),
    number("tile", "shape of the tile (CUBLASLT_ALGO_CONFIG_TILE_ID)", &LARGE),
];

/// The family.
pub static FAMILY: Family = Family {
    name: "cuda.cublaslt",
    revision: 1,
    backend: BackendKind::Cuda,
    summary: "cuBLASLt, by full description of its algorithms",
    formats: &[Format::Bf16, Format::Fp8E4m3],
    params: &PARAMS,
    launchable,
    fallback,
    redundant: |_, _, _| false,
    narrow,
    deterministic: |_| true,
    prior,
};

/// Whether a family is the library's.
pub fn is_library(family: &Family) -> bool {
    *family == FAMILY
}

fn launchable(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    if problem.a != problem.b {
        return Err(Reject::problem("the library multiplies bf16 by bf16 and FP8 by FP8"));
    }
    if problem.epilogue != Epilogue::None {
        return Err(Reject::problem("the library adds no f32 bias"));
    }
    if problem.b == Format::Fp8E4m3 {
        if !device.caps.contains(Caps::SM_90A) {
            return Err(Reject::problem("the device is not a Hopper GPU (sm_90a)"));
        }
        if !problem.k.is_multiple_of(16) || !problem.n.is_multiple_of(16) {
            return Err(Reject::problem("N and K must be multiples of 16 for the library's FP8"));
        }
    }
    if config.value(CHOICE) == FIXED && !(problem.k.is_multiple_of(8) && problem.n.is_multiple_of(8)) {
        return Err(Reject::problem("described algorithms take rows that begin at multiples of 16 bytes"));
    }
    let described = config.values().iter().enumerate().any(|(i, value)| i != CHOICE && *value != 0);
    if config.value(CHOICE) == HEURISTIC && described {
        return Err(Reject::param("choice", "an algorithm is described and left to the library at once"));
    }
    Ok(())
}

/// The library takes bf16 of any size, so a row-major bf16 weight always has a kernel.
fn fallback(problem: &Problem, layout: Layout, _: &Device) -> Option<Config> {
    (layout == Layout::RowMajor && FAMILY.formats.contains(&problem.b))
        .then(|| Config::from_values(&FAMILY, &[0; PARAMS.len()]))
}

/// The library's own choice is the one point that is enumerated; its algorithms are suggested by the backend.
fn narrow(_: usize, value: u32, problem: &Problem, _: &Device) -> bool {
    value == 0 && problem.a == problem.b
}

/// Reading the weight, or multiplying at three quarters of the tensor cores' rate, behind one launch.
fn prior(_: &Config, problem: &Problem, device: &Device) -> f64 {
    let bytes = f64::from(problem.n) * problem.b.row_bytes(problem.k as usize) as f64;
    let rate = if problem.b == Format::Bf16 { 5.6e12 } else { 11.2e12 } * f64::from(device.units);
    (bytes / 3.5e12).max(problem.flops() as f64 / rate) + 4e-6
}
