//! A comparison as text for people, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Change, Comparison, Pair};
use crate::style::{self, Columns};
use crate::units::time;

/// Text: rows that changed, or all of them, then the sums.
pub fn text(comparison: &Comparison, all: bool) -> String {
    let Comparison { pairs, only, total_ns, drift, devices } = comparison;
    let mut text = String::new();
    if let Some([first, second]) = devices {
        let _ = writeln!(text, "devices differ\n  first   {first}\n  second  {second}");
    }
    let shown: Vec<&Pair> = pairs
        .iter()
        .filter(|pair| {
            all || pair.change != Change::WithinNoise || pair.kernels.is_some() || pair.plans.is_some()
        })
        .collect();
    let mut columns =
        Columns::new(&["weight", "#M", "#first", "#second", "#ratio", "change", "kernel and plan"]);
    for pair in shown {
        let Pair { weight, m, change, time_ns: [first, second], ratio, kernels, plans, .. } = pair;
        let moved = moved(plans.as_ref(), kernels.as_ref());
        let cells = [weight.clone(), m.to_string(), time(*first), time(*second), format!("{ratio:.3}x")];
        columns.row(cells.into_iter().chain([change.name().to_owned(), moved]));
        columns.style(
            5,
            match change {
                Change::Slower => style::BAD,
                Change::Faster => style::GOOD,
                Change::WithinNoise => style::QUIET,
            },
        );
    }
    if !columns.is_empty() {
        text += &columns.render();
        text.push('\n');
    }
    for (rows, which) in only.iter().zip(["first", "second"]) {
        if !rows.is_empty() {
            let _ = writeln!(text, "only in the {which}: {}", rows.join(", "));
        }
    }
    let [slower, faster, same] = counts(comparison);
    let _ = writeln!(text, "{} slower, {faster} faster, {same} within noise", style::count(slower, "row"));
    if pairs.is_empty() {
        return text;
    }
    let [first, second] = *total_ns;
    let _ = writeln!(
        text,
        "common rows, by count and frequency: {} before, {} after ({:+.1} %)",
        time(first),
        time(second),
        (second / first - 1.0) * 100.0
    );
    if let Some(drift) = drift {
        let _ = writeln!(
            text,
            "the default kernels took {:+.1} % (median): a change of this size is the machine's, not the table's",
            (drift - 1.0) * 100.0
        );
    }
    text
}

/// What runs another kernel or is stored in another way, in few words; the JSON has the whole texts.
pub(crate) fn moved(plans: Option<&[String; 2]>, kernels: Option<&[String; 2]>) -> String {
    let plan = plans.map(|[before, after]| format!("{before} -> {after}"));
    let moved: Vec<String> = plan.into_iter().chain(kernels.map(|[a, b]| parameters(a, b))).collect();
    if moved.is_empty() { "the same".to_owned() } else { moved.join("; ") }
}

/// What differs between two kernels' texts.
fn parameters(before: &str, after: &str) -> String {
    let parts = |text: &'_ str| -> (String, Vec<(String, String)>) {
        let (family, rest) = text.split_once('(').unwrap_or((text, ""));
        let pairs = rest.trim_end_matches(')').split(',').filter_map(|part| part.split_once('='));
        (family.to_owned(), pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    };
    let ((family, own), (other_family, others)) = (parts(before), parts(after));
    if family != other_family {
        return format!("{family} -> {other_family}");
    }
    let other = |name: &str| others.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
    let changed: Vec<String> = own
        .iter()
        .filter(|(name, value)| other(name) != value)
        .map(|(name, value)| format!("{name} {value} -> {}", other(name)))
        .collect();
    format!("{family}: {}", changed.join(", "))
}

/// Rows that are slower, faster and within noise.
pub fn counts(comparison: &Comparison) -> [usize; 3] {
    [Change::Slower, Change::Faster, Change::WithinNoise]
        .map(|change| comparison.pairs.iter().filter(|pair| pair.change == change).count())
}

/// JSON: everything.
pub fn json(comparison: &Comparison) -> Value {
    let [slower, faster, same] = counts(comparison);
    let pairs: Vec<Value> = comparison
        .pairs
        .iter()
        .map(|pair| {
            json!({
                "weight": pair.weight,
                "m": pair.m,
                "change": pair.change.name(),
                "time_ns": pair.time_ns,
                "ratio": pair.ratio,
                "cost_ns": pair.cost_ns,
                "kernels": pair.kernels,
                "plans": pair.plans,
            })
        })
        .collect();
    json!({
        "pairs": pairs,
        "only_first": comparison.only[0],
        "only_second": comparison.only[1],
        "total_ns": comparison.total_ns,
        "drift": comparison.drift,
        "devices": comparison.devices,
        "counts": { "slower": slower, "faster": faster, "within_noise": same },
    })
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn what_moved_is_said_in_few_words() {
        let kernels = |a: &str, b: &str| moved(None, Some(&[a.to_owned(), b.to_owned()]));
        assert_eq!(kernels("f@1(a=1,b=2,c=3)", "f@1(a=1,b=4,c=5)"), "f@1: b 2 -> 4, c 3 -> 5");
        assert_eq!(kernels("f@1(a=1)", "g@2(a=1)"), "f@1 -> g@2");
        assert_eq!(moved(None, None), "the same");
    }
}
