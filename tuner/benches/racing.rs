//! Races of known outcome on this machine, with real timings: `cargo bench -p tilewright --bench racing`.
//!
//! Eight candidates run the same loop, five of them for equally many rounds and one each for 2, 5 and 20 % more. A race
//! that eliminates one of the five is wrong; one that keeps the 2 % slower one has not seen enough. Runs without and with a
//! second process that keeps a core busy, and the same candidates timed one after the other, as tuners commonly do, for
//! contrast. `-- --races N` sets the number of races (200).
//!
//! `-- --spaces A.csv.gz B.csv.gz …` prints, before that, what `tilewright replay` finds on recorded spaces: searches from
//! nothing and warm from each other one, races, search and race together, `--seeds N` runs of each (100). What needs whole
//! tuning runs, whether winners repeat and what a warm start saves, is the bench `repeat`.

use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use tilewright::bench::{Bench, BenchFault, Sample};
use tilewright::race::{Entrant, RaceOptions, Status, Verdict, race};
use tilewright::replay::{
    Plan, Recording, Report, device_race, render, replay_race, replay_search, replay_tuning,
};
use tilewright::search::STRATEGIES;
use tilewright::stats::{Looks, TRIM, trimmed_mean, yuen};

/// Rounds of the loop, as a ratio to the fastest.
const FIELD: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.02, 1.05, 1.20];
const IDENTICAL: usize = 5;
/// Rounds of the fastest: about 60 µs.
const ROUNDS: usize = 50_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--spin") {
        spin();
    }
    // `cargo test --all-targets` runs this without `--bench`; it measures nothing worth asserting.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|index| arguments.get(index + 1)?.parse().ok()).unwrap_or(default)
    };
    let races = number("--races", 200);
    let spaces: Vec<&String> = arguments
        .iter()
        .skip_while(|argument| *argument != "--spaces")
        .skip(1)
        .take_while(|argument| !argument.starts_with("--"))
        .collect();
    replay(&spaces, number("--seeds", 100) as usize);
    println!("{races} races of 8: five identical, +2 %, +5 %, +20 %");
    println!(
        "{:<34} {:>15} {:>23} {:>12} {:>9} {:>11}",
        "", "identical one", "eliminated", "samples per", "", ""
    );
    println!(
        "{:<34} {:>15} {:>23} {:>12} {:>9} {:>11}",
        "", "eliminated", "+2 % / +5 % / +20 %", "candidate", "tie set", "ambiguous"
    );
    for loaded in [false, true] {
        let load = loaded.then(Load::start);
        let name = if loaded { "a second process spinning" } else { "no load of ours" };
        report(&format!("randomised blocks, {name}"), races, interleaved);
        report(&format!("one after the other, {name}"), races, blocked);
        drop(load);
    }
}

/// Prints what the real search and race do on recordings.
fn replay(files: &[&String], seeds: usize) {
    let recordings: Vec<Recording> = files
        .iter()
        .map(|file| Recording::read(Path::new(file)).unwrap_or_else(|bad| panic!("{bad}")))
        .collect();
    let plan = Plan {
        strategy: STRATEGIES[0].into(),
        seeds,
        first_seed: 0,
        max_evaluations: 2000,
        skip: 8,
        warm: 10,
    };
    let mut report = Report::default();
    for recording in &recordings {
        report.searches.push(replay_search(recording, None, &plan));
        report.races.push(replay_race(recording, 32, 400, &device_race(), &plan));
        report.tunings.push(replay_tuning(recording, &device_race(), &plan));
    }
    for recording in &recordings {
        let others = recordings.iter().filter(|other| other.name != recording.name);
        report.searches.extend(others.map(|other| replay_search(recording, Some(other), &plan)));
    }
    if !recordings.is_empty() {
        println!("{}", render(&report));
    }
}

/// A second process that keeps a core busy until dropped.
struct Load(Child);

impl Load {
    fn start() -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        Load(Command::new(program).arg("--spin").spawn().expect("this program can be started again"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing else to do about it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spin() -> ! {
    loop {
        black_box(work(black_box(1_000_000)));
    }
}

/// A dependent chain that the compiler cannot shorten: its time is proportional to the rounds.
fn work(rounds: usize) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..rounds {
        state = black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(17));
    }
    state
}

struct LoopBench {
    began: Instant,
}

impl Bench for LoopBench {
    fn resolution_ns(&self) -> f64 {
        // The clock counts nanoseconds; two readings of it lie some 25 ns apart.
        25.0
    }

    fn measure(&mut self, point: usize, _slot: usize) -> Result<Sample, BenchFault> {
        let rounds = (FIELD[point] * ROUNDS as f64) as usize;
        let start = Instant::now();
        black_box(work(black_box(rounds)));
        let ns = start.elapsed().as_nanos() as f64;
        Ok(Sample { ns, at_ns: self.began.elapsed().as_nanos() as f64 })
    }
}

/// What became of one race.
struct Result8 {
    eliminated: [bool; 8],
    samples: f64,
    tie_set: usize,
    ambiguous: bool,
}

fn report(name: &str, races: u64, run: fn(u64) -> Result8) {
    let results: Vec<Result8> = (0..races).map(run).collect();
    let share = |test: &dyn Fn(&Result8) -> bool| {
        100.0 * results.iter().filter(|result| test(result)).count() as f64 / results.len().max(1) as f64
    };
    let mean = |value: &dyn Fn(&Result8) -> f64| {
        results.iter().map(value).sum::<f64>() / results.len().max(1) as f64
    };
    let wrong = share(&|result| result.eliminated[..IDENTICAL].contains(&true));
    let right: Vec<String> =
        (IDENTICAL..8).map(|index| format!("{:.0}", share(&|result| result.eliminated[index]))).collect();
    println!(
        "{name:<46} {wrong:>5.1} % {:>20} % {:>10.1} {:>10.1} {:>9.1} %",
        right.join(" / "),
        mean(&|result| result.samples),
        mean(&|result| result.tie_set as f64),
        share(&|result| result.ambiguous),
    );
}

fn interleaved(seed: u64) -> Result8 {
    let entrants: Vec<Entrant> = (0..FIELD.len()).map(|point| Entrant::new(point, point as u32)).collect();
    let options = RaceOptions { seed, warmup_ns: 10e6, ..RaceOptions::default() };
    let mut bench = LoopBench { began: Instant::now() };
    let outcome = race(&mut bench, &entrants, &options, &mut ()).expect("eight distinct entrants");
    let mut eliminated = [false; 8];
    for entrant in &outcome.entrants {
        eliminated[entrant.point] = matches!(entrant.status, Status::Eliminated { .. });
    }
    Result8 {
        eliminated,
        samples: (outcome.measurements - outcome.warmup_measurements) as f64 / FIELD.len() as f64,
        tie_set: outcome.tie_set.len(),
        ambiguous: matches!(outcome.verdict, Verdict::Ambiguous(_)),
    }
}

/// Forty launches of each candidate in a row, judged by the same statistic at the same level.
fn blocked(_seed: u64) -> Result8 {
    const LAUNCHES: usize = 40;
    let mut bench = LoopBench { began: Instant::now() };
    let mut time = |point: usize| match bench.measure(point, 0) {
        Ok(sample) => sample.ns.ln(),
        Err(fault) => unreachable!("a loop cannot fail: {fault:?}"),
    };
    let tracks: Vec<Vec<f64>> =
        (0..FIELD.len()).map(|point| (0..LAUNCHES).map(|_| time(point)).collect()).collect();
    let location = |track: &Vec<f64>| trimmed_mean(track, TRIM).expect("forty values");
    let leader = (0..FIELD.len())
        .min_by(|a, b| location(&tracks[*a]).total_cmp(&location(&tracks[*b])))
        .expect("eight candidates");
    let level = Looks::default().level(FIELD.len() * (FIELD.len() - 1) / 2);
    let mut eliminated = [false; 8];
    for point in (0..FIELD.len()).filter(|point| *point != leader) {
        let ratios: Vec<f64> = tracks[point].iter().zip(&tracks[leader]).map(|(a, b)| a - b).collect();
        eliminated[point] = yuen(&ratios, TRIM).expect("forty values").lower_bound(level) > 0.0;
    }
    let tie_set = eliminated.iter().filter(|gone| !**gone).count();
    Result8 { eliminated, samples: LAUNCHES as f64, tie_set, ambiguous: false }
}
