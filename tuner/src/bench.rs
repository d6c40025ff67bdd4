//! The tuner's only source of time.
//!
//! Search and race see candidates as points, indices into a list that their caller holds, and learn about them through
//! [`Bench`] alone. A device bench times launches; a recorded one replays a trace; a synthetic one draws from a
//! distribution. Everything that decides is therefore a function of what the bench said and a seed.

/// Measures points.
pub trait Bench {
    /// The shortest time the clock behind it can tell apart, in nanoseconds.
    fn resolution_ns(&self) -> f64;

    /// Times one launch of a point. `slot` counts upwards over launches, so that a bench with several copies of its
    /// buffers rotates through them.
    ///
    /// # Errors
    /// If this candidate failed, or measuring has to end.
    fn measure(&mut self, point: usize, slot: usize) -> Result<Sample, BenchFault>;
}

/// One timed launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Duration of the launch, in nanoseconds.
    pub ns: f64,
    /// When it ended, in nanoseconds since the bench began: what budgets in time are kept by.
    pub at_ns: f64,
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchFault {
    /// This candidate failed and should be dropped, with the reason; others can go on.
    Candidate(String),
    /// Measuring has to end now: Ctrl-C, or the time budget is spent. What was decided so far stands.
    Stopped,
    /// A recorded bench was asked for more than was recorded.
    TraceExhausted,
}
