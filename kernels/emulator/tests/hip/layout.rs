//! The layout `mfma16` against its documentation, element by element.

use crate::harness::Case;
use tilewright_kernels::format::e8m0::ScaleRule;
use tilewright_kernels::format::quantize::QuantizeOptions;
use tilewright_kernels::hip::mfma16;
use tilewright_kernels::{Format, Layout, Problem};

/// Byte and bit of one bit of an element in a step, from the table in `mfma16`'s documentation.
fn documented(format: Format, row: usize, k: usize, bit: usize) -> (usize, usize) {
    let (j, i) = (row / 16, row % 16);
    let at =
        |plane: usize, g: usize, bit: usize| (4096 * plane + 1024 * j + 16 * (16 * g + i) + bit / 8, bit % 8);
    match format.bits() {
        16 => at(k / 32, k % 32 / 8, 16 * (k % 8) + bit),
        8 => at(k / 64, k % 64 / 16, 8 * (k % 16) + bit),
        4 => at(0, k / 32, 4 * (k % 32) + bit),
        _ => match (k / 32, 6 * (k % 32) + bit) {
            (g, bit) if bit < 128 => at(0, g, bit),
            (g, bit) => (4096 + 512 * j + 8 * (16 * g + i) + (bit - 128) / 8, bit % 8),
        },
    }
}

#[test]
fn every_code_and_scale_lies_where_mfma16_says() {
    for &format in Format::ALL {
        let case = Case::new(&Problem::new(2, 70, 288, format), Layout::Mfma16, 3);
        let (weight, parts) = (&case.weight, &case.weight_parts);
        assert_eq!(parts[0].len(), mfma16::code_bytes(format, 70, 288));
        assert_eq!(parts[1].len(), mfma16::scale_bytes(format, 70, 288));
        for row in 0..128 {
            for k in 0..384 {
                let step = row / 64 * 3 + k / 128;
                let code = (0..format.bits()).fold(0, |code, bit| {
                    let (byte, place) = documented(format, row % 64, k % 128, bit);
                    let byte = parts[0][step * mfma16::step_bytes(format) + byte];
                    code | u32::from(byte >> place & 1) << bit
                });
                let inside = row < 70 && k < 288;
                let expected = if inside { u32::from(weight.code(row, k)) } else { 0 };
                assert_eq!(code, expected, "{format} row {row} k {k}");
                if format.is_mx() {
                    let at = step * 256 + 4 * (16 * (k % 128 / 32) + row % 16) + row % 64 / 16;
                    let scale = if inside { weight.block_scales[row * 9 + k / 32] } else { 127 };
                    assert_eq!(parts[1][at], scale, "{format} row {row} k {k}");
                }
            }
        }
    }
}

#[test]
fn every_code_and_scale_lies_where_aiter_packs_it() {
    let options = QuantizeOptions { rule: ScaleRule::Aiter, hadamard: true };
    let problem = Problem { a: Format::MxFp6E2m3, ..Problem::new(2, 300, 288, Format::MxFp6E2m3) };
    let case = Case::with(&problem, Layout::C0c1, 3, &options);
    let (weight, parts) = (&case.weight, &case.weight_parts);
    // Two panels of three steps and two guards.
    assert_eq!([parts[0].len(), parts[1].len()], [2 * 5 * 24576, 2 * 5 * 1024]);
    for row in 0..512 {
        for k in 0..5 * 128 {
            let (step, rem) = (row / 256 * 5 + k / 128, row % 256);
            let lane = rem / 16 * 64 + k % 128 / 32 * 16 + rem % 16;
            let code = (0..6).fold(0, |code, bit| {
                let at = 6 * (k % 32) + bit;
                let byte = if at < 128 { lane * 16 + at / 8 } else { 16384 + lane * 8 + at / 8 - 16 };
                code | u16::from(parts[0][step * 24576 + byte] >> (at % 8) & 1) << bit
            });
            let at = step * 1024 + rem / 128 * 512 + k % 128 / 32 * 128 + rem % 16 * 8 + rem % 128 / 16;
            let inside = row < 300 && k < 288;
            let expected =
                if inside { (weight.code(row, k), weight.block_scales[row * 9 + k / 32]) } else { (0, 127) };
            assert_eq!((code, parts[1][at]), expected, "row {row} k {k}");
        }
    }
}
