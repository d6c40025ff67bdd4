//! The command line: one module a command, each with its `Args` and `run`.

mod bench;
#[cfg(feature = "cuda")]
mod code;
mod compare;
mod compile;
mod devices;
#[cfg(feature = "emulator")]
mod emulate;
mod explain;
mod import;
mod lint;
mod manual;
mod replay;
mod shapes;
mod tune;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tilewright_kernels::backend::Backend;

use crate::table::Decisions;

/// GEMM autotuner and dispatch-table compiler.
#[derive(Parser)]
#[command(name = "tilewright", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Shapes(shapes::ShapesArgs),
    Tune(Box<tune::TuneArgs>),
    Compare(compare::CompareArgs),
    /// Compiles tables (.toml) into Rust modules (.rs).
    Compile(compile::Args),
    /// Explains why a table picks the kernel it picks.
    Explain(explain::Args),
    Import(import::ImportArgs),
    Lint(lint::LintArgs),
    Verify(verify::VerifyArgs),
    Bench(bench::BenchArgs),
    #[cfg(feature = "cuda")]
    Code(code::CodeArgs),
    Devices(devices::DevicesArgs),
    #[cfg(feature = "emulator")]
    Emulate(emulate::EmulateArgs),
    Replay(replay::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

impl Cli {
    /// Runs the command. Exit codes: 0 done, 1 a check failed, 2 bad usage or input.
    ///
    /// # Errors
    /// What the command could not do; `main` prints it.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Tune(args) => args.run(),
            Command::Verify(args) => args.run(),
            Command::Bench(args) => args.run(),
            #[cfg(feature = "cuda")]
            Command::Code(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Devices(args) => args.run(),
            #[cfg(feature = "emulator")]
            Command::Emulate(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Lint(args) => args.run(),
            Command::Replay(args) => replay::run(args),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
            Command::Shapes(args) => args.run(),
            Command::Compile(args) => compile::run(&args),
            Command::Explain(args) => explain::run(&args),
        }
    }
}

/// Says on standard error where a table was made on another device than this one.
fn warn_of_other_device(decisions: &Decisions, backend: &dyn Backend) {
    let (table, here) = (&decisions.device.fingerprint, backend.fingerprint().to_string());
    if *table != here {
        eprintln!("warning: the table was made on another device\n  table  {table}\n  here   {here}");
    }
}
