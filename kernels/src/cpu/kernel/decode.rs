//! Decoding one block at a time: into scratch that many row tiles share, or into a kernel's own small buffer.
//!
//! A decoded block is 16 pair vectors of `[16 columns][2]` bf16 (see [`super::DECODED`]). Rows of a row-major weight
//! are gathered into the same form; columns and k past the end decode to zero.

use super::widen::widen;
use crate::cpu::pack::{BLOCK, COLUMNS, PackedWeight};
use crate::cpu::tables;
use crate::format::Format;

/// Pair vectors of a decoded block.
pub(in crate::cpu) type Pairs = [[u32; COLUMNS]; BLOCK / 2];

/// The codes of one block in group order: `[8 groups][16 columns][4 k]`.
pub(in crate::cpu) type Codes = [u8; BLOCK * COLUMNS];

/// Decodes a packed block. `block` has `pack::block_bytes(format)` bytes.
#[inline(always)]
pub(in crate::cpu) fn packed_block(format: Format, block: &[u8], out: &mut Pairs) {
    if format == Format::Bf16 {
        for (pair, bytes) in out.iter_mut().zip(block.chunks_exact(COLUMNS * 4)) {
            for (word, bytes) in pair.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        return;
    }
    let mut codes: Codes = [0; BLOCK * COLUMNS];
    packed_codes(format, block, &mut codes);
    widen(format, &codes, out);
}

/// Takes the codes of a packed block of at most 8 bits apart.
#[inline(always)]
pub(in crate::cpu) fn packed_codes(format: Format, block: &[u8], codes: &mut Codes) {
    const GROUP: usize = COLUMNS * 4;
    match format.bits() {
        8 => codes.copy_from_slice(&block[..BLOCK * COLUMNS]),
        6 => {
            for (half, codes) in codes.chunks_exact_mut(4 * GROUP).enumerate() {
                let vectors = &block[half * 3 * GROUP..][..3 * GROUP];
                for (code, byte) in codes.iter_mut().zip(vectors) {
                    *code = byte & 63;
                }
                for at in 0..GROUP {
                    codes[3 * GROUP + at] =
                        vectors[at] >> 6 | vectors[GROUP + at] >> 6 << 2 | vectors[2 * GROUP + at] >> 6 << 4;
                }
            }
        }
        _ => {
            for (codes, vector) in codes.chunks_exact_mut(2 * GROUP).zip(block.chunks_exact(GROUP)) {
                for at in 0..GROUP {
                    codes[at] = vector[at] & 15;
                    codes[GROUP + at] = vector[at] >> 4;
                }
            }
        }
    }
}

/// Gathers one block of a row-major weight: the columns of `panel`, k from `32·block`.
pub(in crate::cpu) fn row_major_block(weight: &PackedWeight, panel: usize, block: usize, out: &mut Pairs) {
    let format = weight.format();
    if format == Format::Bf16 {
        *out = [[0; COLUMNS]; BLOCK / 2];
        for (column, codes) in row_major_columns(weight, panel, block) {
            for (k, code) in codes.chunks_exact(2).enumerate() {
                let value = u32::from(u16::from_le_bytes([code[0], code[1]]));
                out[k / 4 * 2 + k % 2][column] |= value << (16 * (k % 4 / 2));
            }
        }
        return;
    }
    let mut codes: Codes = [0; BLOCK * COLUMNS];
    row_major_codes(weight, panel, block, &mut codes);
    widen(format, &codes, out);
}

/// Gathers the codes of one block of a row-major weight of at most 8 bits, in group order.
pub(in crate::cpu) fn row_major_codes(weight: &PackedWeight, panel: usize, block: usize, out: &mut Codes) {
    *out = [0; BLOCK * COLUMNS];
    for (column, codes) in row_major_columns(weight, panel, block) {
        let place = |group: usize| group * COLUMNS * 4 + column * 4;
        match weight.format().bits() {
            8 => {
                for (group, four) in codes.chunks(4).enumerate() {
                    out[place(group)..][..four.len()].copy_from_slice(four);
                }
            }
            6 => {
                for (group, three) in codes.chunks_exact(3).enumerate() {
                    let four = u32::from_le_bytes([three[0], three[1], three[2], 0]);
                    for r in 0..4 {
                        out[place(group) + r] = (four >> (6 * r) & 63) as u8;
                    }
                }
            }
            _ => {
                for (group, two) in codes.chunks_exact(2).enumerate() {
                    out[place(group)..][..4].copy_from_slice(&[
                        two[0] & 15,
                        two[0] >> 4,
                        two[1] & 15,
                        two[1] >> 4,
                    ]);
                }
            }
        }
    }
}

/// The dense codes of one block, for each column of the panel that exists.
fn row_major_columns(
    weight: &PackedWeight,
    panel: usize,
    block: usize,
) -> impl Iterator<Item = (usize, &[u8])> {
    let format = weight.format();
    let row_bytes = format.row_bytes(weight.k());
    let start = block * format.row_bytes(BLOCK);
    let end = (start + format.row_bytes(BLOCK)).min(row_bytes);
    let first = panel * COLUMNS;
    (first..weight.n().min(first + COLUMNS))
        .map(move |row| (row - first, &weight.bytes()[row * row_bytes..][start..end]))
}

/// The scales of one block of a row-major MX weight.
pub(in crate::cpu) fn row_major_scales(weight: &PackedWeight, panel: usize, block: usize) -> [u8; COLUMNS] {
    let blocks = weight.k() / BLOCK;
    std::array::from_fn(|column| {
        let row = panel * COLUMNS + column;
        if row < weight.n() { weight.row_major_scales()[row * blocks + block] } else { 0 }
    })
}

/// Widens E8M0 scales.
pub(in crate::cpu) fn scales(codes: &[u8], out: &mut [f32; COLUMNS]) {
    for (scale, code) in out.iter_mut().zip(codes) {
        *scale = tables::scale(*code);
    }
}
