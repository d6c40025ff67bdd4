//! The first two rungs without a question: what binding proves about a segment, a lookup need not ask again.
//!
//! A key and an M make the whole problem, so whether a segment's kernel may run depends on M alone. A family promises
//! that the M at which a config is launchable are one interval ([`tilewright_kernels::Family::launchable`]); binding asks
//! the predicate at both ends of the segment and, because a promise is not a proof, at the powers of two in it and at
//! their neighbours and the ends' (where a rule about remainders would show). If all say yes, the segment is marked and a
//! lookup takes its kernel unasked; any other segment is left to the predicate.
//!
//! A lookup costs the perfect hash, one cache line of the group and one of the octave that holds M, four comparisons, and
//! no branch that depends on the data: with random keys a mispredicted one costs more than all the rest.

use alloc::vec;
use alloc::vec::Vec;

use crate::key::Code;

/// Answers of a cell.
const WIDTH: usize = 4;

/// Stands in [`Group::octaves`] for M that have no cell: 0, and what is left to the predicate for want of numbers.
const NONE: u8 = u8::MAX;

/// The kernel is launchable in the whole segment.
const LAUNCHABLE: u8 = 1;

/// It gives the same bits on every run.
const DETERMINISTIC: u8 = 2;

/// No M of the piece lies between the smallest and the largest measured one.
const OUTSIDE: u8 = 4;

/// Consecutive M that are asked about at either end of a segment.
const NEIGHBOURS: u32 = 32;

/// What lookups read, dense.
#[derive(Debug)]
pub(crate) struct Proven {
    /// By slot of the perfect hash, so that a lookup need not read which group that is.
    groups: Vec<Group>,
    cells: Vec<Cell>,
}

/// A group of segments: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group {
    code: Code,
    /// Its first cell.
    at: u32,
    /// By leading zeros of M, which are 32 for M = 0: the octave's first cell, counted from `at`, or [`NONE`].
    octaves: [u8; 33],
}

/// The pieces that an octave of M meets, or four of them: one cache line. More than four have cells that follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Cell {
    /// The last M of each piece; the largest number for those that are not there.
    lasts: [u32; WIDTH],
    answers: [Answer; WIDTH],
}

/// A segment's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The measured M.
    pub(crate) m: u32,
    /// Position in the table.
    pub(crate) position: u32,
    /// Position of the config among the bound ones.
    pub(crate) config: u16,
    /// Its rank in the row.
    pub(crate) rank: u8,
    proof: u8,
}

impl Answer {
    /// A segment that proves nothing.
    pub(crate) const UNPROVEN: Answer = Answer { m: 0, position: 0, config: 0, rank: 0, proof: 0 };

    /// A segment whose kernel is launchable throughout.
    pub(crate) fn proven(m: u32, position: u32, config: u16, rank: u8, deterministic: bool) -> Self {
        let proof = LAUNCHABLE | (DETERMINISTIC * u8::from(deterministic));
        Answer { m, position, config, rank, proof }
    }
}

/// A proven answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    /// Position of the config among the bound ones.
    pub(crate) config: u16,
    /// Its rank in the row.
    pub(crate) rank: u8,
    /// Position of the segment in the table.
    pub(crate) segment: u32,
    /// 0: M was measured; 1: it lies between measured ones; 2: outside of them.
    pub(crate) distance: usize,
}

impl Group {
    /// Where there is none. No legal problem has this code.
    const EMPTY: Group = Group { code: Code { shape: 0, traits: 0 }, at: 0, octaves: [NONE; 33] };
}

impl Proven {
    /// Of a perfect hash with this many slots; none of them has a group yet.
    pub(crate) fn new(slots: usize) -> Self {
        Proven { groups: vec![Group::EMPTY; slots], cells: Vec::new() }
    }

    /// Puts a group into its slot: the last M of each of its segments, ascending to the largest number, and their answers.
    pub(crate) fn put(&mut self, slot: usize, code: Code, measured: [u32; 2], of: &[(u32, Answer)]) {
        let pieces = pieces(measured, of);
        let at = self.cells.len();
        let holds = |m: u32| pieces.partition_point(|(last, _)| *last < m);
        let mut octaves = [NONE; 33];
        // From the smallest octave up, so that those above the last segment share its cell.
        for zeros in (0..32usize).rev() {
            let most = u32::MAX >> zeros;
            let cells = pieces[holds(most / 2 + 1)..=holds(most)].chunks(WIDTH).map(Cell::of);
            let cells: Vec<Cell> = cells.collect();
            if !self.cells[at..].ends_with(&cells) {
                self.cells.extend(&cells);
            }
            let first = self.cells.len() - cells.len() - at;
            octaves[zeros] = u8::try_from(first).unwrap_or(NONE);
        }
        if let Some(group) = self.groups.get_mut(slot) {
            *group = Group { code, at: at as u32, octaves };
        }
    }

    /// The answer for the group in `slot`, if it is this code's and the answer is proven.
    #[inline(always)]
    pub(crate) fn find(&self, slot: usize, code: Code, m: u32, deterministic: bool) -> Option<Hit> {
        let group = self.groups.get(slot)?;
        if (group.code.shape ^ code.shape) | (group.code.traits ^ code.traits) != 0 {
            return None;
        }
        let octave = group.octaves[m.leading_zeros() as usize];
        if octave == NONE {
            return None;
        }
        let mut at = group.at as usize + octave as usize;
        let answer = loop {
            let cell = self.cells.get(at)?;
            let within: usize = cell.lasts.iter().map(|last| usize::from(m > *last)).sum();
            match cell.answers.get(within) {
                Some(answer) => break answer,
                None => at += 1,
            }
        };
        let need = LAUNCHABLE | (DETERMINISTIC * u8::from(deterministic));
        if answer.proof & need != need {
            return None;
        }
        let beyond = usize::from(answer.proof & OUTSIDE != 0);
        Some(Hit {
            config: answer.config,
            rank: answer.rank,
            segment: answer.position,
            distance: usize::from(m != answer.m) * (1 + beyond),
        })
    }
}

impl Cell {
    /// Of at most [`WIDTH`] pieces.
    fn of(pieces: &[(u32, Answer)]) -> Self {
        let mut cell = Cell { lasts: [u32::MAX; WIDTH], answers: [Answer::UNPROVEN; WIDTH] };
        for (index, (last, segment)) in pieces.iter().enumerate() {
            (cell.lasts[index], cell.answers[index]) = (*last, *segment);
        }
        cell
    }
}

/// Segments, cut where measured M begin and end, so that a piece lies inside or outside as a whole.
fn pieces([least, most]: [u32; 2], of: &[(u32, Answer)]) -> Vec<(u32, Answer)> {
    let mut pieces = Vec::with_capacity(of.len() + 2);
    let mut from = 1;
    for (last, segment) in of {
        for end in [least - 1, most, *last] {
            let end = end.min(*last);
            if end < from {
                continue;
            }
            let outside = end < least || from > most;
            let proof = segment.proof | (OUTSIDE * u8::from(outside));
            pieces.push((end, Answer { proof, ..*segment }));
            from = end.saturating_add(1);
            if end == u32::MAX {
                return pieces;
            }
        }
    }
    pieces
}

/// Whether a kernel runs all M of a range, as far as asking can tell.
pub(crate) fn runs_throughout(first: u32, last: u32, mut runs: impl FnMut(u32) -> bool) -> bool {
    let low = first..=last.min(first.saturating_add(NEIGHBOURS - 1));
    let high = first.max(last.saturating_sub(NEIGHBOURS - 1))..=last;
    let powers = (0..32u32).flat_map(|power| {
        let power = 1u32 << power;
        [power - 1, power, power + 1]
    });
    low.chain(high).chain(powers.filter(|m| (first..=last).contains(m))).all(&mut runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: Code = Code { shape: 1, traits: 2 };

    /// A group whose segments end at `lasts`, between two others, as lookups see it.
    fn table(lasts: &[u32]) -> Proven {
        let mut proven = Proven::new(4);
        let other = [(u32::MAX, Answer::proven(1, 0, 7, 0, true))];
        proven.put(0, Code { shape: 9, traits: 9 }, [1, 1], &other);
        let segments: Vec<(u32, Answer)> = lasts
            .iter()
            .enumerate()
            .map(|(i, last)| (*last, Answer::proven(*last, 1 + i as u32, i as u16, 0, false)))
            .collect();
        proven.put(1, CODE, [2, 900], &segments);
        proven.put(2, Code { shape: 8, traits: 8 }, [1, 1], &other);
        proven
    }

    #[test]
    fn every_m_finds_the_segment_that_holds_it() {
        let sparse = vec![1, 5, 6, 7, 32, 45, 90, 700, u32::MAX];
        let dense: Vec<u32> = (1..400).map(|i| i * 8).chain([u32::MAX]).collect();
        let one_each: Vec<u32> = (1..2000).chain([u32::MAX]).collect();
        for lasts in [sparse, dense, one_each, vec![u32::MAX], vec![u32::MAX - 1, u32::MAX]] {
            let table = table(&lasts);
            let mut found = 0;
            for m in (1..5000).chain([1 << 20, 1 << 31, u32::MAX - 1, u32::MAX]) {
                let expected = lasts.iter().position(|last| m <= *last).unwrap();
                let Some(hit) = table.find(1, CODE, m, false) else { continue };
                found += 1;
                assert_eq!((hit.config as usize, hit.segment as usize), (expected, 1 + expected), "m={m}");
                let distance =
                    if lasts[expected] == m { 0 } else { 1 + usize::from(!(2..=900).contains(&m)) };
                assert_eq!(hit.distance, distance, "m={m}");
            }
            // A cell's number has eight bits: a group of thousands of segments leaves its upper octaves to the predicate.
            assert!(found == 5003 || lasts.len() > 1000 && found > 500, "{} segments: {found}", lasts.len());
        }
    }

    #[test]
    fn a_cell_and_a_group_are_one_cache_line() {
        assert_eq!((size_of::<Cell>(), size_of::<Group>()), (64, 64));
        let table = table(&[u32::MAX]);
        assert!(
            table.cells.len() <= 3 * 4,
            "octaves above the last measured M share a cell: {}",
            table.cells.len()
        );
    }

    #[test]
    fn nothing_is_found_at_m_0_by_another_code_or_without_proof() {
        let table = table(&[u32::MAX]);
        assert!(table.find(1, CODE, 1, false).is_some());
        assert!(table.find(1, CODE, 0, false).is_none());
        assert!(table.find(1, CODE, 1, true).is_none(), "it is not deterministic");
        assert!(table.find(0, CODE, 1, false).is_none());
        assert!(table.find(3, CODE, 1, false).is_none(), "the slot is empty");
        assert!(table.find(4, CODE, 1, false).is_none(), "there is no such slot");
        let mut unproven = Proven::new(1);
        unproven.put(0, CODE, [1, 1], &[(u32::MAX, Answer::UNPROVEN)]);
        assert!(unproven.find(0, CODE, 1, false).is_none());
    }

    #[test]
    fn rules_about_ends_and_remainders_are_seen() {
        assert!(runs_throughout(1, u32::MAX, |_| true));
        assert!(runs_throughout(33, 33, |m| m == 33));
        assert!(!runs_throughout(1, 33, |m| m <= 32));
        assert!(!runs_throughout(1, u32::MAX, |m| m < u32::MAX));
        assert!(!runs_throughout(8, 8192, |m| m % 8 == 0));
        assert!(!runs_throughout(100, 100_000, |m| m % 31 != 0));
    }
}
