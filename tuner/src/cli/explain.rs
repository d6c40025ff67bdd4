//! `tilewright explain`: why a table picks the kernel it picks, and from which evidence.

use std::path::PathBuf;
use std::process::ExitCode;

use tilewright_kernels::Format;

use crate::table::Located;
use crate::table::explain::{Question, explain};

/// Arguments of `tilewright explain`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The table (.toml); its evidence (.csv) is read from the same folder.
    table: PathBuf,

    /// Output features.
    #[arg(long)]
    n: u32,

    /// Input features.
    #[arg(long)]
    k: u32,

    /// Rows of the activation.
    #[arg(long)]
    m: u32,

    /// Only plans of this weight format.
    #[arg(long, value_parser = format)]
    format: Option<Format>,
}

fn format(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("there is no such format; there are {}", names.join(", "))
    })
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let located = Located::read(&args.table)?;
    let Args { n, k, m, format, .. } = *args;
    print!("{}", explain(&located, &Question { n, k, m, format })?);
    Ok(ExitCode::SUCCESS)
}
