//! The analytic estimate of a CPU config's run time.
//!
//! A roofline over three costs, each in cycles of one core: getting the weights (and whatever is read again because a
//! block does not fit the second-level cache), taking codes apart, and multiplying. The first overlaps with the rest as
//! far as prefetching lets it. The constants describe a current AVX-512 core; only the order of configs matters, for a
//! search begins with the first and measures whatever it keeps.

use crate::config::Config;
use crate::cpu::families::{PANEL, Path, Tiling};
use crate::device::{Caps, Device};
use crate::format::Format;
use crate::layout::Layout;
use crate::problem::Problem;

const CYCLES_PER_SECOND: f64 = 3e9;
/// Bytes from memory per cycle, of one core and of all together.
const MEMORY: (f64, f64) = (8.0, 32.0);
/// Bytes per cycle from the second-level cache.
const L2: f64 = 32.0;
/// Cycles to hand work to other threads and wait for them.
const WAKE: f64 = 6000.0;

/// Estimated run time of a launchable config.
pub(super) fn seconds(config: &Config, problem: &Problem, device: &Device) -> f64 {
    let t = Tiling::of(config);
    let (m, n, k) = (f64::from(problem.m), f64::from(problem.n), f64::from(problem.k));
    let tiles = f64::from(problem.m.div_ceil(t.tile_m));
    let panels = f64::from(problem.n.div_ceil(PANEL));
    let decodes_once = t.scratch || t.layout == Layout::RowMajor;
    let bits = problem.b.bits() as f64 + if problem.b.is_mx() { 0.25 } else { 0.0 };
    let weight_bytes = n * k * bits / 8.0;

    // Steps of one row, one panel and two k.
    let pairs = panels * k / 2.0;
    let accumulators = f64::from(t.tile_m.min(problem.m)) * f64::from(t.tile_n / PANEL);
    let (per_step, in_flight) = match t.path {
        Path::Portable => (8.0, 1.0),
        Path::Avx2 => (2.0, 5.0),
        Path::Avx512 => (1.0, 8.0),
        Path::Avx512Bf16 if device.caps.contains(Caps::FULL_RATE_BF16) => (0.5, 10.0),
        Path::Avx512Bf16 => (2.8, 4.0),
        Path::Avx512Vnni => (0.25, 10.0),
    };
    let block_scaling = if problem.b.is_mx() { 1.15 } else { 1.0 };
    let multiply =
        pairs * padded_rows(&t, problem) * per_step * block_scaling / (accumulators / in_flight).min(1.0);

    let wide = !matches!(t.path, Path::Portable | Path::Avx2);
    let look_up = match (problem.b, wide) {
        (Format::Bf16, _) => 0.5,
        (_, false) => 24.0,
        (format, true) if format.bits() == 8 => 3.0,
        _ => 2.0,
    };
    let passes = if decodes_once { 1.0 } else { tiles };
    let gather = if t.layout == Layout::RowMajor { if wide { 8.0 } else { 40.0 } } else { 0.0 };
    let decode = pairs * ((look_up + gather) * passes + if decodes_once { 1.0 + 0.5 * tiles } else { 0.0 });

    let depth = if t.kc == 0 { k / f64::from(t.split_k) } else { f64::from(t.kc) };
    let stretch = depth * f64::from(t.tile_n) * if decodes_once { 2.0 } else { bits / 8.0 };
    let fits = stretch + depth * 4.0 * f64::from(t.tile_m) < f64::from(device.l2_kib) * 1024.0 / 2.0;
    let again = if t.skinny || tiles == 1.0 { 0.0 } else { (tiles - 1.0) * weight_bytes };
    let activation = m * k * 2.0 * (panels / f64::from(t.tile_n / PANEL));
    let cached = (activation + if fits { again } else { 0.0 }) / L2;
    let sums = if t.kc == 0 { 0.0 } else { m * n * 8.0 * (k / depth - 1.0).max(0.0) / L2 };
    let from_memory = weight_bytes + if fits { 0.0 } else { again };

    let threads = f64::from(t.threads);
    let units = f64::from(t.split_k) * (panels / f64::from(t.nc.max(t.tile_n) / PANEL)).max(1.0);
    let turns = (units / threads).max(1.0);
    // The last turn may leave threads idle.
    let imbalance =
        ceil(turns) / turns * if units < threads && problem.m <= t.tile_m { threads / units } else { 1.0 };
    let core = (multiply + decode + cached + sums) / threads * imbalance;
    let memory = from_memory / (MEMORY.0 * threads).min(MEMORY.1);
    // Without prefetching, loads and arithmetic of a stream only partly overlap.
    let hidden = if t.prefetch > 0 || decodes_once { 0.9 } else { 0.6 };
    let overlapped = core.max(memory) + (1.0 - hidden) * core.min(memory);
    let parts = if t.split_k > 1 { m * n * 4.0 * f64::from(t.split_k + 1) / L2 + WAKE } else { 0.0 };
    let wake = if t.threads > 1 { WAKE } else { 0.0 };
    (overlapped + parts + wake) / CYCLES_PER_SECOND
}

/// Rows that are multiplied: whole tiles, and the smallest kernel that covers the last rows.
fn padded_rows(t: &Tiling, problem: &Problem) -> f64 {
    let rest = problem.m % t.tile_m;
    let last = match rest {
        9 => 10,
        11 => 12,
        rest => rest,
    };
    f64::from(problem.m - rest + last.min(t.tile_m))
}

/// The next whole number (`f64::ceil` needs std).
fn ceil(value: f64) -> f64 {
    let whole = value as u64 as f64;
    if whole < value { whole + 1.0 } else { whole }
}
