//! Decides between close candidates by racing them.
//!
//! **Problem.** Blocked timing, one candidate after the other, crowns noise: the machine's state differs between two
//! candidates more than they do, and of two identical ones one is nearly always "faster".
//!
//! **Method.** Randomised complete blocks: every live entrant runs once in each block, in a seeded random order, so that
//! whatever moves slowly hits all of them alike. The statistic of a rival is the 20 % trimmed mean of its log-ratios to
//! the leader, paired within the block, with its Winsorised error ([`crate::stats::yuen`]), whose spread is shrunk to what
//! the rivals have in common ([`crate::stats::Shrinkage`]). A rival leaves at a look when its lower bound lies above 0, the
//! error probability being split over looks and pairs; the race ends when one is left, when all that are left are within
//! ±δ, or when blocks or time run out.
//!
//! The *sentinel*, the default config, runs twice in each block under two ids. Its two halves are a live A/A test of the
//! machine, its level over the blocks shows drift. How well it has to be known follows from the decision: a winner stands
//! when every bias that the sentinel leaves possible is smaller than the margins by which it beat the others; closer calls
//! and ties need a sentinel known to ±δ. A race that [`RaceOptions::confirms`] an earlier verdict asks less: it ends as soon
//! as a look does not speak against the incumbent.
//!
//! **Invariants.** The outcome is a function of what the bench says and the seed; the order in which entrants arrive does
//! not matter. Ties are relative to the leader of the last look and never chained, since indistinguishability is not
//! transitive (Sankaran, Karlsson & Bientinesi 2024). A candidate that fails leaves with its reason; the others go on.

mod block;
mod conclude;
mod drift;
mod judge;
mod options;
mod outcome;
mod recover;
mod run;

use thiserror::Error;

pub(crate) use block::credible;
pub use options::RaceOptions;
pub use outcome::{DriftEvent, EntrantResult, RaceOutcome, Status, Verdict};
pub use run::race;

use crate::bench::Sample;

/// A candidate that takes part in a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrant {
    /// The point that [`crate::bench::Bench`] knows it by.
    pub point: usize,
    /// Whether it is measured to the end even when it has lost: a baseline that reports quote.
    pub pinned: bool,
    /// Whether it is what the table says now. It is pinned too, and leaves only when it is slower by more than
    /// [`RaceOptions::min_improvement`].
    pub incumbent: bool,
    /// What decides a tie.
    pub preference: Preference,
}

impl Entrant {
    /// A challenger with nothing to say for it but its place in the canonical order.
    pub fn new(point: usize, rank: u32) -> Self {
        Entrant {
            point,
            pinned: false,
            incumbent: false,
            preference: Preference { rank, ..Preference::default() },
        }
    }
}

/// Sorts tied candidates, the preferred one first; an incumbent comes before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Preference {
    /// Whether it splits K: its result then depends on how often.
    pub splits_k: bool,
    /// Scratch memory that it needs, in bytes.
    pub workspace_bytes: u64,
    /// Whether the neighbouring problems use *other* kernels: a table of few kernels has long intervals.
    pub new_to_neighbours: bool,
    /// Place in the canonical order of configs, which makes the order total.
    pub rank: u32,
}

/// Sees a race as it happens: a journal, a progress bar. All methods default to nothing.
pub trait RaceObserver {
    /// One launch was timed, in this block (from 0; warm-up launches carry `None`).
    fn sample(&mut self, _block: Option<usize>, _point: usize, _sample: &Sample) {}
    /// A look was taken: its block count, the leader, and the entrants that are neither eliminated nor failed.
    fn look(&mut self, _blocks: usize, _leader: usize, _live: &[usize]) {}
    /// An entrant failed and left.
    fn failed(&mut self, _point: usize, _reason: &str) {}
    /// The sentinel's level moved.
    fn drift(&mut self, _event: &DriftEvent) {}
}

impl RaceObserver for () {}

/// Why a race could not start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RaceError {
    /// There is nobody to race.
    #[error("a race needs at least one entrant")]
    NoEntrants,
    /// One point takes part twice.
    #[error("point {0} entered the race twice")]
    Duplicate(usize),
    /// Two entrants have the same place in the canonical order, so a tie between them has no order.
    #[error("points {0} and {1} have the same rank")]
    SameRank(usize, usize),
    /// There is more than one incumbent.
    #[error("points {0} and {1} are both the incumbent")]
    TwoIncumbents(usize, usize),
}
