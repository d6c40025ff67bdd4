//! What a person sees: colour only where it is wanted, remarks that can be turned off, errors that say what to do.

use std::path::Path;
use std::process::{Command, Output};

fn run(environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import/aiter");
    command.current_dir(fixtures).envs(environment.iter().copied()).args(arguments).output().unwrap()
}

fn has_colour(bytes: &[u8]) -> bool {
    bytes.contains(&0x1b)
}

const LINT: [&str; 2] = ["lint", "gptoss_bf16_tuned_gemm.csv"];

#[test]
fn a_pipe_gets_no_colour_unless_it_is_forced_and_never_under_no_color() {
    let plain = run(&[], &LINT);
    assert!(!plain.stdout.is_empty() && !has_colour(&plain.stdout));
    let forced = run(&[("CLICOLOR_FORCE", "1")], &LINT);
    assert!(has_colour(&forced.stdout));
    let refused = run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &LINT);
    assert_eq!(refused.stdout, plain.stdout);
    // Errors too, and JSON never.
    assert!(has_colour(&run(&[("CLICOLOR_FORCE", "1")], &["lint", "none.csv"]).stderr));
    assert!(!has_colour(&run(&[], &["lint", "none.csv"]).stderr));
    let json = run(&[("CLICOLOR_FORCE", "1")], &[&LINT[..], &["--json"]].concat());
    assert!(!has_colour(&json.stdout));
}

#[test]
fn quiet_leaves_out_remarks_and_keeps_results_and_errors() {
    let import = ["import", "aiter", "llama405B_untuned_gemm.csv"];
    let (loud, quiet) = (run(&[], &import), run(&[], &[&["-q"], &import[..]].concat()));
    assert!(!loud.stderr.is_empty() && quiet.stderr.is_empty());
    assert_eq!(loud.stdout, quiet.stdout);
    assert_eq!(run(&[], &[&import[..], &["--quiet"]].concat()).stderr, b"");
    let failed = run(&[], &["-q", "lint", "none.csv"]);
    assert!(!failed.stderr.is_empty() && failed.status.code() == Some(2));
}

#[test]
fn verbose_shows_every_finding() {
    let text = |arguments: &[&str]| String::from_utf8_lossy(&run(&[], arguments).stdout).into_owned();
    let (short, long) = (text(&[&LINT[..], &["--show", "1"]].concat()), text(&[&LINT[..], &["-v"]].concat()));
    assert!(short.contains(" more [") && !long.contains(" more ["), "{short}");
    assert!(long.lines().count() > short.lines().count());
}

#[test]
fn an_error_says_what_to_do() {
    for (arguments, help) in [
        (&["lint", "none.csv"][..], "check the path"),
        (&["report", "none.toml", "--html", "x.html"], "give the path of a table's .toml file"),
        (&["compare", "a.toml", "b.toml"], "give the path of a table's .toml file"),
        (&["export", "aiter", "LICENSE", "--out", "x"], "import again"),
    ] {
        let output = run(&[], arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("error: ") && said.contains("help: ") && said.contains(help), "{said}");
    }
}
