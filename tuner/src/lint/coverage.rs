//! How far tables serve a declaration.
//!
//! Each declared (GEMM, M) is looked up as AITER does: the exact M; else M rounded up (to 16, 32, 64 or 128, by size);
//! else the next power of two, which above M = 8192 and N = 4096 is 8192; else it is missed. What a miss costs is not in any
//! table, so hits and misses alike weigh what the device's limits allow at best: launches times the least time.

use std::collections::HashSet;

use super::limits::{self, Target};
use super::{Finding, Rule};
use crate::diag::Fault;
use crate::import::{Element, Foreign, NONE, Operation, Scales};
use crate::shapes::{Declaration, Gemm};

/// Shares of a declaration's time, adding up to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// The model.
    pub model: String,
    /// Rows of the very M.
    pub exact: f64,
    /// Rows of M rounded up a little.
    pub padded: f64,
    /// Rows of the next power of two.
    pub power_of_two: f64,
    /// No row.
    pub missing: f64,
}

/// Looks a declaration up in tables for a device, and notes the GEMMs that miss. `None` if its limits are not known.
pub fn check(
    declaration: &Declaration,
    files: &[Foreign],
    target: &Target,
    findings: &mut Vec<Finding>,
) -> Option<Coverage> {
    let limits = limits::of(&target.arch, Some(target.units))?;
    let keys = keys(files, target);
    let mut shares = [0.0; 4];
    let mut missed: Vec<(&Gemm, Vec<u32>, f64)> = Vec::new();
    for gemm in &declaration.gemms {
        let operation = operation(gemm);
        let (mut bare, mut lost) = (Vec::new(), 0.0);
        for point in &gemm.m {
            let floor = limits.floor_us(&operation, [1, point.m, gemm.n, gemm.k]);
            let cost = gemm.count as f64 * point.weight / f64::from(point.m) * floor[0].max(floor[1]);
            let has = |m: u32| {
                gemm.formats
                    .iter()
                    .any(|format| keys.contains(&(format.name(), m, gemm.n, gemm.k, gemm.bias)))
            };
            let rung = [point.m, padded(point.m), power_of_two(point.m, gemm.n)].into_iter().position(has);
            shares[rung.unwrap_or(3)] += cost;
            if rung.is_none() {
                bare.push(point.m);
                lost += cost;
            }
        }
        if !bare.is_empty() {
            missed.push((gemm, bare, lost));
        }
    }
    let total: f64 = shares.iter().sum();
    for (gemm, bare, lost) in missed {
        let points: Vec<String> = bare.iter().map(u32::to_string).collect();
        let fault = Fault {
            file: declaration.file.clone(),
            line: Some(gemm.line),
            field: gemm.name.clone(),
            message: format!(
                "no row for n = {}, k = {} at M = {}: {:.1} % of the model's least time",
                gemm.n,
                gemm.k,
                points.join(", "),
                100.0 * lost / total
            ),
            help: "tune these, or a default kernel runs".into(),
        };
        findings.push(Finding { rule: Rule::UncoveredShape, fault });
    }
    let [exact, padded, power_of_two, missing] = shares.map(|share| share / total);
    Some(Coverage { model: declaration.model.clone(), exact, padded, power_of_two, missing })
}

type LookupKey = (&'static str, u32, u32, u32, bool);

fn keys(files: &[Foreign], target: &Target) -> HashSet<LookupKey> {
    let mut keys = HashSet::new();
    for foreign in files {
        for entry in foreign.entries.iter().filter(|entry| entry.kernel != NONE && entry.batch == 1) {
            let operation = foreign.operation_of(entry);
            let here = (operation.arch.is_empty() || operation.arch == target.arch)
                && operation.units.is_none_or(|units| units == target.units);
            if let (true, Element::Format(format)) = (here, &operation.b) {
                keys.insert((format.name(), entry.m, entry.n, entry.k, operation.bias));
            }
        }
    }
    keys
}

/// The declared problem in its most wanted format, for the limits.
fn operation(gemm: &Gemm) -> Operation {
    Operation {
        arch: String::new(),
        units: None,
        a: Element::Format(gemm.activation),
        b: Element::Format(gemm.formats[0]),
        out: Element::parse(gemm.out.name()),
        scales: Scales::Usual,
        bias: gemm.bias,
        preshuffled: false,
        variant: String::new(),
    }
}

fn padded(m: u32) -> u32 {
    let step = match m {
        0..=256 => 16,
        257..=1024 => 32,
        1025..=4096 => 64,
        _ => 128,
    };
    m.checked_next_multiple_of(step).unwrap_or(m)
}

fn power_of_two(m: u32, n: u32) -> u32 {
    if m > 8192 && n > 4096 { 8192 } else { m.checked_next_power_of_two().unwrap_or(m) }
}
