//! The tiles of one config of `kernels/cuda/gemm.cu`, what a launch of it needs, and whether the device has that.

use super::families::TILE_M;
use crate::config::Config;
use crate::device::Device;
use crate::family::Reject;
use crate::format::Format;
use crate::problem::Problem;

/// Rows of a panel of layout `mma64`.
pub const PANEL_ROWS: u32 = 16;
/// Rows of a slab of layout `mma64`, to which N is padded.
pub const SLAB_ROWS: u32 = 64;
/// K of a supertile of layout `mma64`, to which K is padded.
pub const SUPER_K: u32 = 128;

/// Weight formats the kernel decodes, by its macro `WEIGHT`.
const WEIGHTS: &[Format] = &[Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3, Format::MxFp6E3m2];

/// A config of a GEMM family: tile sizes, and all that a launch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// CTAs a multiprocessor is to hold.
    pub ctas_per_sm: u32,
    /// Whether warpgroups multiply, with `wgmma`.
    pub warpgroup: bool,
    /// Whether it may start while the kernel before it runs.
    pub overlap: bool,
    /// Panels of a warp.
    pub row_panels: u32,
    /// Parts of K; 0 is stream-K.
    pub split_k: u32,
    /// Stages of the ring.
    pub stages: u32,
    /// K of a tile.
    pub tile_k: u32,
    /// Tokens of a tile.
    pub tile_m: u32,
    /// Weight rows of a tile.
    pub tile_n: u32,
    /// Warps that multiply.
    pub warps: u32,
    /// The kernel's macro `WEIGHT`: the weight format's number.
    pub weight: u32,
}

impl Tiling {
    /// Reads a config of a GEMM family, for a weight format that [`is_weight`] has.
    pub fn of(config: &Config, weight: Format) -> Self {
        let v = config.values();
        Tiling {
            ctas_per_sm: v[0],
            warpgroup: v[2] == 1,
            overlap: v[3] == 1,
            row_panels: v[4],
            split_k: v[5],
            stages: v[6],
            tile_k: v[7],
            tile_m: v[TILE_M],
            tile_n: v[9],
            warps: v[10],
            weight: WEIGHTS.iter().position(|f| *f == weight).unwrap_or(0) as u32,
        }
    }

    /// Bytes of 16 weight rows × 128 in layout `mma64`, scales included.
    pub const fn super_bytes(&self) -> u32 {
        match self.weight {
            0 => 4096,
            1 => 2048,
            _ => 1600,
        }
    }

    /// Warps side by side along N; 0 if a warp's panels exceed the tile.
    pub const fn warps_n(&self) -> u32 {
        self.tile_n / PANEL_ROWS / self.row_panels
    }

    /// Bytes of one stage: a tile of the activation and one of the weight.
    pub const fn stage_bytes(&self) -> u32 {
        let weight = self.tile_n / PANEL_ROWS * (self.tile_k / SUPER_K) * self.super_bytes();
        (self.tile_m * self.tile_k * 2 + weight).next_multiple_of(1024)
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub const fn shared_bytes(&self) -> u32 {
        let warps_k = self.warps / self.warps_n();
        self.stages * (self.stage_bytes() + 16) + 16 + (warps_k - 1) * self.tile_n * self.tile_m * 4
    }

    /// Registers a thread needs, an upper bound (held against the compiler's report by `ci/check_cuda.sh`).
    pub const fn registers(&self) -> u32 {
        let encoded = match self.weight {
            0 => 32,
            1 => 16,
            _ => 14,
        };
        let tokens = self.tile_m / 8;
        if self.warpgroup {
            return self.row_panels * (tokens * 21 / 4 + encoded + 16) + 61;
        }
        self.row_panels * (tokens * 4 + encoded) + tokens * 4 + 52
    }

    /// Registers a thread has when the kernel is entered: the compiler's limit.
    pub const fn compiled_registers(&self) -> u32 {
        let at_entry = 65536 / self.ctas_per_sm / self.threads() / 8 * 8;
        if at_entry < 255 { at_entry } else { 255 }
    }

    /// Threads of a CTA: the multiplying warps and the producer, which is a warpgroup beside warpgroups.
    pub const fn threads(&self) -> u32 {
        (self.warps + if self.warpgroup { 4 } else { 1 }) * 32
    }

    /// Registers a multiplying thread can have.
    const fn available_registers(&self) -> u32 {
        let at_entry = 65536 / self.ctas_per_sm / self.threads() / 8 * 8;
        if !self.warpgroup || at_entry >= 240 {
            return if at_entry < 240 { at_entry } else { 240 };
        }
        let taken = (at_entry * self.threads() - 40 * 128) / (self.warps * 32) / 8 * 8;
        if taken < 240 { taken } else { 240 }
    }

    /// Tiles of D.
    pub const fn tiles(&self, problem: &Problem) -> u32 {
        problem.n.div_ceil(self.tile_n) * problem.m.div_ceil(self.tile_m)
    }

    /// Tiles along K.
    pub const fn chunks(&self, k: u32) -> u32 {
        k.div_ceil(self.tile_k)
    }

    /// CTAs of a launch.
    pub const fn grid(&self, problem: &Problem, device: &Device) -> u32 {
        let (tiles, chunks) = (self.tiles(problem) as u64, self.chunks(problem.k) as u64);
        let ctas = match self.split_k {
            0 => (device.units * self.ctas_per_sm) as u64,
            parts => tiles * parts as u64,
        };
        if ctas < tiles * chunks { ctas as u32 } else { (tiles * chunks) as u32 }
    }

    /// f32 values of workspace for tiles that several CTAs share; 0 where none is shared.
    pub const fn partial_floats(&self, problem: &Problem, device: &Device) -> usize {
        match self.split_k {
            1 => 0,
            _ => self.grid(problem, device) as usize * 2 * (self.tile_n * self.tile_m) as usize,
        }
    }

    pub(super) fn rules(&self, problem: &Problem, device: &Device) -> Result<(), Reject> {
        let warps_n = self.warps_n();
        if warps_n == 0 || !self.warps.is_multiple_of(warps_n) {
            return Err(Reject::param("row_panels", "the warps' panels do not make up the tile"));
        }
        if self.warpgroup && !warps_n.is_multiple_of(4) {
            return Err(Reject::param("mma", "a warpgroup takes 64 weight rows"));
        }
        if !(self.tile_k / SUPER_K).is_multiple_of(self.warps / warps_n) {
            return Err(Reject::param("warps", "more warps than the tile has steps along K"));
        }
        // A CTA takes 1 KiB of its own.
        if self.shared_bytes() + 1024 > device.l1_kib * 1024 / self.ctas_per_sm {
            return Err(Reject::param("stages", "the stages do not fit into shared memory"));
        }
        if self.registers() > self.available_registers() {
            return Err(Reject::param("ctas_per_sm", "the accumulators do not fit into registers"));
        }
        if self.split_k > self.chunks(problem.k) {
            return Err(Reject::param("split_k", "more parts than tiles along K"));
        }
        Ok(())
    }
}

/// Whether the kernel decodes this weight format.
pub fn is_weight(format: Format) -> bool {
    WEIGHTS.contains(&format)
}
