//! What devices can do at most, by their makers' data sheets: dense arithmetic without sparsity, and memory bandwidth.

use std::str::FromStr;

use crate::import::{Entry, Operation};

/// An architecture, and its compute units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `gfx942`, `gfx950`, `h200`.
    pub arch: String,
    /// Compute units or multiprocessors.
    pub units: u32,
}

impl FromStr for Target {
    type Err = String;

    /// Reads `gfx942:304`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "give architecture and compute units, for instance gfx942:304".to_owned();
        let (arch, units) = text.split_once([':', '/']).ok_or_else(form)?;
        let units = units.parse().ok().filter(|units| *units > 0).ok_or_else(form)?;
        Ok(Target { arch: arch.to_ascii_lowercase(), units })
    }
}

/// The limits of one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes per second from memory.
    pub(crate) bandwidth: f64,
    /// Operations per second by the wider operand: above 8 bits, 8 bits, below.
    ops: [f64; 3],
    /// Units that `ops` are of.
    units: u32,
}

// MI300X and MI325X (the faster memory), MI355X, H200.
const GFX942: Limits = Limits { bandwidth: 6.0e12, ops: [1307.4e12, 2614.9e12, 2614.9e12], units: 304 };
const GFX950: Limits = Limits { bandwidth: 8.0e12, ops: [2516.6e12, 5033.2e12, 10066.3e12], units: 256 };
const H200: Limits = Limits { bandwidth: 4.8e12, ops: [989.5e12, 1979.0e12, 1979.0e12], units: 132 };

/// CU counts that devices of an architecture are sold or partitioned with; empty where none are known.
pub(crate) fn unit_counts(arch: &str) -> &'static [u32] {
    match arch {
        "gfx942" => &[20, 38, 64, 80, 152, 228, 304],
        "gfx950" => &[128, 256],
        _ => &[],
    }
}

/// The limits of an architecture or product with that many units.
pub(crate) fn of(arch: &str, units: Option<u32>) -> Option<Limits> {
    let lower = arch.to_ascii_lowercase();
    let limits = match lower.as_str() {
        "gfx942" => GFX942,
        "gfx950" => GFX950,
        name if name.contains("h200") => H200,
        name if name.contains("mi300") || name.contains("mi325") => GFX942,
        name if name.contains("mi355") => GFX950,
        _ => return None,
    };
    let share = units.map_or(1.0, |units| f64::from(units) / f64::from(limits.units)).min(1.0);
    Some(Limits { ops: limits.ops.map(|ops| ops * share), ..limits })
}

impl Limits {
    /// Operations per second where the wider operand has that many bits per element; unbounded for 0, an unknown type.
    pub(crate) fn ops(&self, bits: f64) -> f64 {
        match bits {
            bits if bits > 8.5 => self.ops[0],
            bits if bits > 6.5 => self.ops[1],
            bits if bits > 0.0 => self.ops[2],
            _ => f64::INFINITY,
        }
    }

    /// The least time of an operation, in µs, by memory and by arithmetic.
    pub(crate) fn floor_us(&self, operation: &Operation, sizes: [u32; 4]) -> [f64; 2] {
        let [batch, m, n, k] = sizes.map(f64::from);
        let bits = m * k * operation.a.bits() + n * k * operation.b.bits() + m * n * operation.out.bits();
        // Elements of an unknown type have 0 bits: then nothing is known of the arithmetic either.
        let ops = self.ops(operation.a.bits().max(operation.b.bits()));
        [batch * bits / 8.0 / self.bandwidth * 1e6, 2.0 * batch * m * n * k / ops * 1e6]
    }
}

/// The dimensions of a row.
pub(crate) fn sizes(entry: &Entry) -> [u32; 4] {
    [entry.batch, entry.m, entry.n, entry.k]
}
