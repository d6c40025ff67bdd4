//! Faults of tables: ours, and those of other tuners.
//!
//! Problem: a table that is wrong in one row is not refused by the library that reads it. The row runs a default kernel, or a
//! placeholder time of 0 beats every measured one when tables are merged, and nothing is said. Method: rows of every
//! source in one form ([`crate::import`]), rules over rows (`rows`), over keys and neighbours across all files of a family,
//! which the libraries merge (`tables`), and over a declaration that the tables should serve ([`coverage`]).
//!
//! Invariant: findings are a function of the files' content and order; files are only read.

pub mod coverage;
pub(crate) mod limits;
mod ours;
pub mod output;
mod rows;
mod tables;

use std::path::{Path, PathBuf};

use crate::diag::{BadInput, Fault};
use crate::import::{self, Foreign, Source};

pub use limits::Target;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A row or column that could not be read.
    Unreadable,
    /// A time that was never measured.
    PlaceholderTime,
    /// A time that no such device can reach.
    ImpossibleTime,
    /// The recorded throughput is not that of the recorded time.
    InconsistentThroughput,
    /// More wrong elements than a tuner accepts.
    ErrorOverTolerance,
    /// Two rows for one key.
    DuplicateKey,
    /// A kernel's name that the library does not know.
    UnknownKernel,
    /// A row slower than one of a larger M.
    DominatedRow,
    /// FP8 elements in an encoding that the architecture does not multiply.
    Fp8Encoding,
    /// A CU count that no device of the architecture has, or not the device at hand.
    CuCount,
    /// A table whose rows do not say the architecture.
    MissingArch,
    /// A table without rows.
    EmptyTable,
    /// Ours: what makes a table unfit to compile.
    TableFault,
    /// Ours: what is worth knowing of a table.
    TableDoubt,
    /// Ours: a generated module that its decisions do not give.
    StaleModule,
    /// A declared GEMM without a row.
    UncoveredShape,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 16] = [
        Rule::Unreadable,
        Rule::PlaceholderTime,
        Rule::ImpossibleTime,
        Rule::InconsistentThroughput,
        Rule::ErrorOverTolerance,
        Rule::DuplicateKey,
        Rule::UnknownKernel,
        Rule::DominatedRow,
        Rule::Fp8Encoding,
        Rule::CuCount,
        Rule::MissingArch,
        Rule::EmptyTable,
        Rule::TableFault,
        Rule::TableDoubt,
        Rule::StaleModule,
        Rule::UncoveredShape,
    ];

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Unreadable => "unreadable",
            Rule::PlaceholderTime => "placeholder-time",
            Rule::ImpossibleTime => "impossible-time",
            Rule::InconsistentThroughput => "inconsistent-throughput",
            Rule::ErrorOverTolerance => "error-over-tolerance",
            Rule::DuplicateKey => "duplicate-key",
            Rule::UnknownKernel => "unknown-kernel",
            Rule::DominatedRow => "dominated-row",
            Rule::Fp8Encoding => "fp8-encoding",
            Rule::CuCount => "cu-count",
            Rule::MissingArch => "missing-arch",
            Rule::EmptyTable => "empty-table",
            Rule::TableFault => "table-fault",
            Rule::TableDoubt => "table-doubt",
            Rule::StaleModule => "stale-module",
            Rule::UncoveredShape => "uncovered-shape",
        }
    }

    /// What it finds, and why that matters.
    pub const fn about(self) -> &'static str {
        match self {
            Rule::Unreadable => "a row, column or field that cannot be read",
            Rule::PlaceholderTime => {
                "a time that was never measured; merging keeps the least time, so it always wins"
            }
            Rule::ImpossibleTime => "a time above the device's peak bandwidth or arithmetic",
            Rule::InconsistentThroughput => "a throughput that does not follow from the row's shape and time",
            Rule::ErrorOverTolerance => "a share of wrong elements above what the tuner accepts",
            Rule::DuplicateKey => "two rows for one key, in one file or in files that are merged",
            Rule::UnknownKernel => {
                "a kernel name in no form the library parses; it then runs a default silently"
            }
            Rule::DominatedRow => {
                "a row more than 5 % slower than a row of a larger M, so a better kernel exists"
            }
            Rule::Fp8Encoding => {
                "FP8 in OCP encoding on gfx942, or in FNUZ elsewhere: the key is never asked for"
            }
            Rule::CuCount => "a CU count that is not the device's: the row never matches",
            Rule::MissingArch => "rows without an architecture, which match any device of their CU count",
            Rule::EmptyTable => "a table without rows: every GEMM runs a default",
            Rule::TableFault => "what keeps a tilewright table from compiling",
            Rule::TableDoubt => "what is worth knowing of a tilewright table",
            Rule::StaleModule => "a generated module that is not what its decisions compile to",
            Rule::UncoveredShape => "a declared GEMM that no row serves",
        }
    }

    /// Whether it makes a result wrong or a row dead; else it is a doubt.
    pub const fn is_error(self) -> bool {
        !matches!(
            self,
            Rule::InconsistentThroughput
                | Rule::DominatedRow
                | Rule::MissingArch
                | Rule::TableDoubt
                | Rule::UncoveredShape
        )
    }
}

/// One fault that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub rule: Rule,
    /// Where, what and what to do.
    pub fault: Fault,
}

/// What to lint for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest share of wrong elements.
    pub tolerance: f64,
    /// The device that the tables are for.
    pub device: Option<Target>,
}

impl Default for Options {
    fn default() -> Self {
        Options { tolerance: import::ERROR_TOLERANCE, device: None }
    }
}

/// What was found in a set of files.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Files that were read.
    pub files: usize,
    /// Rows that were read.
    pub rows: usize,
    /// The findings, by file in the order given, then by line.
    pub findings: Vec<Finding>,
    /// How far the tables serve declarations.
    pub coverage: Vec<coverage::Coverage>,
}

/// A file that was read, by whose it is.
enum Read {
    Ours(Vec<Finding>, usize),
    Theirs(Foreign),
}

/// Lints files together.
///
/// # Errors
/// The files that are of no kind this knows, all of them.
pub fn lint(paths: &[PathBuf], options: &Options) -> Result<(Report, Vec<Foreign>), BadInput> {
    let (mut report, mut foreign, mut faults) = (Report::default(), Vec::new(), Vec::new());
    for path in paths {
        match read(path) {
            Ok(Read::Ours(findings, rows)) => {
                report.rows += rows;
                report.findings.extend(findings);
            }
            Ok(Read::Theirs(file)) => foreign.push(file),
            Err(bad) => faults.extend(bad.0),
        }
    }
    if !faults.is_empty() {
        return Err(BadInput(faults));
    }
    report.files = paths.len();
    for file in &foreign {
        report.rows += file.entries.len();
        rows::check(file, options, &mut report.findings);
    }
    tables::check(&foreign, &mut report.findings);
    let place = |finding: &Finding| paths.iter().position(|path| *path == finding.fault.file);
    report.findings.sort_by_cached_key(|finding| (place(finding), finding.fault.line, finding.rule));
    Ok((report, foreign))
}

fn read(path: &Path) -> Result<Read, BadInput> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        let (findings, rows) = ours::check(path);
        return Ok(Read::Ours(findings, rows));
    }
    let text = import::read_text(path)?;
    let source = Source::detect(&text).ok_or_else(|| {
        BadInput::one(
            path,
            "is no table this knows",
            "tables of tilewright (.toml), AITER, TunableOp, hipBLASLt, vLLM and Triton are known",
        )
    })?;
    import::parse(source, path, &text).map(Read::Theirs)
}

/// A finding of a row.
fn finding(foreign: &Foreign, rule: Rule, line: u32, field: &str, message: String, help: &str) -> Finding {
    Finding {
        rule,
        fault: Fault {
            file: foreign.file.clone(),
            line: (line > 0).then_some(line as usize),
            field: field.into(),
            message,
            help: help.into(),
        },
    }
}
