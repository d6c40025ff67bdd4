//! `tilewright compile` and `explain` as a user runs them.

mod table_fixture;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use table_fixture::decisions;
use tilewright::table::{Decisions, compile};

fn tilewright(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).current_dir(folder).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A crate of tables with the fixture in it, and the table's path from the crate's parent.
fn tables_crate(decisions: &Decisions) -> (tempfile::TempDir, String) {
    let root = tempfile::tempdir().unwrap();
    let device = root.path().join("tables").join(&decisions.device.key);
    fs::create_dir_all(&device).unwrap();
    fs::create_dir_all(root.path().join("tables/src")).unwrap();
    fs::write(root.path().join("tables/src/generated.rs"), "").unwrap();
    fs::write(device.join("fixture.toml"), decisions.to_toml()).unwrap();
    let file = format!("tables/{}/fixture.toml", decisions.device.key);
    (root, file)
}

#[test]
fn generation_gives_the_same_bytes_from_every_folder() {
    let decisions = decisions();
    let mut generated = Vec::new();
    for from_inside in [false, true] {
        let (root, file) = tables_crate(&decisions);
        let output = if from_inside {
            tilewright(&root.path().join("tables").join(&decisions.device.key), &["compile", "fixture.toml"])
        } else {
            tilewright(root.path(), &["compile"])
        };
        assert!(output.status.success(), "{}", text(&output.stderr));
        let module = fs::read_to_string(root.path().join(file.replace(".toml", ".rs"))).unwrap();
        let list = fs::read_to_string(root.path().join("tables/src/generated.rs")).unwrap();
        generated.push((module, list));
    }
    assert_eq!(generated[0], generated[1]);
    assert_eq!(generated[0].0, compile(&decisions).unwrap().rs);
    let path = format!("#[path = \"../{}/fixture.rs\"]", decisions.device.key);
    assert!(generated[0].1.contains(&path), "{}", generated[0].1);
}

#[test]
fn check_names_stale_and_missing_files_and_writes_nothing() {
    let decisions = decisions();
    let (root, file) = tables_crate(&decisions);
    let module = root.path().join(file.replace(".toml", ".rs"));
    let check = || tilewright(root.path(), &["compile", "--check"]);

    let missing = check();
    assert_eq!(missing.status.code(), Some(1));
    let message = text(&missing.stderr);
    assert!(message.contains("fixture.rs: ") && message.contains("generated.rs: stale"), "{message}");
    assert!(!module.exists());

    assert!(tilewright(root.path(), &["compile"]).status.success());
    assert!(check().status.success());

    fs::write(&module, "edited by hand").unwrap();
    let stale = check();
    assert_eq!(stale.status.code(), Some(1));
    assert!(text(&stale.stderr).contains("fixture.rs: stale"), "{}", text(&stale.stderr));
    assert_eq!(fs::read_to_string(&module).unwrap(), "edited by hand");
}

#[test]
fn faults_of_all_files_are_reported_and_no_file_is_touched() {
    let mut bad = decisions();
    bad.weights[0].rows[0].time_ns = 0.0;
    let (root, file) = tables_crate(&bad);
    let module = root.path().join(file.replace(".toml", ".rs"));
    fs::write(&module, "the old one").unwrap();
    fs::write(root.path().join("other.toml"), "schema = 1").unwrap();
    let output = tilewright(root.path(), &["compile", "tables", "other.toml", "absent.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    for part in
        ["fixture.toml:", "row[0].time_ns", "other.toml:1: model: missing", "absent.toml: cannot be read"]
    {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(fs::read_to_string(&module).unwrap(), "the old one");
    assert_eq!(fs::read_to_string(root.path().join("tables/src/generated.rs")).unwrap(), "");
}

#[test]
fn another_folder_gets_the_module_and_no_list() {
    let (root, file) = tables_crate(&decisions());
    assert!(tilewright(root.path(), &["compile", &file, "--out", "engine/src"]).status.success());
    assert!(root.path().join("engine/src/fixture.rs").exists());
    assert!(!root.path().join(file.replace(".toml", ".rs")).exists());
    assert_eq!(fs::read_to_string(root.path().join("tables/src/generated.rs")).unwrap(), "");
    let blocked = root.path().join("blocked");
    fs::write(&blocked, "a file").unwrap();
    let output = tilewright(root.path(), &["compile", &file, "--out", "blocked"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("blocked"), "{}", text(&output.stderr));
}

#[test]
fn two_devices_do_not_overwrite_each_other_in_one_folder() {
    let (root, file) = tables_crate(&decisions());
    let mut other = decisions();
    other.device.fingerprint = other.device.fingerprint.replace("Fixture", "Other");
    let message = compile(&other).unwrap_err().to_string();
    other.device.key =
        message.split("fingerprint's key, ").nth(1).unwrap().lines().next().unwrap().to_owned();
    fs::create_dir_all(root.path().join("tables/other")).unwrap();
    fs::write(root.path().join("tables/other/fixture.toml"), other.to_toml()).unwrap();
    let output = tilewright(root.path(), &["compile", &file, "tables/other/fixture.toml", "--out", "engine"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("both"), "{}", text(&output.stderr));
    assert!(!root.path().join("engine").exists());
}

#[test]
fn hostile_text_stays_inside_literals_and_comments() {
    let mut decisions = decisions();
    let hostile = "\"];}\n*/ fn main() {} // \u{202e}\\ {{model}} <b>[x]";
    decisions.generator = hostile.into();
    decisions.device.fingerprint = format!("cpu | {hostile} |  | 4 units");
    let message = compile(&decisions).unwrap_err().to_string();
    decisions.device.key =
        message.split("fingerprint's key, ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let module = compile(&decisions).unwrap().rs;
    assert!(module.is_ascii());
    let escaped = hostile.escape_default().to_string();
    for line in module.lines().filter(|line| line.contains("fn main")) {
        assert!(line.starts_with("// ") || line.trim_start().starts_with("fingerprint: \""), "{line}");
        assert!(line.contains(&escaped), "{line}");
    }
}

#[test]
fn rustfmt_leaves_generated_files_alone_whatever_its_settings() {
    let (root, file) = tables_crate(&decisions());
    assert!(tilewright(root.path(), &["compile"]).status.success());
    for settings in ["max_width=110,use_small_heuristics=Max", "max_width=60,tab_spaces=2"] {
        for generated in [file.replace(".toml", ".rs"), "tables/src/generated.rs".into()] {
            let rustfmt = Command::new("rustfmt")
                .current_dir(root.path())
                .args(["--edition", "2024", "--check", "--config", settings, &generated])
                .output();
            let Ok(output) = rustfmt else { return };
            assert!(output.status.success(), "{settings}: {}", text(&output.stdout));
        }
    }
}

#[test]
fn explain_says_which_rung_and_why() {
    let (root, file) = tables_crate(&decisions());
    let explain = |m: &str, n: &str, k: &str| {
        let output = tilewright(root.path(), &["explain", &file, "--n", n, "--k", k, "--m", m]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let exact = explain("64", "960", "576");
    for part in [
        "rung       exact",
        "row        attn.qkv at m=64: decided",
        "1.50x the winner's time",
        "runner-up  cpu.tiled_mxfp6@",
        "* m 33..",
        "plan       attn.qkv (30 times a forward pass): bf16/mxfp6_e2m3 in panel16, error 0.0125 of at most 0.05",
        "or       bf16/fp8_e4m3 in panel16: slower, 1.250x the cost",
        "or       bf16/mxfp6_e3m2 in panel16: over max_error, error 0.0700",
        "evidence   none in fixture.csv",
    ] {
        assert!(exact.contains(part), "{part} in\n{exact}");
    }
    assert!(explain("50", "960", "576").contains("rung       interval\n"));
    assert!(explain("5000", "960", "576").contains("rung       interval (extrapolated)\n"));
    assert!(explain("64", "1024", "576").contains("rung       nearest (0."));
    assert!(explain("64", "100000", "64").contains("rung       analytic\n"));
    let output = tilewright(root.path(), &["explain", &file, "--n", "1", "--k", "1", "--m", "0"]);
    assert_eq!(output.status.code(), Some(2));
    let output =
        tilewright(root.path(), &["explain", &file, "--n", "1", "--k", "1", "--m", "1", "--format", "fp5"]);
    assert_eq!(output.status.code(), Some(2));
}
