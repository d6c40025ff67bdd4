//! From a TOML document to a [`Declaration`]: what each key means and what may be wrong with it.

use std::collections::HashMap;
use std::path::Path;

use tilewright_kernels::format::MX_BLOCK;
use tilewright_kernels::{Format, OutType};
use toml::de::{DeTable, DeValue};

use super::document::{Faults, Section, Setting, format, quoted, wrong_type};
use super::{DEFAULT_FORMATS, DIMENSION_MAX, Declaration, Gemm, MPoint, names, points};
use crate::diag::BadInput;

/// Most GEMMs of one file: with the bound on M points it keeps what a small file can expand to small.
const MOST_GEMMS: usize = 1024;
const LONGEST_TENSOR: usize = 256;
const POSITIVE: std::ops::Range<u64> = 1..DIMENSION_MAX as u64 + 1;
const MODEL_KEYS: &[&str] = &["name", "tensor_parallel", "source"];
const DEFAULT_KEYS: &[&str] =
    &["m", "formats", "activation", "out", "max_error", "deterministic", "copies", "memory_budget_mib"];
const GEMM_KEYS: &[&str] = &[
    "name",
    "n",
    "k",
    "count",
    "m",
    "formats",
    "activation",
    "out",
    "bias",
    "max_error",
    "deterministic",
    "copies",
    "memory_budget_mib",
    "tensors",
];

/// Reads a whole file's text.
pub(super) fn declaration(file: &Path, text: &str) -> Result<Declaration, BadInput> {
    let mut faults = Faults::new(file, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    // What a document means after a syntax error is a guess, and faults found in a guess mislead. A repeated key leaves
    // no doubt about the rest.
    let sound = errors.iter().all(|error| error.message() == "duplicate key");
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let field = if sound { quoted(text.get(span.clone()).unwrap_or("")) } else { String::new() };
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        let help =
            if sound { "keep one" } else { "correct the TOML; what the file declares is checked after that" };
        faults.at(span.start, field, message, help);
    }
    if !sound {
        return Err(faults.into_bad_input());
    }
    let root = Section { table: document.get_ref(), path: String::new(), start: 0 };
    root.expect_keys(&mut faults, &["model", "defaults", "gemm"]);
    let model = model(&root, &mut faults);
    let shared = shared(&root, &mut faults);
    let gemms = gemms(&root, &shared, &mut faults);
    match model {
        Some((name, tensor_parallel, source)) if faults.is_empty() => {
            let (file, model, hash) = (file.to_path_buf(), name, 0);
            Ok(Declaration { file, model, tensor_parallel, source, gemms, hash }.with_hash())
        }
        _ => Err(faults.into_bad_input()),
    }
}

fn model(root: &Section<'_>, faults: &mut Faults<'_>) -> Option<(String, u32, Option<String>)> {
    let section = match subsection(root, "model", faults) {
        Setting::Given(section) => section,
        Setting::Faulty => return None,
        Setting::Absent => {
            faults.of_file("there is no [model] table", "begin the file with [model] and name = \"…\"");
            return None;
        }
    };
    section.expect_keys(faults, MODEL_KEYS);
    let name = name(&section, faults);
    let tensor_parallel = section.integer(faults, "tensor_parallel", 1..4097).or(&Setting::Given(1));
    let source = section.string(faults, "source");
    Some((name.given()?, tensor_parallel.given()? as u32, source.given().map(str::to_owned)))
}

fn subsection<'d>(root: &Section<'d>, key: &str, faults: &mut Faults<'_>) -> Setting<Section<'d>> {
    let Some(value) = root.get(key) else { return Setting::Absent };
    match value.get_ref() {
        DeValue::Table(table) => {
            Setting::Given(Section { table, path: key.into(), start: value.span().start })
        }
        _ => {
            wrong_type(faults, value, key, "a table");
            Setting::Faulty
        }
    }
}

fn name(section: &Section<'_>, faults: &mut Faults<'_>) -> Setting<String> {
    let setting = section.string(faults, "name");
    if !setting.is_present() {
        section.missing(faults, "name", names::HELP);
    }
    setting.and_then(|name| match names::fault(name) {
        None => Some(name.to_owned()),
        Some(why) => {
            faults.at(
                section.offset("name"),
                section.field("name"),
                format!("{} {why}", quoted(name)),
                names::HELP,
            );
            None
        }
    })
}

/// The keys that [defaults] and a GEMM have in common.
struct Shared {
    m: Setting<Vec<MPoint>>,
    formats: Setting<Vec<Format>>,
    activation: Setting<Format>,
    out: Setting<OutType>,
    max_error: Setting<f64>,
    deterministic: Setting<bool>,
    copies: Setting<u64>,
    memory_budget_mib: Setting<u64>,
}

fn shared(root: &Section<'_>, faults: &mut Faults<'_>) -> Shared {
    let nothing = DeTable::new();
    let nothing = Section { table: &nothing, path: String::new(), start: 0 };
    match subsection(root, "defaults", faults) {
        Setting::Given(section) => {
            section.expect_keys(faults, DEFAULT_KEYS);
            Shared::read(&section, faults)
        }
        Setting::Absent => Shared::read(&nothing, faults),
        // What was meant to be there is not known: no GEMM lacks an M because of it.
        Setting::Faulty => Shared { m: Setting::Faulty, ..Shared::read(&nothing, faults) },
    }
}

impl Shared {
    fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> Self {
        Shared {
            m: points::read(section, faults),
            formats: formats(section, faults),
            activation: section.format(faults, "activation"),
            out: out(section, faults),
            max_error: max_error(section, faults),
            deterministic: section.boolean(faults, "deterministic"),
            copies: section.integer(faults, "copies", 1..3),
            memory_budget_mib: section.integer(faults, "memory_budget_mib", POSITIVE),
        }
    }
}

fn formats(section: &Section<'_>, faults: &mut Faults<'_>) -> Setting<Vec<Format>> {
    let field = section.field("formats");
    section.array(faults, "formats").and_then(|entries| {
        if entries.is_empty() {
            let help = "leave the key out to leave the choice to the tuner";
            faults.at(section.offset("formats"), field, "no format", help);
            return None;
        }
        let mut wanted = Vec::new();
        let mut faulty = false;
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{field}[{index}]");
            match format(faults, entry, &path).given() {
                Some(format) if wanted.contains(&format) => {
                    let message = format!("{format} stands there more than once");
                    faults.at(
                        entry.span().start,
                        path,
                        message,
                        "the order says which is wanted most: keep one",
                    );
                    faulty = true;
                }
                Some(format) if !Format::WEIGHTS.contains(&format) => {
                    let names: Vec<_> = Format::WEIGHTS.iter().map(|format| format.name()).collect();
                    let message = format!("{format} is a format of activations, not of weights");
                    faults.at(entry.span().start, path, message, format!("weights: {}", names.join(", ")));
                    faulty = true;
                }
                Some(format) => wanted.push(format),
                None => faulty = true,
            }
        }
        (!faulty).then_some(wanted)
    })
}

fn out(section: &Section<'_>, faults: &mut Faults<'_>) -> Setting<OutType> {
    section.string(faults, "out").and_then(|name| {
        let out = OutType::from_name(name);
        if out.is_none() {
            let names: Vec<_> = OutType::ALL.iter().map(|out| out.name()).collect();
            let (message, help) = (format!("there is no output type {}", quoted(name)), names.join(", "));
            faults.at(section.offset("out"), section.field("out"), message, format!("output types: {help}"));
        }
        out
    })
}

fn max_error(section: &Section<'_>, faults: &mut Faults<'_>) -> Setting<f64> {
    section.number(faults, "max_error").and_then(|error| {
        // Written so that NaN fails.
        if error > 0.0 && error <= 1.0 {
            return Some(error);
        }
        let help = "the largest relative error allowed: above 0 and at most 1, for instance 0.05";
        let (offset, field) = (section.offset("max_error"), section.field("max_error"));
        faults.at(offset, field, format!("{error} is out of range"), help);
        None
    })
}

fn gemms(root: &Section<'_>, shared: &Shared, faults: &mut Faults<'_>) -> Vec<Gemm> {
    let Some(value) = root.get("gemm") else {
        faults.of_file("no gemm is declared", "add a [[gemm]] table with name, n, k and m");
        return Vec::new();
    };
    let offset = value.span().start;
    let entries = match value.get_ref() {
        DeValue::Array(entries) => &entries[..],
        DeValue::Table(_) => {
            faults.at(
                offset,
                "gemm",
                "expected an array of tables, found a table",
                "write [[gemm]], not [gemm]",
            );
            return Vec::new();
        }
        _ => {
            wrong_type(faults, value, "gemm", "an array of tables");
            return Vec::new();
        }
    };
    if entries.is_empty() {
        faults.at(offset, "gemm", "no gemm is declared", "add a [[gemm]] table with name, n, k and m");
    }
    if entries.len() > MOST_GEMMS {
        let message = format!("{} gemms are declared", entries.len());
        let help = format!("at most {MOST_GEMMS}; GEMMs of the same shape are one with a count");
        faults.at(entries[MOST_GEMMS].span().start, "gemm", message, help);
    }
    let mut lines_of_names = HashMap::new();
    let mut gemms = Vec::new();
    for (index, entry) in entries.iter().take(MOST_GEMMS).enumerate() {
        let DeValue::Table(table) = entry.get_ref() else {
            wrong_type(faults, entry, &format!("gemm[{index}]"), "a table");
            continue;
        };
        let called = table.get("name").and_then(|name| name.get_ref().as_str());
        let path = match called {
            Some(name) => format!("gemm[{index}] {}", quoted(name)),
            None => format!("gemm[{index}]"),
        };
        let section = Section { table, path, start: entry.span().start };
        if let Some(name) = called {
            let line = faults.line(section.start);
            let first = *lines_of_names.entry(name).or_insert(line);
            if first != line {
                let message = format!("the gemm on line {first} has this name too");
                faults.at(
                    section.offset("name"),
                    section.field("name"),
                    message,
                    "names are unique in a model",
                );
            }
        }
        gemms.extend(gemm(&section, shared, faults));
    }
    gemms
}

fn gemm(section: &Section<'_>, defaults: &Shared, faults: &mut Faults<'_>) -> Option<Gemm> {
    section.expect_keys(faults, GEMM_KEYS);
    let name = name(section, faults);
    let dimension = |faults: &mut Faults<'_>, key: &str, help: &str| {
        let setting = section.integer(faults, key, POSITIVE);
        if !setting.is_present() {
            section.missing(faults, key, help);
        }
        setting
    };
    let n = dimension(faults, "n", "the weight's rows: output features");
    let k = dimension(faults, "k", "the weight's columns: input features");
    let count = section.integer(faults, "count", POSITIVE).or(&Setting::Given(1));
    let own = Shared::read(section, faults);
    let two_copies_mib = two_copies(section, &own, defaults, faults);
    let bias = section.boolean(faults, "bias").or(&Setting::Given(false));
    let tensors = tensors(section, faults).or(&Setting::Given(Vec::new()));
    let m = own.m.or(&defaults.m);
    if !m.is_present() {
        section.missing(
            faults,
            "m",
            "name values of M here or under [defaults], for instance m = [1, 16, 256]",
        );
    }
    let activation = own.activation.or(&defaults.activation).or(&Setting::Given(Format::Bf16));
    let formats = own.formats.or(&defaults.formats);
    let k = k.and_then(|k| allows_k(section, faults, k as u32, &activation, &formats).then_some(k as u32));
    let formats = formats.or(&match &k {
        Setting::Given(k) => {
            Setting::Given(DEFAULT_FORMATS.iter().copied().filter(|f| f.allows_k(*k)).collect())
        }
        _ => Setting::Faulty,
    });
    let max_error = own.max_error.or(&defaults.max_error);
    if matches!(max_error, Setting::Faulty) || matches!(two_copies_mib, Setting::Faulty) {
        return None;
    }
    Some(Gemm {
        name: name.given()?,
        line: faults.line(section.start),
        n: n.given()? as u32,
        k: k.given()?,
        count: count.given()?,
        m: m.given()?,
        formats: formats.given()?,
        activation: activation.given()?,
        out: own.out.or(&defaults.out).or(&Setting::Given(OutType::F32)).given()?,
        bias: bias.given()?,
        max_error: max_error.given(),
        deterministic: own.deterministic.or(&defaults.deterministic).or(&Setting::Given(false)).given()?,
        two_copies_mib: two_copies_mib.given(),
        tensors: tensors.given()?,
    })
}

/// What two copies may take, where two are allowed: one key says that they are, the other bounds them.
fn two_copies(
    section: &Section<'_>,
    own: &Shared,
    defaults: &Shared,
    faults: &mut Faults<'_>,
) -> Setting<u64> {
    let budget = own.memory_budget_mib.clone().or(&defaults.memory_budget_mib);
    let copies = own.copies.clone().or(&defaults.copies).or(&Setting::Given(1));
    let fault = match (&copies, &budget) {
        (Setting::Faulty, _) | (_, Setting::Faulty) => return Setting::Faulty,
        (Setting::Given(2), Setting::Given(_)) => return budget,
        (Setting::Given(2), _) => {
            let help = "add memory_budget_mib: what both copies of one weight may take together";
            ("copies", "a second copy needs a bound", help)
        }
        // A default may be meant for the other GEMMs.
        _ if !own.memory_budget_mib.is_present() => return Setting::Absent,
        _ => ("memory_budget_mib", "bounds nothing without copies = 2", "add copies = 2, or leave it out"),
    };
    let (key, message, help) = fault;
    faults.at(section.offset(key), section.field(key), message, help);
    Setting::Faulty
}

/// Notes the formats whose blocks K does not divide into.
fn allows_k(
    section: &Section<'_>,
    faults: &mut Faults<'_>,
    k: u32,
    activation: &Setting<Format>,
    formats: &Setting<Vec<Format>>,
) -> bool {
    let weight = formats.clone().given().unwrap_or_default();
    let mut refused: Vec<Format> =
        weight.into_iter().chain(activation.clone().given()).filter(|format| !format.allows_k(k)).collect();
    refused.dedup();
    if refused.is_empty() {
        return true;
    }
    let names: Vec<_> = refused.iter().map(|format| format.name()).collect();
    let message = format!("{k} is no multiple of {MX_BLOCK}, the block of {}", names.join(" and of "));
    let help = "give this gemm its own `formats` (or `activation`) without it, or pad K";
    faults.at(section.offset("k"), section.field("k"), message, help);
    false
}

fn tensors(section: &Section<'_>, faults: &mut Faults<'_>) -> Setting<Vec<String>> {
    section.array(faults, "tensors").and_then(|entries| {
        let mut tensors = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{}[{index}]", section.field("tensors"));
            match entry.get_ref().as_str() {
                Some(name) if tensor_name(name) => tensors.push(name.to_owned()),
                Some(name) => {
                    let help =
                        "1 to 256 bytes without control characters; in braces, {layer} and {expert} alone";
                    faults.at(
                        entry.span().start,
                        path,
                        format!("{} is no tensor's name", quoted(name)),
                        help,
                    );
                }
                None => wrong_type(faults, entry, &path, "the name of a tensor"),
            }
        }
        (tensors.len() == entries.len()).then_some(tensors)
    })
}

fn tensor_name(name: &str) -> bool {
    let literal = name.replace("{layer}", "").replace("{expert}", "");
    let bounded = !name.is_empty() && name.len() <= LONGEST_TENSOR;
    bounded && !literal.contains(|c: char| c.is_control() || matches!(c, '{' | '}'))
}
