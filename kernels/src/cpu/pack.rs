//! Weights as the kernels read them.
//!
//! # Layout `panel16`, version 1
//!
//! N is cut into panels of 16 columns (rows of B), K into blocks of 32; both are padded with zero codes (and, for MX
//! formats, zero scale codes). A block holds 8 *groups* of 4 k. Within a group, element (column c, k = 4g + r) has
//! position 4c + r, so that one 64-byte register holds `[16 columns][4 k]`:
//!
//! | bits | bytes of a block | content |
//! |---|---|---|
//! | 16 | 1024 | per group two *pair vectors* of `[16 columns][2]` little-endian bf16: k = 4g, 4g+2, then k = 4g+1, 4g+3 |
//! | 8 | 512 | per group 64 codes |
//! | 6 | 384 | per half block (4 groups) three vectors: groups 0 to 2 in the low six bits of vectors 0 to 2, and group 3 in their top two bits: code bits 0–1 in vector 0, 2–3 in vector 1, 4–5 in vector 2 |
//! | 4 | 256 | per two groups one vector: the first in the low, the second in the high half of each byte |
//!
//! A block of an MX format ends with the 16 E8M0 scales of its columns. Blocks of a panel follow each other along K,
//! panels along N. `panel16x2` and `panel16x4` interleave that many neighbouring panels block by block, so that a wide
//! register tile reads one stream; N is then padded to whole groups of panels.
//!
//! The order of k in pair vectors comes from decoding: the even bytes of a group's register are k = 4g, 4g+2 and the odd
//! bytes the other two, so 16-bit arithmetic needs no shuffle, while `vpdpbusd` takes the group as it is. Activations
//! are packed in the same order.
//!
//! # Layout `row_major`
//!
//! The codes of [`Quantized`] as they are, then (from the next cache line) its block scales.

use crate::cpu::PANEL;
use crate::cpu::buffer::{Buffer, LINE};
use crate::family::Reject;
use crate::format::Format;
use crate::format::quantize::Quantized;
use crate::layout::Layout;
use crate::problem::Scaling;

/// Columns of a panel.
pub(super) const COLUMNS: usize = PANEL as usize;
/// Elements of a block along K.
pub(super) const BLOCK: usize = 32;

/// Bytes of one packed block of a panel.
pub(super) const fn block_bytes(format: Format) -> usize {
    COLUMNS * BLOCK * format.bits() / 8 + if format.is_mx() { COLUMNS } else { 0 }
}

/// A weight in one layout, ready for [`crate::cpu::Gemm::run`].
#[derive(Clone)]
pub struct PackedWeight {
    n: usize,
    k: usize,
    format: Format,
    scaling: Scaling,
    layout: Layout,
    image: Buffer,
    image_bytes: usize,
    channel_scales: Vec<f32>,
}

impl PackedWeight {
    /// Lays a quantised weight out.
    ///
    /// # Errors
    /// If the operand has no elements, is rotated, or its codes or scales do not have the lengths its shape asks for.
    pub fn pack(weight: &Quantized, layout: Layout) -> Result<Self, Reject> {
        let Quantized { format, scaling, rows, k, .. } = *weight;
        check(weight)?;
        if !Format::WEIGHTS.contains(&format) {
            return Err(Reject::problem("the format is one of activations, not of weights"));
        }
        if !layout.is_cpu() {
            return Err(Reject::param("layout", "no CPU kernel reads it"));
        }
        let image_bytes = match layout.interleave() {
            None => scales_offset(format, rows, k) + weight.block_scales.len(),
            Some(panels) => {
                rows.div_ceil(COLUMNS).next_multiple_of(panels as usize)
                    * k.div_ceil(BLOCK)
                    * block_bytes(format)
            }
        };
        // Kernels may read, and ignore, up to a line past the last row-major code.
        let mut image = Buffer::zeroed(image_bytes + LINE);
        match layout.interleave() {
            None => {
                image.bytes_mut()[..weight.codes.len()].copy_from_slice(&weight.codes);
                let scales = scales_offset(format, rows, k);
                image.bytes_mut()[scales..image_bytes].copy_from_slice(&weight.block_scales);
            }
            Some(panels) => pack_panels(weight, panels as usize, &mut image.bytes_mut()[..image_bytes]),
        }
        let channel_scales = match scaling {
            Scaling::Tensor => vec![weight.scales[0]; rows],
            Scaling::Channel => weight.scales.clone(),
            Scaling::None | Scaling::Block32 => Vec::new(),
        };
        Ok(PackedWeight { n: rows, k, format, scaling, layout, image, image_bytes, channel_scales })
    }

    /// Rows of B: output features.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The contracted dimension.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Element format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Granularity of the scales.
    pub fn scaling(&self) -> Scaling {
        self.scaling
    }

    /// How [`PackedWeight::bytes`] is laid out.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The packed image: codes, and block scales where the format has them.
    pub fn bytes(&self) -> &[u8] {
        &self.image.bytes()[..self.image_bytes]
    }

    /// One f32 per channel, or empty for formats without such scales.
    pub(super) fn channel_scales(&self) -> &[f32] {
        &self.channel_scales
    }

    /// Block scales of a row-major MX weight, `n` × `k/32`.
    pub(super) fn row_major_scales(&self) -> &[u8] {
        &self.bytes()[scales_offset(self.format, self.n, self.k).min(self.image_bytes)..]
    }
}

/// Where a row-major image's block scales begin.
fn scales_offset(format: Format, rows: usize, k: usize) -> usize {
    let codes = rows * format.row_bytes(k);
    if format.is_mx() { codes.next_multiple_of(LINE) } else { codes }
}

fn check(weight: &Quantized) -> Result<(), Reject> {
    let Quantized { format, scaling, rows, k, .. } = *weight;
    if rows == 0 || k == 0 {
        return Err(Reject::problem("the weight has no elements"));
    }
    if !u32::try_from(k).is_ok_and(|k| format.allows_k(k)) || u32::try_from(rows).is_err() {
        return Err(Reject::problem("K must be a multiple of 32 for an MX format"));
    }
    if !scaling.fits(format) {
        return Err(Reject::problem("the scale granularity does not fit the weight's format"));
    }
    if weight.options.hadamard {
        return Err(Reject::problem(
            "a rotated weight needs a rotated activation, which no CPU kernel makes",
        ));
    }
    let scales = match scaling {
        Scaling::Tensor => 1,
        Scaling::Channel => rows,
        Scaling::None | Scaling::Block32 => 0,
    };
    let block_scales = if format.is_mx() { rows * (k / BLOCK) } else { 0 };
    if weight.codes.len() != rows * format.row_bytes(k)
        || weight.scales.len() != scales
        || weight.block_scales.len() != block_scales
    {
        return Err(Reject::problem("the weight's codes or scales do not fit its shape"));
    }
    Ok(())
}

/// Packs groups of `panels` interleaved panels, on every core where the weight is large.
fn pack_panels(weight: &Quantized, panels: usize, image: &mut [u8]) {
    let group_bytes = panels * weight.k.div_ceil(BLOCK) * block_bytes(weight.format);
    let groups = image.len() / group_bytes;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = if image.len() < 1 << 20 { 1 } else { cores.min(groups) };
    let share = groups.div_ceil(workers);
    let pack_share = |first: usize, image: &mut [u8]| {
        for (index, group) in image.chunks_exact_mut(group_bytes).enumerate() {
            pack_group(weight, (first + index) * panels, panels, group);
        }
    };
    if workers == 1 {
        return pack_share(0, image);
    }
    std::thread::scope(|scope| {
        for (worker, part) in image.chunks_mut(share * group_bytes).enumerate() {
            scope.spawn(move || pack_share(worker * share, part));
        }
    });
}

fn pack_group(weight: &Quantized, first_panel: usize, panels: usize, out: &mut [u8]) {
    let format = weight.format;
    let row_bytes = format.row_bytes(weight.k);
    let mut blocks = out.chunks_exact_mut(block_bytes(format));
    for block in 0..weight.k.div_ceil(BLOCK) {
        for panel in first_panel..first_panel + panels {
            let out = blocks.next().expect("a group holds every block of its panels");
            for column in 0..COLUMNS.min(weight.rows.saturating_sub(panel * COLUMNS)) {
                let row = panel * COLUMNS + column;
                let codes = &weight.codes[row * row_bytes..][..row_bytes];
                let start = block * format.row_bytes(BLOCK);
                let end = (start + format.row_bytes(BLOCK)).min(row_bytes);
                pack_column(format, &codes[start..end], column, out);
                if format.is_mx() {
                    let scale = weight.block_scales[row * (weight.k / BLOCK) + block];
                    let scales = out.len() - COLUMNS;
                    out[scales + column] = scale;
                }
            }
        }
    }
}

/// Places up to 32 dense codes of one column into its block, which is zero there.
fn pack_column(format: Format, codes: &[u8], column: usize, out: &mut [u8]) {
    match format.bits() {
        16 => {
            for (k, code) in codes.chunks_exact(2).enumerate() {
                let (group, r) = (k / 4, k % 4);
                let at = (2 * group + r % 2) * LINE + column * 4 + r / 2 * 2;
                out[at..at + 2].copy_from_slice(code);
            }
        }
        8 => {
            for (group, four) in codes.chunks(4).enumerate() {
                out[group * LINE + column * 4..][..four.len()].copy_from_slice(four);
            }
        }
        6 => {
            for (group, three) in codes.chunks_exact(3).enumerate() {
                let four = u32::from_le_bytes([three[0], three[1], three[2], 0]);
                let half = &mut out[group / 4 * 3 * LINE..][..3 * LINE];
                for r in 0..4 {
                    let code = (four >> (6 * r) & 63) as u8;
                    let at = column * 4 + r;
                    match group % 4 {
                        3 => {
                            half[at] |= (code & 3) << 6;
                            half[LINE + at] |= (code >> 2 & 3) << 6;
                            half[2 * LINE + at] |= (code >> 4) << 6;
                        }
                        vector => half[vector * LINE + at] |= code,
                    }
                }
            }
        }
        _ => {
            for (group, two) in codes.chunks_exact(2).enumerate() {
                for r in 0..4 {
                    let code = two[r / 2] >> (4 * (r % 2)) & 15;
                    out[group / 2 * LINE + column * 4 + r] |= code << (4 * (group % 2));
                }
            }
        }
    }
}
