//! Why a table picks the kernel it picks: rung, verdict, evidence, intervals, runners-up, default, and the weight's
//! other plans. The answer comes from the very lookup that an engine calls, on the device the table was made for.

use std::fmt::{self, Write as _};
use std::path::Path;

use tilewright_dispatch::table::{Group, NO_KERNEL, Segment};
use tilewright_dispatch::{Choice, Key, Request, Table, TableData};
use tilewright_kernels::{Format, Problem, family};

use super::copies::SecondCopy;
use super::decisions::{Decisions, Row, Weight};
use super::evidence::{self, Finalist};
use super::lower::Lowered;
use super::parse::Located;
use crate::diag::BadInput;
use crate::units::time;

/// What is asked about a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Output features.
    pub n: u32,
    /// Input features.
    pub k: u32,
    /// Rows of the activation.
    pub m: u32,
    /// Only plans of this weight format.
    pub format: Option<Format>,
}

/// The explanation, as text for people.
///
/// # Errors
/// If the table has faults, or nothing in it answers the question's format.
pub fn explain(located: &Located, question: &Question) -> Result<String, BadInput> {
    let lowered = Lowered::of(located)?;
    let evidence_file = located.file.with_extension("csv");
    let evidence = if evidence_file.exists() { Some(evidence::read(&evidence_file)?) } else { None };
    let requests = requests(located, question)?;
    lowered.with(|data| {
        let table = Table::bind(data, &located.decisions.device.device);
        let mut text = String::new();
        for (index, (request, weights)) in requests.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            let page = Page { located, data, table: &table, evidence: evidence.as_deref(), request, weights };
            page.write(&mut text).expect("writing to a string");
        }
        Ok(text)
    })
}

/// What to look up: the plans of the weights of this N and K, or, for a shape the table does not have, every plan.
fn requests<'a>(
    located: &'a Located,
    question: &Question,
) -> Result<Vec<(Request, Vec<&'a Weight>)>, BadInput> {
    let Question { n, k, m, format } = *question;
    let bad = |message: String, help: &str| BadInput::one(&located.file, message, help);
    if m == 0 || n == 0 || k == 0 {
        return Err(bad("M, N and K must be at least 1".into(), "there is no such GEMM"));
    }
    let wanted = |weight: &&Weight| format.is_none_or(|format| weight.key_at(m).b == format);
    let weights: Vec<&Weight> = located.decisions.weights.iter().filter(wanted).collect();
    if weights.is_empty() {
        let formats: Vec<&str> = Format::ALL
            .iter()
            .filter(|format| located.decisions.weights.iter().any(|weight| weight.key_at(m).b == **format))
            .map(|format| format.name())
            .collect();
        return Err(bad(
            "no weight of the table is stored in this format".into(),
            &format!("it has {}", formats.join(", ")),
        ));
    }
    let mut requests: Vec<(Request, Vec<&Weight>)> = Vec::new();
    let shaped = weights.iter().copied().filter(|weight| (weight.n, weight.k) == (n, k));
    let known = shaped.clone().next().is_some();
    for weight in weights.iter().copied().filter(|weight| !known || (weight.n, weight.k) == (n, k)) {
        let key = weight.key_at(m);
        let problem = Problem { n, k, ..key.problem(m) };
        let request = Request { problem, layout: key.layout, deterministic: weight.deterministic };
        match requests.iter_mut().find(|(other, _)| *other == request) {
            Some((_, weights)) if known => weights.push(weight),
            Some(_) => {}
            None => requests.push((request, if known { vec![weight] } else { Vec::new() })),
        }
    }
    Ok(requests)
}

/// The explanation of one request.
struct Page<'a> {
    located: &'a Located,
    data: &'a TableData<'a>,
    table: &'a Table<'a>,
    evidence: Option<&'a [Finalist]>,
    request: &'a Request,
    weights: &'a [&'a Weight],
}

impl Page<'_> {
    fn write(&self, out: &mut String) -> fmt::Result {
        let Request { problem, layout, .. } = self.request;
        writeln!(out, "problem    {problem}, weight in {layout}")?;
        let choice = match self.table.lookup(self.request) {
            Ok(choice) => choice,
            Err(none) => return writeln!(out, "no kernel  {none}"),
        };
        writeln!(out, "rung       {}", choice.provenance)?;
        writeln!(out, "kernel     {}", choice.config)?;
        writeln!(out, "id         {}", choice.config.id())?;
        self.runner_ups(out, choice)?;
        match self.row_of(&choice) {
            Some((weight, row)) => self.row(out, weight, row, &choice)?,
            None => {
                writeln!(out, "evidence   none: this was not measured")?;
                if let Some(default) = family::fallback(problem, *layout, self.table.device()) {
                    writeln!(out, "default    {default}")?;
                }
            }
        }
        let code = Key::of(problem, *layout).encode();
        if let Some(group) = self.data.groups.iter().find(|group| group.key.encode() == code) {
            self.intervals(out, group)?;
        }
        for weight in self.weights {
            plan(out, weight)?;
        }
        Ok(())
    }

    fn runner_ups<'s>(&'s self, out: &mut String, mut choice: Choice<'s>) -> fmt::Result {
        for _ in 0..2 {
            let Some(next) = self.table.runner_up(self.request, &choice) else { break };
            // Only the row's own: below it the ladder goes on with rules, which say nothing about this row.
            if next.row.is_none() {
                break;
            }
            writeln!(out, "runner-up  {}", next.config)?;
            choice = next;
        }
        Ok(())
    }

    fn row_of(&self, choice: &Choice<'_>) -> Option<(&Weight, &Row)> {
        let found = self.table.row(choice.row?)?;
        let weight = self.decisions().weights.iter().find(|weight| weight.name == found.weight)?;
        let row = weight.rows.iter().find(|row| row.m == found.m)?;
        Some((weight, row))
    }

    fn decisions(&self) -> &Decisions {
        &self.located.decisions
    }

    fn row(&self, out: &mut String, weight: &Weight, row: &Row, choice: &Choice<'_>) -> fmt::Result {
        let [low, high] = row.interval_ns.map(time);
        writeln!(
            out,
            "row        {} at m={}: {}, {} [{low}, {high}]",
            weight.name,
            row.m,
            row.verdict,
            time(row.time_ns)
        )?;
        let config = choice.config.to_string();
        if config != row.config {
            match row.tie_set.iter().find(|tie| tie.config == config) {
                Some(tie) => writeln!(
                    out,
                    "           taken at {:.3}x of this row's winner, to need fewer kernels:\n           {}",
                    tie.ratio, row.config
                )?,
                None => writeln!(
                    out,
                    "           in place of this row's winner, which cannot run here:\n           {}",
                    row.config
                )?,
            }
        }
        let times = row.default_ns / row.time_ns;
        writeln!(
            out,
            "default    {} in {}, {times:.2}x the winner's time",
            row.default,
            time(row.default_ns)
        )?;
        let key = weight.key_at(row.m);
        let lines: Vec<&Finalist> = self
            .evidence
            .unwrap_or_default()
            .iter()
            .filter(|finalist| {
                finalist.weight == weight.name
                    && finalist.m == row.m
                    && finalist.activation == key.a.name()
                    && finalist.format == key.b.name()
            })
            .collect();
        if lines.is_empty() {
            let csv = self.located.file.with_extension("csv");
            return writeln!(out, "evidence   none in {}", shown(&csv));
        }
        for (index, finalist) in lines.iter().enumerate() {
            let title = if index == 0 { "evidence " } else { "         " };
            writeln!(out, "{title}  {}", evidence_line(finalist))?;
        }
        Ok(())
    }

    /// Runs of M with one kernel.
    fn intervals(&self, out: &mut String, group: &Group) -> fmt::Result {
        let segments: Vec<Segment> = self.data.segments_of(group).collect();
        let mut title = "intervals";
        for run in segments.chunk_by(|a, b| a.kernel == b.kernel) {
            let next = segments.iter().find(|segment| segment.from > run[run.len() - 1].from);
            let range = match next {
                Some(next) => format!("{}..={}", run[0].from, next.from - 1),
                None => format!("{}..", run[0].from),
            };
            let here = run[0].from <= self.request.problem.m
                && next.is_none_or(|next| self.request.problem.m < next.from);
            let kernel = match run[0].kernel {
                NO_KERNEL => "no kernel known",
                position => self.data.kernels[position as usize].text,
            };
            writeln!(out, "{title}  {} m {range:<12} {kernel}", if here { '*' } else { ' ' })?;
            title = "         ";
        }
        let [least, most] = group.measured;
        writeln!(out, "           measured from m={least} to m={most}; beyond is extrapolated")
    }
}

fn plan(out: &mut String, weight: &Weight) -> fmt::Result {
    let Weight { name, count, activation, format, layout, .. } = weight;
    write!(out, "plan       {name} ({count} times a forward pass): {activation}/{format} in {layout}")?;
    match (weight.error, weight.max_error) {
        (Some(error), Some(limit)) => writeln!(out, ", error {error:.4} of at most {limit}")?,
        (Some(error), None) => writeln!(out, ", error {error:.4}")?,
        _ => writeln!(out)?,
    }
    if let Some(second) = &weight.second {
        let SecondCopy { from, activation, format, layout, error, memory_budget_mib, scaling: _ } = second;
        write!(out, "  and      from m={from} a second copy: {activation}/{format} in {layout}")?;
        if let Some(error) = error {
            write!(out, ", error {error:.4}")?;
        }
        let mib = weight.bytes() as f64 / f64::from(1 << 20);
        writeln!(out, "; both take {mib:.2} MiB of at most {memory_budget_mib}")?;
    }
    for alternative in &weight.alternatives {
        write!(out, "  or       {}/{}", alternative.activation, alternative.format)?;
        if let Some(layout) = alternative.layout {
            write!(out, " in {layout}")?;
        }
        write!(out, ": {}", alternative.reason)?;
        if let Some(ratio) = alternative.ratio {
            write!(out, ", {ratio:.3}x the cost")?;
        }
        if let Some(error) = alternative.error {
            write!(out, ", error {error:.4}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn evidence_line(finalist: &Finalist) -> String {
    let mut line = format!("{:<10}", finalist.status.name());
    if let Some(ratio) = finalist.ratio {
        write!(line, " {ratio:.3}x").expect("writing to a string");
    }
    if let (Some(low), Some(high)) = (finalist.ratio_low, finalist.ratio_high) {
        write!(line, " [{low:.3}, {high:.3}]").expect("writing to a string");
    }
    if let Some(ns) = finalist.time_ns {
        write!(line, " {}", time(ns)).expect("writing to a string");
    }
    write!(line, " {} samples", finalist.samples).expect("writing to a string");
    if finalist.baseline {
        line.push_str(" (default)");
    }
    write!(line, " {}", finalist.config).expect("writing to a string");
    if !finalist.reason.is_empty() {
        write!(line, ": {}", finalist.reason).expect("writing to a string");
    }
    line
}

fn shown(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
