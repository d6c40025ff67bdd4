//! The journal on disk: `crc32 json` lines, a lock, and a reader that survives torn and damaged lines.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::record::Record;
use crate::files;

/// The largest journal that is read, in bytes. A run of a few hundred contests writes some tens of MiB.
const MAX_BYTES: u64 = 4 << 30;

/// A journal opened for appending. Holds the file's lock until dropped.
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Whether the last line may be without its end.
    torn: bool,
}

/// What was read from a journal.
#[derive(Debug, Default)]
pub struct Reading {
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// Lines that were skipped, as `line number: why`.
    pub damaged: Vec<String>,
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process writes to it.
    #[error("{path}: another tilewright process is tuning this model on this device; wait for it or use another --out", path = .0.display())]
    Locked(PathBuf),
    /// The file system said no.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file is larger than any journal.
    #[error("{path}: larger than 4 GiB: not a journal, or one to move away", path = .0.display())]
    TooLarge(PathBuf),
}

impl Journal {
    /// Opens or creates a journal, takes its lock and reads what is there.
    ///
    /// # Errors
    /// If the file cannot be opened, is locked by another process, or is too large.
    pub fn open(path: &Path) -> Result<(Self, Reading), JournalError> {
        let io = |source| JournalError::Io { path: path.into(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Locked(path.into())),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let (reading, torn) = read_from(&mut file, path)?;
        if file.metadata().map_err(io)?.len() == 0
            && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
        {
            files::sync_folder(folder).map_err(io)?;
        }
        if torn {
            // A torn line stays where it is, as a line of its own.
            file.write_all(b"\n").map_err(io)?;
        }
        Ok((Journal { path: path.into(), file, torn: false }, reading))
    }

    /// As [`Journal::open`], but waits while another process holds the lock. `waits` is called once, if it has to; `stop`
    /// ends the waiting.
    ///
    /// # Errors
    /// As there; also if it was still locked when `stop` was set.
    pub fn open_when_free(
        path: &Path,
        stop: &AtomicBool,
        waits: impl FnOnce(),
    ) -> Result<(Self, Reading), JournalError> {
        let mut waits = Some(waits);
        loop {
            match Journal::open(path) {
                Err(JournalError::Locked(_)) if !stop.load(Ordering::Relaxed) => {
                    if let Some(waits) = waits.take() {
                        waits();
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                other => return other,
            }
        }
    }

    /// Appends a record and hands it to the operating system.
    ///
    /// # Errors
    /// If the disk is full or gone.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        let line = line(record);
        let io = |source| JournalError::Io { path: self.path.clone(), source };
        if self.torn {
            // What a full disk left of a record becomes a line of its own.
            self.file.write_all(b"\n").map_err(io)?;
            self.torn = false;
        }
        files::write(&mut self.file, line.as_bytes()).map_err(|source| {
            self.torn = true;
            io(source)
        })
    }

    /// Waits until everything appended so far is on disk.
    ///
    /// # Errors
    /// If the disk is full or gone.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }
}

/// A record as it stands in a journal, line end included.
pub fn line(record: &Record) -> String {
    let json = serde_json::to_string(record).expect("records are plain data");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// Reads a journal without taking its lock.
///
/// # Errors
/// If it cannot be read or is too large.
pub fn read(path: &Path) -> Result<Reading, JournalError> {
    let mut file = File::open(path).map_err(|source| JournalError::Io { path: path.into(), source })?;
    Ok(read_from(&mut file, path)?.0)
}

/// Also says whether the last line is torn: without its line end.
fn read_from(file: &mut File, path: &Path) -> Result<(Reading, bool), JournalError> {
    let io = |source| JournalError::Io { path: path.into(), source };
    if file.metadata().map_err(io)?.len() > MAX_BYTES {
        return Err(JournalError::TooLarge(path.into()));
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    file.read_to_end(&mut bytes).map_err(io)?;
    let mut reading = Reading::default();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let tail = lines.pop().unwrap_or_default();
    for (index, line) in lines.into_iter().enumerate() {
        match parse(line) {
            Ok(record) => reading.records.push(record),
            Err(why) => reading.damaged.push(format!("{}:{}: {why}", path.display(), index + 1)),
        }
    }
    let torn = !tail.is_empty();
    if torn {
        // Only the line end may be missing: the checksum says whether the record is whole.
        match parse(tail) {
            Ok(record) => reading.records.push(record),
            Err(_) => {
                let line = reading.records.len() + reading.damaged.len() + 1;
                reading.damaged.push(format!("{}:{line}: torn last line, dropped", path.display()));
            }
        }
    }
    Ok((reading, torn))
}

fn parse(line: &[u8]) -> Result<Record, &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
    let (sum, json) = text.split_once(' ').ok_or("no checksum")?;
    let sum = u32::from_str_radix(sum, 16).map_err(|_| "no checksum")?;
    if sum != crc32fast::hash(json.as_bytes()) {
        return Err("checksum does not match");
    }
    serde_json::from_str(json).map_err(|_| "a record this version does not know")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u32) -> Record {
        Record::Sample { id: format!("{n:016x}"), ns: f64::from(n) + 0.5, at: 1.0 }
    }

    #[test]
    fn what_was_appended_is_read_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.journal");
        let (mut journal, before) = Journal::open(&path).unwrap();
        assert!(before.records.is_empty());
        for n in 0..10 {
            journal.append(&sample(n)).unwrap();
        }
        drop(journal);
        let (_, after) = Journal::open(&path).unwrap();
        assert_eq!(after.records, (0..10).map(sample).collect::<Vec<_>>());
        assert!(after.damaged.is_empty());
    }

    #[test]
    fn cutting_the_file_anywhere_loses_at_most_the_line_that_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        for n in 0..5 {
            journal.append(&sample(n)).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            // A record is complete when its last byte is there, with or without its line end.
            let complete = whole[..=cut].iter().filter(|b| **b == b'\n').count();
            let (mut journal, reading) = Journal::open(&path).unwrap();
            assert_eq!(reading.records, (0..complete as u32).map(sample).collect::<Vec<_>>(), "cut at {cut}");
            journal.append(&sample(9)).unwrap();
            drop(journal);
            let again = read(&path).unwrap();
            assert_eq!(again.records.last(), Some(&sample(9)), "cut at {cut}");
            assert_eq!(again.records.len(), complete + 1, "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_line_is_named_and_the_others_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        for n in 0..3 {
            journal.append(&sample(n)).unwrap();
        }
        drop(journal);
        let text = std::fs::read_to_string(&path).unwrap().replace("\"ns\":1.5", "\"ns\":7.5");
        std::fs::write(&path, text).unwrap();
        let reading = read(&path).unwrap();
        assert_eq!(reading.records, [sample(0), sample(2)]);
        assert_eq!(reading.damaged.len(), 1);
        assert!(reading.damaged[0].contains("m.journal:2: checksum"), "{:?}", reading.damaged);
    }

    #[test]
    fn a_second_writer_is_refused_with_a_clear_message() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.journal");
        let _first = Journal::open(&path).unwrap();
        let message = Journal::open(&path).err().unwrap().to_string();
        assert!(message.contains("another tilewright process"), "{message}");
    }
}
