//! Filling scratch: one block of weights, decoded from panels or gathered from rows.

#[cfg(target_arch = "x86_64")]
use crate::cpu::families::Path;
use crate::cpu::gemm::Plan;
use crate::cpu::kernel::decode;
use crate::cpu::pack::{BLOCK, COLUMNS, PackedWeight, block_bytes};
use crate::cpu::tables::Tables;

/// Decodes block `at.1` of panel `at.0` into `elements` (pair vectors, or biased bytes for the integer dot) and, for MX
/// formats, its scales into `scales`. Both are aligned to a cache line.
pub(super) fn fill(
    weight: &PackedWeight,
    tables: &'static Tables,
    plan: &Plan,
    at: (usize, usize),
    elements: &mut [u8],
    scales: &mut [u8],
) {
    let packed = packed_block(weight, at);
    match packed {
        Some(packed) => fill_packed(weight, tables, plan, packed, elements),
        None => fill_row_major(weight, tables, plan, at, elements),
    }
    if weight.format().is_mx() {
        let codes = match packed {
            Some(packed) => packed[packed.len() - COLUMNS..].try_into().expect("16 scales"),
            None => decode::row_major_scales(weight, at.0, at.1),
        };
        // SAFETY: scratch scales are 64 bytes at an alignment of 64.
        let scales = unsafe { &mut *scales.as_mut_ptr().cast::<[f32; COLUMNS]>() };
        decode::scales(&codes, scales);
    }
}

/// The bytes of a block of a weight in panels.
fn packed_block(weight: &PackedWeight, (panel, block): (usize, usize)) -> Option<&[u8]> {
    let (panels, bytes) = (weight.layout().interleave()? as usize, block_bytes(weight.format()));
    let first = (panel / panels * weight.k().div_ceil(BLOCK) + block) * panels;
    Some(&weight.bytes()[(first + panel % panels) * bytes..][..bytes])
}

fn fill_packed(
    weight: &PackedWeight,
    tables: &'static Tables,
    plan: &Plan,
    packed: &[u8],
    elements: &mut [u8],
) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512(plan) {
        use crate::cpu::kernel::decode512;
        let (block, out) = (packed.as_ptr(), elements.as_mut_ptr());
        // SAFETY: the predicate checked the path's features, and both slices are one block of their kind.
        return unsafe {
            if plan.biased() {
                decode512::packed_biased(tables, block, out);
            } else {
                decode512::packed_block(weight.format(), tables, block, out);
            }
        };
    }
    if plan.biased() {
        let mut codes = [0; BLOCK * COLUMNS];
        decode::packed_codes(weight.format(), packed, &mut codes);
        return look_up_biased(&codes, tables, elements);
    }
    decode::packed_block(weight.format(), packed, pairs(elements));
}

fn fill_row_major(
    weight: &PackedWeight,
    tables: &'static Tables,
    plan: &Plan,
    (panel, block): (usize, usize),
    elements: &mut [u8],
) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512(plan) {
        use crate::cpu::kernel::decode512;
        let (at, out) = ((panel, block), elements.as_mut_ptr());
        // SAFETY: the predicate checked the path's features; the block exists and `elements` has room for it.
        if unsafe { decode512::row_major_block(weight, tables, at, plan.biased(), out) } {
            return;
        }
    }
    if plan.biased() {
        let mut codes = [0; BLOCK * COLUMNS];
        decode::row_major_codes(weight, panel, block, &mut codes);
        return look_up_biased(&codes, tables, elements);
    }
    decode::row_major_block(weight, panel, block, pairs(elements));
}

/// Whether the path's features include what `decode512` needs.
#[cfg(target_arch = "x86_64")]
fn has_avx512(plan: &Plan) -> bool {
    plan.tiling.path.caps().contains(Path::Avx512.caps())
}

fn look_up_biased(codes: &[u8], tables: &Tables, elements: &mut [u8]) {
    for (to, code) in elements.iter_mut().zip(codes) {
        *to = tables.biased[*code as usize];
    }
}

fn pairs(elements: &mut [u8]) -> &mut decode::Pairs {
    assert_eq!(elements.len(), size_of::<decode::Pairs>());
    // SAFETY: scratch elements have this size, are aligned to 64 bytes, and any bytes are valid words.
    unsafe { &mut *elements.as_mut_ptr().cast::<decode::Pairs>() }
}
