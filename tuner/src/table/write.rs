//! Writing decisions as TOML: one order of keys, one spelling of every value, one kernel text a line.

use std::fmt::Write as _;

use tilewright_kernels::backend::Regime;

use super::decisions::{Alternative, Decisions, Row, SCHEMA, Weight};

impl Decisions {
    /// The file's text. Reading it gives back an equal value, and equal values give equal bytes.
    pub fn to_toml(&self) -> String {
        let mut out = Writer::default();
        out.line("# What `tilewright tune` decided, for people to review and `tilewright compile` to read.");
        out.line("# The measurements behind it are in the .csv file next to it.");
        let two_copies = self.weights.iter().any(|weight| weight.second.is_some());
        out.plain("schema", if two_copies { SCHEMA } else { 1 });
        out.text("model", &self.model);
        out.plain("tensor_parallel", self.tensor_parallel);
        out.text("generator", &self.generator);
        out.text("declaration", &format!("{:016x}", self.declaration));
        out.plain("seed", self.seed);
        out.text("regime", regime_name(self.regime));
        let record = &self.device;
        out.heading("[device]");
        out.text("key", &record.key);
        out.text("fingerprint", &record.fingerprint);
        if record.is_simulated() {
            out.plain("simulated", true);
        }
        out.text("backend", record.device.backend.name());
        let caps: Vec<String> = record.device.caps.names().map(quoted).collect();
        out.plain("caps", format_args!("[{}]", caps.join(", ")));
        out.plain("units", record.device.units);
        out.plain("l1_kib", record.device.l1_kib);
        out.plain("l2_kib", record.device.l2_kib);
        out.plain("llc_kib", record.device.llc_kib);
        for weight in &self.weights {
            out.weight(weight);
        }
        out.0
    }
}

/// The name of a regime in files.
pub(super) fn regime_name(regime: Regime) -> &'static str {
    match regime {
        Regime::Cold => "cold",
        Regime::Hot => "hot",
    }
}

#[derive(Default)]
struct Writer(String);

impl Writer {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        self.0.push('\n');
        self.line(heading);
    }

    fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{key} = {value}").expect("writing to a string");
    }

    fn text(&mut self, key: &str, value: &str) {
        self.plain(key, quoted(value));
    }

    fn float(&mut self, key: &str, value: f64) {
        self.plain(key, number(value));
    }

    fn maybe(&mut self, key: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.float(key, value);
        }
    }

    /// One element a line, nothing where there is none.
    fn list(&mut self, key: &str, elements: impl ExactSizeIterator<Item = String>) {
        if elements.len() == 0 {
            return;
        }
        self.line(&format!("{key} = ["));
        for element in elements {
            self.line(&format!("    {element},"));
        }
        self.line("]");
    }

    fn weight(&mut self, weight: &Weight) {
        self.heading("[[weight]]");
        self.text("name", &weight.name);
        self.plain("n", weight.n);
        self.plain("k", weight.k);
        self.plain("count", weight.count);
        self.text("activation", weight.activation.name());
        self.text("format", weight.format.name());
        self.text("scaling", weight.scaling.name());
        self.text("layout", weight.layout.name());
        self.text("out", weight.out.name());
        self.text("epilogue", weight.epilogue.name());
        self.plain("deterministic", weight.deterministic);
        self.maybe("error", weight.error);
        self.maybe("max_error", weight.max_error);
        if let Some(second) = &weight.second {
            self.heading("[weight.second]");
            self.plain("from", second.from);
            self.text("activation", second.activation.name());
            self.text("format", second.format.name());
            self.text("scaling", second.scaling.name());
            self.text("layout", second.layout.name());
            self.maybe("error", second.error);
            self.plain("memory_budget_mib", second.memory_budget_mib);
        }
        for alternative in &weight.alternatives {
            self.alternative(alternative);
        }
        for row in &weight.rows {
            self.row(row);
        }
    }

    fn alternative(&mut self, alternative: &Alternative) {
        self.heading("[[weight.alternative]]");
        self.text("activation", alternative.activation.name());
        self.text("format", alternative.format.name());
        if let Some(layout) = alternative.layout {
            self.text("layout", layout.name());
        }
        self.maybe("ratio", alternative.ratio);
        self.maybe("error", alternative.error);
        self.text("reason", &alternative.reason);
    }

    fn row(&mut self, row: &Row) {
        self.heading("[[weight.row]]");
        self.plain("m", row.m);
        self.float("weight", row.weight);
        self.text("verdict", &row.verdict.to_string());
        self.text("config", &row.config);
        self.text("id", &row.id.to_string());
        self.float("time_ns", row.time_ns);
        let [low, high] = row.interval_ns.map(number);
        self.plain("interval_ns", format_args!("[{low}, {high}]"));
        self.text("default", &row.default);
        self.float("default_ns", row.default_ns);
        self.list("runner_ups", row.runner_ups.iter().map(|text| quoted(text)));
        self.list(
            "tie_set",
            row.tie_set
                .iter()
                .map(|tie| format!("{{ ratio = {}, config = {} }}", number(tie.ratio), quoted(&tie.config))),
        );
    }
}

/// A TOML float: the shortest text that reads back as the same f64.
fn number(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:?}") }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => write!(out, "\\u{:04X}", c as u32).expect("writing to a string"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
