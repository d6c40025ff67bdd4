//! `tilewright shapes` as a process: output, exit codes, files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn tilewright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).arg("shapes").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn from_hf_writes_the_same_to_a_file_and_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.toml");
    let config = fixture("hf/qwen3-8b.json");
    let shown = tilewright(&["from-hf", &config, "--tp", "4", "--m", "1,16", "--formats", "fp8_e4m3,bf16"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let arguments = ["from-hf", &config, "--tp", "4", "--m", "1,16", "--formats", "fp8_e4m3,bf16", "--out"];
    let written = tilewright(&[&arguments[..], &[file.to_str().unwrap()]].concat());
    assert!(written.status.success() && written.stdout.is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), text(&shown.stdout));
    let checked = tilewright(&["check", file.to_str().unwrap()]);
    assert!(checked.status.success());
    assert!(text(&checked.stdout).contains("qwen3-8b-tp4"));
}

#[test]
fn bad_input_exits_with_2_and_harms_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept.toml");
    fs::write(&file, "kept").unwrap();
    let config = fixture("hf/smollm2-135m.json");
    let refused = tilewright(&["from-hf", &config, "--tp", "2", "--out", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("num_attention_heads = 9 is not divisible by --tp 2"));
    assert!(text(&refused.stderr).contains("num_key_value_heads = 3 is not divisible by --tp 2"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");

    let nowhere = folder.path().join("absent/made.toml");
    let unwritable = tilewright(&["from-hf", &config, "--out", nowhere.to_str().unwrap()]);
    assert_eq!(unwritable.status.code(), Some(2));
    assert!(text(&unwritable.stderr).contains("cannot write"), "{}", text(&unwritable.stderr));
    assert!(!nowhere.exists());

    for arguments in [&["from-hf", &config, "--formats", "int4"][..], &["from-hf", "absent.json"], &["check"]]
    {
        assert_eq!(tilewright(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn check_reports_the_faults_of_all_files() {
    let bad =
        ["zero_dimensions", "unknown_keys"].map(|name| fixture(&format!("declarations/fail/{name}.toml")));
    let good = fixture("declarations/pass/everything.toml");
    let output = tilewright(&["check", &bad[0], &good, &bad[1]]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    for path in &bad {
        let expected = fs::read_to_string(Path::new(path).with_extension("stderr")).unwrap();
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        let expected = expected.replace(&format!("{name}:"), &format!("{path}:"));
        assert!(text(&output.stderr).contains(expected.trim_end()), "{}", text(&output.stderr));
    }
}

#[test]
fn check_lists_gemms_with_the_bytes_of_each_format() {
    let output = tilewright(&["check", &fixture("declarations/pass/formats_left_to_the_tuner.toml")]);
    assert!(output.status.success());
    let listing = text(&output.stdout);
    let rows: Vec<Vec<&str>> =
        listing.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["gemm", "n", "k", "count", "m", "a", "out", "bf16", "fp8_e4m3", "mxfp6_e2m3"]);
    let cells = ["16", "64", "1", "1", "bf16", "f32", "2.0", "KiB", "1.1", "KiB", "800", "B"];
    assert_eq!(rows[1][1..], cells);
    assert_eq!(rows[2].last(), Some(&"-"), "no MX format allows K = 360");
}
