//! Our own tables: everything the compiler refuses or warns of, and whether evidence and module belong to them.

use std::path::Path;

use super::{Finding, Rule};
use crate::diag::{BadInput, Fault};
use crate::table::{Located, compile_located, evidence};

/// Checks a table and counts its rows.
pub(super) fn check(path: &Path) -> (Vec<Finding>, usize) {
    let faults = |bad: BadInput| bad.0.into_iter().map(|fault| Finding { rule: Rule::TableFault, fault });
    let located = match Located::read(path) {
        Ok(located) => located,
        Err(bad) => return (faults(bad).collect(), 0),
    };
    let rows = located.decisions.weights.iter().map(|weight| weight.rows.len()).sum();
    let mut findings = Vec::new();
    match compile_located(&located) {
        Err(bad) => findings.extend(faults(bad)),
        Ok(compiled) => {
            findings.extend(compiled.warnings.iter().map(|warning| doubt(path, warning)));
            let module = path.with_extension("rs");
            if std::fs::read_to_string(&module).is_ok_and(|text| text != compiled.rs) {
                let fault = Fault::of_file(
                    &module,
                    format!("is not what {} compiles to", path.display()),
                    "run `tilewright compile`",
                );
                findings.push(Finding { rule: Rule::StaleModule, fault });
            }
        }
    }
    evidence_of(path, &located, &mut findings);
    (findings, rows)
}

fn evidence_of(path: &Path, located: &Located, findings: &mut Vec<Finding>) {
    let file = path.with_extension("csv");
    if !file.exists() {
        findings.push(doubt(path, "has no evidence beside it: nothing says how its rows were decided"));
        return;
    }
    match evidence::read(&file) {
        Err(bad) => findings.extend(bad.0.into_iter().map(|fault| Finding { rule: Rule::TableFault, fault })),
        Ok(finalists) => {
            for weight in &located.decisions.weights {
                let bare: Vec<String> = weight
                    .rows
                    .iter()
                    .filter(|row| !finalists.iter().any(|f| f.weight == weight.name && f.m == row.m))
                    .map(|row| row.m.to_string())
                    .collect();
                if !bare.is_empty() {
                    let message = format!("{}: no evidence for M = {}", weight.name, bare.join(", "));
                    findings.push(doubt(path, &message));
                }
            }
        }
    }
}

fn doubt(path: &Path, message: &str) -> Finding {
    Finding { rule: Rule::TableDoubt, fault: Fault::of_file(path, message, "") }
}
