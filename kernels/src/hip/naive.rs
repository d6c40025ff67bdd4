//! `hip.naive`: every format, any M, N and K, from dense row-major weights. Simple and slow; it is launchable for every
//! legal problem but those with INT8 activations, which the CPU alone has, so dispatch always has an answer on an AMD
//! GPU, and faster kernels have a baseline.
//!
//! The kernel is `kernels/hip/naive.hip`: a wave for one row of B and `rows` rows of A, no LDS, no matrix instructions.

use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Domain, Family, Param, Reject};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::Problem;

const PARAMS: &[Param] = &[
    Param { name: "layout", doc: "weight layout", domain: Domain::Names(&["row_major"]) },
    Param {
        name: "rows",
        doc: "rows of A that a wave multiplies with one row of B",
        domain: Domain::Numbers(&[1, 2, 4, 8, 16]),
    },
    Param { name: "waves", doc: "waves of a workgroup", domain: Domain::Numbers(&[1, 2, 4, 8]) },
];
const ROWS: usize = 1;
const WAVES: usize = 2;

/// The family.
pub static NAIVE: Family = Family {
    name: "hip.naive",
    revision: 1,
    backend: BackendKind::Hip,
    summary: "any problem over row-major weights, without matrix instructions",
    formats: Format::WEIGHTS,
    params: PARAMS,
    launchable,
    fallback,
    redundant: |config, problem, _| !differs(config.value(ROWS), problem),
    narrow: |param, value, problem, _| param != ROWS || differs(value, problem),
    deterministic: |_| true,
    prior,
};

fn launchable(_: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    if problem.a == Format::MxInt8 {
        return Err(Reject::problem("INT8 activations are multiplied by CPU kernels only"));
    }
    if device.caps.contains(Caps::GFX942) || device.caps.contains(Caps::GFX950) {
        return Ok(());
    }
    Err(Reject::problem("the device is neither a gfx942 nor a gfx950"))
}

/// Whether it does something else than the config with half as many rows: more rows than twice M are mostly repeats
/// of the last one.
fn differs(rows: u32, problem: &Problem) -> bool {
    rows == 1 || rows < 2 * problem.m
}

fn fallback(problem: &Problem, layout: Layout, _: &Device) -> Option<Config> {
    let rows = [8, 4, 2].into_iter().find(|rows| *rows <= problem.m).unwrap_or(1);
    (layout == Layout::RowMajor).then(|| Config::from_values(&NAIVE, &[0, rows, 4]))
}

/// The larger of two times: the weight's bytes, read once for each group of rows, and the multiply-adds at one lane
/// each, both spread over as many waves as there are or fit.
fn prior(config: &Config, problem: &Problem, device: &Device) -> f64 {
    let (m, n, k) = (f64::from(problem.m), f64::from(problem.n), f64::from(problem.k));
    let groups = f64::from(problem.m.div_ceil(config.value(ROWS)));
    let busy = (n * groups / f64::from(device.units * 16)).min(1.0);
    let bytes = n * k * groups * problem.b.bits() as f64 / 8.0;
    let lanes = f64::from(device.units) * 256.0 * 2.1e9;
    // Decoding an element costs about as much as four multiplications with it.
    let issued = n * k * groups * (8.0 + 3.0 * f64::from(config.value(ROWS)));
    let small_groups = if config.value(WAVES) < 4 { 1.05 } else { 1.0 };
    small_groups * (bytes / 4e12).max(issued / lanes) / busy + m * n * 4.0 / 4e12 + 4e-6
}

#[cfg(feature = "std")]
pub use planned::{pack, plan};

#[cfg(feature = "std")]
mod planned {
    use super::*;
    use crate::format::minifloat::Special;
    use crate::format::quantize::Quantized;
    use crate::hip::launch::{Arg, Plan, Scratch, Source, Step};
    use crate::problem::{Epilogue, OutType, Scaling};

    /// Workgroups along one dimension of a grid; kernels loop over the rest.
    const MOST_GROUPS: u32 = 65535;
    const TEXT: &str = include_str!("../../hip/naive.hip");

    /// The launches of a config of this family.
    pub fn plan(config: &Config, problem: &Problem) -> Plan {
        let (rows, waves) = (config.value(ROWS), config.value(WAVES));
        let snapped = problem.a != Format::Bf16;
        let mut defines = [describe('A', problem.a), describe('B', problem.b)].concat();
        let scales = match problem.scaling {
            Scaling::Tensor => 1,
            Scaling::Channel => 2,
            Scaling::None | Scaling::Block32 => 0,
        };
        let own = [
            ("B_SCALES", scales),
            ("ROWS", rows),
            ("WAVES", waves),
            ("OUT_BF16", u32::from(problem.out == OutType::Bf16)),
            ("HAS_BIAS", u32::from(problem.epilogue == Epilogue::Bias)),
        ];
        defines.extend(own.map(|(name, value)| format!("{name}={value}")));
        let source = |entry| Source { file: "naive.hip", text: TEXT, entry, defines: defines.clone() };
        let (m, n, k) = (problem.m, problem.n, problem.k);
        let mut scratch = Vec::new();
        let mut steps = Vec::new();
        let (mut activation, mut activation_scales) = (Arg::Activation, Arg::Activation);
        if snapped {
            let elements = m as usize * k as usize;
            let scales = if problem.a.is_mx() { elements / 32 } else { m as usize * 4 };
            scratch = [elements * 4, scales].map(|bytes| Scratch { bytes, zeroed: false }).to_vec();
            (activation, activation_scales) = (Arg::Scratch(0), Arg::Scratch(1));
            let grid = m.min(MOST_GROUPS);
            let numbers = [m, k, grid].map(Arg::U32);
            steps.push(Step {
                source: source("snap"),
                grid: [grid, 1],
                threads: 64,
                lds_bytes: 0,
                args: [&[Arg::Activation, activation, activation_scales], &numbers[..]].concat(),
                packs_activation: true,
            });
        }
        let grid = [n.div_ceil(waves).min(MOST_GROUPS), m.div_ceil(rows).min(MOST_GROUPS)];
        let operands =
            [Arg::Weight(0), Arg::Weight(1), activation, activation_scales, Arg::Bias, Arg::Output];
        let row_bytes = problem.b.row_bytes(k as usize) as u32;
        let numbers = [m, n, k, row_bytes, grid[0], grid[1]].map(Arg::U32);
        steps.push(Step {
            source: source("gemm"),
            grid,
            threads: 64 * waves,
            lds_bytes: 0,
            args: [&operands[..], &numbers].concat(),
            packs_activation: false,
        });
        Plan { scratch, steps }
    }

    /// Codes as they are, and scales: f32 of FP8, E8M0 of MX, none of bf16.
    ///
    /// # Errors
    /// If the weight is rotated: the kernel does not rotate activations.
    pub fn pack(weight: &Quantized) -> Result<Vec<Vec<u8>>, Reject> {
        if weight.options.hadamard {
            return Err(Reject::problem("row-major HIP kernels do not take rotated weights"));
        }
        let scales = if weight.format.is_mx() {
            weight.block_scales.clone()
        } else {
            weight.scales.iter().flat_map(|s| s.to_le_bytes()).collect()
        };
        Ok(vec![weight.codes.clone(), scales])
    }

    /// The macros that describe a format.
    fn describe(operand: char, format: Format) -> Vec<String> {
        let codec = format.codec();
        let special = match codec.special {
            Special::Ieee => 0,
            Special::AllOnes => 1,
            Special::NegativeZero => 2,
            Special::None => 3,
            Special::Integer => unreachable!("the predicate refuses INT8"),
        };
        let values = [
            ("BITS", format.bits() as u32),
            ("EXPONENT", codec.exponent_bits),
            ("MANTISSA", codec.mantissa_bits),
            ("BIAS", codec.bias as u32),
            ("SPECIAL", special),
            ("BLOCKS", u32::from(format.is_mx())),
        ];
        values.map(|(name, value)| format!("{operand}_{name}={value}")).to_vec()
    }
}
