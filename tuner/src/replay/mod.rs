//! Replays brute-forced spaces through the real search and race.
//!
//! A recording holds every legal config of one problem on one device with raw timings of each, so that a search can be run
//! against it a hundred times in seconds and its result be compared with the true optimum: what tuning the tuner needs
//! (Willemsen et al. 2025 tune optimisers that way). Nothing here knows what a parameter means.
//!
//! **What is served and what is true.** A recording's first samples were taken before clocks settled; they are skipped.
//! Of the steady ones, every second is served to search and race, in order and over again. How near a search comes is
//! counted in medians over all steady samples, as published replays do. Regret is counted in 20 % trimmed means, of a race
//! over the half that is not served: where a clock has two states, a median of two dozen samples jumps between them by
//! more than the differences that a race is about.

mod bench;
mod experiments;
mod recording;
mod report;

pub use bench::RecordedBench;
pub use experiments::{
    Plan, RaceSummary, SearchSummary, TuningSummary, device_race, replay_race, replay_search, replay_tuning,
};
pub use recording::Recording;
pub use report::{Report, render};
