//! Rules over keys and over neighbouring M, across all files whose rows a library merges.

use std::collections::HashMap;

use super::{Finding, Rule, finding};
use crate::import::aiter::Family;
use crate::import::{Foreign, NONE, Operation, Source, is_placeholder};

/// How much slower than a larger M's a row must be to count as dominated.
const DOMINATED: f64 = 1.05;

/// A row in the order of its key.
#[derive(Clone, Copy)]
struct Row {
    /// Operation, batch, N, K.
    group: [u32; 4],
    m: u32,
    us: f64,
    file: u32,
    line: u32,
}

/// Finds repeated keys and dominated rows.
pub(super) fn check(files: &[Foreign], findings: &mut Vec<Finding>) {
    let mut rows = rows(files);
    rows.sort_by_key(|row| (row.group, row.m, row.file, row.line));
    for group in rows.chunk_by(|a, b| a.group == b.group) {
        repeated(files, group, findings);
        dominated(files, group, findings);
    }
}

/// What operations are numbered by: source, family, file where there is none, and the operation itself.
type Table<'f> = (Source, Option<Family>, Option<usize>, &'f Operation);

/// Tuned rows, with operations numbered across files. Tables of one family are merged; others stand alone.
fn rows(files: &[Foreign]) -> Vec<Row> {
    let mut numbers: HashMap<Table<'_>, u32> = HashMap::new();
    let mut rows = Vec::with_capacity(files.iter().map(|file| file.entries.len()).sum());
    for (index, foreign) in files.iter().enumerate() {
        let alone = foreign.family.is_none().then_some(index);
        let own: Vec<u32> = foreign
            .operations
            .iter()
            .map(|operation| {
                let next = numbers.len() as u32;
                *numbers.entry((foreign.source, foreign.family, alone, operation)).or_insert(next)
            })
            .collect();
        // A row without an M stands for a range.
        for entry in foreign.entries.iter().filter(|entry| entry.kernel != NONE && entry.m > 0) {
            rows.push(Row {
                group: [own[entry.operation as usize], entry.batch, entry.n, entry.k],
                m: entry.m,
                us: entry.time_us.filter(|us| !is_placeholder(*us)).unwrap_or(f64::NAN),
                file: index as u32,
                line: entry.line,
            });
        }
    }
    rows
}

fn repeated(files: &[Foreign], group: &[Row], findings: &mut Vec<Finding>) {
    for same in group.chunk_by(|a, b| a.m == b.m) {
        let (first, others) = same.split_first().expect("chunks are not empty");
        for row in others {
            let [_, _, n, k] = row.group;
            let place = if row.file == first.file {
                format!("line {}", first.line)
            } else {
                format!("{}:{}", files[first.file as usize].file.display(), first.line)
            };
            let message = format!("{}x{n}x{k} has a row in {place} already", row.m);
            let help = "keep the one that was measured later; merging keeps the one with the least time";
            findings.push(finding(
                &files[row.file as usize],
                Rule::DuplicateKey,
                row.line,
                "M,N,K",
                message,
                help,
            ));
        }
    }
}

/// From the largest M down, against the least time so far.
fn dominated(files: &[Foreign], group: &[Row], findings: &mut Vec<Finding>) {
    let mut best: Option<Row> = None;
    for same in group.chunk_by(|a, b| a.m == b.m).rev() {
        for row in same {
            if let Some(best) = best
                && row.us > DOMINATED * best.us
            {
                let message = format!(
                    "M = {} takes {} µs, M = {} only {} ({:.0} % less)",
                    row.m,
                    row.us,
                    best.m,
                    best.us,
                    (1.0 - best.us / row.us) * 100.0
                );
                let help = "its kernel runs this M too: tune the row again with it among the candidates";
                let foreign = &files[row.file as usize];
                findings.push(finding(foreign, Rule::DominatedRow, row.line, "us", message, help));
            }
        }
        for row in same {
            if row.us.is_finite() && best.is_none_or(|best| row.us < best.us) {
                best = Some(*row);
            }
        }
    }
}
