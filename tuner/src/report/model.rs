//! What a table says, as the plots need it: forward passes, and rows against the device's limits.

use std::collections::BTreeMap;

use tilewright_kernels::Caps;

use crate::import::Element;
use crate::lint::limits::{self, Limits};
use crate::table::{Decisions, DeviceRecord, Weight};

/// All GEMMs of one forward pass with M rows each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pass {
    /// Rows of every activation.
    pub(super) m: u32,
    /// With the default configs, nanoseconds.
    pub(super) default_ns: f64,
    /// With the winners, nanoseconds.
    pub(super) tuned_ns: f64,
}

/// A pass at every M that all weights have.
pub(super) fn passes(decisions: &Decisions) -> Vec<Pass> {
    let mut sums: BTreeMap<u32, (usize, f64, f64)> = BTreeMap::new();
    for weight in &decisions.weights {
        for row in &weight.rows {
            let (weights, default, tuned) = sums.entry(row.m).or_default();
            *weights += 1;
            *default += weight.count as f64 * row.default_ns;
            *tuned += weight.count as f64 * row.time_ns;
        }
    }
    let all = decisions.weights.len();
    let whole = sums.into_iter().filter(|(_, (weights, ..))| *weights == all);
    whole.map(|(m, (_, default_ns, tuned_ns))| Pass { m, default_ns, tuned_ns }).collect()
}

/// A row's place under the roofline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// The weight's name.
    pub(super) weight: String,
    /// Its number among the weights.
    pub(super) series: usize,
    /// Rows of the activation.
    pub(super) m: u32,
    /// Operations: 2 M N K.
    pub(super) ops: f64,
    /// Bytes of weight, activation and output, each moved once.
    pub(super) bytes: f64,
    /// The winner's time, nanoseconds.
    pub(super) ns: f64,
    /// The share of what the device allows at this intensity, where its limits are known.
    pub(super) share: Option<f64>,
}

impl Point {
    /// Operations per second.
    pub(super) fn rate(&self) -> f64 {
        self.ops / self.ns * 1e9
    }

    /// Operations per byte.
    pub(super) fn intensity(&self) -> f64 {
        self.ops / self.bytes
    }

    /// Bytes per second.
    pub(super) fn traffic(&self) -> f64 {
        self.bytes / self.ns * 1e9
    }
}

/// Limits of one kind of operands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Roof {
    /// Which operands.
    pub(super) name: String,
    /// Operations per second.
    pub(super) ops: f64,
    /// Bytes per second.
    pub(super) bandwidth: f64,
}

impl Roof {
    /// The most operations per second at an intensity.
    pub(super) fn at(&self, intensity: f64) -> f64 {
        self.ops.min(intensity * self.bandwidth)
    }
}

/// Every row with its place, and the roofs of the formats that occur.
pub(super) fn roofline(decisions: &Decisions) -> (Vec<Point>, Vec<Roof>) {
    let limits = limits_of(&decisions.device);
    let mut roofs: Vec<Roof> = Vec::new();
    let mut points = Vec::new();
    for (series, weight) in decisions.weights.iter().enumerate() {
        let roof = limits.map(|limits| {
            let wider = bits(weight)[0].max(bits(weight)[1]);
            let name = match wider {
                wider if wider > 8.5 => "16-bit operands",
                wider if wider > 6.5 => "8-bit operands",
                _ => "operands below 8 bits",
            };
            Roof { name: name.into(), ops: limits.ops(wider), bandwidth: limits.bandwidth }
        });
        for row in &weight.rows {
            let (m, n, k) = (f64::from(row.m), f64::from(weight.n), f64::from(weight.k));
            let [a, b, out] = bits(weight);
            let mut point = Point {
                weight: weight.name.clone(),
                series,
                m: row.m,
                ops: 2.0 * m * n * k,
                bytes: (m * k * a + n * k * b + m * n * out) / 8.0,
                ns: row.time_ns,
                share: None,
            };
            point.share = roof.as_ref().map(|roof| point.rate() / roof.at(point.intensity()));
            points.push(point);
        }
        if let Some(roof) = roof.filter(|roof| !roofs.contains(roof)) {
            roofs.push(roof);
        }
    }
    (points, roofs)
}

/// Bits per element of activation, weight and output.
fn bits(weight: &Weight) -> [f64; 3] {
    [
        Element::Format(weight.activation).bits(),
        Element::Format(weight.format).bits(),
        Element::parse(weight.out.name()).bits(),
    ]
}

/// By data sheets; a CPU's differ from part to part and are not known.
fn limits_of(record: &DeviceRecord) -> Option<Limits> {
    let caps = record.device.caps;
    let arch = if caps.contains(Caps::GFX950) {
        "gfx950"
    } else if caps.contains(Caps::GFX942) {
        "gfx942"
    } else if caps.contains(Caps::SM_90A) && record.fingerprint.contains("H200") {
        "h200"
    } else {
        return None;
    };
    limits::of(arch, Some(record.device.units))
}

#[cfg(test)]
mod tests {
    use tilewright_kernels::{BackendKind, Device};

    use super::*;

    fn record(caps: Caps, fingerprint: &str, units: u32) -> DeviceRecord {
        let device =
            Device { backend: BackendKind::Hip, caps, units, l1_kib: 64, l2_kib: 4096, llc_kib: 262_144 };
        DeviceRecord { key: "k".into(), fingerprint: fingerprint.into(), device }
    }

    #[test]
    fn limits_are_known_for_what_data_sheets_describe_and_for_nothing_else() {
        let mi300x = limits_of(&record(Caps::GFX942, "hip | AMD Instinct MI300X", 304)).unwrap();
        let mi355x = limits_of(&record(Caps::GFX950, "hip | AMD Instinct MI355X", 256)).unwrap();
        assert!(mi355x.ops(4.0) > mi355x.ops(8.0) && mi355x.ops(8.0) > mi300x.ops(8.0));
        // Half the units have half the arithmetic.
        let half = limits_of(&record(Caps::GFX942, "hip | a partition", 152)).unwrap();
        assert!((half.ops(16.0) / mi300x.ops(16.0) - 0.5).abs() < 1e-9);
        assert!(limits_of(&record(Caps::SM_90A, "cuda | NVIDIA H200", 132)).is_some());
        assert!(limits_of(&record(Caps::SM_90A, "cuda | NVIDIA H100 PCIe", 114)).is_none());
        assert!(limits_of(&record(Caps::AVX512, "cpu | Some CPU", 2)).is_none());
    }

    #[test]
    fn a_roof_is_the_lower_of_memory_and_arithmetic() {
        let roof = Roof { name: "r".into(), ops: 100.0, bandwidth: 10.0 };
        assert_eq!([roof.at(1.0), roof.at(10.0), roof.at(1000.0)], [10.0, 100.0, 100.0]);
    }
}
