//! Reading decisions from TOML.

use std::path::{Path, PathBuf};

use tilewright_kernels::backend::Regime;
use tilewright_kernels::{BackendKind, Caps, ConfigId, Device, Epilogue, Format, Layout, OutType, Scaling};
use toml::de::DeValue;

use super::copies::SecondCopy;
use super::decisions::{Alternative, Decisions, DeviceRecord, Row, SCHEMA, Tie, Verdict, Weight};
use super::section::{Document, Lines, Section, boolean, float, integer, list, named, string};
use super::write::regime_name;
use crate::diag::{BadInput, Fault};

/// The largest file that is read: far above any real table, far below what would exhaust memory.
const MAX_BYTES: u64 = 256 << 20;

/// Decisions, and where each field stands in the file.
#[derive(Clone, Debug)]
pub struct Located {
    /// What was read.
    pub decisions: Decisions,
    /// The file.
    pub file: PathBuf,
    lines: Lines,
}

impl Located {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is too large, or has faults; all faults are in the error.
    pub fn read(file: &Path) -> Result<Self, BadInput> {
        let cannot = |error: std::io::Error| {
            BadInput::one(file, format!("cannot be read: {error}"), "give the path of a table's .toml file")
        };
        if std::fs::metadata(file).map_err(cannot)?.len() > MAX_BYTES {
            return Err(BadInput::one(file, "is larger than 256 MiB", "this is no table of decisions"));
        }
        Self::parse(file, &std::fs::read_to_string(file).map_err(cannot)?)
    }

    /// Reads a text; `file` is for messages.
    ///
    /// # Errors
    /// All faults of the text.
    pub fn parse(file: &Path, text: &str) -> Result<Self, BadInput> {
        let (document, root) = Document::parse(file, text)?;
        let top = document.root(&root);
        let schema: u32 = top.required("schema", integer).unwrap_or_default();
        if schema > SCHEMA {
            return Err(BadInput(vec![Fault {
                file: file.into(),
                line: root.get_ref().get("schema").map(|value| document.line(value.span())),
                field: "schema".into(),
                message: format!("schema {schema} is newer than {SCHEMA}, the newest this tilewright reads"),
                help: "use a newer tilewright, or tune again with this one".into(),
            }]));
        }
        let decisions = read_top(top);
        drop(root);
        Ok(Located { decisions, file: file.into(), lines: document.finish()? })
    }

    /// Decisions that are in no file yet; lines are those of the text they would be written as.
    pub(super) fn unwritten(decisions: &Decisions) -> Result<Self, BadInput> {
        let file = PathBuf::from(format!("{}.toml", decisions.model));
        let located = Self::parse(&file, &decisions.to_toml())?;
        Ok(Located { decisions: decisions.clone(), ..located })
    }

    /// A fault of a field, by path.
    pub(super) fn fault(&self, field: &str, message: impl Into<String>, help: impl Into<String>) -> Fault {
        // A field that is not in the file, an optional one, is reported where its section begins.
        let mut place = field;
        let line = loop {
            match (self.lines.of(place), place.rsplit_once('.')) {
                (Some(line), _) => break Some(line),
                (None, Some((section, _))) => place = section,
                (None, None) => break None,
            }
        };
        Fault {
            file: self.file.clone(),
            line,
            field: field.into(),
            message: message.into(),
            help: help.into(),
        }
    }
}

fn read_top(top: Section<'_>) -> Decisions {
    let decisions = Decisions {
        model: top.required("model", string).unwrap_or_default(),
        tensor_parallel: top.required("tensor_parallel", integer).unwrap_or_default(),
        generator: top.required("generator", string).unwrap_or_default(),
        declaration: top.required("declaration", hex).unwrap_or_default(),
        seed: top.required("seed", integer).unwrap_or_default(),
        regime: top
            .required("regime", |value| named(value, &[Regime::Cold, Regime::Hot], regime_name))
            .unwrap_or(Regime::Cold),
        device: read_device(top.section("device")),
        weights: top.sections("weight").into_iter().map(read_weight).collect(),
    };
    top.close();
    decisions
}

fn read_device(section: Option<Section<'_>>) -> DeviceRecord {
    let mut record = DeviceRecord {
        key: String::new(),
        fingerprint: String::new(),
        device: Device {
            backend: BackendKind::Cpu,
            caps: Caps::NONE,
            units: 0,
            l1_kib: 0,
            l2_kib: 0,
            llc_kib: 0,
        },
    };
    let Some(section) = section else { return record };
    record.key = section.required("key", string).unwrap_or_default();
    record.fingerprint = section.required("fingerprint", string).unwrap_or_default();
    let simulated = section.optional("simulated", boolean).unwrap_or(false);
    if simulated != record.is_simulated() {
        section.fault(
            "simulated",
            section.line,
            if simulated {
                "the fingerprint does not say so"
            } else {
                "missing, but the fingerprint says so"
            },
            "restore the file, or tune again",
        );
    }
    let device = &mut record.device;
    device.backend = section
        .required("backend", |v| named(v, BackendKind::ALL, BackendKind::name))
        .unwrap_or(device.backend);
    let cap = |value: &DeValue<'_>| named(value, Caps::NAMES, |(name, _)| name);
    let caps = section.required("caps", |value| list(value, cap)).unwrap_or_default();
    device.caps = caps.into_iter().fold(Caps::NONE, |all, (_, cap)| all.with(cap));
    device.units = section.required("units", integer).unwrap_or_default();
    device.l1_kib = section.required("l1_kib", integer).unwrap_or_default();
    device.l2_kib = section.required("l2_kib", integer).unwrap_or_default();
    device.llc_kib = section.required("llc_kib", integer).unwrap_or_default();
    section.close();
    record
}

fn read_weight(section: Section<'_>) -> Weight {
    let format = |key| section.required(key, |v| named(v, Format::ALL, Format::name)).unwrap_or(Format::Bf16);
    let weight = Weight {
        name: section.required("name", string).unwrap_or_default(),
        n: section.required("n", integer).unwrap_or_default(),
        k: section.required("k", integer).unwrap_or_default(),
        count: section.required("count", integer).unwrap_or_default(),
        activation: format("activation"),
        format: format("format"),
        scaling: section
            .required("scaling", |v| named(v, Scaling::ALL, Scaling::name))
            .unwrap_or(Scaling::None),
        layout: read_layout(&section),
        out: section.required("out", |v| named(v, OutType::ALL, OutType::name)).unwrap_or(OutType::F32),
        epilogue: section
            .required("epilogue", |v| named(v, Epilogue::ALL, Epilogue::name))
            .unwrap_or(Epilogue::None),
        deterministic: section.required("deterministic", boolean).unwrap_or_default(),
        second: section.optional_section("second").map(read_second),
        error: section.optional("error", float),
        max_error: section.optional("max_error", float),
        alternatives: section.sections("alternative").into_iter().map(read_alternative).collect(),
        rows: section.sections("row").into_iter().map(read_row).collect(),
    };
    section.close();
    weight
}

fn read_second(section: Section<'_>) -> SecondCopy {
    let format = |key| section.required(key, |v| named(v, Format::ALL, Format::name)).unwrap_or(Format::Bf16);
    let second = SecondCopy {
        from: section.required("from", integer).unwrap_or_default(),
        activation: format("activation"),
        format: format("format"),
        scaling: section
            .required("scaling", |v| named(v, Scaling::ALL, Scaling::name))
            .unwrap_or(Scaling::None),
        layout: read_layout(&section),
        error: section.optional("error", float),
        memory_budget_mib: section.required("memory_budget_mib", integer).unwrap_or_default(),
    };
    section.close();
    second
}

fn read_layout(section: &Section<'_>) -> Layout {
    section.required("layout", |v| named(v, Layout::ALL, Layout::name)).unwrap_or(Layout::RowMajor)
}

fn read_alternative(section: Section<'_>) -> Alternative {
    let format = |key| section.required(key, |v| named(v, Format::ALL, Format::name)).unwrap_or(Format::Bf16);
    let alternative = Alternative {
        activation: format("activation"),
        format: format("format"),
        layout: section.optional("layout", |v| named(v, Layout::ALL, Layout::name)),
        ratio: section.optional("ratio", float),
        error: section.optional("error", float),
        reason: section.required("reason", string).unwrap_or_default(),
    };
    section.close();
    alternative
}

fn read_row(section: Section<'_>) -> Row {
    let texts = |value: &DeValue<'_>| list(value, string);
    let row = Row {
        m: section.required("m", integer).unwrap_or_default(),
        weight: section.required("weight", float).unwrap_or_default(),
        verdict: section.required("verdict", verdict).unwrap_or(Verdict::Decided),
        config: section.required("config", string).unwrap_or_default(),
        id: ConfigId(section.required("id", hex).unwrap_or_default()),
        time_ns: section.required("time_ns", float).unwrap_or_default(),
        interval_ns: section.required("interval_ns", pair).unwrap_or_default(),
        default: section.required("default", string).unwrap_or_default(),
        default_ns: section.required("default_ns", float).unwrap_or_default(),
        runner_ups: section.optional("runner_ups", texts).unwrap_or_default(),
        tie_set: section.sections("tie_set").into_iter().map(read_tie).collect(),
    };
    section.close();
    row
}

fn read_tie(section: Section<'_>) -> Tie {
    let tie = Tie {
        ratio: section.required("ratio", float).unwrap_or_default(),
        config: section.required("config", string).unwrap_or_default(),
    };
    section.close();
    tie
}

fn verdict(value: &DeValue<'_>) -> Result<Verdict, String> {
    let verdict = value.as_str().and_then(Verdict::parse);
    verdict.ok_or_else(|| "\"decided\", \"tied(n)\" or \"ambiguous(reason)\"".to_owned())
}

fn hex(value: &DeValue<'_>) -> Result<u64, String> {
    let id = value.as_str().filter(|text| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
    id.and_then(ConfigId::parse)
        .map(|id| id.0)
        .ok_or_else(|| "a string of 16 lower-case hexadecimal digits".to_owned())
}

fn pair(value: &DeValue<'_>) -> Result<[f64; 2], String> {
    let expected = "an array of two numbers, [low, high]";
    let numbers = list(value, float).map_err(|_| expected.to_owned())?;
    numbers.try_into().map_err(|_| expected.to_owned())
}
