//! What a race does when an entrant fails, the sentinel fails, or the machine changes.

use super::block::End;
use super::drift::{Alarm, Watch};
use super::outcome::DriftEvent;
use super::run::{Out, Race};
use crate::stats::median;

/// Sentinel launches that find the level after a drift.
const PROBES: usize = 5;

impl Race<'_> {
    pub(super) fn fail(&mut self, index: usize, reason: String) {
        self.watch.observer().failed(self.runners[index].entrant.point, &reason);
        self.runners[index].out = Some(Out::Failed(reason));
        // Those that lost to it have no judge any more.
        let orphaned =
            self.runners.iter().any(|r| matches!(r.out, Some(Out::Eliminated { by, .. }) if by == index));
        if orphaned {
            self.clear();
        }
    }

    /// Makes the first runner that has not failed the sentinel.
    pub(super) fn replace_sentinel(&mut self) {
        let failed = self.sentinel;
        if let Some(next) = self.runners.iter().find(|r| !r.has_failed() && r.entrant.point != failed) {
            self.sentinel = next.entrant.point;
        }
    }

    /// Starts from no blocks, with everybody that has not failed.
    pub(super) fn clear(&mut self) {
        self.discarded = self.complete;
        for runner in &mut self.runners {
            runner.track.clear();
            if matches!(runner.out, Some(Out::Eliminated { .. })) {
                runner.out = None;
            }
        }
        self.halves = Default::default();
        self.level = Watch::new(self.options.drift());
        self.leader = None;
    }

    pub(super) fn drifted(&mut self) -> Option<Alarm> {
        let block = self.blocks().checked_sub(1)?;
        self.level.push(0.5 * (self.halves[0][block] + self.halves[1][block]))
    }

    /// Discards the blocks since a change and warms up again; if the machine then still is another one, starts over.
    /// False where that happened too often.
    pub(super) fn recover(&mut self, alarm: Alarm) -> Result<bool, End> {
        let gone = self.blocks() - alarm.since;
        for runner in &mut self.runners {
            runner.track.truncate(alarm.since);
        }
        for half in &mut self.halves {
            half.truncate(alarm.since);
        }
        self.discarded += gone;
        self.warm_up()?;
        let mut probes = Vec::new();
        for _ in 0..PROBES {
            if let Ok(ns) = self.watch.launch(None, self.sentinel)? {
                probes.push(ns.ln());
            }
        }
        let is_back = median(&probes).is_some_and(|level| self.level.is_back(level));
        let event = DriftEvent {
            found: self.complete - 1,
            since: self.complete - gone,
            shift: alarm.shift,
            restarted: !is_back,
        };
        self.watch.observer().drift(&event);
        self.drift.push(event);
        if is_back {
            self.level.resume(alarm.since);
            return Ok(true);
        }
        if self.restarts == self.options.max_restarts {
            return Ok(false);
        }
        self.restarts += 1;
        self.clear();
        Ok(true)
    }
}
