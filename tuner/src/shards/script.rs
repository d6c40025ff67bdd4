//! The commands that run shards, and the batch script that has Slurm run them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The commands for so many shards below `folder`: one for each, and the merge. `arguments` go to every `tune`.
pub fn commands(
    folder: &Path,
    whole: &Path,
    out: &Path,
    shards: usize,
    arguments: &[String],
) -> (Vec<String>, String) {
    let tune = |index: usize| {
        let (declaration, into) = paths(folder, index);
        let mut command = format!("tilewright tune {} --out {}", quoted(&declaration), quoted(&into));
        for argument in arguments {
            let _ = write!(command, " {}", quote(argument));
        }
        command
    };
    let merge = format!(
        "tilewright merge {}/shard-*/*/*.toml {}/shard-*/*/*.journal --shapes {} --out {}",
        quoted(folder),
        quoted(folder),
        quoted(whole),
        quoted(out)
    );
    ((0..shards).map(tune).collect(), merge)
}

/// A shard's declaration and the folder that it is tuned into.
fn paths(folder: &Path, index: usize) -> (PathBuf, PathBuf) {
    (folder.join(format!("shard-{index}.toml")), folder.join(format!("shard-{index}")))
}

/// A script for `sbatch`: an array of one task a shard, of which the last one to finish merges.
///
/// A task that is pre-empted or runs out of time is told a minute before, ends in a valid table and journal, and goes on when
/// it is put back into the queue. Merging twice, should two tasks finish at once, writes the same files twice.
pub fn sbatch(
    name: &str,
    folder: &Path,
    whole: &Path,
    out: &Path,
    shards: usize,
    arguments: &[String],
) -> String {
    let arguments: String = arguments.iter().map(|argument| format!(" {}", quote(argument))).collect();
    let (_, merge) = commands(folder, whole, out, shards, &[]);
    let merge = merge.replacen("tilewright", "\"$tilewright\"", 1);
    let last = shards - 1;
    let folder = quoted(folder);
    format!(
        r#"#!/bin/bash
# Tunes in {shards} shards and merges them. Written by `tilewright plan`; submit it with sbatch, and give what your cluster
# needs on its command line: sbatch --partition=… --gres=gpu:1 --time=… THIS
#SBATCH --job-name=tilewright-{name}
#SBATCH --array=0-{last}
#SBATCH --requeue
#SBATCH --signal=TERM@60
set -euo pipefail
tilewright=${{TILEWRIGHT:-tilewright}}
folder={folder}
shard=$folder/shard-$SLURM_ARRAY_TASK_ID
srun "$tilewright" tune "$shard.toml" --out "$shard"{arguments}
touch "$shard.done"
for index in $(seq 0 {last}); do
    [ -e "$folder/shard-$index.done" ] || exit 0
done
{merge}
"#
    )
}

fn quoted(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

/// A word of a shell command, whatever is in it.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_paths_stay_words() {
        assert_eq!(quote("a/b-1.toml"), "a/b-1.toml");
        assert_eq!(quote("a b; rm -rf $HOME"), "'a b; rm -rf $HOME'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
