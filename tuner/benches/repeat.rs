//! Whether winners repeat, and what a warm start saves:
//! `cargo bench -p tilewright --bench repeat -- shapes/smollm2-135m.toml`.
//!
//! Tunes a declaration three times: twice from nothing with different seeds, and once more beside the journal of the
//! first. Then each row's two first winners run against each other in the same blocks: times of different runs differ by
//! the machine's mood, a ratio within blocks does not. `--blocks N` sets their number (100), `--tables A.toml B.toml` skips
//! the tuning and compares what is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use tilewright::check::{Measured, Values, measure};
use tilewright::table::{self, Decisions, Finalist, Status};
use tilewright_kernels::cpu::Cpu;

/// A second winner this much slower than the first is as good.
const AS_GOOD: f64 = 1.01;
/// What a shared CPU's races call no difference.
const DELTA: f64 = 1.03;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let value = |name: &str, offset: usize| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + offset).cloned()
    };
    let blocks = value("--blocks", 1).map_or(Ok(100), |text| text.parse()).context("--blocks")?;
    if let (Some(first), Some(second)) = (value("--tables", 1), value("--tables", 2)) {
        return duels(Path::new(&first), Path::new(&second), blocks);
    }
    // `cargo test --all-targets` and a plain `cargo bench` name no declaration: minutes of tuning are to be asked for.
    let Some(shapes) = arguments.first().filter(|argument| argument.ends_with(".toml")) else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let out = |name: &str| folder.path().join(name);
    let [first, second] = [1, 2].map(|seed| tune(shapes, seed, &out(&seed.to_string())));
    let (first, second) = (first?, second?);
    println!("warm, from the first");
    let warm = tune(shapes, 3, &out("1"))?;
    println!(
        "launches saved by the warm start: {:.1}x; candidates: {:.1}x\n",
        first.launches / warm.launches,
        first.candidates / warm.candidates
    );
    // The warm run has replaced the first one's table, by rows that it confirmed or changed.
    let kept = first.winners.iter().filter(|winner| warm.winners.contains(winner)).count();
    println!("the warm run kept {kept} of {} winners", first.winners.len());
    std::fs::write(out("first.toml"), first.table)?;
    duels(&out("first.toml"), &second.path, blocks)
}

/// What one run said.
struct Run {
    path: PathBuf,
    table: String,
    launches: f64,
    candidates: f64,
    winners: Vec<String>,
}

fn tune(shapes: &str, seed: u32, out: &Path) -> anyhow::Result<Run> {
    let output = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(["tune", shapes, "--json", "--seed", &seed.to_string(), "--out"])
        .arg(out)
        .output()?;
    if !output.status.success() {
        bail!("tune: {}", String::from_utf8_lossy(&output.stderr));
    }
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| said[name].as_f64().unwrap_or(f64::NAN);
    let folder = said["folder"].as_str().context("folder")?;
    let path = Path::new(folder).join(format!("{}.toml", said["model"].as_str().context("model")?));
    let rows = said["rows"].as_array().context("rows")?;
    let winner =
        |row: &serde_json::Value| format!("{} {} {} {}", row["gemm"], row["m"], row["format"], row["config"]);
    let run = Run {
        table: std::fs::read_to_string(&path)?,
        path,
        launches: number("measurements"),
        candidates: number("evaluations"),
        winners: rows.iter().map(winner).collect(),
    };
    println!(
        "seed {seed}: {} candidates, {} launches, {:.0} s",
        run.candidates,
        run.launches,
        number("seconds")
    );
    Ok(run)
}

/// Races each row's second winner against the first.
fn duels(first: &Path, second: &Path, blocks: usize) -> anyhow::Result<()> {
    let (first, second) = (table::read(first)?, table::read(second)?);
    let mut pairing = second.clone();
    let mut baselines = Vec::new();
    let mut tied = 0;
    for weight in &mut pairing.weights {
        let Some(before) = first.weights.iter().find(|before| before.name == weight.name) else {
            bail!("{}: not in the first table", weight.name);
        };
        let same_plan = (before.activation, before.format, before.layout)
            == (weight.activation, weight.format, weight.layout);
        weight.rows.retain(|row| before.rows.iter().any(|other| other.m == row.m));
        for row in &mut weight.rows {
            let other = before.rows.iter().find(|other| other.m == row.m).expect("only such rows are left");
            let among =
                other.config == row.config || other.tie_set.iter().any(|tie| tie.config == row.config);
            tied += usize::from(same_plan && among);
            row.default.clone_from(&other.config);
            baselines.push(baseline(&weight.name, row.m, before.activation.name(), before.format.name()));
        }
    }
    report(&pairing, &baselines, tied, blocks)
}

fn report(pairing: &Decisions, baselines: &[Finalist], tied: usize, blocks: usize) -> anyhow::Result<()> {
    println!("second winner over first, {blocks} launches each in the same blocks (95 % interval)");
    let backend = Cpu::detect();
    let rows =
        measure(&backend, pairing, baselines, &Values::random(1), blocks, 1, &mut |row: &Measured| {
            let [centre, low, high] = row.gain.map(|gain| 100.0 * (1.0 / gain - 1.0));
            println!("  {:<16} M={:<5} {centre:+6.2} %   ({high:+.2} .. {low:+.2})", row.weight, row.m);
        })?;
    let count = |test: &dyn Fn(&[f64; 3]) -> bool| rows.iter().filter(|row| test(&row.gain)).count();
    let all = rows.len();
    println!("in the first tie set, or the same: {tied} of {all}");
    println!("within 1 % of the first, by estimate: {} of {all}", count(&|gain| 1.0 / gain[0] <= AS_GOOD));
    println!(
        "more than 1 % slower with 95 % confidence: {} of {all}",
        count(&|gain| 1.0 / gain[2] > AS_GOOD)
    );
    println!("within 3 %, by estimate: {} of {all}", count(&|gain| 1.0 / gain[0] <= DELTA));
    let logs: f64 = rows.iter().map(|row| -row.gain[0].ln()).sum();
    println!("geometric mean: {:+.2} %", 100.0 * ((logs / all.max(1) as f64).exp() - 1.0));
    Ok(())
}

/// The line of evidence that says in which formats a row's baseline runs.
fn baseline(weight: &str, m: u32, activation: &str, format: &str) -> Finalist {
    Finalist {
        weight: weight.into(),
        m,
        activation: activation.into(),
        format: format.into(),
        status: Status::Winner,
        baseline: true,
        ratio: None,
        ratio_low: None,
        ratio_high: None,
        time_ns: None,
        samples: 0,
        config: String::new(),
        id: String::new(),
        reason: String::new(),
    }
}
