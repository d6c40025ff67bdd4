//! Table files that compile and files that do not, one file a case: drop a file into `fixtures/tables/{pass,fail}` and
//! it is a test. A file is a patch of the fixture table: lines `path = value` replace fields by dotted path, and
//! `%name%` stands for a kernel's canonical text, so that cases do not depend on the kernels' parameters.
//!
//! `TILEWRIGHT_BLESS=1` rewrites the expected messages.

mod table_fixture;

use std::fs;
use std::path::{Path, PathBuf};

use table_fixture::{decisions, default, skinny, threads};
use tilewright::table::{Located, compile_located};
use tilewright_kernels::{Config, Format, Layout, Problem};

fn cases(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tables").join(kind);
    let mut cases: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|ext| ext == "patch"));
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

/// Kernels by the name cases give them.
fn kernels() -> Vec<(&'static str, Config)> {
    let mxfp6 = Problem::new(64, 576, 1536, Format::MxFp6E2m3);
    let bf16 = Problem::new(64, 576, 1536, Format::Bf16);
    let panel = Layout::Panel16;
    vec![
        ("skinny", skinny(&mxfp6, panel, 2)),
        ("skinny1", skinny(&mxfp6, panel, 0)),
        ("skinny2", skinny(&mxfp6, panel, 1)),
        ("tiled", threads(&mxfp6, panel, 4)),
        ("tiled2", threads(&mxfp6, panel, 2)),
        ("too_many_threads", default(&mxfp6, panel).with("threads", 8)),
        ("row_major", default(&mxfp6, Layout::RowMajor)),
        ("bf16", default(&bf16, panel)),
    ]
}

/// The fixture's text with a case's lines replaced.
fn text_of(case: &Path, patch: &str) -> String {
    let mut decisions = decisions();
    decisions.model = case.file_stem().unwrap().to_str().unwrap().to_owned();
    // One weight is enough, and keeps line numbers short.
    decisions.weights.drain(..3);
    decisions.weights.truncate(1);
    decisions.weights[0].rows.remove(1);
    let mut text = decisions.to_toml();
    for line in patch.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let line = kernels().iter().fold(line.to_owned(), |line, (name, kernel)| {
            line.replace(&format!("%{name}%"), &kernel.to_string())
                .replace(&format!("%{name}.id%"), &kernel.id().to_string())
        });
        text = match line.strip_prefix("+ ") {
            Some(line) => format!("{text}{}\n", line.replace("\\n", "\n")),
            None => replaced(&text, &line),
        };
    }
    text
}

/// `m=64 time_ns = 0.0` replaces the field in the row of that M; without `m=…` the first field of that name.
fn replaced(text: &str, patch: &str) -> String {
    let (row, patch) = match patch.strip_prefix("m=").and_then(|rest| rest.split_once(' ')) {
        Some((m, patch)) => (Some(format!("\nm = {m}\n")), patch),
        None => (None, patch),
    };
    let key = patch.split(" = ").next().unwrap();
    let from = row.map_or(0, |row| text.find(&row).unwrap_or_else(|| panic!("no row {row}")));
    let start =
        from + text[from..].find(&format!("\n{key} = ")).unwrap_or_else(|| panic!("no field {key}")) + 1;
    let line = text[start..].lines().next().unwrap();
    let end = if line.ends_with('[') { text[start..].find("\n]").unwrap() + 2 } else { line.len() };
    format!("{}{}{}", &text[..start], patch.replace("\\n", "\n"), &text[start + end..])
}

/// Messages with kernels' texts folded back into names.
fn folded(messages: &str) -> String {
    kernels().iter().fold(messages.to_owned(), |messages, (name, kernel)| {
        messages
            .replace(&kernel.to_string(), &format!("%{name}%"))
            .replace(&kernel.id().to_string(), &format!("%{name}.id%"))
    })
}

fn run(case: &Path) -> Result<Vec<String>, String> {
    let file = PathBuf::from(format!("{}.toml", case.file_stem().unwrap().to_str().unwrap()));
    let text = text_of(case, &fs::read_to_string(case).unwrap());
    let compiled = Located::parse(&file, &text).and_then(|located| compile_located(&located));
    compiled.map(|compiled| compiled.warnings).map_err(|bad| bad.to_string())
}

fn compare(case: &Path, found: &str, differing: &mut Vec<String>) {
    let expected_file = case.with_extension("stderr");
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        fs::write(&expected_file, found).unwrap();
    }
    let expected = fs::read_to_string(&expected_file).unwrap_or_default();
    if expected != found {
        differing.push(format!("{}\n--- expected\n{expected}--- found\n{found}", case.display()));
    }
}

#[test]
fn faulty_tables_are_refused_with_every_fault_and_its_line() {
    let mut differing = Vec::new();
    for case in cases("fail") {
        match run(&case) {
            Err(messages) => compare(&case, &(folded(&messages) + "\n"), &mut differing),
            Ok(_) => differing.push(format!("{} compiles", case.display())),
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn sound_tables_compile_with_the_warnings_they_deserve() {
    let mut differing = Vec::new();
    for case in cases("pass") {
        match run(&case) {
            Ok(warnings) => {
                let lines: String = warnings.iter().map(|warning| folded(warning) + "\n").collect();
                compare(&case, &lines, &mut differing);
            }
            Err(messages) => differing.push(format!("{}: {messages}", case.display())),
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
