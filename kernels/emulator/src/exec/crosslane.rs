//! Data moving between lanes: DPP, and the small functions that other units share.

use crate::isa::{Dpp, LANES, Lanes, Wide};

/// Errors for a DPP control that is not modelled.
pub(crate) fn check_dpp(control: u16) -> Result<(), String> {
    match control {
        0..=0xff
        | 0x101..=0x10f
        | 0x111..=0x11f
        | 0x121..=0x12f
        | 0x130
        | 0x134
        | 0x138
        | 0x13c
        | 0x140..=0x143
        | 0x150..=0x15f => Ok(()),
        _ => Err(format!("DPP control {control:#x} is reserved")),
    }
}

/// The lane that `lane` reads, or none if it lies outside the row (or the wave).
fn dpp_source(control: u16, lane: usize) -> Option<usize> {
    let (row, within, n) = (lane & !15, lane & 15, usize::from(control & 15));
    match control {
        0..=0xff => Some(lane & !3 | usize::from(control >> (2 * (lane & 3)) & 3)),
        0x101..=0x10f => (within + n < 16).then_some(lane + n),
        0x111..=0x11f => (within >= n).then(|| lane - n),
        0x121..=0x12f => Some(row | (within + 16 - n) & 15),
        0x130 => (lane < 63).then_some(lane + 1),
        0x134 => Some((lane + 1) & 63),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) & 63),
        0x140 => Some(row | (15 - within)),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        0x142 => row.checked_sub(1),
        0x143 => (lane >= 32).then_some(31),
        _ => Some(row | n),
    }
}

/// A source whose lane is inactive counts as outside.
fn active_source(dpp: Dpp, lane: usize, exec: u64) -> Option<usize> {
    dpp_source(dpp.control, lane).filter(|&source| exec >> source & 1 == 1)
}

/// The lanes that a DPP instruction writes.
pub(crate) fn dpp_mask(dpp: Dpp, exec: u64) -> u64 {
    (0..LANES)
        .filter(|&lane| {
            exec >> lane & 1 == 1
                && dpp.row_mask >> (lane / 16) & 1 == 1
                && dpp.bank_mask >> (lane % 16 / 4) & 1 == 1
                && (dpp.bound_control || active_source(dpp, lane, exec).is_some())
        })
        .fold(0, |mask, lane| mask | 1 << lane)
}

/// The values that DPP delivers; 0 from outside.
pub(crate) fn dpp(x: &Lanes, dpp: Dpp, exec: u64) -> Lanes {
    std::array::from_fn(|lane| active_source(dpp, lane, exec).map_or(0, |source| x[source]))
}

/// As [`dpp`] for register pairs.
pub(crate) fn dpp_wide(x: &Wide, dpp: Dpp, exec: u64) -> Wide {
    std::array::from_fn(|lane| active_source(dpp, lane, exec).map_or(0, |source| x[source]))
}

/// `v_perm_b32`: each selector byte picks a byte of {a, b}, a sign, 0 or 0xff.
pub(crate) fn permute_bytes(a: u32, b: u32, selector: u32) -> u32 {
    let data = u64::from(a) << 32 | u64::from(b);
    (0..4).fold(0, |d, i| {
        let byte = match selector >> (8 * i) & 0xff {
            s @ 0..=7 => (data >> (8 * s)) as u32 & 0xff,
            s @ 8..=11 => {
                let sign = data >> (16 * (s - 8) + 15) & 1;
                if sign == 1 { 0xff } else { 0 }
            }
            12 => 0,
            _ => 0xff,
        };
        d | byte << (8 * i)
    })
}

/// `v_mbcnt_lo`: bits of the mask below the lane, in the low half.
pub(crate) fn count_below_low(mask: &Lanes, add: &Lanes, d: &mut Lanes) {
    for i in 0..LANES {
        let below = if i < 32 { (1u32 << i) - 1 } else { u32::MAX };
        d[i] = (mask[i] & below).count_ones().wrapping_add(add[i]);
    }
}

/// `v_mbcnt_hi`: the same for the high half.
pub(crate) fn count_below_high(mask: &Lanes, add: &Lanes, d: &mut Lanes) {
    for i in 0..LANES {
        let below = if i > 32 { (1u32 << (i - 32)) - 1 } else { 0 };
        d[i] = (mask[i] & below).count_ones().wrapping_add(add[i]);
    }
}

/// The lane that `ds_swizzle` reads, within groups of 32 (or 4).
pub(crate) fn swizzle_source(offset: u16, lane: usize) -> Option<usize> {
    if offset & 0x8000 != 0 {
        // The upper patterns (0xe000 on) are rotations and bit reversals that no compiler emits for these kernels.
        return (offset < 0xe000).then(|| lane & !3 | usize::from(offset >> (2 * (lane & 3)) & 3));
    }
    let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
    Some(lane & 32 | ((lane as u16 & 31) & and | or) as usize ^ usize::from(xor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpp_controls_read_the_documented_lanes() {
        let table =
            |control: u16| -> Vec<Option<usize>> { (0..64).map(|l| dpp_source(control, l)).collect() };
        assert_eq!(&table(0b00_01_10_11)[..5], &[Some(3), Some(2), Some(1), Some(0), Some(7)]);
        assert_eq!(table(0x101)[14..17], [Some(15), None, Some(17)]);
        assert_eq!(table(0x112)[15..19], [Some(13), None, None, Some(16)]);
        assert_eq!(table(0x121)[16..18], [Some(31), Some(16)]);
        assert_eq!(table(0x140)[16], Some(31));
        assert_eq!(table(0x141)[8], Some(15));
        assert_eq!(table(0x142)[0..1], [None]);
        assert_eq!(
            table(0x142)[16..33].iter().flatten().copied().collect::<Vec<_>>()[..17],
            [[15; 16].as_slice(), &[31]].concat()
        );
        assert_eq!(table(0x143)[31..33], [None, Some(31)]);
        assert_eq!(table(0x153)[40], Some(35));
        assert!(check_dpp(0x144).is_err() && check_dpp(0x100).is_err());
    }

    #[test]
    fn lanes_that_dpp_masks_or_cannot_feed_are_not_written() {
        let dpp = Dpp { control: 0x111, bound_control: false, bank_mask: 15, row_mask: 0b0101 };
        let mask = dpp_mask(dpp, u64::MAX);
        assert_eq!(mask, 0x0000_fffe_0000_fffe);
        assert_eq!(dpp_mask(Dpp { bound_control: true, ..dpp }, u64::MAX), 0x0000_ffff_0000_ffff);
        assert_eq!(dpp_mask(Dpp { bank_mask: 0b0010, ..dpp }, u64::MAX), 0x0000_00f0_0000_00f0);
        // Lane 3 is inactive, so lane 4 has nothing to read.
        assert_eq!(dpp_mask(Dpp { row_mask: 1, ..dpp }, 0xff & !8), 0b1110_0110);
    }

    #[test]
    fn bytes_are_permuted_by_selector() {
        assert_eq!(permute_bytes(0x7766_5544, 0x3322_1100, 0x0706_0100), 0x7766_1100);
        assert_eq!(permute_bytes(0x8000_0000, 0x0000_8000, 0x0c0d_0b08), 0x00ff_ffff);
    }

    #[test]
    fn swizzles_stay_within_their_group() {
        assert_eq!(swizzle_source(0x1f | 1 << 10, 33), Some(32));
        assert_eq!(swizzle_source(0x8000 | 0b00_00_00_11, 4), Some(7));
        assert_eq!(swizzle_source(0xe000, 0), None);
    }
}
