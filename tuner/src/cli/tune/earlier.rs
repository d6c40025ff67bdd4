//! What is there before a run.

use std::path::Path;

use anyhow::Context;
use tilewright_kernels::config::fnv1a;

use crate::journal::{History, RunHeader};
use crate::stale::{Stale, stale_rows, take_out};
use crate::table::{self, Decisions, Finalist, evidence};

/// The tables that are there before a run.
pub(super) struct Earlier {
    /// All of them, this model's on this device included.
    pub(super) tables: Vec<Decisions>,
    /// This model's on this device, with its evidence.
    pub(super) previous: Option<(Decisions, Vec<Finalist>)>,
    /// Its rows that are stale, once [`Earlier::mark_stale`] has looked.
    pub(super) stale: Vec<Stale>,
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
        Ok(Earlier { tables, previous, stale: Vec::new() })
    }

    /// Finds the rows that are stale for a run, takes them out of this model's table and tells of each.
    pub(super) fn mark_stale(&mut self, history: &History, now: &RunHeader, tell: &mut dyn FnMut(&Stale)) {
        let Some((decisions, evidence)) = &mut self.previous else { return };
        let runs = history.segments.iter().rev().map(|segment| &segment.header);
        let before = runs.into_iter().find(|run| run.fingerprint == now.fingerprint).map(|run| &run.tools);
        self.stale = stale_rows(decisions, before, &now.tools);
        self.stale.iter().for_each(tell);
        take_out(decisions, evidence, &self.stale);
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
