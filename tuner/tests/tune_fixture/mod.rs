//! A model small enough to tune in a test, in a folder of its own.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

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
count = 2
tensors = ["l.{layer}.qkv"]

[[gemm]]
name = "mlp.down"
n = 20
k = 96
bias = true
deterministic = true
tensors = ["l.{layer}.down"]
"#;

/// The model and its folder.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiny.toml"), SHAPES).unwrap();
        Fixture { folder }
    }

    /// As [`Fixture::new`], with another declaration of a model `tiny`.
    pub(crate) fn with(shapes: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiny.toml"), shapes).unwrap();
        Fixture { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn shapes(&self) -> String {
        self.path("tiny.toml").to_str().unwrap().to_string()
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.path("tables")
    }

    /// A file the run left.
    pub(crate) fn file(&self, extension: &str) -> PathBuf {
        file_in(&self.out(), extension)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        command(args).current_dir(self.folder.path()).output().unwrap()
    }

    pub(crate) fn tune(&self, args: &[&str]) -> Output {
        self.tune_into(&self.out(), args)
    }

    pub(crate) fn tune_into(&self, out: &Path, args: &[&str]) -> Output {
        let shapes = self.shapes();
        self.run(&[&["tune", &shapes, "--out", out.to_str().unwrap()], args].concat())
    }

    /// Tunes with faults injected into the worker.
    pub(crate) fn tune_faulty(&self, faults: &str, args: &[&str]) -> Output {
        let (shapes, out) = (self.shapes(), self.out());
        let args = [&["tune", &shapes, "--out", out.to_str().unwrap()], args].concat();
        command(&args).env("TILEWRIGHT_INJECT", faults).output().unwrap()
    }

    /// Starts a run with faults injected into the worker.
    pub(crate) fn spawn_faulty(&self, faults: &str, args: &[&str]) -> Child {
        let (shapes, out) = (self.shapes(), self.out());
        let args = [&["tune", &shapes, "--out", out.to_str().unwrap()], args].concat();
        let mut command = command(&args);
        command.env("TILEWRIGHT_INJECT", faults).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let (shapes, out) = (self.shapes(), self.out());
        let args = [&["tune", &shapes, "--out", out.to_str().unwrap()], args].concat();
        command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// The model's file in the one device folder of `out`.
pub(crate) fn file_in(out: &Path, extension: &str) -> PathBuf {
    let device =
        fs::read_dir(out).ok().and_then(|mut entries| entries.next()).map(|entry| entry.unwrap().path());
    device.unwrap_or_else(|| out.join("no-device")).join(format!("tiny.{extension}"))
}

/// The records of one kind in a journal.
pub(crate) fn records(journal: &Path, kind: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(journal).unwrap();
    let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line.split_once(' ')?.1).ok();
    text.lines().filter_map(parse).filter(|record| record["t"] == kind).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.args(args);
    command
}
