//! One declaration on one device: journal, run, table.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tilewright_kernels::BackendKind;
use tilewright_kernels::backend::{Regime, SIMULATED};

use super::TuneArgs;
use super::earlier::{Earlier, hash_of};
use super::report::report;
use crate::devices;
use crate::journal::{History, Journal, Record, RunHeader, Segment};
use crate::objects;
use crate::shapes::Declaration;
use crate::style;
use crate::table::{self, Decisions};
use crate::tune::{
    InOrder, Outcome, Progress, Queue, Recorder, Settings, Silent, TerminalProgress, Work, assemble, tune,
};
use crate::worker::{Hello, RemoteRig};

/// What a run works on.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) declaration: &'a Declaration,
    pub(super) works: &'a [Work<'a>],
    pub(super) header: &'a RunHeader,
    pub(super) history: &'a History,
    pub(super) earlier: &'a Earlier,
    pub(super) folder: &'a Path,
}

impl Run<'_> {
    pub(super) fn settings(&self) -> Settings {
        let RunHeader { seed, budget_s, per_gemm_s, .. } = *self.header;
        let stale = |work: &Work<'_>| {
            self.earlier.stale.iter().any(|stale| names(self.declaration, work, &stale.weight))
        };
        let first = (0..self.works.len()).filter(|index| stale(&self.works[*index])).collect();
        let backend = self.header.device.device().map_or(BackendKind::Cpu, |(device, _)| device.backend);
        let mut settings = Settings { seed, budget_s, per_gemm_s, first, ..Settings::of(backend) };
        if self.header.device.features.iter().any(|feature| feature == SIMULATED) {
            // A model has no clocks to settle, and every nanosecond of it costs an emulator's milliseconds.
            settings.warmup_ns = 0.0;
        }
        settings
    }

    /// Tunes what the queue gives out.
    pub(super) fn tune(
        &self,
        queue: &mut dyn Queue,
        recorder: &mut Recorder<'_>,
        progress: &mut dyn Progress,
    ) -> anyhow::Result<Outcome> {
        let (device, _) = self.header.device.device()?;
        let previous = self.earlier.previous.as_ref().map(|(decisions, _)| decisions);
        let Run { works, header, history, earlier, .. } = self;
        let settings = self.settings();
        Ok(tune(
            works,
            &device,
            header,
            history,
            &earlier.tables,
            previous,
            &settings,
            queue,
            recorder,
            progress,
        ))
    }
}

/// Whether a GEMM of that name asks for the work.
fn names(declaration: &Declaration, work: &Work<'_>, name: &str) -> bool {
    work.gemms.iter().any(|gemm| declaration.gemms[*gemm].name == name)
}

impl TuneArgs {
    /// Tunes on the device, going on with an interrupted run if there is one.
    pub(super) fn measure(
        &self,
        rig: &mut RemoteRig<'_>,
        declaration: &Declaration,
        works: &[Work<'_>],
        budget_s: Option<f64>,
    ) -> anyhow::Result<()> {
        let hello = rig.hello().clone();
        let folder = self.folder(&hello)?;
        let (mut journal, mut history) = self.journal(&folder, &declaration.model)?;
        let mut earlier = Earlier::read(&self.out, &folder, &declaration.model)?;
        if let Some((decisions, _)) = &earlier.previous
            && history.has_written(&hash_of(decisions))
        {
            return self.close(&mut journal, &history, decisions, &folder);
        }
        let header = self.header(&hello, declaration, &earlier, budget_s)?;
        earlier.mark_stale(&history, &header, &mut |stale| style::warn(&stale.to_string()));
        let last = history.segments.last().cloned();
        let interrupted = history.take_interrupted(&header);
        let before = interrupted.as_ref().map_or(&header, |segment| &segment.header);
        let run =
            Run { declaration, works, header: before, history: &history, earlier: &earlier, folder: &folder };
        let journal = self.attempt(&run, rig, journal, last.as_ref(), interrupted.as_ref())?;
        let (Some(journal), Some(interrupted)) = (journal, interrupted) else { return Ok(()) };
        // The interrupted run cannot be repeated: what it had finished is taken over piece by piece.
        style::warn("the interrupted run cannot be gone on with exactly; its finished measurements are kept");
        history.segments.push(interrupted);
        let run = Run {
            declaration,
            works,
            header: &header,
            history: &history,
            earlier: &earlier,
            folder: &folder,
        };
        self.attempt(&run, rig, journal, last.as_ref(), None).map(|_| ())
    }

    /// Runs and writes the table. Gives the journal back, with nothing written, if an interrupted run could not be
    /// repeated.
    fn attempt(
        &self,
        run: &Run<'_>,
        rig: &mut RemoteRig<'_>,
        journal: Journal,
        last: Option<&Segment>,
        interrupted: Option<&Segment>,
    ) -> anyhow::Result<Option<Journal>> {
        rig.begin(run.header.budget_s);
        let mut recorder = Recorder::new(Box::new(rig), Some(journal)).quarantining(last);
        if let Some(interrupted) = interrupted {
            recorder = recorder.resuming(interrupted);
        }
        let mut queue = InOrder::new(run.works, &run.settings());
        let mut progress = self.progress();
        let mut outcome = run.tune(&mut queue, &mut recorder, progress.as_mut())?;
        if recorder.diverged {
            return Ok(recorder.into_journal());
        }
        if let Some(lost) = outcome.lost.take() {
            return Err(lost);
        }
        let measurements = recorder.measurements;
        self.write(run, &outcome, measurements, &mut |record| {
            recorder.record(record);
            recorder.sync();
            recorder.check()
        })?;
        Ok(None)
    }

    /// Writes the table of a run, says so, and records that it is decided and written through `record`.
    pub(super) fn write(
        &self,
        run: &Run<'_>,
        outcome: &Outcome,
        measurements: u64,
        record: &mut dyn FnMut(&Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (device, fingerprint) = run.header.device.device()?;
        let previous = run.earlier.previous.as_ref();
        let device =
            table::DeviceRecord { key: fingerprint.key(), fingerprint: fingerprint.to_string(), device };
        let regime = if run.header.regime == "hot" { Regime::Hot } else { Regime::Cold };
        let (decisions, evidence) =
            assemble(run.declaration, run.works, &outcome.results, device, self.seed, regime, previous);
        if decisions.weights.is_empty() {
            let why = if outcome.failed.is_empty() {
                "stopped before anything was decided; the same command goes on from here".to_string()
            } else {
                outcome.failed.join("; ")
            };
            bail!("{}: no table written: {why}", run.declaration.model);
        }
        if !outcome.stopped {
            record(&Record::Decided { table: hash_of(&decisions) })?;
        }
        let compiled = table::write_all(run.folder, &decisions, &evidence)?;
        // A table is whole without its code: an engine with a compiler needs none.
        #[cfg(feature = "cuda")]
        if let Err(missing) = crate::code::write(run.folder, &decisions) {
            crate::style::warn(&format!("no cubins beside the table: {missing:#}"));
        }
        if decisions.device.device.backend == BackendKind::Hip {
            match devices::hip_toolchain() {
                Ok(toolchain) => {
                    objects::write(run.folder, &decisions, toolchain)?;
                }
                Err(missing) => style::warn(&format!("no code objects beside the table: {missing}")),
            }
        }
        if !outcome.stopped {
            record(&Record::End { measurements, evaluations: outcome.evaluations })?;
        }
        report(self.json, &decisions, &compiled, outcome, run.folder)
    }

    pub(super) fn header(
        &self,
        hello: &Hello,
        declaration: &Declaration,
        earlier: &Earlier,
        budget_s: Option<f64>,
    ) -> anyhow::Result<RunHeader> {
        let (_, fingerprint) = hello.device.device()?;
        Ok(RunHeader {
            version: env!("CARGO_PKG_VERSION").into(),
            fingerprint: fingerprint.to_string(),
            device: hello.device.clone(),
            declaration: format!("{:016x}", declaration.hash),
            tables: earlier.hash(),
            seed: self.seed,
            budget_s,
            per_gemm_s: self.budget_per_gemm,
            regime: if self.hot { "hot" } else { "cold" }.into(),
            resolution_ns: hello.resolution_ns,
            tools: hello.tools.clone(),
            part: None,
        })
    }

    pub(super) fn progress(&self) -> Box<dyn Progress + Send> {
        if style::is_quiet() || self.json { Box::new(Silent) } else { Box::new(TerminalProgress::default()) }
    }

    /// The folder of a device's tables, made if it is missing.
    pub(super) fn folder(&self, hello: &Hello) -> anyhow::Result<PathBuf> {
        let (_, fingerprint) = hello.device.device()?;
        let folder = self.out.join(fingerprint.key());
        std::fs::create_dir_all(&folder).with_context(|| {
            format!("{}: cannot make the output folder; choose another --out", folder.display())
        })?;
        Ok(folder)
    }

    /// The journal of that name, once nobody else writes to it, with the runs it holds.
    pub(super) fn journal(&self, folder: &Path, name: &str) -> anyhow::Result<(Journal, History)> {
        let path = folder.join(format!("{name}.journal"));
        let waits = || {
            eprintln!(
                "{}: another tilewright process is tuning this model on this device; waiting for it",
                path.display()
            );
        };
        let (journal, reading) = Journal::open_when_free(&path, &super::STOP, waits)?;
        for damage in &reading.damaged {
            style::warn(damage);
        }
        Ok((journal, History::new(reading.records)))
    }

    /// Says for a run that was killed between its table's last byte and its own last word that it is over.
    fn close(
        &self,
        journal: &mut Journal,
        history: &History,
        decisions: &Decisions,
        folder: &Path,
    ) -> anyhow::Result<()> {
        let records = history.segments.last().map_or(&[][..], |segment| &segment.records);
        let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count() as u64;
        let measurements = count(|record| matches!(record, Record::Sample { .. }));
        let evaluations = count(|record| matches!(record, Record::Evaluated(_)));
        journal.append(&Record::End { measurements, evaluations })?;
        journal.sync()?;
        let outcome = Outcome { evaluations, saved: measurements, ..Outcome::default() };
        let compiled = table::compile(decisions)?;
        if !style::is_quiet() && !self.json {
            eprintln!("the interrupted run had finished; nothing is left to do");
        }
        report(self.json, decisions, &compiled, &outcome, folder)
    }
}
