//! Faulty candidates among healthy ones: each costs itself alone.

#![cfg(unix)]

mod tune_fixture;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tilewright_kernels::config::fnv1a;
use tune_fixture::{Fixture, records, text};

const ONE_GEMM: &str = r#"
[model]
name = "tiny"

[[gemm]]
name = "attn.qkv"
n = 48
k = 64
m = [5]
formats = ["mxfp6_e2m3", "mxfp4", "fp8_e4m3", "bf16"]
max_error = 0.5
"#;

/// The candidates of the first contest in the order in which they went through the gate, the default first.
fn gated(fixture: &Fixture) -> Vec<String> {
    let gates = records(&fixture.file("journal"), "gate");
    gates.iter().map(|gate| gate["candidate"].as_str().unwrap().to_string()).collect()
}

/// Why candidates failed, at the gate or when they were timed.
fn failures(fixture: &Fixture) -> BTreeMap<String, String> {
    let mut failures = BTreeMap::new();
    for kind in ["gate", "evaluated"] {
        for record in records(&fixture.file("journal"), kind) {
            if let Some(reason) = record["reason"].as_str() {
                failures
                    .entry(record["candidate"].as_str().unwrap().to_string())
                    .or_insert(reason.to_string());
            }
        }
    }
    // A launch that failed later on names its candidate by its hash.
    let names: BTreeMap<String, String> =
        gated(fixture).into_iter().map(|text| (format!("{:016x}", fnv1a(text.as_bytes())), text)).collect();
    for record in records(&fixture.file("journal"), "failed") {
        let name = names[record["id"].as_str().unwrap()].clone();
        failures.entry(name).or_insert(record["reason"].as_str().unwrap().to_string());
    }
    failures
}

#[test]
fn every_faulty_candidate_is_named_with_its_reason_and_all_others_are_measured() {
    let healthy = Fixture::with(ONE_GEMM);
    assert!(healthy.tune(&["--quiet"]).status.success());
    // Whatever fails, a search tries one config of every plan first, in a fixed order.
    let seeds = gated(&healthy);
    let faults = [
        ("hang", "hung: no answer"),
        ("segfault", "signal 11 (SIGSEGV)"),
        ("abort", "signal 6 (SIGABRT)"),
        ("exit", "exited with code 7"),
        ("allocate", "memory allocation of"),
        ("garbage", "garbage on the worker's channel"),
        ("poison", "the context is destroyed"),
        ("overrun", "out of bounds: element 240 of the output was written"),
        ("timed-overrun", "out of bounds: element 240 of the output was written"),
        ("wrong", "left a wrong output: D["),
        ("print", ""),
    ];
    assert!(seeds.len() > faults.len(), "{seeds:#?}");
    let rules: Vec<String> =
        faults.iter().zip(&seeds[1..]).map(|((fault, _), seed)| format!("{fault}@{seed}")).collect();
    let fixture = Fixture::with(ONE_GEMM);
    let output =
        fixture.tune_faulty(&rules.join(";"), &["--quiet", "--hang-after", "3s", "--worker-memory", "600"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let failures = failures(&fixture);
    for ((fault, reason), seed) in faults.iter().zip(&seeds[1..]) {
        if reason.is_empty() {
            assert_eq!(failures.get(seed), None, "{fault}");
        } else {
            let said = failures.get(seed).unwrap_or_else(|| panic!("{fault}: {seed} passed"));
            assert!(said.contains(reason), "{fault}: {said}");
        }
    }
    let others: Vec<_> = failures.iter().filter(|(text, _)| !seeds[1..faults.len()].contains(text)).collect();
    assert!(others.is_empty(), "{others:#?}");
    let table = std::fs::read_to_string(fixture.file("toml")).unwrap();
    assert!(table.contains("[[weight.row]]") || table.contains("m = 5"), "{table}");
    // A replay needs no worker and comes to the same table.
    let again = Fixture::with(ONE_GEMM);
    let journal = fixture.file("journal");
    assert!(again.tune(&["--quiet", "--replay", journal.to_str().unwrap()]).status.success());
    assert_eq!(std::fs::read_to_string(again.file("toml")).unwrap(), table);
}

#[test]
fn slow_but_healthy_candidates_survive() {
    let fixture = Fixture::with(ONE_GEMM);
    // Each launch takes far longer than the shortest deadline; the deadlines follow.
    let mut child = fixture.spawn_faulty("slow@", &["--quiet", "--hang-after", "0.2s"]);
    let journal = fixture.file("journal");
    while records_so_far(&fixture, "sample") < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended: {journal:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    assert!(failures(&fixture).is_empty());
    assert_eq!(records(&fixture.file("journal"), "stopped").len(), 1);
}

fn records_so_far(fixture: &Fixture, kind: &str) -> usize {
    let journal = fixture.file("journal");
    if journal.is_file() { records(&journal, kind).len() } else { 0 }
}

#[test]
fn ctrl_c_leaves_a_valid_table_and_a_second_one_ends_at_once() {
    let fixture = Fixture::with(ONE_GEMM);
    assert!(fixture.tune(&["--quiet", "--budget", "3s"]).status.success());
    // A candidate that hangs must not keep the user waiting for its deadline.
    for (faults, waits_for) in [("", "sample"), ("timed-hang@", "trying")] {
        let before = records_so_far(&fixture, waits_for);
        let mut child = fixture.spawn_faulty(faults, &["--quiet", "--seed", "9", "--hang-after", "1h"]);
        while records_so_far(&fixture, waits_for) <= before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = child.wait().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success(), "{said}");
        let table = fixture.file("toml");
        let check = fixture.run(&["compile", "--check", table.to_str().unwrap()]);
        assert!(check.status.success(), "{}", text(&check.stderr));
    }
    // The second Ctrl-C, while the first one waits for a launch.
    let mut child = fixture.spawn_faulty("slow@", &["--quiet", "--seed", "10", "--hang-after", "1h"]);
    let before = records_so_far(&fixture, "trying");
    while records_so_far(&fixture, "trying") <= before && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("Ctrl-C again"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_worker_whose_tuner_is_gone_ends_though_its_candidate_never_does() {
    let fixture = Fixture::with(ONE_GEMM);
    let mut child = fixture.spawn_faulty("hang@", &["--quiet", "--hang-after", "1h"]);
    let worker = loop {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        if let (Some(pid), true) =
            (children.split_whitespace().next().map(str::to_string), records_so_far(&fixture, "trying") > 0)
        {
            break pid;
        }
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = || {
        let state = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        // Nobody may be there to reap it.
        state.is_empty() || state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    };
    while !gone() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_candidate_that_took_the_tuner_down_twice_is_not_run_a_third_time() {
    let fixture = Fixture::with(ONE_GEMM);
    let healthy = Fixture::with(ONE_GEMM);
    assert!(healthy.tune(&["--quiet"]).status.success());
    let killer = gated(&healthy).remove(1);
    for death in 1..=2 {
        let mut child = fixture.spawn_faulty(&format!("hang@{killer}"), &["--quiet", "--hang-after", "1h"]);
        let in_flight = || {
            let journal = fixture.file("journal");
            let tried = if journal.is_file() { records(&journal, "trying") } else { vec![] };
            tried.iter().filter(|record| record["candidate"] == killer.as_str()).count() == death
        };
        while !in_flight() {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = fixture.tune_faulty(&format!("hang@{killer}"), &["--quiet", "--hang-after", "1h"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(failures(&fixture)[&killer].contains("died, twice"), "{:?}", failures(&fixture)[&killer]);
}
