//! Detects that a level has moved: the sentinel's log times, block by block.
//!
//! [`PageHinkley`] is Page's test ("Continuous inspection schemes", 1954) in Hinkley's form (1971), which learns the mean
//! as it goes; [`Cusum`] is Page's tabular form against a level known beforehand. Both are two-sided and say since when:
//! a detector that only rings leaves the caller to guess which blocks were still sound.

/// A level that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Index, from 0, of the first value after the change, as the test estimates it.
    pub since: usize,
    /// Whether the level rose.
    pub up: bool,
}

/// Page–Hinkley test against the running mean.
#[derive(Clone, Debug, PartialEq)]
pub struct PageHinkley {
    tolerance: f64,
    threshold: f64,
    seen: usize,
    mean: f64,
    up: Excess,
    down: Excess,
}

impl PageHinkley {
    /// A detector that ignores moves under `tolerance` and rings once the excess over it adds up to `threshold`.
    pub fn new(tolerance: f64, threshold: f64) -> Self {
        PageHinkley {
            tolerance,
            threshold,
            seen: 0,
            mean: 0.0,
            up: Excess::default(),
            down: Excess::default(),
        }
    }

    /// Takes the next value; says whether the level has moved. After a ring, start with a new detector.
    pub fn push(&mut self, value: f64) -> Option<Shift> {
        let index = self.seen;
        self.seen += 1;
        self.mean += (value - self.mean) / self.seen as f64;
        ring(&mut self.up, &mut self.down, value - self.mean, self.tolerance, self.threshold, index)
    }
}

/// Tabular CUSUM against a known level.
#[derive(Clone, Debug, PartialEq)]
pub struct Cusum {
    level: f64,
    slack: f64,
    threshold: f64,
    seen: usize,
    up: Excess,
    down: Excess,
}

impl Cusum {
    /// A detector around `level`. For values of standard deviation σ, a `slack` of σ/2 and a `threshold` of 5σ find a
    /// shift of σ after about 10 values, and ring in vain once in about 465 (Montgomery, *Statistical Quality Control*,
    /// tabular CUSUM).
    pub fn new(level: f64, slack: f64, threshold: f64) -> Self {
        Cusum { level, slack, threshold, seen: 0, up: Excess::default(), down: Excess::default() }
    }

    /// Takes the next value; says whether the level has moved. After a ring, start with a new detector.
    pub fn push(&mut self, value: f64) -> Option<Shift> {
        let index = self.seen;
        self.seen += 1;
        ring(&mut self.up, &mut self.down, value - self.level, self.slack, self.threshold, index)
    }
}

/// One side's sum of what exceeded the slack, and since when it has been above 0.
#[derive(Clone, Debug, Default, PartialEq)]
struct Excess {
    sum: f64,
    since: usize,
}

impl Excess {
    fn add(&mut self, excess: f64, index: usize) {
        if self.sum <= 0.0 {
            self.since = index;
        }
        self.sum = (self.sum + excess).max(0.0);
    }
}

fn ring(
    up: &mut Excess,
    down: &mut Excess,
    deviation: f64,
    slack: f64,
    threshold: f64,
    index: usize,
) -> Option<Shift> {
    up.add(deviation - slack, index);
    down.add(-deviation - slack, index);
    if up.sum > threshold {
        return Some(Shift { since: up.since, up: true });
    }
    (down.sum > threshold).then_some(Shift { since: down.since, up: false })
}
