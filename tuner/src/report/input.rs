//! The files of a page: tables with what lies beside them, journals, recorded misses.

use std::path::{Path, PathBuf};

use super::session::{self, Run};
use crate::capture;
use crate::compare::Side;
use crate::diag::BadInput;
use crate::import::read_text;
use crate::journal::{self, History};
use crate::shapes::Declaration;
use crate::table::{self, Decisions, Finalist, evidence};

/// Everything that was read.
pub(super) struct Inputs {
    /// Tables and journals, in the order given.
    pub(super) subjects: Vec<Subject>,
    /// What engines recorded.
    pub(super) misses: Vec<Recorded>,
    /// Every file, and what it was taken for.
    pub(super) files: Vec<(PathBuf, String)>,
}

/// What an engine recorded.
pub(super) enum Recorded {
    /// Misses as a declaration, with the recorder's remarks by GEMM.
    Misses(Declaration, Vec<(String, Vec<String>)>),
    /// Every request, with the rung that answered.
    Requests(Vec<capture::Request>),
}

/// A table with evidence and journal, or a journal.
pub(super) struct Subject {
    /// What it is called beside others: the path as it was given.
    pub(super) name: String,
    /// The model.
    pub(super) model: String,
    /// The device's fingerprint.
    pub(super) device: String,
    /// The decisions.
    pub(super) table: Option<Decisions>,
    /// The evidence.
    pub(super) evidence: Vec<Finalist>,
    /// The journal's runs.
    pub(super) runs: Vec<Run>,
    /// What is compared where there is no table.
    journal: Option<Side>,
}

impl Subject {
    /// What is compared: the table, or the last verdicts of the journal.
    pub(super) fn side(&self) -> Option<Side> {
        self.table.as_ref().map(Side::from).or_else(|| self.journal.clone())
    }
}

impl Inputs {
    pub(super) fn read(files: &[PathBuf], misses: &[PathBuf]) -> Result<Self, BadInput> {
        let mut inputs = Inputs { subjects: Vec::new(), misses: Vec::new(), files: Vec::new() };
        let mut faults = Vec::new();
        for path in files {
            match inputs.subject(path) {
                Ok(subject) => inputs.subjects.push(subject),
                Err(bad) => faults.extend(bad.0),
            }
        }
        for path in misses {
            match read_misses(path) {
                Ok(read) => {
                    inputs.files.push((path.clone(), "requests that an engine recorded".into()));
                    inputs.misses.push(read);
                }
                Err(bad) => faults.extend(bad.0),
            }
        }
        if faults.is_empty() { Ok(inputs) } else { Err(BadInput(faults)) }
    }

    fn subject(&mut self, path: &Path) -> Result<Subject, BadInput> {
        if path.extension().is_some_and(|extension| extension == "journal") {
            return self.journal(path);
        }
        let decisions = table::read(path)?;
        self.files.push((path.into(), "decisions".into()));
        let beside = |extension: &str| Some(path.with_extension(extension)).filter(|file| file.exists());
        let finalists = match beside("csv") {
            Some(file) => {
                let read = evidence::read(&file)?;
                self.files.push((file, "evidence".into()));
                read
            }
            None => Vec::new(),
        };
        let runs = match beside("journal") {
            Some(file) => session::runs(&self.history(&file)?, Some(&decisions)),
            None => Vec::new(),
        };
        Ok(Subject {
            name: path.display().to_string(),
            model: decisions.model.clone(),
            device: decisions.device.fingerprint.clone(),
            table: Some(decisions),
            evidence: finalists,
            runs,
            journal: None,
        })
    }

    fn journal(&mut self, path: &Path) -> Result<Subject, BadInput> {
        let history = self.history(path)?;
        // The table beside it only names the weights.
        let names = table::read(&path.with_extension("toml")).ok();
        let Some(last) = history.segments.last() else {
            return Err(BadInput::one(path, "holds no run", "give a journal of `tilewright tune`"));
        };
        Ok(Subject {
            name: path.display().to_string(),
            model: path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
            device: last.header.fingerprint.clone(),
            table: None,
            evidence: Vec::new(),
            runs: session::runs(&history, names.as_ref()),
            journal: Some(Side::of_journal(&history, names.as_ref())),
        })
    }

    fn history(&mut self, path: &Path) -> Result<History, BadInput> {
        let reading = journal::read(path)
            .map_err(|error| BadInput::one(path, error.to_string(), "give a journal of `tilewright tune`"))?;
        let damaged = reading.damaged.len();
        let what = if damaged == 0 {
            "journal".into()
        } else {
            format!("journal; {damaged} damaged lines left out")
        };
        self.files.push((path.into(), what));
        Ok(History::new(reading.records))
    }
}

/// A record of all requests, or a declaration and the comments above each GEMM.
fn read_misses(path: &Path) -> Result<Recorded, BadInput> {
    let text = read_text(path)?;
    if capture::is_record(&text) {
        return capture::parse(path, &text).map(Recorded::Requests);
    }
    let declaration = Declaration::parse(path, &text)?;
    let lines: Vec<&str> = text.lines().collect();
    let notes = declaration.gemms.iter().map(|gemm| {
        let above = lines[..gemm.line.saturating_sub(1).min(lines.len())].iter().rev();
        let comments =
            above.map_while(|line| line.trim().strip_prefix('#')).map(|note| note.trim().to_owned());
        let mut notes: Vec<String> = comments.collect();
        notes.reverse();
        (gemm.name.clone(), notes)
    });
    let notes = notes.collect();
    Ok(Recorded::Misses(declaration, notes))
}
