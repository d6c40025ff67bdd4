//! `tilewright emulate`, which exists with the feature `emulator`.
#![cfg(feature = "emulator")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/emulator/tests/fixtures").join(name)
}

fn emulate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).arg("emulate").args(args).output().unwrap()
}

#[test]
fn a_kernel_runs_on_files_and_reports_what_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("x"), dir.path().join("steps"));
    let bytes: Vec<u8> = (1..=64u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&input, bytes).unwrap();
    let code = fixture("arith-gfx942.hsaco");
    let run = emulate(&[
        code.to_str().unwrap(),
        "collatz",
        &format!("in:{}", input.display()),
        &format!("out:{}:256", output.display()),
    ]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let steps = std::fs::read(&output).unwrap();
    // 27 takes 111 steps, 64 takes 6.
    assert_eq!((steps[26 * 4], steps[63 * 4]), (111, 6));
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(
        text.contains("wave-instructions") && text.contains("1 s_endpgm") && text.contains("256 bytes read")
    );
}

#[test]
fn scans_faults_and_bad_arguments_have_their_exit_codes() {
    let (good, bad) = (fixture("gemm-gfx950.hsaco"), fixture("defects-gfx950.hsaco"));
    assert!(emulate(&[good.to_str().unwrap(), "--scan"]).status.success());
    let scan = emulate(&[bad.to_str().unwrap(), "--scan"]);
    assert_eq!(scan.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&scan.stderr).contains("unknown at "));
    let overrun = fixture("memory-gfx942.hsaco");
    let run = emulate(&[overrun.to_str().unwrap(), "overrun", "zeros:256"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("past buffer `argument 0`"));
    assert_eq!(emulate(&[overrun.to_str().unwrap(), "overrun", "seven"]).status.code(), Some(2));
    let race = emulate(&[overrun.to_str().unwrap(), "race", "zeros:512", "--block", "128", "--races"]);
    assert_eq!(race.status.code(), Some(1));
    let traced =
        emulate(&[overrun.to_str().unwrap(), "race", "zeros:512", "--block", "128", "--trace", "0:1"]);
    assert!(String::from_utf8_lossy(&traced.stderr).contains("global_store_dword"));
}
