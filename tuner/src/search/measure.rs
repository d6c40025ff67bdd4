//! Measures groups of points against the sentinel.

use super::{Ended, Evaluation, SearchObserver, SearchOptions};
use crate::bench::{Bench, BenchFault};
use crate::race::credible;
use crate::stats::{Rng, median};

/// Launches after which the sentinel is measured again.
pub(super) const SENTINEL_EVERY: usize = 8;
/// Readings whose median is the sentinel's time now: one preempted sentinel must not make a group look fast.
const SENTINEL_READINGS: usize = 3;

pub(super) struct Meter<'a> {
    bench: &'a mut dyn Bench,
    pub(super) observer: &'a mut dyn SearchObserver,
    options: &'a SearchOptions,
    sentinel: usize,
    readings: Vec<f64>,
    since_sentinel: usize,
    began_at_ns: Option<f64>,
    now_ns: f64,
    /// Whether time is up only for what comes later.
    pub(super) in_any_case: bool,
    pub(super) measurements: usize,
}

/// What became of one point of a group.
pub(super) type Measured = Result<Evaluation, String>;

impl<'a> Meter<'a> {
    pub(super) fn new(
        bench: &'a mut dyn Bench,
        observer: &'a mut dyn SearchObserver,
        options: &'a SearchOptions,
        sentinel: usize,
    ) -> Self {
        Meter {
            bench,
            observer,
            options,
            sentinel,
            readings: Vec::new(),
            since_sentinel: 0,
            began_at_ns: None,
            now_ns: 0.0,
            in_any_case: false,
            measurements: 0,
        }
    }

    /// Runs the sentinel until the warm-up is over and there are readings enough.
    pub(super) fn warm_up(&mut self) -> Result<(), Ended> {
        // Without the sentinel nothing can be compared, however little time there is.
        self.in_any_case = true;
        // By the clock: what the bench does between launches is part of the state in which all others are timed.
        while self.began_at_ns.is_none_or(|began| self.now_ns - began < self.options.warmup_ns())
            || self.readings.len() < SENTINEL_READINGS
        {
            self.read_sentinel()?;
        }
        self.in_any_case = false;
        Ok(())
    }

    /// Measures admitted points: all once in random order, then those that are not eliminated again. `best` is the best
    /// ratio so far. What was finished when measuring ended comes with the reason.
    pub(super) fn group(
        &mut self,
        points: &[usize],
        best: Option<f64>,
        rng: &mut Rng,
    ) -> (Vec<(usize, Measured)>, Option<Ended>) {
        let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
        let mut failures: Vec<Option<String>> = vec![None; points.len()];
        let mut live: Vec<usize> = (0..points.len()).collect();
        let mut ended = None;
        'passes: for pass in 0..self.options.repeats() {
            rng.shuffle(&mut live);
            for index in &live {
                match self.ratio(points[*index]) {
                    Ok(Ok(ratio)) => ratios[*index].push(ratio),
                    Ok(Err(reason)) => failures[*index] = Some(reason),
                    Err(end) => {
                        ended = Some(end);
                        break 'passes;
                    }
                }
            }
            let cut = best.map_or(f64::INFINITY, |best| best * self.options.eliminate_at());
            live.retain(|index| failures[*index].is_none() && (pass > 0 || ratios[*index][0] <= cut));
        }
        let results = points.iter().zip(ratios).zip(failures).filter_map(|((point, ratios), failure)| {
            let measured = match (failure, median(&ratios)) {
                (Some(reason), _) => Err(reason),
                (None, Some(ratio)) => Ok(Evaluation { ratio, launches: ratios.len() }),
                (None, None) => return None,
            };
            Some((*point, measured))
        });
        (results.collect(), ended)
    }

    /// One launch of a point over the sentinel's time.
    fn ratio(&mut self, point: usize) -> Result<Result<f64, String>, Ended> {
        if self.since_sentinel >= SENTINEL_EVERY {
            self.read_sentinel()?;
        }
        self.since_sentinel += 1;
        let recent = &self.readings[self.readings.len().saturating_sub(SENTINEL_READINGS)..];
        let sentinel = median(recent).expect("the warm-up read the sentinel");
        Ok(self.launch(point)?.map(|ns| ns / sentinel))
    }

    fn read_sentinel(&mut self) -> Result<f64, Ended> {
        let ns = self.launch(self.sentinel)?.map_err(Ended::SentinelFailed)?;
        self.readings.push(ns);
        self.since_sentinel = 0;
        Ok(ns)
    }

    fn launch(&mut self, point: usize) -> Result<Result<f64, String>, Ended> {
        let sample = match self.bench.measure(point, self.measurements) {
            Ok(sample) => sample,
            Err(BenchFault::Candidate(reason)) => return Ok(Err(reason)),
            Err(BenchFault::Stopped) => return Err(Ended::Stopped),
            Err(BenchFault::TraceExhausted) => return Err(Ended::TraceExhausted),
        };
        self.measurements += 1;
        self.now_ns = sample.at_ns;
        self.observer.sample(point, &sample);
        let began = *self.began_at_ns.get_or_insert(sample.at_ns - sample.ns);
        let most = self.options.max_time_ns.filter(|_| !self.in_any_case);
        if most.is_some_and(|most| sample.at_ns - began > most) {
            return Err(Ended::OutOfTime);
        }
        Ok(credible(&sample, self.bench.resolution_ns()))
    }
}
