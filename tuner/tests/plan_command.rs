//! `tilewright plan`: the shards together are the whole, and the batch script runs.

#![cfg(unix)]

mod tune_fixture;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tune_fixture::{Fixture, file_in, text};

/// Runs the script as Slurm would run its tasks: really, where a cluster answers; else by a shell, with an `srun` that runs its
/// arguments.
fn submit(script: &Path, folder: &Path, tasks: usize) -> Output {
    let environment = [("TILEWRIGHT", env!("CARGO_BIN_EXE_tilewright")), ("TILEWRIGHT_INJECT", "synthetic@")];
    let answers = Command::new("sinfo")
        .arg("--noheader")
        .output()
        .is_ok_and(|o| o.status.success() && !o.stdout.is_empty());
    if answers {
        eprintln!("submitted to Slurm");
        return Command::new("sbatch")
            .args(["--wait", "--export=ALL", "--chdir"])
            .arg(folder)
            .arg(script)
            .envs(environment)
            .output()
            .unwrap();
    }
    eprintln!("no Slurm here: run by a shell");
    let srun = folder.join("srun");
    fs::write(&srun, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut last = None;
    for task in 0..tasks {
        let output = Command::new("bash")
            .arg(script)
            .env("PATH", &path)
            .env("SLURM_ARRAY_TASK_ID", task.to_string())
            .envs(environment)
            .output()
            .unwrap();
        assert!(output.status.success(), "task {task}: {}", text(&output.stderr));
        last = Some(output);
    }
    last.unwrap()
}

#[test]
fn the_batch_script_tunes_the_shards_and_merges_them_into_the_whole() {
    let fixture = Fixture::new();
    // A folder whose name wants to be more than a word.
    let folder = fixture.path("shards; it's $HERE");
    let (script, shapes) = (fixture.path("job.sbatch"), fixture.shapes());
    let planned = fixture.run(&[
        "plan",
        &shapes,
        "--shards",
        "2",
        "--folder",
        folder.to_str().unwrap(),
        "--out",
        "merged",
        "--slurm",
        script.to_str().unwrap(),
        "--",
        "--quiet",
    ]);
    assert!(planned.status.success(), "{}", text(&planned.stderr));
    let said = text(&planned.stdout);
    assert_eq!(said.matches("tilewright tune").count(), 2, "{said}");
    let output = submit(&script, &fixture.path("."), 2);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // As one run on the same trace, but for what one weight learned from the other's.
    let merged = file_in(&fixture.path("merged"), "toml");
    let table = fs::read_to_string(&merged).unwrap();
    for gemm in ["attn.qkv", "mlp.down"] {
        assert!(table.contains(gemm), "{table}");
    }
    let check = fixture.run(&["compile", "--check", merged.to_str().unwrap()]);
    assert!(check.status.success(), "{}", text(&check.stderr));
    // The merged table is of the whole declaration: tuning it goes on from there.
    let again = fixture.tune_into(&fixture.path("merged"), &["--quiet", "--budget", "2s"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
}

#[test]
fn nonsense_is_refused() {
    let fixture = Fixture::new();
    let shapes = fixture.shapes();
    let refused = fixture.run(&["plan", &shapes, "--shards", "0", "--folder", "x"]);
    assert_eq!(refused.status.code(), Some(2));
    let blocked = fixture.run(&["plan", &shapes, "--shards", "1", "--folder", &shapes]);
    assert!(text(&blocked.stderr).contains("choose another --folder"), "{}", text(&blocked.stderr));
}
