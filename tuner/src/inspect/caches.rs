//! Which lines a launch's workgroups find in L2 and in the Infinity Cache (MALL).
//!
//! Method: workgroup `i` runs on die `i % xcds`; a die holds as many at once as its units take and starts the next where
//! one ends. Workgroups at the same time advance evenly, a few lines a turn, so that sharing in time is seen and
//! nothing is known of speeds. Each die's L2 and the one MALL are set-associative with least-recently-used
//! replacement. Left out: L1 (every line that an instruction touches asks L2), write-back traffic, and that
//! non-temporal loads may bypass.

use std::collections::HashSet;
use std::collections::VecDeque;

use super::machine::Machine;

/// Bytes of a line.
pub const LINE: u64 = 128;
/// Lines a workgroup advances in its turn.
const TURN: usize = 16;
const WAYS: usize = 16;

/// What became of a launch's requests, in lines of 128 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Lines that instructions touched.
    pub requests: u64,
    /// Of those, not in the die's L2.
    pub l2_misses: u64,
    /// Of those, not in the MALL either: they come from memory.
    pub mall_misses: u64,
    /// Different lines.
    pub distinct: u64,
}

/// A cache of lines.
struct Cache {
    /// Most recently used first.
    sets: Vec<VecDeque<u64>>,
}

impl Cache {
    fn new(bytes: u64) -> Cache {
        let sets = (bytes / LINE) as usize / WAYS;
        Cache { sets: vec![VecDeque::with_capacity(WAYS + 1); sets] }
    }

    /// Whether the line was there; now it is.
    fn touch(&mut self, line: u64) -> bool {
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        let found = set.iter().position(|&held| held == line);
        if let Some(at) = found {
            set.remove(at);
        }
        set.push_front(line);
        set.truncate(WAYS);
        found.is_some()
    }
}

/// Runs each workgroup's lines, in the order of its touches, through the machine's caches. `resident` is how many workgroups a
/// compute unit holds.
pub fn simulate(streams: &[Vec<u64>], machine: &Machine, resident: u32) -> Reuse {
    let device = &machine.device;
    let mut l2: Vec<Cache> = (0..machine.xcds).map(|_| Cache::new(u64::from(device.l2_kib) * 1024)).collect();
    let mut mall = Cache::new(u64::from(device.llc_kib) * 1024);
    let mut reuse = Reuse::default();
    let mut distinct = HashSet::new();
    let slots = (device.units / machine.xcds * resident.max(1)) as usize;
    let dies = machine.xcds as usize;
    let mut waiting: Vec<VecDeque<&[u64]>> = vec![VecDeque::new(); dies];
    for (group, stream) in streams.iter().enumerate() {
        waiting[group % dies].push_back(stream);
    }
    let mut running: Vec<Vec<&[u64]>> = vec![Vec::new(); dies];
    loop {
        let mut idle = true;
        for die in 0..dies {
            while running[die].len() < slots {
                let Some(next) = waiting[die].pop_front() else { break };
                running[die].push(next);
            }
            for stream in &mut running[die] {
                let (now, later) = stream.split_at(TURN.min(stream.len()));
                *stream = later;
                for &line in now {
                    reuse.requests += 1;
                    distinct.insert(line);
                    if !l2[die].touch(line) {
                        reuse.l2_misses += 1;
                        reuse.mall_misses += u64::from(!mall.touch(line));
                    }
                }
            }
            running[die].retain(|stream| !stream.is_empty());
            idle &= running[die].is_empty() && waiting[die].is_empty();
        }
        if idle {
            reuse.distinct = distinct.len() as u64;
            return reuse;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> &'static Machine {
        Machine::of("gfx942").expect("it is known")
    }

    #[test]
    fn what_a_die_shares_is_fetched_once_and_what_dies_share_comes_from_the_mall() {
        // Sixteen workgroups read the same lines: two on each of eight dies.
        let streams = vec![(0..1000).collect::<Vec<u64>>(); 16];
        let reuse = simulate(&streams, machine(), 1);
        assert_eq!(reuse, Reuse { requests: 16_000, l2_misses: 8000, mall_misses: 1000, distinct: 1000 });
    }

    #[test]
    fn lines_of_their_own_are_all_fetched_from_memory() {
        let streams: Vec<Vec<u64>> = (0..40).map(|g| (g * 500..(g + 1) * 500).collect()).collect();
        let reuse = simulate(&streams, machine(), 2);
        assert_eq!((reuse.l2_misses, reuse.mall_misses, reuse.distinct), (20_000, 20_000, 20_000));
    }

    #[test]
    fn more_than_an_l2_holds_is_fetched_again_by_the_die() {
        // 8 MiB, read twice by one workgroup.
        let lines: Vec<u64> = (0..65_536).chain(0..65_536).collect();
        let reuse = simulate(&[lines], machine(), 1);
        assert_eq!((reuse.l2_misses, reuse.mall_misses), (131_072, 65_536));
    }
}
