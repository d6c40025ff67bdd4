//! Unpacked operands of matrix instructions, kept while their registers hold what they were unpacked from.
//!
//! A GEMM multiplies each fragment with several others, and unpacking small floats takes as long as multiplying them. An
//! entry is found by what identifies an operand (wave, register, element, shape, scales) and holds the registers'
//! contents, which are compared: nothing has to be told when a register is written.

use super::wave::Wave;
use crate::isa::matrix_table::{Element, MatrixRow};
use crate::isa::{LANES, Lanes};

/// Entries of one operand. More than the fragments that a wave holds at a time.
const ENTRIES: usize = 64;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    wave: u32,
    first: u16,
    block: usize,
    element: Element,
    dim: usize,
    k: usize,
    scales: Option<[u8; LANES]>,
}

#[derive(Default)]
struct Entry {
    /// None before the first use.
    key: Option<Key>,
    registers: Vec<Lanes>,
    values: Vec<f32>,
}

/// The operands A or B of a workgroup's waves.
pub(super) struct Operands(Vec<Option<Box<Entry>>>);

impl Operands {
    pub(super) fn new() -> Self {
        Self((0..ENTRIES).map(|_| None).collect())
    }

    /// The operand of one block as k rows of `dim`, times the scales if there are any: from before, or by `unpack`.
    pub(super) fn get(
        &mut self,
        row: &MatrixRow,
        element: Element,
        w: &Wave,
        first: u16,
        block: usize,
        scales: Option<[u8; LANES]>,
        unpack: impl FnOnce(&mut [f32]),
    ) -> &[f32] {
        let (dim, k) = (row.dim, row.k);
        let key = Key { wave: w.id, first, block, element, dim, k, scales };
        let count = (k * dim * row.blocks / LANES * element.bits()).div_ceil(32);
        let registers = &w.vgpr[usize::from(first)..][..count];
        let slot = &mut self.0[(usize::from(first) ^ (w.id as usize * 17) ^ block) % ENTRIES];
        let entry = slot.get_or_insert_default();
        if entry.key != Some(key) || entry.registers != registers {
            entry.key = Some(key);
            entry.registers.clear();
            entry.registers.extend_from_slice(registers);
            entry.values.resize(k * dim, 0.0);
            unpack(&mut entry.values);
            if let Some(scales) = scales {
                let scales = scales.map(crate::small_float::e8m0);
                for (s, values) in entry.values.chunks_exact_mut(dim).enumerate() {
                    for (x, scale) in values.iter_mut().zip(&scales[s / 32 * dim..][..dim]) {
                        *x *= scale;
                    }
                }
            }
        }
        &entry.values
    }
}
