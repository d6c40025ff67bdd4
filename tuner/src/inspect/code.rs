//! What the compiler made of a kernel, from the code object: registers, LDS, spills, instructions, the loop that
//! multiplies, its waits, and the width of memory accesses.

use std::collections::BTreeMap;

use tilewright_emulator::CodeObject;

/// A compiled kernel.
#[derive(Debug)]
pub struct Code {
    /// Registers a lane, accumulation registers among them.
    pub registers: u32,
    /// Accumulation registers.
    pub accumulation: u32,
    /// Spilled vector and scalar registers.
    pub spills: [u32; 2],
    /// Bytes of statically allocated LDS.
    pub lds_bytes: u32,
    /// Bytes of scratch a lane.
    pub scratch_bytes: u32,
    /// Bytes of code, and instructions of each mnemonic.
    pub mix: BTreeMap<String, u32>,
    /// The innermost loop with the most matrix instructions: its instructions.
    pub main_loop: Vec<String>,
    /// `vmcnt` of the waits in that loop, in order; `None` where a wait is for something else.
    pub waits: Vec<Option<u32>>,
}

/// `s_waitcnt`'s vmcnt, or `None` if the wait does not look at it.
fn vmcnt(word: u32) -> Option<u32> {
    let count = (word & 15) | (word >> 14 & 3) << 4;
    (count < 63).then_some(count)
}

impl Code {
    /// Reads a kernel of a code object.
    ///
    /// # Errors
    /// If there is no such kernel, or it has no metadata.
    pub fn of(object: &CodeObject, entry: &str) -> anyhow::Result<Code> {
        let kernel = object.kernel(entry)?;
        let Some(metadata) = &kernel.metadata else {
            anyhow::bail!("the code object has no metadata for `{entry}`");
        };
        let listing = object.listing();
        let mut mix = BTreeMap::new();
        for (_, mnemonic) in &listing {
            *mix.entry(mnemonic.clone()).or_default() += 1;
        }
        let body = main_loop(object, &listing);
        let waits = body
            .iter()
            .filter(|(_, mnemonic)| mnemonic == "s_waitcnt")
            .map(|(address, _)| object.word(*address).and_then(vmcnt))
            .collect();
        Ok(Code {
            registers: metadata.registers[0],
            accumulation: metadata.registers[1],
            spills: metadata.spills,
            lds_bytes: kernel.descriptor.group_segment,
            scratch_bytes: kernel.descriptor.private_segment,
            mix,
            main_loop: body.into_iter().map(|(_, mnemonic)| mnemonic).collect(),
            waits,
        })
    }

    /// Static instructions that access global memory, by kind and bytes a lane. Copies to LDS are loads.
    pub fn accesses(&self) -> BTreeMap<(&'static str, u32), u32> {
        let mut found = BTreeMap::new();
        for (mnemonic, count) in &self.mix {
            if let Some(kind) = access(mnemonic) {
                *found.entry(kind).or_default() += count;
            }
        }
        found
    }
}

/// Kind of a memory instruction and its bytes a lane.
pub fn access(mnemonic: &str) -> Option<(&'static str, u32)> {
    let (space, rest) = mnemonic.split_once('_')?;
    if !matches!(space, "global" | "buffer" | "flat" | "scratch") {
        return None;
    }
    let kind = match rest.split('_').next()? {
        "load" => "load",
        "store" => "store",
        "atomic" => "atomic",
        _ => return None,
    };
    let bytes = match rest {
        _ if rest.contains("dwordx4") => 16,
        _ if rest.contains("dwordx3") => 12,
        _ if rest.contains("dwordx2") || rest.ends_with("_x2") => 8,
        _ if rest.contains("byte") => 1,
        _ if rest.contains("short") => 2,
        _ => 4,
    };
    Some((kind, bytes))
}

/// The instructions of the loop without a loop in it that has the most matrix instructions.
fn main_loop(object: &CodeObject, listing: &[(u64, String)]) -> Vec<(u64, String)> {
    let loops: Vec<(usize, usize)> = listing
        .iter()
        .enumerate()
        .filter(|(_, (_, mnemonic))| mnemonic.starts_with("s_cbranch") || mnemonic == "s_branch")
        .filter_map(|(end, (address, _))| {
            let offset = object.word(*address)? as u16 as i16;
            let target = address.wrapping_add(4).wrapping_add_signed(i64::from(offset) * 4);
            let start = listing.binary_search_by_key(&target, |(address, _)| *address).ok()?;
            (start <= end).then_some((start, end))
        })
        .collect();
    let matrix = |&(start, end): &(usize, usize)| {
        listing[start..=end]
            .iter()
            .filter(|(_, m)| m.starts_with("v_mfma") || m.starts_with("v_smfmac"))
            .count()
    };
    let is_inner = |outer: &(usize, usize)| {
        !loops.iter().any(|l| l != outer && l.0 >= outer.0 && l.1 <= outer.1 && matrix(l) > 0)
    };
    let best = loops.iter().filter(|l| matrix(l) > 0 && is_inner(l)).max_by_key(|l| matrix(l));
    best.map_or_else(Vec::new, |&(start, end)| listing[start..=end].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_instructions_have_their_width() {
        assert_eq!(access("buffer_load_dwordx4"), Some(("load", 16)));
        assert_eq!(access("global_atomic_add_f32"), Some(("atomic", 4)));
        assert_eq!(access("global_store_short"), Some(("store", 2)));
        assert_eq!(access("buffer_inv"), None);
        assert_eq!(access("ds_read_b128"), None);
    }

    #[test]
    fn waits_for_other_counters_have_no_vmcnt() {
        assert_eq!(vmcnt(0xbf8c_0f70), Some(0));
        assert_eq!(vmcnt(0xbf8c_c07f), None);
        assert_eq!(vmcnt(0xbf8c_4f7f), Some(31));
    }
}
