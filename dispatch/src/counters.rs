//! How often each rung of the ladder answered: a miss that nobody counts is a table that nobody uses.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::lookup::Provenance;

/// Counters of one table. Every increment is a relaxed atomic add: exact in total, unordered between counters.
#[derive(Debug, Default)]
pub struct Counters {
    exact: AtomicUsize,
    interval: AtomicUsize,
    extrapolated: AtomicUsize,
    nearest: AtomicUsize,
    analytic: AtomicUsize,
    default: AtomicUsize,
    none: AtomicUsize,
    launch_failures: AtomicUsize,
}

impl Counters {
    /// Counts an answer.
    pub fn answered(&self, provenance: Provenance) {
        match provenance {
            Provenance::Exact => &self.exact,
            Provenance::Interval { extrapolated: false } => &self.interval,
            Provenance::Interval { extrapolated: true } => &self.extrapolated,
            Provenance::Nearest { .. } => &self.nearest,
            Provenance::Analytic => &self.analytic,
            Provenance::Default => &self.default,
        }
        .fetch_add(1, Relaxed);
    }

    /// Counts a problem that no kernel runs.
    pub fn unanswered(&self) {
        self.none.fetch_add(1, Relaxed);
    }

    /// Counts a launch that failed.
    pub fn launch_failed(&self) {
        self.launch_failures.fetch_add(1, Relaxed);
    }

    /// The counts so far.
    pub fn read(&self) -> Counts {
        let Counters { exact, interval, extrapolated, nearest, analytic, default, none, launch_failures } =
            self;
        Counts {
            exact: exact.load(Relaxed),
            interval: interval.load(Relaxed),
            extrapolated: extrapolated.load(Relaxed),
            nearest: nearest.load(Relaxed),
            analytic: analytic.load(Relaxed),
            default: default.load(Relaxed),
            none: none.load(Relaxed),
            launch_failures: launch_failures.load(Relaxed),
        }
    }
}

/// A reading of [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers at a measured M.
    pub exact: usize,
    /// Answers between measured M.
    pub interval: usize,
    /// Answers below the smallest or above the largest measured M.
    pub extrapolated: usize,
    /// Answers taken from a similar weight.
    pub nearest: usize,
    /// Answers by the analytic rule.
    pub analytic: usize,
    /// Answers by a family's fallback.
    pub default: usize,
    /// Problems that no kernel runs.
    pub none: usize,
    /// Launches that failed, whether or not the runner-up then ran.
    pub launch_failures: usize,
}
