//! The command line: one module a command, each with its `Args` and `run`.

mod devices;
mod manual;
mod replay;
mod shapes;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// GEMM autotuner and dispatch-table compiler.
#[derive(Parser)]
#[command(name = "tilewright", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tune(Box<tune::TuneArgs>),
    Devices(devices::DevicesArgs),
    Replay(replay::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    Shapes(shapes::ShapesArgs),
}

impl Cli {
    /// Runs the command. Exit codes: 0 done, 1 a check failed, 2 bad usage or input.
    ///
    /// # Errors
    /// What the command could not do; `main` prints it.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Tune(args) => args.run(),
            Command::Devices(args) => args.run(),
            Command::Replay(args) => replay::run(args),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
            Command::Shapes(args) => args.run(),
        }
    }
}
