//! Who answers the tuner's questions about candidates.
//!
//! Everything that decides sees the world through a [`Recorder`], which passes questions to a [`Rig`] and writes the
//! answers to the journal. There are three rigs: [`RemoteRig`](crate::worker::RemoteRig) asks a worker process, inside
//! which a [`DeviceRig`] asks the device; [`ReplayRig`] answers from a journal.

mod device;
mod recorded;
mod recorder;

pub use device::DeviceRig;
pub use recorded::ReplayRig;
pub use recorder::Recorder;

use tilewright_kernels::{Config, Format, Problem};

use super::candidates::{Candidate, FormatPair};
use super::work::Work;
use crate::bench::{BenchFault, Sample};

/// Answers questions about the candidates of one weight at a time.
pub trait Rig {
    /// Error of a format pair on the weight of `work`.
    ///
    /// # Errors
    /// [`Stopped`] if measuring has to end; else what went wrong.
    fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64>;

    /// Readies the operands of `work` in the weight formats that are left. Candidates of it may be asked about then.
    ///
    /// # Errors
    /// [`Stopped`] if measuring has to end; else what went wrong, for instance that the device has no room.
    fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()>;

    /// Says which weight the next questions about candidates are about, without asking the device for anything yet.
    fn announce(&mut self, work: &Work<'_>, formats: &[Format]);

    /// Gets the device into the state that [`Rig::open`] or [`Rig::announce`] asked for, if it is not.
    ///
    /// # Errors
    /// If nothing can be measured on this device any more.
    fn ready(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Sets the run's clock: a resumed run goes on at the time at which it was interrupted.
    fn set_clock(&mut self, _now_ns: f64) {}

    /// Candidates of a problem of the open weight that no enumeration gives; see
    /// [`Backend::suggest`](tilewright_kernels::backend::Backend::suggest).
    fn suggest(&mut self, _problem: &Problem) -> Vec<Config> {
        Vec::new()
    }

    /// These candidates, all at one M, are about to be asked about; see
    /// [`Backend::ready`](tilewright_kernels::backend::Backend::ready).
    fn warm(&mut self, _candidates: &[Candidate]) {}

    /// The correctness gate.
    ///
    /// # Errors
    /// Why the candidate is out, or that measuring has to end.
    fn admit(&mut self, candidate: &Candidate) -> Result<(), BenchFault>;

    /// Times one launch.
    ///
    /// # Errors
    /// If the candidate failed or measuring has to end.
    fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault>;
}

impl<R: Rig + ?Sized> Rig for &mut R {
    fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        (**self).quality(work, pair)
    }
    fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()> {
        (**self).open(work, formats)
    }
    fn announce(&mut self, work: &Work<'_>, formats: &[Format]) {
        (**self).announce(work, formats);
    }
    fn ready(&mut self) -> anyhow::Result<()> {
        (**self).ready()
    }
    fn set_clock(&mut self, now_ns: f64) {
        (**self).set_clock(now_ns);
    }
    fn suggest(&mut self, problem: &Problem) -> Vec<Config> {
        (**self).suggest(problem)
    }
    fn warm(&mut self, candidates: &[Candidate]) {
        (**self).warm(candidates);
    }
    fn admit(&mut self, candidate: &Candidate) -> Result<(), BenchFault> {
        (**self).admit(candidate)
    }
    fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault> {
        (**self).time(candidate, slot)
    }
}

/// Measuring has to end: the budget is spent, or the user said so.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;
