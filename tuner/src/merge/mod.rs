//! Joining what several runs left: journals with journals, tables with tables.
//!
//! The result depends on what the inputs hold, not on the order in which they are named, and the inputs are only read.
//! Where two tables say different things about the same row, the better evidence stands (decided, then tied, then
//! ambiguous; then what is known more closely), and a note says so.

mod journals;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::diag::{BadInput, Fault};
use crate::files::write_atomic;
use crate::journal;
use crate::shapes::Declaration;
use crate::table::{self, evidence};

pub use journals::merge_journals;
pub use tables::{Input, merge_tables};

/// What was written, and what was decided on the way.
#[derive(Debug, Default)]
pub struct Merged {
    /// The files.
    pub written: Vec<PathBuf>,
    /// Conflicts and how they were decided, damage that was left out: one line each.
    pub notes: Vec<String>,
}

/// Merges files into `out/<device>/<model>.*`. `whole` is the declaration that the inputs are shards of, if they are.
///
/// # Errors
/// Inputs that cannot be read or do not belong together, an output that is an input, or a file that cannot be written.
pub fn merge(inputs: &[PathBuf], whole: Option<&Declaration>, out: &Path) -> anyhow::Result<Merged> {
    let mut faults = Vec::new();
    let mut tables: BTreeMap<(String, String), Vec<Input>> = BTreeMap::new();
    let mut journals: BTreeMap<(String, String), Vec<Vec<journal::Record>>> = BTreeMap::new();
    let mut merged = Merged::default();
    for path in inputs {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => match table::read(path) {
                Ok(decisions) => {
                    let evidence = match evidence::read(&path.with_extension("csv")) {
                        Ok(evidence) => evidence,
                        Err(bad) => {
                            merged.notes.push(format!("merged without its evidence: {bad}"));
                            Vec::new()
                        }
                    };
                    let model = whole.map_or(&decisions.model, |whole| &whole.model).clone();
                    let input = Input { path: path.clone(), decisions, evidence };
                    tables.entry((input.decisions.device.key.clone(), model)).or_default().push(input);
                }
                Err(bad) => faults.extend(bad.0),
            },
            Some("journal") => match read_journal(path, whole, &mut merged.notes) {
                Ok((key, records)) => journals.entry(key).or_default().push(records),
                Err(fault) => faults.push(fault),
            },
            _ => faults.push(Fault::of_file(
                path,
                "neither a table (.toml) nor a journal (.journal)",
                "name what `tilewright tune` wrote",
            )),
        }
    }
    let mut outputs: Vec<(PathBuf, Output)> = Vec::new();
    for ((device, model), parts) in tables {
        match merge_tables(parts, whole) {
            Ok((decisions, evidence, notes)) => {
                merged.notes.extend(notes);
                outputs.push((
                    out.join(&device).join(format!("{model}.toml")),
                    Output::Table(decisions, evidence),
                ));
            }
            Err(fault) => faults.push(fault),
        }
    }
    for ((device, model), parts) in journals {
        let path = out.join(&device).join(format!("{model}.journal"));
        outputs.push((path, Output::Journal(merge_journals(parts))));
    }
    for (path, _) in &outputs {
        let same = |input: &&PathBuf| match (input.canonicalize(), path.canonicalize()) {
            (Ok(input), Ok(output)) => input == output,
            _ => false,
        };
        if let Some(input) = inputs.iter().find(same) {
            faults.push(Fault::of_file(input, "is an input and would be written", "choose another --out"));
        }
    }
    if !faults.is_empty() {
        return Err(BadInput(faults).into());
    }
    for (path, output) in outputs {
        let folder = path.parent().expect("it has a device's folder");
        let cannot =
            |error: std::io::Error| anyhow::anyhow!("{}: cannot be written: {error}", path.display());
        std::fs::create_dir_all(folder).map_err(cannot)?;
        match output {
            Output::Table(decisions, evidence) => {
                let compiled = table::write_all(folder, &decisions, &evidence)?;
                merged.notes.extend(compiled.warnings);
            }
            Output::Journal(text) => write_atomic(&path, text.as_bytes()).map_err(cannot)?,
        }
        merged.written.push(path);
    }
    Ok(merged)
}

enum Output {
    Table(table::Decisions, Vec<table::Finalist>),
    Journal(String),
}

/// Device key and model of a journal, and its records.
fn read_journal(
    path: &Path,
    whole: Option<&Declaration>,
    notes: &mut Vec<String>,
) -> Result<((String, String), Vec<journal::Record>), Fault> {
    let reading =
        journal::read(path).map_err(|error| Fault::of_file(path, error.to_string(), "check the path"))?;
    notes.extend(reading.damaged.into_iter().map(|damage| format!("left out: {damage}")));
    let header = reading.records.iter().find_map(|record| match record {
        journal::Record::Run(header) => Some(header),
        _ => None,
    });
    let header = header
        .ok_or_else(|| Fault::of_file(path, "holds no run", "name a journal that `tilewright tune` wrote"))?;
    let device = header.device.device();
    let (_, fingerprint) = device.map_err(|error| {
        Fault::of_file(path, error.to_string(), "merge it with the version that wrote it")
    })?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let model = whole.map_or(stem, |whole| &whole.model).to_string();
    Ok(((fingerprint.key(), model), reading.records))
}
