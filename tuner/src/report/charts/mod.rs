//! The plots. Each is a function of plain data to one SVG; marks say on hover what they stand for, and a table beside every
//! plot has the same numbers.

pub(super) mod drift;
pub(super) mod forest;
pub(super) mod forward;
pub(super) mod roofline;
pub(super) mod spend;
pub(super) mod times;

use super::axis::Axis;
use super::svg::{Anchor, Svg};
use crate::units::time;

/// How many series have a colour of their own; after that shapes change.
pub(super) const COLOURS: usize = 8;

/// The class of a series' marks.
pub(super) fn colour(series: usize) -> String {
    format!("m s{}", series % COLOURS)
}

/// The shape of a series' marks.
pub(super) fn shape(series: usize) -> usize {
    series / COLOURS
}

/// The part of a drawing that data is drawn in.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    /// A vertical grid with labels below.
    fn x_axis(&self, svg: &mut Svg, axis: &Axis, ticks: &[(f64, String)], label: &str) {
        for (value, text) in ticks {
            let x = axis.at(*value);
            svg.line("grid", &[[x, self.top], [x, self.bottom]]);
            svg.text("tick", [x, self.bottom + 15.0], Anchor::Middle, text);
        }
        let middle = (self.left + self.right) / 2.0;
        svg.text("label", [middle, self.bottom + 32.0], Anchor::Middle, label);
    }

    /// A horizontal grid with labels at the left, and what they are above them.
    fn y_axis(&self, svg: &mut Svg, axis: &Axis, ticks: &[(f64, String)], label: &str) {
        for (value, text) in ticks {
            let y = axis.at(*value);
            svg.line("grid", &[[self.left, y], [self.right, y]]);
            svg.text("tick", [self.left - 6.0, y + 4.0], Anchor::End, text);
        }
        svg.text("label", [2.0, self.top - 8.0], Anchor::Start, label);
    }
}

/// Ticks of a time axis in nanoseconds.
fn time_ticks(axis: &Axis, most: usize) -> Vec<(f64, String)> {
    axis.ticks(most).into_iter().map(|value| (value, round_time(value))).collect()
}

/// A tick's time, without digits that say nothing: `10 µs`.
fn round_time(ns: f64) -> String {
    let text = time(ns);
    match text.split_once(' ') {
        Some((value, unit)) if value.contains('.') => {
            format!("{} {unit}", value.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// The values of M as ticks, thinned so that labels do not touch.
fn m_ticks(axis: &Axis, points: &[u32], room: f64) -> Vec<(f64, String)> {
    let mut ticks: Vec<(f64, String)> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for m in points {
        let x = axis.at(f64::from(*m));
        if x - last >= room {
            ticks.push((f64::from(*m), m.to_string()));
            last = x;
        }
    }
    ticks
}

/// A text cut to a number of characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_say_no_digits_that_mean_nothing() {
        assert_eq!([10_000.0, 1_500.0, 2e9, 700.0].map(round_time), ["10 µs", "1.5 µs", "2 s", "700 ns"]);
    }

    #[test]
    fn labels_of_m_do_not_touch() {
        let axis = Axis::log([1.0, 4096.0], [0.0, 120.0]);
        let points: Vec<u32> = (0..13).map(|shift| 1 << shift).collect();
        let ticks = m_ticks(&axis, &points, 24.0);
        assert!(ticks.len() > 2);
        assert!(ticks.windows(2).all(|pair| axis.at(pair[1].0) - axis.at(pair[0].0) >= 24.0));
    }
}
