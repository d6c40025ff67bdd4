//! A plan carried out on the emulator, for its traffic: what the instructions asked for, and what of it caches had.
//!
//! The emulator runs every lane of every workgroup, so large problems are made smaller first: N and M to a few
//! thousand, then K, as long as the config is launchable. Traffic of a workgroup and step along K does not depend on
//! that; what a cache holds across the whole launch does.

use anyhow::Context;
use tilewright_emulator::{Arg as Value, CodeObject, Grid, Memory, Options, Report};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::hip;
use tilewright_kernels::hip::launch::{Arg, Plan, Step};
use tilewright_kernels::{Config, OutType, Problem, is_launchable};

use super::caches::{self, Reuse};
use super::machine::Machine;

/// One step's figures.
#[derive(Debug)]
pub struct StepRun {
    /// Workgroups.
    pub groups: u64,
    /// Instructions and traffic.
    pub report: Report,
    /// Caches.
    pub reuse: Reuse,
}

/// Most of M and N that is emulated.
const MOST: u32 = 4096;
/// Most multiply-adds, and elements of the weight, that are emulated.
const MULTIPLY_ADDS: u64 = 1 << 33;
const WEIGHT: u64 = 1 << 24;

/// A problem small enough to be emulated on which the config still runs.
pub fn reduced(config: &Config, problem: &Problem, machine: &Machine) -> Problem {
    let (m, n) = (problem.m.min(MOST), problem.n.min(MOST));
    let depth = (MULTIPLY_ADDS / (u64::from(m) * u64::from(n))).min(WEIGHT / u64::from(n)) as u32;
    let mut smaller = Problem { m, n, k: problem.k.min(depth.max(512) / 128 * 128), ..*problem };
    while is_launchable(config, &smaller, &machine.device).is_err() && smaller.k < problem.k {
        smaller.k = (2 * smaller.k).min(problem.k);
    }
    smaller
}

/// Carries a plan out with operands of zeros: neither the instructions nor the addresses depend on the data. `objects`
/// and `resident` (workgroups of a compute unit) are the steps'.
///
/// # Errors
/// If the weight cannot be packed, or the emulator reports a fault.
pub fn emulate(
    config: &Config,
    problem: &Problem,
    plan: &Plan,
    machine: &Machine,
    objects: &[CodeObject],
    resident: &[u32],
) -> anyhow::Result<Vec<StepRun>> {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|d| d as usize);
    let rotated = config.layout() == tilewright_kernels::Layout::C0c1;
    let options = QuantizeOptions { hadamard: rotated, ..QuantizeOptions::default() };
    let weight = Quantized::quantize(&vec![0.0; n * k], n, k, problem.b, problem.scaling, &options)?;
    let parts = hip::pack(&weight, config.layout()).map_err(|reject| anyhow::anyhow!("{reject}"))?;

    let mut memory = Memory::new();
    let activation = memory.alloc("activation", 2 * m * k, 0);
    let weights: Vec<u64> = parts.iter().map(|part| memory.alloc_from("weight", part)).collect();
    let bias = memory.alloc("bias", 4 * n, 0);
    let scratch: Vec<u64> = plan.scratch.iter().map(|part| memory.alloc("scratch", part.bytes, 0)).collect();
    let output = memory.alloc("output", m * n * if problem.out == OutType::F32 { 4 } else { 2 }, 0);

    let mut runs = Vec::new();
    for ((step, object), &resident) in plan.steps.iter().zip(objects).zip(resident) {
        let value = |arg: &Arg| -> Value {
            match *arg {
                Arg::Weight(part) => weights[part].into(),
                Arg::Activation => activation.into(),
                Arg::Scratch(part) => scratch[part].into(),
                Arg::Bias => bias.into(),
                Arg::Output => output.into(),
                Arg::U32(value) => value.into(),
            }
        };
        let args: Vec<Value> = step.args.iter().map(value).collect();
        let options = Options { traffic: true, streams: true, ..Options::default() };
        let mut report = object
            .launch(step.source.entry, &memory, grid(step), &args, &options)
            .with_context(|| format!("emulating `{}` with {problem}", step.source.entry))?;
        let streams: Vec<Vec<u64>> = std::mem::take(&mut report.streams)
            .into_iter()
            .map(|s| s.iter().map(|t| t.line).collect())
            .collect();
        let reuse = caches::simulate(&streams, machine, resident);
        runs.push(StepRun { groups: streams.len() as u64, report, reuse });
    }
    Ok(runs)
}

fn grid(step: &Step) -> Grid {
    Grid { grid: [step.grid[0], step.grid[1], 1], block: [step.threads, 1, 1], dynamic_lds: step.lds_bytes }
}
