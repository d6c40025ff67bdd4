//! The block-diagonal 32-point Hadamard rotation along K.
//!
//! H is the Walsh–Hadamard matrix in natural (Sylvester) order, scaled by 1/√32 to be orthonormal; it is symmetric, so
//! it is its own inverse. Rotating both operands leaves A·Bᵀ as it is, (A·H)·(B·H)ᵀ = A·Bᵀ, and spreads an outlier
//! over the 32 elements that share its scale (QuaRot, arXiv 2404.00456; AITER's MXFP6 path).

use core::ops::{Add, Sub};

use crate::format::e8m0::ScaleRule;
use crate::format::{Format, MX_BLOCK, aiter};

/// 1/√32 = 1/(4·√2), the nearest f32.
pub const ORTHONORMAL: f32 = core::f32::consts::FRAC_1_SQRT_2 / 4.0;

/// Rotates one block in place, in f32.
pub fn rotate(block: &mut [f32; MX_BLOCK]) {
    butterflies(block);
    for value in block {
        *value *= ORTHONORMAL;
    }
}

/// Rotates one block in place in AITER's arithmetic: values rounded to bf16, times a matrix rounded to bf16, summed in
/// f32. That matrix is orthonormal only to 1e-4.
pub fn rotate_aiter(block: &mut [f32; MX_BLOCK]) {
    for value in block.iter_mut() {
        let rounded = Format::Bf16.decode(Format::Bf16.encode(*value));
        // Exact: two 8-bit significands.
        *value = rounded * aiter::ROTATION;
    }
    butterflies(block);
}

/// Rotates every block of a row in place, in the arithmetic that goes with a scale rule.
///
/// # Panics
/// If the row is not whole blocks.
pub fn rotate_row(row: &mut [f32], rule: ScaleRule) {
    let (blocks, rest) = row.as_chunks_mut::<MX_BLOCK>();
    assert!(rest.is_empty(), "a rotation needs whole blocks of {MX_BLOCK}");
    for block in blocks {
        match rule {
            ScaleRule::Ocp => rotate(block),
            ScaleRule::Aiter => rotate_aiter(block),
        }
    }
}

/// Rotates every block of a row in place, in f64.
///
/// # Panics
/// If the row is not whole blocks.
pub fn rotate_row_f64(row: &mut [f64]) {
    let (blocks, rest) = row.as_chunks_mut::<MX_BLOCK>();
    assert!(rest.is_empty(), "a rotation needs whole blocks of {MX_BLOCK}");
    for block in blocks {
        butterflies(block);
        for value in block {
            *value *= core::f64::consts::FRAC_1_SQRT_2 / 4.0;
        }
    }
}

/// Multiplies with the matrix of ±1: five passes of sums and differences.
fn butterflies<T: Copy + Add<Output = T> + Sub<Output = T>>(block: &mut [T; MX_BLOCK]) {
    let mut half = 1;
    while half < MX_BLOCK {
        for start in (0..MX_BLOCK).step_by(2 * half) {
            for low in start..start + half {
                let (a, b) = (block[low], block[low + half]);
                block[low] = a + b;
                block[low + half] = a - b;
            }
        }
        half *= 2;
    }
}
