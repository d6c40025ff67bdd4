//! The static data of a table. Generated modules hold these types and nothing else; [`crate::Table`] reads them.
//!
//! Rows are kept as segments: for each group (one [`Key`]) the segments tile M in [1, ∞), each holding the kernel for
//! its range and the measured M it rests on. A segment that contains its measured M answers exactly there and as an
//! interval elsewhere.

pub use tilewright_kernels::{Epilogue, Format, Layout, OutType, Scaling};

pub use crate::key::{Code, Key};

/// The version of these types' meaning. A table of another schema binds with a fault and answers from rung 4 on.
pub const SCHEMA: u32 = 2;

/// A position in [`TableData::kernels`] that stands for no kernel.
pub const NO_KERNEL: u16 = u16::MAX;

/// Decisions for one model on one device kind.
#[derive(Clone, Copy, Debug)]
pub struct TableData<'a> {
    /// [`SCHEMA`] of the compiler that wrote it.
    pub schema: u32,
    /// Model name.
    pub model: &'a str,
    /// Tensor-parallel ranks the shapes are divided by.
    pub tensor_parallel: u32,
    /// Key of the device: the folder its files are in.
    pub device: &'a str,
    /// The device's fingerprint, in words.
    pub fingerprint: &'a str,
    /// Hash of the model declaration's content.
    pub declaration: u64,
    /// FNV-1a of the canonical texts of `kernels`, each followed by a newline.
    pub kernel_set: u64,
    /// Distinct kernels, by canonical text.
    pub kernels: &'a [Kernel<'a>],
    /// Weights by name, in the order of the declaration.
    pub weights: &'a [WeightPlan<'a>],
    /// Keys, ascending.
    pub groups: &'a [Group],
    /// Segments of all groups, ascending in M within a group.
    pub segments: &'a [PackedSegment],
    /// From a key's code to its group.
    pub index: PerfectHash<'a>,
}

impl TableData<'_> {
    /// A table that knows nothing: every answer comes from the last two rungs.
    pub const EMPTY: TableData<'static> = TableData {
        schema: SCHEMA,
        model: "",
        tensor_parallel: 1,
        device: "",
        fingerprint: "",
        declaration: 0,
        kernel_set: 0,
        kernels: &[],
        weights: &[],
        groups: &[],
        segments: &[],
        index: PerfectHash { shape: 1, traits: 1, displace: &[], slots: &[] },
    };

    /// The segments of a group, ascending in M; none if the group's numbers point outside of the table.
    pub fn segments_of(&self, group: &Group) -> impl Iterator<Item = Segment> + '_ {
        let last = (group.first as usize).saturating_add(group.len as usize);
        let packed = self.segments.get(group.first as usize..last).unwrap_or_default();
        packed.iter().map(|packed| Segment::unpack(*packed))
    }

    /// The plan of a weight.
    pub fn weight(&self, name: &str) -> Option<&WeightPlan<'_>> {
        self.weights.iter().find(|weight| weight.name == name)
    }
}

/// A kernel: canonical text and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// FNV-1a of the text.
    pub id: u64,
    /// Canonical text of the config.
    pub text: &'a str,
}

/// How one weight is stored, and where its rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightPlan<'a> {
    /// Name in the declaration.
    pub name: &'a str,
    /// Times it is multiplied with per forward pass.
    pub count: u64,
    /// Whether only kernels that give the same bits on every run may run it.
    pub deterministic: bool,
    /// Position in [`TableData::groups`]. Weights of one key share a group.
    pub group: u16,
    /// The second copy, if the weight is stored twice.
    pub second: Option<SecondCopy>,
}

impl WeightPlan<'_> {
    /// The group that answers for `m` rows.
    pub fn group_at(&self, m: u32) -> u16 {
        match self.second {
            Some(SecondCopy { from, group }) if m >= from => group,
            _ => self.group,
        }
    }
}

/// A second copy of a weight, in another format or layout, which serves large M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondCopy {
    /// The first M it serves.
    pub from: u32,
    /// Position of its group in [`TableData::groups`].
    pub group: u16,
}

/// The rows of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// What identifies them.
    pub key: Key,
    /// First of its segments in [`TableData::segments`].
    pub first: u32,
    /// Number of its segments, at least 1.
    pub len: u32,
    /// First and last M between measured ones; answers outside are extrapolated. They are measured M themselves, or, where
    /// a weight changes between two copies, the M at which it does.
    pub measured: [u32; 2],
}

/// A range of M with one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First M; the segment ends before the next one of its group, the last one never.
    pub from: u32,
    /// The measured M the decision rests on; with `weight` it names rows of the evidence file.
    pub m: u32,
    /// Position in [`TableData::weights`] of the weight it was measured for.
    pub weight: u16,
    /// Position in [`TableData::kernels`], or [`NO_KERNEL`].
    pub kernel: u16,
    /// What to run if the kernel cannot, best first; [`NO_KERNEL`] where there is none.
    pub runner_ups: [u16; 2],
}

/// A [`Segment`] in 16 bytes: `from`, `m`, then `weight` above `kernel`, then the first runner-up above the second. Tables
/// hold it because rustc takes four numbers in half the time and memory of a struct with names.
pub type PackedSegment = [u32; 4];

impl Segment {
    /// As tables hold it.
    pub const fn pack(self) -> PackedSegment {
        let Segment { from, m, weight, kernel, runner_ups: [second, third] } = self;
        [from, m, (weight as u32) << 16 | kernel as u32, (second as u32) << 16 | third as u32]
    }

    /// What was packed.
    pub const fn unpack([from, m, place, others]: PackedSegment) -> Self {
        let runner_ups = [(others >> 16) as u16, others as u16];
        Segment { from, m, weight: (place >> 16) as u16, kernel: place as u16, runner_ups }
    }
}

/// A collision-free index by hash and displace: `h = shape·s + traits·t (mod 2⁶⁴)`; h, as a fraction of 2⁶⁴, chooses a
/// bucket, and h times the bucket's odd displacement (mod 2⁶⁴) the slot, which holds the position of a group.
///
/// Multiply-shift hashing is Dietzfelbinger et al. 1997, scaling by a multiplication instead of a shift Lemire 2019; displacing
/// whole buckets is Belazzougui, Botelho and Dietzfelbinger 2009 ("Hash, displace, and compress"). The compiler searches the
/// constants, so a lookup costs two loads and no loop; the caller compares the found group's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfectHash<'a> {
    /// Odd multiplier of [`Code::shape`].
    pub shape: u64,
    /// Odd multiplier of [`Code::traits`].
    pub traits: u64,
    /// One odd multiplier per bucket.
    pub displace: &'a [u32],
    /// Positions in [`TableData::groups`], or [`NO_KERNEL`].
    pub slots: &'a [u16],
}

impl PerfectHash<'_> {
    /// The hash of a code.
    #[inline]
    pub const fn hash(&self, code: Code) -> u64 {
        code.shape.wrapping_mul(self.shape).wrapping_add(code.traits.wrapping_mul(self.traits))
    }

    /// The bucket of a hash.
    #[inline]
    pub const fn bucket(&self, hash: u64) -> usize {
        scaled(hash, self.displace.len())
    }

    /// The slot of a hash in a bucket of displacement `displace`.
    #[inline]
    pub const fn slot(&self, hash: u64, displace: u32) -> usize {
        scaled(hash.wrapping_mul(displace as u64), self.slots.len())
    }

    /// The slot of the only group that can have this code.
    #[inline]
    pub fn slot_of(&self, code: Code) -> Option<usize> {
        let hash = self.hash(code);
        let displace = *self.displace.get(self.bucket(hash))?;
        Some(self.slot(hash, displace)).filter(|slot| *slot < self.slots.len())
    }

    /// The position of the only group that can have this code.
    #[inline]
    pub fn find(&self, code: Code) -> Option<u16> {
        self.slots.get(self.slot_of(code)?).copied()
    }
}

/// A hash as a number below `count`, by its highest bits.
#[inline]
const fn scaled(hash: u64, count: usize) -> usize {
    ((hash as u128 * count as u128) >> 64) as usize
}
