//! After the finals at the declared Ms: rows that cannot be right are measured again, and changes of kernel are located.
//!
//! * A row that takes longer than one with a larger M was measured in a bad moment, or the larger M's kernel is better there
//!   too. It is raced again, with that kernel among the entrants.
//! * Between two neighbouring Ms with different winners the change may lie anywhere. The Ms between them are halved (by ratio)
//!   and raced among the finalists of both, until the change is known to a ratio of [`NARROW`] or the kernels tie: within a
//!   tie it does not matter where the change is. The measured M become rows of their own, of no declared share, so
//!   that the table's intervals end where the measurements say.
//!
//! Everything is a function of the verdicts so far and of what the recorder answers, so a replay does the same. A budget is
//! kept: widest gaps go first, each race has its share of the time that is left, and a gap for which there is
//! none stays as it is. What a race cannot decide is dropped rather than made a row.

use std::cell::RefCell;

use super::candidates::{Candidate, Field, FormatPair};
use super::copies::Stored;
use super::explore::seed_of;
use super::finals::{Bracket, finals};
use super::observe::Shared;
use super::plan::Searched;
use super::progress::Progress;
use super::rig::Recorder;
use super::weight::Context;
use super::work::Work;
use crate::journal::{ContestKey, Record, Verdict, VerdictRow};
use crate::race::RaceOptions;
use crate::stats::Looks;

/// A change of kernel is known well enough between Ms of at most this ratio.
const NARROW: f64 = 1.25;
/// A row is dominated if a larger M is faster by more than this factor.
const DOMINATED: f64 = 1.02;
/// Finalists of each side that race between them.
const OF_EACH_SIDE: usize = 2;
/// Blocks at which a race between two Ms is looked at: it asks which of a few known kernels is faster, no more.
const LOOKS: [usize; 4] = [6, 10, 16, 24];

/// What both steps need of a weight's contests.
pub(super) struct Ground<'a, 'w> {
    pub(super) work: &'a Work<'w>,
    pub(super) pairs: &'a [FormatPair],
    pub(super) stored: &'a Stored,
    pub(super) context: &'a Context<'a>,
    /// When this weight's time is spent, by the recorder's clock, if it is bounded.
    pub(super) ends_ns: Option<f64>,
}

impl Ground<'_, '_> {
    /// Races rows that a larger M beats again, from the largest M down, and puts what was found in their place.
    pub(super) fn remeasure_dominated(
        &self,
        searched: &mut [Searched],
        verdicts: &mut [Verdict],
        recorder: &mut Recorder<'_>,
        progress: &mut dyn Progress,
    ) {
        for index in (0..verdicts.len().saturating_sub(1)).rev() {
            let (small, large) = (&verdicts[index], &verdicts[index + 1]);
            let (Some(before), Some(other)) = (winner(small), winner(large)) else { continue };
            if before.ns <= DOMINATED * other.ns || !self.has_time_for(before.ns, recorder) {
                continue;
            }
            let at = &mut searched[index];
            let plan = self.stored.at(at.m);
            let best = at.best_of(plan).map_or(1.0, |(_, ratio)| ratio);
            // The larger M's kernel takes part, if the gate lets it.
            let rival = at.field.find(&other.candidate).filter(|point| {
                let known = at.ranked.iter().any(|(other, ..)| other == point);
                at.field.candidates[*point].plan() == plan
                    && !known
                    && recorder.admit(&at.field.candidates[*point]).is_ok()
            });
            at.ranked.splice(0..0, rival.map(|point| (point, best, 0)));
            let again = self.race(at, &small.key, &[], 4, recorder, progress);
            if again.verdict.starts_with("ambiguous") || recorder.stopped {
                continue;
            }
            recorder.record(&Record::Verdict(again.clone()));
            verdicts[index] = again;
        }
    }

    /// Races between Ms whose winners differ, and gives the verdicts at the new Ms.
    pub(super) fn locate_changes(
        &self,
        verdicts: &[Verdict],
        recorder: &mut Recorder<'_>,
        progress: &mut dyn Progress,
    ) -> Vec<Verdict> {
        let mut gaps: Vec<[Verdict; 2]> =
            verdicts.windows(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
        let mut found = Vec::new();
        loop {
            gaps.retain(|[low, high]| self.is_open(low, high));
            // The widest first, of equals the one of smaller M.
            let ratio = |[low, high]: &[Verdict; 2]| f64::from(high.m) / f64::from(low.m);
            let widest =
                gaps.iter().enumerate().max_by(|(i, a), (j, b)| ratio(a).total_cmp(&ratio(b)).then(j.cmp(i)));
            let Some((index, _)) = widest else { return found };
            let [low, high] = gaps.swap_remove(index);
            let Some(middle) = self.between(&low, &high, recorder, progress) else { continue };
            found.push(middle.clone());
            gaps.push([low, middle.clone()]);
            gaps.push([middle, high]);
        }
    }

    /// Whether it matters where between two Ms the kernel changes, and is not known.
    fn is_open(&self, low: &Verdict, high: &Verdict) -> bool {
        let (Some(first), Some(last)) = (winner(low), winner(high)) else { return false };
        let same = first.candidate == last.candidate || ties(low, last) || ties(high, first);
        let one_copy = self.stored.at(low.m) == self.stored.at(high.m);
        !same && one_copy && f64::from(high.m) > NARROW * f64::from(low.m) && middle(low.m, high.m) > low.m
    }

    /// The verdict at the M between two, among their finalists. `None` where there is no time, nothing to decide between, or no
    /// decision.
    fn between(
        &self,
        low: &Verdict,
        high: &Verdict,
        recorder: &mut Recorder<'_>,
        progress: &mut dyn Progress,
    ) -> Option<Verdict> {
        let m = middle(low.m, high.m);
        let key = self.work.key(m, self.pairs);
        let decided = |verdict: &&Verdict| !verdict.verdict.starts_with("ambiguous");
        if let Some(known) = self.context.resume.verdicts.get(&key).filter(decided) {
            recorder.record(&Record::Verdict(known.clone()));
            return Some(known.clone());
        }
        let sentinel_ns = default(high)?.ns;
        if recorder.stopped || !self.has_time_for(sentinel_ns, recorder) {
            return None;
        }
        let base = self.work.base(m);
        let suggested = recorder.suggest(&base, self.pairs);
        let field = Field::new(&base, self.pairs, &suggested, self.context.device)?;
        let field = field.within(self.stored.at(m), self.context.device)?;
        let sides = [low, high].into_iter().flat_map(|side| side.finalists.iter().take(OF_EACH_SIDE));
        let mut points: Vec<usize> = Vec::new();
        for row in sides.filter(|row| row.status != "failed") {
            // The same config, on a problem of another M.
            let here =
                Candidate::parse(&row.candidate, &self.work.base(m)).and_then(|here| field.point(&here));
            points.extend(here.filter(|point| !points.contains(point)));
        }
        let admitted = |point: &usize| recorder.admit(&field.candidates[*point]).is_ok();
        points.retain(admitted);
        let raced = !points.is_empty() && recorder.admit(&field.candidates[field.sentinel]).is_ok();
        if !raced {
            return None;
        }
        recorder.record(&Record::Contest { key: key.clone(), candidates: points.len() });
        progress.contest(&self.work.name, m, "between two Ms");
        let ranked = points.into_iter().map(|point| (point, 1.0, 0)).collect();
        let at = Searched { m, weight: 0.0, field, ranked, sentinel_ns, warm: false };
        let neighbours: Vec<String> = [low, high].into_iter().filter_map(config_of_winner).collect();
        let verdict = self.race(&at, &key, &neighbours, 5, recorder, progress);
        let usable = !verdict.verdict.starts_with("ambiguous") && !verdict.finalists.is_empty();
        if !usable {
            return None;
        }
        recorder.record(&Record::Verdict(verdict.clone()));
        recorder.sync();
        progress.decided(&super::weight::line(&self.work.name, &verdict));
        Some(verdict)
    }

    fn race(
        &self,
        at: &Searched,
        key: &ContestKey,
        neighbours: &[String],
        phase: u64,
        recorder: &mut Recorder<'_>,
        progress: &mut dyn Progress,
    ) -> Verdict {
        let settings = self.context.settings;
        let options = RaceOptions {
            seed: seed_of(settings.seed, key, phase),
            delta: settings.delta,
            warmup_ns: settings.warm_up_again_ns(),
            buffers: settings.buffers,
            max_time_ns: self.ends_ns.map(|ends| ((ends - recorder.now_ns) / 2.0).max(0.0)),
            looks: Looks::new(LOOKS.to_vec(), 0.05).expect("the looks ascend"),
            max_blocks: 2 * LOOKS[LOOKS.len() - 1],
            ..RaceOptions::default()
        };
        let bracket = Bracket { plan: self.stored.at(at.m), incumbent: None, earlier: None, neighbours };
        let shared = Shared { recorder: RefCell::new(recorder), resolution_ns: self.context.resolution_ns };
        finals(&shared, at, key, &bracket, &options, progress)
    }

    /// Whether the first look of a race among a few kernels of about `ns` each comes before this weight's time is spent.
    fn has_time_for(&self, ns: f64, recorder: &Recorder<'_>) -> bool {
        let entrants = (2 * OF_EACH_SIDE + 2) as f64;
        let least = self.context.settings.warm_up_again_ns() + LOOKS[0] as f64 * entrants * ns;
        self.ends_ns.is_none_or(|ends| recorder.now_ns + 2.0 * least <= ends)
    }
}

/// The M halfway between two, by ratio.
fn middle(low: u32, high: u32) -> u32 {
    (u64::from(low) * u64::from(high)).isqrt() as u32
}

fn winner(verdict: &Verdict) -> Option<&VerdictRow> {
    verdict.finalists.first().filter(|_| !verdict.verdict.starts_with("ambiguous"))
}

fn default(verdict: &Verdict) -> Option<&VerdictRow> {
    verdict.finalists.iter().find(|row| row.default)
}

/// Whether another M's winner could not be told from this one's.
fn ties(verdict: &Verdict, other: &VerdictRow) -> bool {
    verdict.finalists.iter().any(|row| row.status == "tied" && row.candidate == other.candidate)
}

fn config_of_winner(verdict: &Verdict) -> Option<String> {
    winner(verdict)?.candidate.split_once(' ').map(|(_, config)| config.to_owned())
}
