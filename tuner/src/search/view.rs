//! What a strategy sees: the space and everything found so far.

use super::{Evaluation, Space};
use crate::stats::Rng;

/// Results so far. Log-ratios are to the sentinel, the smaller the faster.
pub struct View<'a> {
    /// The space.
    pub space: &'a Space,
    pub(super) results: &'a [Option<Result<Evaluation, ()>>],
    pub(super) order: &'a [usize],
    pub(super) best: Option<(usize, f64)>,
}

impl View<'_> {
    /// Whether a point was evaluated, known or rejected: it must not be proposed again.
    pub fn was_tried(&self, point: usize) -> bool {
        self.results[point].is_some()
    }

    /// The log of an evaluated point's ratio; `None` where it was not tried or was rejected.
    pub fn log_ratio(&self, point: usize) -> Option<f64> {
        self.results[point]?.ok().map(|evaluation| evaluation.ratio.ln())
    }

    /// The points tried so far, in order: rejected ones too.
    pub fn tried(&self) -> &[usize] {
        self.order
    }

    /// The best point with its log-ratio.
    pub fn best(&self) -> Option<(usize, f64)> {
        self.best
    }

    /// An untried point for a new start: of a group that occurs, each as likely, the better half of its points by prior
    /// more likely the better they are. `None` where everything was tried.
    pub fn draw(&self, rng: &mut Rng) -> Option<usize> {
        let mut groups: Vec<u16> = self.space.groups().collect();
        rng.shuffle(&mut groups);
        for group in groups {
            let mut points: Vec<usize> =
                self.space.points_of(group).iter().copied().filter(|point| !self.was_tried(*point)).collect();
            if points.is_empty() {
                continue;
            }
            let flat = points.iter().all(|point| self.space.prior(*point) == self.space.prior(points[0]));
            if flat {
                return rng.choose(&points).copied();
            }
            points.sort_by(|a, b| self.space.prior(*a).total_cmp(&self.space.prior(*b)).then(a.cmp(b)));
            // The cube of a uniform draw: half of the draws fall into the best eighth, and no point is out of reach.
            let at = (rng.unit().powi(3) * points.len() as f64) as usize;
            return Some(points[at.min(points.len() - 1)]);
        }
        None
    }
}
