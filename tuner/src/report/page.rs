//! The page: sections of text, plots and tables, put into the template.
//!
//! Invariants: one file, without a reference to any other; a function of its inputs alone, so it holds no date; every plot has
//! a title and a description, and a table with the same numbers.

use handlebars::Handlebars;
use serde::Serialize;

const TEMPLATE: &str = include_str!("../../templates/report.html.hbs");
const STYLE: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// The whole page.
#[derive(Serialize)]
pub(super) struct Page {
    /// What it is about.
    pub(super) title: String,
    /// A line below.
    pub(super) subtitle: String,
    /// Figures of merit: value and what it is.
    pub(super) facts: Vec<Fact>,
    /// The sections.
    pub(super) sections: Vec<Section>,
}

/// A figure of merit.
#[derive(Serialize)]
pub(super) struct Fact {
    /// The figure.
    pub(super) value: String,
    /// What it is.
    pub(super) name: String,
}

/// A part of the page with a heading.
#[derive(Default, Serialize)]
pub(super) struct Section {
    /// Unique in the page.
    pub(super) id: String,
    /// The heading.
    pub(super) title: String,
    /// What is to be seen, and how it was made.
    pub(super) text: Vec<String>,
    /// Plots.
    pub(super) figures: Vec<Figure>,
    /// Tables.
    pub(super) grids: Vec<Grid>,
    /// What is folded away.
    pub(super) details: Vec<Detail>,
}

/// A folded part.
#[derive(Serialize)]
pub(super) struct Detail {
    /// What is seen while it is folded.
    pub(super) summary: String,
    /// Plots.
    pub(super) figures: Vec<Figure>,
    /// Tables.
    pub(super) grids: Vec<Grid>,
}

/// A plot.
#[derive(Serialize)]
pub(super) struct Figure {
    /// The drawing.
    pub(super) svg: String,
    /// Whether it takes the page's width.
    pub(super) wide: bool,
    /// What is written above it.
    pub(super) caption: String,
    /// Colours and what they stand for.
    pub(super) legend: Vec<Key>,
}

/// An entry of a legend.
#[derive(Serialize)]
pub(super) struct Key {
    /// The colour's class.
    pub(super) class: String,
    /// What it stands for.
    pub(super) text: String,
}

/// A table that can be sorted by its columns.
#[derive(Serialize)]
pub(super) struct Grid {
    /// What it holds.
    pub(super) caption: String,
    /// Columns.
    pub(super) columns: Vec<Column>,
    /// Rows, as wide as the columns.
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Serialize)]
pub(super) struct Column {
    /// Its heading.
    pub(super) name: String,
    /// Whether it holds numbers, which stand at the right.
    pub(super) number: bool,
}

/// A cell.
#[derive(Serialize)]
pub(super) struct Cell {
    text: String,
    /// What it is sorted by, if not its text.
    sort: Option<String>,
    number: bool,
    code: bool,
}

impl Cell {
    /// Words.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Cell { text: text.into(), sort: None, number: false, code: false }
    }

    /// A kernel's name, or something else that is no prose.
    pub(super) fn code(text: impl Into<String>) -> Self {
        Cell { code: true, ..Cell::text(text) }
    }

    /// A number as it is shown, sorted by its value.
    pub(super) fn number(shown: impl Into<String>, value: f64) -> Self {
        let sort = value.is_finite().then(|| format!("{value}"));
        Cell { text: shown.into(), sort, number: true, code: false }
    }

    /// A whole number.
    pub(super) fn count(value: impl Into<u64>) -> Self {
        let value = value.into();
        Cell { text: value.to_string(), sort: Some(value.to_string()), number: true, code: false }
    }
}

impl Grid {
    /// A table without rows; headings that begin with `#` are of numbers.
    pub(super) fn new(caption: impl Into<String>, headings: &[&str]) -> Self {
        let column = |heading: &&str| match heading.strip_prefix('#') {
            Some(name) => Column { name: name.into(), number: true },
            None => Column { name: (*heading).into(), number: false },
        };
        Grid { caption: caption.into(), columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }
}

/// The page's text.
pub(super) fn render(page: &Page) -> String {
    #[derive(Serialize)]
    struct Whole<'p> {
        #[serde(flatten)]
        page: &'p Page,
        style: &'static str,
        script: &'static str,
        version: &'static str,
    }
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    let whole = Whole { page, style: STYLE, script: SCRIPT, version: env!("CARGO_PKG_VERSION") };
    handlebars.render_template(TEMPLATE, &whole).expect("the template uses the fields that there are")
}
