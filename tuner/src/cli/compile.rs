//! `tilewright compile`: generated modules from decisions, or a check that they are up to date.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::diag::{BadInput, CheckFailed};
use crate::files::write_atomic;
use crate::table::{self, Located};

/// Arguments of `tilewright compile`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Tables (.toml), or folders that hold <device>/<model>.toml.
    #[arg(default_value = "tables", value_name = "TABLE")]
    tables: Vec<PathBuf>,

    /// Write nothing; exit with 1 and name every file that is missing or stale.
    #[arg(long)]
    check: bool,

    /// Compile tables from a simulated device too. Their times are a model's and mean nothing on a real one.
    #[arg(long)]
    allow_simulated: bool,

    /// Write the modules into this folder instead of next to their tables.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let inputs = inputs(&args.tables)?;
    let mut outputs = Outputs::default();
    let mut faults = Vec::new();
    for file in &inputs {
        let compiled = Located::read(file).and_then(|located| {
            if located.decisions.device.is_simulated() && !args.allow_simulated {
                return Err(simulated(file));
            }
            Ok((table::compile_located(&located)?, located))
        });
        let (compiled, located) = match compiled {
            Ok(compiled) => compiled,
            Err(bad) => {
                faults.extend(bad.0);
                continue;
            }
        };
        for warning in &compiled.warnings {
            crate::style::warn(&format!("{}: {warning}", file.display()));
        }
        let saved = compiled.winners - compiled.kernels;
        println!(
            "{}: {} kernels ({saved} saved by ties, at {:.2} % of a forward pass)",
            file.display(),
            compiled.kernels,
            (compiled.cost - 1.0) * 100.0
        );
        let module = format!("{}.rs", located.decisions.model);
        let folder = args.out.as_deref().unwrap_or_else(|| file.parent().unwrap_or(Path::new("")));
        outputs.add(folder.join(module), compiled.rs, file)?;
    }
    if !faults.is_empty() {
        return Err(BadInput(faults).into());
    }
    if args.out.is_none() {
        // After the modules, because it lists tables, and once per crate of tables.
        outputs.add_module_lists(&args.tables, &inputs)?;
    }
    if args.check { outputs.check() } else { outputs.write(args.out.as_deref()) }
}

/// Why a table from a simulated device is not compiled.
fn simulated(file: &Path) -> BadInput {
    BadInput::one(
        file,
        "device.simulated: its times are a model's, not a device's",
        "tune on the device itself; to compile it all the same, give --allow-simulated",
    )
}

/// The tables that were named, folders opened up.
fn inputs(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            files.extend(
                table::tables_in(path).with_context(|| format!("{}: cannot be read", path.display()))?,
            );
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// What should be on disk.
#[derive(Default)]
struct Outputs {
    files: BTreeMap<PathBuf, (String, PathBuf)>,
}

impl Outputs {
    fn add(&mut self, path: PathBuf, content: String, from: &Path) -> anyhow::Result<()> {
        if let Some((other, first)) = self.files.insert(path.clone(), (content.clone(), from.into()))
            && other != content
        {
            bail!(
                "{}: both {} and {} compile to it\n  help: compile tables of one model on several devices into \
                 folders of their own",
                path.display(),
                first.display(),
                from.display()
            );
        }
        Ok(())
    }

    fn add_module_lists(&mut self, named: &[PathBuf], inputs: &[PathBuf]) -> anyhow::Result<()> {
        // A folder that was named may hold no table yet: any name below it finds its list.
        let folders = named.iter().filter(|path| path.is_dir()).map(|root| root.join("src"));
        let parents = inputs
            .iter()
            .filter_map(|file| file.parent())
            .map(|parent| if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() });
        for folder in folders.chain(parents) {
            let list = table::module_list(&folder).with_context(|| folder.display().to_string())?;
            if let Some((path, text)) = list {
                self.add(path, text, &folder)?;
            }
        }
        Ok(())
    }

    fn check(&self) -> anyhow::Result<ExitCode> {
        let mut stale = Vec::new();
        for (path, (content, from)) in &self.files {
            match std::fs::read(path) {
                Ok(found) if found == content.as_bytes() => {}
                Ok(_) => stale.push(format!("{}: stale, {} says otherwise", path.display(), from.display())),
                Err(error) => stale.push(format!("{}: {error}", path.display())),
            }
        }
        if stale.is_empty() {
            println!("{} generated files are up to date", self.files.len());
            return Ok(ExitCode::SUCCESS);
        }
        let list = stale.join("\n");
        Err(CheckFailed(format!("{list}\n  help: run `tilewright compile` without --check")).into())
    }

    fn write(&self, out: Option<&Path>) -> anyhow::Result<ExitCode> {
        if let Some(out) = out {
            std::fs::create_dir_all(out).with_context(|| format!("{}: cannot be made", out.display()))?;
        }
        for (path, (content, _)) in &self.files {
            // An unchanged file keeps its time stamp, so that nothing is built again for it.
            if std::fs::read(path).is_ok_and(|found| found == content.as_bytes()) {
                continue;
            }
            write_atomic(path, content.as_bytes())
                .with_context(|| format!("{}: cannot be written", path.display()))?;
            println!("wrote {}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}
