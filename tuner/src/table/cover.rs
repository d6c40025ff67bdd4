//! Fewest kernels: a greedy set cover over tie sets.
//!
//! Many rows have several kernels that could not be told apart. Taking the same one for as many rows as possible makes
//! the table smaller and its intervals longer, at a cost below [`MAX_SLOWDOWN`] a row. Greedy is within ln(rows)+1 of
//! the fewest (Chvátal 1979); ties go to the least total slowdown, then to canonical order, so the result depends on
//! nothing but the rows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A rival may take a row's place up to this ratio to the winner.
pub(super) const MAX_SLOWDOWN: f64 = 1.02;

/// The kernels that may serve one row: the winner at ratio 1 and its tie set.
pub(super) struct Candidates<'a> {
    /// Rows of one run are neighbours in M of one group.
    pub(super) run: usize,
    /// Canonical texts and their time relative to the winner's.
    pub(super) kernels: Vec<(&'a str, f64)>,
}

/// One kernel per row.
pub(super) fn cover<'a>(rows: &[Candidates<'a>]) -> Vec<&'a str> {
    let mut serves: BTreeMap<&'a str, Vec<(usize, f64)>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        for (kernel, ratio) in allowed(row) {
            serves.entry(kernel).or_default().push((index, ratio));
        }
    }
    let mut served = vec![false; rows.len()];
    let gain = |kernel: &'a str, served: &[bool]| {
        let open = serves[kernel].iter().filter(|(row, _)| !served[*row]);
        let (count, cost) = open.fold((0, 0.0), |(count, cost), (_, ratio)| (count + 1, cost + ratio));
        Gain { count, cost, kernel }
    };
    // Serving rows lowers the gains of others and raises none, so a gain that is still true at the top is the largest.
    let mut gains: BinaryHeap<Gain<'a>> = serves.keys().map(|kernel| gain(kernel, &served)).collect();
    let mut chosen = BTreeSet::new();
    while let Some(best) = gains.pop() {
        let now = gain(best.kernel, &served);
        if now.count == 0 {
            continue;
        }
        if now.count < best.count {
            gains.push(now);
            continue;
        }
        chosen.insert(best.kernel);
        for (row, _) in &serves[best.kernel] {
            served[*row] = true;
        }
    }
    assign(rows, &chosen)
}

/// What choosing a kernel would give: rows nobody serves yet, at a total of ratios. The largest serves the most rows, of
/// those the cheapest, of those the first in canonical order.
#[derive(PartialEq)]
struct Gain<'a> {
    count: usize,
    cost: f64,
    kernel: &'a str,
}

impl Eq for Gain<'_> {}

impl Ord for Gain<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_cost = other.cost.total_cmp(&self.cost);
        self.count.cmp(&other.count).then(by_cost).then_with(|| other.kernel.cmp(self.kernel))
    }
}

impl PartialOrd for Gain<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Among chosen kernels a row takes its lower neighbour's, else the fastest, else the first in canonical order.
fn assign<'a>(rows: &[Candidates<'a>], chosen: &BTreeSet<&str>) -> Vec<&'a str> {
    let mut taken: Vec<&'a str> = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let usable = || allowed(row).filter(|(kernel, _)| chosen.contains(kernel));
        let neighbour =
            index.checked_sub(1).filter(|before| rows[*before].run == row.run).map(|before| taken[before]);
        let same = usable().map(|(kernel, _)| kernel).find(|kernel| Some(*kernel) == neighbour);
        let fastest =
            usable().min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0))).map(|(kernel, _)| kernel);
        taken.push(same.or(fastest).expect("every row is covered by its winner at least"));
    }
    taken
}

/// A row's winner, and the rivals close enough to it.
fn allowed<'a, 'r>(row: &'r Candidates<'a>) -> impl Iterator<Item = (&'a str, f64)> + use<'a, 'r> {
    row.kernels
        .iter()
        .copied()
        .enumerate()
        .filter(|(i, (_, ratio))| *i == 0 || *ratio <= MAX_SLOWDOWN)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(run: usize, kernels: &[(&'a str, f64)]) -> Candidates<'a> {
        Candidates { run, kernels: kernels.to_vec() }
    }

    #[test]
    fn a_shared_rival_replaces_several_winners() {
        let rows = [
            row(0, &[("a", 1.0), ("s", 1.01)]),
            row(0, &[("b", 1.0), ("s", 1.005)]),
            row(0, &[("c", 1.0), ("s", 1.02)]),
        ];
        assert_eq!(cover(&rows), ["s", "s", "s"]);
    }

    #[test]
    fn a_rival_slower_than_the_limit_replaces_nothing() {
        let rows = [row(0, &[("a", 1.0), ("s", 1.021)]), row(0, &[("b", 1.0), ("s", 1.021)])];
        assert_eq!(cover(&rows), ["a", "b"]);
    }

    #[test]
    fn a_tie_takes_the_neighbours_kernel() {
        // Both kernels are needed elsewhere; the middle row is tied between them.
        let rows = [row(0, &[("b", 1.0)]), row(0, &[("a", 1.0), ("b", 1.01)]), row(1, &[("a", 1.0)])];
        assert_eq!(cover(&rows), ["b", "b", "a"]);
        let apart = [row(0, &[("b", 1.0)]), row(1, &[("a", 1.0), ("b", 1.01)]), row(2, &[("a", 1.0)])];
        assert_eq!(cover(&apart), ["b", "a", "a"], "a neighbour in another group does not count");
    }

    #[test]
    fn equal_gains_go_to_the_lower_cost_then_to_canonical_order() {
        let cheaper = [
            row(0, &[("x", 1.0), ("p", 1.01), ("q", 1.005)]),
            row(1, &[("y", 1.0), ("p", 1.01), ("q", 1.005)]),
        ];
        assert_eq!(cover(&cheaper), ["q", "q"]);
        let equal = [
            row(0, &[("x", 1.0), ("q", 1.01), ("p", 1.01)]),
            row(1, &[("y", 1.0), ("p", 1.01), ("q", 1.01)]),
        ];
        assert_eq!(cover(&equal), ["p", "p"]);
    }
}
