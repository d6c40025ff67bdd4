//! What a run says when it is over.

use std::path::Path;

use tilewright_kernels::BackendKind;

use crate::table::{self, Decisions};
use crate::tune::{Outcome, summary};

/// Prints the result: for people, or as JSON.
pub(super) fn report(
    as_json: bool,
    decisions: &Decisions,
    compiled: &table::Compiled,
    outcome: &Outcome,
    folder: &Path,
) -> anyhow::Result<()> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(&json(decisions, compiled, outcome, folder))?);
        return Ok(());
    }
    print!("{}", summary(decisions, compiled, outcome));
    let stem = folder.join(&decisions.model);
    if decisions.device.is_simulated() {
        println!(
            "wrote {stem}.toml, .csv and .objects, and no module: the device is simulated, its times mean nothing elsewhere \
             (`tilewright compile --allow-simulated` makes one all the same)",
            stem = stem.display()
        );
    } else {
        let objects = if decisions.device.device.backend == BackendKind::Hip { ", .objects" } else { "" };
        println!("wrote {stem}.toml, .csv{objects} and .rs", stem = stem.display());
    }
    for warning in &compiled.warnings {
        crate::style::warn(&warning.to_string());
    }
    Ok(())
}

fn json(
    decisions: &Decisions,
    compiled: &table::Compiled,
    outcome: &Outcome,
    folder: &Path,
) -> serde_json::Value {
    let rows = decisions.weights.iter().flat_map(|weight| {
        weight.rows.iter().map(move |row| {
            let key = weight.key_at(row.m);
            serde_json::json!({
                "gemm": weight.name, "m": row.m, "n": weight.n, "k": weight.k, "count": weight.count,
                "activation": key.a.name(), "format": key.b.name(),
                "layout": key.layout.name(), "config": row.config, "id": row.id.to_string(),
                "verdict": row.verdict.to_string(), "time_ns": row.time_ns, "interval_ns": row.interval_ns,
                "default": row.default, "default_ns": row.default_ns, "error": weight.error,
            })
        })
    });
    serde_json::json!({
        "model": decisions.model,
        "device": decisions.device.key,
        "folder": folder.display().to_string(),
        "rows": rows.collect::<Vec<_>>(),
        "kernels": compiled.kernels,
        "measurements": outcome.measurements,
        "evaluations": outcome.evaluations,
        "saved": outcome.saved,
        "warm_from": outcome.warm_from,
        "seconds": outcome.seconds,
        "stopped": outcome.stopped,
        "not_tuned": outcome.failed,
    })
}
