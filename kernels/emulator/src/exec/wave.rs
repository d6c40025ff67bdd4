//! The state of one wave of 64 lanes.

use std::collections::VecDeque;

use crate::isa::operand::{EXEC, Src, VCC};
use crate::isa::{LANES, Lanes, Wide};

/// The MODE register's fields that change results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode(pub(crate) u32);

impl Mode {
    /// Bit 0: subnormal inputs count; bit 1: subnormal results are kept. Other values than 3 flush to zero.
    pub(crate) fn denormals32(self) -> u32 {
        self.0 >> 4 & 3
    }

    pub(crate) fn denormals16_64(self) -> u32 {
        self.0 >> 6 & 3
    }

    /// Clamping turns NaN into 0.
    pub(crate) fn dx10_clamp(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    /// Conversions to 16 and 8 bits saturate instead of becoming infinite or NaN.
    pub(crate) fn saturate(self) -> bool {
        self.0 >> 23 & 1 == 1
    }

    /// Both rounding fields say nearest even.
    pub(crate) fn rounds_to_nearest(self) -> bool {
        self.0 & 15 == 0
    }
}

/// A vector memory operation that the wave's `vmcnt` still counts.
#[derive(Debug, Clone)]
pub(crate) enum Pending {
    /// Its effect has already happened.
    Done,
    /// Bytes on their way from memory to LDS: (LDS byte address, data) of each lane's part.
    Dma(Vec<(u32, DmaData)>),
}

/// Up to 16 bytes of one lane.
pub(crate) type DmaData = ([u32; 4], u8);

/// Why a wave does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    AtBarrier,
    Ended,
}

/// One wave.
pub(crate) struct Wave {
    pub(crate) id: u32,
    /// 128 registers, and room so that no range that an instruction can name lies outside.
    pub(crate) sgpr: [u32; 256],
    /// 256 VGPRs, 256 AGPRs, and the like room.
    pub(crate) vgpr: Vec<Lanes>,
    pub(crate) exec: u64,
    pub(crate) scc: bool,
    pub(crate) mode: Mode,
    /// Index of the next instruction.
    pub(crate) pc: usize,
    pub(crate) state: State,
    pub(crate) pending: VecDeque<Pending>,
    /// Scratch of all lanes, lane after lane.
    pub(crate) scratch: Vec<u32>,
    /// Bytes of scratch of one lane.
    pub(crate) scratch_bytes: u32,
    pub(crate) executed: u64,
    /// Vector register numbers are relative to M0 (between `s_set_gpr_idx_on` and `_off`).
    pub(crate) indexed: bool,
}

impl Wave {
    /// A scalar register: SGPR, VCC, M0, EXEC.
    #[inline]
    pub(crate) fn s32(&self, n: u8) -> u32 {
        match n {
            126 => self.exec as u32,
            127 => (self.exec >> 32) as u32,
            _ => self.sgpr[usize::from(n)],
        }
    }

    #[inline]
    pub(crate) fn s64(&self, n: u8) -> u64 {
        if n == EXEC { self.exec } else { u64::from(self.s32(n)) | u64::from(self.s32(n + 1)) << 32 }
    }

    #[inline]
    pub(crate) fn set_s32(&mut self, n: u8, x: u32) {
        match n {
            126 => self.exec = self.exec & !0xffff_ffff | u64::from(x),
            127 => self.exec = self.exec & 0xffff_ffff | u64::from(x) << 32,
            _ => self.sgpr[usize::from(n)] = x,
        }
    }

    #[inline]
    pub(crate) fn set_s64(&mut self, n: u8, x: u64) {
        if n == EXEC {
            self.exec = x;
        } else {
            self.set_s32(n, x as u32);
            self.set_s32(n + 1, (x >> 32) as u32);
        }
    }

    pub(crate) fn vcc(&self) -> u64 {
        self.s64(VCC)
    }

    /// A scalar source as 32 or 64 bits.
    #[inline]
    pub(crate) fn scalar(&self, src: Src, wide: bool) -> u64 {
        match src {
            Src::Sgpr(n) if wide => self.s64(n),
            Src::Sgpr(n) => u64::from(self.s32(n)),
            Src::Const(x) if wide => x,
            Src::Const(x) => x & 0xffff_ffff,
            Src::Scc => u64::from(self.scc),
            Src::Vccz => u64::from(self.vcc() == 0),
            Src::Execz => u64::from(self.exec == 0),
            Src::Vgpr(n) => u64::from(self.vgpr[usize::from(n)][self.first_lane()]),
        }
    }

    /// The first active lane, or lane 0 if none is.
    pub(crate) fn first_lane(&self) -> usize {
        if self.exec == 0 { 0 } else { self.exec.trailing_zeros() as usize }
    }

    /// A 32-bit source in every lane, without modifiers.
    #[inline]
    pub(crate) fn lanes(&self, src: Src) -> Lanes {
        match src {
            Src::Vgpr(n) => self.vgpr[usize::from(n)],
            _ => [self.scalar(src, false) as u32; LANES],
        }
    }

    /// A 64-bit source in every lane, without modifiers.
    pub(crate) fn wide(&self, src: Src) -> Wide {
        match src {
            Src::Vgpr(n) => {
                let (low, high) = (&self.vgpr[usize::from(n)], &self.vgpr[usize::from(n) + 1]);
                std::array::from_fn(|i| u64::from(low[i]) | u64::from(high[i]) << 32)
            }
            _ => [self.scalar(src, true); LANES],
        }
    }

    /// Writes the active lanes of a register.
    #[inline]
    pub(crate) fn write(&mut self, register: u16, value: &Lanes) {
        self.write_masked(register, value, self.exec);
    }

    /// Writes the lanes of `mask`.
    #[inline]
    pub(crate) fn write_masked(&mut self, register: u16, value: &Lanes, mask: u64) {
        let d = &mut self.vgpr[usize::from(register)];
        if mask == u64::MAX {
            *d = *value;
        } else {
            for i in 0..LANES {
                d[i] = if mask >> i & 1 == 1 { value[i] } else { d[i] };
            }
        }
    }

    /// Writes the lanes of `mask` of a register pair.
    pub(crate) fn write_wide(&mut self, register: u16, value: &Wide, mask: u64) {
        self.write_masked(register, &value.map(|x| x as u32), mask);
        self.write_masked(register + 1, &value.map(|x| (x >> 32) as u32), mask);
    }
}
