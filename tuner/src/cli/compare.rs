//! `tilewright compare`: what changed between two tables or journals.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::compare::{Side, compare, output};
use crate::diag::{BadInput, Fault};
use crate::journal::{self, History};
use crate::style;
use crate::table::{self, Decisions};

/// Compare two tables or journals of one model: what changed, and what is within noise, weighed as in a forward pass.
///
/// Of a journal, the last verdict of each contest counts. The table beside it, or else the other side's, names its weights and says
/// how often they are used.
#[derive(Args)]
pub(super) struct CompareArgs {
    /// The table (.toml) or journal (.journal) before.
    first: PathBuf,
    /// The table or journal after.
    second: PathBuf,
    /// Also show rows that are within noise and run the same kernel, as -v does.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl CompareArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let files = [&self.first, &self.second];
        let tables = files.map(|path| if is_journal(path) { Ok(None) } else { table::read(path).map(Some) });
        let faults: Vec<Fault> =
            tables.iter().filter_map(|read| read.as_ref().err()).flat_map(|bad| bad.0.clone()).collect();
        if !faults.is_empty() {
            return Err(BadInput(faults).into());
        }
        let [first, second] = tables.map(Result::unwrap_or_default);
        if let (Some(first), Some(second)) = (&first, &second)
            && first.model != second.model
        {
            style::warn(&format!("the tables are of two models, {} and {}", first.model, second.model));
        }
        let either = first.as_ref().or(second.as_ref());
        let sides = [side(&self.first, &first, either)?, side(&self.second, &second, either)?];
        let [a, b] = sides;
        let comparison = compare(a, b);
        let text = if self.json {
            serde_json::to_string_pretty(&output::json(&comparison))? + "\n"
        } else {
            output::text(&comparison, self.all || style::is_verbose())
        };
        style::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "journal")
}

fn side(path: &Path, own: &Option<Decisions>, either: Option<&Decisions>) -> anyhow::Result<Side> {
    if let Some(decisions) = own {
        return Ok(Side::from(decisions));
    }
    let reading = journal::read(path)?;
    for damage in &reading.damaged {
        style::warn(damage);
    }
    let beside = table::read(&path.with_extension("toml")).ok();
    let side = Side::of_journal(&History::new(reading.records), beside.as_ref().or(either));
    if side.rows.is_empty() {
        return Err(BadInput::one(path, "holds no verdict", "let the run decide at least one row").into());
    }
    Ok(side)
}
