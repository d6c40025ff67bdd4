//! `tilewright replay`: tunes recorded spaces, to see how good search and race are.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::replay::{Plan, Recording, Report, device_race, render, replay_race, replay_search};
use crate::search::STRATEGIES;

/// Replay brute-forced spaces through the real search and race.
///
/// Each file is a csv, gzipped or not, with a line for each legal config: its parameters, and raw timings in columns named
/// t0_ms, t1_ms, and so on. Prints how many evaluations a search needs until it is within 10, 5 and 1 % of the optimum, and
/// samples and regret of races between close candidates.
#[derive(Parser)]
pub(super) struct Args {
    /// The recordings.
    #[arg(required = true, value_name = "SPACES.CSV.GZ")]
    spaces: Vec<PathBuf>,
    /// How to search.
    #[arg(long, default_value = STRATEGIES[0], value_parser = STRATEGIES)]
    strategy: String,
    /// Runs on each recording.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: u32,
    /// The first run's seed; the others count up from it.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Start from the ten best configs of this recording.
    #[arg(long, value_name = "OTHER.CSV.GZ")]
    warm_from: Option<PathBuf>,
    /// Evaluations after which a run is given up.
    #[arg(long, default_value_t = 2000)]
    max_evaluations: usize,
    /// First timings of each config that are not used, because the clocks had not settled.
    #[arg(long, default_value_t = 8)]
    skip: usize,
    /// Leave out the races.
    #[arg(long)]
    no_races: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        strategy: args.strategy,
        seeds: args.seeds as usize,
        first_seed: args.first_seed,
        max_evaluations: args.max_evaluations.max(1),
        skip: args.skip,
        warm: 10,
    };
    let warm_from = args.warm_from.as_deref().map(Recording::read).transpose()?;
    let mut report = Report::default();
    for path in &args.spaces {
        let recording = Recording::read(path)?;
        report.searches.push(replay_search(&recording, warm_from.as_ref(), &plan));
        if !args.no_races {
            report.races.push(replay_race(&recording, 32, 400, &device_race(), &plan));
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", render(&report));
    }
    Ok(ExitCode::SUCCESS)
}
