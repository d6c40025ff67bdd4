//! The journal: everything a run measured, in the order it was measured.
//!
//! One append-only file for each model and device, one checksummed record a line. A record is handed to the operating
//! system as soon as it exists, so killing the process at any moment loses at most the launch in flight; it is synced
//! to disk at the end of each contest, so a power failure loses at most one contest's records.
//!
//! The journal serves four readers:
//! * a run that was **killed** goes on where it was: it is repeated with its own records for answers
//!   ([`Recorder::resuming`](crate::tune::Recorder::resuming));
//! * a run after one that **budget or user ended** takes over its verdicts and evaluations ([`History`]);
//! * a **warm start** takes earlier winners and their tie sets as seeds;
//! * a **replay** answers every question a run asked its device from the record, and so repeats its decisions exactly.
//!
//! Invariants: records are never changed or removed; a torn or damaged line is reported and skipped, never repaired in
//! place; one writer at a time, held by a lock on the file; readers take no lock and see whole records.

mod file;
mod history;
mod record;

pub use file::{Journal, JournalError, Reading, line, read};
pub use history::{History, Resume, Segment};
pub use record::{
    AlternativeRecord, ContestKey, DeviceRecord, Evaluated, PlanRecord, Record, RunHeader, SecondPlan,
    Verdict, VerdictRow,
};
