//! Code objects of a table's kernels: `<model>.objects`, which an engine loads instead of compiling.
//!
//! They are those of every kernel that a row names (winner, runners-up, ties) and of the layout's fallback, on the
//! problems of the table. Made again from the same decisions by the same compiler they are the same bytes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tilewright_kernels::hip::compile::{Compiler, Toolchain};
use tilewright_kernels::hip::launch::Source;
use tilewright_kernels::hip::{self, objects};
use tilewright_kernels::{Caps, Config, Device, family};

use crate::files::write_atomic;
use crate::table::Decisions;

/// Compiles what a table's rows run and writes it beside the table, into `folder`.
///
/// # Errors
/// If a kernel cannot be compiled, or the file not be written.
pub fn write(folder: &Path, decisions: &Decisions, toolchain: Box<dyn Toolchain>) -> anyhow::Result<PathBuf> {
    let device = &decisions.device.device;
    let arch = if device.caps.contains(Caps::GFX950) { "gfx950" } else { "gfx942" };
    let compiler = Compiler::new(toolchain, Compiler::usual_cache());
    let sources = sources(decisions, device);
    compiler.warm(&sources, arch);
    let mut made = Vec::new();
    for source in sources {
        let object = compiler.object(&source, arch)?;
        made.push((source, object));
    }
    let path = folder.join(format!("{}.objects", decisions.model));
    let bytes = objects::pack(&made, arch);
    write_atomic(&path, &bytes).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(path)
}

/// The sources of all kernels that dispatch may run for a row.
fn sources(decisions: &Decisions, device: &Device) -> Vec<Source> {
    let mut seen = HashSet::new();
    let mut sources = Vec::new();
    for weight in &decisions.weights {
        for row in &weight.rows {
            let problem = weight.key_at(row.m).problem(row.m);
            let ties = row.tie_set.iter().map(|tie| &tie.config);
            let named = [&row.config].into_iter().chain(&row.runner_ups).chain(ties);
            let configs = named.filter_map(|text| Config::parse(text).ok());
            let fallback = family::fallback(&problem, weight.key_at(row.m).layout, device);
            for config in configs.chain(fallback) {
                let plan = hip::plan(&config, &problem, device);
                let steps = plan.into_iter().flat_map(|plan| plan.steps);
                sources.extend(steps.map(|step| step.source).filter(|source| seen.insert(source.clone())));
            }
        }
    }
    sources
}
