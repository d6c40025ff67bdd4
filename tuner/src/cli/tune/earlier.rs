//! What is there before a run.

use std::path::Path;

use anyhow::Context;
use tilewright_kernels::config::fnv1a;

use crate::table::{self, Decisions, Finalist, evidence};

/// The tables that are there before a run.
pub(super) struct Earlier {
    /// All of them, this model's on this device included.
    pub(super) tables: Vec<Decisions>,
    /// This model's on this device, with its evidence.
    pub(super) previous: Option<(Decisions, Vec<Finalist>)>,
}

impl Earlier {
    /// Reads every table under `out`. A table that cannot be read is no seed, and says so; the one about to be replaced
    /// must be readable, so that nothing is overwritten that is not understood.
    pub(super) fn read(out: &Path, folder: &Path, model: &str) -> anyhow::Result<Self> {
        let own = folder.join(format!("{model}.toml"));
        let mut tables = Vec::new();
        let mut previous = None;
        for path in table::tables_in(out).with_context(|| format!("{}: cannot be read", out.display()))? {
            match table::read(&path) {
                Ok(decisions) => {
                    if path == own {
                        let evidence = evidence::read(&path.with_extension("csv")).unwrap_or_default();
                        previous = Some((decisions.clone(), evidence));
                    }
                    tables.push(decisions);
                }
                Err(bad) if path == own => return Err(bad.into()),
                Err(bad) => crate::style::warn(&format!("not used as a start: {bad}")),
            }
        }
        Ok(Earlier { tables, previous })
    }

    pub(super) fn hash(&self) -> String {
        let text: String = self.tables.iter().map(Decisions::to_toml).collect();
        format!("{:016x}", fnv1a(text.as_bytes()))
    }
}

/// Hash of a table as it is written.
pub(super) fn hash_of(decisions: &Decisions) -> String {
    format!("{:016x}", fnv1a(decisions.to_toml().as_bytes()))
}
