//! Repeating a run from its journal.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use tilewright_kernels::BackendKind;

use super::TuneArgs;
use super::earlier::Earlier;
use super::measure::Run;
use crate::journal::{self, History, Record, Segment};
use crate::shapes::Declaration;
use crate::tune::{InOrder, Outcome, Queue, Recorded, Recorder, ReplayRig, Work};

/// The backend that a journal's last run measured on.
pub(super) fn backend(path: &Path) -> anyhow::Result<BackendKind> {
    let history = History::new(journal::read(path)?.records);
    let Some(last) = history.segments.last() else { bail!("{}: holds no run", path.display()) };
    Ok(last.header.device.device()?.0.backend)
}

impl TuneArgs {
    /// Repeats the last run of a journal, that of all its devices.
    pub(super) fn replay(
        &self,
        path: &Path,
        declaration: &Declaration,
        works: &[Work<'_>],
    ) -> anyhow::Result<ExitCode> {
        let mut history = History::new(journal::read(path)?.records);
        let Some(last) = history.segments.last() else { bail!("{}: holds no run", path.display()) };
        let parts = last.header.part.map_or(1, |[_, of]| of);
        let header = last.header.clone();
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
        let first = history.segments.len().checked_sub(parts);
        let first =
            first.with_context(|| format!("{}: parts of its last run are missing", path.display()))?;
        let segments = history.segments.split_off(first);
        let hello = crate::worker::Hello { device: header.device.clone(), ..Default::default() };
        let folder = self.folder(&hello)?;
        let mut earlier = Earlier::read(&self.out, &folder, &declaration.model)?;
        if earlier.hash() != header.tables {
            bail!(
                "{}: its last run began beside other tables than those in {}; give an --out that holds what was there",
                path.display(),
                self.out.display()
            );
        }
        earlier.mark_stale(&history, &header, &mut |_| {});
        let mut whole = Outcome::default();
        for segment in &segments {
            let run = Run {
                declaration,
                works,
                header: &segment.header,
                history: &history,
                earlier: &earlier,
                folder: &folder,
            };
            let mut recorder = Recorder::new(Box::new(ReplayRig::new(&segment.records)), None);
            let mut outcome =
                run.tune(queue(&run, segment).as_mut(), &mut recorder, self.progress().as_mut())?;
            if let Some(lost) = outcome.lost.take() {
                return Err(lost);
            }
            whole.add(outcome);
        }
        let run = Run {
            declaration,
            works,
            header: &header,
            history: &history,
            earlier: &earlier,
            folder: &folder,
        };
        self.write(&run, &whole, whole.measurements, &mut |_| Ok(()))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn queue(run: &Run<'_>, segment: &Segment) -> Box<dyn Queue> {
    if segment.header.part.is_none() {
        return Box::new(InOrder::new(run.works, &run.settings()));
    }
    let taken = segment.records.iter().filter_map(|record| match record {
        Record::Take { work, time_ns } => Some((*work, *time_ns)),
        _ => None,
    });
    Box::new(Recorded::new(taken))
}
