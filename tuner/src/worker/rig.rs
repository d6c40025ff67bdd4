//! The rig that asks a worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use tilewright_kernels::{Config, Format, Problem};

use super::deadlines::Deadlines;
use super::message::{Answer, Hello, Question};
use super::process::{Death, Worker, WorkerSpec};
use crate::bench::{BenchFault, Sample};
use crate::tune::{Candidate, FormatPair, Job, Rig, Stopped, Work};

/// Workers in a row that did not get as far as the open weight before the device is given up.
const FAILED_STARTS: usize = 3;
/// Making the operands of a large weight takes a while on a slow machine; the heartbeat tells whether it lives.
const OPEN: Duration = Duration::from_secs(2 * 3600);

/// Compiling a batch, or loading a vendor's library, may take this long.
const WARM: Duration = Duration::from_secs(300);

/// Asks a worker process, and replaces it when it dies.
pub struct RemoteRig<'s> {
    spec: WorkerSpec,
    worker: Option<Worker>,
    /// The weight under trial: its job, its formats, and its operations at one row.
    open: Option<(Job, Vec<String>, f64)>,
    /// Whether the worker has opened it.
    is_open: bool,
    deadlines: Deadlines,
    stop: &'s AtomicBool,
    budget_ns: Option<f64>,
    began: Instant,
    offset_ns: f64,
    simulated: bool,
    simulated_ns: f64,
    /// Why the device is given up.
    lost: Option<String>,
    /// Workers that were replaced.
    replaced: usize,
}

impl<'s> RemoteRig<'s> {
    /// Starts a worker. The rig measures until `stop` is set.
    ///
    /// # Errors
    /// If the worker cannot be started or cannot open its device.
    pub fn start(spec: WorkerSpec, deadlines: Deadlines, stop: &'s AtomicBool) -> anyhow::Result<Self> {
        let worker = match Worker::start(&spec, stop) {
            Ok(worker) => worker,
            Err(Death::Stopped) => return Err(Stopped.into()),
            Err(Death::Died(why) | Death::Killed(why)) => bail!("device {}: {why}", spec.device),
        };
        Ok(RemoteRig {
            simulated: worker.hello.simulated,
            spec,
            worker: Some(worker),
            open: None,
            is_open: false,
            deadlines,
            stop,
            budget_ns: None,
            began: Instant::now(),
            offset_ns: 0.0,
            simulated_ns: 0.0,
            lost: None,
            replaced: 0,
        })
    }

    /// What the worker says of its device.
    pub fn hello(&self) -> &Hello {
        &self.worker.as_ref().expect("a rig starts with a worker").hello
    }

    /// Begins a run: the clock is at 0, and the run has so many seconds.
    pub fn begin(&mut self, budget_s: Option<f64>) {
        self.budget_ns = budget_s.map(|s| s * 1e9);
        self.set_clock(0.0);
        self.open = None;
    }

    /// How many workers were replaced because they died.
    pub fn replaced(&self) -> usize {
        self.replaced
    }

    fn now_ns(&self) -> f64 {
        if self.simulated {
            return self.offset_ns + self.simulated_ns;
        }
        self.offset_ns + self.began.elapsed().as_nanos() as f64
    }

    fn must_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.budget_ns.is_some_and(|budget| self.now_ns() >= budget)
    }

    /// Asks the worker, which must be there. One that dies is not replaced before the next question.
    fn ask(&mut self, question: Question, deadline: Duration) -> Result<Answer, Death> {
        let Some(worker) = &mut self.worker else { return Err(Death::Died("there is no worker".into())) };
        let answer = worker.ask(question, deadline, self.stop);
        match answer {
            Ok(Answer::Poisoned(why)) => {
                self.bury();
                Err(Death::Died(why))
            }
            Ok(answer) => Ok(answer),
            Err(death) => {
                self.bury();
                Err(death)
            }
        }
    }

    fn bury(&mut self) {
        self.worker = None;
        self.is_open = false;
        self.replaced += 1;
    }

    /// One attempt to have a worker with the weight open. `Ok(Err(…))` if the weight itself is refused.
    fn attempt(&mut self) -> Result<Result<(), String>, Death> {
        if self.worker.is_none() {
            self.worker = Some(Worker::start(&self.spec, self.stop)?);
            self.is_open = false;
            // The one before died: is it the device?
            if let Answer::Failed(why) = self.ask(Question::SelfTest, OPEN)? {
                self.bury();
                return Err(Death::Died(format!("a small product on it fails: {why}")));
            }
        }
        let Some((job, formats, _)) = self.open.clone().filter(|_| !self.is_open) else { return Ok(Ok(())) };
        match self.ask(Question::Open { job, formats }, OPEN)? {
            Answer::Failed(why) => Ok(Err(why)),
            _ => {
                self.is_open = true;
                Ok(Ok(()))
            }
        }
    }

    /// A worker with the weight open, after as many attempts as it takes.
    fn prepare(&mut self) -> anyhow::Result<Result<(), String>> {
        if let Some(why) = &self.lost {
            bail!(why.clone());
        }
        let mut last = String::new();
        for _ in 0..FAILED_STARTS {
            if self.must_end() {
                return Err(Stopped.into());
            }
            match self.attempt() {
                Ok(done) => return Ok(done),
                Err(Death::Stopped) => return Err(Stopped.into()),
                Err(Death::Died(why) | Death::Killed(why)) => last = why,
            }
        }
        bail!(
            "device {}: given up, {FAILED_STARTS} workers in a row did not get ready: {last}",
            self.spec.device
        )
    }

    /// Operations of the open weight at M.
    fn flops(&self, m: u32) -> f64 {
        self.open.as_ref().map_or(0.0, |(_, _, flops)| flops * f64::from(m))
    }

    /// Asks about a candidate of the open weight. A worker that dies is replaced at once, and the new one shows that
    /// the device works: if it does not, it was not the candidate's fault. If somebody else killed the worker it may not
    /// be either: the candidate is asked about once more.
    fn ask_of(&mut self, question: &Question, deadline: Duration) -> Result<Answer, BenchFault> {
        let mut death = match self.ask(question.clone(), deadline) {
            Ok(answer) => return Ok(answer),
            Err(death) => death,
        };
        match self.prepare() {
            Ok(_) if matches!(death, Death::Killed(_)) => match self.ask(question.clone(), deadline) {
                Ok(answer) => return Ok(answer),
                Err(again) => death = again,
            },
            Ok(_) => {}
            Err(error) if error.is::<Stopped>() => {}
            Err(error) => {
                let how = match &death {
                    Death::Died(why) | Death::Killed(why) => why.as_str(),
                    Death::Stopped => "stopped",
                };
                self.lost = Some(format!("{error:#}, after a candidate: {how}"));
                return Err(BenchFault::Stopped);
            }
        }
        Err(Self::candidate_fault(death))
    }

    fn candidate_fault(death: Death) -> BenchFault {
        match death {
            Death::Died(why) | Death::Killed(why) => BenchFault::Candidate(why),
            Death::Stopped => BenchFault::Stopped,
        }
    }
}

impl Rig for RemoteRig<'_> {
    fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        self.announce_nothing();
        self.prepare()?.map_err(anyhow::Error::msg)?;
        let question = Question::Quality { job: work.job(), formats: pair.to_string() };
        match self.ask(question, OPEN) {
            Ok(Answer::Quality(error)) => Ok(error),
            Ok(Answer::Failed(why)) | Err(Death::Died(why) | Death::Killed(why)) => {
                bail!("{}: {pair}: {why}", work.name)
            }
            Ok(other) => bail!("{}: {pair}: the worker said {other:?}", work.name),
            Err(Death::Stopped) => Err(Stopped.into()),
        }
    }

    fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()> {
        self.announce(work, formats);
        match self.prepare()? {
            Ok(()) => Ok(()),
            Err(why) => {
                self.open = None;
                bail!("{}: {why}", work.name)
            }
        }
    }

    fn announce(&mut self, work: &Work<'_>, formats: &[Format]) {
        let names = formats.iter().map(|format| format.name().to_string()).collect();
        self.open = Some((work.job(), names, work.base(1).flops() as f64));
        self.is_open = false;
        self.deadlines.clear();
    }

    fn ready(&mut self) -> anyhow::Result<()> {
        self.prepare()?.map_err(anyhow::Error::msg)
    }

    fn set_clock(&mut self, now_ns: f64) {
        self.offset_ns = now_ns;
        self.simulated_ns = 0.0;
        self.began = Instant::now();
    }

    fn suggest(&mut self, problem: &Problem) -> Vec<Config> {
        let pair = FormatPair { activation: problem.a, weight: problem.b };
        let question = Question::Suggest { m: problem.m, formats: pair.to_string() };
        match self.ask(question, WARM) {
            // The worker is this program, but what it says is not trusted to be.
            Ok(Answer::Suggested(texts)) => {
                texts.iter().filter_map(|text| Config::parse(text).ok()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn warm(&mut self, candidates: &[Candidate]) {
        let Some(first) = candidates.first() else { return };
        let candidates = candidates.iter().map(Candidate::to_string).collect();
        // Whatever goes wrong shows when the candidates are asked about, one by one.
        let _ = self.ask(Question::Warm { m: first.problem.m, candidates }, WARM);
    }

    fn admit(&mut self, candidate: &Candidate) -> Result<(), BenchFault> {
        if self.must_end() {
            return Err(BenchFault::Stopped);
        }
        let m = candidate.problem.m;
        let question = Question::Admit { m, candidate: candidate.to_string() };
        let asked = Instant::now();
        let deadline = self.deadlines.gate(m, self.flops(m));
        let answer = self.ask_of(&question, deadline)?;
        match answer {
            Answer::Failed(why) => Err(BenchFault::Candidate(why)),
            _ => {
                self.deadlines.admitted(m, asked.elapsed().as_secs_f64());
                Ok(())
            }
        }
    }

    fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault> {
        if self.must_end() {
            return Err(BenchFault::Stopped);
        }
        let m = candidate.problem.m;
        let question = Question::Time { m, candidate: candidate.to_string(), slot };
        // The worker of a resumed run sends a candidate through the gate before it times it.
        let deadline = self.deadlines.launch(m, self.flops(m)).max(self.deadlines.gate(m, self.flops(m)));
        let answer = self.ask_of(&question, deadline)?;
        match answer {
            Answer::Timed(ns) => {
                self.deadlines.launched(m, ns / 1e9);
                self.simulated_ns += ns;
                Ok(Sample { ns, at_ns: self.now_ns() })
            }
            Answer::Failed(why) => Err(BenchFault::Candidate(why)),
            other => Err(BenchFault::Candidate(format!("the worker said {other:?}"))),
        }
    }
}

impl RemoteRig<'_> {
    /// Between weights none is open.
    fn announce_nothing(&mut self) {
        self.open = None;
        self.is_open = false;
    }
}
