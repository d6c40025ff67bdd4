//! What a race is allowed to spend and how sure it has to be.

use crate::stats::Looks;

/// Settings of a race. Fields hold what was asked for; the methods of the same name give what is used, clamped to where
/// the method is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceOptions {
    /// When it is looked at, and the error probability shared by the looks.
    pub looks: Looks,
    /// Differences that do not matter: a race ends when all that are left lie within ±δ of the leader, as a log-ratio.
    pub delta: f64,
    /// How much slower an incumbent has to be, with certainty, before it is replaced.
    pub min_improvement: f64,
    /// Work before the first block counts, in nanoseconds of launches.
    pub warmup_ns: f64,
    /// Seed of the block orders.
    pub seed: u64,
    /// The most blocks that are measured, discarded ones included.
    pub max_blocks: usize,
    /// The most time that the race may take by the bench's clock, warm-up included.
    pub max_time_ns: Option<f64>,
    /// The point that runs twice in each block; the first pinned entrant in canonical order, or else the first of all,
    /// where `None`.
    pub sentinel: Option<usize>,
    /// Copies of the buffers that the bench rotates through. Blocks are spaced so that every entrant meets every copy.
    pub buffers: usize,
    /// A rival at least this many times as slow as the leader in every one of the first blocks leaves before the first
    /// look.
    pub hopeless: f64,
    /// A move of the sentinel's level that counts as drift, as a log-ratio.
    pub drift: f64,
    /// Whether the incumbent won an earlier race that was not ambiguous. This one then only asks whether anything speaks
    /// against it: it ends, confirmed, at the first look at which no rival is faster than the incumbent and the sentinel
    /// does not differ from itself, with 95 % confidence each. Where something does, it is a race like any other.
    pub confirms: bool,
    /// How often the race starts over after the machine has changed, before it ends as ambiguous.
    pub max_restarts: usize,
}

impl Default for RaceOptions {
    /// What suits a shared CPU. On a GPU of its own, `delta` 0.01.
    fn default() -> Self {
        RaceOptions {
            looks: Looks::default(),
            delta: 0.02,
            min_improvement: 0.01,
            warmup_ns: 200e6,
            seed: 0,
            max_blocks: 80,
            max_time_ns: None,
            sentinel: None,
            buffers: 1,
            hopeless: 1.25,
            drift: 0.02,
            confirms: false,
            max_restarts: 2,
        }
    }
}

impl RaceOptions {
    /// δ, at least 0.1 %: under that, two runs of one kernel differ by where their buffers lie.
    pub fn delta(&self) -> f64 {
        clamp(self.delta, 0.001, 0.5)
    }

    /// The incumbent's margin, from 0 to 50 %.
    pub fn min_improvement(&self) -> f64 {
        clamp(self.min_improvement, 0.0, 0.5)
    }

    /// Warm-up, up to a minute.
    pub fn warmup_ns(&self) -> f64 {
        clamp(self.warmup_ns, 0.0, 60e9)
    }

    /// Blocks, at least as many as the first look needs.
    pub fn max_blocks(&self) -> usize {
        self.max_blocks.max(self.looks.at()[0])
    }

    /// The factor that is hopeless, at least 1.1: closer rivals are for the looks to judge.
    pub fn hopeless(&self) -> f64 {
        clamp(self.hopeless, 1.1, f64::MAX)
    }

    /// The move that counts as drift, at least 0.5 %.
    pub fn drift(&self) -> f64 {
        clamp(self.drift, 0.005, f64::MAX)
    }

    /// Copies of the buffers, at least one.
    pub fn buffers(&self) -> usize {
        self.buffers.max(1)
    }

    /// Launch slots to skip after a block of `launches`, so that the stride between blocks has no factor in common with
    /// the number of buffers.
    pub fn slot_gap(&self, launches: usize) -> usize {
        (0..self.buffers()).find(|gap| gcd(launches + gap, self.buffers()) == 1).unwrap_or(0)
    }
}

fn clamp(value: f64, low: f64, high: f64) -> f64 {
    if value.is_nan() { low } else { value.clamp(low, high) }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
