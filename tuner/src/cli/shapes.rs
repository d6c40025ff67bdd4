//! `tilewright shapes`: makes and checks model declarations.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use tilewright_kernels::Format;

use crate::capture;
use crate::files::write_atomic;
use crate::shapes::{DEFAULT_FORMATS, Declaration, hf, listing, name_of};
use crate::style;

/// Make or check model declarations.
#[derive(Args)]
pub(super) struct ShapesArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    FromHf(FromHfArgs),
    FromCapture(FromCaptureArgs),
    Check(CheckArgs),
}

/// Make a declaration from the config.json of a Hugging Face model.
#[derive(Args)]
struct FromHfArgs {
    /// The model's config.json.
    config: PathBuf,
    /// Devices that each weight is sharded over (tensor parallelism).
    #[arg(long, value_name = "N", default_value_t = 1)]
    tp: u32,
    /// The model's name in tables and file names [default: from the config].
    #[arg(long)]
    name: Option<String>,
    /// Values of M to tune.
    #[arg(long, value_delimiter = ',', default_values_t = hf::DEFAULT_M.to_vec())]
    m: Vec<u32>,
    /// Formats that quality allows, most wanted first.
    #[arg(long, value_delimiter = ',', default_values_t = DEFAULT_FORMATS.to_vec(), value_parser = format)]
    formats: Vec<Format>,
    /// The largest error of a format, above 0 and at most 1.
    #[arg(long, value_name = "E", default_value_t = hf::DEFAULT_MAX_ERROR)]
    max_error: f64,
    /// The file to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Make a declaration from what engines recorded with TILEWRIGHT_RECORD=file in their environment.
///
/// The records of several ranks or servers add up. Counts and the weights of M are those of the calls.
#[derive(Args)]
struct FromCaptureArgs {
    /// The records.
    #[arg(required = true, value_name = "FILE")]
    records: Vec<PathBuf>,
    /// The model's name [default: the recorded one with -captured].
    #[arg(long)]
    name: Option<String>,
    /// Most values of M for one GEMM; neighbours are put together.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    points: u16,
    /// The model's declaration: names, formats and quality bounds of its GEMMs are kept.
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// The file to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Check declarations, and list their GEMMs with the bytes that one weight takes in each format.
#[derive(Args)]
struct CheckArgs {
    /// The declarations.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl ShapesArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::FromHf(args) => args.run(),
            Command::FromCapture(args) => args.run(),
            Command::Check(args) => args.run(),
        }
    }
}

impl FromHfArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let FromHfArgs { config, tp, name, m, mut formats, max_error, out } = self;
        let mut seen = Vec::new();
        formats.retain(|format| {
            !seen.contains(format) && {
                seen.push(*format);
                true
            }
        });
        let options = hf::Options { tensor_parallel: tp, name, m, formats, max_error: Some(max_error) };
        let text = hf::read(&config, &options)?.to_toml();
        match out {
            Some(file) => write_atomic(&file, text.as_bytes())
                .with_context(|| format!("cannot write {}", file.display()))?,
            None => style::print(&text)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl FromCaptureArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let like = self.like.as_deref().map(Declaration::read).transpose()?;
        let requests = capture::read(&self.records)?;
        let name = self.name.as_deref().map(name_of);
        let options = capture::Options { name, points: usize::from(self.points), like };
        let (declaration, text) = capture::declare(&requests, &options)?;
        let calls: u64 = requests.iter().map(|request| request.calls).sum();
        let rungs: Vec<String> = capture::rungs(&requests)
            .iter()
            .map(|(rung, n)| format!("{rung} {:.1} %", *n as f64 / calls as f64 * 100.0))
            .collect();
        style::note(&format!(
            "{}: {} GEMMs from {calls} calls, answered by: {}",
            declaration.model,
            declaration.gemms.len(),
            rungs.join(", ")
        ));
        match self.out {
            Some(file) => write_atomic(&file, text.as_bytes())
                .with_context(|| format!("cannot write {}", file.display()))?,
            None => style::print(&text)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl CheckArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let declarations = Declaration::read_all(&self.files)?;
        let listings: Vec<String> = declarations.iter().map(listing).collect();
        style::print(&listings.join("\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn format(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("formats: {}", names.join(", "))
    })
}
