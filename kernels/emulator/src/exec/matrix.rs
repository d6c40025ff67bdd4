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

use super::operands::Operands;
use super::simd::{Decoder, tile_f32};
use super::wave::Wave;
use crate::error::{Trap, trap};
use crate::isa::matrix_table::{Element, Matrix, MatrixRow};
use crate::isa::{Arch, LANES, Lanes, Src};

/// The operands and the result of one block, kept from one instruction to the next.
pub(crate) struct Tiles {
    /// A and B as k rows of `dim`, D as `dim` rows of `dim`.
    a: Operands,
    b: Operands,
    sparse: Vec<f32>,
    d: Vec<f32>,
}

impl Tiles {
    pub(crate) fn new() -> Self {
        Self { a: Operands::new(), b: Operands::new(), sparse: vec![0.0; 2048], d: vec![0.0; 1024] }
    }
}

/// Runs one matrix instruction.
pub(crate) fn run(m: &Matrix, w: &mut Wave, arch: Arch, tiles: &mut Tiles) -> Result<(), Trap> {
    let row = &m.row;
    if row.a == Element::I8 {
        return integer(m, w);
    }
    let scales =
        m.scale.map(|scale| scale.map(|(src, select)| w.lanes(src).map(|x| (x >> (8 * select)) as u8)));
    // A power of two commutes with everything as long as nothing overflows: elements are below 2^16.
    let commute = scales.iter().flatten().flatten().all(|scale| *scale <= 127 + 100);
    let with = scales.filter(|_| commute);
    let d = &mut tiles.d[..row.dim * row.dim];
    for block in 0..row.blocks {
        let a = if row.sparse {
            let a = &mut tiles.sparse[..row.dim * row.k];
            sparse_a(m, w, arch, a)?;
            &*a
        } else {
            let unpack = |out: &mut [f32]| dense(row, row.a, w, m.a, arch, block, out);
            tiles.a.get(row, row.a, w, m.a, block, with.map(|[a, _]| a), unpack)
        };
        let unpack = |out: &mut [f32]| dense(row, row.b, w, m.b, arch, block, out);
        let b = tiles.b.get(row, row.b, w, m.b, block, with.map(|[_, b]| b), unpack);
        let accumulator = if row.sparse { Src::Vgpr(m.dst) } else { m.c };
        match accumulator {
            Src::Vgpr(n) => for_each_row(row, block, |lane, r, i| {
                let from = &w.vgpr[usize::from(n) + r][lane..][..row.dim];
                for (d, &bits) in d[i * row.dim..][..row.dim].iter_mut().zip(from) {
                    *d = f32::from_bits(bits);
                }
            }),
            constant => d.fill(f32::from_bits(w.scalar(constant, false) as u32)),
        }
        match scales {
            Some(scales) if !commute => scaled_tile(row, &scales, a, b, d),
            _ => tile_f32(row.dim, row.k, a, b, d),
        }
        for_each_row(row, block, |lane, r, i| {
            let to = &mut w.vgpr[usize::from(m.dst) + r][lane..][..row.dim];
            for (bits, &d) in to.iter_mut().zip(&d[i * row.dim..]) {
                *bits = d.to_bits();
            }
        });
    }
    Ok(())
}

/// Calls `f(first lane, register, row)` for every row of a block of D: its columns lie in `dim` lanes in line.
#[inline(always)]
fn for_each_row(row: &MatrixRow, block: usize, mut f: impl FnMut(usize, usize, usize)) {
    match row.dim {
        32 => (0..32).for_each(|i| f(i / 4 % 2 * 32, 16 * block + i / 8 * 4 + i % 4, i)),
        16 => (0..16).for_each(|i| f(i / 4 * 16, 4 * block + i % 4, i)),
        _ => (0..4).for_each(|i| f(4 * block, i, i)),
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

/// Unpacks a dense operand of one block into `out[k · dim + i]`.
fn dense(row: &MatrixRow, element: Element, w: &Wave, first: u16, arch: Arch, block: usize, out: &mut [f32]) {
    let dim = row.dim;
    let per = row.k * dim * row.blocks / LANES;
    let groups = LANES / dim / row.blocks;
    for_each_element(w, first, element, arch, per, |e, values| {
        for g in 0..groups {
            let lane = dim * (block + row.blocks * g);
            copy_row(dim, &mut out[depth(row, element, g, e) * dim..], &values[lane..]);
        }
    });
}

/// Copies `dim` values, a number that the compiler knows in the common cases.
#[inline(always)]
fn copy_row(dim: usize, to: &mut [f32], from: &[f32]) {
    match dim {
        16 => to[..16].copy_from_slice(&from[..16]),
        32 => to[..32].copy_from_slice(&from[..32]),
        _ => to[..dim].copy_from_slice(&from[..dim]),
    }
}

/// Calls `f(e, values)` with element `e` of every lane, for `count` elements packed little-endian from register `first`.
#[inline(always)]
fn for_each_element(
    w: &Wave,
    first: u16,
    element: Element,
    arch: Arch,
    count: usize,
    mut f: impl FnMut(usize, &[f32; LANES]),
) {
    let bits = element.bits();
    let decoder = element.small(arch).map(Decoder::new);
    let mut values = [0f32; LANES];
    for e in 0..count {
        let (word, shift) = (usize::from(first) + e * bits / 32, e * bits % 32);
        let words = &w.vgpr[word];
        match &decoder {
            // Half of an f32: nothing to compute.
            _ if element == Element::Bf16 => values = words.map(|x| f32::from_bits(x >> shift << 16)),
            Some(decoder) if shift + bits > 32 => {
                // A 6-bit element that straddles two registers.
                let next = &w.vgpr[word + 1];
                let joined: Lanes = std::array::from_fn(|i| words[i] >> shift | next[i] << (32 - shift));
                decoder.run(&joined, 0, &mut values);
            }
            Some(decoder) => decoder.run(words, shift as u32, &mut values),
            None => values = words.map(f32::from_bits),
        }
        f(e, &values);
    }
}

/// The dense form of a sparse A.
fn sparse_a(m: &Matrix, w: &Wave, arch: Arch, out: &mut [f32]) -> Result<(), Trap> {
    let row = &m.row;
    let dense_per_lane = row.k * row.dim / LANES;
    let Src::Vgpr(index) = m.c else { return trap!("the index operand must be a vector register") };
    let sets = 32 / dense_per_lane;
    let set = if m.cbsz == 0 { usize::from(m.abid) % sets } else { 0 };
    let index = w.vgpr[usize::from(index)].map(|x| x >> (set * dense_per_lane));
    out.fill(0.0);
    for_each_element(w, m.a, row.a, arch, dense_per_lane / 2, |e, values| {
        let (group, half) = (e / 2, e % 2);
        for lane in 0..LANES {
            let position = (index[lane] >> (4 * group + 2 * half) & 3) as usize;
            let k = lane / row.dim * dense_per_lane + 4 * group + position;
            out[k * row.dim + lane % row.dim] += values[lane];
        }
    });
    Ok(())
}

/// The product with one E8M0 scale per row and K-block of 32, whatever the scales.
fn scaled_tile(row: &MatrixRow, [sa, sb]: &[[u8; LANES]; 2], a: &[f32], b: &[f32], d: &mut [f32]) {
    let (dim, k) = (row.dim, row.k);
    let power = |x: u8| if x == 255 { f64::NAN } else { 2f64.powi(i32::from(x) - 127) };
    for i in 0..dim {
        for j in 0..dim {
            for block in 0..k / 32 {
                let scale = power(sa[block * dim + i]) * power(sb[block * dim + j]);
                let dot: f64 = (32 * block..32 * block + 32)
                    .map(|s| f64::from(a[s * dim + i]) * f64::from(b[s * dim + j]))
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
                out[depth(row, row.a, lane / row.dim, e) * row.dim + lane % row.dim] = i32::from(byte as i8);
            }
        }
        out
    };
    let (a, b) = (unpack(m.a), unpack(m.b));
    let registers = row.dim * row.dim / LANES;
    let mut d = vec![[0u32; LANES]; registers];
    for_each_row(row, 0, |lane, r, i| {
        for j in 0..row.dim {
            let c = match m.c {
                Src::Vgpr(n) => w.vgpr[usize::from(n) + r][lane + j],
                constant => w.scalar(constant, false) as u32,
            };
            d[r][lane + j] = (0..row.k)
                .fold(c as i32, |sum, s| sum.wrapping_add(a[s * row.dim + i] * b[s * row.dim + j]))
                as u32;
        }
    });
    let first: &mut [Lanes] = &mut w.vgpr[usize::from(m.dst)..][..registers];
    first.copy_from_slice(&d);
    Ok(())
}
