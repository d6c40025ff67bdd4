//! `tilewright code`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::{code, table};

/// Compile the kernels of CUDA tables into <model>.cubins beside them.
///
/// `tune` does so by itself; this is for tables that came without, and after a change of the kernels. Needs NVRTC and no
/// GPU. An engine that is given the file needs the CUDA driver alone.
#[derive(clap::Args)]
pub(super) struct CodeArgs {
    /// Tables (.toml).
    #[arg(required = true)]
    tables: Vec<PathBuf>,
}

impl CodeArgs {
    /// Writes the file of each table.
    ///
    /// # Errors
    /// If a table cannot be read, NVRTC is missing or a kernel does not compile.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        for path in &self.tables {
            let decisions = table::read(path)?;
            let folder = path.parent().unwrap_or(path);
            match code::write(folder, &decisions)? {
                Some(written) => println!("wrote {}", written.display()),
                None => println!("{}: a table of another backend has no kernels to compile", path.display()),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
