//! `tilewright holdout`.

use std::path::PathBuf;
use std::process::ExitCode;

use tilewright_kernels::cpu::Cpu;

use crate::check::{self, HeldOut, Regret, Values};
use crate::table;

/// What a table loses at Ms it was not tuned at: holds out every other row and races what the rest chooses there.
#[derive(clap::Args)]
pub(super) struct HoldoutArgs {
    /// The table's .toml file. The more M it has, the more this says.
    table: PathBuf,
    /// Launches of each kernel at each M.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(6..=1000))]
    blocks: u16,
    /// Seed of operands and orders.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl HoldoutArgs {
    /// Holds out, measures and prints.
    ///
    /// # Errors
    /// Bad input, or a kernel that fails.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let decisions = table::read(&self.table)?;
        let cpu = Cpu::detect();
        super::warn_of_other_device(&decisions, &cpu);
        let values = Values::random(self.seed);
        let blocks = usize::from(self.blocks);
        let found = check::hold_out_on(&cpu, &decisions, &values, blocks, self.seed, &mut |_, _| {})?;
        let Some(regrets) = check::regrets(&found) else {
            anyhow::bail!(
                "{}: no weight has three rows: there is nothing to hold out; tune at more M",
                self.table.display()
            );
        };
        if self.json {
            let rows: Vec<_> = found.iter().map(json).collect();
            let [intervals, rounding] = regrets.map(|regret| {
                serde_json::json!({
                    "geomean": regret.geomean, "p95": regret.p95, "worst": regret.worst, "differs": regret.differs,
                })
            });
            let all = serde_json::json!({ "rows": rows, "intervals": intervals, "rounding_up": rounding });
            println!("{}", serde_json::to_string_pretty(&all)?);
            return Ok(ExitCode::SUCCESS);
        }
        println!("{:<20} {:>6}  {:>9}  {:>11}", "gemm", "M", "intervals", "rounding up");
        for HeldOut { weight, m, ratios, .. } in &found {
            let [interval, rounded] = ratios.map(|ratio| percent(ratio - 1.0));
            println!("{weight:<20} {m:>6}  {interval:>9}  {rounded:>11}");
        }
        println!(
            "\nRegret at {} held-out M, against the kernel tuned for that M, in the same blocks:",
            found.len()
        );
        let names = ["the table's intervals", "the next tuned M"];
        for (name, Regret { geomean, p95, worst, differs }) in names.into_iter().zip(regrets) {
            let [geomean, p95, worst] = [geomean, p95, worst].map(percent);
            println!(
                "  {name:<22} geomean {geomean:>7}   p95 {p95:>7}   worst {worst:>7}   another kernel {differs} times"
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn json(held: &HeldOut) -> serde_json::Value {
    let HeldOut { weight, m, own, interval, rounded, ratios } = held;
    serde_json::json!({
        "gemm": weight, "m": m, "own": own.to_string(), "interval": interval.to_string(),
        "rounded": rounded.to_string(), "ratios": ratios,
    })
}
