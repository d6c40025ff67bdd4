//! What the blocks so far say: leader, rivals, tie set. Pure functions of log times.

use crate::stats::{Interval, TRIM, Yuen, median, trimmed_mean, yuen};

/// Confidence of the intervals that are reported, and of the equivalence that ends a race.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Log times of one runner, in block order from the first.
pub(super) type Track<'a> = &'a [f64];

/// The fastest of the tracks, all of equal length: the least trimmed mean after each block's median is taken off, which
/// removes what hit the whole block. Of equals, the first. `None` of no tracks or no blocks.
pub(super) fn leader(tracks: &[Track<'_>]) -> Option<usize> {
    let blocks = tracks.first()?.len();
    let centres: Vec<f64> = (0..blocks)
        .map(|block| median(&tracks.iter().map(|track| track[block]).collect::<Vec<_>>()).expect("not empty"))
        .collect();
    let mut best: Option<(usize, f64)> = None;
    for (index, track) in tracks.iter().enumerate() {
        let paired: Vec<f64> = track.iter().zip(&centres).map(|(time, centre)| time - centre).collect();
        let location = trimmed_mean(&paired, TRIM)?;
        if best.is_none_or(|(_, least)| location < least) {
            best = Some((index, location));
        }
    }
    best.map(|(index, _)| index)
}

/// A rival's log-ratio to the leader over the blocks that both ran in. `reading_variance` is what the clock's resolution
/// alone puts on one log-ratio.
pub(super) fn compare(rival: Track<'_>, leader: Track<'_>, reading_variance: f64) -> Option<Yuen> {
    let ratios: Vec<f64> = rival.iter().zip(leader).map(|(rival, leader)| rival - leader).collect();
    let floor = (reading_variance / ratios.len().max(1) as f64).sqrt();
    Some(yuen(&ratios, TRIM)?.with_error_floor(floor))
}

/// Whether a rival was `factor` times as slow as the leader in every block.
pub(super) fn is_hopeless(rival: Track<'_>, leader: Track<'_>, factor: f64) -> bool {
    rival.iter().zip(leader).all(|(rival, leader)| rival - leader > factor.ln())
}

/// Whether the live A/A test lets a verdict stand. `margin` is the least log-ratio by which, with 95 % confidence,
/// the leader beat a rival; 0 or less where some were not beaten.
///
/// It stands where all of the sentinel's interval lies within the margin: whatever bias of the machine is compatible with
/// the blocks is too small to have made the decision, so a rival that is 20 % slower needs no sentinel known to 2 %.
/// Closer decisions, and ties, stand where the sentinel is not told from itself and would have been at a difference of δ.
pub(super) fn sentinel_fault(interval: Option<Interval>, delta: f64, margin: f64) -> Option<String> {
    let Some(interval) = interval else { return Some("too few blocks".to_owned()) };
    if interval.is_within(margin) {
        return None;
    }
    if !interval.contains(0.0) {
        return Some(format!(
            "the sentinel differs from itself by {:+.2} % to {:+.2} %",
            100.0 * interval.low,
            100.0 * interval.high
        ));
    }
    (interval.half_width() > delta).then(|| {
        format!(
            "the sentinel is known to ±{:.2} % only, and δ is {:.2} %",
            100.0 * interval.half_width(),
            100.0 * delta
        )
    })
}

#[cfg(test)]
mod tests {
    use super::sentinel_fault;
    use crate::stats::Interval;

    #[test]
    fn a_sentinel_has_to_exclude_a_bias_of_the_size_of_the_decision() {
        let fault = |low, high, margin| sentinel_fault(Some(Interval { low, high }), 0.02, margin);
        assert_eq!(fault(-0.15, 0.1, 0.2), None, "decided by 20 %");
        assert_eq!(fault(0.01, 0.05, 0.2), None, "a bias of 5 % at most decided nothing");
        assert!(fault(-0.15, 0.25, 0.2).unwrap().contains("known to ±20.00 %"));
        assert!(fault(0.01, 0.25, 0.2).unwrap().contains("differs from itself"));
        assert_eq!(fault(-0.02, 0.015, 0.0), None, "a tie, and the sentinel is known to δ");
        assert!(fault(-0.03, 0.03, 0.0).is_some());
        assert!(fault(0.001, 0.003, 0.0).is_some());
        assert!(sentinel_fault(None, 0.02, 1.0).is_some());
    }
}
