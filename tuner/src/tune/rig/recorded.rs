//! Answers from a journal, in the order in which they were written. A question other than the recorded one is an error, so
//! a replay that ends has repeated every decision.

use std::collections::VecDeque;

use anyhow::bail;
use tilewright_kernels::{Config, Format, Problem};

use super::super::candidates::{Candidate, FormatPair};
use super::super::work::Work;
use super::{Rig, Stopped};
use crate::bench::{BenchFault, Sample};
use crate::journal::Record;

/// Answers from a journal.
pub struct ReplayRig {
    answers: VecDeque<Record>,
    stopped: bool,
}

impl ReplayRig {
    /// Answers from the records of one run.
    pub fn new(records: &[Record]) -> Self {
        let is_answer = |r: &&Record| {
            use Record::{Failed, Gate, Quality, Refused, Sample, Stopped, Suggested};
            matches!(
                r,
                Quality { .. }
                    | Refused { .. }
                    | Suggested { .. }
                    | Gate { .. }
                    | Sample { .. }
                    | Failed { .. }
                    | Stopped { .. }
            )
        };
        ReplayRig { answers: records.iter().filter(is_answer).cloned().collect(), stopped: false }
    }

    fn stop(&mut self) -> anyhow::Error {
        self.stopped = true;
        Stopped.into()
    }
}

impl Rig for ReplayRig {
    fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        match self.answers.pop_front() {
            Some(Record::Quality { gemm, formats, error })
                if gemm == work.name && formats == pair.to_string() =>
            {
                Ok(error)
            }
            Some(Record::Refused { gemm, reason }) if gemm == work.name => bail!(reason),
            Some(Record::Stopped { .. }) => Err(self.stop()),
            other => bail!(
                "the journal holds another run: asked for the error of {} in {pair}, found {other:?}",
                work.name
            ),
        }
    }

    fn open(&mut self, work: &Work<'_>, _: &[Format]) -> anyhow::Result<()> {
        match self.answers.front() {
            Some(Record::Refused { gemm, reason }) if *gemm == work.name => {
                let reason = reason.clone();
                self.answers.pop_front();
                bail!(reason)
            }
            _ => Ok(()),
        }
    }

    fn announce(&mut self, _: &Work<'_>, _: &[Format]) {}

    fn suggest(&mut self, problem: &Problem) -> Vec<Config> {
        // A backend without suggestions leaves no record.
        match self.answers.front() {
            Some(Record::Suggested { problem: recorded, configs }) if *recorded == problem.to_string() => {
                let configs = configs.iter().filter_map(|text| Config::parse(text).ok()).collect();
                self.answers.pop_front();
                configs
            }
            _ => Vec::new(),
        }
    }

    fn admit(&mut self, candidate: &Candidate) -> Result<(), BenchFault> {
        match self.answers.pop_front() {
            Some(Record::Gate { candidate: recorded, reason }) if recorded == candidate.to_string() => {
                reason.map_or(Ok(()), |reason| Err(BenchFault::Candidate(reason)))
            }
            Some(Record::Stopped { .. }) => {
                self.stopped = true;
                Err(BenchFault::Stopped)
            }
            // The next timing ends the run; see `time`.
            other => {
                self.answers.clear();
                Err(BenchFault::Candidate(format!(
                    "the journal holds another run: asked about {candidate}, found {other:?}"
                )))
            }
        }
    }

    fn time(&mut self, candidate: &Candidate, _slot: usize) -> Result<Sample, BenchFault> {
        if self.stopped {
            return Err(BenchFault::Stopped);
        }
        match self.answers.pop_front() {
            Some(Record::Sample { id, ns, at }) if id == candidate.id() => Ok(Sample { ns, at_ns: at }),
            Some(Record::Failed { id, reason }) if id == candidate.id() => Err(BenchFault::Candidate(reason)),
            Some(Record::Stopped { .. }) => {
                self.stopped = true;
                Err(BenchFault::Stopped)
            }
            _ => {
                self.answers.clear();
                Err(BenchFault::TraceExhausted)
            }
        }
    }
}
