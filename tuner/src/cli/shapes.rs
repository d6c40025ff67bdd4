//! `tilewright shapes`: makes and checks model declarations.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use tilewright_kernels::Format;

use crate::files::write_atomic;
use crate::shapes::{DEFAULT_FORMATS, Declaration, hf, listing};

/// Make or check model declarations.
#[derive(Args)]
pub(super) struct ShapesArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    FromHf(FromHfArgs),
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
            None => print(&text)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl CheckArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let declarations = Declaration::read_all(&self.files)?;
        let listings: Vec<String> = declarations.iter().map(listing).collect();
        print(&listings.join("\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

fn format(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("formats: {}", names.join(", "))
    })
}
