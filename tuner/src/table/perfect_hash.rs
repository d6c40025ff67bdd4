//! Searching the constants of a [`PerfectHash`].
//!
//! Buckets are placed largest first, each by the first odd displacement of a fixed sequence that puts all its keys into
//! free slots. The sequence is SplitMix64 (Steele, Lea, Flood 2014) from a fixed seed, so equal keys give equal
//! constants on every host.

use tilewright_dispatch::table::{Code, NO_KERNEL, PerfectHash};

/// Displacements tried for one bucket before the whole search starts again with other multipliers.
const TRIES: usize = 1 << 16;

/// An owned [`PerfectHash`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    shape: u64,
    traits: u64,
    displace: Vec<u32>,
    slots: Vec<u16>,
}

impl Index {
    /// An index of distinct codes: `codes[i]` is found at position `i`. There are fewer than 65,535 of them.
    pub(super) fn search(codes: &[Code]) -> Self {
        let mut random = SplitMix64(0x7469_6c65_7772_6974);
        // Four keys to a bucket and four fifths of the slots full: the search then ends after a few tries a bucket, and the
        // whole index of a few hundred keys stays in the first-level cache.
        let buckets = codes.len().div_ceil(4).max(1);
        let mut slots = (codes.len() * 5).div_ceil(4).max(1);
        loop {
            for _ in 0..8 {
                let (shape, traits) = (random.next() | 1, random.next() | 1);
                if let Some(index) = place(codes, shape, traits, buckets, slots, &mut random) {
                    return index;
                }
            }
            slots += slots.div_ceil(8);
        }
    }

    /// The index as lookups read it.
    pub(super) fn as_data(&self) -> PerfectHash<'_> {
        let Index { shape, traits, ref displace, ref slots } = *self;
        PerfectHash { shape, traits, displace, slots }
    }
}

fn place(
    codes: &[Code],
    shape: u64,
    traits: u64,
    buckets: usize,
    slots: usize,
    random: &mut SplitMix64,
) -> Option<Index> {
    let mut displace = vec![1; buckets];
    let mut slots = vec![NO_KERNEL; slots];
    let view = PerfectHash { shape, traits, displace: &displace, slots: &slots };
    let mut buckets: Vec<Vec<(u64, u16)>> = vec![Vec::new(); buckets];
    for (position, code) in codes.iter().enumerate() {
        let hash = view.hash(*code);
        buckets[view.bucket(hash)].push((hash, u16::try_from(position).ok()?));
    }
    let mut order: Vec<usize> = (0..buckets.len()).filter(|bucket| !buckets[*bucket].is_empty()).collect();
    order.sort_by_key(|bucket| (usize::MAX - buckets[*bucket].len(), *bucket));
    for bucket in order {
        let keys = &buckets[bucket];
        let mut taken = Vec::with_capacity(keys.len());
        let view = PerfectHash { shape, traits, displace: &[], slots: &slots };
        let found = (0..TRIES).map(|_| random.next() as u32 | 1).find(|displace| {
            taken.clear();
            keys.iter().all(|(hash, _)| {
                let slot = view.slot(*hash, *displace);
                let free = slots[slot] == NO_KERNEL && !taken.contains(&slot);
                taken.push(slot);
                free
            })
        })?;
        displace[bucket] = found;
        for ((_, position), slot) in keys.iter().zip(&taken) {
            slots[*slot] = *position;
        }
    }
    Some(Index { shape, traits, displace, slots })
}

struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use tilewright_dispatch::Key;
    use tilewright_kernels::{Epilogue, Format, Layout, OutType, Scaling};

    use super::*;

    fn codes(count: u32) -> Vec<Code> {
        let formats = [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3];
        let key = |i: u32| Key {
            n: 64 * (1 + i / 3 % 101),
            k: 64 * (1 + i / 303),
            a: Format::Bf16,
            b: formats[i as usize % 3],
            scaling: Scaling::usual(formats[i as usize % 3]),
            layout: Layout::Panel16,
            out: OutType::F32,
            epilogue: Epilogue::None,
        };
        (0..count).map(|i| key(i).encode()).collect()
    }

    #[test]
    fn every_code_is_found_at_its_position() {
        for count in [0, 1, 2, 3, 7, 64, 192, 4000] {
            let codes = codes(count);
            let index = Index::search(&codes);
            for (position, code) in codes.iter().enumerate() {
                assert_eq!(index.as_data().find(*code), Some(position as u16), "{count} keys");
            }
        }
    }

    #[test]
    fn the_search_gives_the_same_constants_again() {
        assert_eq!(Index::search(&codes(192)), Index::search(&codes(192)));
    }
}
