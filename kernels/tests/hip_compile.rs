//! Compiling HIP kernels: faults name their cause, the cache holds what it says. Compilers are played by shell
//! scripts, so nothing has to be installed; where `TILEWRIGHT_HIP_CLANG` names a real one, it is tested too.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tilewright_kernels::hip::compile::{Clang, CompileFault, Compiler, Toolchain};
use tilewright_kernels::hip::launch::Source;

/// A folder of the test's own under the build folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn script(path: &Path, text: &str) {
    // A file that this process wrote may still be open in another test's child that is just starting, and such a file
    // cannot be executed. So another process writes it.
    let draft = path.with_extension("draft");
    fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new("cp").arg("-p").args([&draft, path]).status().unwrap().success());
}

/// A clang that does `compile` when it is asked to, and a linker that copies.
fn played(folder: &Path, version: &str, compile: &str) -> Result<Clang, String> {
    let lld = folder.join("ld.lld");
    script(&lld, r#"case "$1" in --version) echo "LLD 99";; *) cp kernel.o kernel.co;; esac"#);
    let clang = folder.join("clang");
    let lld = lld.display();
    script(
        &clang,
        &format!(
            r#"case "$1" in --version) echo "{version}";; -print-prog-name=*) echo {lld};; *) {compile};; esac"#
        ),
    );
    Clang::at(&clang)
}

fn source(define: &str) -> Source {
    Source {
        file: "empty.hip",
        text: "extern \"C\" __attribute__((global)) void empty(int *to) { *to = VALUE; }",
        entry: "empty",
        defines: vec![define.to_string()],
    }
}

const NEW: &str = "clang version 99.0.0";

#[test]
fn a_crash_names_the_signal_and_the_candidate() {
    let clang = played(&folder("crash"), NEW, "kill -SEGV $$").unwrap();
    let fault = clang.compile(&source("VALUE=7"), "gfx950", Duration::from_secs(60)).unwrap_err();
    assert!(matches!(fault, CompileFault::Crashed(..)), "{fault}");
    assert_eq!(fault.to_string(), "empty.hip for gfx950 with VALUE=7: the compiler crashed: signal 11");
}

#[test]
fn a_driver_that_reports_a_crash_by_its_exit_code_is_understood() {
    let clang = played(&folder("driver"), NEW, "echo cc1 died >&2; exit 139").unwrap();
    let fault = clang.compile(&source("VALUE=7"), "gfx950", Duration::from_secs(60)).unwrap_err();
    let CompileFault::Crashed(_, how) = &fault else { panic!("{fault}") };
    assert_eq!(how, "signal 11 (exit code 139)\ncc1 died");
}

#[test]
fn a_compiler_that_hangs_is_ended_with_what_it_started() {
    let at = folder("hang");
    let clang =
        played(&at, NEW, &format!("sleep 600 & echo $! > {}; wait", at.join("child").display())).unwrap();
    let fault = clang.compile(&source("VALUE=7"), "gfx942", Duration::from_millis(300)).unwrap_err();
    assert!(matches!(fault, CompileFault::TimedOut(..)), "{fault}");
    assert!(fault.to_string().ends_with("the compiler was ended after 0.3 s"), "{fault}");
    if let Ok(child) = fs::read_to_string(at.join("child")) {
        // It was told to end; the kernel may take a moment to do so.
        let runs = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let ended = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !runs()
        });
        assert!(ended, "process {child} still runs");
    }
}

#[test]
fn a_refused_source_gives_the_compilers_words_once() {
    let at = folder("refused");
    let count = at.join("count");
    let clang =
        played(&at, NEW, &format!("echo x >> {}; echo 'no such builtin' >&2; exit 1", count.display()))
            .unwrap();
    let compiler = Compiler::new(Box::new(clang), Some(at.join("cache")));
    for _ in 0..3 {
        let fault = compiler.object(&source("VALUE=7"), "gfx942").unwrap_err();
        assert!(matches!(fault, CompileFault::Refused(..)), "{fault}");
        assert!(fault.to_string().ends_with("no such builtin"), "{fault}");
    }
    assert_eq!(fs::read_to_string(count).unwrap(), "x\n", "the fault was not remembered");
}

#[test]
fn an_old_clang_and_a_program_that_is_none_are_refused_by_name() {
    assert!(played(&folder("old"), "clang version 14.0.6", "true").unwrap_err().contains("at least 20"));
    assert!(played(&folder("none"), "gcc 12", "true").unwrap_err().contains("not a clang's"));
    assert_eq!(Clang::at(Path::new("/no/such/clang")).unwrap_err(), "not there");
    let python = folder("python").join("python3");
    script(&python, "echo \"ModuleNotFoundError: No module named 'ziglang'\" >&2; exit 1");
    assert!(Clang::at(&python).unwrap_err().contains("ziglang"));
}

#[test]
fn the_cache_answers_for_the_same_kernel_only_and_survives_damage() {
    let at = folder("cache");
    let count = at.join("count");
    // The "object" is the number of compilations so far.
    let compile = format!("echo x >> {0}; wc -l < {0} > kernel.o", count.display());
    let cache = at.join("cache");
    let compiler = |version| {
        let clang = played(&at, version, &compile).unwrap();
        Compiler::new(Box::new(clang), Some(cache.clone()))
    };
    let object = |compiler: &Compiler, define, arch| {
        String::from_utf8(compiler.object(&source(define), arch).unwrap()).unwrap().trim().to_string()
    };
    let first = compiler(NEW);
    assert_eq!(object(&first, "VALUE=1", "gfx942"), "1");
    assert_eq!(object(&first, "VALUE=1", "gfx942"), "1", "not cached");
    assert_eq!(object(&first, "VALUE=2", "gfx942"), "2", "another definition");
    assert_eq!(object(&first, "VALUE=1", "gfx950"), "3", "another architecture");
    let second = compiler("clang version 99.0.1");
    assert_eq!(object(&second, "VALUE=1", "gfx942"), "4", "another compiler");
    assert_eq!(object(&compiler(NEW), "VALUE=1", "gfx942"), "1", "not kept between compilers");
    for entry in fs::read_dir(&cache).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes.pop();
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(object(&compiler(NEW), "VALUE=1", "gfx942"), "5", "a torn file was used");
}

#[test]
fn the_compiler_at_hand_makes_code_objects_for_both_architectures() {
    if std::env::var_os("TILEWRIGHT_HIP_CLANG").is_none() {
        println!("skipped: TILEWRIGHT_HIP_CLANG names no compiler");
        return;
    }
    let clang = Clang::find().unwrap();
    for arch in ["gfx942", "gfx950"] {
        let object = clang.compile(&source("VALUE=7"), arch, Duration::from_secs(120)).unwrap();
        assert_eq!(&object[..4], b"\x7fELF");
        assert!(object.windows(9).any(|w| w == b"empty.kd\0"));
    }
    let fault = clang.compile(&source("VALUE=nothing"), "gfx950", Duration::from_secs(120)).unwrap_err();
    assert!(matches!(&fault, CompileFault::Refused(_, log) if log.contains("empty.hip:1:")), "{fault}");
}
