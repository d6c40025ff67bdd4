//! One tuning run over the weights of a declaration.

use tilewright_kernels::{BackendKind, Device};

use super::assemble;
use super::candidates::{FormatPair, Plan};
use super::progress::Progress;
use super::rig::Recorder;
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
            max_evaluations: 200,
            patience: 60, // Cold launches on a shared machine scatter too much to tell less apart in reasonable time.
            delta: 0.03,
            warmup_ns: 200e6,
            buffers: 5,
            batch: 1,
        }
    }
}

/// What a run decided.
#[derive(Default)]
pub struct Outcome {
    /// One result per weight that was reached, in the order of the works.
    pub results: Vec<WeightResult>,
    /// Weights that cannot be tuned at all, with the reason.
    pub failed: Vec<String>,
    /// Launches timed.
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
}

/// Tunes all works.
///
/// # Errors
/// If the journal cannot be written, or a replay does not fit.
pub fn tune(
    works: &[Work<'_>],
    device: &Device,
    header: &RunHeader,
    history: &History,
    tables: &[Decisions],
    previous: Option<&Decisions>,
    settings: &Settings,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn Progress,
) -> anyhow::Result<Outcome> {
    let resume = history.resume(header);
    recorder.record(&Record::Run(header.clone()));
    let contests = works.iter().map(|work| work.points.len()).sum();
    progress.began(contests, settings.budget_s);
    let mut sources = Sources { fingerprint: &header.fingerprint, history, tables, this_run: Vec::new() };
    let mut outcome = Outcome { warm_from: history.last_finished(header), ..Outcome::default() };
    outcome.saved =
        resume.evaluations.values().flat_map(|e| e.values()).map(|e| u64::from(e.launches)).sum::<u64>();
    let shares = Shares::new(works);
    for (index, work) in works.iter().enumerate() {
        let time_ns = settings.budget_s.map(|s| (s * 1e9 - recorder.now_ns).max(0.0) * shares.of(index));
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
        recorder.check()?;
        match result {
            Ok(Some(result)) => outcome.results.push(result),
            Ok(None) => {}
            Err(error) => outcome.failed.push(format!("{error:#}")),
        }
        if recorder.stopped {
            break;
        }
    }
    outcome.stopped = recorder.stopped;
    outcome.measurements = recorder.measurements;
    outcome.evaluations = recorder.evaluations;
    outcome.seconds = recorder.now_ns / 1e9;
    if !recorder.stopped {
        recorder
            .record(&Record::End { measurements: recorder.measurements, evaluations: recorder.evaluations });
    }
    recorder.sync();
    recorder.check()?;
    progress.ended();
    Ok(outcome)
}

/// How the time that is left is shared among the works that are left: by the square root of their cost, so that large
/// weights get more and small ones enough.
struct Shares(Vec<f64>);

impl Shares {
    fn new(works: &[Work<'_>]) -> Self {
        // Seconds on a machine of 200 GFLOP/s and 10 GB/s: only the proportions matter.
        let cost = |work: &Work<'_>| -> f64 {
            let weight_bytes = f64::from(work.n) * f64::from(work.k);
            let times = work.points.iter().map(|point| {
                let m = f64::from(point.m);
                (2.0 * m * weight_bytes / 200e9).max(weight_bytes / 10e9) + 100e-6
            });
            times.map(f64::sqrt).sum()
        };
        Shares(works.iter().map(cost).collect())
    }

    /// The part of what is left that work `index` gets.
    fn of(&self, index: usize) -> f64 {
        self.0[index] / self.0[index..].iter().sum::<f64>()
    }
}

/// What a table says about a work now.
fn incumbent(table: &Decisions, work: &Work<'_>) -> Option<(Plan, std::collections::HashMap<u32, String>)> {
    let weight = table.weights.iter().find(|weight| assemble::same_weight(weight, work))?;
    let formats = FormatPair { activation: weight.activation, weight: weight.format };
    let rows = weight.rows.iter().map(|row| (row.m, row.config.clone())).collect();
    Some((Plan { formats, layout: weight.layout }, rows))
}
