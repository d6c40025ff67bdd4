//! A synthetic bench: times from a seeded distribution, faults on demand, and a record of what was asked.

#![allow(dead_code, reason = "each test binary uses another part of it")]

use tilewright::bench::{Bench, BenchFault, Sample};
use tilewright::stats::Rng;

/// Log-noise of the n-th launch overall.
pub(crate) type Noise = Box<dyn FnMut(&mut Rng, usize) -> f64>;

pub(crate) struct Synthetic {
    /// True times in nanoseconds, by point.
    pub(crate) truth: Vec<f64>,
    pub(crate) noise: Noise,
    pub(crate) rng: Rng,
    /// Point and slot of every launch that was asked for.
    pub(crate) asked: Vec<(usize, usize)>,
    /// Times served, in order.
    pub(crate) served: Vec<f64>,
    /// Asked before each launch, with its number and point.
    pub(crate) fault: Box<dyn FnMut(usize, usize) -> Option<BenchFault>>,
    pub(crate) now_ns: f64,
    pub(crate) resolution_ns: f64,
}

impl Synthetic {
    pub(crate) fn new(truth: &[f64], noise: Noise, seed: u64) -> Self {
        Synthetic {
            truth: truth.to_vec(),
            noise,
            rng: Rng::new(seed),
            asked: Vec::new(),
            served: Vec::new(),
            fault: Box::new(|_, _| None),
            now_ns: 0.0,
            resolution_ns: 20.0,
        }
    }
}

impl Bench for Synthetic {
    fn resolution_ns(&self) -> f64 {
        self.resolution_ns
    }

    fn measure(&mut self, point: usize, slot: usize) -> Result<Sample, BenchFault> {
        let launch = self.asked.len();
        if let Some(fault) = (self.fault)(launch, point) {
            return Err(fault);
        }
        self.asked.push((point, slot));
        let ns = self.truth[point] * (self.noise)(&mut self.rng, launch).exp();
        self.served.push(ns);
        self.now_ns += ns;
        Ok(Sample { ns, at_ns: self.now_ns })
    }
}

pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let (a, b) = (1.0 - rng.unit(), rng.unit());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Independent normal noise of this deviation.
pub(crate) fn gaussian(deviation: f64) -> Noise {
    Box::new(move |rng, _| deviation * normal(rng))
}

/// Gaussian, and once in ten launches a preemption that costs up to five times the launch.
pub(crate) fn heavy_tails() -> Noise {
    Box::new(|rng, _| {
        let preempted = rng.unit() < 0.1;
        0.004 * normal(rng) + if preempted { (1.0 + 4.0 * rng.unit()).ln() } else { 0.0 }
    })
}

/// Two clock states 5 % apart; each launch finds the other one with probability 0.2.
pub(crate) fn bimodal() -> Noise {
    let mut fast = false;
    Box::new(move |rng, _| {
        fast ^= rng.unit() < 0.2;
        0.003 * normal(rng) - if fast { 0.05 } else { 0.0 }
    })
}

/// An AR(1) process of this lag-1 correlation.
pub(crate) fn autocorrelated(correlation: f64) -> Noise {
    let mut state = 0.0;
    Box::new(move |rng, _| {
        state = correlation * state + 0.01 * (1.0 - correlation * correlation).sqrt() * normal(rng);
        state
    })
}

/// A clock that falls by 0.02 % a launch.
pub(crate) fn slow_drift() -> Noise {
    Box::new(|rng, launch| 0.0002 * launch as f64 + 0.003 * normal(rng))
}
