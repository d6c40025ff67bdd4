//! `tilewright bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::check::{self, Measured, Values};
use crate::devices;
use crate::table::{self, evidence};
use crate::units::time;

/// Time a table's kernels beside the default config, interleaved.
#[derive(clap::Args)]
pub(super) struct BenchArgs {
    /// The table's .toml file.
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

impl BenchArgs {
    /// Measures and prints.
    ///
    /// # Errors
    /// Bad input, or a kernel that fails.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let decisions = table::read(&self.table)?;
        let evidence = evidence::read(&self.table.with_extension("csv")).unwrap_or_default();
        let backend = devices::open_kind(decisions.device.device.backend)?;
        let backend = backend.as_ref();
        super::warn_of_other_device(&decisions, backend);
        let values = Values::random(self.seed);
        if !self.json {
            println!(
                "{:<20} {:>6} {:>9} {:>9}   default/tuned [95 %]      table said",
                "gemm", "M", "tuned", "default"
            );
        }
        let blocks = usize::from(self.blocks);
        let rows = check::measure(backend, &decisions, &evidence, &values, blocks, self.seed, &mut |row| {
            if !self.json {
                println!("{}", line(row));
            }
        })?;
        if self.json {
            let rows: Vec<_> = rows.iter().map(json).collect();
            println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "rows": rows }))?);
            return Ok(ExitCode::SUCCESS);
        }
        forward_pass(&rows);
        Ok(ExitCode::SUCCESS)
    }
}

fn line(row: &Measured) -> String {
    let [gain, low, high] = row.gain;
    format!(
        "{:<20} {:>6} {:>9} {:>9}   {gain:5.2} [{low:5.2}, {high:5.2}]   {:>9}",
        row.weight,
        row.m,
        time(row.tuned_ns),
        time(row.default_ns),
        time(row.table_ns)
    )
}

/// Σ count × time at every M that all weights have, and the geometric mean of the gains.
fn forward_pass(rows: &[Measured]) {
    let mut ms: Vec<u32> = rows.iter().map(|row| row.m).collect();
    ms.sort_unstable();
    ms.dedup();
    let weights = rows.iter().map(|row| &row.weight).collect::<std::collections::BTreeSet<_>>().len();
    println!("\nOne forward pass, GEMMs only, weighted by count:");
    for m in ms {
        let at: Vec<&Measured> = rows.iter().filter(|row| row.m == m).collect();
        if at.len() != weights {
            continue;
        }
        let sum = |ns: fn(&Measured) -> f64| at.iter().map(|row| row.count as f64 * ns(row)).sum::<f64>();
        let (tuned, default) = (sum(|row| row.tuned_ns), sum(|row| row.default_ns));
        println!(
            "  M={m:<6} default {:>9}   tuned {:>9}   {:.2}x",
            time(default),
            time(tuned),
            default / tuned
        );
    }
    let mean = (rows.iter().map(|row| row.gain[0].ln()).sum::<f64>() / rows.len() as f64).exp();
    let worst = rows.iter().map(|row| row.gain[0]).fold(f64::INFINITY, f64::min);
    println!("Geometric mean over {} rows: {mean:.2}x; least: {worst:.2}x.", rows.len());
}

fn json(row: &Measured) -> serde_json::Value {
    serde_json::json!({
        "gemm": row.weight, "m": row.m, "count": row.count, "tuned_ns": row.tuned_ns,
        "default_ns": row.default_ns, "gain": row.gain, "table_ns": row.table_ns,
    })
}
