//! One run on several devices: here the two are cores of the processor, with made-up times.

#![cfg(target_os = "linux")]

mod tune_fixture;

use std::fs;

use tune_fixture::{Fixture, file_in, records, text};

const TWO: [&str; 3] = ["--quiet", "--device", "cpu:0,1"];

fn has_two_cores() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        eprintln!("not tested: there is one core only");
    }
    cores >= 2
}

#[test]
fn two_devices_share_the_gemms_and_a_replay_is_exact() {
    if !has_two_cores() {
        return;
    }
    let fixture = Fixture::new();
    let output = fixture.tune_faulty("synthetic@", &TWO);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let journal = fixture.file("journal");
    assert_eq!(records(&journal, "run").len(), 2);
    let mut taken: Vec<u64> =
        records(&journal, "take").iter().map(|take| take["work"].as_u64().unwrap()).collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1]);
    assert_eq!(records(&journal, "end").len(), 1);
    let names: Vec<_> =
        fs::read_dir(journal.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "parts are left: {names:?}");
    let other = tempfile::tempdir().unwrap();
    let out = other.path().join("tables");
    let replay = fixture.tune_into(&out, &["--quiet", "--replay", journal.to_str().unwrap()]);
    assert!(replay.status.success(), "{}", text(&replay.stderr));
    for extension in ["toml", "csv", "rs"] {
        assert!(fs::read(fixture.file(extension)).unwrap() == fs::read(file_in(&out, extension)).unwrap());
    }
}

#[test]
fn a_run_on_two_devices_that_is_killed_goes_on_and_measures_nothing_twice() {
    if !has_two_cores() {
        return;
    }
    let fixture = Fixture::new();
    let part = || {
        let folder = fs::read_dir(fixture.out()).ok()?.next()?.unwrap().path();
        Some(folder.join("tiny.cpu-1.journal")).filter(|path| path.is_file())
    };
    let mut child = fixture.spawn_faulty("synthetic@", &TWO);
    while part().is_none_or(|path| records(&path, "evaluated").len() < 20) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let output = fixture.tune_faulty("synthetic@", &TWO);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let undisturbed = Fixture::new();
    assert!(undisturbed.tune_faulty("synthetic@", &TWO).status.success());
    let count = |fixture: &Fixture| records(&fixture.file("journal"), "take").len();
    assert_eq!((count(&fixture), count(&undisturbed)), (2, 2));
    let resumed = records(&fixture.file("journal"), "resumed");
    assert!(!resumed.is_empty());
}

#[test]
fn the_gemms_of_a_device_that_is_lost_are_tuned_on_the_others() {
    if !has_two_cores() {
        return;
    }
    let fixture = Fixture::new();
    let output = fixture.tune_faulty("synthetic@;lost@1", &TWO);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("device cpu:1 was given up"), "{said}");
    for gemm in ["attn.qkv", "mlp.down"] {
        assert!(said.contains(gemm), "{said}");
    }
    // Where every device is lost the run says so, and with one device too.
    let output = fixture.tune_faulty("lost@0;lost@1", &["--quiet", "--device", "cpu:0,1", "--seed", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("every device was given up"), "{}", text(&output.stderr));
    let output = fixture.tune_faulty("lost@0", &["--quiet", "--device", "cpu:0", "--seed", "3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("given up, 3 workers in a row"), "{}", text(&output.stderr));
}

#[test]
fn devices_that_do_not_belong_together_are_refused() {
    let fixture = Fixture::new();
    for (devices, part) in [
        ("cpu:0,0", "named twice"),
        ("cpu:5-2", "no range of cores"),
        ("cpu:1000", "cannot be used"),
        ("tpu:all", "no such device"),
        ("cuda", "say which one"),
    ] {
        let output = fixture.tune(&["--device", devices]);
        assert_eq!(output.status.code(), Some(2), "{devices}");
        assert!(text(&output.stderr).contains(part), "{devices}: {}", text(&output.stderr));
    }
}
