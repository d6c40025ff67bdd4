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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::pack::block_bytes;
    use crate::format::quantize::Quantized;
    use crate::layout::Layout;
    use crate::problem::Scaling;

    /// A weight of ragged shape whose codes run through everything the format has.
    fn weight(format: Format) -> Quantized {
        let (rows, k) = (35, if format.is_mx() { 96 } else { 75 });
        let bytes = rows * format.row_bytes(k);
        let scales = match Scaling::usual(format) {
            Scaling::Channel => rows,
            _ => 0,
        };
        Quantized {
            format,
            scaling: Scaling::usual(format),
            rows,
            k,
            codes: (0..bytes).map(|i| (i * 37 + i / 256) as u8).collect(),
            scales: vec![1.0; scales],
            block_scales: (0..if format.is_mx() { rows * k / 32 } else { 0 }).map(|i| i as u8).collect(),
            options: Default::default(),
        }
    }

    #[test]
    fn every_layout_holds_every_element_where_it_belongs() {
        for &format in Format::WEIGHTS {
            let quantized = weight(format);
            for &layout in Layout::ALL.iter().filter(|l| l.is_cpu()) {
                let packed = PackedWeight::pack(&quantized, layout).expect("the weight is legal");
                for panel in 0..3 {
                    for block in 0..3 {
                        check_block(&quantized, &packed, panel, block);
                    }
                }
            }
        }
    }

    fn check_block(quantized: &Quantized, packed: &PackedWeight, panel: usize, block: usize) {
        let (format, layout) = (quantized.format, packed.layout());
        let mut pairs = [[0; COLUMNS]; BLOCK / 2];
        let scales: Vec<u8> = match layout.interleave() {
            None => {
                row_major_block(packed, panel, block, &mut pairs);
                if format.is_mx() { row_major_scales(packed, panel, block).to_vec() } else { Vec::new() }
            }
            Some(interleave) => {
                let (interleave, bytes) = (interleave as usize, block_bytes(format));
                let at = (panel / interleave * 3 + block) * interleave + panel % interleave;
                let block = &packed.bytes()[at * bytes..][..bytes];
                packed_block(format, block, &mut pairs);
                block[16 * 32 * format.bits() / 8..].to_vec()
            }
        };
        for column in 0..COLUMNS {
            let row = panel * COLUMNS + column;
            for k in 0..BLOCK {
                let word = pairs[k / 4 * 2 + k % 2][column] >> (16 * (k % 4 / 2));
                let found = f32::from_bits(word << 16);
                let exists = row < quantized.rows && block * BLOCK + k < quantized.k;
                let wanted = if exists { format.decode(quantized.code(row, block * BLOCK + k)) } else { 0.0 };
                let same = found == wanted || (found.is_nan() && wanted.is_nan());
                assert!(same, "{format} {layout} row {row} block {block} k {k}: {found} is not {wanted}");
            }
            if format.is_mx() {
                let wanted = if row < quantized.rows { quantized.block_scales[row * 3 + block] } else { 0 };
                assert_eq!(scales[column], wanted, "{format} {layout} row {row} block {block}");
            }
        }
    }
}
