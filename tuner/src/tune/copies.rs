//! Storing a weight twice: one plan for small M and another for large ones.
//!
//! Costs of the plans at each M are known (module `plan`), so the best pair is found by trying every pair at every place to
//! change from one to the other. A pair has to earn its memory: it is taken only where it is clearly cheaper than the best
//! single plan, and where both copies fit into what the declaration allows. Ms do not alternate between copies; a plan that
//! wins at one M between two that it loses is more likely noise than a reason to load a weight twice.

use super::candidates::Plan;
use super::plan::{CONTENTION, KEEP, MOST_CONTENDERS, PlanCost, ranked};
use crate::shapes::weight_bytes;
use crate::table::boundary;

/// A second copy has to make a pass cheaper by more than this factor.
const EARNS: f64 = 1.02;

/// How a weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The only copy, or the one for small M.
    pub(super) first: Plan,
    /// The first M of the second copy, and its plan.
    pub(super) second: Option<(u32, Plan)>,
}

impl Stored {
    /// One copy.
    pub(super) fn once(first: Plan) -> Self {
        Stored { first, second: None }
    }

    /// The plan that serves `m` rows.
    pub(super) fn at(&self, m: u32) -> Plan {
        match self.second {
            Some((from, plan)) if m >= from => plan,
            _ => self.first,
        }
    }
}

/// What a declaration allows two copies of a weight to take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    pub(super) n: u32,
    pub(super) k: u32,
    /// Both copies of one weight together.
    pub(super) mib: u64,
}

impl Allowed {
    fn fits(&self, plans: [Plan; 2]) -> bool {
        let bytes = plans.map(|plan| weight_bytes(self.n, self.k, plan.formats.weight));
        bytes[0] + bytes[1] <= u128::from(self.mib) << 20
    }
}

/// The plans worth measuring against each other: those that may be the best single one, and the best pair.
pub(super) fn contenders(estimates: &[PlanCost], ms: &[u32], allowed: Option<Allowed>) -> Vec<Plan> {
    let near = ranked(estimates).into_iter().filter(|(_, ratio)| *ratio <= CONTENTION);
    let mut plans: Vec<Plan> = near.map(|(plan, _)| plan).take(MOST_CONTENDERS).collect();
    if let Some((pair, _)) = best_pair(estimates, ms, allowed) {
        let pair = [Some(pair.first), pair.second.map(|(_, plan)| plan)];
        plans.extend(pair.into_iter().flatten().filter(|plan| !plans.contains(plan)).collect::<Vec<_>>());
    }
    plans
}

/// A pair in place of the single plan, where it earns its memory, with its cost as a ratio to the cheapest single plan's; else
/// the single plan. A pair that the table has already is kept unless another is clearly cheaper.
pub(super) fn store(
    costs: &[PlanCost],
    ms: &[u32],
    single: Plan,
    allowed: Option<Allowed>,
    incumbent: Option<Stored>,
) -> (Stored, f64) {
    let least = costs.iter().map(PlanCost::total).fold(f64::INFINITY, f64::min);
    let total = |plan: Plan| costs.iter().find(|cost| cost.plan == plan).map_or(least, PlanCost::total);
    let once = (Stored::once(single), total(single) / least);
    let Some((best, cost)) = best_pair(costs, ms, allowed) else { return once };
    if cost * EARNS >= total(single) {
        return once;
    }
    let kept = incumbent.and_then(|pair| Some((pair, pair_cost(costs, ms, pair, allowed)?)));
    match kept {
        Some((pair, kept)) if kept <= KEEP * cost && kept * EARNS < total(single) => (pair, kept / least),
        _ => (best, cost / least),
    }
}

/// The cheapest pair and its cost; the first of equals, in the order of the costs.
fn best_pair(costs: &[PlanCost], ms: &[u32], allowed: Option<Allowed>) -> Option<(Stored, f64)> {
    let allowed = allowed?;
    let mut best: Option<(Stored, f64)> = None;
    for first in costs {
        for second in costs.iter().filter(|second| second.plan != first.plan) {
            if !allowed.fits([first.plan, second.plan]) {
                continue;
            }
            for split in 1..ms.len() {
                let cost = first.at[..split].iter().chain(&second.at[split..]).sum();
                if best.is_none_or(|(_, least)| cost < least) {
                    let from = boundary(ms[split - 1], ms[split]);
                    best = Some((Stored { first: first.plan, second: Some((from, second.plan)) }, cost));
                }
            }
        }
    }
    best
}

/// What a pair costs, if its plans are known, fit, and share the Ms.
fn pair_cost(costs: &[PlanCost], ms: &[u32], pair: Stored, allowed: Option<Allowed>) -> Option<f64> {
    let (from, second) = pair.second?;
    let cost = |plan: Plan| costs.iter().find(|cost| cost.plan == plan);
    let (first, second) = (cost(pair.first)?, cost(second)?);
    let split = ms.partition_point(|m| *m < from);
    let shared = (1..ms.len()).contains(&split) && allowed?.fits([first.plan, second.plan]);
    shared.then(|| first.at[..split].iter().chain(&second.at[split..]).sum())
}

#[cfg(test)]
mod tests {
    use tilewright_kernels::{Format, Layout};

    use super::super::candidates::FormatPair;
    use super::*;

    const MS: [u32; 4] = [1, 16, 64, 256];
    const ROOMY: Option<Allowed> = Some(Allowed { n: 1024, k: 1024, mib: 16 });

    fn plan(weight: Format) -> Plan {
        Plan { formats: FormatPair { activation: Format::Bf16, weight }, layout: Layout::Panel16 }
    }

    fn costs(of: &[(Format, [f64; 4])]) -> Vec<PlanCost> {
        of.iter().map(|(format, at)| PlanCost { plan: plan(*format), at: at.to_vec() }).collect()
    }

    /// Six bits win at small M, bf16 at large ones.
    fn crossing() -> Vec<PlanCost> {
        costs(&[(Format::MxFp6E2m3, [1.0, 2.0, 8.0, 30.0]), (Format::Bf16, [3.0, 3.0, 5.0, 18.0])])
    }

    #[test]
    fn a_pair_that_earns_its_memory_changes_where_the_costs_cross() {
        let single = plan(Format::Bf16);
        let (stored, ratio) = store(&crossing(), &MS, single, ROOMY, None);
        assert_eq!(stored, Stored { first: plan(Format::MxFp6E2m3), second: Some((33, single)) });
        assert!((ratio - 26.0 / 29.0).abs() < 1e-12, "{ratio}");
        assert_eq!(
            [1, 32, 33, 4096].map(|m| stored.at(m).formats.weight == Format::Bf16),
            [false, false, true, true]
        );
        assert_eq!(contenders(&crossing(), &MS, ROOMY), [single, plan(Format::MxFp6E2m3)]);
        assert_eq!(contenders(&crossing(), &MS, None), [single]);
    }

    #[test]
    fn one_copy_is_kept_without_leave_without_room_and_without_a_gain() {
        let once = |costs: &[PlanCost], allowed| store(costs, &MS, plan(Format::Bf16), allowed, None).0;
        let single = Stored::once(plan(Format::Bf16));
        assert_eq!(once(&crossing(), None), single);
        // 1024 x 1024 take 2 MiB in bf16 and 0.8 in six bits.
        let full = |mib| Some(Allowed { n: 1024, k: 1024, mib });
        assert_eq!(once(&crossing(), full(2)), single);
        assert_ne!(once(&crossing(), full(3)), single);
        let close =
            costs(&[(Format::MxFp6E2m3, [2.8, 2.8, 8.0, 30.0]), (Format::Bf16, [3.0, 3.0, 5.0, 18.0])]);
        assert_eq!(once(&close, ROOMY), single, "1.4 % do not pay for a second copy");
    }

    #[test]
    fn a_pair_of_the_table_is_kept_within_its_margin_only() {
        let single = plan(Format::Bf16);
        let table = |from| Some(Stored { first: plan(Format::MxFp6E2m3), second: Some((from, single)) });
        let mut costs = crossing();
        costs[1].at[1] = 1.9;
        let kept = |from| store(&costs, &MS, single, ROOMY, table(from)).0;
        assert_eq!(kept(33), table(33).unwrap(), "0.4 % are no reason to move");
        assert_eq!(kept(100).second, Some((5, single)), "three units more are one");
        assert_eq!(kept(1), kept(100), "what leaves a copy without an M is no pair");
    }
}
