//! `tilewright merge`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::merge::merge;
use crate::shapes::Declaration;

/// Join the journals and tables of several runs.
///
/// Writes <OUT>/<device>/<model>.toml, .csv and .rs, or .journal, and touches no input. Where tables disagree the row with the
/// better evidence stands: decided before tied before ambiguous, then the more closely known time. Each such choice
/// is printed.
#[derive(clap::Args)]
pub(super) struct MergeArgs {
    /// Tables (.toml, with the .csv beside them) and journals (.journal).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The declaration that the inputs are shards of: the result is of this model then.
    #[arg(long)]
    shapes: Option<PathBuf>,
    /// Folder that holds a folder of tables for each device.
    #[arg(long)]
    out: PathBuf,
}

impl MergeArgs {
    /// Merges.
    ///
    /// # Errors
    /// Inputs that do not belong together, or a folder that cannot be written.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let whole = self.shapes.map(|path| Declaration::read(&path)).transpose()?;
        let merged = merge(&self.files, whole.as_ref(), &self.out)?;
        for note in &merged.notes {
            println!("{note}");
        }
        for path in &merged.written {
            println!("wrote {}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}
