//! The trimmed mean with its Winsorised error, and intervals from it.
//!
//! Tukey & McLaughlin (1963), "Less vulnerable confidence and significance procedures for location based on a single
//! sample: trimming/Winsorization 1", for one sample; Yuen (1974), "The two-sample trimmed t for unequal population
//! variances", carried it to two. The tuner pairs two candidates within each block first, so that what is left is
//! Yuen's t of one sample, the log-ratios. Closed form, no resampling: a verdict needs no random numbers.
//!
//! With n values and trimming γ, g = ⌊γn⌋ are cut off at each end and h = n − 2g stay. The squared standard error is
//! Yuen's (n − 1) s_w² / (h (h − 1)), s_w² being the sample variance after the g values at each end are replaced by the
//! next one inside, on h − 1 degrees of freedom. Without trimming it is Student's.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The trimming that the tuner uses at each end: robust to one launch in five going wrong either way.
pub const TRIM: f64 = 0.2;

/// The mean of what is left after ⌊`trim`·n⌋ values are cut off at each end. `None` of no values.
///
/// `trim` is clamped to [0, 0.5); 0 gives the mean, and just under 0.5 the median.
pub fn trimmed_mean(values: &[f64], trim: f64) -> Option<f64> {
    let sorted = super::sorted(values);
    let cut = cut(sorted.len(), trim);
    let kept = sorted.get(cut..sorted.len().checked_sub(cut)?)?;
    (!kept.is_empty()).then(|| mean(kept))
}

/// The sample variance (divisor n − 1) after the ⌊`trim`·n⌋ values at each end are replaced by their next neighbour
/// inside. `None` of fewer than two values.
pub fn winsorised_variance(values: &[f64], trim: f64) -> Option<f64> {
    let mut sorted = super::sorted(values);
    let n = sorted.len();
    if n < 2 {
        return None;
    }
    let cut = cut(n, trim);
    let (low, high) = (sorted[cut], sorted[n - 1 - cut]);
    for value in &mut sorted {
        *value = value.clamp(low, high);
    }
    let centre = mean(&sorted);
    Some(sorted.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (n - 1) as f64)
}

/// Location of one sample with its error: what bounds and intervals are made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yuen {
    /// The trimmed mean.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Degrees of freedom of the t distribution that (mean − truth) / standard error follows.
    pub degrees_of_freedom: f64,
}

/// The trimmed mean of a sample with its Winsorised error. `None` where fewer than two values survive the trimming:
/// one value says nothing of its spread.
pub fn yuen(values: &[f64], trim: f64) -> Option<Yuen> {
    let n = values.len();
    let kept = n.checked_sub(2 * cut(n, trim))?;
    if kept < 2 {
        return None;
    }
    let spread = winsorised_variance(values, trim)? * (n - 1) as f64;
    let standard_error = (spread / (kept * (kept - 1)) as f64).sqrt();
    Some(Yuen { mean: trimmed_mean(values, trim)?, standard_error, degrees_of_freedom: (kept - 1) as f64 })
}

impl Yuen {
    /// Replaces the standard error by `floor` where it is smaller: identical readings of a coarse clock are no proof
    /// of a spread of zero.
    pub fn with_error_floor(self, floor: f64) -> Self {
        Yuen { standard_error: self.standard_error.max(floor), ..self }
    }

    /// The two-sided interval that covers the truth with this confidence.
    ///
    /// # Panics
    /// If `confidence` is not strictly between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Interval {
        let reach = self.reach(0.5 * (1.0 - confidence));
        Interval { low: self.mean - reach, high: self.mean + reach }
    }

    /// The bound that the truth is above with probability 1 − `alpha`.
    ///
    /// # Panics
    /// If `alpha` is not strictly between 0 and 1.
    pub fn lower_bound(&self, alpha: f64) -> f64 {
        self.mean - self.reach(alpha)
    }

    /// The bound that the truth is below with probability 1 − `alpha`.
    ///
    /// # Panics
    /// If `alpha` is not strictly between 0 and 1.
    pub fn upper_bound(&self, alpha: f64) -> f64 {
        self.mean + self.reach(alpha)
    }

    fn reach(&self, tail: f64) -> f64 {
        assert!(tail > 0.0 && tail < 1.0, "a tail probability lies strictly between 0 and 1, not at {tail}");
        let t = StudentsT::new(0.0, 1.0, self.degrees_of_freedom).expect("at least one degree of freedom");
        // The distribution is symmetric, and the upper tail loses digits in 1 − tail.
        -t.inverse_cdf(tail) * self.standard_error
    }
}

/// A closed interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether all of it lies within ±`delta`.
    pub fn is_within(&self, delta: f64) -> bool {
        -delta <= self.low && self.high <= delta
    }

    /// Half its length.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }
}

fn cut(n: usize, trim: f64) -> usize {
    // The nudge keeps 0.2 · 5 at 1 whatever way the product rounds; at least one value stays.
    let cut = (trim.clamp(0.0, 0.5) * n as f64 + 1e-9).floor() as usize;
    cut.min(n.saturating_sub(1) / 2)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
