//! The header says what the library does: a C program and a Python program against it, and its functions by name.
//! The programs are left out where there is no compiler or interpreter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tilewright_capi::TwChoice;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The shared library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("{}tilewright_capi{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    test.ancestors().skip(1).take(2).map(|folder| folder.join(&name)).find(|path| path.exists()).expect(&name)
}

fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_c_program_built_with_the_header_computes_and_records() {
    if !exists("cc") {
        eprintln!("no C compiler: left out");
        return;
    }
    let library = library();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, misses) = (folder.join("gemm"), folder.join("misses.toml"));
    let record = folder.join("record.csv");
    let _ = std::fs::remove_file(&record);
    // So that a file of an earlier run is not taken for this one's.
    let _ = std::fs::remove_file(&misses);
    run(Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(Path::new(HERE).join("include"))
        .arg(Path::new(HERE).join("examples/gemm.c"))
        .arg(&library)
        .args(["-lm", "-o"])
        .arg(&program)
        .arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display())));
    let said = run(Command::new(&program).arg(&misses).env("TILEWRIGHT_RECORD", &record));
    assert!(said.contains("cpu.tiled_bf16@") || said.contains("cpu.skinny_bf16@"), "{said}");
    assert!(said.contains("there is no format \"fp7\""), "{said}");
    assert!(said.contains("the table has no weight of that name"), "{said}");
    let written = std::fs::read_to_string(&misses).unwrap();
    assert!(written.contains("n = 48\nk = 96\ncount = 1\n"), "{written}");
    let recorded = std::fs::read_to_string(&record).unwrap();
    assert!(recorded.contains(",48,96,bf16,"), "{recorded}");
}

#[test]
fn a_python_program_runs_through_ctypes() {
    if !exists("python3") {
        eprintln!("no Python: left out");
        return;
    }
    let said = run(Command::new("python3").arg(Path::new(HERE).join("examples/gemm.py")).arg(library()));
    assert!(said.starts_with("cpu."), "{said}");
}

#[test]
fn the_header_declares_every_function_and_the_struct_of_this_size() {
    let read = |file: &str| std::fs::read_to_string(Path::new(HERE).join(file)).unwrap();
    let names = |text: &str, before: &str| -> BTreeSet<String> {
        let words =
            text.split(before).skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let calls = words.zip(text.split(before).skip(1)).filter_map(|(mut words, rest)| {
            let name = words.next()?;
            rest[name.len()..].starts_with('(').then(|| name.to_owned())
        });
        calls.collect()
    };
    let exported = names(&read("src/lib.rs"), "extern \"C\" fn tw_");
    assert_eq!(exported, names(&read("include/tilewright.h"), "tw_"));
    assert_eq!(exported.len(), 12);
    // 8 + 4 + 4 + 4 + 4 + 256, as the Python example has it too.
    assert_eq!(size_of::<TwChoice>(), 280);
}
