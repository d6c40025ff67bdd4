//! Who answers the tuner's questions about candidates: the device, or a journal.
//!
//! Everything that decides sees the world through a [`Recorder`]: it passes questions to a [`Rig`], writes the answers
//! to the journal, and keeps the time. [`DeviceRig`] asks the device. [`ReplayRig`] answers from a journal in the order
//! it was written; a question other than the recorded one is an error, so a replay that ends has repeated every
//! decision.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use tilewright_kernels::backend::{Backend, Operands, Regime, Session};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Format, Problem, Scaling};

use super::candidates::{Candidate, FormatPair};
use super::work::Work;
use crate::bench::{BenchFault, Sample};
use crate::gate::{self, Gate};
use crate::journal::{Journal, Record};
use crate::operands;

/// Answers questions about the candidates of one weight at a time.
pub trait Rig {
    /// Error of a format pair on the weight of `work`.
    ///
    /// # Errors
    /// Only a replay fails, where the journal holds another question.
    fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64>;

    /// Readies the operands of `work` in the weight formats that are left. Candidates of it may be asked about then.
    ///
    /// # Errors
    /// If the device has no room.
    fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()>;

    /// Candidates of a problem that no enumeration gives; see [`Backend::suggest`].
    fn suggest(&mut self, _problem: &Problem) -> Vec<Config> {
        Vec::new()
    }

    /// These candidates are about to be asked about; see [`Backend::ready`].
    fn ready(&mut self, _candidates: &[Candidate]) {}

    /// The correctness gate.
    ///
    /// # Errors
    /// Why the candidate is out.
    fn admit(&mut self, candidate: &Candidate) -> Result<(), String>;

    /// Times one launch.
    ///
    /// # Errors
    /// If the candidate failed or measuring has to end.
    fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault>;
}

/// A rig with its journal and its clock.
pub struct Recorder<'r> {
    rig: Box<dyn Rig + 'r>,
    journal: Option<Journal>,
    /// Launches timed so far.
    pub measurements: u64,
    /// Candidates evaluated so far.
    pub evaluations: u64,
    /// When the last launch ended, in nanoseconds since the run began: the only clock decisions may read.
    pub now_ns: f64,
    /// Whether measuring was ended by the budget or the user.
    pub stopped: bool,
    fault: Option<anyhow::Error>,
}

impl<'r> Recorder<'r> {
    /// A recorder that writes to `journal`, if there is one.
    pub fn new(rig: Box<dyn Rig + 'r>, journal: Option<Journal>) -> Self {
        Recorder { rig, journal, measurements: 0, evaluations: 0, now_ns: 0.0, stopped: false, fault: None }
    }

    /// Writes a record. A failing disk is remembered, ends measuring, and is reported by [`Recorder::check`].
    pub fn record(&mut self, record: &Record) {
        self.evaluations += u64::from(matches!(record, Record::Evaluated(_)));
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.append(record)
        {
            self.fault.get_or_insert(error.into());
        }
    }

    /// Waits until the journal is on disk.
    pub fn sync(&mut self) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.sync()
        {
            self.fault.get_or_insert(error.into());
        }
    }

    /// # Errors
    /// What went wrong with the journal, if anything did.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// See [`Rig::quality`].
    ///
    /// # Errors
    /// As there.
    pub fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        let error = self.rig.quality(work, pair)?;
        self.record(&Record::Quality { gemm: work.name.clone(), formats: pair.to_string(), error });
        Ok(error)
    }

    /// See [`Rig::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()> {
        self.rig.open(work, formats)
    }

    /// See [`Rig::suggest`]: for a problem in each of the format pairs.
    pub fn suggest(&mut self, base: &Problem, pairs: &[FormatPair]) -> Vec<Candidate> {
        let mut all = Vec::new();
        for pair in pairs {
            let problem = pair.apply(base);
            let configs = self.rig.suggest(&problem);
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

    /// See [`Rig::ready`].
    pub fn ready(&mut self, candidates: &[Candidate]) {
        self.rig.ready(candidates);
    }

    /// See [`Rig::admit`].
    ///
    /// # Errors
    /// As there.
    pub fn admit(&mut self, candidate: &Candidate) -> Result<(), String> {
        let answer = self.rig.admit(candidate);
        self.record(&Record::Gate {
            candidate: candidate.to_string(),
            reason: answer.as_ref().err().cloned(),
        });
        answer
    }

    /// See [`Rig::time`].
    ///
    /// # Errors
    /// As there.
    pub fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault> {
        if self.fault.is_some() {
            return Err(BenchFault::Stopped);
        }
        let answer = self.rig.time(candidate, slot);
        match &answer {
            Ok(sample) => {
                self.measurements += 1;
                self.now_ns = sample.at_ns;
                self.record(&Record::Sample { id: candidate.id(), ns: sample.ns, at: sample.at_ns });
            }
            Err(BenchFault::Candidate(reason)) => {
                self.record(&Record::Failed { id: candidate.id(), reason: reason.clone() });
            }
            Err(BenchFault::Stopped | BenchFault::TraceExhausted) => {
                if !self.stopped {
                    self.stopped = true;
                    self.record(&Record::Stopped { at: self.now_ns });
                }
            }
        }
        answer
    }
}

/// Asks the device.
pub struct DeviceRig<'b> {
    backend: &'b dyn Backend,
    regime: Regime,
    began: Instant,
    budget_ns: Option<f64>,
    stop: &'b AtomicBool,
    values: Option<(String, Arc<[f32]>)>,
    open: Option<Open<'b>>,
}

/// The weight under trial.
struct Open<'b> {
    operands: Operands,
    session: Box<dyn Session + 'b>,
    gate: Gate<'b>,
}

impl<'b> DeviceRig<'b> {
    /// A rig that measures until the budget is spent or `stop` is set.
    pub fn new(
        backend: &'b dyn Backend,
        regime: Regime,
        budget_s: Option<f64>,
        stop: &'b AtomicBool,
    ) -> Self {
        let budget_ns = budget_s.map(|s| s * 1e9);
        DeviceRig { backend, regime, began: Instant::now(), budget_ns, stop, values: None, open: None }
    }

    /// The weight's values, kept until another weight is asked about.
    fn values(&mut self, work: &Work<'_>) -> anyhow::Result<Arc<[f32]>> {
        if self.values.as_ref().is_none_or(|(name, _)| *name != work.name) {
            self.values = None;
            self.values = Some((work.name.clone(), work.values()?.into()));
        }
        Ok(self.values.as_ref().expect("just loaded").1.clone())
    }

    fn now_ns(&self) -> f64 {
        self.began.elapsed().as_nanos() as f64
    }
}

impl Rig for DeviceRig<'_> {
    fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        let (n, k) = (work.n as usize, work.k as usize);
        let values = self.values(work)?;
        Ok(gate::quality(&values, n, k, pair.activation, pair.weight, operands::SEED))
    }

    fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()> {
        let (n, k) = (work.n as usize, work.k as usize);
        let m = work.points.iter().map(|point| point.m).max().unwrap_or(1) as usize;
        // The last weight goes before the next one comes: two large ones may not fit.
        self.open = None;
        let values = self.values(work)?;
        let mut weights = Vec::new();
        for &format in formats {
            let options = QuantizeOptions::default();
            let quantized = Quantized::quantize(&values, n, k, format, Scaling::usual(format), &options)
                .with_context(|| format!("{}: {format}", work.name))?;
            weights.push(Arc::new(quantized));
        }
        let operands = Operands {
            m,
            n,
            k,
            activation: operands::activation(m, k, operands::SEED).into(),
            weights,
            bias: work.bias.then(|| operands::weight(1, n, operands::SEED ^ 2).into()),
        };
        let session = self.backend.open(operands.clone(), self.regime)?;
        let gate = Gate::new(self.backend, formats, m, work.bias, work.deterministic, operands::SEED)?;
        self.open = Some(Open { operands, session, gate });
        Ok(())
    }

    fn suggest(&mut self, problem: &Problem) -> Vec<Config> {
        self.backend.suggest(problem)
    }

    fn ready(&mut self, candidates: &[Candidate]) {
        let launches: Vec<(Problem, Config)> = candidates.iter().map(|c| (c.problem, c.config)).collect();
        self.backend.ready(&launches);
    }

    fn admit(&mut self, candidate: &Candidate) -> Result<(), String> {
        let Open { operands, session, gate } = self.open.as_mut().expect("a weight is open");
        let Candidate { problem, config } = candidate;
        let attempt = AssertUnwindSafe(|| gate.admit(session.as_mut(), operands, problem, config));
        catch_unwind(attempt).unwrap_or_else(|payload| Err(format!("panicked: {}", panic_message(&payload))))
    }

    fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault> {
        let spent = self.budget_ns.is_some_and(|budget| self.now_ns() >= budget);
        if spent || self.stop.load(Ordering::Relaxed) {
            return Err(BenchFault::Stopped);
        }
        let session = &mut self.open.as_mut().expect("a weight is open").session;
        let attempt = AssertUnwindSafe(|| session.time(&candidate.problem, &candidate.config, slot));
        match catch_unwind(attempt) {
            Ok(Ok(time)) => Ok(Sample { ns: time.as_nanos() as f64, at_ns: self.now_ns() }),
            Ok(Err(fault)) => Err(BenchFault::Candidate(fault.to_string())),
            Err(payload) => Err(BenchFault::Candidate(format!("panicked: {}", panic_message(&payload)))),
        }
    }
}

fn panic_message(payload: &Box<dyn std::any::Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// Answers from a journal.
pub struct ReplayRig {
    answers: VecDeque<Record>,
    stopped: bool,
}

impl ReplayRig {
    /// Answers from the records of one run.
    pub fn new(records: &[Record]) -> Self {
        let is_answer = |r: &&Record| {
            use Record::{Failed, Gate, Quality, Sample, Stopped, Suggested};
            matches!(
                r,
                Quality { .. }
                    | Suggested { .. }
                    | Gate { .. }
                    | Sample { .. }
                    | Failed { .. }
                    | Stopped { .. }
            )
        };
        ReplayRig { answers: records.iter().filter(is_answer).cloned().collect(), stopped: false }
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
            other => bail!(
                "the journal holds another run: asked for the error of {} in {pair}, found {other:?}",
                work.name
            ),
        }
    }

    fn open(&mut self, _: &Work<'_>, _: &[Format]) -> anyhow::Result<()> {
        Ok(())
    }

    fn suggest(&mut self, problem: &Problem) -> Vec<Config> {
        // A backend without suggestions leaves no record.
        let text = problem.to_string();
        match self.answers.front() {
            Some(Record::Suggested { problem, configs }) if *problem == text => {
                let configs = configs.iter().filter_map(|text| Config::parse(text).ok()).collect();
                self.answers.pop_front();
                configs
            }
            _ => Vec::new(),
        }
    }

    fn admit(&mut self, candidate: &Candidate) -> Result<(), String> {
        match self.answers.pop_front() {
            Some(Record::Gate { candidate: recorded, reason }) if recorded == candidate.to_string() => {
                reason.map_or(Ok(()), Err)
            }
            // The next timing ends the run; see `time`.
            other => {
                self.answers.clear();
                Err(format!("the journal holds another run: asked about {candidate}, found {other:?}"))
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
