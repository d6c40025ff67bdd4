//! Other tuners' files: AITER's csv, TunableOp's csv, hipBLASLt's tuning files, vLLM's and AITER's Triton JSON.
//!
//! Problem: a model that was tuned elsewhere should not have to be declared again, and what was learned there should
//! not be lost. Method: one reader a source makes [`Foreign`], rows in one form with everything the file said; [`declare`]
//! turns those into declarations and *prior* evidence. Readers never fail on a row: what is wrong with one is a fault
//! beside the good ones, so that [`crate::lint`] works over the same rows.
//!
//! Invariants:
//! * A prior is never a decision: it carries its device, CU count and software, and is written to a file of its own.
//! * What a declaration cannot express is listed with its line and reason, not dropped.
//! * Input files are only read.
//! * What a file can take of memory is bounded: by its size, its rows and its faults; what is beyond is counted, and said.

pub mod aiter;
mod blas;
mod convert;
mod foreign;
mod hipblaslt;
mod prior;
mod triton;
mod tunableop;
mod vllm;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::diag::BadInput;

pub use convert::{Converted, Unexpressed, declare};
pub(crate) use convert::{ERROR_TOLERANCE, aiter_unknown, is_placeholder};
pub use foreign::{Element, Entry, FAULTS_MAX, Foreign, NONE, Operation, ROWS_MAX, Scales};
pub use prior::{Prior, from_csv as priors_from_csv, to_csv as priors_to_csv};

/// Largest file that is read: 64 MiB. With [`ROWS_MAX`] and [`FAULTS_MAX`] it bounds what a hostile file can take.
pub const FILE_MAX: u64 = 64 << 20;

/// Largest JSON file: its tree takes many times its text.
const JSON_MAX: usize = 4 << 20;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Source {
    /// AITER's tuned and untuned csv tables.
    Aiter,
    /// PyTorch TunableOp's results and untuned lists.
    #[value(name = "tunableop")]
    TunableOp,
    /// hipBLASLt's tuning files and bench log lines.
    #[value(name = "hipblaslt")]
    HipBlasLt,
    /// vLLM's and SGLang's JSON by M.
    Vllm,
    /// AITER's Triton JSON by bounds of M.
    Triton,
}

impl Source {
    /// The name on the command line and in evidence.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Aiter => "aiter",
            Source::TunableOp => "tunableop",
            Source::HipBlasLt => "hipblaslt",
            Source::Vllm => "vllm",
            Source::Triton => "triton",
        }
    }

    /// Whose file a text is, by its content and, for JSON, its keys.
    pub fn detect(text: &str) -> Option<Self> {
        let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        if first.starts_with('{') {
            let bounds = ["\"M_LEQ_", "\"M_GEQ_", "\"any\""];
            return Some(if bounds.iter().any(|key| text.contains(key)) {
                Source::Triton
            } else {
                Source::Vllm
            });
        }
        if first.starts_with("Validator,") || first.contains("TunableOp_") {
            return Some(Source::TunableOp);
        }
        if first.starts_with("Git Version") || first.contains("hipblaslt-bench") || hipblaslt::is_row(first) {
            return Some(Source::HipBlasLt);
        }
        // Prior evidence has these columns too, and is no table.
        (!first.starts_with("source,file,line,") && aiter::is_header(first)).then_some(Source::Aiter)
    }
}

/// The text of a file of bounded size.
///
/// # Errors
/// If it cannot be read, is too large or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, BadInput> {
    let unreadable = |error: std::io::Error| {
        BadInput::one(path, format!("cannot be read: {error}"), "check the path and its permissions")
    };
    let mut text = String::new();
    let read = File::open(path).map_err(unreadable)?.take(FILE_MAX + 1).read_to_string(&mut text);
    if read.map_err(unreadable)? as u64 > FILE_MAX {
        return Err(BadInput::one(path, "is larger than 64 MiB", "this is no tuning table"));
    }
    Ok(text)
}

/// Reads a file's text; `path` names it, and its name may say what the content does not.
///
/// # Errors
/// If the file as a whole is not of this source; faults of rows are in [`Foreign::faults`].
pub fn parse(source: Source, path: &Path, text: &str) -> Result<Foreign, BadInput> {
    let is_json = matches!(source, Source::Vllm | Source::Triton);
    if is_json && text.len() > JSON_MAX {
        return Err(BadInput::one(path, "is larger than 4 MiB", "a file of configs by M has a few KiB"));
    }
    let mut foreign = match source {
        Source::Aiter => aiter::parse(path, text),
        Source::TunableOp => tunableop::parse(path, text),
        Source::HipBlasLt => hipblaslt::parse(path, text),
        Source::Vllm => vllm::parse(path, text),
        Source::Triton => triton::parse(path, text),
    }?;
    foreign.seal();
    Ok(foreign)
}
