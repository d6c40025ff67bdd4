//! What changed between two tables or journals.

use crate::compare::{Change, Comparison, output};
use crate::report::page::{Cell, Grid, Section};
use crate::style::count;
use crate::units::time;

/// The section of a comparison.
pub(in crate::report) fn changes(comparison: &Comparison, names: [&str; 2]) -> Section {
    let [slower, faster, same] = output::counts(comparison);
    let mut text = vec![format!(
        "From 1, {}, to 2, {}: {} slower, {faster} faster, {same} within noise. Two times are told apart where their 95 % \
         intervals do not overlap.",
        names[0],
        names[1],
        count(slower, "row")
    )];
    if !comparison.pairs.is_empty() {
        let [first, second] = comparison.total_ns;
        text.push(format!("Common rows, by count and frequency: {:+.1} %.", (second / first - 1.0) * 100.0));
    }
    if let Some(drift) = comparison.drift {
        text.push(format!(
            "The default configs, the same in both, took {:+.1} % (median): a change of this size is the machine's.",
            (drift - 1.0) * 100.0
        ));
    }
    if let Some([first, second]) = &comparison.devices {
        text.push(format!("The devices differ: {first}; {second}."));
    }
    for (rows, number) in comparison.only.iter().zip(["1", "2"]) {
        if !rows.is_empty() {
            text.push(format!("Only in {number}: {}.", rows.join(", ")));
        }
    }
    let mut grid = Grid::new(
        "Rows of both, the largest change of a pass first",
        &["weight", "#M", "#first", "#second", "#ratio", "#of the pass", "change", "kernel"],
    );
    for pair in &comparison.pairs {
        let [first, second] = pair.time_ns;
        let share = pair.cost_ns / comparison.total_ns[0] * 100.0;
        grid.rows.push(vec![
            Cell::text(&pair.weight),
            Cell::count(pair.m),
            Cell::number(time(first), first),
            Cell::number(time(second), second),
            Cell::number(format!("{:.3}x", pair.ratio), pair.ratio),
            Cell::number(format!("{share:+.2} %"), share),
            Cell::text(match pair.change {
                Change::Slower => "▲ slower",
                Change::Faster => "▼ faster",
                Change::WithinNoise => "within noise",
            }),
            Cell::code(output::moved(pair.plans.as_ref(), pair.kernels.as_ref()).replace("->", "→")),
        ]);
    }
    Section {
        id: "changes".into(),
        title: "What changed".into(),
        text,
        grids: vec![grid],
        ..Section::default()
    }
}
