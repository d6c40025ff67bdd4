//! `tilewright report`: a page to look at.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use crate::files::write_atomic;
use crate::report::report;
use crate::style;

/// Make one self-contained HTML page of tables and journals.
///
/// A table's evidence (.csv) and journal are read where they lie beside it. Of two tables, or two journals, the page also says
/// what changed from the first to the second.
#[derive(Args)]
pub(super) struct ReportArgs {
    /// Tables (.toml) and journals (.journal).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The page to write.
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    /// What an engine recorded: declarations of misses, or records of TILEWRIGHT_RECORD.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    misses: Vec<PathBuf>,
}

impl ReportArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let page = report(&self.files, &self.misses)?;
        write_atomic(&self.html, page.as_bytes())
            .with_context(|| format!("{}: cannot be written", self.html.display()))?;
        let kib = page.len().div_ceil(1024);
        style::note(&format!("wrote {} ({kib} KiB): open it in a browser", self.html.display()));
        Ok(ExitCode::SUCCESS)
    }
}
