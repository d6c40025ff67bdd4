//! The statistics behind a verdict: robust location, intervals, sequential looks, drift.
//!
//! Launch times are skewed in either direction, autocorrelated, and now and then bimodal (clock states) or hit by an
//! outlier of several hundred per cent (preemption). The minimum is wrong where a clock can be temporarily higher, the
//! mean where a launch can be preempted. What is right in both worlds is the 20 % trimmed mean of log-ratios that were
//! paired within a block ([`yuen`]), looked at a fixed number of times ([`Looks`]).
//!
//! Everything here is a pure function of its arguments: no clock, no randomness. [`Rng`] is the one generator the
//! tuner draws from.

mod drift;
mod hodges_lehmann;
mod looks;
mod rng;
mod trimmed;

pub use drift::{Cusum, PageHinkley, Shift};
pub use hodges_lehmann::hodges_lehmann;
pub use looks::{Looks, LooksError};
pub use rng::Rng;
pub use trimmed::{Interval, TRIM, Yuen, trimmed_mean, winsorised_variance, yuen};

/// The median: the mean of the two middle values where the count is even. `None` of no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
    }
}

/// The median absolute deviation from the median, times 1.4826 so that it estimates the standard deviation of a
/// normal distribution (Hampel 1974). `None` of no values.
pub fn scaled_mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    Some(1.4826 * median(&deviations)?)
}

/// The quantile `q` in [0, 1] by linear interpolation between order statistics (type 7 of Hyndman & Fan 1996, the
/// default of R and NumPy). `None` of no values.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (at - below as f64) * (sorted[above] - sorted[below]))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
