//! Strategies without memory: what others are measured against.

use super::{Strategy, View};
use crate::stats::Rng;

/// Points in a uniformly random order.
#[derive(Clone, Debug, Default)]
pub struct RandomOrder {
    left: Option<Vec<usize>>,
}

impl Strategy for RandomOrder {
    fn name(&self) -> &'static str {
        "random"
    }

    fn propose(&mut self, view: &View<'_>, rng: &mut Rng, most: usize) -> Vec<usize> {
        let left = self.left.get_or_insert_with(|| {
            let mut all: Vec<usize> = (0..view.space.len()).collect();
            rng.shuffle(&mut all);
            all
        });
        take(left, view, most)
    }
}

/// All points, by prior and then in order.
#[derive(Clone, Debug, Default)]
pub struct Exhaustive {
    left: Option<Vec<usize>>,
}

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn propose(&mut self, view: &View<'_>, _rng: &mut Rng, most: usize) -> Vec<usize> {
        let left = self.left.get_or_insert_with(|| {
            let mut all: Vec<usize> = (0..view.space.len()).collect();
            all.sort_by(|a, b| view.space.prior(*a).total_cmp(&view.space.prior(*b)).then(a.cmp(b)));
            all.reverse();
            all
        });
        take(left, view, most)
    }
}

/// The last untried ones, off the end.
fn take(left: &mut Vec<usize>, view: &View<'_>, most: usize) -> Vec<usize> {
    let mut taken = Vec::new();
    while taken.len() < most {
        match left.pop() {
            Some(point) if view.was_tried(point) => {}
            Some(point) => taken.push(point),
            None => break,
        }
    }
    taken
}
