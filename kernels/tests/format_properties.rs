//! What holds of every format, whatever the values.

use proptest::prelude::*;
use tilewright_kernels::format::e8m0::{self, ScaleRule};
use tilewright_kernels::format::quantize::{QuantizeError, QuantizeOptions, Quantized};
use tilewright_kernels::format::{MX_BLOCK, aiter, hadamard, pack};
use tilewright_kernels::{Format, Scaling};

const OCP: QuantizeOptions = QuantizeOptions { rule: ScaleRule::Ocp, hadamard: false };

fn any_format() -> impl Strategy<Value = Format> {
    prop::sample::select(Format::ALL)
}

fn narrow_format() -> impl Strategy<Value = Format> {
    any_format().prop_filter("bf16 has no blocks", |format| *format != Format::Bf16)
}

/// Any finite f32, all magnitudes alike.
fn finite() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |value| value.is_finite())
}

/// A matrix of a few rows of whole blocks whose magnitudes vary from block to block.
fn matrix() -> impl Strategy<Value = (usize, usize, Vec<f32>)> {
    (1..5_usize, 1..4_usize).prop_flat_map(|(rows, blocks)| {
        let block =
            (-60..60_i32, prop::collection::vec(-1.0..1.0_f32, MX_BLOCK)).prop_map(|(exponent, block)| {
                block.into_iter().map(|value| value * 2.0_f32.powi(exponent)).collect::<Vec<_>>()
            });
        prop::collection::vec(block, rows * blocks)
            .prop_map(move |matrix| (rows, blocks * MX_BLOCK, matrix.concat()))
    })
}

#[test]
fn encoding_a_decoded_code_gives_it_back() {
    for &format in Format::ALL {
        for code in 0..1_u32 << format.bits() {
            let code = code as u16;
            let value = format.decode(code);
            let expected = match value {
                _ if value.is_nan() => continue,
                // Two's complement has one more negative number, which is never made.
                _ if format == Format::MxInt8 && code == 0x80 => 0x81,
                // E5M2 has infinities, and encoding saturates.
                _ if value.is_infinite() && format != Format::Bf16 => {
                    format.encode(format.max().copysign(value))
                }
                _ => code,
            };
            assert_eq!(format.encode(value), expected, "{format} {code:#x}");
        }
    }
}

#[test]
fn the_largest_elements_are_those_of_the_specifications() {
    let largest = Format::ALL.iter().map(|&format| (format.max(), format.emax()));
    let bf16 = f32::from_bits(0x7f7f_0000);
    let expected = [
        (bf16, 127),
        (448., 8),
        (240., 7),
        (57344., 15),
        (448., 8),
        (7.5, 2),
        (28., 4),
        (6., 2),
        (1.984375, 0),
    ];
    assert!(largest.eq(expected));
}

#[test]
fn codecs_and_tables_work_at_compile_time() {
    const HALF: u16 = Format::MxFp6E2m3.encode(0.5);
    const VALUE: f32 = Format::MxFp6E2m3.decode(HALF);
    const { assert!(VALUE == 0.5) };
}

#[test]
fn what_is_not_a_number_is_kept_or_made_the_largest() {
    let nans = Format::ALL.iter().map(|format| format.encode(f32::NAN));
    assert!(nans.eq([0x7fc0, 0x7f, 0x80, 0x7e, 0x7f, 0x1f, 0x1f, 0x7, 0x7f]));
    let infinities = Format::ALL.iter().map(|format| format.encode(f32::NEG_INFINITY));
    assert!(infinities.eq([0xff80, 0xfe, 0xff, 0xfb, 0xfe, 0x3f, 0x3f, 0xf, 0x81]));
    let zeros = Format::ALL.iter().map(|format| format.encode(-0.0));
    assert!(zeros.eq([0x8000, 0x80, 0, 0x80, 0x80, 0x20, 0x20, 0x8, 0]));
}

#[test]
fn a_scale_is_the_power_of_two_that_brings_amax_into_the_top_binade() {
    for &format in Format::ALL.iter().filter(|format| format.is_mx()) {
        let scale = |amax: f32| i32::from(ScaleRule::Ocp.scale(amax, format)) - 127;
        assert_eq!(scale(1.0), -format.emax());
        assert_eq!(scale(2.0_f32.next_down()), -format.emax());
        assert_eq!(scale(f32::MAX), 127 - format.emax());
        assert_eq!(scale(f32::from_bits(1)), -127);
        assert_eq!(scale(0.0), 0);
        assert_eq!(ScaleRule::Ocp.scale(f32::INFINITY, format), e8m0::NAN);
        assert_eq!(ScaleRule::Ocp.scale(f32::NAN, format), e8m0::NAN);
    }
    let aiter =
        |exponent: i32| i32::from(ScaleRule::Aiter.scale(2.0_f32.powi(exponent), Format::MxFp6E2m3)) - 127;
    assert_eq!([-99, -100, -101, -126].map(aiter), [-101, -102, -102, -102]);
}

#[test]
fn aiter_rounds_half_away_from_zero_where_ocp_rounds_to_even() {
    // Halfway between codes 0 and 1, 2 and 3, and the first two of the binade at 2.
    for (tie, away, even) in [(0.0625, 1, 0), (0.3125, 3, 2), (2.125, 17, 16), (-0.0625, 33, 32)] {
        assert_eq!(aiter::encode_e2m3(tie), away, "{tie}");
        assert_eq!(Format::MxFp6E2m3.encode(tie), even, "{tie}");
    }
    assert_eq!(aiter::encode_e2m3(-0.0), 0);
    assert_eq!(aiter::encode_e2m3(-1e-9), 32);
    assert_eq!(aiter::encode_e2m3(7.99), 31);
    for code in 0..64 {
        let value = Format::MxFp6E2m3.decode(code);
        assert_eq!(u16::from(aiter::encode_e2m3(value)), if code == 32 { 0 } else { code });
    }
}

#[test]
fn six_bit_codes_are_one_little_endian_stream() {
    let codes: [u8; MX_BLOCK] = std::array::from_fn(|i| i as u8 * 2 + 1);
    let mut packed = [0; 24];
    pack::pack_block(&codes, Format::MxFp6E2m3, &mut packed);
    let stream = packed.iter().rev().fold(String::new(), |bits, byte| bits + &format!("{byte:08b}"));
    for (index, code) in codes.iter().enumerate() {
        let end = stream.len() - 6 * index;
        assert_eq!(stream[end - 6..end], format!("{code:06b}"), "element {index}");
    }
}

#[test]
fn non_finite_values_are_nan_and_leave_their_neighbours_alone() {
    let mut values = vec![1.0_f32; 2 * MX_BLOCK];
    (values[3], values[5]) = (f32::INFINITY, f32::NAN);
    for &format in Format::ALL {
        let usual = Scaling::usual(format);
        let made = Quantized::quantize(&values, 1, values.len(), format, usual, &OCP).expect("fits");
        let row: Vec<f64> = (0..values.len()).map(|k| made.element(0, k)).collect();
        let expected = |k: usize| match k {
            3 if format == Format::Bf16 => f64::INFINITY,
            3 | 5 => f64::NAN,
            _ if format.is_mx() && k < MX_BLOCK => f64::NAN,
            _ => 1.0,
        };
        for (k, &value) in row.iter().enumerate() {
            let near = (value - expected(k)).abs() < 1e-6;
            assert!(
                near || value == expected(k) || (value.is_nan() && expected(k).is_nan()),
                "{format} {k}: {value}"
            );
        }
    }
}

#[test]
fn zeros_and_the_smallest_numbers_have_usable_scales() {
    for scaling in [Scaling::Tensor, Scaling::Channel] {
        let made = |value: f32| {
            Quantized::quantize(&[value; 3], 1, 3, Format::Fp8E4m3, scaling, &OCP).expect("fits").scales[0]
        };
        assert_eq!(made(0.0), 1.0);
        assert_eq!(made(f32::INFINITY), 1.0);
        assert_eq!(made(1e-45), f32::MIN_POSITIVE);
        assert_eq!(made(-448.0), 1.0);
        assert_eq!(made(f32::MAX), f32::MAX / 448.0);
    }
}

#[test]
fn what_does_not_fit_is_an_error_that_says_so() {
    let quantize = |len: usize, rows, k, format, scaling, options| {
        let values = vec![1.0; len];
        Quantized::quantize(&values, rows, k, format, scaling, &options)
            .expect_err("does not fit")
            .to_string()
    };
    let aiter = QuantizeOptions { rule: ScaleRule::Aiter, hadamard: false };
    let rotated = QuantizeOptions { hadamard: true, ..OCP };
    let errors = [
        quantize(63, 2, 32, Format::MxFp4, Scaling::Block32, OCP),
        quantize(66, 2, 33, Format::MxFp4, Scaling::Block32, OCP),
        quantize(66, 2, 33, Format::Bf16, Scaling::None, rotated),
        quantize(64, 2, 32, Format::MxFp4, Scaling::Channel, OCP),
        quantize(64, 2, 32, Format::MxFp4, Scaling::Block32, aiter),
    ];
    assert_eq!(
        errors,
        [
            "63 values given for 2 rows of 32",
            "K = 33 is not a multiple of 32, which mxfp4 needs",
            "K = 33 is not a multiple of 32, which the rotation needs",
            "mxfp4 has no scales of granularity channel",
            "scale rule aiter is not defined for mxfp4",
        ]
    );
    let overflow = Quantized::quantize(&[], usize::MAX, 2, Format::Bf16, Scaling::None, &OCP);
    assert_eq!(overflow, Err(QuantizeError::Length { rows: usize::MAX, k: 2, given: 0 }));
}

#[test]
fn the_rotation_is_its_own_inverse_and_keeps_the_norm() {
    let block: [f32; MX_BLOCK] = std::array::from_fn(|i| (i as f32 * 0.7).sin() * 3.0);
    let mut rotated = block;
    hadamard::rotate(&mut rotated);
    let norm = |block: &[f32; MX_BLOCK]| block.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    assert!((norm(&rotated) / norm(&block) - 1.0).abs() < 1e-6);
    assert_ne!(rotated, block);
    hadamard::rotate(&mut rotated);
    for (back, value) in rotated.iter().zip(block) {
        assert!((back - value).abs() < 1e-6, "{back} {value}");
    }
}

#[test]
fn the_rotation_spreads_an_outlier_evenly_with_walsh_signs() {
    for outlier in 0..MX_BLOCK {
        let mut block = [0.0; MX_BLOCK];
        block[outlier] = 4.0;
        let mut wide = block.map(f64::from);
        hadamard::rotate(&mut block);
        hadamard::rotate_row_f64(&mut wide);
        for (index, value) in block.iter().enumerate() {
            let sign: f32 = if (index & outlier).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
            assert_eq!(*value, sign * 4.0 * hadamard::ORTHONORMAL, "{outlier} {index}");
            assert!((wide[index] - f64::from(sign) * 4.0 / 32.0_f64.sqrt()).abs() < 1e-15);
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    // Large enough to be shared out; each row alone is not.
    let (rows, k) = (67, 16384);
    let values: Vec<f32> = (0..rows * k).map(|i| ((i * 7919) % 10007) as f32 - 5003.0).collect();
    for format in [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E3m2, Format::MxFp4] {
        let usual = Scaling::usual(format);
        let whole = Quantized::quantize(&values, rows, k, format, usual, &OCP).expect("fits");
        for row in [0, 16, 33, 34, 66] {
            let alone =
                Quantized::quantize(&values[row * k..][..k], 1, k, format, usual, &OCP).expect("fits");
            assert_eq!(whole.row_codes(row), alone.row_codes(0), "{format} {row}");
            assert_eq!(whole.scale(row, k - 1), alone.scale(0, k - 1), "{format} {row}");
        }
    }
}

proptest! {
    #[test]
    fn encoding_is_monotonic_and_odd(format in any_format(), x in finite(), y in finite()) {
        let value = |x: f32| format.decode(format.encode(x));
        let (low, high) = if x <= y { (x, y) } else { (y, x) };
        prop_assert!(value(low) <= value(high));
        prop_assert_eq!(value(-x), -value(x));
    }

    #[test]
    fn no_code_is_nearer_than_the_one_chosen(format in narrow_format(), exponent in -20..20_i32, x in -1.0..1.0_f32) {
        let x = x * 2.0_f32.powi(exponent);
        let distance = |value: f32| (f64::from(value) - f64::from(x)).abs();
        let chosen = distance(format.decode(format.encode(x)));
        let table = format.table().expect("narrow");
        let nearest = table.iter().filter(|v| v.abs() <= format.max()).map(|v| distance(*v)).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(chosen, nearest);
    }

    #[test]
    fn packed_codes_are_read_back(format in any_format(), codes in prop::collection::vec(any::<u16>(), 1..100)) {
        let mask = ((1_u32 << format.bits()) - 1) as u16;
        let mut packed = vec![0xa5; format.row_bytes(codes.len())];
        for (index, &code) in codes.iter().enumerate().rev() {
            pack::set(&mut packed, format, index, code);
        }
        for (index, &code) in codes.iter().enumerate() {
            prop_assert_eq!(pack::get(&packed, format, index), code & mask);
        }
    }

    #[test]
    fn blocks_are_packed_as_single_elements_are(format in narrow_format(), codes in any::<[u8; MX_BLOCK]>()) {
        let codes = codes.map(|code| code & ((1_u32 << format.bits()) - 1) as u8);
        let mut packed = vec![0; format.row_bytes(MX_BLOCK)];
        pack::pack_block(&codes, format, &mut packed);
        for (index, &code) in codes.iter().enumerate() {
            prop_assert_eq!(pack::get(&packed, format, index), u16::from(code));
        }
        let mut unpacked = [0xff; MX_BLOCK];
        pack::unpack_block(&packed, format, &mut unpacked);
        prop_assert_eq!(unpacked, codes);
    }

    #[test]
    fn a_quantised_matrix_is_near_and_rows_read_as_elements_do(format in any_format(), (rows, k, values) in matrix()) {
        let made = Quantized::quantize(&values, rows, k, format, Scaling::usual(format), &OCP).expect("fits");
        let mut read = vec![0.0; k];
        let half_step = 0.5 * 2.0_f64.powi(-(format.codec().mantissa_bits as i32));
        for row in 0..rows {
            made.dequantize_row_f64(row, &mut read);
            for i in 0..k {
                prop_assert_eq!(read[i], made.element(row, i));
                let (value, scale) = (f64::from(values[row * k + i]), made.scale(row, i));
                // The OCP rule saturates what lies between the largest element and the next power of two.
                let clipped = value.clamp(-f64::from(format.max()) * scale, f64::from(format.max()) * scale);
                let smallest = f64::from(format.decode(1)) * scale;
                let error = (read[i] - clipped).abs();
                let allowed = (half_step * clipped.abs()).max(smallest / 2.0) * (1.0 + 1e-6);
                prop_assert!(error <= allowed, "{} {} {}: {} for {}", format, row, i, read[i], value);
            }
        }
    }

    #[test]
    fn quantising_what_was_quantised_changes_nothing(format in any_format(), (rows, k, values) in matrix()) {
        let scaling = Scaling::usual(format);
        let once = Quantized::quantize(&values, rows, k, format, scaling, &OCP).expect("fits");
        let back: Vec<f32> =
            (0..rows * k).map(|i| once.element(i / k, i % k) as f32).collect();
        let twice = Quantized::quantize(&back, rows, k, format, scaling, &OCP).expect("fits");
        for i in 0..rows * k {
            let (first, second) = (once.element(i / k, i % k), twice.element(i / k, i % k));
            prop_assert!((first - second).abs() <= 1e-6 * first.abs(), "{} {}: {} {}", format, i, first, second);
        }
    }
}
