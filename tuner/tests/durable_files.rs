//! What is on disk when the disk is full, when a folder is read-only, and while many write at once; and merging.

mod tune_fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tune_fixture::{Fixture, text};

fn tilewright(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).args(args).output().unwrap()
}

/// Every file below a folder with its content, in order.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path))
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()))
        }
    }
    found.sort();
    found
}

#[cfg(debug_assertions)]
#[test]
fn a_disk_that_is_full_at_any_write_leaves_the_old_table_and_every_finished_record() {
    let fixture = Fixture::new();
    let args = ["--quiet", "--budget-per-gemm", "1s"];
    assert!(fixture.tune_faulty("synthetic@", &args).status.success());
    let table = fs::read(fixture.file("toml")).unwrap();
    let (shapes, out) = (fixture.shapes(), fixture.out());
    let mut refused = 0;
    // The journal's first records, some in its middle, and the table's files, whose writes come last.
    for full_from in [0, 1, 2, 7, 100, 1000] {
        let journal = fs::read(fixture.file("journal")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .args(["tune", &shapes, "--out", out.to_str().unwrap(), "--seed", "3"])
            .args(args)
            .env("TILEWRIGHT_INJECT", "synthetic@")
            .env("TILEWRIGHT_DISK_FULL", full_from.to_string())
            .output()
            .unwrap();
        if !output.status.success() {
            refused += 1;
            assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
            assert!(text(&output.stderr).contains("tiny."), "the file is named: {}", text(&output.stderr));
            assert_eq!(fs::read(fixture.file("toml")).unwrap(), table, "full from {full_from}");
        }
        let after = fs::read(fixture.file("journal")).unwrap();
        assert!(after.starts_with(&journal), "full from {full_from}: records are missing");
    }
    assert!(refused >= 5, "{refused}");
    let hidden =
        content(&out).into_iter().filter(|(path, _)| path.to_string_lossy().contains("/.tilewright-"));
    assert_eq!(hidden.count(), 0, "temporary files are left");
    // With room again the same command goes on.
    let again = fixture.tune_faulty("synthetic@", &["--quiet", "--budget-per-gemm", "1s", "--seed", "3"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("dropped") || !text(&again.stderr).contains("error"));
}

#[test]
fn merging_does_not_depend_on_the_order_of_its_inputs_and_leaves_them_alone() {
    let (a, b) = (Fixture::new(), Fixture::new());
    assert!(a.tune_faulty("synthetic@", &["--quiet"]).status.success());
    // Another trace for one of the weights: other winners.
    assert!(
        b.tune_faulty("synthetic@", &["--quiet", "--seed", "2", "--budget-per-gemm", "200s"])
            .status
            .success()
    );
    let inputs: Vec<PathBuf> = [&a, &b].iter().flat_map(|f| [f.file("toml"), f.file("journal")]).collect();
    let before: Vec<_> = [&a, &b].iter().map(|fixture| content(&fixture.out())).collect();
    for (path, _) in before.iter().flatten() {
        let mut permissions = fs::metadata(path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(path, permissions).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let merge = |name: &str, inputs: Vec<&PathBuf>| {
        let out = folder.path().join(name);
        let mut args = vec!["merge", "--out", out.to_str().unwrap()];
        args.extend(inputs.iter().map(|path| path.to_str().unwrap()));
        let output = tilewright(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let files = content(&out).into_iter();
        files.map(|(path, bytes)| (path.file_name().unwrap().to_owned(), bytes)).collect::<Vec<_>>()
    };
    let forwards = merge("forwards", inputs.iter().collect());
    let backwards = merge("backwards", inputs.iter().rev().collect());
    assert_eq!(forwards.len(), 4);
    assert!(forwards == backwards, "the order of inputs shows");
    let after: Vec<_> = [&a, &b].iter().map(|fixture| content(&fixture.out())).collect();
    assert!(before == after, "an input was touched");
    // A table is valid, and a journal goes on being one.
    let out = folder.path().join("forwards");
    let table = tune_fixture::file_in(&out, "toml");
    assert!(tilewright(&["compile", "--check", table.to_str().unwrap()]).status.success());
    let runs = tune_fixture::records(&tune_fixture::file_in(&out, "journal"), "run");
    assert_eq!(runs.len(), 2);
    // An output that is an input is refused.
    let refused =
        tilewright(&["merge", "--out", a.out().to_str().unwrap(), a.file("toml").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is an input"), "{}", text(&refused.stderr));
}

#[test]
fn sixteen_processes_compile_and_merge_into_one_folder_and_no_reader_sees_half_a_file() {
    let fixture = Fixture::new();
    assert!(fixture.tune_faulty("synthetic@", &["--quiet"]).status.success());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tables");
    let (table, out_text) = (fixture.file("toml"), out.to_str().unwrap().to_string());
    let merge = ["merge", "--out", &out_text, table.to_str().unwrap()];
    assert!(tilewright(&merge).status.success());
    let merged = tune_fixture::file_in(&out, "toml");
    let whole = content(&out);
    let mut children: Vec<_> = (0..16)
        .map(|number| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
            if number % 2 == 0 {
                command.args(merge)
            } else {
                command.args(["compile", merged.to_str().unwrap()])
            };
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        for (path, bytes) in &whole {
            assert!(fs::read(path).unwrap() == *bytes, "{}: half a file", path.display());
        }
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(content(&out) == whole, "another content, or files left over");
}

#[cfg(unix)]
#[test]
fn a_second_tuner_waits_for_the_first_and_readers_do_not() {
    let fixture = Fixture::new();
    let mut first = fixture.spawn_faulty("slow@", &["--quiet"]);
    while !fixture.file("journal").is_file()
        || tune_fixture::records(&fixture.file("journal"), "run").is_empty()
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut second = fixture.spawn_faulty("synthetic@", &["--quiet"]);
    let mut said = String::new();
    let mut errors = std::io::BufReader::new(second.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut errors, &mut said).unwrap();
    assert!(said.contains("another tilewright process") && said.contains("waiting"), "{said}");
    assert_eq!(tune_fixture::records(&fixture.file("journal"), "run").len(), 1);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success());
}
