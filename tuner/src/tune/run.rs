//! One tuning run over the weights of a declaration.

use tilewright_dispatch::Key;
use tilewright_kernels::{BackendKind, Device};

use super::assemble;
use super::candidates::{FormatPair, Plan};
use super::copies::Stored;
use super::progress::Progress;
use super::queue::Queue;
use super::rig::{Recorder, Stopped};
use super::seeds::Sources;
use super::weight::{Context, WeightResult, tune_weight};
use super::work::Work;
use crate::journal::{History, Record, RunHeader};
use crate::table::Decisions;

/// What a run may spend and how it decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of everything random.
    pub seed: u64,
    /// Time for the whole run, seconds.
    pub budget_s: Option<f64>,
    /// Time for one weight at all its Ms, seconds.
    pub per_gemm_s: Option<f64>,
    /// Works to tune before the others: those with stale rows.
    pub first: Vec<usize>,
    /// Evaluations a search may spend on one contest.
    pub max_evaluations: usize,
    /// Evaluations without improvement that end a search.
    pub patience: usize,
    /// Differences that do not matter, as a log-ratio.
    pub delta: f64,
    /// Warm-up of the device, nanoseconds.
    pub warmup_ns: f64,
    /// Copies of the operands that the device rotates through.
    pub buffers: usize,
    /// Candidates that are compiled, and then measured, together.
    pub batch: usize,
}

impl Settings {
    /// What suits the devices of a backend.
    pub fn of(backend: BackendKind) -> Self {
        match backend {
            BackendKind::Cpu => Settings::default(),
            // A GPU of its own scatters less: on an H200 the log-ratio of two timings of one kernel had a deviation of
            // 0.1 to 0.9 %, and the trimmed mean of ten a largest value of 0.1 to 0.6 % (16 kernels and sizes, 100 blocks
            // each, `cuda_aa`). One timing goes through all copies. Kernels are compiled on all cores.
            BackendKind::Cuda | BackendKind::Hip => {
                Settings { delta: 0.01, patience: 32, buffers: 1, batch: 16, ..Settings::default() }
            }
        }
    }
}

impl Default for Settings {
    /// What suits a shared CPU.
    fn default() -> Self {
        Settings {
            seed: 1,
            budget_s: None,
            per_gemm_s: None,
            first: Vec::new(),
            max_evaluations: 200,
            patience: 60, // Cold launches on a shared machine scatter too much to tell less apart in reasonable time.
            delta: 0.03,
            warmup_ns: 200e6,
            buffers: 5,
            batch: 1,
        }
    }
}

/// Warm-up of later contests, nanoseconds: the device is busy already, only the code path is new.
const WARM_UP_AGAIN_NS: f64 = 0.5e6;

impl Settings {
    /// Warm-up of every contest but the first, nanoseconds.
    pub(super) fn warm_up_again_ns(&self) -> f64 {
        WARM_UP_AGAIN_NS.min(self.warmup_ns)
    }
}

/// What a run decided.
#[derive(Default)]
pub struct Outcome {
    /// One result per weight that was reached, in the order of the works.
    pub results: Vec<WeightResult>,
    /// Weights that cannot be tuned at all, with the reason.
    pub failed: Vec<String>,
    /// Launches timed, without those that an interrupted run had made.
    pub measurements: u64,
    /// Launches that an interrupted run had made and this one took over.
    pub saved: u64,
    /// Candidates evaluated.
    pub evaluations: u64,
    /// Launches and evaluations of the last finished run of the same declaration on this device, if this run started
    /// from it.
    pub warm_from: Option<[u64; 2]>,
    /// Whether the budget or the user ended it before everything was measured.
    pub stopped: bool,
    /// Seconds by the run's clock.
    pub seconds: f64,
    /// Why nothing more could be measured or recorded on this device, if so.
    pub lost: Option<anyhow::Error>,
    /// Devices that were given up while others went on, with the reason.
    pub given_up: Vec<String>,
}

impl Outcome {
    /// Adds what another device decided in the same run.
    pub fn add(&mut self, part: Outcome) {
        self.results.extend(part.results);
        self.failed.extend(part.failed);
        self.measurements += part.measurements;
        self.saved += part.saved;
        self.evaluations += part.evaluations;
        self.warm_from = self.warm_from.or(part.warm_from);
        self.stopped |= part.stopped;
        self.seconds = self.seconds.max(part.seconds);
        self.given_up.extend(part.given_up);
    }
}

/// Tunes the works that the queue gives out.
pub fn tune(
    works: &[Work<'_>],
    device: &Device,
    header: &RunHeader,
    history: &History,
    tables: &[Decisions],
    previous: Option<&Decisions>,
    settings: &Settings,
    queue: &mut dyn Queue,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> Outcome {
    let resume = history.resume(header);
    recorder.record(&Record::Run(header.clone()));
    let contests = works.iter().map(|work| work.points.len()).sum();
    progress.began(contests, settings.budget_s);
    let mut sources = Sources { fingerprint: &header.fingerprint, history, tables, this_run: Vec::new() };
    let mut outcome = Outcome { warm_from: history.last_finished(header), ..Outcome::default() };
    outcome.saved =
        resume.evaluations.values().flat_map(|e| e.values()).map(|e| u64::from(e.launches)).sum::<u64>();
    while let Some((index, share)) = recorder.take(queue) {
        let Some(work) = works.get(index) else { break };
        let limit = settings.per_gemm_s.map(|s| s * 1e9);
        let time_ns = share.into_iter().chain(limit).min_by(f64::total_cmp);
        let incumbent = previous.and_then(|table| incumbent(table, work));
        let context = Context {
            device,
            settings,
            resume: &resume,
            resolution_ns: header.resolution_ns,
            time_ns,
            incumbent,
        };
        let result = tune_weight(index, work, &context, &mut sources, recorder, progress);
        if let Err(error) = recorder.check() {
            outcome.lost = Some(error);
            break;
        }
        match result {
            Ok(Some(result)) => outcome.results.push(result),
            Ok(None) => {}
            Err(error) if error.is::<Stopped>() => {}
            Err(error) => outcome.failed.push(format!("{error:#}")),
        }
        if recorder.stopped || recorder.diverged {
            break;
        }
        queue.finished();
    }
    outcome.stopped = recorder.stopped;
    outcome.measurements = recorder.measurements - recorder.repeated;
    outcome.evaluations = recorder.evaluations;
    outcome.saved += recorder.repeated;
    outcome.seconds = recorder.now_ns / 1e9;
    recorder.sync();
    if outcome.lost.is_none() {
        outcome.lost = recorder.check().err();
    }
    progress.ended();
    outcome
}

/// What a table says about a work now.
fn incumbent(table: &Decisions, work: &Work<'_>) -> Option<(Stored, std::collections::HashMap<u32, String>)> {
    let weight = table.weights.iter().find(|weight| assemble::same_weight(weight, work))?;
    let plan = |key: Key| {
        let formats = FormatPair { activation: key.a, weight: key.b };
        Plan { formats, layout: key.layout }
    };
    let second =
        weight.second.as_ref().zip(weight.second_key()).map(|(second, key)| (second.from, plan(key)));
    let rows = weight.rows.iter().map(|row| (row.m, row.config.clone())).collect();
    Some((Stored { first: plan(weight.key()), second }, rows))
}
