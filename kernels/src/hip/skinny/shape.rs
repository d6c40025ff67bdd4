//! The tile of one skinny config, what it takes of registers and LDS, and whether a device has that.
//!
//! Registers and LDS are upper bounds, held against the compiler's report by the emulator's tests.

use super::MAX_M;
use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::Reject;
use crate::format::Format;
use crate::hip::mfma16::{PANEL_ROWS, SLAB_ROWS, STEP_K, STEP_SCALE_BYTES};
use crate::problem::Problem;

/// Bytes that a wave copies to LDS at once.
const PIECE: u32 = 1024;

/// The matrix instruction, by its number in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `v_smfmac` 16x16x64: 8 rows of FP8.
    Sparse8 = 0,
    /// `v_smfmac` 16x16x128: 8 rows of FP8, gfx950.
    Sparse8K128 = 1,
    /// Dense, 16 rows.
    Dense16 = 2,
    /// Dense, 32 rows.
    Dense32 = 3,
}

impl Form {
    pub(super) const fn of(value: u32) -> Self {
        match value {
            0 => Form::Sparse8,
            1 => Form::Sparse8K128,
            2 => Form::Dense16,
            _ => Form::Dense32,
        }
    }

    /// Rows of D that an instruction holds.
    pub const fn rows(self) -> u32 {
        match self {
            Form::Sparse8 | Form::Sparse8K128 => 8,
            Form::Dense16 => 16,
            Form::Dense32 => 32,
        }
    }

    /// Panels of 16 rows in an instruction's operand.
    pub const fn block_panels(self) -> u32 {
        if matches!(self, Form::Dense32) { 2 } else { 1 }
    }
}

/// How the sums of K's parts come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// f32 atomics; not the same bits on every run.
    Atomic,
    /// In order, by the last workgroup of a tile.
    Last,
    /// In order, by a second kernel.
    SecondPass,
}

const PARAM_REDUCE: usize = 6;
const PARAM_SPLIT_K: usize = 7;

pub(super) fn reduce_of(config: &Config) -> Reduce {
    match config.value(PARAM_REDUCE) {
        0 => Reduce::Atomic,
        1 => Reduce::Last,
        _ => Reduce::SecondPass,
    }
}

pub(super) fn split_k_of(config: &Config) -> u32 {
    config.value(PARAM_SPLIT_K)
}

/// A config of a skinny family, for one problem's formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Position of the parameter `cache`.
    pub cache: u32,
    /// Steps of the ring, or slots of the queue.
    pub depth: u32,
    /// The matrix instruction.
    pub form: Form,
    /// Panels of a tile.
    pub panels: u32,
    /// Producing waves.
    pub producers: u32,
    /// How parts come together.
    pub reduce: Reduce,
    /// Parts of K.
    pub split_k: u32,
    /// Steps of a slot.
    pub steps: u32,
    /// Multiplying waves.
    pub waves: u32,
    /// The weight's format.
    pub weight: Format,
    /// The activation's format.
    pub activation: Format,
    /// Whether the activation is read where it lies, in bf16.
    pub direct: bool,
}

impl Shape {
    /// Reads a config of a skinny family.
    pub fn of(config: &Config, problem: &Problem) -> Self {
        let v = config.values();
        Shape {
            cache: v[0],
            depth: v[1],
            form: Form::of(v[2]),
            panels: v[4],
            producers: v[5],
            reduce: reduce_of(config),
            split_k: split_k_of(config),
            steps: v[8],
            waves: v[9],
            weight: problem.b,
            activation: problem.a,
            direct: problem.a as u32 == Format::Bf16 as u32 && problem.k.is_multiple_of(8),
        }
    }

    /// Weight rows of a tile.
    pub const fn tile_n(&self) -> u32 {
        self.panels * PANEL_ROWS as u32
    }

    /// Waves of a workgroup.
    pub const fn total_waves(&self) -> u32 {
        self.waves + self.producers
    }

    /// Tiles along N.
    pub const fn tiles(&self, n: u32) -> u32 {
        n.div_ceil(self.tile_n())
    }

    /// Bytes of the weight's codes that one step of a tile has.
    pub const fn tile_step_bytes(&self) -> u32 {
        self.tile_n() * STEP_K as u32 / 8 * self.weight.bits() as u32
    }

    /// Pieces of one operand's step: whole vectors of `panels` panels, and for 6 bits the 8-byte tails of two panels each.
    const fn pieces(format: Format, panels: u32) -> u32 {
        match format.bits() {
            6 => panels + panels.div_ceil(2),
            bits => panels * (bits as u32 / 4),
        }
    }

    /// Pieces of a step in a slot.
    const fn step_pieces(&self) -> u32 {
        Shape::pieces(self.weight, self.panels) + Shape::pieces(self.activation, self.form.block_panels())
    }

    /// Bytes of LDS: the queue, or the waves' sums, whichever is more, and the flags.
    pub const fn lds_bytes(&self) -> u32 {
        let scales = if self.weight.is_mx() { 2 * STEP_SCALE_BYTES as u32 } else { 0 };
        let queue = self.depth * self.steps * (PIECE * self.step_pieces() + scales);
        let sums = self.waves * self.form.rows() * (self.tile_n() + 4) * 4;
        let memory = if self.producers > 0 && queue > sums { queue } else { sums };
        memory + 4 * (2 * self.depth + 1)
    }

    /// Registers of one step's operands.
    const fn step_registers(&self) -> u32 {
        let (wide, scales) = (self.form.block_panels(), if self.weight.is_mx() { 2 } else { 0 });
        self.panels * self.weight.bits() as u32 + wide * (self.activation.bits() as u32 + scales)
    }

    /// Registers of a wave, an upper bound.
    pub const fn registers(&self, device: &Device) -> u32 {
        let sums = self.panels * self.form.rows().div_ceil(16) * 4;
        if self.producers == 0 {
            return sums + self.depth * self.step_registers() + 24;
        }
        let consumer = sums + self.steps * self.step_registers() + 40;
        let copies = if device.caps.contains(Caps::GFX950) { 0 } else { 4 * self.steps * self.step_pieces() };
        let producer = copies + 34;
        if producer > consumer { producer } else { consumer }
    }

    /// Registers a wave can have: 512 of a SIMD's lanes, shared by the workgroup's waves on it.
    pub const fn available_registers(&self) -> u32 {
        512 / self.total_waves().div_ceil(4) / 8 * 8
    }
}

/// Whether formats, M and sizes are what the kernel takes, whatever the config.
pub(super) fn takes(problem: &Problem, device: &Device) -> bool {
    problem_rules(problem, device).is_ok()
}

fn problem_rules(problem: &Problem, device: &Device) -> Result<(), Reject> {
    let (gfx942, gfx950) = (device.caps.contains(Caps::GFX942), device.caps.contains(Caps::GFX950));
    let formats = match problem.b {
        Format::Bf16 => (gfx942 || gfx950) && problem.a == Format::Bf16,
        Format::Fp8E4m3 => gfx950 && problem.a == problem.b,
        Format::Fp8E4m3Fnuz => gfx942 && problem.a == problem.b,
        _ => {
            use Format::{MxFp4, MxFp6E2m3, MxFp6E3m2, MxFp8};
            gfx950 && matches!(problem.a, MxFp8 | MxFp6E2m3 | MxFp6E3m2 | MxFp4)
        }
    };
    if !formats {
        return Err(Reject::problem("the device has no matrix instruction for these formats"));
    }
    if problem.m > MAX_M {
        return Err(Reject::problem("skinny kernels take at most 32 rows"));
    }
    // Offsets into a slab, a row-major activation and D are of 32 bits, with the top one outside every buffer.
    let bits = if problem.b.bits() > problem.a.bits() { problem.b.bits() } else { problem.a.bits() };
    let slab = (SLAB_ROWS * (problem.k as usize).next_multiple_of(STEP_K)) as u64 * bits as u64 / 8;
    let d = u64::from(problem.m) * u64::from(problem.n) + 256;
    if slab >= 1 << 31 || u64::from(problem.m) * u64::from(problem.k) * 2 >= 1 << 31 || d >= 1 << 32 {
        return Err(Reject::problem("K or N is too large for 32-bit offsets"));
    }
    Ok(())
}

pub(super) fn form_rules(form: Form, problem: &Problem, device: &Device) -> Result<(), Reject> {
    if form.rows() < problem.m {
        return Err(Reject::param("form", "takes fewer rows than M"));
    }
    let fp8 = problem.b.bits() == 8 && !problem.b.is_mx();
    if form.rows() == 8 && !fp8 {
        return Err(Reject::param("form", "sparse instructions are for FP8"));
    }
    if form == Form::Sparse8K128 && !device.caps.contains(Caps::GFX950) {
        return Err(Reject::param("form", "the device has no sparse instruction of K 128"));
    }
    Ok(())
}

/// The families' part of the predicate.
pub(super) fn launchable(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    problem_rules(problem, device)?;
    let s = Shape::of(config, problem);
    form_rules(s.form, problem, device)?;
    if !s.panels.is_multiple_of(s.form.block_panels()) {
        return Err(Reject::param("panels", "an instruction of 32 rows takes two panels"));
    }
    if s.split_k > problem.k.div_ceil(STEP_K as u32) {
        return Err(Reject::param("split_k", "more parts than steps of 128 along K"));
    }
    if s.total_waves() > 16 {
        return Err(Reject::param("waves", "more than 16 waves with the producers"));
    }
    if s.producers == 0 && s.steps != 1 {
        return Err(Reject::param("steps", "there are no slots without producers"));
    }
    if s.producers > 0 && s.weight.bits() == 6 && s.panels == 1 {
        return Err(Reject::param("panels", "the tails of two panels are copied to LDS at once"));
    }
    if s.lds_bytes() > device.l1_kib * 1024 {
        return Err(Reject::param("depth", "queue or sums do not fit into LDS"));
    }
    if s.registers(device) > s.available_registers() {
        return Err(Reject::param("depth", "the operands in flight do not fit into registers"));
    }
    Ok(())
}
