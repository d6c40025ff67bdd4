//! `tilewright worker`: what `tune` starts to run candidates in. Not for people.

use std::process::ExitCode;

use crate::worker::{ServeOptions, serve};

/// Run candidates for a tuner that asks on standard input.
#[derive(clap::Args)]
#[command(hide = true)]
pub(super) struct WorkerArgs {
    /// Device to open.
    #[arg(long)]
    device: String,
    /// Cores to stay on, first-last.
    #[arg(long)]
    cores: Option<String>,
    /// Bytes of address space to use at most.
    #[arg(long)]
    memory: Option<u64>,
    /// Time with operands left in cache.
    #[arg(long)]
    hot: bool,
}

impl WorkerArgs {
    /// Serves until standard input ends.
    ///
    /// # Errors
    /// If there is nobody to serve.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let WorkerArgs { device, cores, memory, hot } = self;
        serve(&ServeOptions { device, cores, memory, hot })?;
        Ok(ExitCode::SUCCESS)
    }
}
