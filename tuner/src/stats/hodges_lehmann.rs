//! The Hodges–Lehmann estimator: the median of all pairwise means.
//!
//! Hodges & Lehmann (1963), "Estimates of location based on rank tests". As robust as a 29 % trimmed mean at 96 % of the
//! mean's efficiency on normal data; the location that belongs to Wilcoxon's signed-rank test.

/// The median of (xᵢ + xⱼ)/2 over all i ≤ j. `None` of no values. Quadratic in their number, which is that of the blocks
/// of a race.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, first) in values.iter().enumerate() {
        means.extend(values[index..].iter().map(|second| 0.5 * (first + second)));
    }
    super::median(&means)
}
