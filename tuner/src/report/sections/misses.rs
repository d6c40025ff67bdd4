//! What an engine asked for: misses as the declaration that the recorder wrote, or every request with the rung that answered.

use crate::capture::{self, Request};
use crate::report::page::{Cell, Grid, Section};
use crate::shapes::Declaration;

/// The section of one recorded declaration; `notes` are the recorder's remarks by GEMM.
pub(in crate::report) fn misses(
    id: &str,
    declaration: &Declaration,
    notes: &[(String, Vec<String>)],
) -> Section {
    let calls: u64 = declaration.gemms.iter().map(|gemm| gemm.count).sum();
    let mut grid = Grid::new(
        "Requests by GEMM and M",
        &["GEMM", "#N", "#K", "#M", "#calls", "#share of its rows", "formats", "remark"],
    );
    for gemm in &declaration.gemms {
        let all: f64 = gemm.m.iter().map(|point| point.weight).sum();
        // Rows over M are launches.
        let launches: f64 = gemm.m.iter().map(|point| point.weight / f64::from(point.m)).sum();
        let formats: Vec<&str> = gemm.formats.iter().map(|format| format.name()).collect();
        let remark =
            notes.iter().find(|(name, _)| *name == gemm.name).map_or(String::new(), |(_, n)| n.join("; "));
        for point in &gemm.m {
            let share = if all > 0.0 { point.weight / all } else { 0.0 };
            let launched = if launches > 0.0 {
                gemm.count as f64 * point.weight / f64::from(point.m) / launches
            } else {
                0.0
            };
            grid.rows.push(vec![
                Cell::text(&gemm.name),
                Cell::count(gemm.n),
                Cell::count(gemm.k),
                Cell::count(point.m),
                Cell::number(format!("{launched:.0}"), launched),
                Cell::number(format!("{:.1} %", share * 100.0), share),
                Cell::text(formats.join(", ")),
                Cell::text(&remark),
            ]);
        }
    }
    Section {
        id: id.to_owned(),
        title: format!("Requests that an engine recorded: {}", declaration.model),
        text: vec![format!(
            "{calls} calls of {} GEMMs, recorded at run time. Tune this declaration to have them measured.",
            declaration.gemms.len()
        )],
        grids: vec![grid],
        ..Section::default()
    }
}

/// The section of a record of every request.
pub(in crate::report) fn requests(id: &str, requests: &[Request]) -> Section {
    let calls: u64 = requests.iter().map(|request| request.calls).sum();
    let share = |n: u64| if calls > 0 { n as f64 / calls as f64 } else { 0.0 };
    let mut rungs = Grid::new("Calls by the rung of the ladder that answered", &["rung", "#calls", "#share"]);
    for (rung, n) in capture::rungs(requests) {
        rungs.rows.push(vec![
            Cell::text(rung),
            Cell::count(n),
            Cell::number(format!("{:.1} %", share(n) * 100.0), share(n)),
        ]);
    }
    let mut grid = Grid::new(
        "Requests",
        &["#N", "#K", "#M", "activation", "format", "output", "rung", "#calls", "#share"],
    );
    let mut sorted: Vec<&Request> = requests.iter().collect();
    sorted.sort_by_key(|request| u64::MAX - request.calls);
    for request in sorted {
        let Request { n, k, m, activation, format, out, rung, calls, .. } = request;
        grid.rows.push(vec![
            Cell::count(*n),
            Cell::count(*k),
            Cell::count(*m),
            Cell::text(activation.name()),
            Cell::text(format.name()),
            Cell::text(out.name()),
            Cell::text(rung),
            Cell::count(*calls),
            Cell::number(format!("{:.1} %", share(*calls) * 100.0), share(*calls)),
        ]);
    }
    Section {
        id: id.to_owned(),
        title: "Requests that an engine recorded".into(),
        text: vec![format!(
            "{calls} calls. Exact and interval are measurements of the very weight; extrapolated lies outside the measured M; nearest,              analytic and default are guesses, and what they answer often is worth tuning."
        )],
        grids: vec![rungs, grid],
        ..Section::default()
    }
}
