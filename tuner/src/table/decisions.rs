//! What a run decided: the content of `tables/<device>/<model>.toml`.
//!
//! People review this file in a diff, so it is written in one order with short lines ([`Decisions::to_toml`]), and
//! reading gives back exactly what was written. Kernels are canonical texts, never indices.

use std::fmt;

use tilewright_kernels::backend::{Regime, SIMULATED};
use tilewright_kernels::{ConfigId, Device, Epilogue, Format, Layout, OutType, Scaling};

use super::copies::SecondCopy;

/// The newest version of this file's meaning. A newer one is refused. A file is written in the oldest that can say it:
/// 2 where a weight is stored twice, 1 elsewhere.
pub const SCHEMA: u32 = 2;

/// Decisions for one model on one device kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Decisions {
    /// Model name: lower-case letters, digits, `.`, `_`, `-`; the files' stem.
    pub model: String,
    /// Tensor-parallel ranks the shapes are divided by.
    pub tensor_parallel: u32,
    /// Program and version that decided, for instance `tilewright 0.1.0`.
    pub generator: String,
    /// Hash of the declaration's content.
    pub declaration: u64,
    /// Seed of search and race.
    pub seed: u64,
    /// Where the operands were when a timed launch began.
    pub regime: Regime,
    /// The device they were made on.
    pub device: DeviceRecord,
    /// One entry per weight, in the declaration's order.
    pub weights: Vec<Weight>,
}

/// The device of a table: its identity, and what the predicate needs to know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRecord {
    /// [`tilewright_kernels::backend::Fingerprint::key`]: the folder name.
    pub key: String,
    /// The fingerprint's text.
    pub fingerprint: String,
    /// Backend, capabilities and sizes.
    pub device: Device,
}

impl DeviceRecord {
    /// Whether the times are a model's: the fingerprint says so, and the file repeats it where people look.
    pub fn is_simulated(&self) -> bool {
        let mut parts = self.fingerprint.split(" | ");
        parts.nth(2).is_some_and(|features| features.split('+').any(|feature| feature == SIMULATED))
    }
}

/// The plan of one weight and its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// Name in the declaration.
    pub name: String,
    /// Output features.
    pub n: u32,
    /// Input features.
    pub k: u32,
    /// Times it is multiplied with per forward pass.
    pub count: u64,
    /// Format the activation is multiplied in.
    pub activation: Format,
    /// Format it is stored in.
    pub format: Format,
    /// Granularity of its scales.
    pub scaling: Scaling,
    /// Layout it is stored in.
    pub layout: Layout,
    /// Element type of the output.
    pub out: OutType,
    /// What happens before the output is stored.
    pub epilogue: Epilogue,
    /// Whether only kernels that give the same bits on every run may run it.
    pub deterministic: bool,
    /// Another copy, for large M.
    pub second: Option<SecondCopy>,
    /// The format's relative error on this weight, where it was measured.
    pub error: Option<f64>,
    /// The declaration's limit of `error`.
    pub max_error: Option<f64>,
    /// Other plans that were considered, in the order they were ranked.
    pub alternatives: Vec<Alternative>,
    /// One row per measured M, ascending.
    pub rows: Vec<Row>,
}

/// A plan that was considered for a weight and not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Format the activation would be multiplied in.
    pub activation: Format,
    /// Format it would be stored in.
    pub format: Format,
    /// Layout, where the formats came as far as being tried in one.
    pub layout: Option<Layout>,
    /// Its cost over the declared M distribution relative to the plan's, where it was measured; above 1 is slower.
    pub ratio: Option<f64>,
    /// The format's relative error on this weight, where it was measured.
    pub error: Option<f64>,
    /// Why it was not taken, for instance `slower` or `over max_error`.
    pub reason: String,
}

/// The decision at one measured M.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Rows of the activation.
    pub m: u32,
    /// Relative frequency of launches at this M: the declared share of the rows, over M.
    pub weight: f64,
    /// How sure the decision is.
    pub verdict: Verdict,
    /// Canonical text of the winner.
    pub config: String,
    /// The hash of `config`.
    pub id: ConfigId,
    /// Trimmed mean time of the winner, in nanoseconds.
    pub time_ns: f64,
    /// Interval of `time_ns`: lower and upper end.
    pub interval_ns: [f64; 2],
    /// Canonical text of the default config, the baseline it was raced against.
    pub default: String,
    /// Trimmed mean time of the default config.
    pub default_ns: f64,
    /// Up to two kernels to run where the winner fails, best first; same format and layout, launchable at `m`.
    pub runner_ups: Vec<String>,
    /// Kernels that could not be told from the winner, without the winner itself; same format and layout,
    /// launchable at `m`. The compiler may take one of them to need fewer kernels.
    pub tie_set: Vec<Tie>,
}

/// A member of a tie set.
#[derive(Clone, Debug, PartialEq)]
pub struct Tie {
    /// Its time relative to the winner's.
    pub ratio: f64,
    /// Canonical text.
    pub config: String,
}

/// How sure a decision is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every rival was eliminated.
    Decided,
    /// This many kernels, the winner included, could not be told apart.
    Tied(u32),
    /// The measurements do not support a decision, for this reason.
    Ambiguous(String),
}

impl Verdict {
    /// Reads what `Display` prints.
    pub fn parse(text: &str) -> Option<Self> {
        let argument = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        match text {
            "decided" => Some(Verdict::Decided),
            _ => argument("tied")
                .and_then(|count| count.parse().ok().map(Verdict::Tied))
                .or_else(|| argument("ambiguous").map(|reason| Verdict::Ambiguous(reason.to_owned()))),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Decided => f.write_str("decided"),
            Verdict::Tied(count) => write!(f, "tied({count})"),
            Verdict::Ambiguous(reason) => write!(f, "ambiguous({reason})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_read_back_as_written() {
        for verdict in [
            Verdict::Decided,
            Verdict::Tied(3),
            Verdict::Ambiguous("A/A interval (1.2 %) excludes 0".into()),
            Verdict::Ambiguous(String::new()),
        ] {
            assert_eq!(Verdict::parse(&verdict.to_string()), Some(verdict));
        }
        for text in ["", "Decided", "tied", "tied()", "tied(x)", "ambiguous", "decided(1)"] {
            assert_eq!(Verdict::parse(text), None, "{text}");
        }
    }
}
