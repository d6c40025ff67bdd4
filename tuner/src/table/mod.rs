//! Table files and the table compiler.
//!
//! A table is three files in the folder of its device: `<model>.toml`, the decisions ([`Decisions`]); `<model>.csv`,
//! the evidence ([`Finalist`]); `<model>.rs`, generated from the decisions alone. Compiling is a pipeline of pure
//! steps, each in its own module: parse → validate → cover (fewest kernels) → intervals → lower (groups, segments,
//! perfect hash) → emit. The same decisions give the same bytes on every host and from every folder.

mod copies;
mod cover;
pub mod decisions;
mod emit;
pub mod evidence;
pub mod explain;
mod intervals;
mod lower;
mod modules;
mod parse;
mod perfect_hash;
mod section;
mod validate;
mod write;

use std::path::{Path, PathBuf};

pub use copies::SecondCopy;
pub use decisions::{Alternative, Decisions, DeviceRecord, Row, Tie, Verdict, Weight};
pub use evidence::{Finalist, Status};
pub(crate) use intervals::boundary;
pub use lower::Lowered;
pub use parse::Located;

use tilewright_dispatch::TableData;

use crate::diag::BadInput;
use crate::files::write_atomic;

/// A compiled table.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// Text of the generated module.
    pub rs: String,
    /// What is worth knowing about the decisions.
    pub warnings: Vec<String>,
    /// Distinct kernels the rows run.
    pub kernels: usize,
    /// Distinct winners before the set cover.
    pub winners: usize,
    /// Time of a forward pass relative to one with every row's own winner.
    pub cost: f64,
}

/// Compiles decisions.
///
/// # Errors
/// All faults; where the decisions are in no file yet, lines are those of the text they would be written as.
pub fn compile(decisions: &Decisions) -> Result<Compiled, BadInput> {
    compile_located(&Located::unwritten(decisions)?)
}

/// Compiles decisions that were read from a file.
///
/// # Errors
/// All faults, with their lines.
pub fn compile_located(located: &Located) -> Result<Compiled, BadInput> {
    let lowered = Lowered::of(located)?;
    let rs = emit::emit(&located.decisions, &lowered);
    let Lowered { warnings, kernels: [kernels, winners], cost, .. } = lowered;
    Ok(Compiled { rs, warnings, kernels, winners, cost })
}

/// Reads a table's .toml file.
///
/// # Errors
/// If it cannot be read, is of a newer schema, or has faults; all faults are in the error.
pub fn read(file: &Path) -> Result<Decisions, BadInput> {
    Located::read(file).map(|located| located.decisions)
}

/// Reads a table's .toml file and compiles it for lookups in this process, for development: an engine binds what this
/// gives as it binds a generated module, and gets the same answers. The data stays in memory for as long as the process
/// lives.
///
/// # Errors
/// If it cannot be read, is of a newer schema, or has faults; all faults are in the error.
pub fn load(file: &Path) -> Result<&'static TableData<'static>, BadInput> {
    let located: &'static Located = Box::leak(Box::new(Located::read(file)?));
    Ok(Box::leak(Box::new(Lowered::of(located)?)).leaked())
}

/// Compiles decisions and writes the three files into `folder`, which is made if it is missing. Each file is replaced
/// whole, the decisions last, and nothing is written if the decisions have faults. In a crate of tables the module
/// list is brought up to date. Decisions from a simulated device get no module.
///
/// # Errors
/// All faults of the decisions, or the file that could not be written.
pub fn write_all(folder: &Path, decisions: &Decisions, evidence: &[Finalist]) -> anyhow::Result<Compiled> {
    let compiled = compile(decisions)?;
    let cannot = |path: &Path, error: std::io::Error| {
        anyhow::anyhow!("{}: cannot be written: {error}", path.display())
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    let files =
        [("csv", evidence::to_csv(evidence)), ("rs", compiled.rs.clone()), ("toml", decisions.to_toml())];
    let simulated = decisions.device.is_simulated();
    for (extension, content) in files.into_iter().filter(|(extension, _)| !(simulated && *extension == "rs"))
    {
        let path = folder.join(format!("{}.{extension}", decisions.model));
        write_atomic(&path, content.as_bytes()).map_err(|error| cannot(&path, error))?;
    }
    if simulated {
        return Ok(compiled);
    }
    if let Some((list, text)) = module_list(folder).map_err(|error| cannot(folder, error))? {
        write_atomic(&list, text.as_bytes()).map_err(|error| cannot(&list, error))?;
    }
    Ok(compiled)
}

/// The module list of the crate of tables that a device's folder belongs to, and the text it should have.
///
/// # Errors
/// If the crate's folders cannot be read.
pub fn module_list(device_folder: &Path) -> std::io::Result<Option<(PathBuf, String)>> {
    let Some(list) = modules::list_of(device_folder) else { return Ok(None) };
    let root = list.ancestors().nth(2).expect("<root>/src/generated.rs");
    let text = modules::render(root)?;
    Ok(Some((list, text)))
}

/// Every `<device>/<model>.toml` in a folder of device folders, sorted.
///
/// # Errors
/// If a folder cannot be read.
pub fn tables_in(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    modules::tables(root)
}
