//! Skinny GEMM, M ≤ 32: the families of `kernels/hip/skinny.hip`, whose head has the picture.
//!
//! The time is that of reading the weight once. Waves stream it into registers, or producers bring it to a queue in
//! LDS for consumers; K is split over workgroups until every compute unit reads. For up to eight rows of FP8 a *sparse*
//! matrix instruction multiplies dense data in half the time of a dense one that is half padding (the 4:2 trick of
//! huggingface/hf-rocm-kernels, csrc/op_src/skinny_gemm).
//!
//! * [`shape`]: one config's tile, registers and LDS, and whether a device has them;
//! * [`plan`]: buffers and launches;
//! * [`prior`]: the estimate that orders candidates.
//!
//! Operands lie in layout [`mfma16`](super::mfma16), which the tiled kernels share. An activation in bf16 is read where
//! it lies if its rows begin at multiples of 16 bytes (K a multiple of 8); any other is packed first.

#[cfg(feature = "std")]
pub mod plan;
pub mod prior;
pub mod shape;

pub use shape::{Form, Reduce, Shape};

use crate::config::Config;
use crate::device::Device;
use crate::family::{BackendKind, Domain, Family, Param};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::Problem;

/// The most rows a skinny kernel takes.
pub const MAX_M: u32 = 32;

const PARAMS: &[Param] = &[
    Param {
        name: "cache",
        doc: "how the weight is loaded: cached, not to be kept (nt), or past the caches (sc0 sc1 nt)",
        domain: Domain::Names(&["cached", "nt", "bypass"]),
    },
    Param {
        name: "depth",
        doc: "steps of 128 along K that a wave has in flight; with producers, slots of the queue",
        domain: Domain::Numbers(&[2, 3, 4, 6, 8]),
    },
    Param {
        name: "form",
        doc: "matrix instruction: sparse for 8 rows (K 64 or 128), dense for 16 or 32",
        domain: Domain::Names(&["sparse8", "sparse8_k128", "dense16", "dense32"]),
    },
    Param { name: "layout", doc: "weight layout", domain: Domain::Names(&["mfma16"]) },
    Param {
        name: "panels",
        doc: "panels of 16 weight rows of a workgroup",
        domain: Domain::Numbers(&[1, 2, 4]),
    },
    Param {
        name: "producers",
        doc: "waves that bring operands to a queue in LDS; 0: every wave streams into its registers",
        domain: Domain::Numbers(&[0, 2, 4, 6, 8]),
    },
    Param {
        name: "reduce",
        doc: "how parts of K are added: f32 atomics, in order by the last workgroup, in order by a second kernel",
        domain: Domain::Names(&["atomic", "last", "second_pass"]),
    },
    Param {
        name: "split_k",
        doc: "parts of K on different workgroups",
        domain: Domain::Numbers(&[1, 2, 3, 4, 6, 8, 12, 16]),
    },
    Param {
        name: "steps",
        doc: "steps of 128 along K of a slot; 1 without producers",
        domain: Domain::Numbers(&[1, 2, 4]),
    },
    Param {
        name: "waves",
        doc: "waves that multiply, each its own steps of K",
        domain: Domain::Numbers(&[1, 2, 3, 4, 8]),
    },
];

/// Workgroups for each compute unit beyond which K is not split further: half as many parts keep every unit as busy.
const MOST_GROUPS: u32 = 16;

/// A config repeats another's work if its tile is mostly padding, if a parameter has nothing to act on (waves, ring or slots
/// beyond the steps there are, waves that wait for too few others), or if fewer parts of K fill the device as well.
fn redundant(config: &Config, problem: &Problem, device: &Device) -> bool {
    let s = Shape::of(config, problem);
    let steps = problem.k.div_ceil(super::mfma16::STEP_K as u32) / s.split_k;
    (s.split_k == 1 && s.reduce != Reduce::Atomic)
        || (s.split_k > 1 && s.tiles(problem.n) * s.split_k > MOST_GROUPS * device.units)
        || s.waves > steps
        || s.tile_n() >= 2 * problem.n.next_multiple_of(16)
        || (s.producers == 0 && s.depth > 2 && s.waves * (s.depth - 1) >= steps)
        || (s.producers > 0
            && (s.producers * s.steps > steps
                || s.waves >= s.producers
                || s.depth < s.producers / 2
                || s.depth > s.producers + s.waves))
        || !form_differs(s.form as u32, problem)
}

/// Whether no narrower form of the same kind holds M.
fn form_differs(form: u32, problem: &Problem) -> bool {
    form != Form::Dense32 as u32 || problem.m > 16
}

fn narrow(param: usize, value: u32, problem: &Problem, device: &Device) -> bool {
    if !shape::takes(problem, device) {
        return false;
    }
    match PARAMS[param].name {
        "form" => shape::form_rules(Form::of(value), problem, device).is_ok() && form_differs(value, problem),
        "split_k" => value <= problem.k.div_ceil(super::mfma16::STEP_K as u32),
        _ => true,
    }
}

fn deterministic(config: &Config) -> bool {
    shape::reduce_of(config) != Reduce::Atomic || shape::split_k_of(config) == 1
}

/// No config takes every M.
fn no_fallback(_: &Problem, _: Layout, _: &Device) -> Option<Config> {
    None
}

const fn family(name: &'static str, summary: &'static str, formats: &'static [Format]) -> Family {
    Family {
        name,
        revision: 1,
        backend: BackendKind::Hip,
        summary,
        formats,
        params: PARAMS,
        launchable: shape::launchable,
        fallback: no_fallback,
        redundant,
        narrow,
        deterministic,
        prior: prior::seconds,
    }
}

/// Whether a family is one of these.
pub fn is_skinny(family: &Family) -> bool {
    family.name.starts_with("hip.skinny_")
}

/// `hip.skinny_bf16`.
pub static BF16: Family = family("hip.skinny_bf16", "M ≤ 32 over bf16 weights", &[Format::Bf16]);
/// `hip.skinny_fp8`: OCP on gfx950, FNUZ on gfx942.
pub static FP8: Family = family(
    "hip.skinny_fp8",
    "M ≤ 32 over FP8 E4M3 weights, up to 8 rows by sparse instructions",
    &[Format::Fp8E4m3, Format::Fp8E4m3Fnuz],
);
/// `hip.skinny_mxfp6`: gfx950 only; the activation in any MX format.
pub static MXFP6: Family = family(
    "hip.skinny_mxfp6",
    "M ≤ 32 over MXFP6 weights, block-scaled instructions",
    &[Format::MxFp6E2m3, Format::MxFp6E3m2],
);
