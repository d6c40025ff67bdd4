//! `tilewright export`: prior evidence as other tuners' tables.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use crate::diag::BadInput;
use crate::export::{Target, export, unexpressed};
use crate::files::write_atomic;
use crate::import::{priors_from_csv, read_text};
use crate::style;
use crate::table;

/// Write prior evidence as the tables that AITER, TunableOp or hipBLASLt read.
///
/// Takes the .prior.csv files that `tilewright import` wrote. Rows that the library could not use, or would misuse, are listed: a
/// placeholder time, an unknown kernel, a row without its device. A table of tilewright names kernels that no other library has.
#[derive(Args)]
pub(super) struct ExportArgs {
    /// Whose tables to write.
    target: Target,
    /// Prior evidence (.prior.csv), or tables (.toml).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The folder to write into, made if it is missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl ExportArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let (mut priors, mut left, mut faults) = (Vec::new(), BTreeMap::new(), Vec::new());
        for path in &self.files {
            if path.extension().is_some_and(|extension| extension == "toml") {
                match table::read(path) {
                    Ok(decisions) => left.extend(unexpressed(self.target, &decisions)),
                    Err(bad) => faults.extend(bad.0),
                }
                continue;
            }
            match read_text(path).and_then(|text| priors_from_csv(path, &text)) {
                Ok(read) => priors.extend(read),
                Err(bad) => faults.extend(bad.0),
            }
        }
        if !faults.is_empty() {
            return Err(BadInput(faults).into());
        }
        let exported = export(self.target, &priors);
        left.extend(exported.left);
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("{}: cannot be made", self.out.display()))?;
        for (name, text) in &exported.files {
            let path = self.out.join(name);
            write_atomic(&path, text.as_bytes())
                .with_context(|| format!("{}: cannot be written", path.display()))?;
            style::note(&format!("wrote {}", path.display()));
        }
        style::note(&format!(
            "{} rows of {} written",
            exported.rows,
            exported.rows + left.values().sum::<usize>()
        ));
        for (reason, rows) in &left {
            style::warn(&format!("{rows} rows left out: {reason}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
