//! From measured points to intervals of M that tile [1, ∞).
//!
//! Between two measured points the boundary is their geometric mean: kernels differ by ratios of M, not by differences,
//! and a power of two would make most real M run a kernel tuned for up to twice their size. A kernel keeps its
//! interval only where it is launchable; the rest goes to the neighbour's kernel, or, where there is no neighbour, to the
//! one with the least analytic estimate among the group's kernels, their runners-up and the family's fallback.
//!
//! That a kernel's launchable M around a measured point are one interval is assumed here, to find its ends by
//! bisection, and not relied upon: the lookup asks again about the real M.

use tilewright_dispatch::Key;
use tilewright_kernels::{Config, Device, family, is_launchable};

/// A measured point of a group.
pub(super) struct Point {
    /// Measured M.
    pub(super) m: u32,
    /// The kernel taken for it.
    pub(super) kernel: Config,
    /// Others for it, best first.
    pub(super) runner_ups: Vec<Config>,
}

/// A range of M, from `from` to the next piece's, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// First M.
    pub(super) from: u32,
    /// Position of the point it rests on.
    pub(super) point: usize,
    /// The kernel, or `None` where nothing is known to run.
    pub(super) kernel: Option<Config>,
}

/// The first M that belongs to the upper of two neighbouring points: the first above their geometric mean.
pub(crate) fn boundary(lower: u32, upper: u32) -> u32 {
    (u64::from(lower) * u64::from(upper)).isqrt() as u32 + 1
}

/// The pieces of a group; `points` are ascending in M and not empty.
pub(super) fn tile(points: &[Point], key: &Key, device: &Device) -> Vec<Piece> {
    let tiler = Tiler { points, key, device };
    let mut pieces: Vec<Piece> = Vec::new();
    for index in 0..points.len() {
        let low = if index == 0 { 1 } else { boundary(points[index - 1].m, points[index].m) };
        let high = points.get(index + 1).map_or(u32::MAX, |next| boundary(points[index].m, next.m) - 1);
        let Point { m, kernel, .. } = &points[index];
        let first = tiler.reach_down(kernel, low, *m);
        let last = tiler.reach_up(kernel, *m, high);
        if first > low {
            tiler.fill(index, low, first - 1, &mut pieces);
        }
        push(&mut pieces, Piece { from: first, point: index, kernel: Some(*kernel) });
        if last < high {
            tiler.fill(index, last + 1, high, &mut pieces);
        }
    }
    pieces
}

/// Appends a piece, or lets the one before it go on.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    if pieces.last().is_none_or(|last| (last.point, last.kernel) != (piece.point, piece.kernel)) {
        pieces.push(piece);
    }
}

struct Tiler<'a> {
    points: &'a [Point],
    key: &'a Key,
    device: &'a Device,
}

impl Tiler<'_> {
    fn runs(&self, kernel: &Config, m: u32) -> bool {
        is_launchable(kernel, &self.key.problem(m), self.device).is_ok()
    }

    /// The largest M up to `high` that a kernel, launchable at `m`, reaches.
    fn reach_up(&self, kernel: &Config, m: u32, high: u32) -> u32 {
        if self.runs(kernel, high) {
            return high;
        }
        let (mut yes, mut no) = (m, high);
        while no - yes > 1 {
            let middle = yes + (no - yes) / 2;
            if self.runs(kernel, middle) { yes = middle } else { no = middle }
        }
        yes
    }

    /// The smallest M down to `low` that a kernel, launchable at `m`, reaches.
    fn reach_down(&self, kernel: &Config, low: u32, m: u32) -> u32 {
        if self.runs(kernel, low) {
            return low;
        }
        let (mut no, mut yes) = (low, m);
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if self.runs(kernel, middle) { yes = middle } else { no = middle }
        }
        yes
    }

    /// Fills [low, high], which point `index` cannot serve with its own kernel.
    fn fill(&self, index: usize, low: u32, high: u32, pieces: &mut Vec<Piece>) {
        let mut from = low;
        loop {
            let (point, kernel) = self.substitute(index, from, high);
            push(pieces, Piece { from, point, kernel });
            let last = kernel.map_or(high, |kernel| self.reach_up(&kernel, from, high));
            if last >= high {
                return;
            }
            from = last + 1;
        }
    }

    /// What runs [from, …] in place of point `index`'s kernel, and the point that speaks for it: the neighbour's
    /// kernel, else the one with the least estimate of what the group and the default have.
    fn substitute(&self, index: usize, from: u32, high: u32) -> (usize, Option<Config>) {
        let neighbour = if from > self.points[index].m { index + 1 } else { index.wrapping_sub(1) };
        if let Some(point) = self.points.get(neighbour).filter(|point| self.runs(&point.kernel, from)) {
            return (neighbour, Some(point.kernel));
        }
        // No measurement says what is best here. Estimates are compared within the range, away from its first M,
        // where kernels made for few rows still look good.
        let inside = self.key.problem(from.saturating_mul(4).min(high));
        let mut points: Vec<usize> = (0..self.points.len()).collect();
        points.sort_by_key(|point| (point.abs_diff(index), *point));
        let measured = points.into_iter().flat_map(|position| {
            let Point { kernel, runner_ups, .. } = &self.points[position];
            std::iter::once(kernel).chain(runner_ups).map(move |kernel| (position, *kernel))
        });
        let default = family::fallback(&inside, self.key.layout, self.device).map(|kernel| (index, kernel));
        let estimate = |kernel: &Config| (kernel.family().prior)(kernel, &inside, self.device);
        let usable = measured.chain(default).filter(|(_, kernel)| self.runs(kernel, from));
        let best = usable.min_by(|(_, a), (_, b)| estimate(a).total_cmp(&estimate(b)));
        best.map_or((index, None), |(point, kernel)| (point, Some(kernel)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_lies_above_the_lower_point_and_not_above_the_upper() {
        for (lower, upper) in
            [(1, 2), (1, 3), (31, 32), (64, 128), (4096, 4097), (1, u32::MAX), (u32::MAX - 1, u32::MAX)]
        {
            let first = boundary(lower, upper);
            assert!(lower < first && first <= upper, "{lower} {upper} {first}");
        }
        assert_eq!(boundary(64, 256), 129);
        assert_eq!(boundary(1, 64), 9);
    }
}
