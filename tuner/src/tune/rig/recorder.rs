//! The recorder: journal, clock, and the way back into an interrupted run.
//!
//! **Resuming.** Decisions are functions of the recorded answers, so a run that was killed is resumed by running it
//! again from its beginning with its own records for answers, each compared with what the run would write now. Where
//! they end the rig takes over, at the time at which the run was interrupted: the decisions are those of a run that was
//! never killed. If a record is another one than expected (the journal was damaged, the program changed), the recorder has
//! [diverged](Recorder::diverged) and the caller starts over with what can be taken over piece by piece.
//!
//! **Quarantine.** Before a candidate is first run in a contest its name is written down. One that was in flight when
//! the tuner died, twice in a row, is not run a third time: a killer of machines must not kill every run.

use std::collections::{HashSet, VecDeque};

use tilewright_kernels::{Config, Format, Problem};

use super::super::candidates::{Candidate, FormatPair};
use super::super::queue::Queue;
use super::super::work::Work;
use super::{Rig, Stopped};
use crate::bench::{BenchFault, Sample};
use crate::journal::{Journal, Record, Segment};

/// Deaths of the tuner with the same candidate in flight after which it is not run again.
const DEATHS: usize = 2;

/// A rig with its journal and its clock.
pub struct Recorder<'r> {
    rig: Box<dyn Rig + 'r>,
    journal: Option<Journal>,
    /// Launches timed so far.
    pub measurements: u64,
    /// Launches of them that an interrupted run had made.
    pub repeated: u64,
    /// Candidates evaluated so far.
    pub evaluations: u64,
    /// When the last launch ended, in nanoseconds since the run began: the only clock decisions may read.
    pub now_ns: f64,
    /// Whether measuring was ended by the budget or the user.
    pub stopped: bool,
    /// Whether the interrupted run made other decisions than this one: nothing of this one is written then.
    pub diverged: bool,
    fault: Option<anyhow::Error>,
    /// What the interrupted run recorded and this one has not repeated yet; `None` once the rig answers.
    past: Option<VecDeque<Record>>,
    quarantined: Option<String>,
    /// Ids of the candidates of this contest whose names were written down.
    tried: HashSet<String>,
}

impl<'r> Recorder<'r> {
    /// A recorder that writes to `journal`, if there is one.
    pub fn new(rig: Box<dyn Rig + 'r>, journal: Option<Journal>) -> Self {
        Recorder {
            rig,
            journal,
            measurements: 0,
            repeated: 0,
            evaluations: 0,
            now_ns: 0.0,
            stopped: false,
            diverged: false,
            fault: None,
            past: None,
            quarantined: None,
            tried: HashSet::new(),
        }
    }

    /// Keeps the candidate away from the device that was in flight when the run of `last` died, if it did so twice.
    pub fn quarantining(mut self, last: Option<&Segment>) -> Self {
        self.quarantined = last.and_then(|segment| in_flight(&segment.records));
        self
    }

    /// Goes through the records of an interrupted run before asking the rig.
    pub fn resuming(mut self, interrupted: &Segment) -> Self {
        let run = Record::Run(interrupted.header.clone());
        let records = interrupted.records.iter().filter(|record| !is_remark(record)).cloned();
        self.past = Some([run].into_iter().chain(records).collect());
        self
    }

    /// Gives back the journal, for a run that starts over.
    pub fn into_journal(self) -> Option<Journal> {
        self.journal
    }

    /// Writes a record. A failing disk is remembered, ends measuring, and is reported by [`Recorder::check`].
    pub fn record(&mut self, record: &Record) {
        if self.diverged {
            return;
        }
        if let Record::Evaluated(evaluated) = record {
            // What is refused because measuring ended was not evaluated.
            if self.stopped && evaluated.ratio.is_none() {
                return;
            }
            self.evaluations += 1;
        }
        if matches!(record, Record::Contest { .. }) {
            self.tried.clear();
        }
        if let Some(past) = &mut self.past
            && let Some(before) = past.pop_front()
        {
            if before != *record {
                self.diverge();
            }
            return;
        }
        self.append(record);
    }

    fn append(&mut self, record: &Record) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.append(record)
        {
            self.fault.get_or_insert(error.into());
        }
    }

    fn diverge(&mut self) {
        self.diverged = true;
        self.past = None;
    }

    /// Waits until the journal is on disk.
    pub fn sync(&mut self) {
        if self.past.is_none()
            && let Some(journal) = &mut self.journal
            && let Err(error) = journal.sync()
        {
            self.fault.get_or_insert(error.into());
        }
    }

    /// # Errors
    /// What went wrong with the journal or the device, if anything did.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// The record that the interrupted run wrote next. `None` once there are no more, and the rig has taken over.
    fn before(&mut self) -> Option<Record> {
        let past = self.past.as_ref()?;
        if let Some(record) = past.front() {
            return Some(record.clone());
        }
        self.past = None;
        self.repeated = self.measurements;
        self.rig.set_clock(self.now_ns);
        self.append(&Record::Resumed { at: self.now_ns });
        None
    }

    /// The next weight, and the time it may take in nanoseconds.
    pub fn take(&mut self, queue: &mut dyn Queue) -> Option<(usize, Option<f64>)> {
        if self.is_over() {
            return None;
        }
        if !queue.is_shared() {
            return queue.next(self.now_ns);
        }
        let (work, time_ns) = match self.before() {
            Some(Record::Take { work, time_ns }) => {
                queue.took(work);
                (work, time_ns)
            }
            Some(_) => {
                self.diverge();
                return None;
            }
            None => queue.next(self.now_ns)?,
        };
        self.record(&Record::Take { work, time_ns });
        Some((work, time_ns))
    }

    /// Nothing more can be asked: why measuring is over.
    fn is_over(&self) -> bool {
        self.fault.is_some() || self.diverged || self.stopped
    }

    /// See [`Rig::quality`].
    ///
    /// # Errors
    /// As there.
    pub fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        if self.is_over() {
            return Err(Stopped.into());
        }
        let error = match self.before() {
            Some(Record::Quality { gemm, formats, error })
                if gemm == work.name && formats == pair.to_string() =>
            {
                error
            }
            Some(Record::Refused { gemm, reason }) if gemm == work.name => {
                return self.refused(work, anyhow::Error::msg(reason));
            }
            Some(_) => {
                self.diverge();
                return Err(Stopped.into());
            }
            None => match self.rig.quality(work, pair) {
                Ok(error) => error,
                Err(error) => return self.refused(work, error),
            },
        };
        self.record(&Record::Quality { gemm: work.name.clone(), formats: pair.to_string(), error });
        Ok(error)
    }

    /// See [`Rig::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()> {
        if self.is_over() {
            return Err(Stopped.into());
        }
        match self.before() {
            Some(Record::Refused { gemm, reason }) if gemm == work.name => {
                self.refused(work, anyhow::Error::msg(reason))
            }
            Some(_) => {
                self.rig.announce(work, formats);
                Ok(())
            }
            None => self.rig.open(work, formats).or_else(|error| self.refused(work, error)),
        }
    }

    /// Writes down why there are no answers about a weight.
    fn refused<T>(&mut self, work: &Work<'_>, error: anyhow::Error) -> anyhow::Result<T> {
        if error.is::<Stopped>() {
            self.stop();
        } else {
            self.record(&Record::Refused { gemm: work.name.clone(), reason: format!("{error:#}") });
        }
        Err(error)
    }

    fn stop(&mut self) {
        // A device that is lost was not told to stop: a run on it can be gone on with.
        if !self.stopped && self.fault.is_none() {
            self.stopped = true;
            self.record(&Record::Stopped { at: self.now_ns });
        }
    }

    /// See [`Rig::suggest`]: for a problem in each of the format pairs. Only suggestions are written down, not that there
    /// were none.
    pub fn suggest(&mut self, base: &Problem, pairs: &[FormatPair]) -> Vec<Candidate> {
        let mut all = Vec::new();
        for pair in pairs {
            if self.is_over() {
                break;
            }
            let problem = pair.apply(base);
            let configs = match self.before() {
                Some(Record::Suggested { problem: recorded, configs }) if recorded == problem.to_string() => {
                    configs.iter().filter_map(|text| Config::parse(text).ok()).collect()
                }
                Some(_) => Vec::new(),
                None => self.rig.suggest(&problem),
            };
            if !configs.is_empty() {
                self.record(&Record::Suggested {
                    problem: problem.to_string(),
                    configs: configs.iter().map(Config::to_string).collect(),
                });
            }
            all.extend(configs.into_iter().map(|config| Candidate { problem, config }));
        }
        all
    }

    /// See [`Rig::warm`]. What a journal answers needs no compiling.
    pub fn warm(&mut self, candidates: &[Candidate]) {
        // A fault shows again at the first question about a candidate.
        if !self.is_over() && self.before().is_none() && self.rig.ready().is_ok() {
            self.rig.warm(candidates);
        }
    }

    /// See [`Rig::admit`].
    ///
    /// # Errors
    /// Why the candidate is out, in words.
    pub fn admit(&mut self, candidate: &Candidate) -> Result<(), String> {
        let over = || Err("measuring has ended".to_string());
        if self.is_over() {
            return over();
        }
        let text = candidate.to_string();
        let answer = match self.before() {
            Some(Record::Gate { candidate: recorded, reason }) if recorded == text => {
                reason.map_or(Ok(()), Err)
            }
            Some(_) => {
                self.diverge();
                return over();
            }
            None => match self.ask(candidate, |rig| rig.admit(candidate)) {
                Ok(()) => Ok(()),
                Err(BenchFault::Candidate(reason)) => Err(reason),
                Err(BenchFault::Stopped | BenchFault::TraceExhausted) => {
                    self.stop();
                    return over();
                }
            },
        };
        self.record(&Record::Gate { candidate: text, reason: answer.as_ref().err().cloned() });
        answer
    }

    /// See [`Rig::time`].
    ///
    /// # Errors
    /// As there.
    pub fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault> {
        if self.is_over() {
            return Err(BenchFault::Stopped);
        }
        let id = candidate.id();
        let answer = match self.before() {
            Some(Record::Sample { id: recorded, ns, at }) if recorded == id => Ok(Sample { ns, at_ns: at }),
            Some(Record::Failed { id: recorded, reason }) if recorded == id => {
                Err(BenchFault::Candidate(reason))
            }
            Some(_) => {
                self.diverge();
                return Err(BenchFault::Stopped);
            }
            None => self.ask(candidate, |rig| rig.time(candidate, slot)),
        };
        match &answer {
            Ok(sample) => {
                self.measurements += 1;
                self.now_ns = sample.at_ns;
                self.record(&Record::Sample { id, ns: sample.ns, at: sample.at_ns });
            }
            Err(BenchFault::Candidate(reason)) => self.record(&Record::Failed { id, reason: reason.clone() }),
            Err(BenchFault::Stopped | BenchFault::TraceExhausted) => self.stop(),
        }
        answer
    }

    /// Asks the rig about a candidate, unless it is in quarantine.
    fn ask<T>(
        &mut self,
        candidate: &Candidate,
        question: impl FnOnce(&mut (dyn Rig + 'r)) -> Result<T, BenchFault>,
    ) -> Result<T, BenchFault> {
        let text = candidate.to_string();
        if self.quarantined.as_ref() == Some(&text) {
            self.quarantined = None;
            let reason = "in flight when the tuner died, twice: not run a third time";
            return Err(BenchFault::Candidate(reason.into()));
        }
        if !self.is_ready() {
            return Err(BenchFault::Stopped);
        }
        if self.tried.insert(text.clone()) {
            self.append(&Record::Trying { candidate: text });
        }
        let answer = question(self.rig.as_mut());
        if matches!(answer, Err(BenchFault::Stopped)) {
            // The device may be lost.
            self.is_ready();
        }
        answer
    }

    fn is_ready(&mut self) -> bool {
        match self.rig.ready() {
            Ok(()) => true,
            Err(error) => {
                if !error.is::<Stopped>() {
                    self.fault.get_or_insert(error);
                }
                false
            }
        }
    }
}

/// Records that say nothing of what was decided.
fn is_remark(record: &Record) -> bool {
    matches!(record, Record::Trying { .. } | Record::Resumed { .. })
}

/// The candidate that was in flight when a run died, [`DEATHS`] times in a row.
fn in_flight(records: &[Record]) -> Option<String> {
    let mut attempts =
        records.iter().rev().filter(|record| !matches!(record, Record::Resumed { .. })).map_while(|record| {
            match record {
                Record::Trying { candidate } => Some(candidate),
                _ => None,
            }
        });
    let last = attempts.next()?;
    let deaths = 1 + attempts.take_while(|candidate| *candidate == last).count();
    (deaths >= DEATHS).then(|| last.clone())
}
