//! Several proposals at once from a strategy that gives one at a time.
//!
//! Where evaluating a point takes a compilation, several are compiled at once. A pending point is taken to be as fast as
//! the median of what is known, which keeps the strategy from proposing its neighbours for the same reason again (the
//! constant liar of Ginsbourger, Le Riche & Carraro, "Kriging is well-suited to parallelize optimization", 2010).

use super::{Evaluation, Strategy, View};
use crate::stats::{Rng, median};

/// Asks a strategy until it has proposed a batch.
#[derive(Debug)]
pub struct Batched<S> {
    inner: S,
    batch: usize,
}

impl<S: Strategy> Batched<S> {
    /// Up to `batch` proposals at once; with 1 what the strategy itself proposes.
    pub fn new(inner: S, batch: usize) -> Self {
        Batched { inner, batch }
    }
}

impl<S: Strategy> Strategy for Batched<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn propose(&mut self, view: &View<'_>, rng: &mut Rng, most: usize) -> Vec<usize> {
        let most = most.min(self.batch);
        if most <= 1 {
            return self.inner.propose(view, rng, most.max(1));
        }
        let known: Vec<f64> = view.order.iter().filter_map(|p| Some(view.results[*p]?.ok()?.ratio)).collect();
        let pending = median(&known).map(|ratio| Evaluation { ratio, launches: 0 }).ok_or(());
        let (mut results, mut order) = (view.results.to_vec(), view.order.to_vec());
        let mut chosen = Vec::new();
        while chosen.len() < most {
            let view = View { space: view.space, results: &results, order: &order, best: view.best };
            let found = self.inner.propose(&view, rng, most - chosen.len());
            let fresh: Vec<usize> = found.into_iter().filter(|point| !view.was_tried(*point)).collect();
            if fresh.is_empty() {
                break;
            }
            for point in fresh {
                results[point] = Some(pending);
                order.push(point);
                chosen.push(point);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Guided, Space};

    fn line(len: usize) -> Space {
        let positions = (0..len).map(|i| vec![i as u16]).collect();
        Space::new(vec![0; len], positions, vec![1.0; len]).expect("points are distinct")
    }

    #[test]
    fn a_batch_holds_distinct_untried_points_and_says_nothing_of_the_guesses() {
        let space = line(60);
        let mut results: Vec<Option<Result<Evaluation, ()>>> = vec![None; 60];
        let mut order = Vec::new();
        for point in (0..60).step_by(4) {
            let ratio = 1.0 + (point as f64 - 30.0).abs() / 30.0;
            results[point] = Some(Ok(Evaluation { ratio, launches: 3 }));
            order.push(point);
        }
        let view = View { space: &space, results: &results, order: &order, best: Some((28, 0.06)) };
        let mut strategy = Batched::new(Guided::default(), 8);
        let mut batch = strategy.propose(&view, &mut Rng::new(3), 16);
        assert_eq!(batch.len(), 8);
        assert!(batch.iter().all(|point| !view.was_tried(*point)));
        batch.sort_unstable();
        batch.dedup();
        assert_eq!(batch.len(), 8, "a point was proposed twice");
        assert!(batch.iter().any(|point| (25..36).contains(point)), "{batch:?} leaves out the minimum");
    }

    #[test]
    fn what_is_left_of_a_space_is_the_last_batch() {
        let space = line(5);
        let (results, order) = (vec![None; 5], Vec::new());
        let view = View { space: &space, results: &results, order: &order, best: None };
        let mut batch = Batched::new(Guided::default(), 8).propose(&view, &mut Rng::new(1), 16);
        batch.sort_unstable();
        assert_eq!(batch, [0, 1, 2, 3, 4]);
    }
}
