//! `tilewright inspect`: a HIP kernel without an AMD GPU.

use std::process::ExitCode;

use anyhow::{Context, bail};
use tilewright_kernels::family::{families, family};
use tilewright_kernels::{BackendKind, Epilogue, Format, OutType, Problem, Scaling};

use crate::inspect::machine::{MACHINES, Machine};
use crate::inspect::{choose, inspect};

/// Look at a HIP kernel: registers, instructions and waits as compiled, traffic as emulated, and a predicted time.
///
/// Needs a clang for AMD GPUs (see `tilewright devices`), and no GPU. Nothing that it prints was measured on one, but for the
/// published times it quotes.
#[derive(clap::Args)]
pub(super) struct InspectArgs {
    /// The family, such as `hip.skinny_fp8`.
    family: String,
    /// Parameters, `name=value`; what is left open is chosen by the family's estimate.
    config: Vec<String>,
    /// The architecture: gfx942 (MI300X) or gfx950 (MI355X).
    #[arg(long)]
    arch: String,
    /// Rows of the activation.
    #[arg(long, default_value_t = 1)]
    m: u32,
    /// Output features.
    #[arg(long, default_value_t = 13312)]
    n: u32,
    /// Input features.
    #[arg(long, default_value_t = 16384)]
    k: u32,
    /// The weight's format [default: the family's first that the architecture multiplies].
    #[arg(long, value_parser = format)]
    weights: Option<Format>,
    /// The format the activation is multiplied in [default: the weight's].
    #[arg(long, value_parser = format)]
    activations: Option<Format>,
}

fn format(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("there is no such format; there are {}", names.join(", "))
    })
}

impl InspectArgs {
    /// Prints the inspection.
    ///
    /// # Errors
    /// Bad names, a config that cannot run, no compiler.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(machine) = Machine::of(&self.arch) else {
            let names: Vec<&str> = MACHINES.iter().map(|m| m.arch).collect();
            bail!("--arch {}: there are kernels for {}", self.arch, names.join(" and "));
        };
        let found = family(&self.family).filter(|f| f.backend == BackendKind::Hip).with_context(|| {
            let hip = families().iter().filter(|f| f.backend == BackendKind::Hip);
            let names: Vec<&str> = hip.map(|f| f.name).collect();
            format!("`{}` is no HIP family; there are {}", self.family, names.join(", "))
        })?;
        let formats: Vec<Format> = self.weights.map_or_else(|| found.formats.to_vec(), |format| vec![format]);
        let mut last = None;
        for weight in formats {
            let problem = Problem {
                m: self.m,
                n: self.n,
                k: self.k,
                a: self.activations.unwrap_or(weight),
                b: weight,
                scaling: Scaling::usual(weight),
                out: OutType::Bf16,
                epilogue: Epilogue::None,
            };
            if let Some(fault) = problem.fault() {
                bail!("{problem}: {fault}");
            }
            match choose(found, &self.config, &problem, machine) {
                Ok(config) => {
                    print!("{}", inspect(&config, &problem, machine)?);
                    return Ok(ExitCode::SUCCESS);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("{} has no formats", found.name)))
    }
}
