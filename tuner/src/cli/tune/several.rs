//! One declaration on several devices of one kind: one queue of weights, a worker and a journal for each device.
//!
//! Each device writes `<model>.<device>.journal` while it measures. At the end they are joined, as parts of one run, into
//! `<model>.journal`, whose lock is held throughout, and are removed. A run that is killed goes on from its parts.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::TuneArgs;
use super::earlier::Earlier;
use super::measure::Run;
use crate::journal::{History, Journal, Record, RunHeader, Segment};
use crate::shapes::Declaration;
use crate::style;
use crate::tune::{Outcome, Recorder, SharedProgress, SharedQueue, Work};
use crate::worker::RemoteRig;
use crate::worker::names::DeviceName;

/// One device's side of the run.
struct Part {
    journal: Option<Journal>,
    header: RunHeader,
    last: Option<Segment>,
    interrupted: Option<Segment>,
}

impl TuneArgs {
    /// Tunes on all devices at once.
    pub(super) fn measure_on_several(
        &self,
        devices: &[DeviceName],
        rigs: &mut [RemoteRig<'_>],
        declaration: &Declaration,
        works: &[Work<'_>],
        budget_s: Option<f64>,
    ) -> anyhow::Result<()> {
        let hello = rigs[0].hello().clone();
        for (device, rig) in devices.iter().zip(rigs.iter()).skip(1) {
            if rig.hello().device != hello.device {
                bail!(
                    "--device {}: {} is another kind of device than {}, and gets a table of its own; tune them one after the other",
                    self.device,
                    device.text(),
                    devices[0].text()
                );
            }
        }
        let folder = self.folder(&hello)?;
        let (mut journal, mut history) = self.journal(&folder, &declaration.model)?;
        let mut earlier = Earlier::read(&self.out, &folder, &declaration.model)?;
        let header = self.header(&hello, declaration, &earlier, budget_s)?;
        earlier.mark_stale(&history, &header, &mut |stale| style::warn(&stale.to_string()));
        let mut parts = self.parts(devices, &folder, &declaration.model, &header)?;
        let mut outcome = loop {
            let run = Run {
                declaration,
                works,
                header: &header,
                history: &history,
                earlier: &earlier,
                folder: &folder,
            };
            let (outcome, diverged) = self.run_parts(&run, devices, rigs, &mut parts)?;
            if !diverged {
                break outcome;
            }
            // What the parts hold cannot be gone on with: it becomes history, and is taken over piece by piece.
            style::warn(
                "the interrupted run cannot be gone on with exactly; its finished measurements are kept",
            );
            drop(parts);
            join(&mut journal, devices, &folder, &declaration.model, &mut history)?;
            parts = self.parts(devices, &folder, &declaration.model, &header)?;
        };
        drop(parts);
        let measurements = join(&mut journal, devices, &folder, &declaration.model, &mut history)?;
        let run = Run {
            declaration,
            works,
            header: &header,
            history: &history,
            earlier: &earlier,
            folder: &folder,
        };
        outcome.results.sort_by_key(|result| result.work);
        self.write(&run, &outcome, measurements, &mut |record| {
            journal.append(record)?;
            Ok(journal.sync()?)
        })
    }

    fn parts(
        &self,
        devices: &[DeviceName],
        folder: &Path,
        model: &str,
        header: &RunHeader,
    ) -> anyhow::Result<Vec<Part>> {
        let mut parts = Vec::new();
        for (index, device) in devices.iter().enumerate() {
            let name = part_name(model, device);
            let (journal, mut history) = self.journal(folder, &name)?;
            let header = RunHeader { part: Some([index, devices.len()]), ..header.clone() };
            let last = history.segments.last().cloned();
            let interrupted = history.take_interrupted(&header);
            let header = interrupted.as_ref().map_or(header, |segment| segment.header.clone());
            parts.push(Part { journal: Some(journal), header, last, interrupted });
        }
        Ok(parts)
    }

    /// One thread for each device, until the queue is empty. Also says whether a part could not be repeated.
    fn run_parts(
        &self,
        run: &Run<'_>,
        devices: &[DeviceName],
        rigs: &mut [RemoteRig<'_>],
        parts: &mut [Part],
    ) -> anyhow::Result<(Outcome, bool)> {
        let taken: Vec<usize> =
            parts.iter().filter_map(|part| part.interrupted.as_ref()).flat_map(taken).collect();
        let settings = run.settings();
        let queue = SharedQueue::new(run.works, &settings, devices.len(), &taken, &super::STOP);
        let progress = SharedProgress::new(self.progress());
        let mut whole = Outcome::default();
        let mut diverged = false;
        let results: Vec<anyhow::Result<(Outcome, bool)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = rigs
                .iter_mut()
                .zip(parts.iter_mut())
                .map(|(rig, part)| {
                    let (queue, mut progress) = (&queue, progress.clone());
                    scope.spawn(move || {
                        let run = Run { header: &part.header, ..*run };
                        rig.begin(part.header.budget_s);
                        let mut recorder = Recorder::new(Box::new(rig), part.journal.take())
                            .quarantining(part.last.as_ref());
                        if let Some(interrupted) = &part.interrupted {
                            recorder = recorder.resuming(interrupted);
                        }
                        let outcome = run.tune(&mut queue.share(), &mut recorder, &mut progress)?;
                        Ok((outcome, recorder.diverged))
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        for (device, result) in devices.iter().zip(results) {
            let (mut outcome, part_diverged) = result?;
            diverged |= part_diverged;
            if let Some(lost) = outcome.lost.take() {
                let why = format!("{} was given up, the others took its GEMMs: {lost:#}", device.text());
                style::warn(&why);
                whole.given_up.push(why);
            }
            whole.add(outcome);
        }
        if whole.given_up.len() == devices.len() {
            bail!("every device was given up; what was measured is in the journals and is gone on from");
        }
        Ok((whole, diverged))
    }
}

fn part_name(model: &str, device: &DeviceName) -> String {
    format!("{model}.{}", device.text().replace(':', "-"))
}

fn taken(segment: &Segment) -> Vec<usize> {
    let take = |record: &Record| if let Record::Take { work, .. } = record { Some(*work) } else { None };
    segment.records.iter().filter_map(take).collect()
}

/// Moves what the devices recorded into the one journal. Gives the launches they timed.
fn join(
    journal: &mut Journal,
    devices: &[DeviceName],
    folder: &Path,
    model: &str,
    history: &mut History,
) -> anyhow::Result<u64> {
    let mut launches = 0;
    let paths = devices.iter().map(|device| folder.join(format!("{}.journal", part_name(model, device))));
    let paths: Vec<PathBuf> = paths.collect();
    for path in &paths {
        let records = crate::journal::read(path)?.records;
        launches += records.iter().filter(|record| matches!(record, Record::Sample { .. })).count() as u64;
        for record in &records {
            journal.append(record)?;
        }
        history.segments.extend(History::new(records).segments);
    }
    journal.sync()?;
    for path in &paths {
        std::fs::remove_file(path).with_context(|| format!("{}: cannot be removed", path.display()))?;
    }
    Ok(launches)
}
