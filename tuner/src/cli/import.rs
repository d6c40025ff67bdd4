//! `tilewright import`: declarations and prior evidence from other tuners' files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use crate::diag::BadInput;
use crate::files::write_atomic;
use crate::import::{self, Converted, Foreign, Source, Unexpressed, priors_to_csv};
use crate::shapes::name_of;
use crate::style;

/// Make declarations, and prior evidence, from the files of other tuners.
///
/// Each file becomes a declaration of its own, or all together one with --name. With --out, <model>.toml is written and,
/// if the file is tuned, <model>.prior.csv: what was found there, which is never taken as a decision. Without it the
/// declarations are printed. What cannot be expressed is listed on standard error. Exits with 1 if rows could not be read.
#[derive(Args)]
pub(super) struct ImportArgs {
    /// Whose files they are.
    source: Source,
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The folder to write into, made if it is missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make one declaration of this name out of all files.
    #[arg(long)]
    name: Option<String>,
}

impl ImportArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let models = self.read()?;
        let (mut written, mut unreadable) = (Vec::new(), 0);
        for (model, files) in &models {
            for fault in files.iter().flat_map(|foreign| &foreign.faults) {
                style::warn(&fault.to_string());
                unreadable += 1;
            }
            let converted = import::declare(files, model)?;
            style::note(summary(model, &converted).trim_end());
            written.push((model, converted));
        }
        match &self.out {
            Some(folder) => {
                std::fs::create_dir_all(folder).with_context(|| cannot_write(folder))?;
                for (model, converted) in &written {
                    if converted.declaration.is_some() {
                        write(&folder.join(format!("{model}.toml")), &converted.text)?;
                    }
                    if !converted.priors.is_empty() {
                        let text = priors_to_csv(&converted.priors);
                        write(&folder.join(format!("{model}.prior.csv")), &text)?;
                    }
                }
            }
            None => {
                let texts: Vec<&str> = written.iter().map(|(_, converted)| converted.text.as_str()).collect();
                style::print(&texts.join("\n"))?;
            }
        }
        Ok(if unreadable > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    /// The files by model. All that cannot be read are reported together.
    fn read(&self) -> Result<Vec<(String, Vec<Foreign>)>, BadInput> {
        let mut models: Vec<(String, Vec<Foreign>)> = Vec::new();
        let mut faults = Vec::new();
        for path in &self.files {
            let model = match &self.name {
                Some(name) => name.clone(),
                None => name_of(path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("")),
            };
            let read = import::read_text(path).and_then(|text| import::parse(self.source, path, &text));
            match (read, models.iter_mut().find(|(known, _)| *known == model)) {
                (Ok(foreign), Some((_, files))) if self.name.is_some() => files.push(foreign),
                (Ok(_), Some(_)) => faults.extend(
                    BadInput::one(
                        path,
                        format!("another file makes the model {model:?} too"),
                        "rename one, or make one model of all with --name",
                    )
                    .0,
                ),
                (Ok(foreign), None) => models.push((model, vec![foreign])),
                (Err(bad), _) => faults.extend(bad.0),
            }
        }
        if faults.is_empty() { Ok(models) } else { Err(BadInput(faults)) }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_atomic(path, text.as_bytes()).with_context(|| cannot_write(path))?;
    style::note(&format!("wrote {}", path.display()));
    Ok(())
}

fn cannot_write(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}

/// What became of the rows.
fn summary(model: &str, converted: &Converted) -> String {
    let gemms = converted.declaration.as_ref().map_or(0, |declaration| declaration.gemms.len());
    let mut text = format!(
        "{model}: {} from {}, {} of them prior evidence\n",
        style::count(gemms, "GEMM"),
        style::count(converted.rows, "row"),
        converted.priors.len()
    );
    for Unexpressed { file, lines, declared, reason } in &converted.unexpressed {
        let what = if *declared { "changed" } else { "left out" };
        let _ = writeln!(
            text,
            "  {}: {} of {}: {reason} ({})",
            style::paint(if *declared { style::PLAIN } else { style::DOUBT }, what),
            style::count(lines.len(), "row"),
            file.display(),
            ranges(lines)
        );
    }
    text
}

/// Lines, runs of them joined: `lines 2-7, 12`.
fn ranges(lines: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &line in lines {
        match runs.last_mut() {
            Some((_, last)) if line <= *last + 1 => *last = line.max(*last),
            _ => runs.push((line, line)),
        }
    }
    // Hundreds of runs tell a person nothing.
    const SHOWN: usize = 12;
    let more = runs.len().saturating_sub(SHOWN);
    if !style::is_verbose() && more > 1 {
        runs.truncate(SHOWN);
    }
    let mut text: Vec<String> = runs
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    if !style::is_verbose() && more > 1 {
        text.push(format!("and {more} runs more, which -v lists"));
    }
    format!("lines {}", text.join(", "))
}
