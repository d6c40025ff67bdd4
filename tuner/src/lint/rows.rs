//! Rules over one row, and over a file's columns.

use std::collections::BTreeMap;

use tilewright_kernels::Format;

use super::limits::{self, sizes};
use super::{Finding, Options, Rule, finding};
use crate::import::{Element, Entry, Foreign, is_placeholder};

/// How far a recorded throughput may be from the row's own: digits are cut off in the files.
const THROUGHPUT: (f64, f64) = (0.02, 0.02);

/// Checks every row of a file.
pub(super) fn check(foreign: &Foreign, options: &Options, findings: &mut Vec<Finding>) {
    findings
        .extend(foreign.faults.iter().map(|fault| Finding { rule: Rule::Unreadable, fault: fault.clone() }));
    if !foreign.names_arch && !foreign.entries.is_empty() {
        let message = "the rows do not say their architecture".to_owned();
        findings.push(finding(foreign, Rule::MissingArch, 1, "gfx", message, "add the column gfx"));
    }
    if foreign.entries.is_empty() && foreign.faults.is_empty() {
        let message = "holds no row".to_owned();
        let help = "remove the file, or tune what it is for";
        findings.push(finding(foreign, Rule::EmptyTable, 0, "", message, help));
    }
    let limits: Vec<_> = foreign.operations.iter().map(|op| limits::of(&op.arch, op.units)).collect();
    let encodings: Vec<_> = foreign.operations.iter().map(|op| wrong_encoding(&op.arch, &op.b)).collect();
    let mut others: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
    for entry in &foreign.entries {
        let mut note = |rule, field: &str, message, help: &str| {
            findings.push(finding(foreign, rule, entry.line, field, message, help));
        };
        let index = entry.operation as usize;
        let operation = &foreign.operations[index];
        if let Some(us) = entry.time_us {
            if is_placeholder(us) {
                let message = format!("{us} µs is a placeholder, not a time");
                note(Rule::PlaceholderTime, "us", message, "measure the row, or remove it");
            } else {
                if let Some(limits) = limits[index] {
                    let [memory, arithmetic] = limits.floor_us(operation, sizes(entry));
                    let (floor, what) = if arithmetic > memory {
                        (arithmetic, "arithmetic")
                    } else {
                        (memory, "memory bandwidth")
                    };
                    if us < floor {
                        let message = format!(
                            "{us} µs for {} is above the device's {what}: it takes {floor:.2} µs at least",
                            shape(entry)
                        );
                        note(Rule::ImpossibleTime, "us", message, "measure the row again, with cold caches");
                    }
                }
                throughput(entry, us, &mut note);
            }
        }
        if let Some(error) = entry.error
            && (error.is_nan() || error > options.tolerance)
        {
            let message = format!(
                "{:.1} % of the elements are wrong, over {} %",
                error * 100.0,
                options.tolerance * 100.0
            );
            note(Rule::ErrorOverTolerance, "errRatio", message, "exclude this kernel and tune the row again");
        }
        if crate::import::aiter_unknown(foreign, entry) {
            let (library, kernel) = (foreign.name(entry.library), foreign.name(entry.kernel));
            let message = format!("{kernel} is no name of a {library} kernel: a default runs instead");
            note(Rule::UnknownKernel, "kernelName", message, "tune the row again with the present library");
        }
        if let Some(message) = &encodings[index] {
            note(
                Rule::Fp8Encoding,
                "q_dtype_w",
                message.clone(),
                "tune the row in the encoding of its architecture",
            );
        }
        units(entry, operation, options, &mut others, &mut note);
    }
    for (operation, (line, count)) in others {
        let operation = &foreign.operations[operation as usize];
        let target = options.device.as_ref().expect("they are other than it");
        let units = operation.units.map_or(String::new(), |units| format!(" with {units} CUs"));
        let message = format!(
            "{count} rows are of {}{units} and never match {} with {} CUs",
            operation.arch, target.arch, target.units
        );
        findings.push(finding(
            foreign,
            Rule::CuCount,
            line,
            "cu_num",
            message,
            "tune them on the device itself",
        ));
    }
}

/// `m x n x k`, for messages.
fn shape(entry: &Entry) -> String {
    let Entry { batch, m, n, k, .. } = entry;
    if *batch > 1 { format!("{batch} x {m}x{n}x{k}") } else { format!("{m}x{n}x{k}") }
}

fn throughput(entry: &Entry, us: f64, note: &mut impl FnMut(Rule, &str, String, &str)) {
    // 0 is what tuners write that do not compute it; nothing reads it.
    let Some(written) = entry.tflops.filter(|written| *written != 0.0) else { return };
    let [batch, m, n, k] = sizes(entry).map(f64::from);
    let own = 2.0 * batch * m * n * k / us / 1e6;
    let (relative, absolute) = THROUGHPUT;
    if written.is_nan() || (written - own).abs() > absolute + relative * own {
        let message = format!("{written} TFLOP/s, but {} in {us} µs are {own:.2}", shape(entry));
        note(
            Rule::InconsistentThroughput,
            "tflops",
            message,
            "one of the two was edited: measure the row again",
        );
    }
}

fn wrong_encoding(arch: &str, weight: &Element) -> Option<String> {
    let fnuz_arch = arch.starts_with("gfx94");
    match weight {
        Element::Format(Format::Fp8E4m3) if fnuz_arch => {
            Some(format!("{arch} multiplies float8_e4m3fnuz, not e4m3fn"))
        }
        Element::Format(Format::Fp8E4m3Fnuz) if arch.starts_with("gfx") && !fnuz_arch => {
            Some(format!("{arch} multiplies float8_e4m3fn, not e4m3fnuz"))
        }
        _ => None,
    }
}

fn units(
    entry: &Entry,
    operation: &crate::import::Operation,
    options: &Options,
    others: &mut BTreeMap<u32, (u32, usize)>,
    note: &mut impl FnMut(Rule, &str, String, &str),
) {
    let known = limits::unit_counts(&operation.arch);
    if let Some(units) = operation.units
        && !known.is_empty()
        && !known.contains(&units)
    {
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        let message = format!("no {} has {units} CUs; they have {}", operation.arch, known.join(", "));
        note(Rule::CuCount, "cu_num", message, "correct the device the row was measured on");
    }
    if let Some(target) = &options.device
        && !operation.arch.is_empty()
        && (operation.arch != target.arch || operation.units.is_some_and(|units| units != target.units))
    {
        others.entry(entry.operation).or_insert((entry.line, 0)).1 += 1;
    }
}
