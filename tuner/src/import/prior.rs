//! Prior evidence: what another tuner found, one line a row, in a file that no command takes decisions from.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::diag::{BadInput, Fault};

/// One row of another tuner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// Whose file it is from.
    pub source: String,
    /// AITER's family, or empty.
    pub family: String,
    /// The file's name.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// Architecture or product, as the file says.
    pub device: String,
    /// Compute units, where it says so.
    pub units: Option<u32>,
    /// Versions it records.
    pub software: String,
    /// Name of the GEMM in the declaration.
    pub weight: String,
    /// Rows of the activation.
    pub m: u32,
    /// Output features.
    pub n: u32,
    /// Input features.
    pub k: u32,
    /// The activation's format.
    pub activation: String,
    /// The weight's format.
    pub format: String,
    /// Granularity of the scales.
    pub scaling: String,
    /// Element type of the output.
    pub out: String,
    /// Whether a bias was added.
    pub bias: bool,
    /// Whether the weight was stored shuffled.
    pub preshuffled: bool,
    /// What else the source's key held: transpositions, leading dimensions.
    pub variant: String,
    /// The kernel's library.
    pub library: String,
    /// The kernel's name, or its parameters.
    pub kernel: String,
    /// Its tile, where the name says so.
    pub tile: String,
    /// Parts that K was split into, where the meaning of the column is known.
    pub split_k: Option<u32>,
    /// The column as it was written.
    pub split_k_written: Option<i32>,
    /// Time, in nanoseconds; none where it is a placeholder.
    pub time_ns: Option<f64>,
    /// Share of wrong elements that was recorded.
    pub error_ratio: Option<f64>,
    /// The kernel's number in the source's own list, which holds for one build.
    pub index: Option<i32>,
    /// The source's own key or row, where the other columns do not give it.
    pub origin: String,
    /// What makes the row doubtful, or empty.
    pub remark: String,
}

/// The file's text, in the order of weights and M.
///
/// # Panics
/// Never: it writes to memory.
pub fn to_csv(priors: &[Prior]) -> String {
    let mut sorted: Vec<&Prior> = priors.iter().collect();
    sorted.sort_by(|a, b| {
        (&a.weight, a.m, &a.device, a.units, &a.file, a.line)
            .cmp(&(&b.weight, b.m, &b.device, b.units, &b.file, b.line))
    });
    let mut writer = csv::Writer::from_writer(Vec::new());
    for prior in sorted {
        writer.serialize(prior).expect("writing to memory");
    }
    String::from_utf8(writer.into_inner().expect("writing to memory")).expect("all fields are UTF-8")
}

/// Reads a file of prior evidence; `file` is for messages.
///
/// # Errors
/// All faulty lines.
pub fn from_csv(file: &Path, text: &str) -> Result<Vec<Prior>, BadInput> {
    let (mut priors, mut faults) = (Vec::new(), Vec::new());
    for record in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        match record {
            Ok(prior) => priors.push(prior),
            Err(error) => faults.push(Fault {
                file: file.into(),
                line: error.position().map(|position| position.line() as usize),
                field: String::new(),
                message: error.to_string(),
                help: "this file is written by `tilewright import`: import again".into(),
            }),
        }
    }
    if faults.is_empty() { Ok(priors) } else { Err(BadInput(faults)) }
}
