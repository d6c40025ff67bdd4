//! `tilewright plan`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::files::write_atomic;
use crate::shapes::Declaration;
use crate::shards::{commands, sbatch, split};

/// Split a tuning job into shards that a cluster runs.
///
/// Writes <FOLDER>/shard-N.toml, declarations that are tuned independently of each other, and prints the commands that tune
/// them and merge the tables. With --slurm also an sbatch script: an array that tunes them and merges at the end.
#[derive(clap::Args)]
pub(super) struct PlanArgs {
    /// The declaration to split.
    shapes: PathBuf,
    /// How many shards at most. GEMMs that ask the same question stay together.
    #[arg(long)]
    shards: usize,
    /// Folder for the shards' declarations and tables; every machine must see it under this name.
    #[arg(long)]
    folder: PathBuf,
    /// Where the merged table goes.
    #[arg(long, default_value = "tables")]
    out: PathBuf,
    /// Also write a batch script for Slurm there.
    #[arg(long, value_name = "FILE")]
    slurm: Option<PathBuf>,
    /// Arguments for every `tilewright tune`, for instance `-- --device cuda:all --budget 1h`.
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl PlanArgs {
    /// Writes the shards and prints the commands.
    ///
    /// # Errors
    /// A declaration with faults, or a folder that cannot be written.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if self.shards == 0 || self.shards > 10_000 {
            bail!("--shards {}: between 1 and 10000", self.shards);
        }
        let whole = Declaration::read(&self.shapes)?;
        let shards = split(&whole, self.shards);
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("{}: cannot be made; choose another --folder", self.folder.display()))?;
        // Tasks start elsewhere: what they are told has to be whole.
        let folder = absolute(&self.folder)?;
        let (shapes, out) = (absolute(&self.shapes)?, absolute(&self.out)?);
        for (index, shard) in shards.iter().enumerate() {
            write(&folder.join(format!("shard-{index}.toml")), &shard.to_toml())?;
        }
        let count = shards.len();
        let (tune, merge) = commands(&folder, &shapes, &out, count, &self.arguments);
        if let Some(path) = &self.slurm {
            write(path, &sbatch(&whole.model, &folder, &shapes, &out, count, &self.arguments))?;
        }
        println!("# {count} shards, in any order and on any machine of one kind of device:");
        for command in tune {
            println!("{command}");
        }
        println!("# then:\n{merge}");
        if let Some(path) = &self.slurm {
            println!("# or all of it:\nsbatch {}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{}: no absolute path", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_atomic(path, text.as_bytes()).with_context(|| format!("{}: cannot be written", path.display()))
}
