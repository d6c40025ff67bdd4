//! Filling scratch: one block of weights, decoded from panels or gathered from rows.

use crate::cpu::gemm::Plan;
use crate::cpu::kernel::decode;
use crate::cpu::pack::{BLOCK, COLUMNS, PackedWeight, block_bytes};
use crate::cpu::tables::Tables;
use crate::layout::Layout;

/// Decodes block `at.1` of panel `at.0` into `elements` (pair vectors, or biased bytes for the integer dot) and, for MX
/// formats, its scales into `scales`. Both are aligned to a cache line.
pub(super) fn fill(
    weight: &PackedWeight,
    tables: &Tables,
    plan: &Plan,
    at: (usize, usize),
    elements: &mut [u8],
    scales: &mut [u8],
) {
    let format = weight.format();
    let (panel, block) = at;
    let packed = match weight.layout().interleave() {
        None => None,
        Some(panels) => {
            let (panels, bytes) = (panels as usize, block_bytes(format));
            let first = (panel / panels * weight.k().div_ceil(BLOCK) + block) * panels;
            Some(&weight.bytes()[(first + panel % panels) * bytes..][..bytes])
        }
    };
    debug_assert_eq!(packed.is_none(), weight.layout() == Layout::RowMajor);
    if plan.biased() {
        let mut codes = [0; BLOCK * COLUMNS];
        match packed {
            Some(packed) => decode::packed_codes(format, packed, &mut codes),
            None => decode::row_major_codes(weight, panel, block, &mut codes),
        }
        for (to, code) in elements.iter_mut().zip(codes) {
            *to = tables.biased[code as usize];
        }
    } else {
        // SAFETY: scratch elements are DECODED bytes at an alignment of 64, and any bytes are valid words.
        let pairs = unsafe { &mut *elements.as_mut_ptr().cast::<decode::Pairs>() };
        match packed {
            Some(packed) => decode::packed_block(format, tables, packed, pairs),
            None => decode::row_major_block(weight, tables, panel, block, pairs),
        }
    }
    if format.is_mx() {
        let codes = match packed {
            Some(packed) => packed[packed.len() - COLUMNS..].try_into().expect("16 scales"),
            None => decode::row_major_scales(weight, panel, block),
        };
        // SAFETY: scratch scales are 64 bytes at an alignment of 64.
        let scales = unsafe { &mut *scales.as_mut_ptr().cast::<[f32; COLUMNS]>() };
        decode::scales(&codes, scales);
    }
}
