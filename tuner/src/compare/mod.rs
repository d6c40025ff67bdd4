//! Two tables or journals side by side: before and after a driver, a kernel, or a card.
//!
//! Problem: two runs differ in every number, and most of the differences are noise. Method: rows are paired by weight and M.
//! Where their intervals overlap the times are not told apart. The times are of two sessions, so that a drift of the whole
//! machine looks like a change; the default config of each row, where both tables ran the same, is the control: the median
//! ratio of its times is reported as the drift. Rows weigh as in a forward pass: count times frequency.

pub mod output;
mod side;

use std::collections::BTreeMap;

pub use side::{Side, SideRow};

/// How a row's time changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The second interval lies above the first.
    Slower,
    /// The second interval lies below the first.
    Faster,
    /// They overlap.
    WithinNoise,
}

impl Change {
    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Change::Slower => "slower",
            Change::Faster => "faster",
            Change::WithinNoise => "within noise",
        }
    }
}

/// A weight at one M, in both tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The weight's name.
    pub weight: String,
    /// Rows of the activation.
    pub m: u32,
    /// How the time changed.
    pub change: Change,
    /// Times, first and second, in nanoseconds.
    pub time_ns: [f64; 2],
    /// Second over first.
    pub ratio: f64,
    /// What the change adds to [`Comparison::total_ns`]: negative is a gain.
    pub cost_ns: f64,
    /// Kernels, where they differ.
    pub kernels: Option<[String; 2]>,
    /// Formats and layouts, where they differ: then the weight is stored in another way.
    pub plans: Option<[String; 2]>,
}

/// What two tables have in common, and what not.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Rows of both, by what they cost, the largest change first.
    pub pairs: Vec<Pair>,
    /// Rows of one table only: first and second, as `weight at M = m`.
    pub only: [Vec<String>; 2],
    /// Times of the common rows, each weighed by count and relative frequency, in nanoseconds; only their ratio means
    /// something.
    pub total_ns: [f64; 2],
    /// Median ratio of the default config's times, over rows where it is the same.
    pub drift: Option<f64>,
    /// Fingerprints, where they differ.
    pub devices: Option<[String; 2]>,
}

type Rows<'t> = BTreeMap<(&'t str, u32), &'t SideRow>;

/// Compares two tables or journals.
pub fn compare(first: impl Into<Side>, second: impl Into<Side>) -> Comparison {
    let (first, second) = (first.into(), second.into());
    let (a, b) = (rows(&first), rows(&second));
    let missing = |of: &Rows<'_>, from: &Rows<'_>| -> Vec<String> {
        let missing = of.keys().filter(|key| !from.contains_key(*key));
        missing.map(|(weight, m)| format!("{weight} at M = {m}")).collect()
    };
    let (mut pairs, mut drifts, mut total_ns) = (Vec::new(), Vec::new(), [0.0, 0.0]);
    for (key, row) in &a {
        let Some(other) = b.get(key) else { continue };
        // The frequencies of the first table weigh both.
        total_ns[0] += row.launches * row.time_ns;
        total_ns[1] += row.launches * other.time_ns;
        if row.default == other.default {
            drifts.push(other.default_ns / row.default_ns);
        }
        pairs.push(pair(row, other));
    }
    pairs.sort_by(|a, b| {
        b.cost_ns.abs().total_cmp(&a.cost_ns.abs()).then_with(|| (&a.weight, a.m).cmp(&(&b.weight, b.m)))
    });
    let only = [missing(&a, &b), missing(&b, &a)];
    let (here, there) = (first.device, second.device);
    let devices = (here != there).then_some([here, there]);
    Comparison { pairs, only, total_ns, drift: median(drifts), devices }
}

fn rows(side: &Side) -> Rows<'_> {
    side.rows.iter().map(|row| ((row.weight.as_str(), row.m), row)).collect()
}

fn pair(row: &SideRow, other: &SideRow) -> Pair {
    let ([low, high], [other_low, other_high]) = (row.interval_ns, other.interval_ns);
    let change = if other_low > high {
        Change::Slower
    } else if other_high < low {
        Change::Faster
    } else {
        Change::WithinNoise
    };
    let differ = |a: &String, b: &String| (a != b).then(|| [a.clone(), b.clone()]);
    Pair {
        weight: row.weight.clone(),
        m: row.m,
        change,
        time_ns: [row.time_ns, other.time_ns],
        ratio: other.time_ns / row.time_ns,
        cost_ns: row.launches * (other.time_ns - row.time_ns),
        kernels: differ(&row.config, &other.config),
        plans: differ(&row.plan, &other.plan),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let (middle, odd) = (values.len() / 2, values.len() % 2 == 1);
    match values.len() {
        0 => None,
        _ if odd => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
