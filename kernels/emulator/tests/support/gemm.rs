//! Fragment-ordered GEMM operands for `gemm.hip`.
#![allow(dead_code, reason = "the tests and the benchmark use parts")]

use super::{Bytes, Random};
use tilewright_emulator::{Arg, BF16, E2M3, E4M3, E4M3_FNUZ, Grid, Memory, SmallFloat};

/// The GEMMs of `gemm.hip`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Fp8,
    Bf16,
    Mxfp6,
}

pub(crate) struct Problem {
    pub(crate) memory: Memory,
    pub(crate) args: Vec<Arg>,
    pub(crate) grid: Grid,
    d: u64,
    /// D in f64.
    want: Vec<f64>,
}

impl Kind {
    fn format(self, arch: &str) -> SmallFloat {
        match (self, arch) {
            (Self::Fp8, "gfx942") => E4M3_FNUZ,
            (Self::Fp8, _) => E4M3,
            (Self::Bf16, _) => BF16,
            (Self::Mxfp6, _) => E2M3,
        }
    }

    /// K of one instruction, and bytes of a lane's fragment.
    fn fragment(self, arch: &str) -> (usize, usize) {
        match (self, arch) {
            (Self::Fp8, "gfx942") => (32, 8),
            (Self::Fp8, _) => (128, 32),
            (Self::Bf16, "gfx942") => (16, 8),
            (Self::Bf16, _) => (32, 16),
            (Self::Mxfp6, _) => (128, 24),
        }
    }

    /// Byte of the fragment, within all 64 lanes', where byte `b` of a lane lies: parts that one transfer moves.
    fn place(self, arch: &str, lane: usize, b: usize) -> usize {
        let bytes = self.fragment(arch).1;
        let width = if arch == "gfx942" {
            bytes
        } else if bytes.is_multiple_of(16) {
            16
        } else {
            12
        };
        b / width * 64 * width + lane * width + b % width
    }
}

/// Exact data: small values, so that every order of f32 sums gives the same.
pub(crate) fn problem(kind: Kind, arch: &str, blocks: [u32; 2], steps: usize) -> Problem {
    let (step_k, bytes) = kind.fragment(arch);
    let format = kind.format(arch);
    let bits = format.bits() as usize;
    let per = bytes * 8 / bits;
    let k = step_k * steps;
    let mut r = Random(k as u64);
    let rows = blocks.map(|b| b as usize * 64);
    let mut memory = Memory::new();
    let mut values = Vec::new();
    let mut addresses = Vec::new();
    let mut scales = Vec::new();
    for rows in rows {
        let mut data = vec![0u8; rows / 16 * steps * 64 * bytes];
        let mut scale_bytes = vec![127u8; rows / 16 * steps * 256];
        let mut matrix = vec![0f64; rows * k];
        for row in 0..rows {
            for s in 0..k {
                let x = f64::from(r.below(9)) * 0.25 - 1.0;
                let (step, within) = (s / step_k, s % step_k);
                let (group, e) = match (bits, per) {
                    (8, 32) => (within / 16 % 4, 16 * (within / 64) + within % 16),
                    _ => (within / per, within % per),
                };
                let lane = row % 16 + 16 * group;
                let base = (row / 16 * steps + step) * 64 * bytes;
                let pattern = format.encode(x, false);
                for bit in 0..bits {
                    let at = e * bits + bit;
                    let byte = &mut data[base + kind.place(arch, lane, at / 8)];
                    *byte |= ((pattern >> bit & 1) as u8) << (at % 8);
                }
                matrix[row * k + s] = x;
            }
        }
        if kind == Kind::Mxfp6 {
            for row in 0..rows {
                for block in 0..k / 32 {
                    let e = r.below(3) as i32 - 1;
                    let at = (row / 16 * steps + block / 4) * 256 + 4 * (block % 4 * 16 + row % 16);
                    scale_bytes[at] = (127 + e) as u8;
                    for s in 32 * block..32 * block + 32 {
                        matrix[row * k + s] *= 2f64.powi(e);
                    }
                }
            }
        }
        addresses.push(memory.alloc_from("operand", &data));
        scales.push(scale_bytes);
        values.push(matrix);
    }
    let mut want = vec![0f64; rows[0] * rows[1]];
    for m in 0..rows[0] {
        for n in 0..rows[1] {
            let (a, b) = (&values[0][m * k..][..k], &values[1][n * k..][..k]);
            want[m * rows[1] + n] = a.iter().zip(b).map(|(a, b)| a * b).sum();
        }
    }
    let d = memory.alloc("d", want.len() * 2, 0xff);
    let mut args: Vec<Arg> = vec![
        addresses[0].into(),
        addresses[1].into(),
        d.into(),
        (rows[1] as u32).into(),
        (steps as u32).into(),
    ];
    if kind == Kind::Mxfp6 {
        args.extend(scales.iter().map(|s| Arg::from(memory.alloc_from("scales", &s[..].bytes()))));
    }
    let grid = Grid { grid: [blocks[0], blocks[1], 1], block: [256, 1, 1], dynamic_lds: 0 };
    Problem { memory, args, grid, d, want }
}

impl Problem {
    /// Elements of D that are not the reference rounded to bfloat16.
    pub(crate) fn wrong(&self) -> usize {
        let got = super::read::<u16>(&self.memory, self.d, self.want.len());
        got.iter().zip(&self.want).filter(|&(&got, &want)| u32::from(got) != BF16.encode(want, false)).count()
    }
}
