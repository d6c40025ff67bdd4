//! `tilewright tune`, from outside: what it leaves, what it takes over, what it refuses.

mod tune_fixture;

use std::fs;
use std::time::{Duration, Instant};

use tune_fixture::{Fixture, records, text};

#[test]
fn a_run_leaves_three_files_that_compile_and_verify() {
    let fixture = Fixture::new();
    let output = fixture.tune(&["--budget", "20s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for part in ["tiny on cpu-", "attn.qkv: N=48 K=64", "One forward pass", "M=1 ", "candidates evaluated in"]
    {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    for extension in ["toml", "csv", "rs", "journal"] {
        assert!(fixture.file(extension).is_file(), "{extension}");
    }
    let table = fixture.file("toml");
    let check = fixture.run(&["compile", "--check", table.to_str().unwrap()]);
    assert!(check.status.success(), "{}", text(&check.stderr));
    let verify = fixture.run(&["verify", table.to_str().unwrap()]);
    assert!(verify.status.success(), "{}", text(&verify.stderr));
    assert!(text(&verify.stdout).contains("all right on cpu-"));
    let bench = fixture.run(&["bench", table.to_str().unwrap(), "--blocks", "6"]);
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    assert!(text(&bench.stdout).contains("Geometric mean over "), "{}", text(&bench.stdout));
    let explain = fixture.run(&["explain", table.to_str().unwrap(), "--n", "48", "--k", "64", "--m", "5"]);
    assert!(text(&explain.stdout).contains("rung       exact"), "{}", text(&explain.stdout));
}

#[test]
fn a_replay_of_the_journal_gives_the_same_table_byte_for_byte() {
    let fixture = Fixture::new();
    let output = fixture.tune(&["--budget", "20s", "--seed", "7"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let journal = fixture.file("journal");
    for _ in 0..2 {
        let other = tempfile::tempdir().unwrap();
        let out = other.path().join("tables");
        let args = ["--seed", "7", "--replay", journal.to_str().unwrap()];
        let replay = fixture.tune_into(&out, &args);
        assert!(replay.status.success(), "{}", text(&replay.stderr));
        for extension in ["toml", "csv", "rs"] {
            let again = tune_fixture::file_in(&out, extension);
            assert_eq!(fs::read(fixture.file(extension)).unwrap(), fs::read(again).unwrap(), "{extension}");
        }
    }
    let other_seed = fixture.tune(&["--seed", "8", "--replay", journal.to_str().unwrap()]);
    assert_eq!(other_seed.status.code(), Some(2));
    assert!(text(&other_seed.stderr).contains("--seed 7"), "{}", text(&other_seed.stderr));
}

#[test]
fn killing_a_run_twenty_times_loses_no_finished_measurement() {
    let fixture = Fixture::new();
    let mut before: Vec<String> = Vec::new();
    let mut wait = 40;
    for round in 0..20 {
        let mut child = fixture.spawn(&["--quiet"]);
        // Pseudo-random moments, early and late; a run that ends by itself is left alone.
        wait = (wait * 7 + 13 * round) % 400 + 20;
        let deadline = Instant::now() + Duration::from_millis(wait);
        while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        child.wait().unwrap();
        let Ok(after) = fs::read_to_string(fixture.file("journal")) else { continue };
        let lines: Vec<String> = after.lines().map(str::to_string).collect();
        let whole = before.len().saturating_sub(1);
        assert_eq!(
            lines[..whole.min(lines.len())],
            before[..whole],
            "round {round}: earlier records changed"
        );
        assert!(lines.len() >= before.len(), "round {round}: records went missing");
        before = lines;
    }
    let last = fixture.tune(&["--json"]);
    assert!(last.status.success(), "{}", text(&last.stderr));
    let result: serde_json::Value = serde_json::from_slice(&last.stdout).unwrap();
    // Two GEMMs with two M each; Ms between them are measured where the kernel changes.
    assert!(result["rows"].as_array().unwrap().len() >= 4);
    // What the killed runs had evaluated was not measured again.
    let evaluated = records(&fixture.file("journal"), "evaluated");
    let mut seen = std::collections::BTreeMap::new();
    for record in &evaluated {
        // The sentinel, whose ratio to itself is 1, is measured beside all others.
        if record["ratio"].is_number() && record["ratio"] != 1.0 {
            *seen.entry((record["key"].to_string(), record["candidate"].to_string())).or_insert(0) += 1;
        }
    }
    let ended = records(&fixture.file("journal"), "end").len();
    let repeated = seen.values().filter(|times| **times > ended.max(1)).count();
    assert_eq!(repeated, 0, "candidates were evaluated again after a kill");
}

#[test]
fn a_second_run_starts_from_the_first_and_keeps_decided_rows() {
    let fixture = Fixture::new();
    assert!(fixture.tune(&["--quiet"]).status.success());
    let end = records(&fixture.file("journal"), "end").remove(0);
    let first = [&end["measurements"], &end["evaluations"]].map(|count| count.as_u64().unwrap());
    let again = fixture.tune(&["--json"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let result: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(result["warm_from"], serde_json::json!(first), "{result}");
    let again = result["evaluations"].as_u64().unwrap();
    assert!(5 * again < first[1], "{} candidates before, now {again}", first[1]);
}

#[test]
fn bad_input_is_refused_with_code_2_and_harms_no_file() {
    let fixture = Fixture::new();
    let refused = |args: &[&str], part: &str| {
        let output = fixture.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(part), "{part} in {}", text(&output.stderr));
    };
    let shapes = fixture.shapes();
    refused(&["tune", "missing.toml"], "missing.toml");
    refused(&["tune", &shapes, "--device", "tpu"], "no such device");
    refused(&["tune", &shapes, "--budget", "soon"], "is not a time");
    refused(&["tune", &shapes, "--weights", &shapes], "not a safetensors file");
    let blocked = fixture.path("blocked");
    fs::write(&blocked, "a file, not a folder").unwrap();
    refused(&["tune", &shapes, "--out", blocked.to_str().unwrap()], "choose another --out");
    assert_eq!(fs::read_to_string(&blocked).unwrap(), "a file, not a folder");
    // A table of a newer schema is not overwritten.
    assert!(fixture.tune(&["--quiet", "--budget", "10s"]).status.success());
    let newer = fs::read_to_string(fixture.file("toml")).unwrap().replace("schema = 1", "schema = 999");
    fs::write(fixture.file("toml"), &newer).unwrap();
    refused(&["tune", &shapes, "--out", fixture.out().to_str().unwrap()], "schema");
    assert_eq!(fs::read_to_string(fixture.file("toml")).unwrap(), newer);
}

#[test]
fn a_tensor_of_another_shape_is_named() {
    let fixture = Fixture::new();
    let path = fixture.path("model.safetensors");
    let bytes = vec![0u8; 4 * 40 * 64];
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![40, 64], &bytes).unwrap();
    fs::write(&path, safetensors::serialize([("l.0.qkv", view)], None).unwrap()).unwrap();
    let output = fixture.tune(&["--weights", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("l.0.qkv: 40 rows together, not 48"), "{said}");
    assert!(said.contains("l.0.down: no tensor of that name"), "{said}");
}

#[test]
fn a_truncated_journal_line_is_reported_and_the_rest_is_used() {
    let fixture = Fixture::new();
    assert!(fixture.tune(&["--quiet", "--budget", "10s"]).status.success());
    let journal = fixture.file("journal");
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..whole.len() - 9]).unwrap();
    let output = fixture.tune(&["--budget", "10s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("torn last line, dropped"), "{}", text(&output.stderr));
}
