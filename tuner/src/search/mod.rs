//! Finds good points of a space in few measurements.
//!
//! **Problem.** A space of kernel configs has 10³ to 10⁵ legal points, its optimum is lonely (one in ten thousand lies
//! within 1 %), and one evaluation costs a compilation, a correctness check and a few launches.
//!
//! **Method.** Seeds first (the default, incumbents and their tie sets, the nearest problems' winners, other devices' top
//! ten), all measured again; then a [`Strategy`] proposes points from what is known. Points are measured in small groups,
//! interleaved with launches of one *sentinel*, and known by their ratio to it, since absolute times do not survive a clock
//! change, let alone another device. A point whose first launch is over 1.25 times the best is not launched again. What
//! comes out is a ranking for [`crate::race`] to decide.
//!
//! A few launches leave the luckiest points in front; where the strategy has a model, the ranking is by what that believes.
//!
//! **Tried and left out.** On the hardest of three recorded GEMM spaces (one set of 100 seeds): a maximin initial design instead of
//! a random one, initial designs of 6 points, five times the candidates drawn anywhere, wider and narrower expected
//! improvement, other caps and other priors of the decays moved the median number of evaluations to 5 % from 74 to
//! between 66 and 80; none was kept on so little. A prior of additive effects of the
//! parameters' values, learnt from 400 records of the two other devices (ridge regression on capped log-ratios), would
//! there by its order alone come within 5 % after 4.5 to 17 points in the median; between problems on one CPU, left-out
//! contests of a journal correlated with it by 0.12 to 0.22 in rank only. It is not built in: what it knows of the same
//! problem the warm start's seeds say already. Ranking by the model's means is built in; on the
//! recordings the figures are those of the measured ratios, on a synthetic space with 15 % of noise (20 seeds) points were
//! 0.3 % better.
//!
//! **Invariants.** No point is measured before the observer admitted it (correctness before timing). A prior orders and
//! never excludes. The outcome is a function of the space, seeds, options, known evaluations, and what the bench says.

mod batched;
mod guided;
mod ils;
mod measure;
mod options;
mod run;
mod simple;
mod space;
mod surrogate;
mod view;

use thiserror::Error;

pub use batched::Batched;
pub use guided::Guided;
pub use ils::Ils;
pub use options::SearchOptions;
pub use run::search;
pub use simple::{Exhaustive, RandomOrder};
pub use space::{Space, SpaceError};
pub use view::View;

use crate::bench::Sample;
use crate::stats::Rng;

/// Proposes what to evaluate next.
pub trait Strategy {
    /// What it is called on the command line and in a journal.
    fn name(&self) -> &'static str;

    /// At least one point and at most `most`, none of them tried before ([`View::was_tried`]), or none where it has nothing
    /// left to propose. It sees the results of all earlier proposals.
    fn propose(&mut self, view: &View<'_>, rng: &mut Rng, most: usize) -> Vec<usize>;

    /// What it believes the log-ratios of evaluated points to be, of those that it has a belief about. A few launches of
    /// each of two hundred points leave the luckiest in front, not the fastest; a model that saw all of them knows better.
    fn believed(&mut self, _view: &View<'_>) -> Vec<(usize, f64)> {
        Vec::new()
    }
}

/// What is known of a point: enough for a later search to go without measuring it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Its time over the sentinel's, measured next to it.
    pub ratio: f64,
    /// Launches that this rests on.
    pub launches: usize,
}

/// Sees a search as it happens and guards it. All methods default to nothing.
pub trait SearchObserver {
    /// These points are about to be admitted and measured together.
    fn group(&mut self, _points: &[usize]) {}
    /// The correctness gate: called once before a point's first launch.
    ///
    /// # Errors
    /// The reason for which the point is disqualified.
    fn admit(&mut self, _point: usize) -> Result<(), String> {
        Ok(())
    }
    /// One launch was timed; the sentinel's too.
    fn sample(&mut self, _point: usize, _sample: &Sample) {}
    /// A point was evaluated.
    fn evaluated(&mut self, _point: usize, _evaluation: &Evaluation) {}
    /// A point was disqualified or failed.
    fn rejected(&mut self, _point: usize, _reason: &str) {}
}

impl SearchObserver for () {}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOutcome {
    /// Every evaluated point, the best first; known ones that the search asked for included.
    pub ranked: Vec<(usize, Evaluation)>,
    /// The same points with the ratio that the strategy believes in ([`Strategy::believed`]), else the measured one; the best
    /// first. What a race should decide between.
    pub believed: Vec<(usize, f64)>,
    /// Points that were disqualified or failed, with the reason, in order.
    pub rejected: Vec<(usize, String)>,
    /// Points in the order in which they were evaluated or rejected; those that were known not among them.
    pub trail: Vec<usize>,
    /// Evaluations spent, rejected points included.
    pub evaluations: usize,
    /// Launches timed, sentinels and warm-up included.
    pub measurements: usize,
    /// Evaluations that were known and therefore not spent.
    pub saved: usize,
    /// Why it ended.
    pub ended: Ended,
}

/// Why a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The strategy had nothing left to propose.
    Exhausted,
    /// [`SearchOptions::max_evaluations`] were spent.
    OutOfEvaluations,
    /// [`SearchOptions::patience`] evaluations brought no improvement.
    OutOfPatience,
    /// [`SearchOptions::max_time_ns`] passed.
    OutOfTime,
    /// The bench was stopped.
    Stopped,
    /// A recorded bench had no more to give.
    TraceExhausted,
    /// The sentinel could not be measured, for this reason, so nothing can be compared.
    SentinelFailed(String),
}

/// Why a search could not start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SearchError {
    /// A seed or the sentinel is no point of the space.
    #[error("point {point} is outside the space of {len} points")]
    NoSuchPoint {
        /// The point.
        point: usize,
        /// The size of the space.
        len: usize,
    },
}

/// Names of the strategies, for the command line.
pub const STRATEGIES: [&str; 4] = ["guided", "ils", "random", "exhaustive"];

/// The strategy of a name, with its defaults.
pub fn strategy(name: &str) -> Option<Box<dyn Strategy>> {
    match name {
        "guided" => Some(Box::new(Guided::default())),
        "ils" => Some(Box::new(Ils::default())),
        "random" => Some(Box::new(RandomOrder::default())),
        "exhaustive" => Some(Box::new(Exhaustive::default())),
        _ => None,
    }
}
