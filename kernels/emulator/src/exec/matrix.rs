//! The matrix unit: MFMA, scaled f8f6f4, SMFMAC.
//!
//! Layouts of one block, lane l, i = row of A or column of B, per = K·dim/64 elements a lane (blocks share the lanes):
//!
//! * A and B: i = l % dim, g = l / dim; k = g·per + e. Where a lane holds 32 elements of 8 bits (16x16x128, 32x32x64),
//!   they come in chunks of 16: k = 16·((e/16)·(64/dim) + g) + e % 16. Elements are packed little-endian, also 6-bit ones.
//! * E8M0 scale of row i, K-block b of 32: one byte of the scale register in lane b·dim + i.
//! * D: 16 x 16 row 4·(l/16) + r; 32 x 32 row 8·(r/4) + 4·(l/32) + r%4; 4 x 4 row r; column l % dim.
//! * SMFMAC: A stores two of every four; src2 gives each pair's positions in 4 bits a group; A's dense range is
//!   contiguous in a lane, B follows the dense rule; the result accumulates in the destination.
//!
//! EXEC does not matter. Products of two floats of 16 bits or fewer are exact in f32; they are summed in f32 with k
//! ascending, starting from C, one fused multiply-add each. The hardware's order and width inside an instruction are
//! not documented, so sums that are not exact may differ in the last bits.

use super::simd::tile_f32;
use super::wave::Wave;
use crate::error::{Trap, trap};
use crate::isa::matrix_table::{Element, Matrix, MatrixRow};
use crate::isa::{Arch, LANES, Lanes, Src};
use crate::small_float::from_f16;

/// Runs one matrix instruction.
pub(crate) fn run(m: &Matrix, w: &mut Wave, arch: Arch) -> Result<(), Trap> {
    let row = &m.row;
    if row.a == Element::I8 {
        return integer(m, w);
    }
    for block in 0..row.blocks {
        let (mut a, mut b) = (vec![0f32; row.dim * row.k], vec![0f32; row.dim * row.k]);
        if row.sparse {
            sparse_a(m, w, arch, &mut a)?;
        } else {
            dense(row, row.a, w, m.a, arch, block, &mut a, |i, k| i * row.k + k);
        }
        dense(row, row.b, w, m.b, arch, block, &mut b, |j, k| k * row.dim + j);
        let accumulator = if row.sparse { Src::Vgpr(m.dst) } else { m.c };
        let mut d = vec![0f32; row.dim * row.dim];
        for_each_result(row, block, |lane, r, i, j| {
            d[i * row.dim + j] = f32::from_bits(c_value(w, accumulator, r, lane));
        });
        match m.scale {
            Some(scale) => scaled_tile(row, w, scale, &mut a, &mut b, &mut d),
            None => tile_f32(row.dim, row.k, &a, &b, &mut d),
        }
        for_each_result(row, block, |lane, r, i, j| {
            w.vgpr[usize::from(m.dst) + r][lane] = d[i * row.dim + j].to_bits();
        });
    }
    Ok(())
}

#[inline(always)]
fn c_value(w: &Wave, c: Src, r: usize, lane: usize) -> u32 {
    match c {
        Src::Vgpr(n) => w.vgpr[usize::from(n) + r][lane],
        other => w.scalar(other, false) as u32,
    }
}

/// Calls `f(lane, register, row, column)` for every element of a block of D.
#[inline(always)]
fn for_each_result(row: &MatrixRow, block: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
    match row.dim {
        32 => {
            for r in 0..16 {
                for lane in 0..LANES {
                    f(lane, 16 * block + r, 8 * (r / 4) + 4 * (lane / 32) + r % 4, lane % 32);
                }
            }
        }
        16 => {
            for r in 0..4 {
                for lane in 0..LANES {
                    f(lane, 4 * block + r, 4 * (lane / 16) + r, lane % 16);
                }
            }
        }
        _ => {
            for r in 0..4 {
                for lane in 4 * block..4 * block + 4 {
                    f(lane, r, r, lane % 4);
                }
            }
        }
    }
}

/// Position along K of element `e` of lane group `g`.
#[inline(always)]
fn depth(row: &MatrixRow, element: Element, g: usize, e: usize) -> usize {
    let per = row.k * row.dim * row.blocks / LANES;
    if element.bits() == 8 && per == 32 {
        16 * (e / 16 * (LANES / row.dim) + g) + e % 16
    } else {
        g * per + e
    }
}

/// Unpacks a dense operand of one block into `out[at(i, k)]`.
fn dense(
    row: &MatrixRow,
    element: Element,
    w: &Wave,
    first: u16,
    arch: Arch,
    block: usize,
    out: &mut [f32],
    at: impl Fn(usize, usize) -> usize,
) {
    let per = row.k * row.dim * row.blocks / LANES;
    for lane in (0..LANES).filter(|lane| lane / row.dim % row.blocks == block) {
        let (i, g) = (lane % row.dim, lane / row.dim / row.blocks);
        let mut values = [0f32; 32];
        unpack(w, first, lane, element, arch, &mut values[..per]);
        for (e, &value) in values[..per].iter().enumerate() {
            out[at(i, depth(row, element, g, e))] = value;
        }
    }
}

/// The elements of one lane, as f32.
fn unpack(w: &Wave, first: u16, lane: usize, element: Element, arch: Arch, out: &mut [f32]) {
    let word = |i: usize| w.vgpr[usize::from(first) + i][lane];
    match element {
        Element::F32 => {
            for (e, out) in out.iter_mut().enumerate() {
                *out = f32::from_bits(word(e));
            }
        }
        Element::Bf16 => {
            for (e, out) in out.iter_mut().enumerate() {
                *out = f32::from_bits(word(e / 2) >> (16 * (e % 2)) << 16);
            }
        }
        Element::F16 => {
            for (e, out) in out.iter_mut().enumerate() {
                *out = from_f16(word(e / 2) >> (16 * (e % 2)) & 0xffff);
            }
        }
        _ => {
            let bits = element.bits();
            let table = tables().get(element, arch);
            // Six-bit elements straddle words, so at least 32 bits are always buffered.
            let (mut buffer, mut have, mut next) = (0u64, 0, 0);
            for out in out {
                if have < bits {
                    buffer |= u64::from(word(next)) << have;
                    have += 32;
                    next += 1;
                }
                *out = table[(buffer & ((1 << bits) - 1)) as usize];
                buffer >>= bits;
                have -= bits;
            }
        }
    }
}

/// Values of every pattern of the formats of 8 bits and fewer.
struct Tables {
    values: Vec<[f32; 256]>,
}

const TABLED: [(Element, Arch); 7] = [
    (Element::Fp8, Arch::Gfx942),
    (Element::Bf8, Arch::Gfx942),
    (Element::Fp8, Arch::Gfx950),
    (Element::Bf8, Arch::Gfx950),
    (Element::Fp6, Arch::Gfx950),
    (Element::Bf6, Arch::Gfx950),
    (Element::Fp4, Arch::Gfx950),
];

impl Tables {
    fn get(&self, element: Element, arch: Arch) -> &[f32; 256] {
        let index = TABLED.iter().position(|&entry| entry == (element, arch));
        &self.values[index.expect("every small format of an architecture is tabled")]
    }
}

fn tables() -> &'static Tables {
    static TABLES: std::sync::OnceLock<Tables> = std::sync::OnceLock::new();
    TABLES.get_or_init(|| {
        let values = TABLED
            .iter()
            .map(|&(element, arch)| {
                let format = element.small(arch).expect("a small float");
                std::array::from_fn(|pattern| format.decode(pattern as u32 & ((1 << format.bits()) - 1)))
            })
            .collect();
        Tables { values }
    })
}

/// The dense form of a sparse A.
fn sparse_a(m: &Matrix, w: &Wave, arch: Arch, out: &mut [f32]) -> Result<(), Trap> {
    let row = &m.row;
    let dense_per_lane = row.k * row.dim / LANES;
    let Src::Vgpr(index) = m.c else { return trap!("the index operand must be a vector register") };
    let sets = 32 / dense_per_lane;
    let set = if m.cbsz == 0 { usize::from(m.abid) % sets } else { 0 };
    for lane in 0..LANES {
        let (i, g) = (lane % row.dim, lane / row.dim);
        let index = w.vgpr[usize::from(index)][lane] >> (set * dense_per_lane);
        let mut stored = [0f32; 32];
        unpack(w, m.a, lane, row.a, arch, &mut stored[..dense_per_lane / 2]);
        for group in 0..dense_per_lane / 4 {
            for half in 0..2 {
                let position = (index >> (4 * group + 2 * half) & 3) as usize;
                out[i * row.k + g * dense_per_lane + 4 * group + position] += stored[2 * group + half];
            }
        }
    }
    Ok(())
}

/// The product with one E8M0 scale per row and K-block of 32.
fn scaled_tile(
    row: &MatrixRow,
    w: &Wave,
    scale: [(Src, u8); 2],
    a: &mut [f32],
    b: &mut [f32],
    d: &mut [f32],
) {
    let (dim, k) = (row.dim, row.k);
    let [sa, sb] = scale.map(|(src, select)| w.lanes(src).map(|x| (x >> (8 * select)) as u8));
    let largest = sa.iter().chain(&sb).copied().max().unwrap_or(0);
    // A power of two commutes with everything as long as nothing overflows: elements are below 2^16.
    if largest <= 127 + 100 {
        for i in 0..dim {
            for s in 0..k {
                a[i * k + s] *= crate::small_float::e8m0(sa[s / 32 * dim + i]);
                b[s * dim + i] *= crate::small_float::e8m0(sb[s / 32 * dim + i]);
            }
        }
        return tile_f32(dim, k, a, b, d);
    }
    let power = |x: u8| if x == 255 { f64::NAN } else { 2f64.powi(i32::from(x) - 127) };
    for i in 0..dim {
        for j in 0..dim {
            for block in 0..k / 32 {
                let scale = power(sa[block * dim + i]) * power(sb[block * dim + j]);
                let dot: f64 = (32 * block..32 * block + 32)
                    .map(|s| f64::from(a[i * k + s]) * f64::from(b[s * dim + j]))
                    .sum();
                d[i * dim + j] = (f64::from(d[i * dim + j]) + dot * scale) as f32;
            }
        }
    }
}

/// i8 products summed in i32, wrapping.
fn integer(m: &Matrix, w: &mut Wave) -> Result<(), Trap> {
    let row = &m.row;
    let per = row.k * row.dim / LANES;
    let unpack = |first: u16| -> Vec<i32> {
        let mut out = vec![0; row.dim * row.k];
        for lane in 0..LANES {
            for e in 0..per {
                let byte = w.vgpr[usize::from(first) + e / 4][lane] >> (8 * (e % 4));
                out[lane % row.dim * row.k + depth(row, row.a, lane / row.dim, e)] = i32::from(byte as i8);
            }
        }
        out
    };
    let (a, b) = (unpack(m.a), unpack(m.b));
    let registers = row.dim * row.dim / LANES;
    let mut d = vec![[0u32; LANES]; registers];
    for_each_result(row, 0, |lane, r, i, j| {
        let dot = (0..row.k).fold(0i32, |sum, s| sum.wrapping_add(a[i * row.k + s] * b[j * row.k + s]));
        d[r][lane] = dot.wrapping_add(c_value(w, m.c, r, lane) as i32) as u32;
    });
    let first: &mut [Lanes] = &mut w.vgpr[usize::from(m.dst)..][..registers];
    first.copy_from_slice(&d);
    Ok(())
}
