//! How long a skinny config is expected to take: an estimate that orders candidates and excludes none.
//!
//! The longer of two times, and what overlaps with neither:
//! * memory: workgroups that run at once share the rate, each at most what it has in flight per latency; a workgroup
//!   begins and ends with a latency of its own;
//! * matrix cores: instructions at their issue rate, on the busiest compute unit.
//!
//! No constant here was measured by us: rate and clock are the vendor's, 0.75 of the rate is what hf-rocm-kernels
//! reports to reach, latency and launch times are assumed.

use super::shape::{Form, Reduce, Shape};
use crate::config::Config;
use crate::device::{Caps, Device};
use crate::hip::mfma16::STEP_K;
use crate::problem::Problem;

/// Seconds from a load's issue to its data, under load.
const LATENCY: f64 = 1e-6;
/// Seconds from one kernel's end to the next one's first instruction.
const LAUNCH: f64 = 3e-6;

pub(super) fn seconds(config: &Config, problem: &Problem, device: &Device) -> f64 {
    let s = Shape::of(config, problem);
    let gfx950 = device.caps.contains(Caps::GFX950);
    let (rate, clock) = if gfx950 { (0.75 * 8e12, 2.4e9) } else { (0.75 * 5.3e12, 2.1e9) };
    let units = f64::from(device.units);
    let groups = f64::from(s.tiles(problem.n) * s.split_k);
    let steps = f64::from(problem.k.div_ceil(STEP_K as u32)) / f64::from(s.split_k);
    let busiest = ceil(groups / units) * steps;

    let by_waves = 32 / s.total_waves();
    let by_registers = 2048 / (s.registers(device).next_multiple_of(8) * s.total_waves());
    let by_lds = device.l1_kib * 1024 / s.lds_bytes();
    let fit = f64::from(by_waves.min(by_registers).min(by_lds).max(1));
    let rounds = ceil(groups / (units * fit));
    let resident = fit.min(ceil(groups / units));
    let step_bytes = f64::from(s.tile_step_bytes()) * if s.weight.is_mx() { 100.0 / 96.0 } else { 1.0 };
    let group_steps = f64::from(match s.producers {
        0 => s.waves * s.depth,
        // A producer has one slot in flight.
        producers => producers.min(s.depth) * s.steps,
    });
    let group_rate = (rate / units / resident).min(group_steps.min(steps) * step_bytes / LATENCY);
    let memory = rounds * (steps * step_bytes / group_rate + 2.0 * LATENCY);

    // Clocks of a SIMD for one panel's step.
    let clocks = f64::from(match (s.form, s.weight.bits()) {
        (Form::Sparse8, _) => 32,
        (Form::Sparse8K128, _) => 16,
        (form, bits) => {
            let rows = form.rows() / 16;
            rows * match (bits, gfx950) {
                (16, true) => 64,
                (16, false) => 128,
                (8, true) => 32,
                (8, false) => 64,
                _ => 16,
            }
        }
    });
    let matrix = busiest * f64::from(s.panels) * clocks / f64::from((s.waves * fit as u32).min(4)) / clock;

    let mut latency = LAUNCH;
    if !s.direct {
        latency += LAUNCH;
    }
    if s.split_k > 1 {
        let sums = f64::from(s.split_k * problem.m) * f64::from(problem.n) * 4.0;
        latency += 2.0 * sums / rate + if s.reduce == Reduce::SecondPass { LAUNCH } else { LATENCY };
    }
    memory.max(matrix) + latency
}

fn ceil(v: f64) -> f64 {
    let whole = v as u64 as f64;
    if whole < v { whole + 1.0 } else { whole }
}
