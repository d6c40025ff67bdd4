//! When a race may end, and what it concludes from the blocks that it has, however it ended.

use super::block::End;
use super::judge::{self, CONFIDENCE};
use super::outcome::{EntrantResult, RaceOutcome, Status, Verdict};
use super::run::{Finish, Out, Race};
use crate::stats::{Interval, TRIM, trimmed_mean};

impl Race<'_> {
    pub(super) fn outcome(mut self, finish: Finish) -> RaceOutcome {
        let first_look = self.options.looks.at()[0];
        let enough = self.blocks() >= first_look;
        // The leader of the last look; where there was none, of what there is.
        let leader = self.leader.filter(|index| self.runners[*index].is_live()).or_else(|| {
            self.trim_to_common();
            self.find_leader()
        });
        let sentinel_interval = self.sentinel_interval();
        let tie_set = leader.map(|leader| self.tie_set(leader)).unwrap_or_default();
        let reason = match &finish {
            Finish::NobodyLeft => Some("every entrant failed".to_owned()),
            Finish::Unsteady => Some(format!(
                "the machine's speed moved {} times, last by {:+.1} %",
                self.drift.len(),
                100.0 * self.drift.last().map_or(0.0, |event| event.shift)
            )),
            Finish::Early(End::Stopped) => Some("stopped".to_owned()),
            Finish::Early(End::TraceExhausted) => Some("the recorded trace ended".to_owned()),
            Finish::Early(End::OutOfTime) if !enough => {
                Some(format!("time ran out after {} blocks, before the first look", self.blocks()))
            }
            _ if !enough => Some(format!("too few blocks: {} of {first_look}", self.blocks())),
            _ => leader.and_then(|leader| self.sentinel_fault(leader)),
        };
        let verdict = match reason {
            Some(reason) => Verdict::Ambiguous(reason),
            None if tie_set.len() == 1 => Verdict::Decided,
            None => Verdict::Tied(tie_set.len()),
        };
        let entrants = (0..self.runners.len()).map(|index| self.result(index, leader)).collect();
        let point = |index: usize| self.runners[index].entrant.point;
        RaceOutcome {
            winner: tie_set.first().map(|index| point(*index)),
            leader: leader.map(point),
            verdict,
            confirmed: matches!(finish, Finish::Confirmed),
            tie_set: tie_set.iter().map(|index| point(*index)).collect(),
            entrants,
            sentinel_interval,
            drift: self.drift,
            blocks: self.halves[1].len(),
            discarded_blocks: self.discarded,
            restarts: self.restarts,
            measurements: self.watch.measurements,
            warmup_measurements: self.watch.warmup_measurements,
        }
    }

    /// Whether nothing speaks against the incumbent: it is live, no rival is faster, and the sentinel is itself.
    pub(super) fn is_unopposed(&self) -> bool {
        let live = self.live();
        let Some(incumbent) = live.iter().copied().find(|index| self.runners[*index].entrant.incumbent)
        else {
            return false;
        };
        let is_faster = |rival: usize| {
            self.ratio(rival, incumbent).is_none_or(|ratio| ratio.interval(CONFIDENCE).high < 0.0)
        };
        self.sentinel_interval().is_some_and(|interval| interval.contains(0.0))
            && !live.into_iter().any(|rival| rival != incumbent && is_faster(rival))
    }

    /// What the live A/A test says against a verdict for this leader.
    pub(super) fn sentinel_fault(&self, leader: usize) -> Option<String> {
        let beaten = |index: usize| match self.runners[index].out {
            _ if index == leader => Some(f64::INFINITY),
            Some(Out::Failed(_)) => Some(f64::INFINITY),
            Some(Out::Eliminated { .. }) => Some(self.ratio(index, leader)?.interval(CONFIDENCE).low),
            None => None,
        };
        let margin =
            (0..self.runners.len()).map(|index| beaten(index).unwrap_or(0.0)).fold(f64::INFINITY, f64::min);
        judge::sentinel_fault(self.sentinel_interval(), self.options.delta(), margin)
    }

    /// Leader and survivors, the winner first: the incumbent, or else the most preferred of those whose estimate lies
    /// within a quarter of δ. A rival whose wide interval merely reaches 0 ties, but does not win by its name.
    fn tie_set(&self, leader: usize) -> Vec<usize> {
        let near = 0.25 * self.options.delta();
        let is_near = |index: usize| {
            index == leader || self.ratio(index, leader).is_some_and(|ratio| ratio.mean <= near)
        };
        let mut tied = self.live();
        // Runners are in order of preference, and the sort is stable.
        tied.sort_by_key(|index| (!self.runners[*index].entrant.incumbent, !is_near(*index)));
        tied
    }

    /// Cuts the live tracks to the blocks that all of them have, where measuring ended inside the first block.
    fn trim_to_common(&mut self) {
        let common = self.live().iter().map(|index| self.runners[*index].track.len()).min().unwrap_or(0);
        for runner in self.runners.iter_mut().filter(|runner| runner.is_live()) {
            runner.track.truncate(common);
        }
    }

    fn result(&self, index: usize, leader: Option<usize>) -> EntrantResult {
        let runner = &self.runners[index];
        let samples: Vec<f64> = runner.track.iter().map(|time| time.exp()).collect();
        let (log_ratio, interval) = match leader {
            Some(leader) if leader == index => (Some(0.0), Some(Interval { low: 0.0, high: 0.0 })),
            Some(leader) => {
                let ratio = self.ratio(index, leader);
                (ratio.map(|ratio| ratio.mean), ratio.map(|ratio| ratio.interval(CONFIDENCE)))
            }
            None => (None, None),
        };
        EntrantResult {
            point: runner.entrant.point,
            status: match &runner.out {
                None if leader == Some(index) => Status::Leader,
                None => Status::Tied,
                Some(Out::Eliminated { look, blocks, .. }) => {
                    Status::Eliminated { look: *look, blocks: *blocks }
                }
                Some(Out::Failed(reason)) => Status::Failed(reason.clone()),
            },
            trimmed_mean_ns: trimmed_mean(&samples, TRIM),
            samples,
            log_ratio,
            interval,
        }
    }
}
