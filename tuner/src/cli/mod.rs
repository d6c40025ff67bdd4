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
mod export;
mod holdout;
mod import;
#[cfg(feature = "emulator")]
mod inspect;
mod lint;
mod manual;
mod merge;
mod plan;
mod replay;
mod report;
mod shapes;
mod tune;
mod verify;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tilewright_kernels::backend::Backend;

use crate::style;
use crate::table::Decisions;

/// GEMM autotuner and dispatch-table compiler.
#[derive(Parser)]
#[command(name = "tilewright", version)]
pub struct Cli {
    /// Say nothing but results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Shapes(shapes::ShapesArgs),
    Tune(Box<tune::TuneArgs>),
    Compare(compare::CompareArgs),
    /// Compile tables (.toml) into Rust modules (.rs).
    Compile(compile::Args),
    /// Explain why a table picks the kernel it picks.
    Explain(explain::Args),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    #[cfg(feature = "emulator")]
    Inspect(inspect::InspectArgs),
    Lint(lint::LintArgs),
    Verify(verify::VerifyArgs),
    Bench(bench::BenchArgs),
    Holdout(holdout::HoldoutArgs),
    #[cfg(feature = "cuda")]
    Code(code::CodeArgs),
    Devices(devices::DevicesArgs),
    #[cfg(feature = "emulator")]
    Emulate(emulate::EmulateArgs),
    Replay(replay::Args),
    Report(report::ReportArgs),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    Merge(merge::MergeArgs),
    Plan(plan::PlanArgs),
    Worker(worker::WorkerArgs),
}

impl Cli {
    /// Runs the command. Exit codes: 0 done, 1 a check failed, 2 bad usage or input.
    ///
    /// # Errors
    /// What the command could not do; `main` prints it.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        style::set_level(self.quiet, self.verbose);
        match self.command {
            Command::Tune(args) => args.run(),
            Command::Verify(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Holdout(args) => args.run(),
            #[cfg(feature = "cuda")]
            Command::Code(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Devices(args) => args.run(),
            #[cfg(feature = "emulator")]
            Command::Emulate(args) => args.run(),
            Command::Export(args) => args.run(),
            Command::Import(args) => args.run(),
            #[cfg(feature = "emulator")]
            Command::Inspect(args) => args.run(),
            Command::Lint(args) => args.run(),
            Command::Replay(args) => replay::run(args),
            Command::Report(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
            Command::Merge(args) => args.run(),
            Command::Plan(args) => args.run(),
            Command::Worker(args) => args.run(),
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
        style::warn(&format!("the table was made on another device\n  table  {table}\n  here   {here}"));
    }
}
