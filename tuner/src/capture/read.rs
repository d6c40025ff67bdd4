//! Reading what engines recorded.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tilewright_dispatch::record::{COLUMNS, HEADER};
use tilewright_kernels::{Epilogue, Format, OutType};

use crate::diag::{BadInput, Fault};
use crate::import::read_text;
use crate::shapes::DIMENSION_MAX;

/// Requests of one kind, as an engine recorded them.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The table's model, or empty.
    pub model: String,
    /// Its tensor-parallel ranks.
    pub tensor_parallel: u32,
    /// Output features.
    pub n: u32,
    /// Input features.
    pub k: u32,
    /// Format the activation was multiplied in.
    pub activation: Format,
    /// Format the weight was stored in.
    pub format: Format,
    /// Element type of the output.
    pub out: OutType,
    /// Whether a bias was added.
    pub bias: bool,
    /// Whether equal bits on every run were asked for.
    pub deterministic: bool,
    /// Rows of the activation.
    pub m: u32,
    /// Which rung of the ladder answered.
    pub rung: String,
    /// How often.
    pub calls: u64,
}

/// A line, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    model: String,
    tensor_parallel: u32,
    n: u32,
    k: u32,
    activation: String,
    format: String,
    #[serde(rename = "scaling")]
    _scaling: String,
    #[serde(rename = "layout")]
    _layout: String,
    out: String,
    epilogue: String,
    deterministic: bool,
    m: u32,
    rung: String,
    calls: u64,
}

/// Whether a text is a record.
pub fn is_record(text: &str) -> bool {
    text.starts_with(HEADER)
}

/// Reads the records of several engines or ranks, one after the other.
///
/// # Errors
/// All faults of all files.
pub fn read(files: &[PathBuf]) -> Result<Vec<Request>, BadInput> {
    let (mut requests, mut faults) = (Vec::new(), Vec::new());
    for file in files {
        match read_text(file).and_then(|text| parse(file, &text)) {
            Ok(read) => requests.extend(read),
            Err(bad) => faults.extend(bad.0),
        }
    }
    if faults.is_empty() { Ok(requests) } else { Err(BadInput(faults)) }
}

/// Reads one record.
///
/// # Errors
/// All faulty lines.
pub fn parse(file: &Path, text: &str) -> Result<Vec<Request>, BadInput> {
    let help = "give a file that an engine wrote with TILEWRIGHT_RECORD in its environment";
    if !is_record(text) {
        return Err(BadInput::one(file, format!("does not begin with {HEADER:?}"), help));
    }
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    if reader.headers().map_or(true, |header| !header.iter().eq(COLUMNS.split(','))) {
        return Err(BadInput::one(file, format!("the columns are not {COLUMNS}"), help));
    }
    let (mut requests, mut faults) = (Vec::new(), Vec::new());
    for (index, record) in reader.deserialize::<Line>().enumerate() {
        let line = index as u64;
        let fault = |line: u64, field: &str, message: String| Fault {
            file: file.into(),
            line: Some(line as usize),
            field: field.into(),
            message,
            help: help.into(),
        };
        match record {
            // A comment line may stand between header and rows: the reader alone knows where it is.
            Err(error) => {
                let line = error.position().map_or(line, csv::Position::line);
                faults.push(fault(line, "", error.to_string()));
            }
            Ok(read) => match request(read) {
                Ok(request) => requests.push(request),
                Err((field, message)) => faults.push(fault(line + 3, field, message)),
            },
        }
    }
    if faults.is_empty() { Ok(requests) } else { Err(BadInput(faults)) }
}

fn request(line: Line) -> Result<Request, (&'static str, String)> {
    let format =
        |field, name: &str| Format::from_name(name).ok_or((field, format!("there is no format {name:?}")));
    for (field, value) in [("n", line.n), ("k", line.k), ("m", line.m)] {
        if value == 0 || value > DIMENSION_MAX {
            return Err((field, format!("{value} is no dimension from 1 to {DIMENSION_MAX}")));
        }
    }
    Ok(Request {
        activation: format("activation", &line.activation)?,
        format: format("format", &line.format)?,
        out: OutType::from_name(&line.out).ok_or(("out", format!("there is no output {:?}", line.out)))?,
        bias: match Epilogue::from_name(&line.epilogue) {
            Some(epilogue) => epilogue == Epilogue::Bias,
            None => return Err(("epilogue", format!("there is no epilogue {:?}", line.epilogue))),
        },
        model: line.model,
        tensor_parallel: line.tensor_parallel,
        n: line.n,
        k: line.k,
        deterministic: line.deterministic,
        m: line.m,
        rung: line.rung,
        calls: line.calls,
    })
}
