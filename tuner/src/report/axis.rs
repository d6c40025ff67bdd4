//! Axes: from values to coordinates, and the ticks between.

/// A straight or logarithmic axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// A logarithmic axis over positive values, with a little room at both ends, between two coordinates.
    pub(super) fn log(values: impl IntoIterator<Item = f64>, [from, to]: [f64; 2]) -> Self {
        let (mut low, mut high) = ends(values.into_iter().filter(|value| *value > 0.0), [1.0, 10.0]);
        if high < low * 1.5 {
            (low, high) = (low / 1.3, high * 1.3);
        }
        let room = (high / low).powf(0.04);
        Axis { log: true, low: low / room, high: high * room, from, to }
    }

    /// A straight axis over values, between two coordinates.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, [from, to]: [f64; 2]) -> Self {
        let (low, mut high) = ends(values, [0.0, 1.0]);
        if high <= low {
            high = low + 1.0;
        }
        Axis { log: false, low, high, from, to }
    }

    /// The coordinate of a value; values beyond the ends lie at the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let place = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = (place(value) - place(self.low)) / (place(self.high) - place(self.low));
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Both ends.
    pub(super) fn ends(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Round values for ticks, at most about `most`.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { self.linear_ticks(most) }
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let inside = |value: &f64| (self.low..=self.high).contains(value);
        let with = |digits: &[f64], step: i32| -> Vec<f64> {
            decades
                .clone()
                .filter(|decade| decade.rem_euclid(step) == 0)
                .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
                .filter(inside)
                .collect()
        };
        let choices =
            [with(&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], 1), with(&[1.0, 2.0, 5.0], 1), with(&[1.0, 3.0], 1)];
        let fits = |ticks: &Vec<f64>| ticks.len() <= most;
        choices.into_iter().find(fits).unwrap_or_else(|| {
            (1..)
                .map(|step| with(&[1.0], step))
                .find(fits)
                .expect("a step beyond all decades leaves one tick")
        })
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most.max(1) as f64;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|index| index as f64 * step).take_while(|value| *value <= self.high * 1.0001).collect()
    }
}

fn ends(values: impl IntoIterator<Item = f64>, otherwise: [f64; 2]) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.is_finite());
    let (low, high) = finite
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { otherwise.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_axis_spreads_decades_evenly_and_keeps_within_its_ends() {
        let axis = Axis::log([1.0, 100.0], [0.0, 100.0]);
        assert!((axis.at(10.0) - 50.0).abs() < 1e-9);
        assert_eq!([axis.at(0.0), axis.at(1e9)], [0.0, 100.0]);
        assert!(axis.ticks(8).contains(&10.0));
    }

    #[test]
    fn ticks_are_few_whatever_the_span() {
        for span in [1.01, 2.0, 30.0, 1e3, 1e9, 1e30] {
            let count = Axis::log([1.0, span], [0.0, 1.0]).ticks(6).len();
            assert!((1..=6).contains(&count), "{count} ticks over {span}");
        }
        assert_eq!(Axis::linear([0.0, 10.0], [0.0, 1.0]).ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn nothing_to_show_is_an_axis_all_the_same() {
        assert!(Axis::log([], [0.0, 1.0]).at(3.0).is_finite());
        assert!(Axis::linear([f64::NAN], [0.0, 1.0]).at(3.0).is_finite());
    }
}
