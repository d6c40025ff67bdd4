//! Watches the sentinel's level for moves of the machine.

use crate::stats::{Cusum, median, scaled_mad};

/// Blocks that fix the reference level.
const BASE: usize = 6;
/// Slack and threshold of the CUSUM in standard deviations.
const SLACK: f64 = 1.0;
const THRESHOLD: f64 = 8.0;
/// Values are clipped to this many deviations, so that it takes at least three in a row to ring: a single preempted launch
/// is what the trimmed mean is for.
const CLIP: f64 = 4.0;
/// The least deviation assumed, as a log-ratio: a recorded or very quiet sentinel is no reason to ring at 0.01 %.
const LEAST_SCALE: f64 = 0.001;

/// A move that was found: the first block after it (counted within this watch), and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alarm {
    pub(super) since: usize,
    pub(super) shift: f64,
}

/// Watches one regime of the machine.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    least_shift: f64,
    levels: Vec<f64>,
    cusum: Option<Cusum>,
    /// Number of levels when the present CUSUM began.
    from: usize,
    reference: f64,
    scale: f64,
}

impl Watch {
    /// A watch that ignores moves under `least_shift`.
    pub(super) fn new(least_shift: f64) -> Self {
        Watch { least_shift, levels: Vec::new(), cusum: None, from: 0, reference: 0.0, scale: 0.0 }
    }

    /// Takes the log level of the next block.
    pub(super) fn push(&mut self, level: f64) -> Option<Alarm> {
        self.levels.push(level);
        if self.levels.len() < BASE {
            return None;
        }
        if self.levels.len() == BASE {
            self.reference = median(&self.levels).expect("not empty");
            self.scale = scaled_mad(&self.levels).expect("not empty").max(LEAST_SCALE);
            self.restart_cusum();
            return None;
        }
        let deviation = ((level - self.reference) / self.scale).clamp(-CLIP, CLIP);
        let shift = self.cusum.as_mut()?.push(deviation)?;
        // The sum may have been a little above 0 before the change; the change is where half of it is reached.
        let recent = &self.levels[self.levels.len().saturating_sub(3)..];
        let size = median(recent).expect("not empty") - self.reference;
        let reached = |level: &f64| (level - self.reference) / size >= 0.5;
        let suspects = &self.levels[self.from + shift.since..];
        let since = self.from + shift.since + suspects.iter().position(reached).unwrap_or(0);
        if size.abs() < self.least_shift {
            self.restart_cusum();
            return None;
        }
        Some(Alarm { since, shift: size })
    }

    /// Whether a level measured after an alarm is the old one again.
    pub(super) fn is_back(&self, level: f64) -> bool {
        (level - self.reference).abs() < self.least_shift.max(3.0 * self.scale)
    }

    /// Forgets the levels from `since` on and watches on at the old reference.
    pub(super) fn resume(&mut self, since: usize) {
        self.levels.truncate(since);
        self.restart_cusum();
    }

    fn restart_cusum(&mut self) {
        self.cusum = Some(Cusum::new(0.0, SLACK, THRESHOLD));
        self.from = self.levels.len();
    }
}
