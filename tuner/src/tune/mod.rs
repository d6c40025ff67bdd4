//! `tune`: from a declaration to decisions.
//!
//! For each weight: drop format pairs that quality excludes; at every declared M search the launchable configs of the
//! pairs that are left, each candidate passing the correctness gate before its first timing; choose the plan (formats
//! and layout) that is cheapest over all Ms together; search on within that plan; race its best configs at each M; locate
//! the changes of kernel between Ms. Search and race compare within interleaved blocks only, beside the default config.
//!
//! Everything measured passes through a [`Recorder`] into the journal, and every decision is a function of the
//! recorder's answers, the seed and earlier files, so a journal can be replayed to the same table.

mod assemble;
mod candidates;
mod copies;
mod crossover;
mod explore;
mod finals;
mod observe;
mod plan;
mod progress;
mod quality;
mod queue;
mod rig;
mod run;
mod seeds;
mod summary;
mod trial;
mod weight;
mod work;

pub use assemble::assemble;
pub use candidates::{Candidate, Field, FormatPair, Plan, default_candidate};
pub use progress::{Progress, SharedProgress, Silent, TerminalProgress};
pub use queue::{Costs, InOrder, Queue, Recorded, Share, SharedQueue};
pub use rig::{DeviceRig, Recorder, ReplayRig, Rig, Stopped};
pub use run::{Outcome, Settings, tune};
pub use summary::summary;
pub use weight::WeightResult;
pub use work::{Job, Work, plan_work};
