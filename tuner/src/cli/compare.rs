//! `tilewright compare`: what changed between two tables.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::compare::{compare, output};
use crate::table;

/// Compare two tables of one model: what changed, and what is within noise, weighed as in a forward pass.
#[derive(Args)]
pub(super) struct CompareArgs {
    /// The table before (.toml).
    first: PathBuf,
    /// The table after (.toml).
    second: PathBuf,
    /// Also show rows that are within noise and run the same kernel.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl CompareArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let (first, second) = (table::read(&self.first)?, table::read(&self.second)?);
        if first.model != second.model {
            eprintln!("warning: the tables are of two models, {} and {}", first.model, second.model);
        }
        let comparison = compare(&first, &second);
        let text = if self.json {
            serde_json::to_string_pretty(&output::json(&comparison))? + "\n"
        } else {
            output::text(&comparison, self.all)
        };
        super::shapes::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
