//! Replay results as tables and as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::{RaceSummary, SearchSummary};

/// All that a replay found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Searches, a row each recording.
    pub searches: Vec<SearchSummary>,
    /// Races, a row each recording.
    pub races: Vec<RaceSummary>,
}

/// The report as tables for a terminal.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    let out = &mut text;
    line(out, format_args!("evaluations until within 10 / 5 / 1 % of the optimum, median (p90)"));
    for row in &report.searches {
        let cell = |index: usize| format!("{} ({})", count(row.median[index]), count(row.p90[index]));
        let warm = row.warm_from.as_ref().map(|name| format!(" warm from {name}")).unwrap_or_default();
        line(
            out,
            format_args!(
                "  {:<34} {:>14} {:>14} {:>14}   {:.2} launches a config, {} {} of {} configs within{warm}",
                row.space,
                cell(0),
                cell(1),
                cell(2),
                row.launches_per_config,
                row.strategy,
                row.within.map(|count| count.to_string()).join("/"),
                row.configs,
            ),
        );
    }
    if !report.races.is_empty() {
        line(
            out,
            format_args!(
                "races: samples an entrant, regret mean / p95 / max, leader's mean, ties, ambiguous"
            ),
        );
    }
    for row in &report.races {
        line(
            out,
            format_args!(
                "  {:<34} {:>6.2}   {:.3} / {:.3} / {:.3} %   {:.3} %   {:.2}   {:.1} %   ({} of the best {})",
                row.space,
                row.samples_per_entrant,
                100.0 * row.regret_mean,
                100.0 * row.regret_p95,
                100.0 * row.regret_max,
                100.0 * row.leader_regret_mean,
                row.tie_set_mean,
                100.0 * row.ambiguous,
                row.entrants,
                row.drawn_from,
            ),
        );
    }
    text
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes all");
}

fn count(count: Option<usize>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}
