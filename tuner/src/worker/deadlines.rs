//! How long a question may take before its worker counts as hung.
//!
//! A deadline must never end a slow but healthy candidate, so it follows what is known: the times of the candidates that
//! ran on the same problem, the default config first, and where nothing is known yet the work itself on a slow device.
//! A candidate that is 50 times as slow as another one is of no interest, hung or not.

use std::collections::HashMap;
use std::time::Duration;

/// Times the fastest known that a candidate may take.
const PATIENCE: f64 = 50.0;
/// Operations a second that the slowest device makes of a problem that nothing is known about.
const SLOWEST: f64 = 0.05e9;
/// Floors that the first candidate of a problem has at least, of which nothing is known.
const FIRST: u32 = 30;
/// Runs on the way through the gate: twice on the real operands, on the odd shape, the reference itself.
const GATE_RUNS: f64 = 4.0;

/// Deadlines of one weight's questions.
#[derive(Clone, Debug)]
pub struct Deadlines {
    floor: Duration,
    compile: Duration,
    /// By M: the fastest launch so far, and the longest pass through the gate, seconds.
    known: HashMap<u32, Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    launch: Option<f64>,
    gate: Option<f64>,
}

impl Deadlines {
    /// No deadline is under `floor`; the gate's have `compile` on top.
    pub fn new(floor: Duration, compile: Duration) -> Self {
        Deadlines { floor, compile, known: HashMap::new() }
    }

    /// Forgets the times: another weight comes.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// A launch at M took that long.
    pub fn launched(&mut self, m: u32, seconds: f64) {
        let known = self.known.entry(m).or_default();
        known.launch = Some(known.launch.map_or(seconds, |fastest| fastest.min(seconds)));
    }

    /// A candidate passed the gate at M in that time.
    pub fn admitted(&mut self, m: u32, seconds: f64) {
        let known = self.known.entry(m).or_default();
        known.gate = Some(known.gate.map_or(seconds, |longest| longest.max(seconds)));
    }

    /// For one timed launch at M of a problem of that many operations.
    pub fn launch(&self, m: u32, flops: f64) -> Duration {
        match self.known.get(&m).and_then(|known| known.launch) {
            Some(seconds) => self.at_least(seconds * PATIENCE),
            None => self.at_least(flops / SLOWEST).max(self.floor * FIRST),
        }
    }

    /// For a pass through the gate.
    pub fn gate(&self, m: u32, flops: f64) -> Duration {
        let known = self.known.get(&m).copied().unwrap_or_default();
        let running = match (known.gate, known.launch) {
            (Some(gate), launch) => self.at_least(PATIENCE * gate.max(GATE_RUNS * launch.unwrap_or(0.0))),
            (None, _) => self.at_least(GATE_RUNS * flops / SLOWEST).max(self.floor * FIRST),
        };
        running + self.compile
    }

    fn at_least(&self, seconds: f64) -> Duration {
        const LONGEST: f64 = 24.0 * 3600.0;
        Duration::from_secs_f64(seconds.clamp(0.0, LONGEST)).max(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadlines() -> Deadlines {
        Deadlines::new(Duration::from_secs(10), Duration::from_secs(30))
    }

    #[test]
    fn short_launches_have_the_floor_and_long_ones_fifty_times_the_fastest() {
        let mut deadlines = deadlines();
        deadlines.launched(1, 1e-3);
        assert_eq!(deadlines.launch(1, 1e6), Duration::from_secs(10));
        // A healthy launch of 40 s on a device where the default takes that long is far from its deadline.
        deadlines.launched(8, 40.0);
        deadlines.launched(8, 44.0);
        assert_eq!(deadlines.launch(8, 1e6), Duration::from_secs(2000));
        deadlines.admitted(8, 100.0);
        assert_eq!(deadlines.gate(8, 1e6), Duration::from_secs(50 * 160 + 30));
    }

    #[test]
    fn where_nothing_is_known_the_work_itself_says_how_long() {
        let deadlines = deadlines();
        assert_eq!(deadlines.launch(4096, 1e12), Duration::from_secs(20_000));
        assert!(deadlines.gate(4096, 1e12) > deadlines.launch(4096, 1e12));
        assert_eq!(deadlines.launch(1, 1e3), Duration::from_secs(300));
        assert!(deadlines.launch(1, f64::INFINITY) < Duration::from_secs(100_000));
    }
}
