//! How often each rung of the ladder answered: a miss that nobody counts is a table that nobody uses.
//!
//! [`Counters`] are shared by all threads and exact in total. Each thread adds to one of several cache lines, so that threads
//! that dispatch at the same moment do not wait for each other's line; what remains is the price of an atomic addition,
//! several lookups' worth. A thread that looks up in a tight loop counts in a [`Tally`] of its own, for next to nothing, and
//! adds that to the table's counters when it likes.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::lookup::{Choice, NoKernel, Provenance};

/// Cache lines that threads are spread over.
const SHARDS: usize = 16;

/// What is counted, as positions in a shard and in a [`Tally`].
const EVENTS: usize = 8;
const NONE: usize = 6;
const LAUNCH_FAILURES: usize = 7;

/// Counters of one table. Every increment is a relaxed atomic add: exact in total, unordered between counters.
#[derive(Debug, Default)]
pub struct Counters {
    shards: [Shard; SHARDS],
}

/// One cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard([AtomicUsize; EVENTS]);

impl Counters {
    /// Counts a launch that failed.
    pub fn launch_failed(&self) {
        self.count(LAUNCH_FAILURES);
    }

    /// Counts one of [`event`]'s.
    pub(crate) fn count(&self, event: usize) {
        self.shards[shard()].0[event].fetch_add(1, Relaxed);
    }

    /// Adds what a thread counted for itself, and leaves its tally empty.
    pub fn add(&self, tally: &mut Tally) {
        for (counter, count) in self.shards[shard()].0.iter().zip(core::mem::take(tally).0) {
            if count > 0 {
                counter.fetch_add(count, Relaxed);
            }
        }
    }

    /// The counts so far.
    pub fn read(&self) -> Counts {
        let total = |event: usize| self.shards.iter().map(|shard| shard.0[event].load(Relaxed)).sum();
        counts(total)
    }
}

/// Counts of one thread, to be added to a table's [`Counters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally([usize; EVENTS]);

impl Tally {
    /// Counts one of [`event`]'s.
    #[inline]
    pub(crate) fn count(&mut self, event: usize) {
        self.0[event % EVENTS] += 1;
    }

    /// The counts so far.
    pub fn read(&self) -> Counts {
        counts(|event| self.0[event])
    }
}

/// Where an answer is counted. The first three are [`crate::proven::Hit::distance`].
pub(crate) fn event(answer: &Result<Choice<'_>, NoKernel>) -> usize {
    match answer.as_ref().map(|choice| choice.provenance) {
        Ok(Provenance::Exact) => 0,
        Ok(Provenance::Interval { extrapolated }) => 1 + usize::from(extrapolated),
        Ok(Provenance::Nearest { .. }) => 3,
        Ok(Provenance::Analytic) => 4,
        Ok(Provenance::Default) => 5,
        Err(_) => NONE,
    }
}

fn counts(of: impl Fn(usize) -> usize) -> Counts {
    Counts {
        exact: of(0),
        interval: of(1),
        extrapolated: of(2),
        nearest: of(3),
        analytic: of(4),
        default: of(5),
        none: of(NONE),
        launch_failures: of(LAUNCH_FAILURES),
    }
}

/// The shard of this thread: threads take turns as they come.
#[cfg(feature = "std")]
fn shard() -> usize {
    use std::cell::Cell;
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(SHARDS) };
    }
    SHARD.with(|shard| {
        if shard.get() == SHARDS {
            shard.set(THREADS.fetch_add(1, Relaxed) % SHARDS);
        }
        shard.get()
    })
}

/// Without the standard library nothing tells threads apart.
#[cfg(not(feature = "std"))]
const fn shard() -> usize {
    0
}

/// A reading of [`Counters`] or of a [`Tally`].
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
