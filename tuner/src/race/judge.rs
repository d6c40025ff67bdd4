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

/// Whether the live A/A test lets a verdict stand: it does not tell the sentinel from itself, and would have told
/// something of δ.
pub(super) fn sentinel_fault(interval: Option<Interval>, delta: f64) -> Option<String> {
    let Some(interval) = interval else { return Some("too few blocks".to_owned()) };
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
