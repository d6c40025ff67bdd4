//! What a run tells people.

use std::fmt::Write as _;

use super::run::Outcome;
use crate::table::{Compiled, Decisions, SecondCopy, Weight};
use crate::units::time;

/// The decisions as a table, the model's time per forward pass before and after, and what the run spent.
pub fn summary(decisions: &Decisions, compiled: &Compiled, outcome: &Outcome) -> String {
    let mut text = String::new();
    let device = &decisions.device;
    writeln!(text, "\n{} on {} ({})\n", decisions.model, device.key, device.fingerprint)
        .expect("strings grow");
    rows(&mut text, decisions);
    forward_pass(&mut text, decisions);
    let Outcome { measurements, saved, seconds, .. } = outcome;
    write!(text, "\n{} candidates evaluated in {measurements} launches, {seconds:.0} s", outcome.evaluations)
        .expect("strings grow");
    if *saved > 0 {
        write!(text, "; {saved} more taken over from an interrupted run").expect("strings grow");
    }
    if let Some([launches, evaluations]) = outcome.warm_from {
        write!(text, "; started from a run of {evaluations} candidates in {launches} launches")
            .expect("strings grow");
    }
    let Compiled { kernels, winners, cost, .. } = compiled;
    writeln!(
        text,
        ". {kernels} distinct kernels ({winners} winners, {:.1} % given up).",
        ((cost - 1.0) * 100.0).max(0.0)
    )
    .expect("strings grow");
    for device in &outcome.given_up {
        writeln!(text, "device {device}").expect("strings grow");
    }
    for failure in &outcome.failed {
        writeln!(text, "not tuned: {failure}").expect("strings grow");
    }
    if outcome.stopped {
        writeln!(
            text,
            "Stopped early: the table holds what was decided; run the same command again to go on."
        )
        .expect("strings grow");
    }
    text
}

fn rows(text: &mut String, decisions: &Decisions) {
    let width = decisions.weights.iter().map(|w| w.name.len()).max().unwrap_or(4).max(4);
    writeln!(
        text,
        "{:width$}  {:>6}  {:>9}  {:>21}  {:>8}  {:>9}  {:<10}  config",
        "gemm", "M", "time", "95 % interval", "default", "runner-up", "verdict"
    )
    .expect("strings grow");
    for weight in &decisions.weights {
        let Weight { name, n, k, activation, format, layout, .. } = weight;
        let error = weight.error.map_or(String::new(), |e| format!(", error {e:.4}"));
        writeln!(text, "{name}: N={n} K={k}, {format} weights in {layout}, {activation} activations{error}")
            .expect("strings grow");
        if let Some(SecondCopy { from, activation, format, layout, error, memory_budget_mib, .. }) =
            &weight.second
        {
            let error = error.map_or(String::new(), |e| format!(", error {e:.4}"));
            let mib = weight.bytes() as f64 / f64::from(1 << 20);
            writeln!(
                text,
                "{:width$}  from M={from} a second copy: {format} weights in {layout}, {activation} activations{error}; \
                 both take {mib:.2} MiB of at most {memory_budget_mib}",
                ""
            )
            .expect("strings grow");
        }
        for row in &weight.rows {
            let runner_up = row.tie_set.first().map_or("-".into(), |tie| format!("{:.2}x", tie.ratio));
            let verdict = row.verdict.to_string();
            let verdict = verdict.split('(').next().filter(|v| *v == "ambiguous").unwrap_or(&verdict);
            writeln!(
                text,
                "{:width$}  {:>6}  {:>9}  {:>21}  {:>7.2}x  {:>9}  {:<10}  {}",
                "",
                row.m,
                time(row.time_ns),
                format!("{} .. {}", time(row.interval_ns[0]), time(row.interval_ns[1])),
                row.default_ns / row.time_ns,
                runner_up,
                verdict,
                row.config
            )
            .expect("strings grow");
        }
    }
}

/// Σ count × time over the weights, at every M that all of them have.
fn forward_pass(text: &mut String, decisions: &Decisions) {
    let Some(first) = decisions.weights.first() else { return };
    writeln!(text, "\nOne forward pass, GEMMs only, weighted by count:").expect("strings grow");
    for m in first.rows.iter().map(|row| row.m) {
        let at =
            decisions.weights.iter().map(|w| Some((w.count as f64, w.rows.iter().find(|row| row.m == m)?)));
        let Some(rows) = at.collect::<Option<Vec<_>>>() else { continue };
        let default: f64 = rows.iter().map(|(count, row)| count * row.default_ns).sum();
        let tuned: f64 = rows.iter().map(|(count, row)| count * row.time_ns).sum();
        writeln!(
            text,
            "  M={m:<6} default {:>9}   tuned {:>9}   {:.2}x",
            time(default),
            time(tuned),
            default / tuned
        )
        .expect("strings grow");
    }
}
