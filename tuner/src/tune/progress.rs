//! Telling people how far a run is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Hears of a run's progress.
pub trait Progress {
    /// A run of this many contests begins; it has that many seconds, if bounded.
    fn began(&mut self, contests: usize, budget_s: Option<f64>);
    /// Work on a contest begins: which GEMM at how many rows, and what is done (`search`, `finals`).
    fn contest(&mut self, name: &str, m: u32, phase: &str);
    /// A launch was timed; `at_ns` since the run began.
    fn launched(&mut self, at_ns: f64);
    /// A contest is decided, in one line.
    fn decided(&mut self, line: &str);
    /// The run is over.
    fn ended(&mut self);
}

/// Says nothing.
pub struct Silent;

impl Progress for Silent {
    fn began(&mut self, _: usize, _: Option<f64>) {}
    fn contest(&mut self, _: &str, _: u32, _: &str) {}
    fn launched(&mut self, _: f64) {}
    fn decided(&mut self, _: &str) {}
    fn ended(&mut self) {}
}

/// What several devices tell of one run, together.
#[derive(Clone)]
pub struct SharedProgress {
    inner: Arc<Mutex<Box<dyn Progress + Send>>>,
    began: Arc<AtomicBool>,
}

impl SharedProgress {
    /// Passes everything on; the run begins once, and ends when the last copy is dropped.
    pub fn new(inner: Box<dyn Progress + Send>) -> Self {
        SharedProgress { inner: Arc::new(Mutex::new(inner)), began: Arc::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Box<dyn Progress + Send>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for SharedProgress {
    fn began(&mut self, contests: usize, budget_s: Option<f64>) {
        if !self.began.swap(true, Ordering::Relaxed) {
            self.inner().began(contests, budget_s);
        }
    }
    fn contest(&mut self, name: &str, m: u32, phase: &str) {
        self.inner().contest(name, m, phase);
    }
    fn launched(&mut self, at_ns: f64) {
        self.inner().launched(at_ns);
    }
    fn decided(&mut self, line: &str) {
        self.inner().decided(line);
    }
    fn ended(&mut self) {}
}

impl Drop for SharedProgress {
    fn drop(&mut self) {
        if Arc::strong_count(&self.inner) == 1 {
            self.inner().ended();
        }
    }
}

/// A bar on a terminal; one line a decided contest where standard error is not one.
#[derive(Default)]
pub struct TerminalProgress {
    bar: Option<ProgressBar>,
    contests: usize,
    decided: usize,
    launches: u64,
    budget_s: Option<f64>,
    what: String,
}

impl TerminalProgress {
    fn message(&self, at_ns: f64) -> String {
        let elapsed = at_ns / 1e9;
        let done = self.decided as f64 / self.contests.max(1) as f64;
        let by_pace = if self.decided > 0 { Some((elapsed / done - elapsed).max(0.0)) } else { None };
        let by_budget = self.budget_s.map(|budget| (budget - elapsed).max(0.0));
        let left = match (by_pace, by_budget) {
            (Some(pace), Some(budget)) => Some(pace.min(budget)),
            (pace, budget) => pace.or(budget),
        };
        let left =
            left.map_or(String::new(), |s| format!(", {} left", HumanDuration(Duration::from_secs_f64(s))));
        let rate = self.launches as f64 / elapsed.max(1e-9);
        format!("{}  {} launches, {rate:.0}/s{left}", self.what, self.launches)
    }
}

impl Progress for TerminalProgress {
    fn began(&mut self, contests: usize, budget_s: Option<f64>) {
        self.contests = contests;
        self.budget_s = budget_s;
        let bar = ProgressBar::new(contests as u64);
        let style =
            ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}").expect("the template is legal");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    fn contest(&mut self, name: &str, m: u32, phase: &str) {
        self.what = format!("{name} M={m} {phase}");
    }

    fn launched(&mut self, at_ns: f64) {
        self.launches += 1;
        // A launch may take microseconds: the text need not follow each.
        if self.launches.is_multiple_of(64)
            && let Some(bar) = &self.bar
        {
            bar.set_message(self.message(at_ns));
        }
    }

    fn decided(&mut self, line: &str) {
        self.decided += 1;
        // Contests between declared Ms come to the ones that were announced.
        self.contests = self.contests.max(self.decided);
        let Some(bar) = &self.bar else { return };
        bar.set_length(self.contests as u64);
        bar.inc(1);
        if bar.is_hidden() {
            eprintln!("[{}/{}] {line}", self.decided, self.contests);
        } else {
            bar.println(line);
        }
    }

    fn ended(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, TerminalProgress};

    #[test]
    fn more_contests_than_announced_are_no_fault() {
        let mut progress = TerminalProgress::default();
        progress.began(1, Some(1.0));
        for _ in 0..3 {
            progress.decided("a row");
            // Past the budget, too.
            assert!(progress.message(5e9).contains("left"));
        }
        assert_eq!(progress.contests, 3);
    }
}
