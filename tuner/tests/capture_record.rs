//! Records of live engines: what was asked for, hits and misses, becomes a declaration with the real weights of M.

mod table_fixture;

#[path = "fixtures/tables/generated/fixture.rs"]
#[allow(unreachable_pub, reason = "a generated module does not know where it is mounted")]
mod generated;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use table_fixture::{decisions, device};
use tilewright::capture::{self, Options, declare, rungs};
use tilewright::shapes::Declaration;
use tilewright_dispatch::record::Record;
use tilewright_dispatch::{Request, Table};
use tilewright_kernels::{Format, Layout, Problem};

/// 30 calls of attn.qkv at M = 1, 10 at M = 64 and one at M = 50; 41 calls of a shape the table has not.
fn record(path: &Path) {
    let mut table = Table::bind(&generated::TABLE, &device());
    let record = Record::new(path, table.data());
    table.record(record);
    let qkv = &decisions().weights[0];
    for (m, calls) in [(1, 30), (64, 10), (50, 1)] {
        for _ in 0..calls {
            table.choose(&Request::new(qkv.key().problem(m), qkv.layout)).unwrap();
        }
    }
    for _ in 0..41 {
        table.choose(&Request::new(Problem::new(8, 979, 576, Format::MxFp6E2m3), Layout::Panel16)).unwrap();
    }
}

fn options() -> Options {
    Options { name: None, points: 16, like: None }
}

#[test]
fn hits_and_misses_are_recorded_with_their_rungs_when_the_engine_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.csv");
    record(&path);
    let requests = capture::read(&[path]).unwrap();
    let calls = |m: u32| requests.iter().find(|request| request.m == m).map(|request| request.calls);
    assert_eq!([calls(1), calls(64), calls(50), calls(8)], [Some(30), Some(10), Some(1), Some(41)]);
    let rungs = rungs(&requests);
    assert_eq!(rungs[0], ("nearest".into(), 41), "{rungs:?}");
    assert!(rungs.contains(&("exact".into(), 40)) && rungs.contains(&("interval".into(), 1)), "{rungs:?}");
    // Nothing else lies beside it.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn counts_and_weights_of_m_are_those_of_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.csv");
    record(&path);
    // Two ranks with the same load.
    let requests = capture::read(&[path.clone(), path]).unwrap();
    let (declaration, text) = declare(&requests, &options()).unwrap();
    assert_eq!(Declaration::parse(Path::new("again.toml"), &text).unwrap().hash, declaration.hash);
    assert_eq!(declaration.model, "fixture-captured");
    // 82 calls of each: one per what they have in common.
    assert!(declaration.gemms.iter().all(|gemm| gemm.count == 1), "{text}");
    let qkv = declaration.gemms.iter().find(|gemm| gemm.n == 960).unwrap();
    let weight = |m: u32| qkv.m.iter().find(|point| point.m == m).unwrap().weight;
    // Rows: 30, 640 and 50 of 720.
    for (m, rows) in [(1, 30.0), (64, 640.0), (50, 50.0)] {
        assert!((weight(m) - rows / 720.0).abs() < 1e-4, "{m}: {}", weight(m));
    }
}

#[test]
fn the_models_declaration_lends_names_formats_and_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.csv");
    record(&path);
    let like = "[model]\nname = \"x\"\n[[gemm]]\nname = \"attn.qkv\"\nn = 960\nk = 576\nm = [1]\nout = \"OUT\"\n\
                formats = [\"mxfp6_e2m3\", \"bf16\"]\nmax_error = 0.05\n";
    let like = like.replace("OUT", decisions().weights[0].out.name());
    let like = Declaration::parse(Path::new("x.toml"), &like).unwrap();
    let requests = capture::read(&[path]).unwrap();
    let (declaration, _) = declare(&requests, &Options { like: Some(like), ..options() }).unwrap();
    let qkv = declaration.gemms.iter().find(|gemm| gemm.n == 960).unwrap();
    assert_eq!((qkv.name.as_str(), qkv.max_error), ("attn.qkv", Some(0.05)));
    assert_eq!(qkv.formats, [Format::MxFp6E2m3, Format::Bf16]);
    assert_eq!(qkv.m.len(), 3);
}

#[test]
fn the_command_reports_faults_with_their_lines_and_writes_the_declaration() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
        command.current_dir(folder.path()).arg("shapes").arg("from-capture").args(arguments).output().unwrap()
    };
    record(&folder.path().join("record.csv"));
    let output = run(&["record.csv", "--name", "served", "--out", "served.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("82 calls, answered by: nearest 50.0 %"), "{said}");
    assert_eq!(Declaration::read(&folder.path().join("served.toml")).unwrap().model, "served");

    let good = fs::read_to_string(folder.path().join("record.csv")).unwrap();
    fs::write(folder.path().join("bad.csv"), good.replace("mxfp6_e2m3", "mxfp7")).unwrap();
    fs::write(folder.path().join("other.csv"), "M,N,K\n1,2,3\n").unwrap();
    let output = run(&["bad.csv", "other.csv"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("bad.csv:3: ") && said.contains("there is no format \"mxfp7\""), "{said}");
    assert!(said.contains("other.csv: does not begin with"), "{said}");
}

#[test]
fn a_record_that_cannot_be_written_is_an_error_and_harms_no_engine() {
    let mut table = Table::bind(&generated::TABLE, &device());
    let record = Record::new(&PathBuf::from("/nonexistent/folder/record.csv"), table.data());
    table.record(record);
    let qkv = &decisions().weights[0];
    table.choose(&Request::new(qkv.key().problem(1), qkv.layout)).unwrap();
    assert!(table.recorded().unwrap().write().is_err());
}

#[test]
fn threads_lose_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.csv");
    let mut table = Table::bind(&generated::TABLE, &device());
    let record = Record::new(&path, table.data());
    table.record(record);
    let qkv = &decisions().weights[0];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for call in 0..1000 {
                    table.choose(&Request::new(qkv.key().problem(1 + call % 7), qkv.layout)).unwrap();
                }
            });
        }
    });
    // It was written before, at the powers of two from 1024 on.
    assert!(path.exists());
    drop(table);
    let calls: u64 = capture::read(&[path]).unwrap().iter().map(|request| request.calls).sum();
    assert_eq!(calls, 4000);
}
