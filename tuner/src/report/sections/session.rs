//! How a table came about: a journal's runs, where the last one spent its launches, and how steady the machine was.

use crate::report::charts::{drift, spend};
use crate::report::page::{Cell, Detail, Figure, Grid, Key, Section};
use crate::report::session::{Run, Spend};
use crate::units::time;

/// The sections of one journal; ids begin with `prefix`.
pub(in crate::report) fn session(prefix: &str, runs: &[Run]) -> Vec<Section> {
    let mut sections = vec![overview(prefix, runs)];
    // A run that only repeats what is known may have measured nothing.
    if let Some(last) = runs.iter().rev().find(|run| run.launches > 0) {
        sections.push(spent(prefix, last));
        sections.push(steadiness(prefix, last));
    }
    sections
}

fn overview(prefix: &str, runs: &[Run]) -> Section {
    let mut grid = Grid::new(
        "Runs of the journal, oldest first",
        &["#run", "#seed", "operands", "#budget", "#time", "#launches", "#candidates", "#refused", "end"],
    );
    for (index, run) in runs.iter().enumerate() {
        grid.rows.push(vec![
            Cell::count(index as u64 + 1),
            Cell::count(run.header.seed),
            Cell::text(&run.header.regime),
            run.header.budget_s.map_or(Cell::text("none"), |s| Cell::number(time(s * 1e9), s)),
            Cell::number(time(run.seconds * 1e9), run.seconds),
            Cell::count(run.launches),
            Cell::count(run.evaluated),
            Cell::count(run.refused.values().sum::<usize>() as u64),
            Cell::text(if run.ended { "by itself" } else { "stopped early" }),
        ]);
    }
    Section {
        id: format!("{prefix}-runs"),
        title: "Runs and what a warm start saved".into(),
        text: vec![
            "A later run starts from the winners, ties and neighbours of earlier ones and measures them again; nothing is taken \
             over unmeasured."
                .into(),
            saving(runs),
        ],
        grids: vec![grid],
        ..Section::default()
    }
}

/// The first and the last run that asked the same and ended by themselves.
fn saving(runs: &[Run]) -> String {
    let Some(last) = runs.iter().rposition(|run| run.ended) else {
        return "No run ended by itself, so that nothing is to be compared.".into();
    };
    let same = |run: &Run| {
        let (a, b) = (&run.header, &runs[last].header);
        run.ended
            && (&a.declaration, &a.fingerprint, &a.regime, &a.version)
                == (&b.declaration, &b.fingerprint, &b.regime, &b.version)
    };
    let first = runs.iter().position(same).expect("the last is one");
    if first == last {
        return "Only one run of this declaration ended by itself: no warm start is to be compared with it."
            .into();
    }
    let change = |from: u64, to: u64| {
        let share = (1.0 - to as f64 / from.max(1) as f64) * 100.0;
        if share >= 0.0 { format!("{share:.0} % fewer") } else { format!("{:.0} % more", -share) }
    };
    let (a, b) = (&runs[first], &runs[last]);
    let mut text = format!(
        "Run {} took {} launches and {} candidates where run {}, the first, took {} and {}: {} launches, {} candidates.",
        last + 1,
        b.launches,
        b.evaluated,
        first + 1,
        a.launches,
        a.evaluated,
        change(a.launches, b.launches),
        change(a.evaluated, b.evaluated)
    );
    if a.header.budget_s.is_some() || b.header.budget_s.is_some() {
        text += " A budget bounded at least one of them: it, and not the warm start alone, decides how much was measured.";
    }
    text
}

fn spent(prefix: &str, run: &Run) -> Section {
    let id = format!("{prefix}-spend");
    let mut grid = Grid::new(
        "Contests of the last run that measured",
        &["weight", "#M", "#legal", "#evaluated", "#search", "#finals", "verdict"],
    );
    for Spend { weight, m, candidates, evaluated, search, finals, verdict } in &run.contests {
        grid.rows.push(vec![
            Cell::text(weight),
            Cell::count(*m),
            Cell::count(*candidates as u64),
            Cell::count(*evaluated as u64),
            Cell::count(*search),
            Cell::count(*finals),
            Cell::text(if verdict.is_empty() { "none" } else { verdict }),
        ]);
    }
    let mut refused = Grid::new("Refused candidates", &["reason", "#candidates"]);
    refused.rows =
        run.refused.iter().map(|(why, count)| vec![Cell::text(why), Cell::count(*count as u64)]).collect();
    let details = if refused.rows.is_empty() {
        Vec::new()
    } else {
        let summary = format!("{} candidates were refused", run.refused.values().sum::<usize>());
        vec![Detail { summary, figures: Vec::new(), grids: vec![refused] }]
    };
    Section {
        title: "Where the search spent its launches".into(),
        text: vec![
            "The last run that measured. Legal are the configs that the predicate allows; evaluated are those that the search \
             timed. Launches of the search hold its warm-up and the default config beside each candidate."
                .into(),
            format!("{} launches more compared the plans of whole weights with each other.", run.trials),
        ],
        figures: vec![Figure {
            svg: spend::draw(&id, &run.contests),
            wide: true,
            caption: String::new(),
            legend: vec![
                Key { class: "s0".into(), text: "search".into() },
                Key { class: "s1".into(), text: "finals".into() },
            ],
        }],
        grids: vec![grid],
        details,
        id,
    }
}

fn steadiness(prefix: &str, run: &Run) -> Section {
    let id = format!("{prefix}-drift");
    let mut section = Section { title: "Drift during the session".into(), ..Section::default() };
    if run.drift.is_empty() {
        section
            .text
            .push("The default config was timed too seldom to say how steady the machine was.".into());
        return Section { id, ..section };
    }
    section.text.push(
        "The default config runs beside everything else. Its time, relative to its median in the same contest, says how steady \
         the machine was: the line is the median of a stretch of launches, the band holds half of them."
            .into(),
    );
    section.figures.push(Figure {
        svg: drift::draw(&id, &run.drift),
        wide: true,
        caption: String::new(),
        legend: Vec::new(),
    });
    let mut grid =
        Grid::new("The default config over time", &["#after", "#median", "#from", "#to", "#launches"]);
    for bin in &run.drift {
        let ratio = |value: f64| Cell::number(format!("{value:.3}x"), value);
        grid.rows.push(vec![
            Cell::number(time(bin.at_s * 1e9), bin.at_s),
            ratio(bin.median),
            ratio(bin.quartiles[0]),
            ratio(bin.quartiles[1]),
            Cell::count(bin.launches as u64),
        ]);
    }
    section.details.push(Detail {
        summary: "The same as a table".into(),
        figures: Vec::new(),
        grids: vec![grid],
    });
    Section { id, ..section }
}
