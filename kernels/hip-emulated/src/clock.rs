//! How long a launch is said to have taken: a model, the longer of two times and a constant.
//!
//! * issue: a compute unit issues one instruction a cycle; a matrix instruction occupies its SIMD four times as long.
//!   Workgroups are dealt out evenly, so the time is that of the compute unit with the most.
//! * memory: what global and buffer instructions ask for, all lanes taken as active, at the memory's rate. No caches.
//! * 3 µs for the launch.
//!
//! A device's clock is never still: each launch is lengthened by up to 1 %, by a hash of its number.

use tilewright_emulator::{Grid, LANES, Report};

use crate::gpu::Gpu;

const LAUNCH_NS: f64 = 3000.0;

/// The time of a launch in nanoseconds; `number` counts the launches of the process.
pub fn launch_ns(gpu: &Gpu, grid: Grid, report: &Report, number: u64) -> f64 {
    let groups: f64 = grid.grid.iter().map(|n| f64::from(*n)).product();
    let units = f64::from(gpu.units);
    let busiest = (groups / units).ceil() / groups;
    let cycles = report.instructions as f64 + 3.0 * report.matrix_instructions as f64;
    let issue_ns = cycles * busiest / f64::from(gpu.clock_mhz) * 1e3;
    let bytes: u64 = report.mix.iter().map(|(name, count)| count * bytes_of(name)).sum();
    let memory_ns = bytes as f64 / f64::from(gpu.memory_gbs);
    (LAUNCH_NS + issue_ns.max(memory_ns)) * (1.0 + jitter(number))
}

/// Bytes that a wave moves with one instruction of that name.
fn bytes_of(mnemonic: &str) -> u64 {
    if !mnemonic.starts_with("global_") && !mnemonic.starts_with("buffer_") {
        return 0;
    }
    let width = match mnemonic.rsplit('_').next().unwrap_or_default() {
        "dword" => 4,
        "dwordx2" => 8,
        "dwordx3" => 12,
        "dwordx4" => 16,
        "ubyte" | "sbyte" | "byte" => 1,
        "ushort" | "sshort" | "short" | "hi" => 2,
        _ => 4,
    };
    width * LANES as u64
}

/// Between 0 and 1 %.
fn jitter(number: u64) -> f64 {
    let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / (1u64 << 24) as f64 * 0.01
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GPUS;

    fn report(instructions: u64, loads: u64) -> Report {
        let mix = [("global_load_dwordx4".to_string(), loads)].into_iter().collect();
        Report { instructions, mix, ..Report::default() }
    }

    #[test]
    fn more_work_on_the_busiest_unit_takes_longer() {
        let gpu = &GPUS[0];
        let time = |groups, instructions, loads| {
            launch_ns(gpu, Grid::linear(groups, 64), &report(instructions, loads), 7)
        };
        assert!(time(1, 1 << 20, 0) > time(2, 1 << 20, 0));
        assert!(time(257, 1 << 20, 0) > time(256, 1 << 20, 0));
        assert!(time(256, 1 << 20, 1 << 20) > time(256, 1 << 20, 0));
    }

    #[test]
    fn the_same_launch_varies_by_at_most_one_per_cent() {
        let times: Vec<f64> =
            (0..1000).map(|i| launch_ns(&GPUS[1], Grid::linear(304, 64), &report(1 << 24, 0), i)).collect();
        let (least, most) = times.iter().fold((f64::MAX, 0f64), |(a, b), t| (a.min(*t), b.max(*t)));
        assert!(most > least && most <= least * 1.01);
    }
}
