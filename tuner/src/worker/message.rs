//! What tuner and worker say to each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::journal::DeviceRecord;
use crate::tune::Job;

/// A question to the worker, with a number that its answer repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// The error of a format pair, `activation/weight`, on a job's weight.
    Quality {
        /// Whose weight.
        job: Job,
        /// The pair.
        formats: String,
    },
    /// Does the device work? Multiplies something small with the default config.
    SelfTest,
    /// Make the operands of a job in these weight formats.
    Open {
        /// Whose.
        job: Job,
        /// Names of the formats.
        formats: Vec<String>,
    },
    /// Candidates of the open job that no enumeration gives.
    Suggest {
        /// Rows.
        m: u32,
        /// `activation/weight`.
        formats: String,
    },
    /// These candidates are asked about next: compile them together.
    Warm {
        /// Rows.
        m: u32,
        /// Canonical texts.
        candidates: Vec<String>,
    },
    /// The correctness gate for a candidate of the open job.
    Admit {
        /// Rows.
        m: u32,
        /// Canonical text.
        candidate: String,
    },
    /// One timed launch.
    Time {
        /// Rows.
        m: u32,
        /// Canonical text.
        candidate: String,
        /// Which copy of the operands.
        slot: usize,
    },
}

/// What the worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The device is open. Said once, first.
    Hello(Box<Hello>),
    /// The worker is alive, whatever its candidate does. Said twice a second.
    Alive,
    /// The error asked for.
    Quality(f64),
    /// Done: opened, or admitted.
    Done,
    /// Canonical texts of the configs asked for.
    Suggested(Vec<String>),
    /// Nanoseconds of the launch.
    Timed(f64),
    /// The question has no good answer, or the candidate is out; the worker goes on.
    Failed(String),
    /// The candidate failed and the device does not work in this process any more; the worker ends.
    Poisoned(String),
}

/// What a worker says of its device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The device.
    pub device: DeviceRecord,
    /// Shortest time its clock can tell apart, nanoseconds.
    pub resolution_ns: f64,
    /// Name and version of the tools that make its kernels.
    pub tools: BTreeMap<String, String>,
    /// Whether its times are made up, in tests: the run's clock is then their sum.
    pub simulated: bool,
}

/// A message with the number of the question it belongs to; 0 for what was not asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) message: T,
}
