//! Replays brute-forced spaces through the real search and race.
//!
//! A recording holds every legal config of one problem on one device with raw timings of each, so that a search can be run
//! against it a hundred times in seconds and its result be compared with the true optimum: what tuning the tuner needs
//! (Willemsen et al. 2025 tune optimisers that way). Nothing here knows what a parameter means.
//!
//! **What is served and what is true.** A recording's first samples were taken before clocks settled; they are skipped.
//! Of the steady ones, every second is served to search and race, in order and over again. True times are medians: over all
//! steady samples for the optimum that a search is after, over the half that is not served for the regret of a race.

mod bench;
mod experiments;
mod recording;
mod report;

pub use bench::RecordedBench;
pub use experiments::{Plan, RaceSummary, SearchSummary, device_race, replay_race, replay_search};
pub use recording::Recording;
pub use report::{Report, render};
