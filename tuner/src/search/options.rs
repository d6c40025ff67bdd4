//! What a search is allowed to spend.

/// Settings of a search. Fields hold what was asked for; the methods of the same name give what is used.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOptions {
    /// The most points that are evaluated; known ones do not count.
    pub max_evaluations: usize,
    /// Evaluations without improvement after which the search ends; seeds do not use it up.
    pub patience: usize,
    /// The most time that the search may take by the bench's clock.
    pub max_time_ns: Option<f64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Points that are made ready and measured together, where that is more than lie between two sentinels.
    pub batch: usize,
    /// Launches of a point that was not eliminated.
    pub repeats: usize,
    /// A point whose first launch is over this many times the best is not launched again.
    pub eliminate_at: f64,
    /// Sentinel work before the first evaluation, in nanoseconds of launches.
    pub warmup_ns: f64,
}

impl Default for SearchOptions {
    fn default() -> Self {
        SearchOptions {
            max_evaluations: 200,
            patience: 60,
            max_time_ns: None,
            seed: 0,
            batch: 1,
            repeats: 3,
            eliminate_at: 1.25,
            warmup_ns: 200e6,
        }
    }
}

impl SearchOptions {
    /// Launches of a point, from 1 to 100.
    pub fn repeats(&self) -> usize {
        self.repeats.clamp(1, 100)
    }

    /// The factor that eliminates, at least 1.02: closer points are for the race to judge.
    pub fn eliminate_at(&self) -> f64 {
        if self.eliminate_at.is_nan() { 1.25 } else { self.eliminate_at.max(1.02) }
    }

    /// Warm-up, up to a minute.
    pub fn warmup_ns(&self) -> f64 {
        if self.warmup_ns.is_nan() { 0.0 } else { self.warmup_ns.clamp(0.0, 60e9) }
    }
}
