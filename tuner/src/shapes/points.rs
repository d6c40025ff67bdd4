//! The M values a GEMM is tuned at: integers, ranges and weighted points, expanded into one ascending list.
//!
//! ```toml
//! m = [
//!     1, 8,                                   # each of weight 1
//!     { m = 64, weight = 0.5 },
//!     { from = 128, to = 512, step = 128 },   # 128, 256, 384, 512
//!     { from = 1024, to = 8192, factor = 2 }, # 1024, 2048, 4096, 8192
//! ]
//! ```
//!
//! `to` is a bound: it is a point only where a step lands on it. A `weight`, the share of
//! rows that passes at this M, is in a range that of each of its points.

use toml::Spanned;
use toml::de::DeValue;

use super::document::{Faults, Section, Setting, integer, wrong_type};
use super::{DIMENSION_MAX, MPoint};

/// Most M points of one GEMM.
pub const MOST_POINTS: usize = 4096;

const DIMENSION: std::ops::Range<u64> = 1..DIMENSION_MAX as u64 + 1;

/// Reads the key `m` of a table.
pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> Setting<Vec<MPoint>> {
    let field = section.field("m");
    section.array(faults, "m").and_then(|entries| {
        let mut reader = Reader { faults, points: Vec::new(), faulty: false };
        for (index, entry) in entries.iter().enumerate() {
            reader.entry(entry, format!("{field}[{index}]"));
            if reader.points.len() > MOST_POINTS {
                let help = format!("at most {MOST_POINTS}; let a range take larger steps");
                faults.at(entry.span().start, field, "too many values of M", help);
                return None;
            }
        }
        if entries.is_empty() {
            faults.at(
                section.offset("m"),
                field,
                "no value of M",
                "name at least one, for instance m = [1, 16, 256]",
            );
            return None;
        }
        let Reader { points, faulty, .. } = reader;
        finish(points, faults, section.offset("m"), &field).filter(|_| !faulty)
    })
}

/// Sorts, and notes what is wrong with the list as a whole.
fn finish(mut points: Vec<Point>, faults: &mut Faults<'_>, start: usize, field: &str) -> Option<Vec<MPoint>> {
    points.sort_by_key(|point| (point.m, point.offset));
    let repeated: Vec<&Point> =
        points.windows(2).filter(|pair| pair[0].m == pair[1].m).map(|pair| &pair[1]).collect();
    if let Some(first) = repeated.first() {
        let mut values: Vec<u32> = repeated.iter().map(|point| point.m).collect();
        values.dedup();
        let more = if values.len() > 1 { format!(", and {} more", values.len() - 1) } else { String::new() };
        let message = format!("M = {} stands there more than once{more}", first.m);
        faults.at(first.offset, field, message, "ranges must not overlap each other or a single value");
        return None;
    }
    if !points.is_empty() && points.iter().all(|point| point.weight == 0.0) {
        faults.at(start, field, "every weight is 0", "give at least one value of M a weight above 0");
        return None;
    }
    Some(points.into_iter().map(|Point { m, weight, .. }| MPoint { m, weight }).collect())
}

struct Point {
    m: u32,
    weight: f64,
    offset: usize,
}

struct Reader<'f, 't> {
    faults: &'f mut Faults<'t>,
    points: Vec<Point>,
    faulty: bool,
}

impl Reader<'_, '_> {
    fn entry(&mut self, entry: &Spanned<DeValue<'_>>, path: String) {
        let offset = entry.span().start;
        let added = match entry.get_ref() {
            DeValue::Integer(_) => integer(self.faults, entry, &path, DIMENSION)
                .given()
                .map(|m| self.points.push(Point { m: m as u32, weight: 1.0, offset })),
            DeValue::Table(table) => {
                let section = Section { table, path, start: offset };
                if table.contains_key("m") { self.weighted(&section) } else { self.range(&section) }
            }
            _ => {
                wrong_type(self.faults, entry, &path, "an integer, a range or a weighted point");
                None
            }
        };
        self.faulty |= added.is_none();
    }

    fn weighted(&mut self, section: &Section<'_>) -> Option<()> {
        section.expect_keys(self.faults, &["m", "weight"]);
        let weight = self.weight(section);
        let m = section.integer(self.faults, "m", DIMENSION).given()? as u32;
        self.points.push(Point { m, weight: weight?, offset: section.start });
        Some(())
    }

    fn range(&mut self, section: &Section<'_>) -> Option<()> {
        section.expect_keys(self.faults, &["from", "to", "step", "factor", "weight"]);
        let from = section.integer(self.faults, "from", DIMENSION);
        let to = section.integer(self.faults, "to", DIMENSION);
        let step = section.integer(self.faults, "step", DIMENSION);
        let factor = section.integer(self.faults, "factor", 2..DIMENSION_MAX as u64 + 1);
        let weight = self.weight(section);
        for (key, setting) in [("from", &from), ("to", &to)] {
            if !setting.is_present() {
                section.missing(self.faults, key, "a range is { from = 1, to = 64, step = 1 }");
            }
        }
        if step.is_present() && factor.is_present() {
            let help = "keep `step` (adds) or `factor` (multiplies)";
            self.faults.at(section.start, &section.path, "both `step` and `factor`", help);
            return None;
        }
        let by_factor = factor.is_present();
        let step = if by_factor { factor } else { step.or(&Setting::Given(1)) };
        let (from, to, step, weight) = (from.given()?, to.given()?, step.given()?, weight?);
        if from > to {
            self.faults.at(
                section.start,
                &section.path,
                format!("from {from} is above to {to}"),
                "swap them",
            );
            return None;
        }
        let mut m = from;
        while m <= to && self.points.len() <= MOST_POINTS {
            self.points.push(Point { m: m as u32, weight, offset: section.start });
            m = if by_factor { m * step } else { m + step };
        }
        Some(())
    }

    fn weight(&mut self, section: &Section<'_>) -> Option<f64> {
        let weight = section.number(self.faults, "weight").or(&Setting::Given(1.0)).given()?;
        if weight.is_finite() && weight >= 0.0 {
            return Some(weight);
        }
        let help = "a weight is a finite number, 0 or above";
        self.faults.at(
            section.offset("weight"),
            section.field("weight"),
            format!("{weight} is no weight"),
            help,
        );
        None
    }
}
