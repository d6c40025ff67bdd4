//! What a launch did: instruction mix, memory traffic, races.

use std::collections::BTreeMap;

pub use crate::memory::lds::Race;

/// Bytes of a cache line, the unit of the coalescing figures and of the address streams.
pub const LINE: u64 = 128;

/// The account of one launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions executed by all waves, one per wave.
    pub instructions: u64,
    /// The same by mnemonic.
    pub mix: BTreeMap<String, u64>,
    /// Of those, matrix instructions.
    pub matrix_instructions: u64,
    /// Memory figures, if the launch collected them.
    pub traffic: Traffic,
    /// LDS races by workgroup (linear index), if the launch watched for them.
    pub races: Vec<(u64, Race)>,
    /// One address stream a workgroup, if the launch recorded them.
    pub streams: Vec<Vec<Touch>>,
}

/// Memory figures of a launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that lanes asked for from global memory, loads to LDS included.
    pub load_bytes: u64,
    /// Bytes that lanes wrote to global memory, atomics included.
    pub store_bytes: u64,
    /// Lines touched by each instruction, summed.
    pub lines: u64,
    /// The fewest lines that would hold what each instruction moved, summed.
    pub lines_ideal: u64,
    /// Cycles of LDS accesses with 32 banks.
    pub lds_cycles: u64,
    /// The same without bank conflicts.
    pub lds_cycles_ideal: u64,
    /// Lines in the order in which they were touched, if recorded.
    pub stream: Option<Vec<Touch>>,
}

/// One line touched by one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// Address divided by [`LINE`].
    pub line: u64,
    /// Whether it was written.
    pub store: bool,
}

impl Report {
    /// Share of matrix instructions among all.
    pub fn matrix_share(&self) -> f64 {
        if self.instructions == 0 { 0.0 } else { self.matrix_instructions as f64 / self.instructions as f64 }
    }
}

impl Traffic {
    pub(crate) fn add(&mut self, other: &Self) {
        self.load_bytes += other.load_bytes;
        self.store_bytes += other.store_bytes;
        self.lines += other.lines;
        self.lines_ideal += other.lines_ideal;
        self.lds_cycles += other.lds_cycles;
        self.lds_cycles_ideal += other.lds_cycles_ideal;
    }
}

/// Counts the lines of one instruction's addresses.
pub(crate) fn lines_of(addresses: impl Iterator<Item = u64>, bytes: u8, store: bool, traffic: &mut Traffic) {
    let mut lines = Vec::with_capacity(64);
    let mut moved = 0;
    for address in addresses {
        moved += u64::from(bytes);
        for line in address / LINE..=(address + u64::from(bytes) - 1) / LINE {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    *(if store { &mut traffic.store_bytes } else { &mut traffic.load_bytes }) += moved;
    traffic.lines += lines.len() as u64;
    traffic.lines_ideal += moved.div_ceil(LINE);
    if let Some(stream) = &mut traffic.stream {
        stream.extend(lines.into_iter().map(|line| Touch { line, store }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_once_an_instruction() {
        let mut traffic = Traffic { stream: Some(Vec::new()), ..Traffic::default() };
        lines_of((0..64).map(|i| 4 * i), 4, false, &mut traffic);
        lines_of((0..64).map(|i| 256 * i), 4, true, &mut traffic);
        assert_eq!((traffic.load_bytes, traffic.store_bytes), (256, 256));
        assert_eq!((traffic.lines, traffic.lines_ideal), (66, 4));
        assert_eq!(traffic.stream.unwrap()[2], Touch { line: 0, store: true });
    }
}
