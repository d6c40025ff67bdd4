//! The tile of one config, what it takes of registers and LDS, and whether a device has that.
//!
//! Registers are an upper bound and LDS is exact; the emulator's tests hold both against the compiler's report.

use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::Reject;
use crate::format::Format;
use crate::hip::mfma16::{PANEL_ROWS, SLAB_ROWS, STEP_K, STEP_SCALE_BYTES};
use crate::problem::Problem;

/// Chips of a device that have an L2 cache each; the hardware hands workgroups out round them.
pub const XCDS: u32 = 8;
/// Bytes that a wave copies to LDS at once.
const PIECE: u32 = 1024;
/// Registers that all waves of a SIMD share, for each lane.
const REGISTERS: u32 = 512;
/// Registers beside sums, operands and scales: addresses, the epilogue's.
const ADDRESSES: u32 = 34;
/// The most copies of a stage for which a wave has scalar registers.
const MOST_UNITS: u32 = 14;

/// A config of a GEMM family over a pair of formats: all that a launch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// A's blocks are read one ahead of the products, instead of all first.
    pub streamed: bool,
    /// Tiles along M before the next along N.
    pub group_m: u32,
    /// Workgroups that a compute unit is to hold.
    pub groups_per_cu: u32,
    /// Whether operands lie in layout `c0c1` instead of `mfma16`.
    pub c0c1: bool,
    /// Rows of the matrix instruction.
    pub mfma: u32,
    /// Whether an XCD works on neighbouring tiles.
    pub xcd: bool,
    /// Whether workgroups go on to further tiles.
    pub persistent: bool,
    /// Whether multiplying waves go first.
    pub priority: bool,
    /// Stages in LDS.
    pub stages: u32,
    /// Whether D bypasses caches.
    pub nt_stores: bool,
    /// K of a stage.
    pub tile_k: u32,
    /// Rows of A of a tile.
    pub tile_m: u32,
    /// Rows of B of a tile.
    pub tile_n: u32,
    /// Waves along M.
    pub waves_m: u32,
    /// Waves along N.
    pub waves_n: u32,
    /// A's and B's formats.
    pub formats: [Format; 2],
}

/// A format's number in the kernel's macros; FNUZ and OCP are the architecture's.
#[cfg(feature = "std")]
pub(super) const fn code(format: Format) -> u32 {
    match format {
        Format::Fp8E4m3 | Format::Fp8E4m3Fnuz | Format::MxFp8 => 0,
        Format::Fp8E5m2 => 1,
        Format::MxFp6E2m3 => 2,
        Format::MxFp6E3m2 => 3,
        Format::MxFp4 => 4,
        Format::Bf16 | Format::MxInt8 => 5,
    }
}

impl Tile {
    /// Reads a config of a GEMM family.
    pub fn of(config: &Config, problem: &Problem) -> Self {
        let v = config.values();
        Tile {
            streamed: v[0] == 1,
            group_m: v[1],
            groups_per_cu: v[2],
            c0c1: v[3] == 1,
            mfma: v[4],
            xcd: v[5] == 1,
            persistent: v[6] == 1,
            priority: v[7] == 1,
            stages: v[8],
            nt_stores: v[9] == 1,
            tile_k: v[10],
            tile_m: v[11],
            tile_n: v[12],
            waves_m: v[13],
            waves_n: v[14],
            formats: [problem.a, problem.b],
        }
    }

    /// Waves of a workgroup.
    pub const fn waves(&self) -> u32 {
        self.waves_m * self.waves_n
    }

    /// Tiles of D.
    pub const fn tiles(&self, problem: &Problem) -> u32 {
        // The predicate refuses a product beyond 31 bits.
        problem.m.div_ceil(self.tile_m).saturating_mul(problem.n.div_ceil(self.tile_n))
    }

    /// Workgroups of a launch.
    pub const fn groups(&self, problem: &Problem, device: &Device) -> u32 {
        let tiles = self.tiles(problem);
        let held = device.units * self.groups_per_cu;
        if self.persistent && held < tiles { held } else { tiles }
    }

    /// Bytes of codes of a stage.
    pub const fn code_bytes(&self) -> u32 {
        self.tile_m * row_bytes(self.tile_k, self.formats[0])
            + self.tile_n * row_bytes(self.tile_k, self.formats[1])
    }

    /// Pieces of E8M0 scales of a stage.
    const fn scale_pieces(&self) -> u32 {
        if !self.formats[1].is_mx() {
            return 0;
        }
        (self.tile_m + self.tile_n) / SLAB_ROWS as u32 * self.tile_k.div_ceil(STEP_K as u32)
    }

    /// LDS of a workgroup in bytes.
    pub const fn lds_bytes(&self) -> u32 {
        let scales = self.scale_pieces();
        let sink =
            if scales.is_multiple_of(self.waves()) { 0 } else { self.waves() * STEP_SCALE_BYTES as u32 };
        self.stages * (self.code_bytes() + scales * STEP_SCALE_BYTES as u32) + sink
    }

    /// Copies to LDS that a wave issues each stage.
    pub const fn units(&self) -> u32 {
        self.code_bytes() / PIECE / self.waves() + self.scale_pieces().div_ceil(self.waves())
    }

    /// Panels of 16 rows of a wave, of A and of B.
    const fn panels(&self) -> [u32; 2] {
        [self.tile_m / PANEL_ROWS as u32 / self.waves_m, self.tile_n / PANEL_ROWS as u32 / self.waves_n]
    }

    /// Registers a lane needs, accumulation registers among them: sums, the operands of one sub-step, what passes through
    /// registers to LDS, scales and addresses. The compiler takes more where there are more.
    pub const fn registers(&self, device: &Device) -> u32 {
        let direct = device.caps.contains(Caps::GFX950);
        let [a, b] = self.panels();
        let (blocks_a, blocks_b) = (a * 16 / self.mfma, b * 16 / self.mfma);
        let held_a = if self.streamed && blocks_a > 2 { 2 } else { blocks_a };
        let [of_a, of_b] = [operand(self.formats[0], direct), operand(self.formats[1], direct)];
        let passing = if direct { 0 } else { 4 * self.units() };
        let scales = if self.formats[1].is_mx() { a.div_ceil(4) + b.div_ceil(4) } else { 0 };
        4 * a * b + held_a * of_a + blocks_b * of_b + passing + scales + ADDRESSES
    }

    /// Registers a lane has.
    pub const fn available_registers(&self) -> u32 {
        let waves = (self.waves() * self.groups_per_cu).div_ceil(4);
        REGISTERS / waves / 8 * 8
    }
}

/// Registers of a block's operand in one instruction, or in the two that share 16 bytes.
const fn operand(format: Format, direct: bool) -> u32 {
    match format.bits() {
        bits @ 1..=8 if direct => bits as u32,
        _ => 4,
    }
}

const fn row_bytes(tile_k: u32, format: Format) -> u32 {
    tile_k * format.bits() as u32 / 8
}

/// Whether operands of a problem can be multiplied on a device at all, whatever the config.
pub(super) fn takes(problem: &Problem, device: &Device) -> Result<(), Reject> {
    let (a, b) = (problem.a, problem.b);
    let [gfx942, gfx950] = [Caps::GFX942, Caps::GFX950].map(|caps| device.caps.contains(caps));
    if !gfx942 && !gfx950 {
        return Err(Reject::problem("the device is neither a gfx942 nor a gfx950"));
    }
    let multiplied = match b {
        Format::Bf16 => a == b,
        Format::Fp8E4m3 | Format::Fp8E5m2 => gfx950 && a == Format::Fp8E4m3,
        Format::Fp8E4m3Fnuz => gfx942 && a == b,
        Format::MxInt8 => false,
        _ => gfx950 && a.is_mx() && a != Format::MxInt8,
    };
    if !multiplied {
        return Err(Reject::problem("no matrix instruction of the device multiplies this pair of formats"));
    }
    Ok(())
}

/// Whether the formats have planes of this K.
pub(super) fn tile_k_rules(tile_k: u32, problem: &Problem, device: &Device) -> Result<(), Reject> {
    let fits = match problem.b.bits() {
        16 => tile_k <= 128,
        8 if device.caps.contains(Caps::GFX942) => tile_k >= 64,
        _ => tile_k >= 128,
    };
    if fits { Ok(()) } else { Err(Reject::param("tile_k", "not a whole number of the formats' planes")) }
}

/// Whether the device can bring so many stages to LDS.
pub(super) fn stage_rules(stages: u32, device: &Device) -> Result<(), Reject> {
    match (device.caps.contains(Caps::GFX950), stages) {
        (true, 1) => Err(Reject::param("stages", "data on its way to LDS needs a second stage")),
        (false, 3..) => Err(Reject::param("stages", "data that passes registers is one stage ahead at most")),
        _ => Ok(()),
    }
}

/// The predicate of the GEMM families.
pub(super) fn launchable(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    takes(problem, device)?;
    let t = Tile::of(config, problem);
    tile_k_rules(t.tile_k, problem, device)?;
    if t.c0c1 && (t.formats != [Format::MxFp6E2m3; 2] || t.tile_k != STEP_K as u32) {
        return Err(Reject::param("layout", "c0c1 is MXFP6 E2M3 in both operands, in steps of 128"));
    }
    stage_rules(t.stages, device)?;
    for (panels, param) in t.panels().into_iter().zip(["waves_m", "waves_n"]) {
        if panels == 0 || (panels > 4 && !panels.is_multiple_of(4)) || (panels < 4 && 4 % panels != 0) {
            return Err(Reject::param(param, "a wave's panels of 16 rows straddle slabs of 64"));
        }
        if t.mfma == 32 && panels == 1 {
            return Err(Reject::param(param, "a wave has fewer rows than its instruction"));
        }
    }
    if !(t.code_bytes() / PIECE).is_multiple_of(t.waves()) {
        return Err(Reject::param("waves_n", "waves would copy different numbers of pieces"));
    }
    if t.units() > MOST_UNITS {
        return Err(Reject::param("waves_m", "a wave has too few scalar registers for its copies"));
    }
    // Scales that the waves share out unevenly take scalar registers of their own.
    let uneven = t.units() > 8 && !t.scale_pieces().is_multiple_of(t.waves());
    if t.persistent && (t.waves() < 4 || t.tile_k > STEP_K as u32 || t.panels()[0] > 8 || uneven) {
        return Err(Reject::param("persistent", "no scalar registers are left for what holds for all tiles"));
    }
    if t.lds_bytes() * t.groups_per_cu > device.l1_kib * 1024 {
        return Err(Reject::param("stages", "the stages do not fit into LDS"));
    }
    if t.registers(device) > t.available_registers() {
        return Err(Reject::param("groups_per_cu", "accumulators and operands do not fit into registers"));
    }
    if t.stages > 2 && (t.stages - 2) * t.units() > 63 {
        return Err(Reject::param("stages", "more copies under way than vmcnt counts"));
    }
    offset_rules(&t, problem)
}

/// What keeps the kernel's 32-bit offsets and counts below 2^31.
fn offset_rules(t: &Tile, problem: &Problem) -> Result<(), Reject> {
    const LIMIT: u64 = 1 << 31;
    let steps = u64::from(problem.k.div_ceil(STEP_K as u32));
    let rows = [t.tile_m, t.tile_n];
    for (rows, format) in rows.into_iter().zip(t.formats) {
        if u64::from(row_bytes(STEP_K as u32, format) * rows) * (steps + 2 * u64::from(t.stages) * 2) >= LIMIT
        {
            return Err(Reject::problem("a tile's part of an operand exceeds 2 GiB"));
        }
    }
    if u64::from(t.tile_m) * u64::from(problem.n) * 4 >= LIMIT {
        return Err(Reject::problem("a tile's rows of D exceed 2 GiB"));
    }
    let [m, n] = [problem.m, problem.n].map(u64::from);
    let tiles = m.div_ceil(u64::from(t.tile_m)) * n.div_ceil(u64::from(t.tile_n));
    if tiles >= LIMIT || (m + 512) * 4 >= LIMIT || n * 4 >= LIMIT {
        return Err(Reject::problem("more tiles or rows than 32-bit numbers count"));
    }
    Ok(())
}
