//! The activation as kernels read it: quantised where the problem asks for it, cut into row tiles, in the order of the
//! weight's pair vectors.
//!
//! A row tile of `MR` rows is a sequence of blocks of 32 k, each `[slot][MR]` 32-bit words, so that a kernel broadcasts
//! one word per row and step. See [`Slots`] for what a slot holds. Rows and k past the end are zero.

use crate::cpu::kernel::Slots;
use crate::cpu::pack::BLOCK;
use crate::cpu::snap::Grid;
use crate::cpu::tables::{BIAS, from_bf16, to_bf16};
use crate::format::e8m0::{self, ScaleRule};
use crate::format::{Format, encode};

/// A, row-major M × K, as the caller has it.
#[derive(Clone, Copy, Debug)]
pub enum Activation<'a> {
    /// f32 values. They are rounded to bf16 unless the problem quantises further.
    F32(&'a [f32]),
    /// bf16 bits.
    Bf16(&'a [u16]),
}

impl Activation<'_> {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Activation::F32(values) => values.len(),
            Activation::Bf16(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to 32 elements of a row from `start`, zeros after them.
    fn block(&self, start: usize, length: usize) -> [f32; BLOCK] {
        let mut block = [0.0; BLOCK];
        match self {
            Activation::F32(values) => block[..length].copy_from_slice(&values[start..start + length]),
            Activation::Bf16(values) => {
                for (to, from) in block.iter_mut().zip(&values[start..start + length]) {
                    *to = from_bf16(*from);
                }
            }
        }
        block
    }
}

/// How to pack one activation.
#[derive(Clone, Copy)]
pub(super) struct Packing {
    /// The format A is multiplied in.
    pub(super) format: Format,
    /// What the kernels read.
    pub(super) slots: Slots,
    /// The contracted dimension.
    pub(super) k: usize,
}

impl Packing {
    /// Whether blocks carry a scale.
    pub(super) fn scaled(&self) -> bool {
        self.format.is_mx()
    }

    /// Whether each row has an f32 scale.
    pub(super) fn token_scaled(&self) -> bool {
        !self.format.is_mx() && self.format != Format::Bf16
    }

    /// 32-bit words of one row.
    pub(super) fn row_words(&self) -> usize {
        self.k.div_ceil(BLOCK) * self.slots.words(self.scaled())
    }

    /// Packs rows `first..first + rows` into a tile of `tile_rows`, and their scales if they have any.
    pub(super) fn tile(
        &self,
        activation: Activation<'_>,
        first: usize,
        rows: usize,
        tile_rows: usize,
        out: &mut [u32],
        token_scales: &mut [f32],
    ) {
        if rows < tile_rows {
            out.fill(0);
        }
        let block_words = self.slots.words(self.scaled()) * tile_rows;
        for row in 0..rows {
            let start = (first + row) * self.k;
            let mut token_scale = 1.0;
            if self.token_scaled() {
                token_scale = self.token_scale(activation, start);
                token_scales[row] = token_scale;
            }
            for (block, out) in out.chunks_exact_mut(block_words).enumerate() {
                let length = BLOCK.min(self.k - block * BLOCK);
                let values = activation.block(start + block * BLOCK, length);
                self.block(&values, token_scale, |slot, word| out[slot * tile_rows + row] = word);
            }
        }
    }

    fn token_scale(&self, activation: Activation<'_>, start: usize) -> f32 {
        let amax = (0..self.k).step_by(BLOCK).fold(0f32, |amax, k| {
            amax.max(encode::finite_amax(&activation.block(start + k, BLOCK.min(self.k - k))))
        });
        encode::scale_of(amax, self.format)
    }

    /// Quantises 32 values of a row and gives its words, by slot.
    #[inline]
    fn block(&self, values: &[f32; BLOCK], token_scale: f32, mut put: impl FnMut(usize, u32)) {
        if self.format == Format::Bf16 {
            return self.elements(&values.map(to_bf16), put);
        }
        let grid = Grid::of(self.format);
        if !self.scaled() {
            let element = |value: f32| {
                if value.is_finite() { exact_bf16(grid.nearest(value / token_scale)) } else { QUIET_NAN }
            };
            return self.elements(&values.map(element), put);
        }
        let amax = values.iter().map(|value| value.to_bits() & 0x7fff_ffff).max().unwrap_or(0);
        let scale = ScaleRule::Ocp.scale(f32::from_bits(amax), self.format);
        let elements = if scale == e8m0::NAN {
            [0.0; BLOCK]
        } else {
            let factor = e8m0::reciprocal(scale);
            values.map(|value| grid.nearest(value * factor))
        };
        let exponent = i32::from(scale) - 127;
        let words = self.slots.words(true);
        let nan = |factor: f32| if scale == e8m0::NAN { f32::NAN } else { factor };
        put(words - 1, nan(power(exponent - exponent / 2)).to_bits());
        if self.slots != Slots::Bytes {
            put(words - 2, nan(power(exponent / 2)).to_bits());
            return self.elements(&elements.map(exact_bf16), put);
        }
        // The weight was multiplied by 2^3, the activation by 2^3 or 2^6.
        let steps = self.format.codec().fraction_bits();
        put(words - 2, nan(power(exponent / 2 - 3 - steps)).to_bits());
        let bytes = elements.map(|element| (element * power(steps)) as i32);
        for (group, bytes) in bytes.chunks_exact(4).enumerate() {
            put(group, u32::from_le_bytes([0, 1, 2, 3].map(|r| bytes[r] as i8 as u8)));
        }
        put(BLOCK / 4, (-BIAS * bytes.iter().sum::<i32>()) as u32);
    }

    #[inline]
    fn elements(&self, bits: &[u16; BLOCK], mut put: impl FnMut(usize, u32)) {
        for pair in 0..BLOCK / 2 {
            // Pair vectors hold k = 4g, 4g+2, then 4g+1, 4g+3.
            let k = pair / 2 * 4 + pair % 2;
            let (first, second) = (u32::from(bits[k]), u32::from(bits[k + 2]));
            if self.slots == Slots::Pairs {
                put(pair, first | second << 16);
            } else {
                put(2 * pair, first << 16);
                put(2 * pair + 1, second << 16);
            }
        }
    }
}

const QUIET_NAN: u16 = 0x7fc0;

/// The bits of a value that is a bf16 number.
fn exact_bf16(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

/// 2^`exponent`, for exponents of normal numbers.
const fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}
