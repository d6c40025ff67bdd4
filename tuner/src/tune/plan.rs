//! Choosing how a weight is stored and multiplied.
//!
//! A weight is stored once, so one plan (formats and layout) serves all its Ms (module `copies` is about the weights that may
//! be stored twice). The cost of a plan is the sum over the declared Ms of their weight times the time of the plan's best
//! candidate there, for each row. A declared weight is thus a share of the rows (tokens) that pass; with equal ones, one launch
//! at M=256 counts as much as 256 at M=1. The search's estimates, three launches each, only say which plans are in contention;
//! those are then measured against each other in interleaved blocks.

use std::collections::BTreeSet;

use super::candidates::{Field, FormatPair, Plan};

/// Plans whose estimated cost is within this factor of the best are measured against each other.
pub(super) const CONTENTION: f64 = 1.12;
/// At most this many plans are.
pub(super) const MOST_CONTENDERS: usize = 4;
/// Costs within this factor are equal: the order of preference decides.
const EQUAL: f64 = 1.01;
/// A plan that the table has already is kept unless another is cheaper by more than this factor.
pub(super) const KEEP: f64 = 1.02;

/// What the search found at one M.
pub(super) struct Searched {
    /// Rows.
    pub(super) m: u32,
    /// Weight of one launch at this M: its share of the rows over M.
    pub(super) weight: f64,
    /// The candidates.
    pub(super) field: Field,
    /// Points with their ratio to the sentinel and the launches it rests on, best first.
    pub(super) ranked: Vec<(usize, f64, usize)>,
    /// Typical time of the sentinel, nanoseconds.
    pub(super) sentinel_ns: f64,
    /// Whether the contest was decided before, and the search only looked around.
    pub(super) warm: bool,
}

impl Searched {
    /// The evaluated points of a plan, best first.
    pub(super) fn in_plan(&self, plan: Plan) -> impl Iterator<Item = (usize, f64, usize)> + '_ {
        self.ranked.iter().copied().filter(move |(point, ..)| self.field.candidates[*point].plan() == plan)
    }

    /// The best point of a plan, with its ratio to the sentinel.
    pub(super) fn best_of(&self, plan: Plan) -> Option<(usize, f64)> {
        self.in_plan(plan).next().map(|(point, ratio, _)| (point, ratio))
    }
}

/// What a plan costs at each M: the weight of a launch times its nanoseconds.
pub(super) struct PlanCost {
    /// The plan.
    pub(super) plan: Plan,
    /// Its cost at each M, in the order of the Ms.
    pub(super) at: Vec<f64>,
}

impl PlanCost {
    /// Over all Ms.
    pub(super) fn total(&self) -> f64 {
        self.at.iter().sum()
    }
}

/// Estimated costs of the plans that have a candidate at every M, in the order of the plans.
pub(super) fn estimates(searched: &[Searched]) -> Vec<PlanCost> {
    let Some(first) = searched.first() else { return Vec::new() };
    let plans: BTreeSet<Plan> =
        first.ranked.iter().map(|(point, ..)| first.field.candidates[*point].plan()).collect();
    let cost = |plan: Plan| {
        let at = searched.iter().map(|at| Some(at.weight * at.sentinel_ns * at.best_of(plan)?.1));
        Some(PlanCost { plan, at: at.collect::<Option<_>>()? })
    };
    plans.into_iter().filter_map(cost).collect()
}

/// Plans by their total cost as a ratio to the least, cheapest first.
pub(super) fn ranked(costs: &[PlanCost]) -> Vec<(Plan, f64)> {
    let mut ranked: Vec<(Plan, f64)> = costs.iter().map(|cost| (cost.plan, cost.total())).collect();
    ranked.sort_by(|x, y| x.1.total_cmp(&y.1));
    let least = ranked.first().map_or(1.0, |(_, cost)| *cost);
    ranked.into_iter().map(|(plan, cost)| (plan, cost / least)).collect()
}

/// The plan to take of ranked ones: the incumbent if nothing is clearly cheaper, else, of those that cost the same, the
/// one whose formats were declared first, in the simplest layout.
pub(super) fn choose(ranked: &[(Plan, f64)], pairs: &[FormatPair], incumbent: Option<Plan>) -> Option<Plan> {
    if let Some(plan) = incumbent
        && ranked.iter().any(|(other, ratio)| *other == plan && *ratio <= KEEP)
    {
        return Some(plan);
    }
    let order = |plan: &Plan| (pairs.iter().position(|pair| *pair == plan.formats), plan.layout);
    let equal = ranked.iter().filter(|(_, ratio)| *ratio <= EQUAL).map(|(plan, _)| *plan);
    equal.min_by_key(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_kernels::{BackendKind, Format, Layout};

    fn plan(weight: Format, layout: Layout) -> Plan {
        Plan { formats: FormatPair { activation: Format::Bf16, weight }, layout }
    }

    #[test]
    fn equal_costs_follow_the_declared_order_and_then_the_simplest_layout() {
        let pairs = FormatPair::of(Format::Bf16, &[Format::MxFp6E2m3, Format::Bf16], false, BackendKind::Cpu);
        let ranked = [
            (plan(Format::Bf16, Layout::Panel16), 1.0),
            (plan(Format::MxFp6E2m3, Layout::Panel16x4), 1.005),
            (plan(Format::MxFp6E2m3, Layout::Panel16), 1.009),
            (plan(Format::MxFp6E2m3, Layout::RowMajor), 1.4),
        ];
        assert_eq!(choose(&ranked, &pairs, None), Some(plan(Format::MxFp6E2m3, Layout::Panel16)));
    }

    #[test]
    fn an_incumbent_plan_is_kept_within_its_margin_only() {
        let pairs = FormatPair::of(Format::Bf16, &[Format::Bf16], false, BackendKind::Cpu);
        let (row, panel) = (plan(Format::Bf16, Layout::RowMajor), plan(Format::Bf16, Layout::Panel16));
        assert_eq!(choose(&[(panel, 1.0), (row, 1.015)], &pairs, Some(row)), Some(row));
        assert_eq!(choose(&[(panel, 1.0), (row, 1.03)], &pairs, Some(row)), Some(panel));
        assert_eq!(choose(&[], &pairs, Some(row)), None);
    }
}
