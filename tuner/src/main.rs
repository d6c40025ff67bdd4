//! `tilewright`: declares, tunes, compiles and explains GEMM dispatch tables.

use std::process::ExitCode;

use clap::Parser;
use tilewright::cli::Cli;
use tilewright::diag::CheckFailed;
use tilewright::style;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            style::error(&format!("{error:#}"));
            ExitCode::from(if error.is::<CheckFailed>() { 1 } else { 2 })
        }
    }
}
