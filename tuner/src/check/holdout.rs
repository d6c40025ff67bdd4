//! How good a table is at Ms it was not tuned at: every other row is taken out, what the thinned table chooses there is
//! raced against the kernel that tuning found for that very M, and the loss is the regret.
//!
//! Two rules answer from the thinned rows: the table's own intervals, through compiler and lookup as an engine has them; and,
//! for comparison, rounding M up to the next tuned M, as tables keyed on powers of two do. All kernels of an M race in the
//! same interleaved blocks. A row is held out only between two others of the same copy of its weight, so that no rule
//! has to extrapolate. The plan of a weight and the set cover saw all rows; what is tested is the choice between them.

use std::path::PathBuf;

use tilewright_dispatch::{Request, Table};
use tilewright_kernels::backend::Backend;
use tilewright_kernels::{Config, is_launchable};

use super::Values;
use super::measure::ListBench;
use crate::diag::BadInput;
use crate::race::{Entrant, RaceOptions, race};
use crate::stats::{Looks, TRIM, trimmed_mean};
use crate::table::{Decisions, Located, Lowered, Row, Weight};

/// What the rules chose for one held-out M.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// The weight's name.
    pub weight: String,
    /// The M.
    pub m: u32,
    /// The kernel that was tuned for it.
    pub own: Config,
    /// What the intervals of the thinned table choose.
    pub interval: Config,
    /// What the next tuned M above runs.
    pub rounded: Config,
    /// Time of the two choices as ratios to the own kernel's, in the same blocks; 1 where they are the same kernel.
    pub ratios: [f64; 2],
}

/// Regrets of one rule over all held-out Ms, as ratios minus 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regret {
    /// Geometric mean.
    pub geomean: f64,
    /// 95th percentile, by nearest rank.
    pub p95: f64,
    /// The largest.
    pub worst: f64,
    /// How often another kernel than the own one was chosen.
    pub differs: usize,
}

/// Which Ms of a weight are held out: every other one that has a neighbour of its own copy on both sides.
fn held(weight: &Weight) -> Vec<u32> {
    let mut held: Vec<u32> = Vec::new();
    for three in weight.rows.windows(3) {
        let [below, m, above] = [0, 1, 2].map(|row| three[row].m);
        let one_copy = weight.key_at(below) == weight.key_at(m) && weight.key_at(m) == weight.key_at(above);
        if one_copy && held.last() != Some(&below) {
            held.push(m);
        }
    }
    held
}

/// The table without its held-out rows.
fn thinned(decisions: &Decisions) -> Decisions {
    // Weights of one key share their rows: what one holds out the other may not give away.
    let all: Vec<_> = decisions
        .weights
        .iter()
        .flat_map(|weight| held(weight).into_iter().map(|m| (weight.key_at(m), m)))
        .collect();
    let weights = decisions.weights.iter().map(|weight| {
        let kept = weight.rows.iter().filter(|row| !all.contains(&(weight.key_at(row.m), row.m)));
        Weight { rows: kept.cloned().collect(), ..weight.clone() }
    });
    let weights = weights.filter(|weight| !weight.rows.is_empty()).collect();
    Decisions { weights, ..decisions.clone() }
}

/// The kernel of the next row above `m`, if it runs `m`.
fn rounded<'r>(rows: &'r [Row], runs: impl Fn(&Config) -> bool, m: u32) -> Option<Config> {
    let usable = |row: &'r Row| Config::parse(&row.config).ok().filter(&runs);
    rows.iter().filter(|row| row.m >= m.next_power_of_two() || row.m > m).find_map(usable)
}

/// Holds out, chooses and compares. `race` gives the times of some kernels at one M of a weight, block by block.
///
/// # Errors
/// Faults of the table, or what `race` fails with.
pub fn hold_out(
    decisions: &Decisions,
    mut race: impl FnMut(&Weight, u32, &[Config]) -> anyhow::Result<Vec<Vec<f64>>>,
) -> anyhow::Result<Vec<HeldOut>> {
    let thin = thinned(decisions);
    let file = PathBuf::from(format!("{}.toml", decisions.model));
    let located = Located::parse(&file, &thin.to_toml())?;
    let lowered = Lowered::of(&located)?;
    let device = decisions.device.device;
    let mut found = Vec::new();
    lowered.with(|data| {
        let table = Table::bind(data, &device);
        for weight in &decisions.weights {
            for m in held(weight) {
                let key = weight.key_at(m);
                let problem = key.problem(m);
                let deterministic = weight.deterministic;
                let choice = table.lookup(&Request { problem, layout: key.layout, deterministic })?;
                let row = weight.rows.iter().find(|row| row.m == m).expect("held out of these");
                let own = parse(&file, &row.config)?;
                let kept = thin.weights.iter().find(|kept| kept.name == weight.name);
                let runs = |config: &Config| is_launchable(config, &problem, &device).is_ok();
                let rounded = kept.and_then(|kept| rounded(&kept.rows, runs, m)).unwrap_or(own);
                let interval = *choice.config;
                let mut kernels = vec![own];
                for kernel in [interval, rounded] {
                    if !kernels.contains(&kernel) {
                        kernels.push(kernel);
                    }
                }
                let times = if kernels.len() > 1 { race(weight, m, &kernels)? } else { Vec::new() };
                let ratio = |kernel: &Config| {
                    let place = kernels.iter().position(|other| other == kernel).expect("listed");
                    if place == 0 { Some(1.0) } else { ratio(&times[place], &times[0]) }
                };
                let (Some(by_interval), Some(by_rounding)) = (ratio(&interval), ratio(&rounded)) else {
                    anyhow::bail!("{} m={m}: too few times to compare", weight.name);
                };
                let ratios = [by_interval, by_rounding];
                found.push(HeldOut { weight: weight.name.clone(), m, own, interval, rounded, ratios });
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn parse(file: &std::path::Path, text: &str) -> anyhow::Result<Config> {
    Config::parse(text).map_err(|error| {
        BadInput::one(file, format!("{text}: {error}"), "tune again with the kernels of this build").into()
    })
}

/// Trimmed mean of paired log-ratios.
fn ratio(times: &[f64], own: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = times.iter().zip(own).map(|(time, own)| (time / own).ln()).collect();
    trimmed_mean(&logs, TRIM).map(f64::exp)
}

/// Regrets by intervals and by rounding. `None` if nothing was held out.
pub fn regrets(found: &[HeldOut]) -> Option<[Regret; 2]> {
    if found.is_empty() {
        return None;
    }
    Some([0, 1].map(|rule| {
        let mut ratios: Vec<f64> = found.iter().map(|held| held.ratios[rule]).collect();
        ratios.sort_by(f64::total_cmp);
        let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let rank = (ratios.len() * 95).div_ceil(100) - 1;
        let differs = |held: &&HeldOut| [held.interval, held.rounded][rule] != held.own;
        Regret {
            geomean: (logs / ratios.len() as f64).exp() - 1.0,
            p95: ratios[rank] - 1.0,
            worst: ratios[ratios.len() - 1] - 1.0,
            differs: found.iter().filter(differs).count(),
        }
    }))
}

/// [`hold_out`] on a device. `report` hears of each M as it is raced.
///
/// # Errors
/// Faults of the table, operands that cannot be had, or a kernel that fails.
pub fn hold_out_on(
    backend: &dyn Backend,
    decisions: &Decisions,
    values: &Values,
    blocks: usize,
    seed: u64,
    report: &mut dyn FnMut(&Weight, u32),
) -> anyhow::Result<Vec<HeldOut>> {
    let mut open = None;
    hold_out(decisions, |weight, m, kernels| {
        report(weight, m);
        if open.as_ref().is_none_or(|(name, _)| *name != weight.name) {
            // The last weight goes before the next one comes: two large ones may not fit.
            open = None;
            let most = weight.rows.iter().map(|row| row.m).max().unwrap_or(1);
            let operands = values.operands(weight, &weight.formats(), most)?;
            open = Some((weight.name.clone(), backend.open(operands, decisions.regime)?));
        }
        let (_, session) = open.as_mut().expect("just opened");
        let problem = weight.key_at(m).problem(m);
        let candidates = kernels.iter().map(|kernel| (problem, *kernel)).collect();
        let options = RaceOptions {
            looks: Looks::new(vec![blocks], 0.05)?,
            max_blocks: blocks,
            seed: seed ^ u64::from(m),
            warmup_ns: 20e6,
            buffers: 5,
            sentinel: None,
            ..RaceOptions::default()
        };
        let entrants: Vec<Entrant> = (0..kernels.len())
            .map(|point| Entrant { pinned: true, ..Entrant::new(point, point as u32) })
            .collect();
        let mut bench = ListBench::new(session.as_mut(), candidates, backend);
        let outcome = race(&mut bench, &entrants, &options, &mut ())?;
        let times = (0..kernels.len()).map(|point| outcome.entrant(point).map(|e| e.samples.clone()));
        Ok(times.map(Option::unwrap_or_default).collect())
    })
}
