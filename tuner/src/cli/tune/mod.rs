//! `tilewright tune`.

mod duration;
mod earlier;
mod measure;
mod replay;
mod report;
mod several;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};

pub(super) use self::duration::parse_duration;
use crate::devices;
use crate::diag::BadInput;
use crate::operands::WeightFile;
use crate::shapes::Declaration;
use crate::tune::{Work, plan_work};
use crate::worker::names::{self, DeviceName};
use crate::worker::{Deadlines, RemoteRig, WorkerSpec};

/// Tune the GEMMs of a model on a device and write their table.
///
/// Leaves <OUT>/<device>/<model>.toml (decisions), .csv (evidence), .rs (generated module) and .journal (everything
/// measured). A run that was interrupted goes on where it was; a finished one is started from. Candidates run in a
/// process of their own: one that crashes or hangs costs itself alone.
#[derive(clap::Args)]
pub(super) struct TuneArgs {
    /// Model declarations.
    #[arg(required = true)]
    shapes: Vec<PathBuf>,
    /// Device to tune on: `cpu`, `cuda:0`, … (see `tilewright devices`). Several of one kind share the GEMMs: `cuda:0-3`,
    /// `cuda:all`, or partitions of the cores: `cpu:0-3,4-7`.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Folder that holds a folder of tables for each device.
    #[arg(long, default_value = "tables")]
    out: PathBuf,
    /// Time for the whole run, for instance 90s, 2m or 1h30m. Without it searches end by themselves.
    #[arg(long, value_parser = parse_duration)]
    budget: Option<f64>,
    /// Time for one GEMM at all its Ms, at most.
    #[arg(long, value_parser = parse_duration)]
    budget_per_gemm: Option<f64>,
    /// Seed of search orders and blocks. Operands do not depend on it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Real weights, one file or all shards of a model: decide quality on them and time with them.
    #[arg(long, num_args = 1..)]
    weights: Vec<PathBuf>,
    /// Time with operands left in cache by the launch before, not evicted. For models that fit the cache.
    #[arg(long)]
    hot: bool,
    /// Repeat the decisions of a journal's last run instead of measuring.
    #[arg(long, value_name = "JOURNAL")]
    replay: Option<PathBuf>,
    /// Address space of a worker in MiB. Nine tenths of the machine's memory on a CPU, unlimited elsewhere.
    #[arg(long, value_name = "MIB")]
    worker_memory: Option<u64>,
    /// The shortest time after which a launch may count as hung; longer ones follow from the times measured.
    #[arg(long, value_parser = parse_duration, default_value = "10s", value_name = "TIME")]
    hang_after: f64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Set by the first Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

impl TuneArgs {
    /// Tunes every declaration.
    ///
    /// # Errors
    /// Bad input, a device or folder that is not there, or a journal that cannot be written.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if self.replay.is_some() && self.shapes.len() > 1 {
            bail!("--replay: a journal belongs to one declaration; give just that one");
        }
        let declarations = Declaration::read_all(&self.shapes)?;
        let weights = if self.weights.is_empty() { None } else { Some(WeightFile::open(&self.weights)?) };
        let kind = match &self.replay {
            Some(path) => replay::backend(path)?,
            None => devices::kind(&self.device)?,
        };
        // Everything that can be wrong with the input is found before anything is measured.
        let mut jobs = Vec::new();
        let mut faults = Vec::new();
        for declaration in &declarations {
            match plan_work(declaration, kind, weights.as_ref()) {
                Ok(works) => jobs.push((declaration, works)),
                Err(bad) => faults.extend(bad.0),
            }
        }
        if !faults.is_empty() {
            return Err(BadInput(faults).into());
        }
        if let Some(path) = &self.replay {
            let (declaration, works) = &jobs[0];
            return self.replay(path, declaration, works);
        }
        stop_on_ctrl_c()?;
        let executable = std::env::current_exe().context("this program's own file cannot be found")?;
        let devices = names::parse(&self.device, |kind| names::all_of(kind, &executable))?;
        let mut rigs = Vec::new();
        for device in &devices {
            rigs.push(RemoteRig::start(self.worker(device, &executable), self.deadlines(), &STOP)?);
        }
        let contests: f64 = jobs.iter().map(|(_, works)| contests(works)).sum();
        for (declaration, works) in &jobs {
            if STOP.load(Ordering::Relaxed) {
                break;
            }
            let budget = self.budget.map(|seconds| seconds * contests_share(works, contests));
            match rigs.as_mut_slice() {
                [rig] => self.measure(rig, declaration, works, budget)?,
                rigs => self.measure_on_several(&devices, rigs, declaration, works, budget)?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn worker(&self, device: &DeviceName, executable: &Path) -> WorkerSpec {
        let memory = match self.worker_memory {
            Some(mib) => mib.checked_mul(1 << 20),
            // Drivers of GPUs reserve more addresses than there is memory.
            None if device.name == "cpu" => physical_memory().map(|bytes| bytes / 10 * 9),
            None => None,
        };
        WorkerSpec {
            executable: executable.into(),
            device: device.name.clone(),
            cores: device.cores.clone(),
            hot: self.hot,
            memory,
        }
    }

    fn deadlines(&self) -> Deadlines {
        let compile = if self.device.starts_with("cpu") { 0.0 } else { 120.0 };
        Deadlines::new(Duration::from_secs_f64(self.hang_after), Duration::from_secs_f64(compile))
    }
}

/// Bytes of memory of this machine.
fn physical_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn contests(works: &[Work<'_>]) -> f64 {
    works.iter().map(|work| work.points.len()).sum::<usize>() as f64
}

fn contests_share(works: &[Work<'_>], all: f64) -> f64 {
    contests(works) / all
}

fn stop_on_ctrl_c() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("stopping after this launch; Ctrl-C again to stop at once");
    })
    .context("Ctrl-C cannot be handled")
}
