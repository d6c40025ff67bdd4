//! Which format pairs a weight may be multiplied in.

use std::collections::HashMap;

use super::candidates::{FormatPair, Plan, default_candidate};
use super::copies::Stored;
use super::rig::Recorder;
use super::weight::Context;
use super::work::Work;
use crate::journal::{AlternativeRecord, PlanRecord, SecondPlan};

/// Format pairs by their error.
pub(super) struct Quality {
    /// Those within bounds, most wanted first.
    pub(super) pairs: Vec<FormatPair>,
    /// Their errors.
    errors: HashMap<FormatPair, f64>,
    /// Those over the bound, with their errors.
    pub(super) excluded: Vec<(FormatPair, f64)>,
}

impl Quality {
    /// Measures every pair, or takes what an interrupted run had measured.
    pub(super) fn measure(
        work: &Work<'_>,
        context: &Context<'_>,
        recorder: &mut Recorder<'_>,
    ) -> anyhow::Result<Self> {
        let mut quality = Quality { pairs: vec![], errors: HashMap::new(), excluded: vec![] };
        let mut pairs: Vec<FormatPair> = Vec::new();
        for pair in work.pairs.iter().map(|pair| pair.on(context.device)) {
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        for pair in &pairs {
            // Pairs that no kernel here multiplies are no alternatives.
            if default_candidate(&work.base(1), &[*pair], context.device).is_none() {
                continue;
            }
            let known = context.resume.quality.get(&(work.name.clone(), pair.to_string()));
            let error = match known {
                Some(error) => *error,
                None => recorder.quality(work, *pair)?,
            };
            quality.errors.insert(*pair, error);
            // An error that is no number is over every bound.
            if work.max_error.is_none_or(|bound| error <= bound) && !error.is_nan() {
                quality.pairs.push(*pair);
            } else {
                quality.excluded.push((*pair, error));
            }
        }
        Ok(quality)
    }

    /// How the weight is stored, with what that was chosen over: single plans and their costs. `chosen` is the cost of what
    /// is stored, on the same scale.
    pub(super) fn record(
        &self,
        work: String,
        stored: &Stored,
        chosen: f64,
        costs: &[(Plan, f64)],
    ) -> PlanRecord {
        let error_of = |plan: &Plan| self.errors.get(&plan.formats).copied().unwrap_or(0.0);
        let mut alternatives: Vec<AlternativeRecord> = costs
            .iter()
            .filter(|(other, _)| *stored != Stored::once(*other))
            .map(|(other, ratio)| AlternativeRecord {
                plan: other.to_string(),
                ratio: Some(ratio / chosen),
                error: error_of(other),
                reason: if ratio / chosen > 1.0 { "slower" } else { "within the margin" }.into(),
            })
            .collect();
        alternatives.extend(self.excluded.iter().map(|(pair, error)| AlternativeRecord {
            plan: pair.to_string(),
            ratio: None,
            error: *error,
            reason: "over max_error".into(),
        }));
        let second = stored.second.map(|(from, plan)| SecondPlan {
            from,
            plan: plan.to_string(),
            error: error_of(&plan),
        });
        let plan = stored.first;
        PlanRecord { work, plan: plan.to_string(), error: error_of(&plan), second, alternatives }
    }
}
