//! `tilewright completions` and `tilewright man`: made by clap from the same definitions that parse the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::files::write_atomic;

/// Print a shell's completion script.
#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// Which shell.
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script.
    ///
    /// # Errors
    /// None.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        clap_complete::generate(self.shell, &mut Cli::command(), "tilewright", &mut std::io::stdout());
        Ok(ExitCode::SUCCESS)
    }
}

/// Write the manual pages.
#[derive(Args)]
pub(super) struct ManArgs {
    /// Folder for the pages: tilewright.1 and one for each command.
    #[arg(long, default_value = ".")]
    out: PathBuf,
}

impl ManArgs {
    /// Writes the pages.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let root = Cli::command();
        let mut pages = vec![("tilewright".to_string(), root.clone())];
        pages.extend(root.get_subcommands().map(|sub| {
            let name = format!("tilewright-{}", sub.get_name());
            (name.clone(), sub.clone().name(name))
        }));
        for (name, command) in pages {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            let path = self.out.join(format!("{name}.1"));
            write_atomic(&path, &page).with_context(|| format!("{}: cannot write", path.display()))?;
            println!("{}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}
