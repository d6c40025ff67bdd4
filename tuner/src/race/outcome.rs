//! What a race found.

use crate::stats::Interval;

/// The result of a race. Points are the bench's; ratios are natural logarithms of time over time.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceOutcome {
    /// The candidate to use: the preferred one of the tie set. `None` where every entrant failed or nothing was measured.
    pub winner: Option<usize>,
    /// The fastest by its statistic at the last look, or of what there is.
    pub leader: Option<usize>,
    /// How sure that is.
    pub verdict: Verdict,
    /// Whether the race ended because nothing spoke against the incumbent ([`super::RaceOptions::confirms`]). The winner is
    /// the incumbent then, and the verdict is what these few blocks would say by themselves: the earlier one stands.
    pub confirmed: bool,
    /// The leader and all that it did not beat, in order of preference (the winner first).
    pub tie_set: Vec<usize>,
    /// One result an entrant, in canonical order.
    pub entrants: Vec<EntrantResult>,
    /// The log-ratio of the sentinel to itself with 95 % confidence. `None` before there are blocks enough.
    pub sentinel_interval: Option<Interval>,
    /// Moves of the sentinel's level, in order.
    pub drift: Vec<DriftEvent>,
    /// Blocks that count.
    pub blocks: usize,
    /// Complete blocks that were measured and do not count, because the machine changed under them.
    pub discarded_blocks: usize,
    /// Times the race began again.
    pub restarts: usize,
    /// Launches timed: warm-up, sentinels and discarded blocks included.
    pub measurements: usize,
    /// Launches of the warm-up among them.
    pub warmup_measurements: usize,
}

impl RaceOutcome {
    /// The result of a point that took part.
    pub fn entrant(&self, point: usize) -> Option<&EntrantResult> {
        self.entrants.iter().find(|entrant| entrant.point == point)
    }
}

/// How sure a race is of its winner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One candidate beat all others.
    Decided,
    /// This many candidates, two or more, could not be told apart or differ by less than δ.
    Tied(usize),
    /// The measurements do not bear a decision, for this reason. A decided row is never overwritten by it.
    Ambiguous(String),
}

/// One entrant's result.
#[derive(Clone, Debug, PartialEq)]
pub struct EntrantResult {
    /// Its point.
    pub point: usize,
    /// How it fared.
    pub status: Status,
    /// Its times in the blocks that count, in nanoseconds, in block order from the first.
    pub samples: Vec<f64>,
    /// The 20 % trimmed mean of them.
    pub trimmed_mean_ns: Option<f64>,
    /// Trimmed mean of its log-ratios to the leader over the blocks that both ran in; 0 for the leader.
    pub log_ratio: Option<f64>,
    /// The 95 % interval of that.
    pub interval: Option<Interval>,
}

/// How an entrant fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The fastest.
    Leader,
    /// Not told apart from the leader.
    Tied,
    /// Slower than the leader.
    Eliminated {
        /// The number of the look that it lost at, from 1; 0 where it was hopeless before the first.
        look: usize,
        /// Blocks that it had run by then.
        blocks: usize,
    },
    /// It left, for this reason.
    Failed(String),
}

/// A move of the sentinel's level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriftEvent {
    /// The block after which it was found, counting every complete block from 0.
    pub found: usize,
    /// The first block after the change, likewise.
    pub since: usize,
    /// By how much, as a log-ratio of after to before.
    pub shift: f64,
    /// Whether it stayed, so that the race began again.
    pub restarted: bool,
}
