//! What a table decided: forward passes, roofline, time against M, finalists.

use crate::report::charts::roofline::{bandwidth, number, rate};
use crate::report::charts::{colour, forest, forward, roofline, times};
use crate::report::model::{self, Pass};
use crate::report::page::{Cell, Detail, Figure, Grid, Key, Section};
use crate::table::{Decisions, Finalist, Weight};
use crate::units::time;

/// The sections of one table; ids begin with `prefix`.
pub(in crate::report) fn table(prefix: &str, decisions: &Decisions, evidence: &[Finalist]) -> Vec<Section> {
    let mut sections =
        vec![passes(prefix, decisions), points(prefix, decisions), against_m(prefix, decisions)];
    sections.extend((!evidence.is_empty()).then(|| finalists(prefix, decisions, evidence)));
    sections
}

fn passes(prefix: &str, decisions: &Decisions) -> Section {
    let passes = model::passes(decisions);
    let mut section =
        Section { id: format!("{prefix}-forward"), title: "One forward pass".into(), ..Section::default() };
    if passes.is_empty() {
        section.text.push("No M was tuned for all weights, so that there is no time of a whole pass.".into());
        return section;
    }
    section.text.push(
        "The time of all GEMMs of one forward pass, each weight as often as the model uses it, in two ways: with the \
         default configs, which run where nothing was tuned, and with the winners. Attention and everything else that is no \
         GEMM is not in it."
            .into(),
    );
    section.figures.push(Figure {
        svg: forward::draw(&section.id, &decisions.model, &passes),
        wide: true,
        caption: String::new(),
        legend: vec![
            Key { class: "base".into(), text: "default".into() },
            Key { class: "s0".into(), text: "tuned".into() },
        ],
    });
    let mut grid = Grid::new("Forward pass by M", &["#M", "#default", "#tuned", "#gain"]);
    for Pass { m, default_ns, tuned_ns } in passes {
        let gain = default_ns / tuned_ns;
        grid.rows.push(vec![
            Cell::count(m),
            Cell::number(time(default_ns), default_ns),
            Cell::number(time(tuned_ns), tuned_ns),
            Cell::number(format!("{gain:.2}x"), gain),
        ]);
    }
    section.grids.push(grid);
    section
}

fn points(prefix: &str, decisions: &Decisions) -> Section {
    let (points, roofs) = model::roofline(decisions);
    let id = format!("{prefix}-roofline");
    let mut text = vec![
        "What each winner reaches. The bytes are those of weight, activation and output, each moved once: a kernel that finds \
         them in a cache can lie above a memory roof."
            .to_owned(),
    ];
    text.push(match roofs.first() {
        Some(roof) => format!(
            "The roofs are the maker's data sheet: {} of memory traffic, and {}.",
            bandwidth(roof.bandwidth),
            roofs
                .iter()
                .map(|roof| format!("{} on {}", rate(roof.ops), roof.name))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        None => format!(
            "No roof is drawn: what {} can do at most is not known.",
            decisions.device.fingerprint.split('|').nth(1).unwrap_or(&decisions.device.key).trim()
        ),
    });
    let figure = Figure {
        svg: roofline::draw(&id, &points, &roofs),
        wide: true,
        caption: String::new(),
        legend: legend(decisions.weights.iter().map(|weight| weight.name.clone())),
    };
    let mut grid = Grid::new(
        "Every row against the device",
        &["weight", "#M", "#time", "#operations/byte", "#reached", "#traffic", "#of the roof"],
    );
    for point in &points {
        grid.rows.push(vec![
            Cell::text(&point.weight),
            Cell::count(point.m),
            Cell::number(time(point.ns), point.ns),
            Cell::number(number(point.intensity()), point.intensity()),
            Cell::number(rate(point.rate()), point.rate()),
            Cell::number(bandwidth(point.traffic()), point.traffic()),
            match point.share {
                Some(share) => Cell::number(format!("{:.0} %", share * 100.0), share),
                None => Cell::text("not known"),
            },
        ]);
    }
    Section {
        id,
        title: "Roofline".into(),
        text,
        figures: vec![figure],
        grids: vec![grid],
        details: Vec::new(),
    }
}

fn legend(names: impl Iterator<Item = String>) -> Vec<Key> {
    names.enumerate().map(|(series, text)| Key { class: colour(series).replace("m ", ""), text }).collect()
}

fn against_m(prefix: &str, decisions: &Decisions) -> Section {
    let mut section = Section {
        id: format!("{prefix}-times"),
        title: "Time against M".into(),
        text: vec![
            "The winner at each M with its 95 % interval. Equal colours within a plot are one kernel; an open mark is a row \
             whose measurements do not support a decision."
                .into(),
        ],
        ..Section::default()
    };
    let mut grid = Grid::new(
        "Decisions",
        &["weight", "#M", "#time", "#from", "#to", "#default", "#gain", "verdict", "kernel"],
    );
    for (index, weight) in decisions.weights.iter().enumerate() {
        let mut kernels: Vec<&str> = Vec::new();
        for row in &weight.rows {
            if !kernels.contains(&row.config.as_str()) {
                kernels.push(&row.config);
            }
            let [low, high] = row.interval_ns;
            let gain = row.default_ns / row.time_ns;
            grid.rows.push(vec![
                Cell::text(&weight.name),
                Cell::count(row.m),
                Cell::number(time(row.time_ns), row.time_ns),
                Cell::number(time(low), low),
                Cell::number(time(high), high),
                Cell::number(time(row.default_ns), row.default_ns),
                Cell::number(format!("{gain:.2}x"), gain),
                Cell::text(row.verdict.to_string()),
                Cell::code(&row.config),
            ]);
        }
        section.figures.push(Figure {
            svg: times::draw(&format!("{}-{index}", section.id), weight, &kernels),
            wide: false,
            caption: caption(weight),
            legend: Vec::new(),
        });
    }
    section.grids.push(grid);
    section
}

fn caption(weight: &Weight) -> String {
    let Weight { name, n, k, count, activation, format, layout, .. } = weight;
    let error = weight.error.map_or(String::new(), |error| format!(", error {error:.4}"));
    format!(
        "{name}: N = {n}, K = {k}, {count} per pass; {format} in {layout}, {activation} activations{error}"
    )
}

fn finalists(prefix: &str, decisions: &Decisions, evidence: &[Finalist]) -> Section {
    let mut section = Section {
        id: format!("{prefix}-finalists"),
        title: "Finalists".into(),
        text: vec![
            "Everybody who was in the finals, relative to the winner of the same M. They ran in the same randomised blocks, so \
             that the ratios are surer than the times. Where an interval holds 1, the two could not be told apart. Intervals \
             are cut off at 0.5x and 3x."
                .into(),
        ],
        ..Section::default()
    };
    for (index, weight) in decisions.weights.iter().enumerate() {
        let mut finalists: Vec<&Finalist> = evidence.iter().filter(|f| f.weight == weight.name).collect();
        finalists.sort_by(|a, b| {
            let ratio = |f: &Finalist| f.ratio.unwrap_or(f64::INFINITY);
            (a.m, a.status)
                .cmp(&(b.m, b.status))
                .then(ratio(a).total_cmp(&ratio(b)))
                .then(a.config.cmp(&b.config))
        });
        let mut grid = Grid::new(
            format!("Finalists of {}", weight.name),
            &["#M", "status", "#ratio", "#from", "#to", "#time", "#launches", "kernel", "remark"],
        );
        let ratio = |value: Option<f64>| match value {
            Some(value) => Cell::number(format!("{value:.3}x"), value),
            None => Cell::text(""),
        };
        for f in &finalists {
            let status =
                if f.baseline { format!("{}, default", f.status.name()) } else { f.status.name().into() };
            grid.rows.push(vec![
                Cell::count(f.m),
                Cell::text(status),
                ratio(f.ratio),
                ratio(f.ratio_low),
                ratio(f.ratio_high),
                f.time_ns.map_or(Cell::text(""), |ns| Cell::number(time(ns), ns)),
                Cell::count(f.samples),
                Cell::code(&f.config),
                Cell::text(&f.reason),
            ]);
        }
        let drawn = forest::draw(&format!("{}-{index}", section.id), &weight.name, &finalists);
        let figures = drawn
            .map(|svg| Figure {
                svg,
                wide: true,
                caption: String::new(),
                legend: vec![
                    Key { class: "s0".into(), text: "winner".into() },
                    Key { class: "s1".into(), text: "tied with it".into() },
                    Key { class: "base".into(), text: "slower".into() },
                ],
            })
            .into_iter()
            .collect();
        section.details.push(Detail {
            summary: format!("{}: {} finalists", weight.name, finalists.len()),
            figures,
            grids: vec![grid],
        });
    }
    section
}
