//! Faults of input files: all of a file's faults are found and reported together, each with file, line, field and what
//! to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// One fault of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file it is in.
    pub file: PathBuf,
    /// Line, from 1, where there is one.
    pub line: Option<usize>,
    /// The field at fault (`gemm.n`), or empty.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it, or empty.
    pub help: String,
}

impl Fault {
    /// A fault of a file as a whole.
    pub fn of_file(file: &Path, message: impl Into<String>, help: impl Into<String>) -> Self {
        Fault {
            file: file.into(),
            line: None,
            field: String::new(),
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if !self.help.is_empty() {
            write!(f, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// Bad input: one or more faults. The command line prints them all and exits with 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput(pub Vec<Fault>);

impl BadInput {
    /// One fault of a file as a whole.
    pub fn one(file: &Path, message: impl Into<String>, help: impl Into<String>) -> Self {
        BadInput(vec![Fault::of_file(file, message, help)])
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BadInput {}

/// A check ran and failed (a stale table, a wrong kernel). The command line prints it and exits with 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailed(pub String);

impl fmt::Display for CheckFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckFailed {}

/// The line, from 1, of a byte offset in a text.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
