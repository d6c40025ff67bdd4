//! `tilewright tune`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use tilewright_kernels::backend::{Backend, Fingerprint, Regime};
use tilewright_kernels::config::fnv1a;
use tilewright_kernels::{BackendKind, Caps, Device};

use crate::devices;
use crate::diag::BadInput;
use crate::journal::{self, DeviceRecord, History, Journal, RunHeader};
use crate::operands::WeightFile;
use crate::shapes::Declaration;
use crate::table::{self, Decisions, Finalist, evidence};
use crate::tune::{
    DeviceRig, Outcome, Progress, Recorder, ReplayRig, Rig, Settings, Silent, TerminalProgress, Work,
    assemble, plan_work, summary, tune,
};

/// Tune the GEMMs of a model on a device and write their table.
///
/// Leaves <OUT>/<device>/<model>.toml (decisions), .csv (evidence), .rs (generated module) and .journal (everything
/// measured). A run that was interrupted goes on where it was; a finished one is started from.
#[derive(clap::Args)]
pub(super) struct TuneArgs {
    /// Model declarations.
    #[arg(required = true)]
    shapes: Vec<PathBuf>,
    /// Device to tune on: `cpu`, `cuda:0`, … (see `tilewright devices`).
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Folder that holds a folder of tables for each device.
    #[arg(long, default_value = "tables")]
    out: PathBuf,
    /// Time for the whole run, for instance 90s, 2m or 1h30m. Without it searches end by themselves.
    #[arg(long, value_parser = parse_duration)]
    budget: Option<f64>,
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
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print no progress.
    #[arg(short, long)]
    quiet: bool,
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
            Some(path) => replayed_backend(path)?,
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
        let backend = devices::open(&self.device)?;
        let contests: f64 = jobs.iter().map(|(_, works)| contests(works)).sum();
        for (declaration, works) in &jobs {
            if STOP.load(Ordering::Relaxed) {
                break;
            }
            let budget = self.budget.map(|seconds| seconds * contests_share(works, contests));
            self.measure(backend.as_ref(), declaration, works, budget)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        backend: &dyn Backend,
        declaration: &Declaration,
        works: &[Work<'_>],
        budget_s: Option<f64>,
    ) -> anyhow::Result<()> {
        let regime = if self.hot { Regime::Hot } else { Regime::Cold };
        let fingerprint = backend.fingerprint();
        let folder = self.out.join(fingerprint.key());
        std::fs::create_dir_all(&folder).with_context(|| {
            format!("{}: cannot make the output folder; choose another --out", folder.display())
        })?;
        let (journal, reading) = Journal::open(&folder.join(format!("{}.journal", declaration.model)))?;
        for damage in &reading.damaged {
            eprintln!("warning: {damage}");
        }
        let history = History::new(reading.records);
        let earlier = Earlier::read(&self.out, &folder, &declaration.model)?;
        let header = RunHeader {
            version: env!("CARGO_PKG_VERSION").into(),
            fingerprint: fingerprint.to_string(),
            device: record_of(backend.device(), fingerprint),
            declaration: format!("{:016x}", declaration.hash),
            tables: earlier.hash(),
            seed: self.seed,
            budget_s,
            regime: if self.hot { "hot" } else { "cold" }.into(),
            resolution_ns: backend.timer_resolution().as_nanos() as f64,
        };
        let rig = DeviceRig::new(backend, regime, budget_s, &STOP);
        let run = Run {
            declaration,
            works,
            header: &header,
            history: &history,
            earlier: &earlier,
            folder: &folder,
        };
        self.decide(&run, Box::new(rig), Some(journal))
    }

    fn replay(&self, path: &Path, declaration: &Declaration, works: &[Work<'_>]) -> anyhow::Result<ExitCode> {
        let mut history = History::new(journal::read(path)?.records);
        let Some(last) = history.segments.pop() else { bail!("{}: holds no run", path.display()) };
        let header = &last.header;
        let hash = format!("{:016x}", declaration.hash);
        if header.declaration != hash || header.seed != self.seed {
            bail!(
                "{}: its last run tuned declaration {} with --seed {}, not {hash} with --seed {}",
                path.display(),
                header.declaration,
                header.seed,
                self.seed
            );
        }
        let (_, fingerprint) = device_of(&header.device)?;
        let folder = self.out.join(fingerprint.key());
        std::fs::create_dir_all(&folder).with_context(|| {
            format!("{}: cannot make the output folder; choose another --out", folder.display())
        })?;
        let earlier = Earlier::read(&self.out, &folder, &declaration.model)?;
        if earlier.hash() != header.tables {
            bail!(
                "{}: its last run began beside other tables than those in {}; give an --out that holds what was there",
                path.display(),
                self.out.display()
            );
        }
        let rig = ReplayRig::new(&last.records);
        let run = Run { declaration, works, header, history: &history, earlier: &earlier, folder: &folder };
        self.decide(&run, Box::new(rig), None)?;
        Ok(ExitCode::SUCCESS)
    }

    fn decide(&self, run: &Run<'_>, rig: Box<dyn Rig + '_>, journal: Option<Journal>) -> anyhow::Result<()> {
        let (device, fingerprint) = device_of(&run.header.device)?;
        let (seed, budget_s) = (self.seed, run.header.budget_s);
        let settings = Settings { seed, budget_s, ..Settings::of(device.backend) };
        let mut recorder = Recorder::new(rig, journal);
        let mut progress: Box<dyn Progress> =
            if self.quiet || self.json { Box::new(Silent) } else { Box::new(TerminalProgress::default()) };
        let previous = run.earlier.previous.as_ref();
        let outcome = tune(
            run.works,
            &device,
            run.header,
            run.history,
            &run.earlier.tables,
            previous.map(|(decisions, _)| decisions),
            &settings,
            &mut recorder,
            progress.as_mut(),
        )?;
        let record =
            table::DeviceRecord { key: fingerprint.key(), fingerprint: fingerprint.to_string(), device };
        let regime = if run.header.regime == "hot" { Regime::Hot } else { Regime::Cold };
        let (decisions, evidence) =
            assemble(run.declaration, run.works, &outcome.results, record, self.seed, regime, previous);
        if decisions.weights.is_empty() {
            let why = if outcome.failed.is_empty() {
                "stopped before anything was decided; the same command goes on from here".to_string()
            } else {
                outcome.failed.join("; ")
            };
            bail!("{}: no table written: {why}", run.declaration.model);
        }
        let compiled = table::write_all(run.folder, &decisions, &evidence)?;
        // A table is whole without its code: an engine with a compiler needs none.
        #[cfg(feature = "cuda")]
        if let Err(error) = crate::code::write(run.folder, &decisions) {
            eprintln!("warning: {error:#}");
        }
        self.report(&decisions, &compiled, &outcome, run.folder)
    }

    fn report(
        &self,
        decisions: &Decisions,
        compiled: &table::Compiled,
        outcome: &Outcome,
        folder: &Path,
    ) -> anyhow::Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(&json(decisions, compiled, outcome, folder))?);
            return Ok(());
        }
        print!("{}", summary(decisions, compiled, outcome));
        let stem = folder.join(&decisions.model);
        println!("wrote {stem}.toml, .csv and .rs", stem = stem.display());
        for warning in &compiled.warnings {
            eprintln!("warning: {warning}");
        }
        Ok(())
    }
}

/// What a run works on.
struct Run<'a> {
    declaration: &'a Declaration,
    works: &'a [Work<'a>],
    header: &'a RunHeader,
    history: &'a History,
    earlier: &'a Earlier,
    folder: &'a Path,
}

/// The tables that are there before a run.
struct Earlier {
    /// All of them, this model's on this device included.
    tables: Vec<Decisions>,
    /// This model's on this device, with its evidence.
    previous: Option<(Decisions, Vec<Finalist>)>,
}

impl Earlier {
    /// Reads every table under `out`. A table that cannot be read is no seed, and says so; the one about to be replaced
    /// must be readable, so that nothing is overwritten that is not understood.
    fn read(out: &Path, folder: &Path, model: &str) -> anyhow::Result<Self> {
        let own = folder.join(format!("{model}.toml"));
        let mut tables = Vec::new();
        let mut previous = None;
        for path in table::tables_in(out).with_context(|| format!("{}: cannot be read", out.display()))? {
            match table::read(&path) {
                Ok(decisions) => {
                    if path == own {
                        let evidence = evidence::read(&path.with_extension("csv")).unwrap_or_default();
                        previous = Some((decisions.clone(), evidence));
                    }
                    tables.push(decisions);
                }
                Err(bad) if path == own => return Err(bad.into()),
                Err(bad) => eprintln!("warning: not used as a start: {bad}"),
            }
        }
        Ok(Earlier { tables, previous })
    }

    fn hash(&self) -> String {
        let text: String = self.tables.iter().map(Decisions::to_toml).collect();
        format!("{:016x}", fnv1a(text.as_bytes()))
    }
}

/// The backend that a journal's last run measured on.
fn replayed_backend(path: &Path) -> anyhow::Result<BackendKind> {
    let history = History::new(journal::read(path)?.records);
    let last = history.segments.last().with_context(|| format!("{}: holds no run", path.display()))?;
    Ok(device_of(&last.header.device)?.0.backend)
}

fn contests(works: &[Work<'_>]) -> f64 {
    works.iter().map(|work| work.points.len()).sum::<usize>() as f64
}

fn contests_share(works: &[Work<'_>], all: f64) -> f64 {
    contests(works) / all
}

fn record_of(device: &Device, fingerprint: &Fingerprint) -> DeviceRecord {
    DeviceRecord {
        backend: device.backend.name().into(),
        model: fingerprint.model.clone(),
        features: fingerprint.features.clone(),
        caps: device.caps.names().map(str::to_string).collect(),
        units: device.units,
        caches_kib: [device.l1_kib, device.l2_kib, device.llc_kib],
    }
}

fn device_of(record: &DeviceRecord) -> anyhow::Result<(Device, Fingerprint)> {
    let backend = BackendKind::from_name(&record.backend).with_context(|| {
        format!("the journal names a backend {:?} that this version does not have", record.backend)
    })?;
    let mut caps = Caps::NONE;
    for (name, cap) in Caps::NAMES {
        if record.caps.iter().any(|recorded| recorded == name) {
            caps = caps.with(*cap);
        }
    }
    let [l1_kib, l2_kib, llc_kib] = record.caches_kib;
    let device = Device { backend, caps, units: record.units, l1_kib, l2_kib, llc_kib };
    let (model, features) = (record.model.clone(), record.features.clone());
    Ok((device, Fingerprint { backend, model, features, units: record.units }))
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

/// Reads `90s`, `2m`, `1h30m`, or plain seconds.
fn parse_duration(text: &str) -> Result<f64, String> {
    let help = || format!("{text:?} is not a time such as 90s, 2m or 1h30m");
    let mut seconds = 0.0;
    let mut number = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() || c == '.' {
            number.push(c);
            continue;
        }
        let unit = match c {
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            _ => return Err(help()),
        };
        seconds += unit * number.parse::<f64>().map_err(|_| help())?;
        number.clear();
    }
    if !number.is_empty() {
        seconds += number.parse::<f64>().map_err(|_| help())?;
    }
    if seconds > 0.0 && seconds.is_finite() { Ok(seconds) } else { Err(help()) }
}

fn json(
    decisions: &Decisions,
    compiled: &table::Compiled,
    outcome: &Outcome,
    folder: &Path,
) -> serde_json::Value {
    let rows = decisions.weights.iter().flat_map(|weight| {
        weight.rows.iter().map(move |row| {
            serde_json::json!({
                "gemm": weight.name, "m": row.m, "n": weight.n, "k": weight.k, "count": weight.count,
                "activation": weight.activation.name(), "format": weight.format.name(),
                "layout": weight.layout.name(), "config": row.config, "id": row.id.to_string(),
                "verdict": row.verdict.to_string(), "time_ns": row.time_ns, "interval_ns": row.interval_ns,
                "default": row.default, "default_ns": row.default_ns, "error": weight.error,
            })
        })
    });
    serde_json::json!({
        "model": decisions.model,
        "device": decisions.device.key,
        "folder": folder.display().to_string(),
        "rows": rows.collect::<Vec<_>>(),
        "kernels": compiled.kernels,        "measurements": outcome.measurements,
        "evaluations": outcome.evaluations,
        "saved": outcome.saved,
        "warm_from": outcome.warm_from,
        "seconds": outcome.seconds,
        "stopped": outcome.stopped,
        "not_tuned": outcome.failed,
    })
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn durations_are_read_and_nonsense_is_refused() {
        assert_eq!(parse_duration("90s"), Ok(90.0));
        assert_eq!(parse_duration("2m"), Ok(120.0));
        assert_eq!(parse_duration("1h30m"), Ok(5400.0));
        assert_eq!(parse_duration("1.5"), Ok(1.5));
        for bad in ["", "0s", "-1s", "2 m", "m", "1d", "1e9"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
