//! LDS of one workgroup: data, bank conflicts, and a watch for races.
//!
//! A race is two waves touching the same dword, one of them writing, with no barrier between. Atomics are not counted
//! (they are how waves talk to each other). A wave that hands data on by a flag in LDS is reported all the same: the
//! watch knows barriers only, so its report is for a person or a test to judge.

use std::collections::BTreeMap;

use crate::error::{Trap, trap};

/// LDS of one workgroup.
pub(crate) struct Lds {
    words: Vec<u32>,
    watch: Option<Watch>,
}

struct Watch {
    /// Number of barriers passed.
    epoch: u32,
    cells: Vec<Cell>,
    found: BTreeMap<u32, Race>,
}

#[derive(Clone, Copy)]
struct Cell {
    epoch: u32,
    writer: Option<u8>,
    readers: u32,
}

/// Two waves that touched one place of LDS without a barrier between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Race {
    /// Byte address in LDS.
    pub address: u32,
    /// The wave that came first.
    pub first: u32,
    /// The wave that came second.
    pub second: u32,
    /// Whether both wrote.
    pub both_wrote: bool,
}

/// Races of one workgroup that are kept.
const KEPT: usize = 64;

impl Lds {
    pub(crate) fn new(bytes: u32, poison: u32, watch: bool) -> Self {
        let words = bytes.div_ceil(4) as usize;
        let cell = Cell { epoch: 0, writer: None, readers: 0 };
        let watch = watch.then(|| Watch { epoch: 1, cells: vec![cell; words], found: BTreeMap::new() });
        Self { words: vec![poison; words], watch }
    }

    #[inline(always)]
    fn check(&self, address: u32, bytes: u32) -> Result<(), Trap> {
        if u64::from(address) + u64::from(bytes) <= 4 * self.words.len() as u64 {
            return Ok(());
        }
        self.outside(address, bytes)
    }

    #[cold]
    fn outside(&self, address: u32, bytes: u32) -> Result<(), Trap> {
        let have = 4 * self.words.len();
        trap!("{bytes} bytes at LDS address {address:#x}, where the workgroup has {have} bytes")
    }

    #[inline(always)]
    pub(crate) fn load(
        &mut self,
        wave: u32,
        address: u32,
        bytes: u8,
        out: &mut [u32; 4],
    ) -> Result<(), Trap> {
        self.check(address, u32::from(bytes))?;
        self.touch(wave, address, bytes, false);
        if address.is_multiple_of(4) && bytes >= 4 {
            // By word: a call of memmove for so few costs more.
            let words = &self.words[(address / 4) as usize..][..usize::from(bytes / 4)];
            for (out, &word) in out.iter_mut().zip(words) {
                *out = word;
            }
            return Ok(());
        }
        for (i, out) in out.iter_mut().enumerate().take(usize::from(bytes).div_ceil(4)) {
            *out = self.word(address + 4 * i as u32);
        }
        if bytes < 4 {
            out[0] &= (1 << (8 * bytes)) - 1;
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn store(&mut self, wave: u32, address: u32, bytes: u8, data: &[u32; 4]) -> Result<(), Trap> {
        self.check(address, u32::from(bytes))?;
        self.touch(wave, address, bytes, true);
        if address.is_multiple_of(4) && bytes >= 4 {
            let words = &mut self.words[(address / 4) as usize..][..usize::from(bytes / 4)];
            for (word, &data) in words.iter_mut().zip(data) {
                *word = data;
            }
        } else {
            for i in 0..u32::from(bytes) {
                let byte = data[i as usize / 4] >> (8 * (i % 4)) & 0xff;
                let (at, shift) = ((address + i) / 4, 8 * ((address + i) % 4));
                let word = &mut self.words[at as usize];
                *word = *word & !(0xff << shift) | byte << shift;
            }
        }
        Ok(())
    }

    /// `N` dwords for the common case: aligned, inside, nobody watching.
    #[inline(always)]
    pub(crate) fn dwords<const N: usize>(&self, address: u32) -> Option<&[u32; N]> {
        if self.watch.is_some() || !address.is_multiple_of(4) {
            return None;
        }
        self.words.get((address / 4) as usize..)?.first_chunk()
    }

    /// As [`Lds::dwords`], to write.
    #[inline(always)]
    pub(crate) fn dwords_mut<const N: usize>(&mut self, address: u32) -> Option<&mut [u32; N]> {
        if self.watch.is_some() || !address.is_multiple_of(4) {
            return None;
        }
        self.words.get_mut((address / 4) as usize..)?.first_chunk_mut()
    }

    /// Read-modify-write; returns the old value.
    pub(crate) fn update(&mut self, address: u32, wide: bool, f: impl Fn(u64) -> u64) -> Result<u64, Trap> {
        let bytes = if wide { 8 } else { 4 };
        self.check(address, bytes)?;
        if !address.is_multiple_of(bytes) {
            return trap!("an LDS atomic at address {address:#x}, which is not a multiple of {bytes}");
        }
        let at = (address / 4) as usize;
        let high = if wide { self.words[at + 1] } else { 0 };
        let old = u64::from(high) << 32 | u64::from(self.words[at]);
        let new = f(old);
        self.words[at] = new as u32;
        if wide {
            self.words[at + 1] = (new >> 32) as u32;
        }
        Ok(old)
    }

    #[inline]
    fn word(&self, address: u32) -> u32 {
        let (i, shift) = ((address / 4) as usize, 8 * (address % 4));
        let low = self.words.get(i).copied().unwrap_or(0);
        if shift == 0 {
            return low;
        }
        let high = self.words.get(i + 1).copied().unwrap_or(0);
        ((u64::from(high) << 32 | u64::from(low)) >> shift) as u32
    }

    /// All waves have passed a barrier.
    pub(crate) fn barrier(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.epoch += 1;
        }
    }

    /// Records an access that takes no data, as that of a transfer still under way.
    #[inline(always)]
    pub(crate) fn touch(&mut self, wave: u32, address: u32, bytes: u8, write: bool) {
        if let Some(watch) = &mut self.watch {
            watch.touch_all(wave, address, bytes, write);
        }
    }

    /// The races found.
    pub(crate) fn races(&self) -> Vec<Race> {
        self.watch.as_ref().map_or_else(Vec::new, |watch| watch.found.values().copied().collect())
    }
}

impl Watch {
    fn touch_all(&mut self, wave: u32, address: u32, bytes: u8, write: bool) {
        for at in address / 4..=(address + u32::from(bytes) - 1) / 4 {
            self.touch(wave, at, write);
        }
    }

    fn touch(&mut self, wave: u32, at: u32, write: bool) {
        let Some(cell) = self.cells.get_mut(at as usize) else { return };
        if cell.epoch != self.epoch {
            *cell = Cell { epoch: self.epoch, writer: None, readers: 0 };
        }
        let others = cell.readers & !(1 << wave);
        let first = match cell.writer {
            Some(writer) if u32::from(writer) != wave => Some((u32::from(writer), write)),
            _ if write && others != 0 => Some((others.trailing_zeros(), false)),
            _ => None,
        };
        if write {
            cell.writer = Some(wave as u8);
        } else {
            cell.readers |= 1 << wave;
        }
        if let Some((first, both_wrote)) = first
            && self.found.len() < KEPT
        {
            self.found.entry(at).or_insert(Race { address: 4 * at, first, second: wave, both_wrote });
        }
    }
}

/// Cycles that a wave's access takes and would take without conflicts, with `banks` banks of 4 bytes.
///
/// Lanes go through in groups: 32 lanes for 4 bytes and fewer, 16 for 8, 8 for 12 and 16 bytes. Within a group each
/// bank serves one dword a cycle, and lanes that read the same dword share it.
pub(crate) fn bank_cycles(addresses: &[Option<u32>; 64], bytes: u8, banks: u32) -> (u32, u32) {
    let group = match bytes {
        0..=4 => 32,
        8 => 16,
        _ => 8,
    };
    let (mut cycles, mut ideal) = (0, 0);
    for lanes in addresses.chunks(group) {
        let mut dwords: Vec<u32> =
            lanes.iter().flatten().flat_map(|a| a / 4..(a + u32::from(bytes)).div_ceil(4)).collect();
        if dwords.is_empty() {
            continue;
        }
        dwords.sort_unstable();
        dwords.dedup();
        let mut load = vec![0; banks as usize];
        for dword in &dwords {
            load[(dword % banks) as usize] += 1;
        }
        cycles += load.iter().copied().max().unwrap_or(0);
        ideal += (dwords.len() as u32).div_ceil(banks);
    }
    (cycles, ideal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_survives_at_any_alignment() {
        let mut lds = Lds::new(32, 0, false);
        lds.store(0, 5, 8, &[0x4433_2211, 0x8877_6655, 0, 0]).unwrap();
        let mut out = [0; 4];
        lds.load(0, 5, 8, &mut out).unwrap();
        assert_eq!(out[..2], [0x4433_2211, 0x8877_6655]);
        lds.load(0, 12, 2, &mut out).unwrap();
        assert_eq!(out[0], 0x88);
        assert!(lds.load(0, 28, 8, &mut out).is_err());
        assert!(lds.store(0, 32, 1, &out).is_err());
        assert_eq!(lds.update(8, false, |x| x + 1), Ok(0x7766_5544));
    }

    #[test]
    fn a_race_needs_two_waves_a_write_and_no_barrier() {
        let mut out = [0; 4];
        let mut lds = Lds::new(64, 0, true);
        lds.store(0, 0, 4, &out).unwrap();
        lds.load(0, 0, 4, &mut out).unwrap();
        lds.load(0, 8, 4, &mut out).unwrap();
        lds.load(1, 8, 4, &mut out).unwrap();
        assert_eq!(lds.races(), []);
        lds.barrier();
        lds.load(1, 0, 4, &mut out).unwrap();
        assert_eq!(lds.races(), []);
        lds.store(2, 0, 4, &out).unwrap();
        lds.load(3, 2, 2, &mut out).unwrap();
        let race = Race { address: 0, first: 1, second: 2, both_wrote: false };
        assert_eq!(lds.races(), [race]);
    }

    #[test]
    fn bank_conflicts_count_distinct_dwords_of_a_bank() {
        let stride = |s: u32| std::array::from_fn(|i| Some(s * i as u32));
        assert_eq!(bank_cycles(&stride(4), 4, 32), (2, 2));
        assert_eq!(bank_cycles(&stride(128), 4, 32), (64, 2));
        assert_eq!(bank_cycles(&[Some(64); 64], 4, 32), (2, 2));
        assert_eq!(bank_cycles(&stride(16), 16, 32), (8, 8));
    }
}
