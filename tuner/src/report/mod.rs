//! One page about tables, their journals and what an engine missed: for people who decide by looking.
//!
//! Problem: a table is hundreds of numbers, and whether to trust them depends on intervals, on the session they are from and on
//! what the engine then asks for. Method: `input` reads the files, `model`, `session` and [`crate::compare`] make plain data of
//! them, `charts` draws those, `sections` puts plots, tables and words together, and `page` fills the template.
//!
//! Invariants: the page refers to nothing outside itself; it is a function of the files alone; what is not known is said in
//! it, never drawn.

mod axis;
mod charts;
mod input;
mod model;
mod page;
mod sections;
pub(crate) mod session;
mod svg;

use std::path::PathBuf;

use crate::compare::{Comparison, compare};
use crate::diag::BadInput;
use crate::units::time;
use input::{Inputs, Recorded, Subject};
use page::{Fact, Page, Section};

/// Makes a page of tables (`.toml`, each with evidence and journal where they lie beside it), journals, and declarations that
/// a recorder of misses wrote. Two tables, or two journals, are compared.
///
/// # Errors
/// All faults of the files, or a journal that cannot be read.
pub fn report(files: &[PathBuf], misses: &[PathBuf]) -> Result<String, BadInput> {
    let inputs = Inputs::read(files, misses)?;
    Ok(page::render(&page_of(&inputs)))
}

fn page_of(inputs: &Inputs) -> Page {
    let mut sections: Vec<Section> = Vec::new();
    let compared = comparison(&inputs.subjects);
    if let Some((comparison, names)) = &compared {
        sections.push(sections::changes(comparison, *names));
    } else if inputs.subjects.len() > 1 {
        let names: Vec<String> =
            inputs.subjects.iter().enumerate().map(|(i, s)| format!("{}. {}", i + 1, s.name)).collect();
        sections.push(Section {
            id: "contents".into(),
            title: "Tables".into(),
            text: vec![format!("The sections are of: {}.", names.join("; "))],
            ..Section::default()
        });
    }
    let many = inputs.subjects.len() > 1;
    for (index, subject) in inputs.subjects.iter().enumerate() {
        let prefix = format!("t{index}");
        let mut own = Vec::new();
        if let Some(decisions) = &subject.table {
            own.extend(sections::table(&prefix, decisions, &subject.evidence));
        }
        if !subject.runs.is_empty() {
            own.extend(sections::session(&prefix, &subject.runs));
        }
        if many {
            for section in &mut own {
                section.title = format!("{}. {}", index + 1, section.title);
            }
        }
        sections.extend(own);
    }
    for (index, recorded) in inputs.misses.iter().enumerate() {
        let id = format!("recorded-{index}");
        sections.push(match recorded {
            Recorded::Misses(declaration, notes) => sections::misses(&id, declaration, notes),
            Recorded::Requests(requests) => sections::requests(&id, requests),
        });
    }
    sections.push(files_read(inputs));
    Page { title: title(inputs), subtitle: subtitle(inputs), facts: facts(&inputs.subjects), sections }
}

/// Two tables, or else two journals.
fn comparison(subjects: &[Subject]) -> Option<(Comparison, [&str; 2])> {
    let [first, second] = subjects else { return None };
    let (a, b) = (first.side()?, second.side()?);
    Some((compare(a, b), [&first.name, &second.name]))
}

fn title(inputs: &Inputs) -> String {
    let mut models: Vec<&str> = inputs.subjects.iter().map(|subject| subject.model.as_str()).collect();
    models.dedup();
    models.join(" and ")
}

fn subtitle(inputs: &Inputs) -> String {
    let mut devices: Vec<String> = inputs.subjects.iter().map(|subject| subject.device.clone()).collect();
    devices.dedup();
    devices.join("; ")
}

/// The first table's gain at its smallest and largest common M, and how sure its rows are.
fn facts(subjects: &[Subject]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let Some(decisions) = subjects.iter().find_map(|subject| subject.table.as_ref()) else { return facts };
    let passes = model::passes(decisions);
    let mut ends: Vec<_> = passes.first().into_iter().chain(passes.last()).collect();
    ends.dedup();
    for pass in ends {
        facts.push(Fact {
            value: format!("{:.2}x", pass.default_ns / pass.tuned_ns),
            name: format!(
                "as fast as the default at M = {}: {} instead of {}",
                pass.m,
                time(pass.tuned_ns),
                time(pass.default_ns)
            ),
        });
    }
    let rows = decisions.weights.iter().flat_map(|weight| &weight.rows);
    let mut verdicts = [0; 3];
    for row in rows {
        verdicts[match row.verdict {
            crate::table::Verdict::Decided => 0,
            crate::table::Verdict::Tied(_) => 1,
            crate::table::Verdict::Ambiguous(_) => 2,
        }] += 1;
    }
    let [decided, tied, ambiguous] = verdicts;
    facts.push(Fact {
        value: format!("{}", decided + tied + ambiguous),
        name: format!("rows: {decided} decided, {tied} tied with others, {ambiguous} ambiguous"),
    });
    facts
}

fn files_read(inputs: &Inputs) -> Section {
    let mut grid = page::Grid::new("Files", &["file", "what"]);
    for (file, what) in &inputs.files {
        grid.rows.push(vec![page::Cell::code(file.display().to_string()), page::Cell::text(what)]);
    }
    Section {
        id: "files".into(),
        title: "Files".into(),
        text: vec!["Everything on this page is from these; it was made by `tilewright report`.".into()],
        grids: vec![grid],
        ..Section::default()
    }
}
