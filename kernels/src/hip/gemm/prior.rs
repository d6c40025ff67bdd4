//! How long a GEMM config is expected to take: an estimate that orders candidates and excludes none.
//!
//! A workgroup's time for one stage is the longest of what shares nothing with the others:
//! * matrix cores: the instructions of the busiest SIMD, 16 cycles each (16 rows) or 32, twice that where an operand has 8 bits in a
//!   scaled instruction;
//! * LDS: what the waves read of it and what arrives in it, at 128 bytes a cycle;
//! * L2: the tile's rows, at this XCD's share of 2048 bytes a cycle;
//! * the fabric behind L2: the panels that the XCD's workgroups have between them, fewer where neighbours share an XCD.
//!
//! Stages follow each other; the last round of tiles may leave compute units idle. The peaks are the published ones and
//! none of the figures was measured here.

use super::tile::{Tile, XCDS};
use crate::config::Config;
use crate::device::{Caps, Device};
use crate::format::Format;
use crate::problem::{OutType, Problem};

/// Seconds on an ideal device.
pub(super) fn seconds(config: &Config, problem: &Problem, device: &Device) -> f64 {
    let t = Tile::of(config, problem);
    let gfx950 = device.caps.contains(Caps::GFX950);
    let clock = if gfx950 { 2.4e9 } else { 2.1e9 };
    let tiles = f64::from(t.tiles(problem));
    let slots = f64::from(device.units);
    let rounds = ceil(tiles / slots);
    let stages = f64::from(problem.k.div_ceil(t.tile_k));
    let resident = (tiles / slots).clamp(1.0, f64::from(t.groups_per_cu));

    let work = f64::from(t.tile_m * t.tile_n) * f64::from(t.tile_k);
    let matrix = work / rate(t.formats, gfx950);
    // Too few waves to fill the four SIMDs leave some of the matrix cores idle.
    let busy_simds = (f64::from(t.waves()) * resident).min(4.0) / 4.0;

    let stage_bytes = f64::from(t.lds_bytes()) / f64::from(t.stages);
    let share = |rows: u32, all: u32| f64::from(rows) / f64::from(all);
    let read = stage_bytes
        * (f64::from(t.waves_n) * share(t.tile_m, t.tile_m + t.tile_n)
            + f64::from(t.waves_m) * share(t.tile_n, t.tile_m + t.tile_n));
    let lds = (read + stage_bytes) / 128.0;
    let l2 = stage_bytes / (2048.0 * f64::from(XCDS) / slots);

    // A wave of workgroups on an XCD covers group_m tiles along M, and as many along N as are left.
    let local = (tiles.min(slots) / f64::from(XCDS)).max(1.0);
    let along_m = f64::from(t.group_m).min(f64::from(problem.m.div_ceil(t.tile_m))).min(local);
    let spread = if t.xcd { 1.0 } else { 2.5 };
    let panels = spread * (along_m + local / along_m);
    let fabric_bytes = panels * stage_bytes / 2.0 * f64::from(XCDS);
    let fabric = fabric_bytes / 10e12 * clock;

    let stage = (matrix / busy_simds).max(lds).max(l2).max(fabric / resident);
    // A barrier and the first reads of a stage, hidden where another workgroup has something to do.
    let gap = if resident > 1.5 { 40.0 } else { 120.0 } - if t.stages > 2 { 20.0 } else { 0.0 };
    let fill = if t.persistent { 600.0 } else { 1500.0 };
    let cycles = rounds * (stages * (stage + gap) + fill);
    let size = if problem.out == OutType::F32 { 4.0 } else { 2.0 };
    let output = f64::from(problem.m) * f64::from(problem.n) * size / if t.nt_stores { 5e12 } else { 4.5e12 };
    cycles / clock + output + 4e-6
}

/// Multiply-adds a cycle of one compute unit.
fn rate(formats: [Format; 2], gfx950: bool) -> f64 {
    let widest = formats[0].bits().max(formats[1].bits());
    match (widest, gfx950) {
        (16, false) => 1024.0,
        (16, true) | (_, false) => 2048.0,
        (8, true) => 4096.0,
        (_, true) => 8192.0,
    }
}

fn ceil(v: f64) -> f64 {
    let whole = v as u64 as f64;
    if whole < v { whole + 1.0 } else { whole }
}
