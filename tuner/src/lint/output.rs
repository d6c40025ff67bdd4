//! A report as text for people, as JSON, and as SARIF 2.1.0 for code review.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::coverage::Coverage;
use super::{Finding, Report, Rule};
use crate::style;

/// Text: findings, at most `most` of one rule in one file, then the counts.
pub fn text(report: &Report, most: usize) -> String {
    let mut text = String::new();
    let mut shown: BTreeMap<(&std::path::Path, Rule), usize> = BTreeMap::new();
    for Finding { rule, fault } in &report.findings {
        let count = shown.entry((&fault.file, *rule)).or_default();
        *count += 1;
        if *count <= most {
            let (level, style) =
                if rule.is_error() { ("error", style::BAD) } else { ("warning", style::DOUBT) };
            let line = fault.line.map_or(String::new(), |line| format!(":{line}"));
            let field = if fault.field.is_empty() { String::new() } else { format!("{}: ", fault.field) };
            let _ = writeln!(
                text,
                "{}{line}: {}: {field}{}",
                fault.file.display(),
                style::paint(style, &format!("{level}[{}]", rule.name())),
                fault.message
            );
            if *count == 1 && !fault.help.is_empty() {
                let _ = writeln!(text, "  {} {}", style::paint(style::HELP, "help:"), fault.help);
            }
        }
    }
    for ((file, rule), count) in &shown {
        if *count > most {
            let _ = writeln!(text, "{}: {} more [{}]", file.display(), count - most, rule.name());
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for (rule, count) in counts(report) {
        let _ = writeln!(
            text,
            "{count:>7}  {} {}",
            style::paint(style::HEADING, &format!("{:<24}", rule.name())),
            rule.about()
        );
    }
    for Coverage { model, exact, padded, power_of_two, missing } in &report.coverage {
        let percent = |share: &f64| 100.0 * share;
        let _ = writeln!(
            text,
            "coverage of {model}, by launches x least time: exact {:.1} %, padded {:.1} %, next power of two {:.1} %, \
             missing {:.1} %",
            percent(exact),
            percent(padded),
            percent(power_of_two),
            percent(missing)
        );
    }
    let _ = writeln!(
        text,
        "{} in {} of {}",
        style::count(report.findings.len(), "finding"),
        style::count(report.rows, "row"),
        style::count(report.files, "file")
    );
    text
}

/// Findings of each rule that has any.
pub fn counts(report: &Report) -> BTreeMap<Rule, usize> {
    let mut counts = BTreeMap::new();
    for finding in &report.findings {
        *counts.entry(finding.rule).or_default() += 1;
    }
    counts
}

/// JSON: every finding, the counts and the coverage.
pub fn json(report: &Report) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|Finding { rule, fault }| {
            json!({
                "rule": rule.name(),
                "level": level(*rule),
                "file": fault.file.to_string_lossy(),
                "line": fault.line,
                "field": fault.field,
                "message": fault.message,
                "help": fault.help,
            })
        })
        .collect();
    let counts: BTreeMap<&str, usize> =
        counts(report).into_iter().map(|(rule, count)| (rule.name(), count)).collect();
    let coverage: Vec<Value> = report
        .coverage
        .iter()
        .map(|Coverage { model, exact, padded, power_of_two, missing }| {
            json!({
                "model": model,
                "exact": exact,
                "padded": padded,
                "power_of_two": power_of_two,
                "missing": missing,
            })
        })
        .collect();
    json!({
        "files": report.files,
        "rows": report.rows,
        "counts": counts,
        "coverage": coverage,
        "findings": findings,
    })
}

/// SARIF 2.1.0.
pub fn sarif(report: &Report) -> Value {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.name(),
                "shortDescription": { "text": rule.about() },
                "defaultConfiguration": { "level": level(*rule) },
            })
        })
        .collect();
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|Finding { rule, fault }| {
            let mut place = json!({ "artifactLocation": { "uri": uri(&fault.file.to_string_lossy()) } });
            if let Some(line) = fault.line {
                place["region"] = json!({ "startLine": line });
            }
            let field = if fault.field.is_empty() { String::new() } else { format!("{}: ", fault.field) };
            let help = if fault.help.is_empty() { String::new() } else { format!("; {}", fault.help) };
            json!({
                "ruleId": rule.name(),
                "ruleIndex": Rule::ALL.iter().position(|known| known == rule),
                "level": level(*rule),
                "message": { "text": format!("{field}{}{help}", fault.message) },
                "locations": [{ "physicalLocation": place }],
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "tilewright",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "utf16CodeUnits",
            "results": results,
        }],
    })
}

fn level(rule: Rule) -> &'static str {
    if rule.is_error() { "error" } else { "warning" }
}

/// A path as a URI reference: what may not stand in one is percent-encoded.
fn uri(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                text.push(byte as char)
            }
            b'\\' => text.push('/'),
            other => {
                let _ = write!(text, "%{other:02X}");
            }
        }
    }
    text
}
