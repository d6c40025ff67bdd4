//! The compiled kernels that go with a CUDA table: `<model>.cubins` beside `<model>.toml`.
//!
//! With it an engine needs the driver and no compiler. It holds every kernel the table names (winners, ties, runners-up)
//! and each weight's fallbacks, and is a function of the decisions, the kernels' sources and the compiler's version.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tilewright_kernels::cuda::{Cuda, compile_archive};
use tilewright_kernels::{BackendKind, Config, Problem, family};

use crate::files::write_atomic;
use crate::table::Decisions;

/// Row counts whose fallbacks differ.
const FALLBACK_M: [u32; 4] = [1, 33, 65, 257];

/// Compiles the kernels of a table and writes them into `folder`. `None` for tables of other backends. Needs NVRTC and
/// no GPU.
///
/// # Errors
/// If NVRTC is missing, a kernel does not compile, or the file cannot be written.
pub fn write(folder: &Path, decisions: &Decisions) -> anyhow::Result<Option<PathBuf>> {
    if decisions.device.device.backend != BackendKind::Cuda {
        return Ok(None);
    }
    let path = folder.join(format!("{}.cubins", decisions.model));
    let archive = compile_archive(&launches(decisions), Cuda::usual_cache())
        .with_context(|| format!("{}: kernels for an engine without a compiler", path.display()))?;
    write_atomic(&path, &archive.to_bytes())
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(Some(path))
}

/// Everything that an engine may launch from a table.
fn launches(decisions: &Decisions) -> Vec<(Problem, Config)> {
    let mut launches: Vec<(Problem, Config)> = Vec::new();
    let mut add = |problem: Problem, config: Config| {
        if !launches.contains(&(problem, config)) {
            launches.push((problem, config));
        }
    };
    for weight in &decisions.weights {
        for row in &weight.rows {
            let problem = weight.key_at(row.m).problem(row.m);
            let ties = row.tie_set.iter().map(|tie| &tie.config);
            for text in [&row.config, &row.default].into_iter().chain(ties).chain(&row.runner_ups) {
                // What this build does not know, `compile` has refused.
                if let Ok(config) = Config::parse(text)
                    && config.family().formats.contains(&problem.b)
                {
                    add(problem, config);
                }
            }
        }
        for m in FALLBACK_M {
            let key = weight.key_at(m);
            let problem = key.problem(m);
            if let Some(config) = family::fallback(&problem, key.layout, &decisions.device.device) {
                add(problem, config);
            }
        }
    }
    launches
}
