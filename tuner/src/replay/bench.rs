//! A bench that plays back recorded samples.

use crate::bench::{Bench, BenchFault, Sample};
use crate::stats::Rng;

/// Serves each point's recorded times in their order, from a random place and over again.
///
/// The order keeps what autocorrelation the recording has; the random place makes two replays differ as two runs would.
#[derive(Clone, Debug)]
pub struct RecordedBench<'a> {
    traces: &'a [Vec<f64>],
    next: Vec<usize>,
    now_ns: f64,
    resolution_ns: f64,
}

impl<'a> RecordedBench<'a> {
    /// A bench over times in nanoseconds, by point, none of them empty.
    pub fn new(traces: &'a [Vec<f64>], resolution_ns: f64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let next = traces.iter().map(|trace| rng.below(trace.len().max(1))).collect();
        RecordedBench { traces, next, now_ns: 0.0, resolution_ns }
    }
}

impl Bench for RecordedBench<'_> {
    fn resolution_ns(&self) -> f64 {
        self.resolution_ns
    }

    fn measure(&mut self, point: usize, _slot: usize) -> Result<Sample, BenchFault> {
        let trace = &self.traces[point];
        let next = &mut self.next[point];
        let ns = *trace.get(*next).ok_or(BenchFault::TraceExhausted)?;
        *next = (*next + 1) % trace.len();
        self.now_ns += ns;
        Ok(Sample { ns, at_ns: self.now_ns })
    }
}
