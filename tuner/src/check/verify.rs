//! Running every kernel a table names, on the device, against the reference.

use tilewright_kernels::Config;
use tilewright_kernels::backend::{Backend, Regime};

use super::Values;
use crate::gate::Gate;
use crate::table::{Decisions, Weight};

/// What [`verify`] found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Kernels that were run, counting each at each M.
    pub runs: usize,
    /// What is wrong, one line a kernel.
    pub faults: Vec<String>,
}

/// Runs winner and runners-up of every row through the correctness gate. `report` hears of each weight.
///
/// # Errors
/// If operands cannot be had; a wrong kernel is a fault in the result.
pub fn verify(
    backend: &dyn Backend,
    decisions: &Decisions,
    values: &Values,
    seed: u64,
    report: &mut dyn FnMut(&Weight, usize),
) -> anyhow::Result<Verified> {
    let mut verified = Verified::default();
    for weight in &decisions.weights {
        let most = weight.rows.iter().map(|row| row.m).max().unwrap_or(1);
        let formats = weight.formats();
        let operands = values.operands(weight, &formats, most)?;
        let bias = operands.bias.is_some();
        let mut session = backend.open(operands.clone(), Regime::Hot)?;
        let mut gate = Gate::new(backend, &formats, most as usize, bias, weight.deterministic, seed)?;
        let before = verified.faults.len();
        for row in &weight.rows {
            let problem = weight.key_at(row.m).problem(row.m);
            for text in [&row.config].into_iter().chain(&row.runner_ups) {
                verified.runs += 1;
                let admitted = Config::parse(text)
                    .map_err(|error| error.to_string())
                    .and_then(|config| gate.admit(session.as_mut(), &operands, &problem, &config));
                if let Err(why) = admitted {
                    verified.faults.push(format!("{} m={}: {text}: {why}", weight.name, row.m));
                }
            }
        }
        report(weight, verified.faults.len() - before);
    }
    Ok(verified)
}
