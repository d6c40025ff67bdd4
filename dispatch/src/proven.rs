//! The first two rungs without a question: what binding proves about a segment, a lookup need not ask again.
//!
//! A key and an M make the whole problem, so whether a segment's kernel may run depends on M alone. A family promises
//! that the M at which a config is launchable are one interval ([`tilewright_kernels::Family::launchable`]); binding asks
//! the predicate at both ends of the segment and, because a promise is not a proof, at the powers of two in it and at
//! their neighbours and the ends' (where a rule about remainders would show). If all say yes, the segment is marked and a
//! lookup takes its kernel unasked; any other segment is left to the predicate.
//!
//! A lookup costs the perfect hash, one cache line of the group, four comparisons with the ends of neighbouring segments,
//! and no branch that depends on the data: with random keys a mispredicted one costs more than all the rest.

use alloc::vec::Vec;

use crate::key::Code;

/// Segments after the first one of an octave that a lookup compares M with.
const WINDOW: usize = 4;

/// Stands in [`Group::octaves`] for an octave with more segments than that, which are searched by halving.
const DENSE: u8 = u8::MAX;

/// The kernel is launchable in the whole segment.
const LAUNCHABLE: u8 = 1;

/// It gives the same bits on every run.
const DETERMINISTIC: u8 = 2;

/// Consecutive M that are asked about at either end of a segment.
const NEIGHBOURS: u32 = 32;

/// What lookups read, dense.
#[derive(Debug, Default)]
pub(crate) struct Proven {
    groups: Vec<Group>,
    /// The last M of every segment; after each group's, `WINDOW` − 1 times the largest number.
    lasts: Vec<u32>,
    /// In step with `lasts`.
    segments: Vec<Segment>,
}

/// A group of segments: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group {
    code: Code,
    measured: [u32; 2],
    /// Of its segments in the table.
    first: u32,
    /// Of its segments here.
    at: u32,
    /// By leading zeros of M: the segment that holds the octave's first M, or [`DENSE`].
    octaves: [u8; 32],
}

/// A segment's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The measured M.
    pub(crate) m: u32,
    /// Position of the config among the bound ones.
    pub(crate) config: u16,
    /// Its rank in the row.
    pub(crate) rank: u8,
    proof: u8,
}

impl Segment {
    /// A segment that proves nothing.
    pub(crate) const UNPROVEN: Segment = Segment { m: 0, config: 0, rank: 0, proof: 0 };

    /// A segment whose kernel is launchable throughout.
    pub(crate) fn proven(m: u32, config: u16, rank: u8, deterministic: bool) -> Self {
        Segment { m, config, rank, proof: LAUNCHABLE | (DETERMINISTIC * u8::from(deterministic)) }
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

impl Proven {
    /// Adds the next group: the last M of each of its segments, ascending to the largest number, and their answers.
    pub(crate) fn push(&mut self, code: Code, measured: [u32; 2], first: u32, of: &[(u32, Segment)]) {
        let at = self.lasts.len() as u32;
        let holds = |m: u32| of.partition_point(|(last, _)| *last < m);
        let mut octaves = [DENSE; 32];
        for (zeros, octave) in octaves.iter_mut().enumerate() {
            let most = u32::MAX >> zeros;
            let (low, high) = (holds(most / 2 + 1), holds(most));
            if high - low <= WINDOW && low < DENSE as usize {
                *octave = low as u8;
            }
        }
        self.groups.push(Group { code, measured, first, at, octaves });
        let padding = core::iter::repeat_n((u32::MAX, Segment::UNPROVEN), WINDOW - 1);
        for (last, segment) in of.iter().copied().chain(padding) {
            self.lasts.push(last);
            self.segments.push(segment);
        }
    }

    /// The answer for the group at `position`, if it is this code's and the answer is proven.
    #[inline(always)]
    pub(crate) fn find(&self, position: u16, code: Code, m: u32, deterministic: bool) -> Option<Hit> {
        let group = self.groups.get(position as usize)?;
        if (group.code.shape ^ code.shape) | (group.code.traits ^ code.traits) != 0 {
            return None;
        }
        // M = 0 has 32 leading zeros: no octave holds it.
        let octave = *group.octaves.get(m.leading_zeros() as usize)?;
        let at = group.at as usize;
        let within = if octave == DENSE {
            self.halve(position, m)
        } else {
            let window = self.lasts.get(at + octave as usize..)?.first_chunk::<WINDOW>()?;
            octave as usize + window.iter().map(|last| usize::from(m > *last)).sum::<usize>()
        };
        let segment = self.segments.get(at + within)?;
        let need = LAUNCHABLE | (DETERMINISTIC * u8::from(deterministic));
        if segment.proof & need != need {
            return None;
        }
        let [least, most] = group.measured;
        let distance = usize::from(m != segment.m) + usize::from((m < least) | (m > most));
        Some(Hit {
            config: segment.config,
            rank: segment.rank,
            segment: group.first + within as u32,
            distance,
        })
    }

    /// The segment of a group that holds `m`, by halving.
    #[inline(never)]
    fn halve(&self, position: u16, m: u32) -> usize {
        let at = self.groups[position as usize].at as usize;
        let end = self.groups.get(position as usize + 1).map_or(self.lasts.len(), |next| next.at as usize);
        self.lasts[at..end].partition_point(|last| *last < m)
    }
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
    use alloc::vec;

    use super::*;

    const CODE: Code = Code { shape: 1, traits: 2 };

    /// A group whose segments end at `lasts`, behind another one, as lookups see it.
    fn table(lasts: &[u32]) -> Proven {
        let mut proven = Proven::default();
        proven.push(Code { shape: 9, traits: 9 }, [1, 1], 0, &[(u32::MAX, Segment::proven(1, 7, 0, true))]);
        let segments: Vec<(u32, Segment)> = lasts
            .iter()
            .enumerate()
            .map(|(i, last)| (*last, Segment::proven(*last, i as u16, 0, false)))
            .collect();
        proven.push(CODE, [2, 900], 1, &segments);
        proven.push(Code { shape: 8, traits: 8 }, [1, 1], 0, &[(u32::MAX, Segment::proven(1, 7, 0, true))]);
        proven
    }

    #[test]
    fn every_m_finds_the_segment_that_holds_it() {
        let sparse = vec![1, 5, 6, 7, 32, 45, 90, 700, u32::MAX];
        let dense: Vec<u32> = (1..400).map(|i| i * 8).chain([u32::MAX]).collect();
        for lasts in [sparse, dense, vec![u32::MAX], vec![u32::MAX - 1, u32::MAX]] {
            let table = table(&lasts);
            for m in (1..5000).chain([1 << 20, 1 << 31, u32::MAX - 1, u32::MAX]) {
                let expected = lasts.iter().position(|last| m <= *last).unwrap();
                let hit = table.find(1, CODE, m, false).unwrap();
                assert_eq!((hit.config as usize, hit.segment as usize), (expected, 1 + expected), "m={m}");
                let distance = if lasts[expected] == m { 0 } else { 1 };
                assert_eq!(hit.distance, distance + usize::from(!(2..=900).contains(&m)), "m={m}");
            }
        }
    }

    #[test]
    fn nothing_is_found_at_m_0_by_another_code_or_without_proof() {
        let table = table(&[u32::MAX]);
        assert!(table.find(1, CODE, 1, false).is_some());
        assert!(table.find(1, CODE, 0, false).is_none());
        assert!(table.find(1, CODE, 1, true).is_none(), "it is not deterministic");
        assert!(table.find(0, CODE, 1, false).is_none());
        assert!(table.find(3, CODE, 1, false).is_none(), "there is no such group");
        let mut unproven = Proven::default();
        unproven.push(CODE, [1, 1], 0, &[(u32::MAX, Segment::UNPROVEN)]);
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
