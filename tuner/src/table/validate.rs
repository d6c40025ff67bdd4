//! Everything that makes decisions unfit to compile, found in one pass in canonical order and reported together, each
//! with its line: the manner of ISLE's overlap checker (Cranelift). What is merely worth knowing is a warning.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_kernels::backend::Fingerprint;
use tilewright_kernels::{BackendKind, Config, ConfigError, ConfigId, Problem, is_launchable};

use super::copies;
use super::decisions::{Row, Verdict, Weight};
use super::parse::Located;
use crate::diag::{BadInput, Fault};
use crate::shapes::weight_bytes;

/// Longest model or weight name: names become file names and generated text.
const MAX_NAME: usize = 64;

/// A bound that no unit of a device reaches, in operations a second: 2048 multiply-adds a cycle (a bf16 tile unit) at
/// 8 GHz for a processor's core; for a GPU, 64·10¹⁵ on the whole device.
fn peak_ops(backend: BackendKind, units: u32) -> f64 {
    match backend {
        BackendKind::Cpu => 2.0 * 2048.0 * 8e9 * f64::from(units),
        _ => 64e15,
    }
}

/// As [`peak_ops`], in bytes of the weight read a second: four 64-byte loads a cycle at 8 GHz for a processor's core,
/// whatever cache they come from; for a GPU, 64·10¹² on the whole device.
fn peak_bytes(backend: BackendKind, units: u32) -> f64 {
    match backend {
        BackendKind::Cpu => 256.0 * 8e9 * f64::from(units),
        _ => 64e12,
    }
}

/// Checks decisions and gives their warnings.
///
/// # Errors
/// All faults.
pub(super) fn validate(located: &Located) -> Result<Vec<String>, BadInput> {
    let mut check = Check { located, faults: Vec::new(), warnings: Vec::new(), ids: BTreeMap::new() };
    check.head();
    let mut names = BTreeMap::new();
    for (index, weight) in located.decisions.weights.iter().enumerate() {
        if let Some(first) = names.insert(&weight.name, index) {
            check.fault(
                &format!("weight[{index}].name"),
                format!("`{}` is the name of weight[{first}] too", weight.name),
                "give each weight its own name",
            );
        }
        check.weight(index, weight);
    }
    check.overlaps();
    if check.faults.is_empty() { Ok(check.warnings) } else { Err(BadInput(check.faults)) }
}

/// Whether a name can stand in a file name and in generated text: `[a-z0-9._-]`, no leading dot, at most 64 bytes.
fn is_plain_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('.') && name.bytes().all(plain)
}

const NAME_HELP: &str =
    "names are made of a-z, 0-9, `.`, `_` and `-`, begin with no dot and have at most 64 characters";

struct Check<'a> {
    located: &'a Located,
    faults: Vec<Fault>,
    warnings: Vec<String>,
    ids: BTreeMap<ConfigId, &'a str>,
}

impl<'a> Check<'a> {
    fn fault(&mut self, field: &str, message: impl Into<String>, help: impl Into<String>) {
        self.faults.push(self.located.fault(field, message, help));
    }

    fn head(&mut self) {
        let decisions = &self.located.decisions;
        if !is_plain_name(&decisions.model) {
            self.fault("model", format!("{:?} is not a usable name", decisions.model), NAME_HELP);
        }
        let stem = self.located.file.file_stem().and_then(|stem| stem.to_str());
        if stem != Some(&decisions.model) {
            self.fault(
                "model",
                format!("{:?} is not the name of its file", decisions.model),
                "a table's files are named for its model: <model>.toml, .csv and .rs",
            );
        }
        if decisions.tensor_parallel == 0 {
            self.fault("tensor_parallel", "must be at least 1", "1 means that nothing is divided");
        }
        if decisions.weights.is_empty() {
            self.fault("weight", "the table has no weight", "tune a model that declares a [[gemm]]");
        }
        let record = &decisions.device;
        if record.device.units == 0 {
            self.fault("device.units", "must be at least 1", "restore the table or tune again");
        }
        match parse_fingerprint(&record.fingerprint) {
            None => self.fault(
                "device.fingerprint",
                "not of the form `backend | model | features | N units`",
                "restore it or tune again",
            ),
            Some(print) => {
                let same = print.backend == record.device.backend && print.units == record.device.units;
                if !same {
                    self.fault(
                        "device.fingerprint",
                        "names another backend or number of units than this section",
                        "the rows were measured on one device: tune again on the one you mean",
                    );
                }
                if print.key() != record.key {
                    self.fault(
                        "device.key",
                        format!("is not the fingerprint's key, {}", print.key()),
                        "the rows were measured on one device: tune again on the one you mean",
                    );
                }
            }
        }
    }

    fn weight(&mut self, index: usize, weight: &'a Weight) {
        let at = |field: &str| format!("weight[{index}].{field}");
        if !is_plain_name(&weight.name) {
            self.fault(&at("name"), format!("{:?} is not a usable name", weight.name), NAME_HELP);
        }
        if weight.count == 0 {
            self.fault(&at("count"), "must be at least 1", "leave out a weight that is never used");
        }
        if let Some(fault) = weight.key().problem(1).fault() {
            self.fault(
                &format!("weight[{index}]"),
                fault,
                "see the format's rules and correct n, k or scaling",
            );
            return;
        }
        for (field, value) in [("error", weight.error), ("max_error", weight.max_error)] {
            if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                self.fault(&at(field), "is no relative error", "a finite number of at least 0");
            }
        }
        if let (Some(error), Some(limit)) = (weight.error, weight.max_error)
            && error > limit
        {
            let message = format!("{} has an error of {error}, over max_error = {limit}", weight.format);
            self.fault(&at("format"), message, "choose another format, or allow more in the declaration");
        }
        for (position, alternative) in weight.alternatives.iter().enumerate() {
            for (field, value) in [("ratio", alternative.ratio), ("error", alternative.error)] {
                if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                    let field = at(&format!("alternative[{position}].{field}"));
                    self.fault(
                        &field,
                        "is no measured value",
                        "a finite number of at least 0, or leave it out",
                    );
                }
            }
        }
        for (field, message, help) in copies::faults(weight) {
            self.fault(&at(field), message, help);
        }
        if weight.rows.is_empty() {
            self.fault(&at("row"), "the weight has no row", "tune at one M at least");
        }
        let mut before: Option<&Row> = None;
        for (position, row) in weight.rows.iter().enumerate() {
            let at = at(&format!("row[{position}]"));
            match before {
                Some(before) if before.m == row.m => {
                    self.fault(
                        &format!("{at}.m"),
                        format!("m = {} has a row already", row.m),
                        "keep one of them",
                    );
                }
                Some(before) if before.m > row.m => self.fault(
                    &format!("{at}.m"),
                    format!("m = {} comes after m = {}", row.m, before.m),
                    "rows are in ascending order of m",
                ),
                // More work in less time: one of the two was measured in a bad moment, or there is a better kernel.
                Some(before) if before.time_ns > 1.02 * row.time_ns => self.warnings.push(format!(
                    "{}: m = {} takes {} ns but m = {} only {} ns: tune it again",
                    weight.name, before.m, before.time_ns, row.m, row.time_ns
                )),
                _ => {}
            }
            before = Some(row);
            self.row(&at, weight, row);
        }
    }

    fn row(&mut self, at: &str, weight: &'a Weight, row: &'a Row) {
        let problem = weight.key_at(row.m).problem(row.m);
        if row.m == 0 {
            self.fault(&format!("{at}.m"), "must be at least 1", "there is no GEMM without rows");
            return;
        }
        if !(row.weight.is_finite() && row.weight >= 0.0) {
            self.fault(&format!("{at}.weight"), "is no weight", "a finite number of at least 0");
        }
        if let Verdict::Ambiguous(reason) = &row.verdict {
            self.warnings.push(format!("{}: m = {} is ambiguous ({reason})", weight.name, row.m));
        }
        self.times(at, &problem, row);
        let mut seen = BTreeSet::from([row.config.as_str()]);
        if let Some(config) = self.kernel(&format!("{at}.config"), &row.config, weight, &problem)
            && config.id() != row.id
        {
            let help = format!("the text's id is {}; rows are not edited by hand: tune again", config.id());
            self.fault(&format!("{at}.id"), "is not the hash of config", help);
        }
        // The baseline may be in another layout: it is what the weight would run without a table.
        if let Err(error) = Config::parse(&row.default) {
            self.unknown(&format!("{at}.default"), error);
        }
        if row.runner_ups.len() > 2 {
            self.fault(&format!("{at}.runner_ups"), "a row has two runners-up at most", "keep the best two");
        }
        for text in &row.runner_ups {
            let field = format!("{at}.runner_ups");
            if !seen.insert(text) {
                self.fault(
                    &field,
                    format!("{text} stands there twice or is the winner"),
                    "name each kernel once",
                );
            }
            self.kernel(&field, text, weight, &problem);
        }
        let mut tied = BTreeSet::from([row.config.as_str()]);
        for (position, tie) in row.tie_set.iter().enumerate() {
            let field = format!("{at}.tie_set[{position}]");
            if !tied.insert(&tie.config) {
                self.fault(&field, "stands there twice or is the winner", "name each rival once");
            }
            if !(tie.ratio.is_finite() && tie.ratio > 0.0) {
                self.fault(&format!("{field}.ratio"), "is no ratio of times", "a finite number above 0");
            }
            self.kernel(&format!("{field}.config"), &tie.config, weight, &problem);
        }
    }

    /// Times that were never measured: placeholders, and what no device can do.
    fn times(&mut self, at: &str, problem: &Problem, row: &Row) {
        let device = &self.located.decisions.device.device;
        let ops_ns = problem.flops() as f64 / peak_ops(device.backend, device.units) * 1e9;
        let bytes = weight_bytes(problem.n, problem.k, problem.b) as f64;
        let bytes_ns = bytes / peak_bytes(device.backend, device.units) * 1e9;
        let (floor, does) =
            if ops_ns >= bytes_ns { (ops_ns, "multiplies this") } else { (bytes_ns, "reads this weight") };
        let [low, high] = row.interval_ns;
        let fields = [
            ("time_ns", row.time_ns),
            ("interval_ns", low),
            ("interval_ns", high),
            ("default_ns", row.default_ns),
        ];
        let mut sound = true;
        for (field, ns) in fields {
            let message = if !ns.is_finite() || ns <= 0.0 {
                format!("{ns} is a placeholder, not a time")
            } else if ns < floor {
                format!("{ns} ns is impossible: no such device {does} in under {floor:.3} ns")
            } else {
                continue;
            };
            sound = false;
            let fault = self.located.fault(&format!("{at}.{field}"), message, "measure this row again");
            // Both ends of an interval may say the same.
            if self.faults.last() != Some(&fault) {
                self.faults.push(fault);
            }
        }
        if sound && !(low <= row.time_ns && row.time_ns <= high) {
            let message = format!("[{low}, {high}] does not hold time_ns = {}", row.time_ns);
            self.fault(&format!("{at}.interval_ns"), message, "measure this row again");
        }
    }

    /// Checks that a text names a kernel that runs the row's own problem by the weight's plan.
    fn kernel(&mut self, field: &str, text: &'a str, weight: &Weight, problem: &Problem) -> Option<Config> {
        let config = match Config::parse(text) {
            Ok(config) => config,
            Err(error) => {
                self.unknown(field, error);
                return None;
            }
        };
        if config.to_string() != text {
            let help = format!("write it as {config}");
            self.fault(field, "is not the canonical text of its kernel", help);
        }
        if let Some(other) = self.ids.insert(config.id(), text)
            && other != text
            && Config::parse(other).is_ok_and(|other| other != config)
        {
            self.fault(
                field,
                format!("has the id of another kernel, {other}"),
                "tune again without one of them",
            );
        }
        let layout = weight.key_at(problem.m).layout;
        if config.layout() != layout {
            let message = format!("reads {}, but the weight is stored in {layout}", config.layout());
            self.fault(field, message, "all rows of a copy share its format and layout");
        }
        if weight.deterministic && !(config.family().deterministic)(&config) {
            let message = "does not give the same bits on every run, but the weight demands it";
            self.fault(field, message, "choose a deterministic kernel");
        }
        if let Err(reject) = is_launchable(&config, problem, &self.located.decisions.device.device) {
            let help = "the kernel cannot run this row's own problem on this device: tune again";
            self.fault(field, format!("not launchable: {reject}"), help);
        }
        Some(config)
    }

    fn unknown(&mut self, field: &str, error: ConfigError) {
        let help = match error {
            ConfigError::Syntax => "restore the canonical text, or tune again",
            ConfigError::OtherRevision => "the kernel changed since this was measured: tune again",
            _ => "build tilewright with this kernel, or tune again",
        };
        self.fault(field, error.to_string(), help);
    }

    /// Weights of one key are one entry of the table: where both have a row for one M, one would shadow the other.
    fn overlaps(&mut self) {
        let mut rows = BTreeMap::new();
        for (index, weight) in self.located.decisions.weights.iter().enumerate() {
            for (position, row) in weight.rows.iter().enumerate() {
                let Some((first, kept)) = rows.insert((weight.key_at(row.m), row.m), (index, row)) else {
                    continue;
                };
                if first == index {
                    continue;
                }
                rows.insert((weight.key_at(row.m), row.m), (first, kept));
                let tied = |a: &Row, b: &Row| a.tie_set.iter().any(|tie| tie.config == b.config);
                if kept.config == row.config {
                    continue;
                }
                let other = &self.located.decisions.weights[first].name;
                if tied(kept, row) || tied(row, kept) {
                    self.warnings.push(format!(
                        "{}: m = {} has {}'s key; its kernel is taken, which tied with this one",
                        weight.name, row.m, other
                    ));
                    continue;
                }
                self.fault(
                    &format!("weight[{index}].row[{position}].config"),
                    format!("overlaps: `{other}` has the same key and another kernel at m = {}", row.m),
                    "weights of one shape, format and layout are one problem: tune them as one",
                );
            }
        }
    }
}

/// Reads [`Fingerprint`]'s text.
fn parse_fingerprint(text: &str) -> Option<Fingerprint> {
    let (backend, rest) = text.split_once(" | ")?;
    let (rest, units) = rest.rsplit_once(" | ")?;
    let (model, features) = rest.rsplit_once(" | ")?;
    let features = features.split('+').filter(|feature| !feature.is_empty());
    Some(Fingerprint {
        backend: BackendKind::from_name(backend)?,
        model: model.to_owned(),
        features: features.map(str::to_owned).collect(),
        units: units.strip_suffix(" units")?.parse().ok()?,
    })
}
