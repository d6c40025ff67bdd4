//! `tilewright verify`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::check::{self, Values};
use crate::devices;
use crate::diag::CheckFailed;
use crate::table;

/// Run every kernel a table names on this device and compare with the float64 reference.
#[derive(clap::Args)]
pub(super) struct VerifyArgs {
    /// The table's .toml file.
    table: PathBuf,
    /// Check on real weights: the model's safetensors files.
    #[arg(long, num_args = 1.., requires = "shapes")]
    weights: Vec<PathBuf>,
    /// The declaration that says which tensors make up each weight.
    #[arg(long)]
    shapes: Option<PathBuf>,
    /// Seed of random operands.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl VerifyArgs {
    /// Verifies the table.
    ///
    /// # Errors
    /// Bad input, or kernels that are wrong.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let decisions = table::read(&self.table)?;
        let values = match &self.shapes {
            Some(shapes) if !self.weights.is_empty() => Values::real(shapes, &self.weights, self.seed)?,
            _ => Values::random(self.seed),
        };
        let backend = devices::open_kind(decisions.device.device.backend)?;
        let backend = backend.as_ref();
        super::warn_of_other_device(&decisions, backend);
        let verified = check::verify(backend, &decisions, &values, self.seed, &mut |weight, faults| {
            let verdict = if faults == 0 { "right" } else { "WRONG" };
            println!(
                "{:<24} {} rows, {} in {}: {verdict}",
                weight.name,
                weight.rows.len(),
                weight.format,
                weight.layout
            );
        })?;
        if verified.faults.is_empty() {
            println!("{} runs, all right on {}", verified.runs, backend.fingerprint().key());
            return Ok(ExitCode::SUCCESS);
        }
        let (wrong, runs) = (verified.faults.len(), verified.runs);
        let list = verified.faults.join("\n  ");
        Err(CheckFailed(format!("{}: {wrong} of {runs} runs failed\n  {list}", self.table.display())).into())
    }
}
