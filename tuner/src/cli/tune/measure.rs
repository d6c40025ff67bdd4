//! One declaration: journal, run, table.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tilewright_kernels::backend::Regime;

use super::TuneArgs;
use super::earlier::{Earlier, hash_of};
use super::report::report;
use crate::journal::{self, History, Journal, Record, RunHeader};
use crate::shapes::Declaration;
use crate::table::{self, Decisions};
use crate::tune::{
    Outcome, Progress, Recorder, ReplayRig, Settings, Silent, TerminalProgress, Work, assemble, tune,
};
use crate::worker::RemoteRig;

/// What a run works on.
struct Run<'a> {
    declaration: &'a Declaration,
    works: &'a [Work<'a>],
    header: &'a RunHeader,
    history: &'a History,
    earlier: &'a Earlier,
    folder: &'a Path,
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
        let (_, fingerprint) = hello.device.device()?;
        let folder = self.folder(&fingerprint.key())?;
        let path = folder.join(format!("{}.journal", declaration.model));
        let waits = || {
            eprintln!(
                "{}: another tilewright process is tuning this model on this device; waiting for it",
                path.display()
            );
        };
        let (mut journal, reading) = Journal::open_when_free(&path, &super::STOP, waits)?;
        for damage in &reading.damaged {
            eprintln!("warning: {damage}");
        }
        let mut history = History::new(reading.records);
        let earlier = Earlier::read(&self.out, &folder, &declaration.model)?;
        if let Some((decisions, _)) = &earlier.previous
            && history.has_written(&hash_of(decisions))
        {
            return self.close(&mut journal, &history, decisions, &folder);
        }
        let header = RunHeader {
            version: env!("CARGO_PKG_VERSION").into(),
            fingerprint: fingerprint.to_string(),
            device: hello.device,
            declaration: format!("{:016x}", declaration.hash),
            tables: earlier.hash(),
            seed: self.seed,
            budget_s,
            per_gemm_s: self.budget_per_gemm,
            regime: if self.hot { "hot" } else { "cold" }.into(),
            resolution_ns: hello.resolution_ns,
        };
        rig.begin(budget_s);
        let last = history.segments.last().cloned();
        let Some(interrupted) = history.take_interrupted(&header) else {
            let recorder = Recorder::new(Box::new(rig), Some(journal)).quarantining(last.as_ref());
            let run = Run {
                declaration,
                works,
                header: &header,
                history: &history,
                earlier: &earlier,
                folder: &folder,
            };
            return self.decide(&run, recorder).map(|_| ());
        };
        let recorder = Recorder::new(Box::new(&mut *rig), Some(journal))
            .quarantining(last.as_ref())
            .resuming(&interrupted);
        let before = interrupted.header.clone();
        let run = Run {
            declaration,
            works,
            header: &before,
            history: &history,
            earlier: &earlier,
            folder: &folder,
        };
        let Some(journal) = self.decide(&run, recorder)? else { return Ok(()) };
        // The interrupted run cannot be repeated: what it had finished is taken over piece by piece.
        eprintln!(
            "warning: the interrupted run cannot be gone on with exactly; its finished measurements are kept"
        );
        history.segments.push(interrupted);
        rig.begin(budget_s);
        let recorder = Recorder::new(Box::new(rig), Some(journal)).quarantining(last.as_ref());
        let run = Run {
            declaration,
            works,
            header: &header,
            history: &history,
            earlier: &earlier,
            folder: &folder,
        };
        self.decide(&run, recorder).map(|_| ())
    }

    /// Repeats the last run of a journal.
    pub(super) fn replay(
        &self,
        path: &Path,
        declaration: &Declaration,
        works: &[Work<'_>],
    ) -> anyhow::Result<ExitCode> {
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
        let (_, fingerprint) = header.device.device()?;
        let folder = self.folder(&fingerprint.key())?;
        let earlier = Earlier::read(&self.out, &folder, &declaration.model)?;
        if earlier.hash() != header.tables {
            bail!(
                "{}: its last run began beside other tables than those in {}; give an --out that holds what was there",
                path.display(),
                self.out.display()
            );
        }
        let recorder = Recorder::new(Box::new(ReplayRig::new(&last.records)), None);
        let run = Run { declaration, works, header, history: &history, earlier: &earlier, folder: &folder };
        self.decide(&run, recorder)?;
        Ok(ExitCode::SUCCESS)
    }

    fn folder(&self, key: &str) -> anyhow::Result<PathBuf> {
        let folder = self.out.join(key);
        std::fs::create_dir_all(&folder).with_context(|| {
            format!("{}: cannot make the output folder; choose another --out", folder.display())
        })?;
        Ok(folder)
    }

    /// Runs, writes the table and says so. Gives the journal back, with nothing written, if an interrupted run could not
    /// be repeated.
    fn decide(&self, run: &Run<'_>, mut recorder: Recorder<'_>) -> anyhow::Result<Option<Journal>> {
        let (device, fingerprint) = run.header.device.device()?;
        let mut settings = Settings {
            seed: self.seed,
            budget_s: run.header.budget_s,
            per_gemm_s: run.header.per_gemm_s,
            ..Settings::default()
        };
        if fingerprint.is_simulated() {
            // A model has no clocks to settle, and every nanosecond of it costs an emulator's milliseconds.
            settings.warmup_ns = 0.0;
        }
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
        if recorder.diverged {
            return Ok(recorder.into_journal());
        }
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
        if !outcome.stopped {
            recorder.record(&Record::Decided { table: hash_of(&decisions) });
            recorder.sync();
            recorder.check()?;
        }
        let compiled = table::write_all(run.folder, &decisions, &evidence)?;
        if !outcome.stopped {
            let Outcome { measurements, evaluations, .. } = outcome;
            recorder.record(&Record::End { measurements, evaluations });
            recorder.sync();
            recorder.check()?;
        }
        report(self.json, &decisions, &compiled, &outcome, run.folder)?;
        Ok(None)
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
        let measurements =
            records.iter().filter(|record| matches!(record, Record::Sample { .. })).count() as u64;
        let evaluations =
            records.iter().filter(|record| matches!(record, Record::Evaluated(_))).count() as u64;
        journal.append(&Record::End { measurements, evaluations })?;
        journal.sync()?;
        let outcome = Outcome { measurements, evaluations, saved: measurements, ..Outcome::default() };
        let compiled = table::compile(decisions)?;
        if !self.quiet && !self.json {
            eprintln!("the interrupted run had finished; nothing is left to do");
        }
        report(self.json, decisions, &compiled, &outcome, folder)
    }
}
