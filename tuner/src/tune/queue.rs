//! In which order weights are tuned, and by which device.
//!
//! One device takes them in the order of the declaration. Several share one queue: whoever is free takes the next, and all
//! candidates of a weight stay on its device. Which device took what depends on when it was free, so it is recorded, with
//! the time it was given, and a replay or a resumed run takes the same.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::run::Settings;
use super::work::Work;

/// Where a device gets its next weight from.
pub trait Queue {
    /// The position of the next weight among the works, and the time it may take in nanoseconds, `now_ns` into the run.
    fn next(&mut self, now_ns: f64) -> Option<(usize, Option<f64>)>;

    /// Hears that a weight was taken by the recorded run that is being repeated.
    fn took(&mut self, _work: usize) {}

    /// Hears that the weight that was taken last is finished.
    fn finished(&mut self) {}

    /// Whether what comes next depends on more than the works, and has to be recorded.
    fn is_shared(&self) -> bool {
        false
    }
}

/// All weights, in order.
pub struct InOrder {
    costs: Costs,
    left: VecDeque<usize>,
    budget_ns: Option<f64>,
}

impl InOrder {
    /// Of a run with those settings.
    pub fn new(works: &[Work<'_>], settings: &Settings) -> Self {
        let left = order(works.len(), settings);
        InOrder { costs: Costs::new(works, settings), left, budget_ns: settings.budget_s.map(|s| s * 1e9) }
    }
}

impl Queue for InOrder {
    fn next(&mut self, now_ns: f64) -> Option<(usize, Option<f64>)> {
        let work = self.left.pop_front()?;
        let left: f64 = self.left.iter().map(|work| self.costs.of(*work)).sum();
        let share = self.costs.of(work) / (self.costs.of(work) + left);
        Some((work, self.budget_ns.map(|budget| (budget - now_ns).max(0.0) * share)))
    }
}

/// Those that are wanted first, then the others.
fn order(works: usize, settings: &Settings) -> VecDeque<usize> {
    let first = settings.first.iter().copied().filter(|work| *work < works);
    first.chain((0..works).filter(|work| !settings.first.contains(work))).collect()
}

/// What a recorded run took.
pub struct Recorded(VecDeque<(usize, Option<f64>)>);

impl Recorded {
    /// In that order.
    pub fn new(taken: impl IntoIterator<Item = (usize, Option<f64>)>) -> Self {
        Recorded(taken.into_iter().collect())
    }
}

impl Queue for Recorded {
    fn next(&mut self, _: f64) -> Option<(usize, Option<f64>)> {
        self.0.pop_front()
    }
}

/// A queue that several devices take from.
pub struct SharedQueue<'s> {
    costs: Costs,
    budget_ns: Option<f64>,
    devices: usize,
    stop: &'s AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    left: VecDeque<usize>,
    /// Weights under way: one of them may come back.
    under_way: usize,
}

impl<'s> SharedQueue<'s> {
    /// The weights that no resumed device took before, for so many devices.
    pub fn new(
        works: &[Work<'_>],
        settings: &Settings,
        devices: usize,
        taken: &[usize],
        stop: &'s AtomicBool,
    ) -> Self {
        let left = order(works.len(), settings).into_iter().filter(|work| !taken.contains(work)).collect();
        SharedQueue {
            costs: Costs::new(works, settings),
            budget_ns: settings.budget_s.map(|s| s * 1e9),
            devices,
            stop,
            state: Mutex::new(State { left, under_way: 0 }),
            changed: Condvar::new(),
        }
    }

    /// One device's side of it.
    pub fn share(&self) -> Share<'_> {
        Share { queue: self, mine: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One device's side of a [`SharedQueue`]. What it has not finished when it is dropped goes to the others.
pub struct Share<'a> {
    queue: &'a SharedQueue<'a>,
    mine: Option<usize>,
}

impl Queue for Share<'_> {
    fn next(&mut self, now_ns: f64) -> Option<(usize, Option<f64>)> {
        let SharedQueue { costs, budget_ns, devices, stop, .. } = self.queue;
        let mut state = self.queue.state();
        loop {
            if let Some(work) = state.left.pop_front() {
                state.under_way += 1;
                self.mine = Some(work);
                let left: f64 = costs.0[work] + state.left.iter().map(|work| costs.0[*work]).sum::<f64>();
                let part = (costs.0[work] * *devices as f64 / left).min(1.0);
                return Some((work, budget_ns.map(|budget| (budget - now_ns).max(0.0) * part)));
            }
            // What another device has under way comes back if the device is lost.
            if state.under_way == 0 || stop.load(Ordering::Relaxed) {
                return None;
            }
            let waited = self.queue.changed.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn took(&mut self, work: usize) {
        self.queue.state().under_way += 1;
        self.mine = Some(work);
    }

    fn finished(&mut self) {
        if self.mine.take().is_some() {
            self.queue.state().under_way -= 1;
            self.queue.changed.notify_all();
        }
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.mine.take() {
            let mut state = self.queue.state();
            state.under_way -= 1;
            state.left.push_front(work);
            self.queue.changed.notify_all();
        }
    }
}

/// What the time that is left is shared by: the square root of each work's cost, so that large weights get more and small
/// ones enough.
pub struct Costs(Vec<f64>);

impl Costs {
    /// Of the works, in their order.
    pub fn new(works: &[Work<'_>], settings: &Settings) -> Self {
        // Seconds on a machine of 200 GFLOP/s and 10 GB/s, and of a launch: only the proportions matter. Where candidates
        // are compiled that takes most of the time, whatever the size of the weight.
        let [flops, bytes, each] =
            if settings.batch > 1 { [200e12, 2e12, 5e-3] } else { [200e9, 10e9, 100e-6] };
        let cost = |work: &Work<'_>| -> f64 {
            let weight_bytes = f64::from(work.n) * f64::from(work.k);
            let times = work.points.iter().map(|point| {
                let m = f64::from(point.m);
                (2.0 * m * weight_bytes / flops).max(weight_bytes / bytes) + each
            });
            times.map(f64::sqrt).sum()
        };
        Costs(works.iter().map(cost).collect())
    }

    /// Of one work; only proportions mean something.
    pub fn of(&self, work: usize) -> f64 {
        self.0[work]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::Declaration;
    use crate::tune::plan_work;
    use std::path::Path;

    const TWO: &str = "[model]\nname = \"m\"\n[[gemm]]\nname = \"a\"\nn = 32\nk = 32\nm = [1]\n\
                       [[gemm]]\nname = \"b\"\nn = 64\nk = 32\nm = [1]\n";

    #[test]
    fn a_weight_whose_device_is_lost_goes_to_another_that_waits_for_it() {
        let declaration = Declaration::parse(Path::new("m.toml"), TWO).unwrap();
        let works = plan_work(&declaration, tilewright_kernels::BackendKind::Cpu, None).unwrap();
        let stop = AtomicBool::new(false);
        let settings = Settings { budget_s: Some(10.0), ..Settings::default() };
        let queue = SharedQueue::new(&works, &settings, 2, &[], &stop);
        let (mut lost, mut other) = (queue.share(), queue.share());
        let (first, time) = lost.next(0.0).unwrap();
        assert!(time.unwrap() > 0.0 && time.unwrap() <= 10e9);
        let (second, _) = other.next(0.0).unwrap();
        assert_eq!((first, second), (0, 1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                other.finished();
                let came_back = other.next(0.0).map(|(work, _)| work);
                other.finished();
                (came_back, other.next(0.0))
            });
            drop(lost);
            assert_eq!(waiting.join().unwrap(), (Some(0), None));
        });
    }
}
