//! Borrows strength between rivals to estimate the spread of each.
//!
//! After three blocks a rival's own variance has two degrees of freedom, and a t quantile of 200 at the level of one
//! comparison among many. But all rivals ran in the same blocks on the same machine, and there are many of them. Smyth
//! (2004), "Linear models and empirical Bayes methods for assessing differential expression in microarray experiments":
//! take the true variances to be scaled inverse χ² around s₀² with d₀ degrees of freedom, estimate both from the log
//! variances by moments, and use (d₀ s₀² + d s²)/(d₀ + d) on d₀ + d degrees of freedom. Where rivals' variances differ more
//! than chance explains, d₀ comes out small and each keeps its own.

use statrs::function::gamma::digamma;

use super::Yuen;

/// Fewer variances than this say nothing of how they are distributed.
const FEWEST: usize = 4;
/// The most degrees of freedom that are borrowed. Rivals share the leader's noise, so that their variances are not as many
/// independent witnesses; and with two own degrees of freedom one outlier alone then cannot reach t = 3.4.
const MOST: f64 = 20.0;

/// What the rivals have in common: a squared standard error, and how many degrees of freedom it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shrinkage {
    /// s₀².
    pub squared_error: f64,
    /// d₀; 0 where nothing can be borrowed.
    pub degrees_of_freedom: f64,
}

impl Shrinkage {
    /// Estimates it from all rivals' comparisons after the same number of blocks. `None` of fewer than four, or where an
    /// error is 0.
    pub fn estimate(rivals: &[Yuen]) -> Option<Self> {
        let own = rivals.first()?.degrees_of_freedom;
        if rivals.len() < FEWEST || rivals.iter().any(|rival| rival.standard_error <= 0.0) {
            return None;
        }
        let half = 0.5 * own;
        // Log variances, less what chance adds to them on average.
        let logs: Vec<f64> =
            rivals.iter().map(|rival| 2.0 * rival.standard_error.ln() - digamma(half) + half.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let spread = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let borrowed = match spread - trigamma(half) {
            excess if excess > 0.0 => (2.0 * inverse_trigamma(excess)).min(MOST),
            _ => MOST,
        };
        let half = 0.5 * borrowed;
        Some(Shrinkage {
            squared_error: (mean + digamma(half) - half.ln()).exp(),
            degrees_of_freedom: borrowed,
        })
    }

    /// A comparison with the borrowed strength.
    pub fn apply(&self, own: Yuen) -> Yuen {
        let total = self.degrees_of_freedom + own.degrees_of_freedom;
        let pooled = self.degrees_of_freedom * self.squared_error
            + own.degrees_of_freedom * own.standard_error * own.standard_error;
        Yuen { mean: own.mean, standard_error: (pooled / total).sqrt(), degrees_of_freedom: total }
    }
}

/// ψ'(x) for x > 0: recurrence up to 8, then the asymptotic series (Abramowitz & Stegun 6.4.12).
pub(super) fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    sum + 1.0 / x + 0.5 * r + r / x * (1.0 / 6.0 - r * (1.0 / 30.0 - r * (1.0 / 42.0 - r / 30.0)))
}

/// The x with ψ'(x) = y, by bisection of its logarithm: ψ' falls from ∞ to 0.
fn inverse_trigamma(y: f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..80 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > y {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{Shrinkage, inverse_trigamma, trigamma};
    use crate::stats::{Rng, Yuen};

    #[test]
    fn trigamma_has_its_known_values() {
        let pi = std::f64::consts::PI;
        assert!((trigamma(1.0) - pi * pi / 6.0).abs() < 1e-10);
        assert!((trigamma(0.5) - pi * pi / 2.0).abs() < 1e-10);
        assert!((trigamma(10.0) - 0.105_166_335_681_685_7).abs() < 1e-10);
        for x in [0.1, 1.0, 7.3, 250.0] {
            assert!((inverse_trigamma(trigamma(x)) / x - 1.0).abs() < 1e-8);
        }
    }

    /// Rivals whose true errors are `true_error(index)`, each estimated on two degrees of freedom.
    fn rivals(true_error: impl Fn(usize) -> f64) -> Vec<Yuen> {
        let mut rng = Rng::new(5);
        // χ² with two degrees of freedom is exponential of mean 2.
        let mut estimate = |index: usize| {
            let chi = -2.0 * (1.0 - rng.unit()).ln();
            Yuen {
                mean: 0.0,
                standard_error: true_error(index) * (0.5 * chi).sqrt(),
                degrees_of_freedom: 2.0,
            }
        };
        (0..60).map(&mut estimate).collect()
    }

    #[test]
    fn alike_rivals_share_and_unlike_ones_keep_their_own() {
        let alike = Shrinkage::estimate(&rivals(|_| 0.01)).unwrap();
        assert_eq!(alike.degrees_of_freedom, 20.0);
        assert!((alike.squared_error.sqrt() / 0.01 - 1.0).abs() < 0.2, "{alike:?}");
        let unlike = Shrinkage::estimate(&rivals(|index| 0.001 * 1.15f64.powi(index as i32))).unwrap();
        assert!(unlike.degrees_of_freedom < 3.0, "{unlike:?}");
    }

    #[test]
    fn few_rivals_or_errors_of_zero_share_nothing() {
        let rivals = rivals(|_| 0.01);
        assert_eq!(Shrinkage::estimate(&rivals[..3]), None);
        assert_eq!(Shrinkage::estimate(&[]), None);
        let mut flat = rivals.clone();
        flat[3].standard_error = 0.0;
        assert_eq!(Shrinkage::estimate(&flat), None);
    }
}
