//! Global memory: named buffers at addresses far apart, so that any access outside one is caught.
//!
//! Words are relaxed atomics, because workgroups run in parallel and may share a buffer as they do on the device.
//! Between two buffers lie at least [`GUARD`] bytes that belong to nobody, and a buffer ends at its last byte exactly.

pub(crate) mod atomic;
pub(crate) mod lds;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::error::{Trap, trap};

/// Bytes between two buffers.
pub const GUARD: u64 = 1 << 20;
/// Address of the first buffer; code objects lie below.
const FIRST: u64 = 0x2000_0000_0000;

/// Device memory.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Region>,
}

/// A contiguous piece of memory with a name for messages.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) base: u64,
    bytes: u64,
    words: Box<[AtomicU32]>,
    name: String,
    writable: bool,
}

impl Memory {
    /// Memory without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer of `bytes` bytes filled with `fill` and returns its device address, a multiple of 4096.
    pub fn alloc(&mut self, name: &str, bytes: usize, fill: u8) -> u64 {
        let base = self.regions.last().map_or(FIRST, |r| (r.base + r.bytes + GUARD).next_multiple_of(4096));
        self.regions.push(Region::new(name, base, &vec![fill; bytes], true));
        base
    }

    /// Adds a buffer that holds `data`.
    pub fn alloc_from(&mut self, name: &str, data: &[u8]) -> u64 {
        let base = self.alloc(name, data.len(), 0);
        self.regions.last_mut().expect("just added").fill(data);
        base
    }

    /// Frees the buffer at `address`, which [`Memory::alloc`] returned; its addresses fault from then on.
    ///
    /// # Errors
    /// If no buffer begins there.
    pub fn free(&mut self, address: u64) -> Result<(), String> {
        let index = self.regions.iter().position(|r| r.base == address);
        let index = index.ok_or_else(|| format!("no buffer begins at {address:#x}"))?;
        let last = index + 1 == self.regions.len();
        let region = &mut self.regions[index];
        if last {
            // Stays as a marker, so that later buffers get later addresses.
            region.name = format!("freed {}", region.name);
            region.bytes = 0;
            region.words = Box::new([]);
        } else {
            self.regions.remove(index);
        }
        Ok(())
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// If the range does not lie in one buffer.
    pub fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let (region, at) = self.find(address, bytes as u64).map_err(String::from)?;
        let mut out = Vec::with_capacity(bytes + 4);
        if at.is_multiple_of(4) {
            let words = &region.words[(at / 4) as usize..][..bytes.div_ceil(4)];
            out.extend(words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()));
            out.truncate(bytes);
        } else {
            out.extend((at..at + bytes as u64).map(|i| region.byte(i)));
        }
        Ok(out)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// If the range does not lie in one buffer.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), String> {
        let (region, at) = self.find(address, data.len() as u64).map_err(String::from)?;
        let (words, rest) = if at.is_multiple_of(4) { data.as_chunks::<4>() } else { (&[][..], data) };
        for (i, word) in (at / 4..).zip(words) {
            region.words[i as usize].store(u32::from_le_bytes(*word), Relaxed);
        }
        for (i, byte) in (at + 4 * words.len() as u64..).zip(rest) {
            region.store_part(i, u32::from(*byte), 1);
        }
        Ok(())
    }

    /// The buffer that holds `bytes` bytes from `address`, and the offset in it.
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Result<(&Region, u64), Trap> {
        let after = self.regions.partition_point(|r| r.base <= address);
        if let Some(region) = after.checked_sub(1).map(|i| &self.regions[i]) {
            let at = address - region.base;
            if at + bytes <= region.bytes {
                return Ok((region, at));
            }
        }
        self.outside(address, bytes)
    }

    fn outside<X>(&self, address: u64, bytes: u64) -> Result<X, Trap> {
        let distance = |r: &Region| match address {
            a if a < r.base => r.base - a,
            a => (a + bytes).saturating_sub(r.base + r.bytes),
        };
        match self.regions.iter().min_by_key(|r| distance(r)) {
            Some(r) if address < r.base => {
                let before = r.base - address;
                trap!("{bytes} bytes at {address:#x} lie {before} bytes before buffer `{}`", r.name)
            }
            Some(r) if distance(r) < 1 << 40 => {
                let past = address + bytes - r.base - r.bytes;
                trap!(
                    "{bytes} bytes at {address:#x} end {past} bytes past buffer `{}` ({} bytes)",
                    r.name,
                    r.bytes
                )
            }
            _ => trap!("{bytes} bytes at {address:#x} lie in no buffer"),
        }
    }
}

impl Region {
    pub(crate) fn new(name: &str, base: u64, data: &[u8], writable: bool) -> Self {
        let words = (0..data.len().div_ceil(4)).map(|_| AtomicU32::new(0)).collect();
        let mut region = Self { base, bytes: data.len() as u64, words, name: name.into(), writable };
        region.fill(data);
        region
    }

    fn fill(&mut self, data: &[u8]) {
        for (word, chunk) in self.words.iter_mut().zip(data.chunks(4)) {
            let mut bytes = [0; 4];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word.get_mut() = u32::from_le_bytes(bytes);
        }
    }

    pub(crate) fn contains(&self, address: u64, bytes: u64) -> Option<u64> {
        address.checked_sub(self.base).filter(|at| at + bytes <= self.bytes)
    }

    pub(crate) fn check_writable(&self) -> Result<(), Trap> {
        if self.writable { Ok(()) } else { trap!("a store into `{}`, which is read-only", self.name) }
    }

    fn byte(&self, at: u64) -> u8 {
        (self.words[(at / 4) as usize].load(Relaxed) >> (8 * (at % 4))) as u8
    }

    /// Four bytes at any alignment; beyond the last byte of the buffer the caller has checked.
    #[inline]
    pub(crate) fn load32(&self, at: u64) -> u32 {
        let (i, shift) = ((at / 4) as usize, 8 * (at % 4));
        let low = self.words[i].load(Relaxed);
        if shift == 0 {
            return low;
        }
        let high = self.words.get(i + 1).map_or(0, |w| w.load(Relaxed));
        ((u64::from(high) << 32 | u64::from(low)) >> shift) as u32
    }

    /// 1 or 2 bytes, zero-extended.
    pub(crate) fn load_part(&self, at: u64, bytes: u8) -> u32 {
        if bytes == 1 {
            u32::from(self.byte(at))
        } else {
            u32::from(self.byte(at)) | u32::from(self.byte(at + 1)) << 8
        }
    }

    #[inline]
    pub(crate) fn store32(&self, at: u64, value: u32) {
        if at.is_multiple_of(4) {
            self.words[(at / 4) as usize].store(value, Relaxed);
        } else {
            for i in 0..4 {
                self.store_part(at + i, value >> (8 * i), 1);
            }
        }
    }

    /// Stores the low `bytes` bytes (1 or 2) without touching their neighbours.
    pub(crate) fn store_part(&self, at: u64, value: u32, bytes: u8) {
        if bytes == 2 && at % 4 == 3 {
            self.store_part(at, value, 1);
            return self.store_part(at + 1, value >> 8, 1);
        }
        let shift = 8 * (at % 4);
        let mask = (if bytes == 1 { 0xff } else { 0xffff }) << shift;
        let new = value << shift & mask;
        let word = &self.words[(at / 4) as usize];
        // The closure never refuses, so the update cannot fail.
        let _ = word.fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | new));
    }

    /// Read-modify-write of an aligned word; returns the old value.
    pub(crate) fn update32(&self, at: u64, f: impl Fn(u32) -> u32) -> Result<u32, Trap> {
        if !at.is_multiple_of(4) {
            return trap!("an atomic at an address that is not a multiple of 4");
        }
        let word = &self.words[(at / 4) as usize];
        Ok(word.fetch_update(Relaxed, Relaxed, |old| Some(f(old))).unwrap_or_else(|old| old))
    }

    /// Read-modify-write of two words. Another wave's 64-bit atomic on the same place waits meanwhile.
    pub(crate) fn update64(&self, at: u64, f: impl Fn(u64) -> u64) -> Result<u64, Trap> {
        static WIDE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        if !at.is_multiple_of(8) {
            return trap!("a 64-bit atomic at an address that is not a multiple of 8");
        }
        let _one_at_a_time = WIDE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let old = u64::from(self.load32(at)) | u64::from(self.load32(at + 4)) << 32;
        let new = f(old);
        self.store32(at, new as u32);
        self.store32(at + 4, (new >> 32) as u32);
        Ok(old)
    }
}

/// What a launch sees: the buffers, and the code object's own image.
pub(crate) struct Bus<'a> {
    pub(crate) memory: &'a Memory,
    /// Image of the code object, the kernel arguments, the dispatch packet.
    pub(crate) own: [&'a Region; 3],
}

impl Bus<'_> {
    #[inline]
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Result<(&Region, u64), Trap> {
        for region in self.own {
            if let Some(at) = region.contains(address, bytes) {
                return Ok((region, at));
            }
        }
        self.memory.find(address, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_outside_a_buffer_name_the_nearest_one() {
        let mut memory = Memory::new();
        let a = memory.alloc("a", 10, 0xee);
        let b = memory.alloc_from("b", &[1, 2, 3]);
        assert!(a.is_multiple_of(4096) && b - a > GUARD);
        assert_eq!(memory.read(b, 3), Ok(vec![1, 2, 3]));
        assert_eq!(memory.read(a + 8, 2), Ok(vec![0xee; 2]));
        memory.write(a + 1, &[1, 2, 3, 4, 5]).unwrap();
        memory.write(a + 4, &[7, 8, 9, 10, 11]).unwrap();
        assert_eq!(memory.read(a, 10), Ok(vec![0xee, 1, 2, 3, 7, 8, 9, 10, 11, 0xee]));
        assert_eq!(memory.read(a + 3, 2), Ok(vec![3, 7]));
        assert!(memory.read(a + 8, 4).unwrap_err().contains("2 bytes past buffer `a`"));
        assert!(memory.read(b - 4, 4).unwrap_err().contains("4 bytes before buffer `b`"));
        assert!(memory.read(0x10, 1).unwrap_err().contains("before buffer `a`"));
        memory.free(a).unwrap();
        assert!(memory.read(a, 1).is_err());
        assert!(memory.free(a).is_err());
    }

    #[test]
    fn unaligned_words_and_parts_keep_their_neighbours() {
        let region = Region::new("r", 0, &[0; 12], true);
        region.store32(3, 0x4433_2211);
        assert_eq!(region.load32(3), 0x4433_2211);
        assert_eq!((region.load32(0), region.load32(4)), (0x1100_0000, 0x0044_3322));
        region.store_part(7, 0xbbaa, 2);
        assert_eq!(region.load_part(7, 2), 0xbbaa);
        assert_eq!(region.update32(8, |x| x + 1), Ok(0xbb));
        assert!(region.update32(2, |x| x).is_err());
    }
}
