//! What a journal holds.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tilewright_kernels::backend::Fingerprint;
use tilewright_kernels::{BackendKind, Caps, Device};

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a run has one header; boxing it would burden every reader")]
pub enum Record {
    /// A run begins.
    Run(RunHeader),
    /// Error of a weight format against the un-quantised operands.
    Quality {
        /// Name of the GEMM in the declaration.
        gemm: String,
        /// `activation/weight` formats.
        formats: String,
        /// Relative error of the output, Frobenius norm.
        error: f64,
    },
    /// There are no answers about a weight, for instance because the device has no room for it.
    Refused {
        /// Name of the GEMM in the declaration.
        gemm: String,
        /// Why.
        reason: String,
    },
    /// A candidate is about to be run for the first time in a contest. Without an answer after it, it was in flight when
    /// the run died.
    Trying {
        /// Canonical text of the problem variant and config.
        candidate: String,
    },
    /// The run was interrupted before this and goes on here.
    Resumed {
        /// Nanoseconds since the run began, without the interruption.
        at: f64,
    },
    /// This device took a weight from the queue that several share.
    Take {
        /// Its position among the works.
        work: usize,
        /// The time it may take, nanoseconds, if the run has a budget.
        time_ns: Option<f64>,
    },
    /// A contest begins.
    Contest {
        /// Which.
        key: ContestKey,
        /// How many legal candidates it has.
        candidates: usize,
    },
    /// Candidates that the backend suggested for a problem.
    Suggested {
        /// Canonical text of the problem.
        problem: String,
        /// Canonical texts of the configs, in the backend's order.
        configs: Vec<String>,
    },
    /// The correctness gate's answer for a candidate.
    Gate {
        /// Canonical text of the problem variant and config.
        candidate: String,
        /// Why it was refused, if it was.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    /// One timed launch.
    Sample {
        /// Hash of the candidate's canonical text, 16 hexadecimal digits.
        id: String,
        /// Duration, nanoseconds.
        ns: f64,
        /// Nanoseconds since the run began.
        at: f64,
    },
    /// A timed launch that failed.
    Failed {
        /// Hash of the candidate's canonical text.
        id: String,
        /// Why.
        reason: String,
    },
    /// Measuring was stopped here, by the budget or by the user.
    Stopped {
        /// Nanoseconds since the run began.
        at: f64,
    },
    /// The search has finished with a candidate.
    Evaluated(Evaluated),
    /// How a weight will be stored and multiplied.
    Plan(PlanRecord),
    /// The final verdict of a contest.
    Verdict(Verdict),
    /// The table is decided and about to be written.
    Decided {
        /// Hash of the decisions as they are written.
        table: String,
    },
    /// The run ended by itself and wrote its table.
    End {
        /// Timed launches of this run, warm-up included.
        measurements: u64,
        /// Candidates it evaluated.
        evaluations: u64,
    },
}

/// What a run is: everything that its decisions depend on besides the device's answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Version of the tuner.
    pub version: String,
    /// Canonical fingerprint text of the device.
    pub fingerprint: String,
    /// Capabilities and sizes, as replay needs them.
    pub device: DeviceRecord,
    /// Hash of the declaration's content.
    pub declaration: String,
    /// Hash of the tables that were there when the run began: seeds and incumbents come from them.
    pub tables: String,
    /// Random seed.
    pub seed: u64,
    /// Time budget in seconds, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget_s: Option<f64>,
    /// Time for one weight in seconds, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_gemm_s: Option<f64>,
    /// `cold` or `hot`.
    pub regime: String,
    /// Shortest time the clock can tell apart, nanoseconds.
    pub resolution_ns: f64,
    /// Name and version of the tools that make the device's kernels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub tools: BTreeMap<String, String>,
    /// Which of how many devices that shared one queue this is the run of, from 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<[usize; 2]>,
}

/// A [`tilewright_kernels::Device`] as written in a journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// Backend name.
    pub backend: String,
    /// Vendor's name of the device.
    pub model: String,
    /// Fingerprint features.
    pub features: Vec<String>,
    /// Names of the capabilities.
    pub caps: Vec<String>,
    /// Cores, compute units or multiprocessors.
    pub units: u32,
    /// Cache sizes in KiB: level 1, level 2, last level.
    pub caches_kib: [u32; 3],
}

impl DeviceRecord {
    /// What is written of a device.
    pub fn of(device: &Device, fingerprint: &Fingerprint) -> Self {
        DeviceRecord {
            backend: device.backend.name().into(),
            model: fingerprint.model.clone(),
            features: fingerprint.features.clone(),
            caps: device.caps.names().map(str::to_string).collect(),
            units: device.units,
            caches_kib: [device.l1_kib, device.l2_kib, device.llc_kib],
        }
    }

    /// The device that was written down.
    ///
    /// # Errors
    /// If its backend is none of this version.
    pub fn device(&self) -> anyhow::Result<(Device, Fingerprint)> {
        let backend = BackendKind::from_name(&self.backend).with_context(|| {
            format!("the device is of a backend {:?} that this version does not have", self.backend)
        })?;
        let mut caps = Caps::NONE;
        for (name, cap) in Caps::NAMES {
            if self.caps.iter().any(|recorded| recorded == name) {
                caps = caps.with(*cap);
            }
        }
        let [l1_kib, l2_kib, llc_kib] = self.caches_kib;
        let device = Device { backend, caps, units: self.units, l1_kib, l2_kib, llc_kib };
        let (model, features) = (self.model.clone(), self.features.clone());
        Ok((device, Fingerprint { backend, model, features, units: self.units }))
    }
}

/// One (N, K, M) with the problem variants that compete in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContestKey(pub String);

/// A candidate with its search result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// Contest.
    pub key: ContestKey,
    /// Canonical text of the problem variant and config.
    pub candidate: String,
    /// Time as a ratio to the sentinel measured beside it; absent if the candidate failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio: Option<f64>,
    /// Launches spent on it.
    pub launches: u32,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// The plan of one weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The contests it was chosen over, all Ms of the weight: their keys joined.
    pub work: String,
    /// `activation/weight/layout`.
    pub plan: String,
    /// Error of its formats.
    pub error: f64,
    /// A second copy, for large M.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub second: Option<SecondPlan>,
    /// The other plans, best first.
    pub alternatives: Vec<AlternativeRecord>,
}

/// The plan of a weight's second copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecondPlan {
    /// The first M it serves.
    pub from: u32,
    /// `activation/weight/layout`.
    pub plan: String,
    /// Error of its formats.
    pub error: f64,
}

/// A plan that was not taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlternativeRecord {
    /// `activation/weight/layout`, or `activation/weight` where quality excluded the formats.
    pub plan: String,
    /// Its cost over the declared Ms as a ratio to the chosen plan's, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio: Option<f64>,
    /// Error of its formats.
    pub error: f64,
    /// Why it was not taken.
    pub reason: String,
}

/// The end of a contest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Contest.
    pub key: ContestKey,
    /// Rows of A.
    pub m: u32,
    /// `decided`, `tied(n)` or `ambiguous(reason)`.
    pub verdict: String,
    /// Everybody who was in the finals, winner first.
    pub finalists: Vec<VerdictRow>,
}

/// A finalist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictRow {
    /// Canonical text of the problem variant and config.
    pub candidate: String,
    /// Launches that count.
    pub launches: usize,
    /// Trimmed mean time, nanoseconds.
    pub ns: f64,
    /// 95 % interval of it.
    pub interval_ns: [f64; 2],
    /// Ratio to the winner with its interval: estimate, low, high.
    pub ratio: [f64; 3],
    /// `winner`, `tied`, `eliminated` or `failed`.
    pub status: String,
    /// Why it failed, where it did.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
    /// Whether it is the default config.
    pub default: bool,
}
