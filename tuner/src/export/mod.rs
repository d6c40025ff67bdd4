//! Back to other tuners' files: prior evidence as the tables that AITER, TunableOp and hipBLASLt read.
//!
//! Problem: after files were merged, linted and cut to a model, their own library should read them again. Method: prior evidence
//! keeps each row's family, its kernel's name and number, and, where the source's key says more than our columns, the key
//! itself; a writer a library puts them in its canonical form.
//!
//! Invariants: a row is written only if its own library would take it for what it was: never a placeholder time, an unknown
//! kernel or a row without its device; of two rows of one key the faster is written; everything left out is listed.

mod aiter;
mod blas;

use std::collections::BTreeMap;

use crate::import::Prior;
use crate::table::Decisions;

/// Whose file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// AITER's tuned csv tables, one a family.
    Aiter,
    /// PyTorch TunableOp's results, one file a set of versions.
    #[value(name = "tunableop")]
    TunableOp,
    /// hipBLASLt's tuning files, one a version.
    #[value(name = "hipblaslt")]
    HipBlasLt,
}

impl Target {
    /// The name on the command line, and of the source of its rows.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Aiter => "aiter",
            Target::TunableOp => "tunableop",
            Target::HipBlasLt => "hipblaslt",
        }
    }
}

/// What rows became.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// File names and texts.
    pub files: Vec<(String, String)>,
    /// Rows that were written.
    pub rows: usize,
    /// Why rows were left out, and how many.
    pub left: BTreeMap<String, usize>,
}

/// Writes prior evidence for a library.
pub fn export(target: Target, priors: &[Prior]) -> Exported {
    let mut exported = Exported::default();
    let mut rows: BTreeMap<(String, Key), &Prior> = BTreeMap::new();
    for prior in priors {
        let read = match target {
            _ if prior.source != target.name() => {
                Err(format!("a row of {} names a kernel that {} has not", prior.source, target.name()))
            }
            _ if prior.time_ns.is_none() => {
                Err("no time: merging keeps the least, so it would always win".into())
            }
            _ if !prior.remark.is_empty() => Err(format!("doubtful: {}", prior.remark)),
            Target::Aiter => aiter::place(prior),
            Target::TunableOp | Target::HipBlasLt => blas::place(target, prior),
        };
        match read {
            Ok(place) => {
                // Of equal times the first stays.
                let slower = match rows.get(&place) {
                    Some(known) if prior.time_ns >= known.time_ns => true,
                    Some(_) => {
                        rows.insert(place, prior);
                        true
                    }
                    None => {
                        rows.insert(place, prior);
                        false
                    }
                };
                if slower {
                    *exported.left.entry("another row has the same key and is faster".into()).or_default() +=
                        1;
                }
            }
            Err(reason) => *exported.left.entry(reason).or_default() += 1,
        }
    }
    exported.rows = rows.len();
    let mut files: BTreeMap<String, Vec<&Prior>> = BTreeMap::new();
    for ((file, _), prior) in rows {
        files.entry(file).or_default().push(prior);
    }
    for (number, (file, rows)) in files.into_iter().enumerate() {
        exported.files.push(match target {
            Target::Aiter => aiter::write(&file, &rows),
            Target::TunableOp => blas::tunableop(number, &rows),
            Target::HipBlasLt => blas::hipblaslt(number, &rows),
        });
    }
    exported
}

/// What a library finds a row by, in the order that rows are written in.
type Key = (Vec<u32>, String);

/// Our own tables name kernels that no other library has: all their rows, with the reason.
pub fn unexpressed(target: Target, decisions: &Decisions) -> BTreeMap<String, usize> {
    let mut left = BTreeMap::new();
    for row in decisions.weights.iter().flat_map(|weight| &weight.rows) {
        let family = row.config.split('@').next().unwrap_or(&row.config);
        let reason = format!("{family} is a kernel of tilewright, which {} has not", target.name());
        *left.entry(reason).or_default() += 1;
    }
    left
}
