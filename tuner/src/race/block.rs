//! One randomised complete block: every runner once, the sentinel twice, in a seeded random order.

use super::{RaceObserver, RaceOptions};
use crate::bench::{Bench, BenchFault, Sample};
use crate::stats::Rng;

/// What runs in one place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// The runner of this index.
    Runner(usize),
    /// The sentinel's first id, where no runner is the sentinel.
    SentinelA,
    /// The sentinel's second id.
    SentinelB,
}

/// Why measuring ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// [`BenchFault::Stopped`].
    Stopped,
    /// [`BenchFault::TraceExhausted`].
    TraceExhausted,
    /// [`RaceOptions::max_time_ns`].
    OutOfTime,
}

/// The results of the seats, in the order of the request.
pub(super) type Block = Vec<Result<f64, String>>;

/// Takes measurements and keeps what all of them share: slots, the clock, counts.
pub(super) struct Stopwatch<'a> {
    bench: &'a mut dyn Bench,
    observer: &'a mut dyn RaceObserver,
    options: &'a RaceOptions,
    rng: Rng,
    slot: usize,
    began_at_ns: Option<f64>,
    pub(super) measurements: usize,
    pub(super) warmup_measurements: usize,
}

impl<'a> Stopwatch<'a> {
    pub(super) fn new(
        bench: &'a mut dyn Bench,
        observer: &'a mut dyn RaceObserver,
        options: &'a RaceOptions,
    ) -> Self {
        Stopwatch {
            bench,
            observer,
            options,
            rng: Rng::new(options.seed),
            slot: 0,
            began_at_ns: None,
            measurements: 0,
            warmup_measurements: 0,
        }
    }

    pub(super) fn observer(&mut self) -> &mut dyn RaceObserver {
        self.observer
    }

    /// The variance that the clock's resolution alone puts on the log-ratio of two times of about `ns`: each reading is
    /// off by a uniform error of the resolution's width.
    pub(super) fn reading_variance(&self, ns: f64) -> f64 {
        2.0 / 12.0 * (self.bench.resolution_ns() / ns).powi(2)
    }

    /// Runs the seats once, in random order.
    pub(super) fn block(&mut self, index: Option<usize>, seats: &[(Seat, usize)]) -> Result<Block, End> {
        let mut order: Vec<usize> = (0..seats.len()).collect();
        self.rng.shuffle(&mut order);
        let mut results: Vec<Option<Result<f64, String>>> = vec![None; seats.len()];
        for place in order {
            results[place] = Some(self.launch(index, seats[place].1)?);
        }
        self.slot += self.options.slot_gap(seats.len());
        Ok(results.into_iter().map(|result| result.expect("every seat ran")).collect())
    }

    /// Times one launch; the inner error is the candidate's own.
    pub(super) fn launch(&mut self, block: Option<usize>, point: usize) -> Result<Result<f64, String>, End> {
        let sample = match self.bench.measure(point, self.slot) {
            Ok(sample) => sample,
            Err(BenchFault::Candidate(reason)) => return Ok(Err(reason)),
            Err(BenchFault::Stopped) => return Err(End::Stopped),
            Err(BenchFault::TraceExhausted) => return Err(End::TraceExhausted),
        };
        self.slot += 1;
        self.measurements += 1;
        self.warmup_measurements += usize::from(block.is_none());
        self.observer.sample(block, point, &sample);
        let began = *self.began_at_ns.get_or_insert(sample.at_ns - sample.ns);
        if self.options.max_time_ns.is_some_and(|most| sample.at_ns - began > most) {
            return Err(End::OutOfTime);
        }
        Ok(credible(&sample, self.bench.resolution_ns()))
    }
}

/// The time, if it can be one.
///
/// A reading under twice the resolution says only that the launch was short or never ran (CLBlast's tuner once crowned a
/// kernel of 0.000 ms).
pub(crate) fn credible(sample: &Sample, resolution_ns: f64) -> Result<f64, String> {
    let least = 2.0 * resolution_ns;
    if sample.ns.is_finite() && sample.ns > 0.0 && sample.ns >= least {
        return Ok(sample.ns);
    }
    Err(format!(
        "a time of {} ns is no measurement: the clock resolves {resolution_ns} ns, and a launch has to take {least} ns at least",
        sample.ns
    ))
}
