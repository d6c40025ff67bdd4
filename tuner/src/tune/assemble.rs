//! From verdicts to the files of a table.

use std::collections::HashMap;

use tilewright_dispatch::Key;
use tilewright_kernels::backend::Regime;
use tilewright_kernels::config::fnv1a;
use tilewright_kernels::{Config, ConfigId, Epilogue, Format, Layout, Scaling};

use super::candidates::{FormatPair, Plan};
use super::weight::WeightResult;
use super::work::Work;
use crate::journal::{AlternativeRecord, Verdict as Finals, VerdictRow};
use crate::shapes::{Declaration, Gemm};
use crate::table::{
    Alternative, Decisions, DeviceRecord, Finalist, Row, SecondCopy, Status, Tie, Verdict, Weight,
};

/// What a run decided, as decisions and evidence.
///
/// A row whose new verdict is ambiguous does not replace a decided one of `previous`, if the plan is the same; a weight
/// the run did not reach keeps its rows of `previous`. Weights that share a key share their rows: the first one's.
pub fn assemble(
    declaration: &Declaration,
    works: &[Work<'_>],
    results: &[WeightResult],
    device: DeviceRecord,
    seed: u64,
    regime: Regime,
    previous: Option<&(Decisions, Vec<Finalist>)>,
) -> (Decisions, Vec<Finalist>) {
    let previous = previous.filter(|(table, _)| table.device.fingerprint == device.fingerprint);
    let mut weights = Vec::new();
    let mut evidence = Vec::new();
    let mut shared: HashMap<(Key, u32), Row> = HashMap::new();
    for (index, gemm) in declaration.gemms.iter().enumerate() {
        let work = works.iter().position(|work| work.gemms.contains(&index)).expect("every gemm has a work");
        let old = previous.and_then(|(table, old_evidence)| {
            let weight =
                table.weights.iter().find(|w| w.name == gemm.name && same_weight(w, &works[work]))?;
            Some((weight, old_evidence))
        });
        let Some(result) = results.iter().find(|result| result.work == work) else {
            if let Some((weight, old_evidence)) = old {
                weights.push(weight.clone());
                evidence.extend(old_evidence.iter().filter(|f| f.weight == gemm.name).cloned());
            }
            continue;
        };
        let Some(mut weight) = weight(gemm, &works[work], result) else { continue };
        for finals in &result.verdicts {
            let point = gemm.m.iter().find(|point| point.m == finals.m);
            // An M between declared ones, where a change of kernel was located, stands for no rows.
            let share = point.map_or(0.0, |point| point.weight);
            let Some(new) = row(finals, share / f64::from(finals.m), &weight) else {
                continue;
            };
            let kept = old.and_then(|(old_weight, old_evidence)| {
                let row = keep(old_weight, &weight, &new)?;
                evidence
                    .extend(old_evidence.iter().filter(|f| f.weight == gemm.name && f.m == row.m).cloned());
                Some(row)
            });
            if kept.is_none() {
                evidence.extend(finals.finalists.iter().filter_map(|row| finalist(gemm, finals.m, row)));
            }
            let row = kept.unwrap_or(new);
            let row = shared.entry((weight.key_at(row.m), row.m)).or_insert(row).clone();
            weight.rows.push(row);
        }
        if let Some((old, old_evidence)) = old {
            for row in between(old, &weight, gemm) {
                evidence
                    .extend(old_evidence.iter().filter(|f| f.weight == gemm.name && f.m == row.m).cloned());
                let at = weight.rows.partition_point(|other| other.m < row.m);
                weight.rows.insert(at, row);
            }
        }
        if !weight.rows.is_empty() {
            drop_unused_copy(&mut weight);
            weights.push(weight);
        }
    }
    let decisions = Decisions {
        model: declaration.model.clone(),
        tensor_parallel: declaration.tensor_parallel,
        generator: concat!("tilewright ", env!("CARGO_PKG_VERSION")).into(),
        declaration: declaration.hash,
        seed,
        regime,
        device,
        weights,
    };
    (decisions, evidence)
}

/// Whether a table's weight is the one that a work tunes: same shape, output and demands.
pub(super) fn same_weight(weight: &Weight, work: &Work<'_>) -> bool {
    let bias = weight.epilogue == Epilogue::Bias;
    (weight.n, weight.k, weight.out, bias, weight.deterministic)
        == (work.n, work.k, work.out, work.bias, work.deterministic)
}

fn weight(gemm: &Gemm, work: &Work<'_>, result: &WeightResult) -> Option<Weight> {
    let plan = Plan::parse(&result.plan.plan)?;
    let FormatPair { activation, weight: format } = plan.formats;
    let alternatives = result.plan.alternatives.iter().filter_map(alternative);
    Some(Weight {
        name: gemm.name.clone(),
        n: gemm.n,
        k: gemm.k,
        count: gemm.count,
        activation,
        format,
        scaling: Scaling::usual(format),
        layout: plan.layout,
        out: gemm.out,
        epilogue: if work.bias { Epilogue::Bias } else { Epilogue::None },
        deterministic: gemm.deterministic,
        second: second(gemm, result),
        error: Some(result.plan.error),
        max_error: gemm.max_error,
        alternatives: alternatives.collect(),
        rows: Vec::new(),
    })
}

fn second(gemm: &Gemm, result: &WeightResult) -> Option<SecondCopy> {
    let second = result.plan.second.as_ref()?;
    let Plan { formats, layout } = Plan::parse(&second.plan)?;
    Some(SecondCopy {
        from: second.from,
        activation: formats.activation,
        format: formats.weight,
        scaling: Scaling::usual(formats.weight),
        layout,
        error: Some(second.error),
        memory_budget_mib: gemm.two_copies_mib?,
    })
}

/// A run that was stopped early may have rows of one copy alone: that one is the weight's only copy then.
fn drop_unused_copy(weight: &mut Weight) {
    let Some(second) = &weight.second else { return };
    let split = weight.rows.partition_point(|row| row.m < second.from);
    if split == 0 {
        let SecondCopy { activation, format, scaling, layout, error, .. } = *second;
        *weight = Weight { activation, format, scaling, layout, error, second: None, ..weight.clone() };
    } else if split == weight.rows.len() {
        weight.second = None;
    }
}

fn alternative(record: &AlternativeRecord) -> Option<Alternative> {
    let mut parts = record.plan.split('/');
    let activation = Format::from_name(parts.next()?)?;
    let format = Format::from_name(parts.next()?)?;
    // Formats that quality excluded were tried in no layout.
    let layout = parts.next().and_then(Layout::from_name);
    Some(Alternative {
        activation,
        format,
        layout,
        ratio: record.ratio,
        error: Some(record.error),
        reason: record.reason.clone(),
    })
}

/// The decided row of an earlier table that an ambiguous new one does not replace.
fn keep(old: &Weight, new: &Weight, row: &Row) -> Option<Row> {
    let before = old.rows.iter().find(|before| before.m == row.m)?;
    let ambiguous = |row: &Row| matches!(row.verdict, Verdict::Ambiguous(_));
    let known = before.runner_ups.iter().chain(before.tie_set.iter().map(|tie| &tie.config));
    let all_known =
        known.chain([&before.config, &before.default]).all(|config| Config::parse(config).is_ok());
    (old.key_at(row.m) == new.key_at(row.m) && ambiguous(row) && !ambiguous(before) && all_known)
        .then(|| before.clone())
}

/// Rows between declared Ms that an earlier run measured and this one did not: they still say where the kernel changes if the
/// declared Ms on both sides run the kernels they ran then.
fn between(old: &Weight, new: &Weight, gemm: &Gemm) -> Vec<Row> {
    let declared = |m: u32| gemm.m.iter().any(|point| point.m == m);
    let unchanged = |row: Option<&Row>| {
        row.is_none_or(|row| old.rows.iter().any(|before| before.m == row.m && before.config == row.config))
    };
    let kept = old.rows.iter().filter(|row| {
        let below = new.rows.iter().rfind(|other| other.m <= row.m && declared(other.m));
        let above = new.rows.iter().find(|other| other.m >= row.m && declared(other.m));
        !declared(row.m)
            && new.rows.iter().all(|other| other.m != row.m)
            && old.key_at(row.m) == new.key_at(row.m)
            && unchanged(below)
            && unchanged(above)
            && Config::parse(&row.config).is_ok()
    });
    kept.cloned().collect()
}

fn row(finals: &Finals, weight_of_m: f64, weight: &Weight) -> Option<Row> {
    let winner = finals.finalists.first()?;
    let default = finals.finalists.iter().find(|row| row.default)?;
    let key = weight.key_at(finals.m);
    let in_plan = format!("{}/{} ", key.a, key.b);
    // A config of the plan, without the formats it was tried in.
    let config = |row: &VerdictRow| {
        let text = row.candidate.strip_prefix(&in_plan)?;
        let parsed = Config::parse(text).ok()?;
        (parsed.layout() == key.layout).then(|| text.to_string())
    };
    let others = || finals.finalists[1..].iter().filter(|row| row.status != "failed");
    let winner_config = config(winner)?;
    let id = ConfigId::of_text(&winner_config);
    Some(Row {
        m: finals.m,
        weight: weight_of_m,
        verdict: Verdict::parse(&finals.verdict)?,
        config: winner_config,
        id,
        time_ns: winner.ns,
        interval_ns: winner.interval_ns,
        default: default.candidate.split_once(' ')?.1.to_string(),
        default_ns: default.ns,
        runner_ups: others().filter_map(config).take(2).collect(),
        tie_set: others()
            .filter(|row| row.status == "tied")
            .filter_map(|row| Some(Tie { ratio: row.ratio[0], config: config(row)? }))
            .collect(),
    })
}

fn finalist(gemm: &Gemm, m: u32, row: &VerdictRow) -> Option<Finalist> {
    let (formats, config) = row.candidate.split_once(' ')?;
    let (activation, format) = formats.split_once('/')?;
    let failed = row.status == "failed";
    Some(Finalist {
        weight: gemm.name.clone(),
        m,
        activation: activation.to_string(),
        format: format.to_string(),
        status: match row.status.as_str() {
            "winner" => Status::Winner,
            "tied" => Status::Tied,
            "failed" => Status::Failed,
            _ => Status::Eliminated,
        },
        baseline: row.default,
        ratio: (!failed).then_some(row.ratio[0]),
        ratio_low: (!failed).then_some(row.ratio[1]),
        ratio_high: (!failed).then_some(row.ratio[2]),
        time_ns: (!failed).then_some(row.ns),
        samples: row.launches as u32,
        config: config.to_string(),
        id: format!("{:016x}", fnv1a(config.as_bytes())),
        reason: row.reason.clone(),
    })
}
