//! Records every request of an engine, hits and misses alike, with how often it came and which rung answered: what a model
//! is really asked for, to declare and tune.
//!
//! [`RECORD`] in the environment names the file; an engine looks once, when it is made. Without it a lookup pays
//! one branch that is never taken. With it a call costs a few atomic operations, and now and then the writing of the file.
//! The file is written, whole, when the engine is dropped and each time the number of calls has doubled, so that a server
//! that is killed keeps at least half of its record. `tilewright shapes from-capture` reads it.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::format;
use std::io;
use std::path::{Path, PathBuf};
use std::string::String;
use std::sync::Mutex;

use crate::lookup::{NoKernel, Provenance, Request};
use crate::misses::{Miss, Misses};
use crate::table::TableData;

/// The environment variable that names the file. `%p` in it becomes the process id; a second engine of one process writes to
/// the name with `.2` added, and so on.
pub const RECORD: &str = "TILEWRIGHT_RECORD";

/// The first line of a record.
pub const HEADER: &str = "# tilewright capture 1";

/// The columns of a record.
pub const COLUMNS: &str =
    "model,tensor_parallel,n,k,activation,format,scaling,layout,out,epilogue,deterministic,m,rung,calls";

/// Requests that are told apart: 1.5 MiB of slots.
const SLOTS: usize = 1 << 16;

/// Engines of this process that record by the environment.
static ENGINES: AtomicUsize = AtomicUsize::new(0);

/// What one engine was asked for.
#[derive(Debug)]
pub struct Record {
    requests: Misses,
    calls: AtomicU64,
    path: PathBuf,
    model: String,
    tensor_parallel: u32,
    /// Held while the file is written.
    writing: Mutex<()>,
}

impl Record {
    /// A record that is written to `path`.
    pub fn new(path: &Path, table: &TableData<'_>) -> Self {
        Record {
            requests: Misses::with_slots(SLOTS),
            calls: AtomicU64::new(0),
            path: path.into(),
            model: table.model.into(),
            tensor_parallel: table.tensor_parallel,
            writing: Mutex::new(()),
        }
    }

    /// The record that the environment asks for, if it does.
    pub fn from_environment(table: &TableData<'_>) -> Option<Self> {
        let name = std::env::var_os(RECORD).filter(|name| !name.is_empty())?;
        Some(Record::new(&file_name(&name, ENGINES.fetch_add(1, Relaxed) + 1), table))
    }

    /// Records a request and its answer.
    pub(crate) fn note(&self, request: &Request, answer: Result<Provenance, NoKernel>) {
        self.requests.note_answered(request, rung_of(answer));
        let calls = self.calls.fetch_add(1, Relaxed) + 1;
        if calls.is_power_of_two() && calls >= 1024 {
            // Another thread that writes at this moment writes nearly the same.
            if let Ok(_alone) = self.writing.try_lock() {
                let _ = self.replace();
            }
        }
    }

    /// Writes what was recorded so far.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self) -> io::Result<()> {
        let _alone = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.replace()
    }

    fn replace(&self) -> io::Result<()> {
        crate::misses::replace(&self.path, &self.text())
    }

    /// The file's text: sorted, so that equal requests give equal bytes.
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        if self.requests.dropped() > 0 {
            let _ = writeln!(text, "# {} calls found no room in the record", self.requests.dropped());
        }
        let _ = writeln!(text, "{COLUMNS}");
        for (request, rung) in self.requests.read_answered() {
            let Miss { key, deterministic, m, count } = request;
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{deterministic},{m},{},{count}",
                plain(&self.model),
                self.tensor_parallel,
                key.n,
                key.k,
                key.a,
                key.b,
                key.scaling,
                key.layout,
                key.out,
                key.epilogue,
                RUNGS[usize::from(rung) % RUNGS.len()]
            );
        }
        text
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.calls.load(Relaxed) == 0 {
            return;
        }
        if let Err(error) = self.write() {
            // Who asked for a record must learn that there is none, and nobody is left to give the error to.
            std::eprintln!("tilewright: {}: the record cannot be written: {error}", self.path.display());
        }
    }
}

/// The file of the process's `engine`th recording engine, counted from 1.
fn file_name(name: &OsStr, engine: usize) -> PathBuf {
    let name = match name.to_str() {
        Some(text) => text.replace("%p", &format!("{}", std::process::id())).into(),
        None => name.to_owned(),
    };
    let mut name = name;
    if engine > 1 {
        name.push(format!(".{engine}"));
    }
    name.into()
}

/// Names of rungs, by number.
const RUNGS: [&str; 8] =
    ["unknown", "exact", "interval", "extrapolated", "nearest", "analytic", "default", "none"];

fn rung_of(answer: Result<Provenance, NoKernel>) -> u8 {
    match answer {
        Ok(Provenance::Exact) => 1,
        Ok(Provenance::Interval { extrapolated: false }) => 2,
        Ok(Provenance::Interval { extrapolated: true }) => 3,
        Ok(Provenance::Nearest { .. }) => 4,
        Ok(Provenance::Analytic) => 5,
        Ok(Provenance::Default) => 6,
        Err(_) => 7,
    }
}

/// A model's name without what would end its field.
fn plain(model: &str) -> String {
    model.chars().filter(|c| !c.is_control() && !matches!(c, ',' | '"' | '#')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_and_process_has_its_own_file() {
        assert_eq!(file_name(OsStr::new("a/b.csv"), 1), PathBuf::from("a/b.csv"));
        assert_eq!(file_name(OsStr::new("a/b.csv"), 3), PathBuf::from("a/b.csv.3"));
        let own = format!("c-{}.csv", std::process::id());
        assert_eq!(file_name(OsStr::new("c-%p.csv"), 1), PathBuf::from(own));
    }

    #[test]
    fn every_rung_has_a_name() {
        assert_eq!(RUNGS[usize::from(rung_of(Ok(Provenance::Nearest { distance: 0.5 })))], "nearest");
        assert_eq!(RUNGS[usize::from(rung_of(Err(NoKernel::NotCovered)))], "none");
    }
}
