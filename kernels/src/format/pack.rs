//! Dense packing of element codes.
//!
//! A row is one little-endian bit stream, first element in the lowest bits: 16-bit codes take two bytes, four 6-bit
//! codes take three, two 4-bit codes take one with the first in the low nibble. A block of 32 is 24 bytes in 6 bits
//! and 16 in 4; no code straddles more than two bytes.

use crate::format::{Format, MX_BLOCK};

/// The code of element `index` of a row.
///
/// # Panics
/// If the row is too short.
#[inline]
pub const fn get(codes: &[u8], format: Format, index: usize) -> u16 {
    match format.bits() {
        16 => u16::from_le_bytes([codes[2 * index], codes[2 * index + 1]]),
        8 => codes[index] as u16,
        4 => (codes[index / 2] >> (index % 2 * 4)) as u16 & 0xf,
        _ => {
            let (byte, shift) = (index * 6 / 8, index * 6 % 8);
            let high = if shift > 2 { codes[byte + 1] as u16 } else { 0 };
            ((codes[byte] as u16 | high << 8) >> shift) & 0x3f
        }
    }
}

/// Puts a code at element `index` of a row. Bits of the code above the format's width are ignored.
///
/// # Panics
/// If the row is too short.
#[inline]
pub const fn set(codes: &mut [u8], format: Format, index: usize, code: u16) {
    match format.bits() {
        16 => [codes[2 * index], codes[2 * index + 1]] = code.to_le_bytes(),
        8 => codes[index] = code as u8,
        4 => {
            let shift = index % 2 * 4;
            codes[index / 2] = codes[index / 2] & !(0xf << shift) | (code as u8 & 0xf) << shift;
        }
        _ => {
            let (byte, shift) = (index * 6 / 8, index * 6 % 8);
            let (mask, code) = (0x3f_u16 << shift, (code & 0x3f) << shift);
            codes[byte] = codes[byte] & !(mask as u8) | code as u8;
            if shift > 2 {
                codes[byte + 1] = codes[byte + 1] & !((mask >> 8) as u8) | (code >> 8) as u8;
            }
        }
    }
}

/// Packs one MX block of codes, one a byte, into `MX_BLOCK * bits / 8` bytes.
///
/// # Panics
/// If `packed` has another length, or the format is not one of at most 8 bits.
#[inline]
pub fn pack_block(codes: &[u8; MX_BLOCK], format: Format, packed: &mut [u8]) {
    assert_eq!(packed.len(), format.row_bytes(MX_BLOCK));
    match format.bits() {
        8 => packed.copy_from_slice(codes),
        6 => {
            for (bytes, four) in packed.chunks_exact_mut(3).zip(codes.chunks_exact(4)) {
                bytes[0] = four[0] | four[1] << 6;
                bytes[1] = four[1] >> 2 | four[2] << 4;
                bytes[2] = four[2] >> 4 | four[3] << 2;
            }
        }
        4 => {
            for (byte, two) in packed.iter_mut().zip(codes.chunks_exact(2)) {
                *byte = two[0] | two[1] << 4;
            }
        }
        bits => panic!("{bits}-bit codes have no blocks"),
    }
}

/// Unpacks one MX block into codes, one a byte: the inverse of [`pack_block`].
///
/// # Panics
/// If `packed` has another length, or the format is not one of at most 8 bits.
#[inline]
pub fn unpack_block(packed: &[u8], format: Format, codes: &mut [u8; MX_BLOCK]) {
    assert_eq!(packed.len(), format.row_bytes(MX_BLOCK));
    match format.bits() {
        8 => codes.copy_from_slice(packed),
        6 => {
            for (bytes, four) in packed.chunks_exact(3).zip(codes.chunks_exact_mut(4)) {
                four[0] = bytes[0] & 0x3f;
                four[1] = (bytes[0] >> 6 | bytes[1] << 2) & 0x3f;
                four[2] = (bytes[1] >> 4 | bytes[2] << 4) & 0x3f;
                four[3] = bytes[2] >> 2;
            }
        }
        4 => {
            for (byte, two) in packed.iter().zip(codes.chunks_exact_mut(2)) {
                two[0] = byte & 0xf;
                two[1] = byte >> 4;
            }
        }
        bits => panic!("{bits}-bit codes have no blocks"),
    }
}
