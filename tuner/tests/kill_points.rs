//! A run that is killed, anywhere, and started again comes to the same table, and loses no finished record.
//!
//! Times are made up by the worker, a function of candidate and slot: the trace that both runs see.
//! `TILEWRIGHT_KILLS` sets the number of points at which a journal is cut, and of processes that are killed.

#![cfg(unix)]

mod tune_fixture;

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tilewright::stats::Rng;
use tune_fixture::{Fixture, text};

const SHAPES: &str = r#"
[model]
name = "tiny"

[defaults]
m = [1, 5]
formats = ["mxfp6_e2m3", "bf16"]
max_error = 0.2

[[gemm]]
name = "attn.qkv"
n = 48
k = 64
"#;
const TRACE: &str = "synthetic@";
const FILES: [&str; 3] = ["toml", "csv", "rs"];

fn kills(usual: usize) -> usize {
    std::env::var("TILEWRIGHT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

struct Undisturbed {
    fixture: Fixture,
    journal: Vec<u8>,
    /// How long it took.
    time: Duration,
}

fn undisturbed() -> Undisturbed {
    let fixture = Fixture::with(SHAPES);
    let began = Instant::now();
    let output = fixture.tune_faulty(TRACE, &["--quiet"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let journal = fs::read(fixture.file("journal")).unwrap();
    Undisturbed { journal, time: began.elapsed(), fixture }
}

/// The journal's lines without remarks on how it came about.
fn measurements(journal: &[u8]) -> Vec<String> {
    let lines = text(journal);
    let is_remark = |line: &&str| line.contains("{\"t\":\"trying\"") || line.contains("{\"t\":\"resumed\"");
    // The clock's resolution is measured afresh by each worker; here it is made up, and the same.
    lines.lines().filter(|line| !is_remark(line)).map(str::to_string).collect()
}

fn same_table(fixture: &Fixture, undisturbed: &Undisturbed, what: &str) {
    for extension in FILES {
        let (now, then) = (fixture.file(extension), undisturbed.fixture.file(extension));
        assert!(fs::read(now).unwrap() == fs::read(then).unwrap(), "{what}: another {extension}");
    }
}

#[test]
fn a_journal_cut_anywhere_leads_to_the_same_table_and_the_same_records() {
    let undisturbed = undisturbed();
    let whole = measurements(&undisturbed.journal);
    let mut rng = Rng::new(2);
    let end = undisturbed.journal.len();
    // The table is written between the last two records: it may be there, or not yet.
    let decided = 1 + undisturbed.journal[..end - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    let mut cuts: Vec<(usize, bool)> = (0..kills(8)).map(|_| (rng.below(decided), false)).collect();
    cuts.extend([(decided, false), (decided, true), (end - 20, true)]);
    for (cut, written) in cuts {
        let fixture = Fixture::with(SHAPES);
        let folder =
            fixture.out().join(undisturbed.fixture.file("toml").parent().unwrap().file_name().unwrap());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tiny.journal"), &undisturbed.journal[..cut]).unwrap();
        for extension in FILES.iter().filter(|_| written) {
            let name = format!("tiny.{extension}");
            fs::copy(undisturbed.fixture.file(extension), folder.join(name)).unwrap();
        }
        let output = fixture.tune_faulty(TRACE, &["--quiet"]);
        assert!(output.status.success(), "cut at {cut}: {}", text(&output.stderr));
        same_table(&fixture, &undisturbed, &format!("cut at {cut}"));
        let after = measurements(&fs::read(fixture.file("journal")).unwrap());
        // A torn line stays where it is.
        let after: Vec<String> = after.into_iter().filter(|line| whole.contains(line)).collect();
        assert!(after == whole, "cut at {cut}: other records");
    }
}

#[test]
fn killing_tuner_or_worker_again_and_again_leads_to_the_same_table() {
    let undisturbed = undisturbed();
    let whole = measurements(&undisturbed.journal);
    let mut rng = Rng::new(3);
    let mut left = kills(10);
    let mut ended = 0;
    while left > 0 {
        let fixture = Fixture::with(SHAPES);
        let mut longest = 0;
        loop {
            let mut child = fixture.spawn_faulty(TRACE, &["--quiet"]);
            let pid = child.id();
            let deadline = Instant::now() + undisturbed.time.mul_f64(rng.below(1000) as f64 / 1000.0);
            while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let of_worker = left.is_multiple_of(2);
            if left == 0 || child.try_wait().unwrap().is_some() {
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{}", text(&output.stderr));
                break;
            }
            left -= 1;
            if of_worker {
                let children =
                    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
                for worker in children.split_whitespace() {
                    let worker = Pid::from_raw(worker.parse().unwrap()).unwrap();
                    let _ = kill_process(worker, Signal::KILL);
                }
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{}", text(&output.stderr));
                break;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let Ok(journal) = fs::read(fixture.file("journal")) else { continue };
            let records = measurements(&journal);
            assert!(records.len() >= longest, "finished records are missing");
            longest = records.len().saturating_sub(1);
        }
        same_table(&fixture, &undisturbed, "killed");
        let after = measurements(&fs::read(fixture.file("journal")).unwrap());
        let after: Vec<String> = after.into_iter().filter(|line| whole.contains(line)).collect();
        assert!(after == whole, "other records");
        ended += 1;
    }
    assert!(ended > 0);
}
