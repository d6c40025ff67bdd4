//! Launching a kernel over a grid.

use rayon::prelude::*;

use crate::code_object::{CodeObject, Kernel, NOWHERE};
use crate::error::Error;
use crate::memory::{Bus, Memory, Region};
use crate::report::{Report, Traffic};
use crate::scheduler::{self, Outcome, Setup};

/// A kernel argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arg {
    /// A device address.
    Pointer(u64),
    /// A value of exactly the argument's size.
    Bytes(Vec<u8>),
}

macro_rules! value {
    ($($t:ty),*) => {
        $(impl From<$t> for Arg {
            fn from(x: $t) -> Self {
                Self::Bytes(x.to_le_bytes().to_vec())
            }
        })*
    };
}
value!(i32, u32, f32, i64, f64, u16);

impl From<u64> for Arg {
    fn from(address: u64) -> Self {
        Self::Pointer(address)
    }
}

/// Workgroups and work-items a workgroup, in x, y, z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// Bytes of LDS beside what the kernel declares.
    pub dynamic_lds: u32,
}

impl Grid {
    /// `grid` workgroups of `block` work-items in x.
    pub const fn linear(grid: u32, block: u32) -> Self {
        Self { grid: [grid, 1, 1], block: [block, 1, 1], dynamic_lds: 0 }
    }
}

/// When data on its way from memory to LDS lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dma {
    /// When it is issued.
    Early,
    /// When a wait (or the end of the program) forces it.
    #[default]
    Late,
    /// Some time between, by the seed.
    Random,
}

/// The order in which waves of a workgroup take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Wave 0 first, each as far as it can.
    #[default]
    Forward,
    /// The last wave first.
    Reverse,
    /// By the seed, in turns of random length.
    Random,
}

/// How to run a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Order of waves.
    pub order: Order,
    /// Landing of LDS data.
    pub dma: Dma,
    /// Seed of the random order and landing.
    pub seed: u64,
    /// What registers and LDS hold before the kernel writes them.
    pub poison: u32,
    /// Collect memory figures.
    pub traffic: bool,
    /// Record one address stream a workgroup (implies `traffic`).
    pub streams: bool,
    /// Watch LDS for races.
    pub races: bool,
    /// Instructions of one wave after which it is taken to hang.
    pub limit: u64,
    /// Run workgroups on all cores.
    pub parallel: bool,
    /// Trace the instructions of this workgroup and wave to standard error.
    pub trace: Option<(u64, u32)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            order: Order::Forward,
            dma: Dma::Late,
            seed: 0,
            // A NaN in every float format of 8 bits and more, and an address in no buffer.
            poison: 0xffff_ffff,
            traffic: false,
            streams: false,
            races: false,
            limit: 1 << 32,
            parallel: true,
            trace: None,
        }
    }
}

/// Address of the kernel arguments and of the dispatch packet while a kernel runs.
const KERNARG: u64 = 0x1800_0000_0000;
/// See [`KERNARG`].
const PACKET: u64 = 0x1900_0000_0000;

impl CodeObject {
    /// Runs a kernel with arguments laid out from its metadata.
    ///
    /// # Errors
    /// [`Error::Launch`] if kernel, arguments or grid do not fit; [`Error::Fault`] for the first workgroup that faults.
    pub fn launch(
        &self,
        name: &str,
        memory: &Memory,
        grid: Grid,
        args: &[Arg],
        options: &Options,
    ) -> Result<Report, Error> {
        let kernel = self.kernel(name)?;
        let segment = pack(kernel, grid, args)?;
        self.launch_packed(name, memory, grid, &segment, options)
    }

    /// Runs a kernel with an argument segment as it lies in memory.
    ///
    /// # Errors
    /// As [`CodeObject::launch`].
    pub fn launch_packed(
        &self,
        name: &str,
        memory: &Memory,
        grid: Grid,
        segment: &[u8],
        options: &Options,
    ) -> Result<Report, Error> {
        let kernel = self.kernel(name)?;
        let lds = check(self, kernel, grid)?;
        // Command processors are given segments at multiples of 64 bytes, and the compiler widens a load beyond the
        // last argument where it stays within an aligned 16.
        let mut padded = segment.to_vec();
        padded.resize(segment.len().next_multiple_of(64), 0xff);
        let kernarg = Region::new("kernel arguments", KERNARG, &padded, false);
        let packet = Region::new("dispatch packet", PACKET, &packet(grid), false);
        let setup = Setup {
            code: self,
            kernel,
            bus: Bus { memory, own: [&self.image, &kernarg, &packet] },
            grid,
            start: start(self, kernel)?,
            lds_bytes: lds,
            kernarg: KERNARG,
            packet: PACKET,
            options,
        };
        let groups: u64 = grid.grid.iter().map(|&n| u64::from(n)).product();
        let outcomes: Result<Vec<Outcome>, Error> = if options.parallel {
            (0..groups).into_par_iter().map(|i| scheduler::workgroup(&setup, i)).collect()
        } else {
            (0..groups).map(|i| scheduler::workgroup(&setup, i)).collect()
        };
        Ok(account(self, outcomes?, options))
    }
}

fn error<X>(kernel: &Kernel, what: String) -> Result<X, Error> {
    Err(Error::Launch { kernel: kernel.name.clone(), what })
}

/// Checks grid and modes; returns the workgroup's LDS bytes.
fn check(code: &CodeObject, kernel: &Kernel, grid: Grid) -> Result<u32, Error> {
    let threads: u64 = grid.block.iter().map(|&n| u64::from(n)).product();
    let most = kernel.metadata.as_ref().and_then(|m| m.max_flat_workgroup_size).unwrap_or(1024);
    if threads == 0 || threads > u64::from(most) {
        return error(kernel, format!("{threads} work-items a workgroup; this kernel takes 1 to {most}"));
    }
    let lds = kernel.descriptor.group_segment + grid.dynamic_lds;
    let have = code.arch().lds_bytes();
    if lds > have {
        return error(kernel, format!("{lds} bytes of LDS; {} has {have}", code.arch().name()));
    }
    if kernel.descriptor.mode & 15 != 0 {
        return error(kernel, "a rounding mode other than to nearest even is not modelled".into());
    }
    // Bits of the property field: 0 private segment buffer, 2 queue pointer, 4 dispatch id, 10 wave32.
    let unmodelled = kernel.descriptor.properties & (1 << 0 | 1 << 2 | 1 << 4 | 1 << 10);
    if unmodelled != 0 {
        return error(kernel, format!("kernel code properties {unmodelled:#x} are not modelled"));
    }
    Ok(lds)
}

/// Index of the instruction at which waves begin: 256 bytes in where arguments are preloaded, past the code that
/// loads them for firmware that does not.
fn start(code: &CodeObject, kernel: &Kernel) -> Result<usize, Error> {
    let entry = kernel.entry.wrapping_add(if kernel.descriptor.preload.0 > 0 { 256 } else { 0 });
    let word = entry.checked_sub(code.text).filter(|at| at % 4 == 0).map(|at| at / 4);
    match word.and_then(|word| code.index.get(usize::try_from(word).ok()?)) {
        Some(&index) if index != NOWHERE => Ok(index as usize),
        _ => error(kernel, format!("its entry {entry:#x} is no instruction of the text section")),
    }
}

/// Lays out the argument segment.
fn pack(kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<Vec<u8>, Error> {
    let Some(metadata) = &kernel.metadata else {
        return error(
            kernel,
            "the code object has no metadata for it; give the arguments as a packed segment".into(),
        );
    };
    let wanted = metadata.args.iter().filter(|a| !a.kind.starts_with("hidden_")).count();
    if wanted != args.len() {
        return error(kernel, format!("{} arguments where the kernel takes {wanted}", args.len()));
    }
    let size = metadata.kernarg_size.max(kernel.descriptor.kernarg_size) as usize;
    let mut segment = vec![0; size];
    let mut given = args.iter().enumerate();
    for arg in &metadata.args {
        let bytes = if arg.kind.starts_with("hidden_") {
            hidden(&arg.kind, grid).to_le_bytes()[..(arg.size as usize).min(8)].to_vec()
        } else {
            let (i, value) = given.next().expect("counted above");
            let bytes = match value {
                Arg::Pointer(address) => address.to_le_bytes().to_vec(),
                Arg::Bytes(bytes) => bytes.clone(),
            };
            if bytes.len() != arg.size as usize {
                let have = bytes.len();
                let (kind, size) = (&arg.kind, arg.size);
                return error(
                    kernel,
                    format!("argument {i} has {have} bytes; the kernel takes {size} ({kind})"),
                );
            }
            bytes
        };
        let at = arg.offset as usize;
        match segment.get_mut(at..at + bytes.len()) {
            Some(place) => place.copy_from_slice(&bytes),
            None => return error(kernel, format!("an argument at offset {at} of {size} bytes")),
        }
    }
    Ok(segment)
}

/// The implicit arguments of code object V5 that a kernel without a host runtime can use.
fn hidden(kind: &str, grid: Grid) -> u64 {
    let axis = |suffix: &str| match suffix.as_bytes().last() {
        Some(b'x') => 0,
        Some(b'y') => 1,
        _ => 2,
    };
    match kind {
        "hidden_block_count_x" | "hidden_block_count_y" | "hidden_block_count_z" => {
            u64::from(grid.grid[axis(kind)])
        }
        "hidden_group_size_x" | "hidden_group_size_y" | "hidden_group_size_z" => {
            u64::from(grid.block[axis(kind)])
        }
        "hidden_grid_dims" => (1..=3).rev().find(|&n| n == 1 || grid.grid[n - 1] > 1).unwrap_or(1) as u64,
        "hidden_dynamic_lds_size" => u64::from(grid.dynamic_lds),
        // Offsets and remainders are zero; there is no host to call, no heap and no queue.
        _ => 0,
    }
}

/// The AQL packet, as far as kernels read it: workgroup and grid sizes.
fn packet(grid: Grid) -> [u8; 64] {
    let mut packet = [0; 64];
    for i in 0..3 {
        packet[4 + 2 * i..6 + 2 * i].copy_from_slice(&(grid.block[i] as u16).to_le_bytes());
        let items = grid.grid[i].wrapping_mul(grid.block[i]);
        packet[12 + 4 * i..16 + 4 * i].copy_from_slice(&items.to_le_bytes());
    }
    packet
}

fn account(code: &CodeObject, outcomes: Vec<Outcome>, options: &Options) -> Report {
    let mut report = Report::default();
    let mut counts = vec![0u64; code.insts.len()];
    let mut traffic = Traffic::default();
    for (i, outcome) in outcomes.into_iter().enumerate() {
        for (sum, n) in counts.iter_mut().zip(&outcome.counts) {
            *sum += u64::from(*n);
        }
        traffic.add(&outcome.traffic);
        report.races.extend(outcome.races.into_iter().map(|race| (i as u64, race)));
        if options.streams {
            report.streams.push(outcome.traffic.stream.unwrap_or_default());
        }
    }
    for (inst, &n) in code.insts.iter().zip(&counts).filter(|(_, n)| **n > 0) {
        report.instructions += n;
        *report.mix.entry(inst.mnemonic()).or_default() += n;
        if matches!(inst.op, crate::isa::Op::Matrix(_)) {
            report.matrix_instructions += n;
        }
    }
    report.traffic = traffic;
    report
}
